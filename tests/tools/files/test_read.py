from __future__ import annotations

import itertools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ptc import ToolError
from ptc_tools import read
from ptc_tools.files import _read

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


async def test_a_file_is_read_whole_as_a_string(root: Path, call: Call) -> None:
    text = "".join(f"line {n} {'x' * 3_000}\n" for n in range(300)) + "no newline at the end é🙂"
    (root / "a.txt").write_text(text)
    assert await call(read, path="a.txt") == text


async def test_an_empty_file_is_an_empty_string(root: Path, call: Call) -> None:
    (root / "empty").touch()
    assert await call(read, path="empty") == ""
    assert await call(read, path="empty", offset=3, limit=2) == ""


@pytest.mark.parametrize(
    ("offset", "limit", "text"),
    [
        (0, 1, "a\n"),
        (0, 2, "a\nb\n"),
        (1, 1, "b\n"),
        (1, None, "b\nc"),
        (2, None, "c"),
        (2, 9, "c"),
        (3, None, ""),
        (99, 1, ""),
    ],
)
async def test_offset_and_limit_count_lines(
    root: Path, call: Call, offset: int, limit: int | None, text: str
) -> None:
    (root / "a.txt").write_text("a\nb\nc")
    assert await call(read, path="a.txt", offset=offset, limit=limit) == text


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7])
async def test_lines_are_counted_across_chunks(
    root: Path, call: Call, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_read, "_CHUNK_BYTES", chunk_bytes)
    text = "\n\nab\nc\n\ndéf\n"
    (root / "a.txt").write_text(text)
    lines = text.splitlines(keepends=True)
    for offset, limit in itertools.product(range(8), range(1, 8)):
        wanted = "".join(lines[offset : offset + limit])
        assert await call(read, path="a.txt", offset=offset, limit=limit) == wanted


async def test_parts_of_a_large_file_join_to_the_whole(root: Path, call: Call) -> None:
    text = "".join(f"{n} {'é' * 500}\n" for n in range(5_000))
    (root / "big.txt").write_text(text)
    parts: list[str] = []
    while part := await call(read, path="big.txt", offset=len(parts) * 1_500, limit=1_500):
        parts.append(part)
    assert len(parts) == 4
    assert "".join(parts) == text


async def test_reading_a_file_over_the_limit_is_an_error(root: Path, call: Call) -> None:
    (root / "fits").write_bytes(b"x" * _read.MAX_BYTES)
    assert len(await call(read, path="fits")) == _read.MAX_BYTES
    (root / "big").write_bytes(b"x" * (_read.MAX_BYTES + 1))
    with pytest.raises(ToolError) as caught:
        await call(read, path="big")
    assert caught.value.code == "too_large"
    assert caught.value.details == {"max_bytes": 2_097_152, "size_bytes": 2_097_153}
    assert caught.value.message == (
        "'big' is 2,097,153 bytes; read returns at most 2,097,152; read it in parts, "
        "read(path, offset=0, limit=2000), then offset=2000, or use grep"
    )


async def test_lines_over_the_limit_are_an_error(root: Path, call: Call) -> None:
    (root / "big").write_bytes(b"\n" + b"x" * (_read.MAX_BYTES + 1) + b"\n")
    with pytest.raises(ToolError, match="request fewer with limit=") as caught:
        await call(read, path="big", offset=1, limit=1)
    assert caught.value.code == "too_large"
    assert await call(read, path="big", offset=2) == ""


