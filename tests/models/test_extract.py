"""``ptc extract`` and `extract_many` against a server that speaks the protocols of providers."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession, ExtractionReport, ModelError
from ptc._cli._extract_progress import describe
from ptc._cli._group import run_command_line
from ptc._extraction._pacing import Pace, Throttle, Ticket

from .fake_server import FakeServer, Seen, Step

pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")
pytest.importorskip("openai", reason="pip install 'ptc-host[models]'")

MODEL = "openai-chat:gpt-4o"
SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


class Provider:
    """Answers with the number in the document, and counts."""

    def __init__(self) -> None:
        self.busy = 0
        self.lock = threading.Lock()
        self.requests: Counter[str] = Counter()
        self.refused = 0
        self.most = 1_000
        self.seconds = 0.0
        self.hold: threading.Event | None = None
        self.fail: Callable[[str, int], Step | None] = lambda number, tries: None

    def __call__(self, seen: Seen) -> Step:
        number = re.findall(r"Total: (\d+)", json.dumps(seen.body))[0]
        with self.lock:
            self.requests[number] += 1
            tries = self.requests[number]
            self.busy += 1
            overloaded = self.busy > self.most
            self.refused += overloaded
        try:
            if self.hold is not None:
                self.hold.wait(30)
            if overloaded:
                return Step(status=429, retry_after_ms=100)
            time.sleep(self.seconds)
            return self.fail(number, tries) or Step(args=json.dumps({"total": int(number)}))
        finally:
            with self.lock:
                self.busy -= 1


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def server(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    with FakeServer([], provider) as running:
        for name in [name for name in os.environ if name.startswith(("OPENAI_", "PTC_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    write_documents(tmp_path, 12)
    gold = [{"id": f"d{n}", "object": {"total": n if n else 99}} for n in range(3)]
    (tmp_path / "gold.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gold))
    return tmp_path


def write_documents(folder: Path, count: int) -> None:
    rows = [{"id": f"d{n}", "text": f"Total: {n}"} for n in range(count)]
    (folder / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def options(folder: Path, *more: str) -> list[str]:
    return [
        *("extract", str(folder / "d.jsonl"), "--schema", str(folder / "s.json")),
        *("--model", MODEL, "--no-config", *more),
    ]


def rows_of(path: Path) -> dict[str, dict[str, Any]]:
    """Rows that are complete."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return {row["id"]: row for row in rows}


