"""Many documents at a time: nothing is lost, nothing is paid for twice, and limits hold."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from ptc import (
    BlockingSession,
    Document,
    ExtractedRow,
    ExtractionReport,
    ModelError,
    Session,
    SessionClosedError,
    UsageError,
)
from ptc._extraction._extraction import Extraction, open_extraction
from ptc._extraction._slots import Slots
from ptc.models import ModelReply, ModelRequest, ModelUsage
from ptc.models._open import OpenModels
from ptc.testing import ScriptedModel, cut

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


class Total(BaseModel):
    total: int = Field(ge=0)


class Server:
    """A model that counts what it answers, and fails as it is told."""

    def __init__(
        self,
        react: Callable[[str, int], Any] | None = None,
        most: int = 1_000,
        seconds: float = 0.0,
    ) -> None:
        self._react = react
        self._most = most
        self._seconds = seconds
        self.busy = 0
        self.tries: Counter[str] = Counter()
        self.keys: list[str | None] = []
        self.waiting: list[anyio.Event] = []
        self.hold = False

    async def __call__(self, request: ModelRequest) -> ModelReply:
        (number,) = re.findall(r"Total: (\S+)", request.turns[0].text)[:1]
        self.tries[number] += 1
        self.keys.append(request.idempotency_key)
        if self.busy >= self._most:
            raise ModelError("slow down", status=429, retryable=True, retry_after=0.01)
        self.busy += 1
        try:
            await anyio.sleep(self._seconds)
            if self.hold:
                self.waiting.append(anyio.Event())
                await self.waiting[-1].wait()
            answer = self._react(number, self.tries[number]) if self._react else None
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, ModelReply):
                return answer
            return ModelReply(answer or f'{{"total": {number}}}', usage=ModelUsage(1, 100, 10))
        finally:
            self.busy -= 1

    def release(self) -> None:
        self.hold = False
        for event in self.waiting:
            event.set()


def documents(count: int) -> list[dict[str, str]]:
    return [{"id": f"d{n}", "text": f"Total: {n}"} for n in range(count)]


async def extract(
    model: Any, source: Any, schema: Any = SCHEMA, **options: Any
) -> tuple[list[ExtractedRow[Any]], ExtractionReport]:
    with anyio.fail_after(30):
        async with open_extraction(OpenModels(model), source, schema, options) as rows:
            found = [row async for row in rows]
            return found, rows.report


def lines(path: Path) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({row["id"] for row in rows}) == len(rows), "a document has two rows"
    return {row["id"]: row for row in rows}


async def test_all_documents_of_a_server_that_takes_five_at_a_time_succeed() -> None:
    server = Server(most=5, seconds=0.02)
    rows, report = await extract(server, documents(60), concurrency=60)
    assert {row.id: row.object for row in rows} == {f"d{n}": {"total": n} for n in range(60)}
    assert (report.done, report.failed, report.dead, report.in_flight) == (60, 0, 0, 0)
    assert report.usage == ModelUsage(60, 6_000, 600)
    # The limit is found, and few requests are wasted on the way.
    assert 0 < report.retries < 40


async def test_rows_have_typed_objects_status_and_reasons(tmp_path: Path) -> None:
    def react(number: str, _: int) -> Any:
        return {
            "1": '{"total": "many"}',
            "2": cut('{"total": '),
            "3": ModelReply("No.", finish="refused"),
            "4": ModelError("bad request", status=400),
            "5": "```json\n{'total': 5}\n```",
            "6": ModelError("down", status=500, retryable=True),
        }.get(number)

    path = tmp_path / "rows.jsonl"
    source = [*documents(7), Document("empty", " \n"), Document("x", "", "x.pdf", "is a scan")]
    rows, report = await extract(Server(react), source, Total, output=path, max_retries=0)
    found = {row.id: (row.status, row.error and row.error.reason) for row in rows}
    assert found == {
        "d0": ("done", None),
        "d1": ("dead", "not_conforming"),
        "d2": ("dead", "truncated"),
        "d3": ("dead", "refused"),
        "d4": ("dead", "model_failed"),
        "d5": ("done", None),
        "d6": ("failed", "model_failed"),
        "empty": ("dead", "unreadable"),
        "x": ("dead", "unreadable"),
    }
    by_id = {row.id: row for row in rows}
    assert by_id["d5"].object == Total(total=5)
    assert by_id["d5"].repairs == ("quotes", "surrounding_text")
    assert by_id["d1"].attempts == 2  # twice the same violations
    assert "is a scan" in str(by_id["x"].error)
    recorded = lines(path)
    assert recorded["d5"]["object"] == {"total": 5}
    assert recorded["d1"]["error"]["message"].startswith("2 answers")
    assert recorded["d0"]["usage"]["input_tokens"] == 100
    assert (report.done, report.failed, report.dead, report.repaired) == (2, 1, 6, 1)
    assert report.errors == {
        "model_failed": 2, "not_conforming": 1, "refused": 1, "truncated": 1, "unreadable": 2,
    }  # fmt: skip


async def test_resumed_extraction_sends_no_recorded_document(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    server = Server()
    with anyio.fail_after(30):
        async with open_extraction(
            OpenModels(server), documents(30), Total, {"output": path, "concurrency": 4}
        ) as rows:
            async for _ in rows:
                if len(lines(path)) >= 10:
                    break  # cancels the requests in flight
    before = set(lines(path))
    tries = Counter(server.tries)
    found, report = await extract(server, documents(30), Total, output=path)
    assert len(found) == 30
    assert {row.id for row in found if row.reused} == before
    assert all(server.tries[name[1:]] == tries[name[1:]] for name in before)
    assert (report.reused, report.done) == (len(before), 30)
    assert all(isinstance(row.object, Total) for row in found)
    # A third time nothing is sent, and only the rows are left.
    sent = server.tries.total()
    await extract(server, documents(30), Total, output=path)
    assert server.tries.total() == sent
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


async def test_changed_document_is_sent_again_and_keeps_one_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    await extract(Server(), documents(3), output=path)
    changed = [*documents(2), {"id": "d2", "text": "Total: 77"}]
    server = Server()
    await extract(server, changed, output=path)
    assert server.tries == {"77": 1}
    assert lines(path)["d2"]["object"] == {"total": 77}


async def test_rows_of_another_question_are_neither_mixed_nor_paid_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    await extract(Server(), documents(3), output=path)
    server = Server()
    with pytest.raises(UsageError, match=r"3 rows of another extraction: the schema"):
        await extract(server, documents(3), output=path, prompt="Something else.")
    other = ScriptedModel(name="other")
    with pytest.raises(UsageError, match=r"the model was Server, not other"):
        await extract(other, documents(3), output=path)
    assert not server.tries
    assert not other.requests


async def test_retry_failed_sends_only_failed_rows_also_to_another_model(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    down = ModelError("down", status=503, retryable=True)
    first = Server(lambda number, _: {"1": down, "2": '{"total": "x"}'}.get(number))
    await extract(first, documents(4), output=path, max_retries=0)
    again = Server()
    rows, report = await extract(again, documents(4), output=path)
    assert not again.tries
    assert Counter(row.status for row in rows) == {"done": 2, "failed": 1, "dead": 1}
    model = ScriptedModel({"total": 1}, {"total": 2}, name="bigger")
    rows, report = await extract(model, documents(4), output=path, retry_failed=True, concurrency=1)
    assert (report.done, report.reused, len(model.requests)) == (4, 2, 2)
    assert {name: row["model"] for name, row in lines(path).items()} == {
        "d0": "Server", "d1": "bigger", "d2": "bigger", "d3": "Server",
    }  # fmt: skip
    # A dead row is not answered with the same stored answer again.
    assert not {request.idempotency_key for request in model.requests} & set(first.keys)


async def test_interrupted_request_has_the_same_key_when_it_is_sent_again(tmp_path: Path) -> None:
    server = Server()
    server.hold = True
    path = tmp_path / "rows.jsonl"
    with anyio.fail_after(30):
        async with open_extraction(OpenModels(server), documents(1), SCHEMA, {"output": path}):
            while not server.waiting:
                await anyio.lowlevel.checkpoint()
    server.release()
    await extract(server, documents(1), output=path)
    assert server.keys[0] == server.keys[1] is not None


async def test_stop_finishes_requests_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    # The first answer needs a repair, which is sent although the extraction is stopping.
    server = Server(lambda number, tries: '{"total": 1.5}' if tries == 1 else None)
    server.hold = True
    with anyio.fail_after(30):
        async with open_extraction(
            OpenModels(server), documents(20), SCHEMA, {"output": path, "concurrency": 3}
        ) as rows:
            while len(server.waiting) < 3:
                await anyio.lowlevel.checkpoint()
            rows.stop()
            server.release()
            found = [row async for row in rows]
            report = rows.report
    assert [row.status for row in found] == ["done"] * 3
    assert set(lines(path)) == {row.id for row in found}
    assert (server.tries.total(), report.stopped) == (6, "interrupted")


async def test_budget_stops_before_it_is_exceeded(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    options: dict[str, Any] = {"output": path, "concurrency": 4, "prices": (1_000.0, 1_000.0)}
    _, report = await extract(Server(), documents(50), max_cost=1.2, **options)
    assert report.stopped == "budget"
    assert report.cost == pytest.approx(0.11 * report.done)
    assert 8 <= report.done <= 10
    assert "$1.2" in report.reason
    _, report = await extract(Server(), documents(50), max_total_tokens=1_500, **options)
    assert report.stopped == "budget"
    assert report.usage.input_tokens + report.usage.output_tokens <= 1_500
    _, report = await extract(Server(), documents(50), **options)
    assert (report.stopped, report.done) == (None, 50)


async def test_budget_in_money_needs_a_price() -> None:
    with pytest.raises(UsageError, match=r"max_cost needs the prices of Server.*prices=\(input"):
        await extract(Server(), documents(1), max_cost=1.0)


@pytest.mark.parametrize("status", [401, 404])
async def test_error_of_every_document_stops_after_the_first(status: int, tmp_path: Path) -> None:
    server = Server(lambda *_: ModelError("no such key", status=status))
    path = tmp_path / "rows.jsonl"
    with pytest.raises(ModelError, match="no such key"):
        await extract(server, documents(100), output=path, concurrency=2)
    assert server.tries.total() <= 4
    # It is not the fault of the documents: they can be sent again.
    assert {row["status"] for row in lines(path).values()} == {"failed"}


async def test_rejection_of_one_document_after_others_succeeded_stops_nothing() -> None:
    blocked = ModelError("blocked by a firewall", status=403)
    server = Server(lambda number, _: blocked if number == "5" else None)
    rows, report = await extract(server, documents(30), concurrency=1)
    assert (report.done, report.failed, report.stopped) == (29, 1, None)
    assert [row.id for row in rows if row.status != "done"] == ["d5"]


async def test_provider_that_is_down_is_given_up_after_some_documents() -> None:
    server = Server(lambda *_: ModelError("down", status=500, retryable=True))
    with pytest.raises(ModelError, match=r"20 documents in a row failed.*down"):
        await extract(server, documents(100), max_retries=0)
    assert server.tries.total() < 40


async def test_failures_that_pass_are_retried_and_lost_answers_asked_again() -> None:
    def react(number: str, tries: int) -> Any:
        if tries == 1:
            return ModelError("down", status=500, retryable=True)
        return ModelError("lost", retryable=True, lost=True) if tries == 2 else None

    server = Server(react)
    rows, report = await extract(server, documents(2))
    assert [row.status for row in rows] == ["done", "done"]
    assert (report.retries, server.tries.total()) == (2, 6)


async def test_modes_are_tried_in_the_order_of_the_model() -> None:
    class LocalServer(ScriptedModel):
        modes = ("native", "tool", "prompt")

    model = LocalServer('{"total": 0}')
    rows, _ = await extract(model, documents(1))
    assert rows[0].object == {"total": 0}
    assert [request.mode for request in model.requests] == ["native"]


async def test_request_that_takes_too_long_fails_its_document_only() -> None:
    async def answer(request: ModelRequest) -> str:
        if "Total: 0" in request.turns[0].text:
            await anyio.sleep_forever()
        return '{"total": 1}'

    rows, _ = await extract(answer, documents(2), timeout_ms=20)
    assert sorted((row.id, row.status) for row in rows) == [("d0", "failed"), ("d1", "done")]


async def test_evidence_is_verified_in_the_document(tmp_path: Path) -> None:
    answers = [
        {"value": {"total": 0}, "evidence": {"total": "total: 0"}},
        {"value": {"total": -1}, "evidence": {"total": "Total: 1"}},  # violates the type
        {"value": {"total": 1}, "evidence": {"total": "Sum: 1"}},
    ]
    model = ScriptedModel(*answers)
    path = tmp_path / "rows.jsonl"
    rows, report = await extract(
        model, documents(2), Total, evidence=True, concurrency=1, output=path
    )
    first, second = (found for row in rows for found in row.evidence or ())
    assert (first.path, first.match, first.quote) == ("/total", "normalised", "Total: 0")
    assert (second.match, second.supported, second.quote) == (None, False, "Sum: 1")
    assert "/value/total" in model.requests[2].turns[-1].text
    assert [row.object for row in rows] == [Total(total=0), Total(total=1)]
    assert report.unsupported == 1
    (reused, _) = (await extract(model, documents(2), Total, evidence=True, output=path))[0]
    assert reused.evidence == (first,)


class Order(BaseModel):
    name: str
    lines: list[Total]


async def test_long_document_is_split_merged_and_not_paid_twice_for_a_part(tmp_path: Path) -> None:
    text = "\f".join(f"Total: {n} " + "x" * 900 for n in range(4))
    failing = {"2"}

    def react(number: str, _: int) -> Any:
        if number in failing:
            return ModelError("down", status=500, retryable=True)
        return json.dumps({"name": "A" if number < "3" else "B", "lines": [{"total": int(number)}]})

    server = Server(react)
    options: dict[str, Any] = {"output": tmp_path / "rows.jsonl", "split_chars": 1_000}
    options |= {"overlap_chars": 0, "merge_keys": {"lines": "total"}, "max_retries": 0}
    source = [{"id": "long", "text": text}]
    ((row,), _) = await extract(server, source, Order, **options)
    assert (row.status, row.parts) == ("failed", 4)
    failing.clear()
    ((row,), report) = await extract(server, source, Order, retry_failed=True, **options)
    assert row.object == Order(name="A", lines=[Total(total=n) for n in range(4)])
    assert [(c.path, c.values) for c in row.conflicts] == [("/name", ("A", "B"))]
    assert server.tries == {"0": 1, "1": 1, "2": 2, "3": 1}
    # Its usage includes the parts that were paid for before.
    assert (row.attempts, row.usage.requests, report.usage.requests) == (4, 4, 1)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


async def test_merged_object_that_does_not_conform_is_dead_with_its_conflicts() -> None:
    text = "\f".join(f"Total: {n} " + "x" * 900 for n in range(2))
    server = Server(lambda *_: '{"lines": []}')
    ((row,), _) = await extract(
        server, [{"id": "a", "text": text}], Order, split_chars=1_000, overlap_chars=0
    )
    assert row.error is not None
    assert (row.status, row.error.reason) == ("dead", "merge")
    assert "name" in row.error.message


async def test_documents_come_from_folder_glob_jsonl_and_iterators(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("Total: 1")
    (folder / "sub" / "b.md").write_text("Total: 2")
    (folder / ".hidden").write_text("Total: 3")
    (folder / "latin.txt").write_bytes(b"Total: \xe9")
    table = tmp_path / "d.jsonl"
    table.write_text('{"id": 7, "text": "Total: 4"}\n\n{"id": "x"}\n')

    async def produce() -> AsyncIterator[Any]:
        yield {"id": "i", "text": "Total: 5"}
        yield folder / "a.txt"

    async def names(source: Any) -> dict[str, str]:
        rows, _ = await extract(Server(), source)
        return {row.id: row.status for row in rows}

    assert await names(folder) == {"a.txt": "done", "latin.txt": "dead", "sub/b.md": "done"}
    assert await names(str(folder / "**" / "*.md")) == {f"{folder}/sub/b.md": "done"}
    assert await names(table) == {"7": "done", f"{table}:3": "dead"}
    assert await names(produce()) == {"i": "done", f"{folder}/a.txt": "done"}
    assert await names(Document(str(n), f"Total: {n}") for n in range(2)) == {
        "0": "done",
        "1": "done",
    }


async def test_document_that_is_not_unicode_costs_only_its_own_row(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("Total: 1")
    path = tmp_path / "rows.jsonl"
    for reused in (False, True):
        rows, _ = await extract(Server(), folder, output=path)
        assert [(row.id, row.status, row.reused) for row in rows] == [
            (r"caf\xe9.txt", "done", reused)
        ]
    table = tmp_path / "d.jsonl"
    deep = "[" * 100_000
    table.write_text(f'{deep}\n{{"id": "a\\ud800", "text": "\\ud83d Total: 1"}}\n')
    rows, _ = await extract(Server(), table, output=tmp_path / "more.jsonl")
    assert {row.id: row.error and row.error.reason for row in rows} == {
        f"{table}:1": "unreadable",
        r"a\ud800": "unreadable",
    }
    assert "character 0 is half of a surrogate pair" in str([row.error for row in rows])


async def test_answer_that_no_row_can_hold_costs_only_its_own_row(tmp_path: Path) -> None:
    answers = {"1": "\ud800", "2": '{"total": 1' + "0" * 5_000 + "}"}
    server = Server(lambda number, _: answers.get(number))
    rows, _ = await extract(server, documents(4), output=tmp_path / "rows.jsonl")
    assert {row.id: row.status for row in rows} == {
        "d0": "done", "d1": "dead", "d2": "dead", "d3": "done",
    }  # fmt: skip


async def test_output_in_the_folder_of_the_documents_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Total: 1")
    for suffix in ("", ".parts", ".batches"):
        (tmp_path / f"rows.jsonl{suffix}").touch()
    for source in (tmp_path, str(tmp_path / "*")):
        rows, report = await extract(Server(), source, output=tmp_path / "rows.jsonl")
        assert (len(rows), report.total) == (1, 1)
        (tmp_path / "rows.jsonl").unlink()


async def test_row_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    await extract(Server(), documents(1), output=path)
    row = json.loads(path.read_text())
    for changed in ({**row, "object": {"total": "x"}}, {k: row[k] for k in row if k != "parts"}):
        path.write_text(json.dumps(changed, separators=(",", ":")) + "\n")
        with pytest.raises(
            UsageError, match=r"the row of 'd0' does not fit this version or schema"
        ):
            await extract(Server(), documents(1), Total, output=path, retry_failed=True)


async def test_id_in_another_normal_form_finds_its_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    await extract(Server(), [{"id": "caf\u00e9", "text": "Total: 1"}], output=path)
    server = Server()
    ((row,), _) = await extract(server, [{"id": "cafe\u0301", "text": "Total: 1"}], output=path)
    assert (row.id, row.reused, server.tries.total()) == ("caf\u00e9", True, 0)
    # Two documents may have such ids.
    both = [{"id": name, "text": "Total: 1"} for name in ("\u00e9", "e\u0301")]
    rows, _ = await extract(server, both, output=tmp_path / "both.jsonl")
    # In the order in which they finish.
    assert {row.id for row in rows} == {"\u00e9", "e\u0301"}
    assert len(rows) == 2


async def test_documents_in_flight_are_limited_in_number_and_size() -> None:
    slots = Slots(3, 100)
    assert [slots.take(chars) for chars in (200, 1)] == [True, False]  # one may be larger
    slots.release(200)
    assert [slots.take(chars) for chars in (60, 50, 40, 0, 0)] == [True, False, True, True, False]
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(slots.wait)
            await anyio.wait_all_tasks_blocked()
            slots.release(40)
    assert slots.take(40)


async def test_request_for_more_room_has_a_key_of_its_own() -> None:
    server = Server(lambda _, tries: cut('{"total": ') if tries == 1 else None)
    await extract(server, documents(1))
    assert len(set(server.keys)) == 2


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("/nowhere/*.txt", {}, "no document matches"),
        (5, {}, "documents must be"),
        (["text"], {}, "a document must be"),
        ([{"id": "a", "text": "x"}] * 2, {}, "two documents have the id 'a'"),
        ([], {"concurrency": 0}, "concurrency must be an integer from 1"),
        ([], {"rpm": 0}, "rpm must be a number above 0"),
        ([], {"prices": (1,)}, "prices must be"),
        ([], {"examples": [("a", {"total": "x"})]}, r"examples\[0\]: .*/total"),
        ([], {"examples": [(["a"], {"total": 1})]}, "must be the text of a document"),
        ([], {"examples": [("a", {"total": 1})], "evidence": True}, "cannot be combined with"),
        ([], {"context": 1}, "this schema is a JSON Schema"),
        ([], {"concurency": 1}, "unknown option 'concurency'"),
    ],
)
async def test_wrong_argument_is_named(source: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await extract(Server(), source, **options)


async def test_examples_context_and_nulls_reach_every_question() -> None:
    class Known(BaseModel):
        sku: str
        note: str = ""

        @field_validator("sku")
        @classmethod
        def is_known(cls, value: str, info: ValidationInfo) -> str:
            if value not in (info.context or ()):
                msg = "unknown"
                raise ValueError(msg)
            return value

    model = ScriptedModel({"sku": "x", "note": None}, {"sku": "a", "note": None})
    options: dict[str, Any] = {
        "examples": [("Item b", Known.model_construct(sku="b"))],
        "context": {"a", "b"},
        "null_for_missing": True,
        "model": model,
    }
    async with (
        Session() as session,
        session.extract_many([Document("1", "Item a")], Known, **options) as rows,
    ):
        (row,) = [row async for row in rows]
    assert row.object == Known.model_construct(sku="a", note="")
    question, answer, last, *_ = model.requests[1].turns
    assert "<document>\nItem b\n</document>" in question.text
    assert json.loads(answer.text) == {"sku": "b", "note": ""}
    assert "<document>\nItem a\n</document>" in last.text
    assert model.requests[0].schema["required"] == ["sku", "note"]


async def test_progress_is_reported_after_each_row() -> None:
    seen: list[ExtractionReport] = []
    await extract(Server(), documents(3), on_progress=seen.append, rpm=60_000, tpm=6_000_000)
    assert [(report.rows, report.total) for report in seen] == [(1, 3), (2, 3), (3, 3)]
    assert seen[0].remaining_s is not None


async def test_exception_of_a_validator_is_raised_after_the_rows() -> None:
    def validate(_: Any) -> None:
        raise KeyError("my bug")

    with pytest.raises(KeyError, match="my bug"):
        await extract(Server(), documents(1), validators=[validate])


async def test_error_of_the_documents_is_raised_after_the_rows_in_flight(tmp_path: Path) -> None:
    async def produce() -> AsyncIterator[Any]:
        yield {"id": "a", "text": "Total: 1"}
        raise OSError("my source is gone")

    path = tmp_path / "rows.jsonl"
    async with open_extraction(OpenModels(Server()), produce(), SCHEMA, {"output": path}) as rows:
        assert (await anext(rows)).id == "a"
        with pytest.raises(OSError, match="my source is gone"):
            await anext(rows)
    assert list(lines(path)) == ["a"]


@pytest.mark.slow
async def test_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    pypdf = pytest.importorskip("pypdf", reason="pip install pypdf")
    writer = pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.write(tmp_path / "scan.pdf")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    rows, _ = await extract(Server(), tmp_path)
    reasons = {row.id: str(row.error and row.error.message) for row in rows}
    assert "a PDF without text" in reasons["scan.pdf"]
    assert "a PDF that cannot be read" in reasons["broken.pdf"]


@pytest.mark.slow
async def test_parquet_has_the_rows(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install pyarrow")
    path = tmp_path / "rows.parquet"
    await extract(Server(), documents(3), Total, output=path)
    table = parquet.read_table(path).to_pylist()
    assert {row["id"]: json.loads(row["object"]) for row in table} == {
        f"d{n}": {"total": n} for n in range(3)
    }
    server = Server()
    await extract(server, documents(4), Total, output=path)
    assert (server.tries.total(), parquet.read_table(path).num_rows) == (1, 4)


async def test_two_extractions_of_a_session_share_the_pace() -> None:
    server = Server(most=5, seconds=0.02)
    models = OpenModels(server)
    retries: list[int] = []

    async def run(name: str) -> None:
        source = [{"id": f"{name}{n}", "text": f"Total: {n}"} for n in range(30)]
        async with open_extraction(models, source, SCHEMA, {"concurrency": 30}) as rows:
            assert [row.status async for row in rows] == ["done"] * 30
            retries.append(rows.report.retries)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for name in "ab":
                group.start_soon(run, name)
    # As few as one extraction of all documents has, whose limit is the same.
    assert 0 < sum(retries) < 40


async def test_session_has_extract_many(tmp_path: Path) -> None:
    async with (
        Session(tmp_path, toolsets=(), model=Server()) as session,
        session.extract_many(documents(2), Total) as rows,
    ):
        assert isinstance(rows, Extraction)
        assert [row.object async for row in rows] == [Total(total=0), Total(total=1)]
    with pytest.raises(SessionClosedError):
        session.extract_many(documents(2), Total)


def test_blocking_session_has_extract_many(tmp_path: Path) -> None:
    server = Server()
    with BlockingSession(tmp_path, toolsets=(), model=server) as session:
        with session.extract_many(documents(3), Total) as rows:
            assert sorted(row.value["total"] for row in rows) == [0, 1, 2]
            assert rows.report.done == 3
        with session.extract_many(documents(3), Total) as rows:
            next(rows)
            rows.stop()
            assert len(list(rows)) <= 2
