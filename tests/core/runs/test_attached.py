"""``ctx.attach`` and ``ctx.progress``: files and reports of a script, bounded, whatever happens."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits, RunEvent, RunResult, Session
from ptc._runs._attached import AttachedFiles
from ptc._runs._intake import OverLimitError
from ptc._wire._protocol import ProtocolError

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, toolsets=(), workers=1, journal=":memory:") as opened:
        yield opened


async def run(session: Session, body: str, **options: Any) -> RunResult:
    return await session.program(source=body, **options)


async def test_attached_file_has_a_handle_in_value_and_result(session: Session) -> None:
    result = await run(session, "ctx.attach('a.png', b'\\x89PNG' * 50_000)")
    [file] = result.attached
    data = b"\x89PNG" * 50_000
    assert Path(file.path).read_bytes() == data
    assert result.attachments == result.attached
    assert result.value == {
        "name": "a.png",
        "media_type": "image/png",
        "size_bytes": 200_000,
        "id": hashlib.sha256(data).hexdigest(),
    }
    assert (file.name, file.media_type, file.id) == ("a.png", "image/png", result.value["id"])


async def test_text_buffers_and_media_types_are_accepted(session: Session) -> None:
    source = """
import io
ctx.attach("a.csv", "é,1")
ctx.attach("b", io.BytesIO(b"b"))
ctx.attach("c", io.StringIO("c"), "Text/Markdown")
ctx.attach("d.txt", bytearray(b"d"))
ctx.attach("d.csv.gz", b"d")
ctx.attach("e", "")
"""
    result = await run(session, source)
    assert [
        (file.name, file.media_type, Path(file.path).read_text()) for file in result.attached
    ] == [
        ("a.csv", "text/csv", "é,1"),
        ("b", "application/octet-stream", "b"),
        ("c", "text/markdown", "c"),
        ("d.txt", "text/plain", "d"),
        ("d.csv.gz", "application/gzip", "d"),
        ("e", "text/plain", ""),
    ]


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("ctx.attach('', b'')", "ValueError"),
        ("ctx.attach('a\\nb', b'')", "ValueError"),
        ("ctx.attach('x' * 300, b'')", "ValueError"),
        ("ctx.attach(3, b'')", "TypeError"),
        ("ctx.attach('a', [1])", "TypeError"),
        ("ctx.attach('a', b'', 'png')", "ValueError"),
        ("ctx.attach('a', b'', 3)", "TypeError"),
        ("ctx.attach('a', '\\ud800')", "UnicodeEncodeError"),
        ("ctx.progress('half')", "TypeError"),
        ("ctx.progress(float('nan'))", "TypeError"),
        ("ctx.progress(10 ** 400)", "OverflowError"),
        ("for n in range(101):\n    ctx.attach('a', b'')", "ValueError"),
    ],
)
async def test_invalid_attachment_is_an_ordinary_error(
    session: Session, call: str, kind: str
) -> None:
    result = await run(session, f"{call}\n0")
    assert result.status == "failed", result.error
    assert result.error is not None
    assert result.error.type == kind


async def test_failed_run_keeps_its_files_and_progress(session: Session) -> None:
    result = await run(session, "ctx.attach('a.txt', 'a')\nctx.progress(1, 3, 'one')\n1 / 0")
    assert result.status == "failed"
    assert [file.name for file in result.attached] == ["a.txt"]
    assert result.progress == {"done": 1.0, "total": 3.0, "message": "one"}


async def test_attachments_over_their_limit_end_the_run(session: Session) -> None:
    limits = Limits(max_attachment_bytes=100)
    source = "ctx.attach('a', b'x' * 60)\nctx.attach('b', b'x' * 60)\n0"
    result = await run(session, source, limits=limits)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.breach is not None
    assert result.error.breach.limit == "max_attachment_bytes"
    assert [file.name for file in result.attached] == ["a"]
    caught = "try:\n    ctx.attach('a', b'x' * 101)\nexcept RuntimeError as e:\n    x = str(e)\nx"
    result = await run(session, caught, limits=limits)
    assert result.value == "the attachments have 101 bytes; at most 100 (max_attachment_bytes)"


def test_host_bounds_the_files_of_a_hostile_worker() -> None:
    files = AttachedFiles(100)
    with pytest.raises(ProtocolError):
        files.take_piece(b"")
    files.take_piece(b"x" * 100)
    with pytest.raises(OverLimitError):
        files.take_piece(b"x")
    for _ in range(100):
        files.finish_file("a", "text/plain")
    with pytest.raises(ProtocolError):
        files.finish_file("a", "text/plain")


async def test_progress_is_reported_to_subscribers(session: Session) -> None:
    events: list[RunEvent] = []
    source = "for n in range(3):\n    ctx.progress(n, 3, f'step {n}')\nctx.progress(7)"
    result = await run(session, source, on_event=events.append)
    assert [e.value for e in events if e.kind == "progress"] == [
        {"done": 0.0, "total": 3.0, "message": "step 0"},
        {"done": 1.0, "total": 3.0, "message": "step 1"},
        {"done": 2.0, "total": 3.0, "message": "step 2"},
        {"done": 7.0, "total": None, "message": ""},
    ]
    assert result.progress == {"done": 7.0, "total": None, "message": ""}


async def test_reports_of_progress_are_limited_as_messages(session: Session) -> None:
    source = "while True: ctx.progress(1)"
    result = await run(session, source, limits=Limits(max_messages=50))
    assert result.error is not None
    assert result.error.breach is not None
    assert (result.error.breach.limit, result.error.breach.used) == ("max_messages", 51)


async def test_recorded_result_has_its_files(session: Session) -> None:
    source = "ctx.attach('a.txt', 'a')\nctx.progress(1)"
    first = await run(session, source, run_id="recorded")
    assert await run(session, source, run_id="recorded") == first
    assert first.attached
