from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import ToolError
from ptc_tools import edit
from ptc_tools.files._atomic import Transaction, slots
from ptc_tools.files._paths import Root

Call = Callable[..., Awaitable[Any]]


def test_reader_never_sees_partial_content(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    target = root / "a"
    contents = [b"a" * 300_000, b"b" * 200_000]
    target.write_bytes(contents[0])
    seen: set[bytes] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.add(target.read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(300):
        with Root(root) as opened, opened.slot("a") as slot, Transaction() as transaction:
            transaction.put(slot, contents[number % 2])
            transaction.commit()
    stop.set()
    reader.join()
    assert seen <= set(contents)


def test_content_is_flushed_before_the_rename(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a").write_text("old")
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_flush(fd: int) -> None:
        steps.append(f"flush {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))[:5]}")
        fsync(fd)

    def note_rename(source: str, target: str, **folders: int) -> None:
        steps.append(f"rename {source[:5]} {target}")
        rename(source, target, **folders)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", note_flush)
        patched.setattr(os, "rename", note_rename)
        with Root(root) as opened, opened.slot("a") as slot, Transaction() as transaction:
            transaction.put(slot, b"new")
            transaction.commit()
    assert steps == ["flush .ptc-", "rename .ptc- a", "flush root"]


def test_transaction_without_commit_changes_nothing(root: Path) -> None:
    (root / "a").write_text("old")
    with (
        Root(root) as opened,
        slots(opened, ["a", "x/y/b"]) as [a, b],
        Transaction() as transaction,
    ):
        transaction.put(a, b"new")
        transaction.put(b, b"new")
        assert len(os.listdir(root)) == 3
    assert os.listdir(root) == ["a"]
    assert (root / "a").read_text() == "old"


@pytest.mark.parametrize("failing", range(4))
def test_failed_commit_is_rolled_back_completely(
    root: Path, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("old a")
    (root / "b").write_text("old b")
    (root / "c").write_text("old c")
    (root / "a").chmod(0o640)
    inode = (root / "a").stat().st_ino
    calls = 0
    from ptc_tools.files import _atomic

    apply = _atomic._apply

    def fail_at(step: Any, *, keep_backup: bool) -> None:
        nonlocal calls
        calls += 1
        if calls == failing + 1:
            raise OSError(28, "No space left on device")
        apply(step, keep_backup=keep_backup)

    monkeypatch.setattr(_atomic, "_apply", fail_at)
    paths = ["a", "b", "new/d", "c"]
    with Root(root) as opened, slots(opened, paths) as found, Transaction() as transaction:
        transaction.put(found[0], b"new a")
        transaction.remove(found[1])
        transaction.put(found[2], b"new d")
        transaction.put(found[3], b"new c")
        with pytest.raises(ToolError, match="No space left on device"):
            transaction.commit()
    assert {path.name: path.read_text() for path in root.iterdir()} == {
        "a": "old a",
        "b": "old b",
        "c": "old c",
    }
    assert (root / "a").stat().st_mode & 0o777 == 0o640
    assert (root / "a").stat().st_ino == inode


def test_failed_rollback_names_the_path_and_keeps_the_backup(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_text("old a")
    rename = os.rename
    renames = 0

    def only_once(source: str, target: str, **folders: int) -> None:
        nonlocal renames
        renames += 1
        if renames > 1:
            raise OSError(5, "Input/output error")
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", only_once)
    (root / "b").write_text("old b")
    with Root(root) as opened, slots(opened, ["a", "b"]) as found, Transaction() as transaction:
        transaction.put(found[0], b"new a")
        transaction.put(found[1], b"new b")
        with pytest.raises(ToolError) as caught:
            transaction.commit()
    assert caught.value.code == "half_done"
    assert caught.value.details == {"paths": ["a"]}
    kept = [path for path in root.iterdir() if path.name.startswith(".ptc-")]
    assert [path.read_text() for path in kept] == ["old a"]
    assert (root / "b").read_text() == "old b"


@pytest.mark.parametrize("how", ["changed", "gone", "came", "folder"])
def test_concurrently_changed_file_is_left_alone(root: Path, how: str) -> None:
    target = root / "a"
    if how != "came":
        target.write_text("old")
    with Root(root) as opened, opened.slot("a") as slot, Transaction() as transaction:
        transaction.put(slot, b"ours")
        if how != "came":
            target.unlink()
        if how in ("changed", "came"):
            target.write_text("theirs")
        elif how == "folder":
            target.mkdir()
        with pytest.raises(ToolError, match="changed meanwhile") as caught:
            transaction.commit()
    assert caught.value.retryable
    assert os.listdir(root) == ([] if how == "gone" else ["a"])
    if target.is_file():
        assert target.read_text() == "theirs"


def test_file_created_just_before_the_rename_is_not_replaced(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ptc_tools.files import _atomic

    monkeypatch.setattr(_atomic, "_check_unchanged", lambda slot: None)
    with Root(root) as opened, opened.slot("a") as slot, Transaction() as transaction:
        transaction.put(slot, b"ours")
        (root / "a").write_text("theirs")
        with pytest.raises(ToolError, match="changed meanwhile"):
            transaction.commit()
    assert (root / "a").read_text() == "theirs"
    assert os.listdir(root) == ["a"]


@pytest.mark.anyio
async def test_concurrent_edits_are_all_applied(root: Path, call: Call) -> None:
    (root / "a").write_text("".join(f"<{number}>\n" for number in range(40)))
    (root / "link").symlink_to("a")

    async def one(number: int) -> None:
        path = "a" if number % 2 else "link"
        await call(edit, path=path, old=f"<{number}>", new=f"[{number}]")

    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(one, number)
    assert (root / "a").read_text() == "".join(f"[{number}]\n" for number in range(40))


def test_transaction_leaves_no_descriptor_open(root: Path) -> None:
    (root / "a").write_text("old")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a", "x/y/z", "b"):
        with Root(root) as opened, slots(opened, [path]) as [slot], Transaction() as transaction:
            transaction.put(slot, b"new")
            transaction.commit()
    assert len(os.listdir("/proc/self/fd")) == before
