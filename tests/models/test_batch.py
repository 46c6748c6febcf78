"""Extraction by the batch APIs of providers, against a server that speaks their protocols."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import ExtractedRow, ExtractionReport, ModelError, UsageError
from ptc._cli._group import run_command_line
from ptc._extraction._extraction import open_extraction
from ptc.models._open import OpenModels
from ptc.testing import ScriptedModel

from .batch_server import BatchServer, Line
from .fake_server import Step

pytest.importorskip("pydantic_ai.models.batch", reason="pip install -U 'ptc-host[models]'")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning"),
]

OPENAI = "openai:gpt-4o"
ANTHROPIC = "anthropic:claude-sonnet-4-5"
KEY = "sk-batch-key-that-must-stay-secret-0123456789"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}
both = pytest.mark.parametrize("model", [OPENAI, pytest.param(ANTHROPIC, marks=pytest.mark.slow)])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    with BatchServer() as running:
        for name in [name for name in os.environ if name.startswith(("OPENAI_", "PTC_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


def documents(count: int) -> list[dict[str, str]]:
    return [{"id": f"d{n}", "text": f"Total: {n}"} for n in range(count)]


async def extract(
    model: Any, folder: Path, source: Any, **options: Any
) -> tuple[dict[str, ExtractedRow[Any]], ExtractionReport]:
    options = {"output": folder / "rows.jsonl", "batch": True, "poll_ms": 10, **options}
    models = OpenModels(model)
    with anyio.fail_after(60):
        try:
            async with open_extraction(models, source, SCHEMA, options) as rows:
                return {row.id: row async for row in rows}, rows.report
        finally:
            await models.aclose()


def objects(rows: dict[str, ExtractedRow[Any]]) -> dict[str, Any]:
    return {name: row.object for name, row in rows.items()}


def right(count: int) -> dict[str, Any]:
    return {f"d{n}": {"total": n} for n in range(count)}


@both
async def test_documents_are_one_batch_and_repairs_the_next(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    def react(number: str, tries: int) -> Line:
        if number == "3" and tries == 1:
            return Line(Step(args='{"total": "many"}'))
        # Damage that needs no second answer.
        return Line(Step(text="```json\n{'total': 4,}\n```")) if number == "4" else Line()

    server.react = react
    rows, report = await extract(model, tmp_path, documents(12))
    assert objects(rows) == right(12)
    assert [len(batch.items) for batch in server.batches] == [12, 1]
    assert (rows["d3"].attempts, rows["d4"].attempts) == (2, 1)
    assert (report.usage.requests, report.usage.input_tokens) == (13, 130)
    assert report.batches is not None
    assert report.batches.open == 0
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]
    # The documents are not left at the provider.
    assert server.files == {}
    assert server.answered.total() == 13


@pytest.mark.slow
@both
async def test_failed_and_expired_requests_have_the_next_batch_and_others_their_reason(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    first = {"1": Line(status=500), "2": Line(unrun="expired"), "3": Line(status=429)}
    always = {
        "4": Line(status=400),
        "5": Line(unrun="canceled"),
        "6": Line(missing=True),
        "7": Line(unrun="expired"),
    }
    tried: Counter[str] = Counter()

    def react(number: str, _: int) -> Line:
        tried[number] += 1
        return always.get(number) or (first if tried[number] == 1 else {}).get(number, Line())

    server.react = react
    rows, report = await extract(model, tmp_path, documents(9))
    found = {name: (row.status, row.error and row.error.reason) for name, row in rows.items()}
    assert found == {
        **{f"d{n}": ("done", None) for n in (0, 1, 2, 3, 8)},
        "d4": ("dead", "model_failed"),
        "d5": ("failed", "model_failed"),
        "d6": ("dead", "no_result"),
        "d7": ("failed", "model_failed"),
    }
    assert (tried["1"], tried["6"], tried["7"]) == (2, 1, 3)
    assert "cancelled in the batch" in str(rows["d5"].error)
    assert report.retries == 5


@pytest.mark.slow
@both
async def test_hostile_result_lines_cost_only_their_own_request(
    server: BatchServer, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptc.models._batch_providers.MAX_LINE_BYTES", 10_000)
    server.extra = [
        b"not json",
        b"[]",
        b'{"custom_id": 7, "response": 1, "result": 1}',
        b'{"custom_id": [7], "error": {"code": "x"}, "result": {"type": "expired"}}',
        b"[" * 9_000,
        b"\xff\xfe",
        b'{"custom_id": "x", "result": {"type": "expired"}, "error": {"code": "batch_expired"}}',
        b" " * 20_000,
        b"",
    ]
    server.react = lambda number, _: {
        "1": Line(raw=b'{"custom_id": "' + b"a" * 30_000),
        "2": Line(raw=b"{}"),
        "3": Line(Step(text="\u2028" * 3 + '{"total": 3}\x85')),
    }.get(number, Line())
    rows, report = await extract(model, tmp_path, documents(5))
    assert {name: row.status for name, row in rows.items()} == {
        "d0": "done", "d1": "dead", "d2": "dead", "d3": "done", "d4": "done",
    }  # fmt: skip
    assert rows["d1"].error is not None
    assert rows["d1"].error.reason == "no_result"
    assert report.batches is not None
    assert report.batches.ignored_lines == 10


@pytest.mark.slow
@both
async def test_succeeded_result_of_another_form_is_a_dead_row(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    server.forge = b'{"id": 1, "output": [{"type": 5}, 7, null], "content": {"text": "x"}}'
    rows, _ = await extract(model, tmp_path, documents(2))
    assert {row.status for row in rows.values()} == {"dead"}
    assert {row.error.reason for row in rows.values() if row.error} == {"no_result"}
    # The answer is right, but not its usage, which a budget would be computed from.
    forged: list[Any] = [{"input_tokens": "x", "output_tokens": [1]}, -5, {"input_tokens": -7}]
    for number, usage in enumerate(forged):
        text = {"type": "text", "text": '{"total": 0}'}
        part = {**text, "type": "output_text", "annotations": []}
        message = {"type": "message", "id": "m", "role": "assistant", "content": [part]}
        server.forge = json.dumps(
            {
                "id": "r",
                "object": "response",
                "created_at": 1,
                "model": "gpt-4o",
                "status": "completed",
                "output": [message],
                "type": "message",
                "role": "assistant",
                "content": [text],
                "stop_reason": "end_turn",
                "usage": usage,
            }
        ).encode()
        (tmp_path / str(number)).mkdir()
        rows, report = await extract(model, tmp_path / str(number), documents(2))
        assert {row.status for row in rows.values()} <= {"done", "dead"}, usage
        assert report.usage.input_tokens >= 0


@both
async def test_lost_answer_to_a_submission_does_not_pay_twice(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    server.on_create = lambda count: {1: "lost", 2: "lost"}.get(count)
    rows, _ = await extract(model, tmp_path, documents(4))
    assert objects(rows) == right(4)
    assert set(server.answered.values()) == {1}


@pytest.mark.slow
@both
async def test_submission_that_did_not_arrive_or_was_refused_for_now_is_repeated(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    reactions: dict[int, str | int] = {1: "nothing", 2: 429}
    server.on_create = reactions.get
    rows, _ = await extract(model, tmp_path, documents(4))
    assert objects(rows) == right(4)
    assert set(server.answered.values()) == {1}


@pytest.mark.slow
@both
async def test_refused_key_stops_the_extraction_and_is_in_no_text(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    server.on_create = lambda _: 401
    with pytest.raises(ModelError) as raised:
        await extract(model, tmp_path, documents(4))
    assert raised.value.status == 401
    assert KEY not in str(raised.value)
    for file in tmp_path.iterdir():
        assert KEY not in file.read_text()
    # Later, with a right key, nothing is searched or lost.
    server.on_create = lambda _: None
    rows, _ = await extract(model, tmp_path, documents(4))
    assert objects(rows) == right(4)
    assert not [call for call in server.calls if call.endswith("GET /v1/batches")]


@pytest.mark.slow
@both
async def test_failing_looks_at_a_batch_and_broken_downloads_are_repeated(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    server.fail_calls = lambda path, count: 500 if count in (1, 2, 3, 6, 7, 8) else None
    rows, _ = await extract(model, tmp_path, documents(4))
    assert objects(rows) == right(4)
    assert server.requests() == 4


@pytest.mark.slow
async def test_failed_openai_batch_stops_with_its_reason(
    server: BatchServer, tmp_path: Path
) -> None:
    server.fail_batch = lambda _: "model_not_found"
    with pytest.raises(ModelError, match=r"the batch failed: .*model_not_found: too much"):
        await extract(OPENAI, tmp_path, documents(2))
    assert not server.answered
    # With a right model the next run does not stop at the old batch.
    server.fail_batch = lambda _: None
    rows, _ = await extract(OPENAI, tmp_path, documents(2))
    assert objects(rows) == right(2)


@pytest.mark.slow
async def test_batch_over_the_token_limit_of_the_account_is_submitted_again(
    server: BatchServer, tmp_path: Path
) -> None:
    server.fail_batch = lambda count: "token_limit_exceeded" if count < 4 else None
    rows, _ = await extract(OPENAI, tmp_path, documents(2))
    assert objects(rows) == right(2)
    server.fail_batch = lambda _: "token_limit_exceeded"
    with pytest.raises(ModelError, match="lower concurrency"):
        await extract(OPENAI, tmp_path, documents(4))


@pytest.mark.slow
async def test_long_documents_wait_with_all_their_parts(
    server: BatchServer, tmp_path: Path
) -> None:
    text = "\f".join("Total: 5 " + "x" * 900 for _ in range(3))
    source = [*documents(2), {"id": "long", "text": text}]
    rows, _ = await extract(OPENAI, tmp_path, source, split_chars=1_000, overlap_chars=0)
    assert rows["long"].object == {"total": 5}
    assert [len(batch.items) for batch in server.batches] == [5]


@pytest.mark.slow
async def test_more_documents_than_fit_are_several_batches(
    server: BatchServer, tmp_path: Path
) -> None:
    rows, _ = await extract(OPENAI, tmp_path, iter(documents(25)), concurrency=10)
    assert objects(rows) == right(25)
    assert [len(batch.items) for batch in server.batches] == [10, 10, 5]


@pytest.mark.slow
async def test_batch_holds_no_more_bytes_than_the_limit(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptc._extraction._batches._MAX_BATCH_BYTES", 3_000)
    rows, _ = await extract(OPENAI, tmp_path, documents(12))
    assert objects(rows) == right(12)
    assert len(server.batches) > 2
    assert server.requests() == 12


@pytest.mark.slow
async def test_cost_is_at_the_batch_price(server: BatchServer, tmp_path: Path) -> None:
    _, report = await extract(OPENAI, tmp_path, documents(1))
    # 10 tokens in, 4 out; 2.50 and 10 dollars for a million, and half of it in a batch.
    assert report.cost == pytest.approx((10 * 2.5 + 4 * 10) / 2 / 1_000_000)
    _, report = await extract(OPENAI, tmp_path, documents(50), max_cost=0.0002)
    assert report.stopped == "budget"
    assert report.cost is not None
    assert report.cost <= 0.0002


async def test_stop_leaves_the_batch_and_the_same_call_collects_it(
    server: BatchServer, tmp_path: Path
) -> None:
    server.hold = threading.Event()
    options: dict[str, Any] = {"output": tmp_path / "rows.jsonl", "batch": True, "poll_ms": 10}
    models = OpenModels(OPENAI)
    with anyio.fail_after(30):
        async with open_extraction(models, documents(6), SCHEMA, options) as rows:
            while rows.report.batches is None or not rows.report.batches.open:
                await anyio.sleep(0.01)
            state = rows.report.batches
            rows.stop()
            assert [row async for row in rows] == []
            report = rows.report
    assert (state.open, state.requests, report.stopped) == (1, 6, "interrupted")
    await models.aclose()
    server.hold.set()
    found, report = await extract(OPENAI, tmp_path, documents(6))
    assert objects(found) == right(6)
    assert (server.requests(), report.usage.requests) == (6, 6)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("openai-chat:gpt-4o", {}, r"openai:gpt-4o has no batch API here; models that have one"),
        (ScriptedModel(), {}, "has no batch API"),
        (OPENAI, {"output": None}, "batch needs output"),
        (OPENAI, {"rpm": 5}, "rpm cannot be combined with batch"),
        (OPENAI, {"timeout_ms": 5}, "timeout_ms cannot be combined"),
        (OPENAI, {"concurrency": 100_001}, "concurrency must be an integer from 1 to 100,000"),
        (OPENAI, {"poll_ms": 0}, "poll_ms must be"),
    ],
)
async def test_wrong_use_of_batches_is_named_before_anything_is_sent(
    server: BatchServer, tmp_path: Path, model: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await extract(model, tmp_path, documents(1), **options)
    assert not server.calls


def command(folder: Path, model: str, *more: str) -> list[str]:
    (folder / "s.json").write_text(json.dumps(SCHEMA))
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(20)))
    return [
        *("extract", str(folder / "d.jsonl"), "--schema", str(folder / "s.json"), "--no-config"),
        *("--model", model, "--output", str(folder / "rows.jsonl"), "--batch", "--poll-ms", "20"),
        *more,
    ]


def start(folder: Path, model: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "ptc", *command(folder, model)]
    return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)


def rows_of(folder: Path) -> dict[str, Any]:
    lines = (folder / "rows.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["object"] for row in rows}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def damaged_first(number: str, tries: int) -> Line:
    """Every fourth answer needs a second one."""
    damaged = int(number) % 4 == 1 and tries == 1
    return Line(Step(args='{"total": "?"}')) if damaged else Line()


@pytest.mark.slow
@both
def test_killed_between_submission_and_result_nothing_is_paid_twice(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    server.react = damaged_first
    record = tmp_path / "rows.jsonl.batches"
    server.hold = threading.Event()
    for round_number in (1, 2):
        # Once with the first batch at the provider, and once with that of the repairs.
        if round_number == 2:
            server.batches[0].ended = True
        running = start(tmp_path, model)
        recorded = b'"status":"submitted"'
        wait_until(lambda: record.exists() and record.read_bytes().count(recorded) == round_number)  # noqa: B023  # called at once
        running.kill()
        running.communicate()
    assert [len(batch.items) for batch in server.batches] == [20, 5]
    server.hold.set()
    _, err = start(tmp_path, model).communicate(timeout=60)
    assert rows_of(tmp_path) == right(20), err
    assert [len(batch.items) for batch in server.batches] == [20, 5]
    assert server.answered == {str(n): 2 if n % 4 == 1 else 1 for n in range(20)}
    assert not record.exists()


@pytest.mark.slow
@both
def test_killed_inside_a_submission_the_batch_is_found(
    server: BatchServer, tmp_path: Path, model: str
) -> None:
    # Batches of others, of the same size, whose results are of no use.
    for _ in range(3):
        others = [{"custom_id": f"x{n}", "body": {"model": "m", "tools": []}} for n in range(20)]
        server.add(others, in_file=model == OPENAI)
    server.create_hold = threading.Event()
    running = start(tmp_path, model)
    wait_until(lambda: len(server.batches) == 4)
    running.kill()
    running.communicate()
    server.create_hold.set()
    _, err = start(tmp_path, model).communicate(timeout=60)
    assert rows_of(tmp_path) == right(20), err
    assert len(server.batches) == 4
    assert server.answered == {str(n): 1 for n in range(20)}


@pytest.mark.slow
def test_ctrl_c_says_how_to_continue_and_leaves_the_batch(
    server: BatchServer, tmp_path: Path
) -> None:
    server.hold = threading.Event()
    running = start(tmp_path, OPENAI)
    record = tmp_path / "rows.jsonl.batches"
    wait_until(lambda: record.exists() and b'"status":"submitted"' in record.read_bytes())
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopping: 1 batch of 20 requests stays at the provider" in err
    assert "run the command again to continue" in err
    assert KEY not in err
    server.hold.set()
    _, err = start(tmp_path, OPENAI).communicate(timeout=60)
    assert "20 done, 0 failed, 0 dead" in err
    assert server.requests() == 20


@pytest.mark.slow
def test_command_without_a_batch_api_names_those_that_have_one(
    server: BatchServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(command(tmp_path, "openai-chat:gpt-4o")) == 2
    assert "anthropic:NAME" in capfd.readouterr().err
    assert run_command_line(command(tmp_path, OPENAI, "--rpm", "5")) == 2
    assert "rpm cannot be combined with batch" in capfd.readouterr().err
