"""Removal of what the cache of the engine `wasm` needs no more."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from ptc._workers.wasm import _cache
from ptc._workers.wasm._cache import Removed, clean_cache, describe_cache, is_used

DAY = 86_400.0


def add(folder: Path, name: str, days: float, size: int = 10) -> Path:
    """Add an entry that was used so many days ago; a library is a folder."""
    entry = folder / name
    if name.startswith("library"):
        (entry / "lib").mkdir(parents=True)
        (entry / "lib" / "python.zip").write_bytes(bytes(size))
    else:
        entry.write_bytes(bytes(size))
    then = time.time() - days * DAY
    os.utime(entry, (then, then))
    return entry


def test_least_recently_used_entries_are_removed_beyond_a_number(tmp_path: Path) -> None:
    snapshots = [add(tmp_path, f"s{days}.snapshot", days) for days in range(1, 12)]
    compiled = [add(tmp_path, f"c{days}.cwasm", days) for days in range(1, 5)]
    libraries = [add(tmp_path, f"library-{days}", days) for days in range(1, 5)]
    assert clean_cache(tmp_path) == Removed(7, 70)
    kept = [*snapshots[:8], *compiled[:2], *libraries[:2]]
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    assert clean_cache(tmp_path) == Removed()
    assert describe_cache(tmp_path) == (
        "snapshots: 8, compiled interpreters: 2, libraries: 2 (0 MB)"
    )


def test_entries_that_were_not_used_for_long_are_removed(tmp_path: Path) -> None:
    fresh = add(tmp_path, "fresh.snapshot", 89)
    for name in ("old.snapshot", "old.cwasm", "library-old"):
        add(tmp_path, name, 91)
    add(tmp_path, ".new-killed", 1)
    add(tmp_path, f".old-{int(time.time() - DAY)}-killed", 1)
    removing = add(tmp_path, f".old-{int(time.time())}-live", 1)
    writing = add(tmp_path, ".new-writing", 0)
    assert clean_cache(tmp_path).entries == 5
    assert sorted(tmp_path.iterdir()) == sorted([fresh, writing, removing])


def test_use_moves_an_entry_to_the_front(tmp_path: Path) -> None:
    used = add(tmp_path, "used.snapshot", 80)
    others = [add(tmp_path, f"s{days}.snapshot", days) for days in range(1, 9)]
    assert is_used(used)
    assert not is_used(tmp_path / "missing.snapshot")
    clean_cache(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([used, *others[:-1]])


def test_entry_that_is_used_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = add(tmp_path, "old.snapshot", 91)
    library = add(tmp_path, "library-old", 91)
    size = _cache._size

    def used_here(path: Path) -> int:
        assert is_used(path)
        return size(path)

    # Another process uses them between the look and the removal.
    monkeypatch.setattr(_cache, "_size", used_here)
    assert clean_cache(tmp_path) == Removed()
    assert sorted(tmp_path.iterdir()) == sorted([entry, library])
    assert (library / "lib" / "python.zip").is_file()


def test_entry_in_use_that_cannot_be_removed_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = add(tmp_path, "old.snapshot", 91)

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "used by another process", str(self))

    monkeypatch.setattr(Path, "rename", refuse)
    assert clean_cache(tmp_path) == Removed()
    assert entry.is_file()


@pytest.mark.slow
def test_processes_clean_and_use_the_cache_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(4) as processes:
        assert not any(processes.map(_use_and_clean, [tmp_path] * 4))
    assert not [each for each in tmp_path.iterdir() if each.name.startswith(".old-")]


def _use_and_clean(folder: Path) -> list[str]:
    """Make, map and clean entries, all of them old unless they are used; return the problems."""
    wrong = []
    for turn in range(300):
        entry = folder / f"{turn % 12}.snapshot"
        if not is_used(entry):
            new = folder / f"{_cache.NEW}{os.getpid()}"
            new.write_bytes(b"content")
            new.replace(entry)
        # A neighbour may have aged and removed it; then it is made again.
        with contextlib.suppress(FileNotFoundError):
            if entry.read_bytes() != b"content":
                wrong.append(f"{entry.name} is damaged")
        if turn % 5 == 0:
            then = time.time() - 91 * DAY
            with contextlib.suppress(FileNotFoundError):
                os.utime(folder / f"{(turn + 6) % 12}.snapshot", (then, then))
        clean_cache(folder)
    return wrong
