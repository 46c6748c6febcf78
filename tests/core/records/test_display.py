"""Displays of results and sessions in notebooks, and their short reprs."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession, CallRecord, Failure, PendingCall, RunResult, RunWarning, Session
from ptc import tool as make_tool

ELEMENTS = set(
    "div span b pre code details summary table thead tbody tr th td".split()  # noqa: SIM905  # short
)
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[31m'\"&{{}}"


def call(seq: int, tool: str = "grep", **options: Any) -> CallRecord:
    fields: dict[str, Any] = {"started_ms": 1_000 + seq, "attempts": 1} | options
    return CallRecord(seq, tool, "succeeded", '{"q": "x"}', "", 12.5, 3, **fields)


class Reader(HTMLParser):
    """Lists elements, attributes and text, and checks that elements are closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_result() -> RunResult:
    return RunResult(
        HOSTILE,
        "failed",
        error=Failure(HOSTILE, HOSTILE, line=3, excerpt=HOSTILE, hint=HOSTILE),
        stdout=HOSTILE,
        stderr=HOSTILE,
        calls=(call(1, HOSTILE, error_code=HOSTILE), call(2, parent=HOSTILE)),
        warnings=(RunWarning("w", HOSTILE),),
        pending=(PendingCall(HOSTILE, "approval", HOSTILE, {}, "", prompt=HOSTILE),),
    )


def test_hostile_texts_are_shown_as_text() -> None:
    for page in (
        hostile_result()._repr_html_(),
        RunResult("r", "completed", {HOSTILE: [HOSTILE]})._repr_html_(),
    ):
        found = Reader(page)
        assert found.found <= ELEMENTS
        assert found.attributes <= {"style", "scope", "open"}
        assert "<script>alert(1)</script>" in found.text
        assert not {"\u202e", "\x1b"} & set(page)


def test_display_of_a_large_result_is_bounded() -> None:
    result = RunResult(
        "r" * 10_000,
        "completed",
        ["x" * 100] * 10_000,
        stdout="o" * 100_000,
        calls=tuple(call(n, "t" * 500) for n in range(1, 5_001)),
        warnings=tuple(RunWarning("w", "m" * 1_000) for _ in range(100)),
    )
    page = result._repr_html_()
    assert len(page) < 80_000
    assert "5,000 calls" in page
    assert "and 4,950 more" in page
    assert len(repr(result)) < 400


def test_value_of_any_kind_is_shown() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (None, float("nan"), 10**300, {"a": {1, 2}}, "\ud800", b"x"):
        assert "completed" in RunResult("r", "completed", value)._repr_html_()
    assert "RecursionError" in RunResult("r", "completed", deep)._repr_html_()


def test_timeline_lies_in_its_cell() -> None:
    calls = (call(1, started_ms=0), call(2, started_ms=10**15), call(3))
    page = RunResult("r", "completed", calls=calls)._repr_html_()
    assert page.count("margin-left:") == 2
    assert "margin-left:99.0%;width:1.0%" in page


def test_edited_call_is_shown_with_the_decided_and_the_requested_arguments() -> None:
    edited = call(1, decided_arguments='{"q": "decided"}')
    text = Reader(RunResult("r", "completed", calls=(edited,))._repr_html_()).text
    assert '{"q": "decided"}, the script requested {"q": "x"}' in text


def test_repr_is_short_and_has_the_outcome() -> None:
    result = RunResult("r1", "completed", {"a": 1}, calls=(call(1),))
    assert repr(result) == "<RunResult r1 completed; 0 ms, 1 call; value={'a': 1}>"
    failed = RunResult("r2", "failed", error=Failure("exception", "boom\x07"))
    assert repr(failed) == "<RunResult r2 failed; 0 ms, 0 calls; exception: boom\\u0007>"


def test_session_shows_its_tools(tmp_path: Path) -> None:
    @make_tool(description=HOSTILE)
    def look() -> int:
        return 1

    for session in (
        Session(tmp_path, tools=[look], toolsets=()),
        BlockingSession(tmp_path, tools=[look], toolsets=()),
    ):
        name = type(session).__name__
        assert repr(session) == f"<{name} root={str(tmp_path)!r} tools=1>"
        assert "<script>" in Reader(session._repr_html_()).text
        assert "look" in session._repr_html_()


_CELLS = (
    """
from pathlib import Path
import ptc
from ptc import Session, BlockingSession

@ptc.tool
async def double(n: int) -> int:
    "Double a number."
    return 2 * n
""",
    """
async with Session(ROOT, tools=[double], toolsets=()) as session:
    result = await session.program(source="[ctx.double(n=n) for n in range(3)]")
result
""",
    """
with BlockingSession(ROOT, tools=[double], toolsets=()) as session:
    result = session.program(source="ctx.double(n=21)")
result
""",
    "repr(result), session",
)


@pytest.mark.slow
def test_notebook_shows_results_of_both_sessions(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    form = nbformat.v4
    cells = [form.new_code_cell(f"ROOT = {json.dumps(str(tmp_path))}")]
    cells += [form.new_code_cell(source) for source in _CELLS]
    book = form.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=60, kernel_name="python3").execute()
    shown = [cell.outputs[0].data for cell in book.cells[2:4]]
    for data in shown:
        assert "completed" in data["text/html"]
        assert data["text/plain"].startswith("<RunResult")
    assert "double" in shown[0]["text/html"]
    assert "value=42" in shown[1]["text/plain"]
