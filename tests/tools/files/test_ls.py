from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ptc import ToolError
from ptc_tools import Entry, ls
from ptc_tools.files import _ls

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


async def test_entries_are_sorted_by_name_with_their_kind_and_size(root: Path, call: Call) -> None:
    (root / "b.txt").write_text("12345")
    (root / "a").mkdir()
    (root / ".hidden").touch()
    (root / "c").symlink_to("b.txt")
    os.mkfifo(root / "d")
    assert await call(ls) == [
        Entry(".hidden", ".hidden", "file", 0),
        Entry("a", "a", "dir", None),
        Entry("b.txt", "b.txt", "file", 5),
        Entry("c", "c", "link", None),
        Entry("d", "d", "other", None),
    ]


async def test_listed_paths_are_resolved_and_relative_to_the_root(root: Path, call: Call) -> None:
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "sub" / "deep" / "x").touch()
    (root / "link").symlink_to("sub/deep")
    for path in ("sub/deep", "sub/deep/", "link", "sub/../link", str(root / "sub" / "deep")):
        assert await call(ls, path=path) == [Entry("x", "sub/deep/x", "file", 0)]


async def test_an_empty_folder_has_no_entries(call: Call) -> None:
    assert await call(ls) == []


async def test_ls_refuses_a_file(root: Path, call: Call) -> None:
    (root / "a.txt").touch()
    with pytest.raises(ToolError, match=r"read it with read\(path\)") as caught:
        await call(ls, path="a.txt")
    assert caught.value.code == "not_a_directory"


@pytest.mark.parametrize("path", ["..", "../outside", "/", "out", "out/.."])
async def test_ls_refuses_a_folder_outside_the_root(
    root: Path, outside: Path, call: Call, path: str
) -> None:
    (root / "out").symlink_to(outside)
    with pytest.raises(ToolError) as caught:
        await call(ls, path=path)
    assert caught.value.code == "outside_root"


async def test_missing_folder_error_suggests_the_nearest_name(root: Path, call: Call) -> None:
    (root / "source").mkdir()
    with pytest.raises(ToolError, match="did you mean 'source'") as caught:
        await call(ls, path="sorce")
    assert caught.value.code == "not_found"


async def test_ls_limit_returns_the_first_names(root: Path, call: Call) -> None:
    for name in "edcba":
        (root / name).touch()
    assert [entry.name for entry in await call(ls, limit=2)] == ["a", "b"]
    assert len(await call(ls, limit=99)) == 5


async def test_ls_over_its_default_limit_is_an_error(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ls, "DEFAULT_LIMIT", 3)
    for name in "abc":
        (root / name).touch()
    assert len(await call(ls)) == 3
    (root / "d").touch()
    with pytest.raises(ToolError, match="pass limit=N") as caught:
        await call(ls)
    assert caught.value.code == "too_many"
    assert len(await call(ls, limit=4)) == 4


async def test_name_that_is_not_utf8_is_listed_as_valid_text(root: Path, call: Call) -> None:
    (root / os.fsdecode(b"caf\xe9")).touch()
    assert [entry.path for entry in await call(ls)] == ["caf\ufffd"]


async def test_ls_renders_one_line_per_entry(root: Path, call: Call) -> None:
    assert ls.render is not None
    assert ls.render([]) == "Empty folder"
    (root / "b.txt").write_text("x" * 1_234)
    (root / "a").mkdir()
    (root / "c").symlink_to("b.txt")
    assert ls.render(await call(ls)) == "a/\nb.txt  1,234 bytes\nc@"
    assert not ls.side_effect


async def test_ls_pages_are_contiguous(root: Path, call: Call) -> None:
    for name in ("b", "a", ".x", "é", "Z", "a-b", "10", "9"):
        (root / name).touch()
    everything = [entry.name for entry in await call(ls)]
    for limit in (1, 3, 7, 8, 100):
        found: list[str] = []
        after = None
        while page := await call(ls, limit=limit, after=after):
            found += [entry.name for entry in page]
            after = page[-1].name
        assert found == everything
    assert [e.name for e in await call(ls, after="a")] == ["a-b", "b", "é"]