def test_extract_writes_rows_compares_them_and_reports(
    server: FakeServer, provider: Provider, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    provider.fail = lambda number, _: Step(args='{"total": "x"}') if number == "2" else None
    output, page = folder / "rows.jsonl", folder / "q.html"
    compared = ("--compare", str(folder / "gold.jsonl"), "--report", str(page))
    status = run_command_line(options(folder, "--output", str(output), *compared))
    out, err = capfd.readouterr()
    assert (status, out) == (1, "")
    rows = rows_of(output)
    assert (len(rows), rows["d7"]["object"], rows["d2"]["status"]) == (12, {"total": 7}, "dead")
    assert rows["d7"]["cost"] > 0
    assert "dead: d2: 2 answers of openai:gpt-4o do not conform" in err
    assert "11 done, 0 failed, 1 dead in" in err
    assert "total\t50.0 %\t33.3 %\t1\t1\t1\t0" in err
    assert "--retry-failed" in err
    assert "<td>d0<td>/total<td class=gold><code>99</code><td class=found><code>0</code>" in (
        page.read_text()
    )
    # Again, nothing is sent; and the report is JSON.
    sent = provider.requests.total()
    status = run_command_line(options(folder, "--output", str(output), "--json"))
    report = json.loads(capfd.readouterr().out)
    assert (status, report["done"], report["reused"], report["usage"]["requests"]) == (1, 11, 12, 0)
    assert provider.requests.total() == sent
    # The failed row is sent again, and the budget stops the command before.
    provider.fail = lambda *_: None
    retry = options(folder, "--output", str(output), "--retry-failed")
    assert run_command_line([*retry, "--max-cost", "0.0000001"]) == 3
    assert "the budget of $1e-07 does not allow" in capfd.readouterr().err
    assert run_command_line(retry) == 0
    assert rows_of(output)["d2"]["object"] == {"total": 2}


@pytest.mark.parametrize(
    "model", [MODEL, pytest.param("anthropic:claude-sonnet-4-5", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")
def test_refused_request_is_repeated_by_ptc_after_retry_after_and_not_by_the_package(
    server: FakeServer, provider: Provider, tmp_path: Path, model: str
) -> None:
    provider.fail = lambda _, tries: Step(status=429, retry_after_ms=300) if tries < 3 else None
    documents = [{"id": "a", "text": "Total: 7"}]
    with (
        BlockingSession(tmp_path, toolsets=(), model=model) as session,
        session.extract_many(documents, SCHEMA) as rows,
    ):
        assert [row.object for row in rows] == [{"total": 7}]
        assert (rows.report.retries, round(rows.report.waited_s, 2)) == (2, 0.6)
    assert {seen.headers.get("x-stainless-retry-count") for seen in server.requests} == {"0"}
    (key,) = {seen.headers["idempotency-key"] for seen in server.requests}
    assert re.fullmatch(r'"[0-9a-f]{32}"', key)


def test_type_of_a_file_is_a_schema_and_rows_go_to_standard_output(
    server: FakeServer, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "types.py").write_text(
        "from __future__ import annotations\n"
        "from pydantic import BaseModel, Field\n\n"
        "class Total(BaseModel):\n    total: Number\n\n"
        "Number = int\n"
    )
    write_documents(folder, 2)
    status = run_command_line(options(folder, "--schema", f"{folder}/types.py:Total"))
    out, err = capfd.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert (status, sorted(row["object"]["total"] for row in rows)) == (0, [0, 1]), err


def test_wrong_extract_command_line_is_rejected_before_any_request(
    server: FakeServer, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "types.py").write_text("class A:\n    x: int\nraise ValueError('broken')\n")
    (folder / "deep.jsonl").write_text("[" * 100_000)
    compared = ("--compare", str(folder / "gold.jsonl"))
    wrong: list[tuple[tuple[str, ...], str]] = [
        (("--schema", str(folder / "none.json")), "cannot be read"),
        (("--schema", "no_such_module:A"), "'no_such_module' cannot be imported"),
        (("--schema", f"{folder}/types.py:A"), "ValueError: broken"),
        (("--json",), "the rows need --output"),
        (("--report", "q.html"), "--report needs --compare"),
        ((*compared, "--report", "no/q.html"), "is in a folder that does not exist"),
        ((*compared, "--report", str(folder)), "is a folder"),
        ((*compared, "--report", f"{folder}/../{folder.name}/gold.jsonl"), "would replace"),
        ((*compared, "--report", "r.jsonl", "--output", "./r.jsonl"), "would replace"),
        (("--compare", str(folder / "deep.jsonl")), "deep.jsonl', line 1: write"),
        (("--compare", str(folder / "d.jsonl")), 'line 1: write {"id": ..., "object": ...}'),
        (("--merge-key", "lines"), "write LIST=FIELD"),
        (("--output", str(folder / "d.jsonl")), "holds other data than rows"),
        (("--concurrency", "0"), "concurrency must be an integer from 1"),
    ]
    for more, message in wrong:
        assert run_command_line(options(folder, *more)) == 2, more
        out, err = capfd.readouterr()
        assert (out, message in err) == ("", True), err
    assert sys.modules["types"].__file__ != f"{folder}/types.py"
    assert not server.requests
    assert (folder / "d.jsonl").read_text().count("\n") == 12


def test_gold_file_may_hold_other_line_separators(
    server: FakeServer, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    row = {"id": "d1", "object": {"total": 1, "text": "a\u2028b\x85c"}}
    (folder / "gold.jsonl").write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    write_documents(folder, 2)
    more = ("--output", str(folder / "r.jsonl"), "--compare", str(folder / "gold.jsonl"))
    assert run_command_line(options(folder, *more)) == 0
    assert "total\t100.0 %" in capfd.readouterr().err


def test_progress_says_that_the_provider_asks_to_wait() -> None:
    now = 100.0
    pace = Pace(4, throttle=Throttle(lambda: now))
    pace.fail(ModelError("slow", status=429, retry_after=1e12), Ticket(now, 1), 1)
    report = ExtractionReport(total=5, waiting_s=pace.waiting_s)
    assert describe(report) == "0/5  0 in flight  provider asks to wait 1 h 00 min  0.0/s  0 tokens"
    now += 3_600
    assert pace.waiting_s == 0


@pytest.mark.slow
def test_nothing_more_is_sent_once_the_reader_of_the_rows_is_gone(
    server: FakeServer, provider: Provider, folder: Path
) -> None:
    write_documents(folder, 60)
    provider.seconds = 0.02
    command = [sys.executable, "-m", "ptc", *options(folder, "--concurrency", "1")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr is not None
    assert "not processed" in running.stderr.read()
    running.stderr.close()
    running.wait(60)
    assert provider.requests.total() < 60


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "ptc",
            *options(folder, "--output", str(folder / "rows.jsonl"), *more),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.slow
def test_ctrl_c_finishes_what_is_in_flight_and_the_same_command_continues(
    server: FakeServer, provider: Provider, folder: Path
) -> None:
    write_documents(folder, 40)
    provider.hold = threading.Event()
    running = start(folder, "--concurrency", "4")
    wait_until(lambda: provider.busy == 4)
    running.send_signal(signal.SIGINT)
    assert running.stderr is not None
    assert "finishing 4 requests in flight" in running.stderr.readline()
    provider.hold.set()
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "4 done, 0 failed, 0 dead, 36 not processed" in err
    assert "run the command again to continue" in err
    assert len(rows_of(folder / "rows.jsonl")) == 4
    _, err = start(folder).communicate(timeout=60)
    assert "40 done, 0 failed, 0 dead (4 from the output file)" in err
    assert set(provider.requests.values()) == {1}


@pytest.mark.slow
def test_second_ctrl_c_cancels_the_requests(
    server: FakeServer, provider: Provider, folder: Path
) -> None:
    provider.hold = threading.Event()
    running = start(folder, "--concurrency", "4")
    wait_until(lambda: provider.busy == 4)
    running.send_signal(signal.SIGINT)
    assert running.stderr is not None
    running.stderr.readline()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    provider.hold.set()
    assert (running.returncode, "Traceback" in err) == (130, False)
    assert rows_of(folder / "rows.jsonl") == {}


@pytest.mark.slow
def test_killed_at_any_time_no_recorded_document_is_sent_again(
    server: FakeServer, provider: Provider, folder: Path
) -> None:
    write_documents(folder, 40)
    dice = random.Random(18)
    output = folder / "rows.jsonl"
    provider.seconds = 0.03
    recorded: set[str] = set()
    before: Counter[str] = Counter()
    for _ in range(4):
        running = start(folder, "--concurrency", "3")
        target = len(rows_of(output)) + dice.randint(1, 8)
        wait_until(lambda: len(rows_of(output)) >= target)  # noqa: B023  # called at once
        running.kill()
        running.communicate()
        wait_until(lambda: provider.busy == 0)
        recorded, before = set(rows_of(output)), Counter(provider.requests)
    _, err = start(folder).communicate(timeout=60)
    assert {name: row["object"] for name, row in rows_of(output).items()} == {
        f"d{n}": {"total": n} for n in range(40)
    }, err
    assert all(provider.requests[name[1:]] == before[name[1:]] for name in recorded)
    # In flight at a kill were at most three requests each time.
    assert provider.requests.total() <= 40 + 4 * 3


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODEL, "openai-responses:gpt-4o", "anthropic:claude-sonnet-4-5"])
@pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")
def test_150_documents_of_a_server_that_takes_five_at_a_time(
    server: FakeServer, provider: Provider, tmp_path: Path, model: str
) -> None:
    provider.most, provider.seconds = 5, 0.2

    def fail(number: str, tries: int) -> Step | None:
        chance = random.Random(f"{number} {tries}").random()
        if chance < 0.05:
            return Step(status=500)
        if chance < 0.10 and "anthropic" not in model:
            return Step(args='{"total": 1}', end="broken")
        # The adapter of Anthropic parses whole arguments, so damage comes as text.
        return Step(text=f"```json\n{{'total': {number},}}\n```") if chance < 0.20 else None

    provider.fail = fail
    documents = [{"id": str(n), "text": f"Total: {n}"} for n in range(150)]
    with (
        BlockingSession(tmp_path, toolsets=(), model=model) as session,
        session.extract_many(documents, SCHEMA, concurrency=150) as rows,
    ):
        assert {row.id: row.object for row in rows} == {str(n): {"total": n} for n in range(150)}
        assert rows.report.retries >= provider.refused > 0
