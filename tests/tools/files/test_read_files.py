from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ptc import Session, ToolError
from ptc_tools import FileRest, FileText, read, read_files
from ptc_tools.files import _read_files
from ptc_tools.files._read import MAX_BYTES

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


async def test_files_are_returned_whole_in_the_requested_order(root: Path, call: Call) -> None:
    (root / "a").write_text("é\r\nno end")
    (root / "b").touch()
    (root / "bom").write_bytes(b"\xef\xbb\xbfx\n")
    assert await call(read_files, paths=["b", "a", "bom", "b"]) == [
        FileText("b", "", 0),
        FileText("a", "é\r\nno end", 10),
        FileText("bom", "x\n", 5),
        FileText("b", "", 0),
    ]


async def test_unreadable_file_does_not_lose_the_others(
    root: Path, outside: Path, call: Call
) -> None:
    (root / "a").write_text("a")
    (root / "out").symlink_to(outside / "secret.txt")
    (root / "binary").write_bytes(b"ab\0")
    (root / "latin1").write_bytes(b"caf\xe9")
    os.mkfifo(root / "fifo")
    paths = ["missing", "a", "out", "../outside/secret.txt", "binary", "latin1", "fifo", "", "a/"]
    found = await call(read_files, paths=paths)
    assert [(f.path, f.text, f.error.code if f.error else None) for f in found] == [
        ("missing", "", "not_found"),
        ("a", "a", None),
        ("out", "", "outside_root"),
        ("../outside/secret.txt", "", "outside_root"),
        ("binary", "", "not_text"),
        ("latin1", "", "not_text"),
        ("fifo", "", "not_a_file"),
        ("", "", "invalid_path"),
        ("a/", "", "not_a_directory"),
    ]
    assert "byte 3 (0xe9)" in found[5].error.message
    assert "SECRET" not in repr(found)


@pytest.mark.parametrize(
    ("limit", "text", "rest"),
    [
        (1, "é\n", FileRest(1, 6)),
        (2, "é\nbb\n", FileRest(2, 3)),
        (3, "é\nbb\nccc", None),
        (9, "é\nbb\nccc", None),
    ],
)
async def test_truncated_file_reports_the_next_offset(
    root: Path, call: Call, limit: int, text: str, rest: FileRest | None
) -> None:
    (root / "a").write_text("é\nbb\nccc")
    [file] = await call(read_files, paths=["a"], limit=limit)
    assert file == FileText("a", text, 9, rest)
    if rest is not None:
        assert file.text + await call(read, path="a", offset=rest.next_offset) == "é\nbb\nccc"


@pytest.mark.parametrize("max_bytes", range(1, 12))
async def test_byte_budget_ends_at_a_line_boundary(root: Path, call: Call, max_bytes: int) -> None:
    text = "é\nbb\nccc"
    (root / "a").write_text(text)
    [file] = await call(read_files, paths=["a"], max_bytes=max_bytes)
    assert file.error is None
    assert len(file.text.encode()) <= max_bytes
    if max_bytes >= 9:
        assert (file.text, file.rest) == (text, None)
    else:
        assert file.rest is not None
        assert file.text == "" or file.text.endswith("\n")
        assert file.text + await call(read, path="a", offset=file.rest.next_offset) == text
        assert file.rest.bytes_left == 9 - len(file.text.encode())


async def test_total_limit_reports_every_omitted_file(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_read_files, "MAX_TOTAL_BYTES", 25)
    for name in "abcd":
        (root / name).write_text("12345678\n" + name)
    found = await call(read_files, paths=["a", "b", "c", "d"])
    assert [len(file.text) for file in found] == [10, 10, 0, 0]
    assert [file.rest for file in found] == [None, None, FileRest(0, 10), FileRest(0, 10)]


async def test_file_whose_first_line_is_over_the_limit_is_an_error(root: Path, call: Call) -> None:
    (root / "a").write_bytes(b"x" * (MAX_BYTES + 1))
    (root / "b").write_bytes(b"x" * MAX_BYTES)
    found = await call(read_files, paths=["a", "b"])
    assert found[0].error.code == "too_large"
    assert len(found[1].text) == MAX_BYTES


async def test_read_files_renders_each_file_under_its_name(root: Path, call: Call) -> None:
    (root / "a").write_text("one\ntwo\n")
    (root / "b").write_text("no end")
    assert read_files.render is not None
    text = read_files.render(await call(read_files, paths=["a", "missing", "b"], limit=1))
    assert text.splitlines() == [
        "=== a",
        "one",
        "[truncated: 4 more bytes; continue with read('a', offset=1)]",
        "=== missing",
        "Error [not_found]: 'missing' does not exist: folder '.' has no 'missing'; "
        "ls('.') lists it",
        "=== b",
        "no end",
    ]
    assert (read_files.side_effect, read_files.idempotent) == (False, True)


async def test_script_accesses_read_files_results_by_field(root: Path) -> None:
    (root / "a").write_text("one\ntwo\n")
    source = """
files = await ctx.read_files(["a", "b"], limit=1)
[files[0].text, files[0]["rest"].next_offset, files[1].error.code, files[1].rest]
"""
    async with Session(root=root) as session:
        result = await session.program(source=source)
    assert result.unwrap() == ["one\n", 1, "not_found", None]


@pytest.mark.parametrize(
    "arguments",
    [
        {"paths": []},
        {"paths": ["a"] * 1_001},
        {"paths": "a"},
        {"paths": ["a"], "limit": 0},
        {"paths": ["a"], "max_bytes": MAX_BYTES + 1},
    ],
)
def test_read_files_refuses_invalid_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        read_files.validate(arguments)
    assert caught.value.code == "invalid_arguments"