async def test_file_of_unknown_size_is_bounded_while_reading(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Simulate a file that grew after its size was read.
    (root / "growing").write_bytes(b"x" * (_read.MAX_BYTES + 1))
    small = os.stat_result((0o100644, 0, 0, 1, 0, 0, 0, 0, 0, 0))
    with monkeypatch.context() as patched:
        patched.setattr("ptc_tools.files._paths.has_openat2", lambda: False)
        patched.setattr(os, "fstat", lambda fd, real=os.fstat: _shrunk(real(fd), small))
        with pytest.raises(ToolError) as caught:
            await call(read, path="growing")
    assert caught.value.code == "too_large"


def _shrunk(status: os.stat_result, small: os.stat_result) -> os.stat_result:
    return small if status.st_size > _read.MAX_BYTES else status


async def test_search_for_the_offset_line_is_bounded(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_read, "MAX_SCAN_BYTES", 1_000_000)
    (root / "long").write_bytes(b"x\n" * 1_000_000)
    assert await call(read, path="long", offset=1_000, limit=1) == "x\n"
    with pytest.raises(ToolError, match="find the line with grep") as caught:
        await call(read, path="long", offset=900_000, limit=1)
    assert caught.value.code == "too_large"


@pytest.mark.parametrize(
    ("data", "position", "words"),
    [
        (b"abc\xff", 3, "byte 3 (0xff) is not UTF-8"),
        (b"\xef\xbb\xbfab\xff", 5, "byte 5 (0xff) is not UTF-8"),
        (b"caf\xe9 au lait", 3, "byte 3 (0xe9) is not UTF-8"),
        (b"abc\xf0\x9f", 3, "byte 3 (0xf0) is not UTF-8"),
        (b"\x7fELF\0", 4, "byte 4 is NUL, so it is a binary file"),
        (b"\xff\xfeh\0i\0", 3, "it starts with the byte order mark of UTF-16"),
        (b"\xed\xa0\x80", 0, "byte 0 (0xed) is not UTF-8"),
    ],
)
async def test_file_that_is_not_text_is_an_error_naming_the_byte(
    root: Path, call: Call, data: bytes, position: int, words: str
) -> None:
    (root / "data").write_bytes(data)
    with pytest.raises(ToolError) as caught:
        await call(read, path="data")
    assert caught.value.code == "not_text"
    assert words in caught.value.message
    assert caught.value.details == {"byte_offset": position}


async def test_invalid_byte_is_counted_from_the_start_of_the_file(root: Path, call: Call) -> None:
    (root / "data").write_bytes(b"one\ntwo\nth\xffree\n")
    assert await call(read, path="data", limit=2) == "one\ntwo\n"
    with pytest.raises(ToolError) as caught:
        await call(read, path="data", offset=1)
    assert caught.value.details == {"byte_offset": 10}


async def test_byte_order_mark_is_removed_from_the_text(root: Path, call: Call) -> None:
    (root / "bom").write_bytes(b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n")
    assert await call(read, path="bom") == "one\n\ufefftwo\n"
    assert await call(read, path="bom", offset=1) == "\ufefftwo\n"


async def test_line_endings_are_returned_unchanged(root: Path, call: Call) -> None:
    (root / "crlf").write_bytes(b"one\r\ntwo\rthree\n")
    assert await call(read, path="crlf") == "one\r\ntwo\rthree\n"
    assert await call(read, path="crlf", offset=1) == "two\rthree\n"


async def test_read_refuses_a_path_outside_the_root(root: Path, outside: Path, call: Call) -> None:
    with pytest.raises(ToolError) as caught:
        await call(read, path="../outside/secret.txt")
    assert caught.value.code == "outside_root"


@pytest.mark.parametrize(
    "arguments", [{}, {"path": 5}, {"path": "a", "offset": -1}, {"path": "a", "limit": 0}]
)
def test_read_refuses_invalid_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        read.validate(arguments)
    assert caught.value.code == "invalid_arguments"


def test_read_renders_the_text_and_the_offset_after_truncation() -> None:
    assert read.render is not None
    assert read.render("a\n" * 100_000) == "a\n" * 100_000
    shown = read.render("é" * 99 + "\n" + "b\n" * 100_000)
    assert shown == (
        "é" * 99 + "\n" + "b\n" * 99_950 + "[truncated: 100 more characters; these are "
        "99,951 lines. To continue, raise offset by 99951]"
    )
    assert read.render("x" * 200_001).endswith("x\n[truncated: this line has 1 more characters]")
    assert read.result_schema == {"type": "string"}
    assert not read.side_effect
