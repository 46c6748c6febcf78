"""Stored values that are read in parts: by handle, verified, and only as they were stored."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from ptc._records._artifacts import LocalArtifacts
from ptc._records._stored_file import StoredFile, handle_of


def opened(store: LocalArtifacts, handle: str) -> StoredFile:
    found = store.open(handle)
    assert found is not None
    return found


def age(path: str) -> None:
    """Make the file old enough that a later change has another time."""
    os.utime(path, ns=(1, 1))


def test_value_is_opened_by_handle_digest_and_address(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path)
    digest = store.keep(b"[1,2,3]").sha256
    for handle in (handle_of(digest), digest[:40], digest, f"ptc://artifacts/{digest}"):
        with opened(store, handle) as file:
            assert (file.read(1, 3), file.size, file.suffix) == (b"1,2", 7, ".json")
            assert (file.read(6, 100), file.read(7, 1), file.read(100, 1)) == (b"]", b"", b"")


def test_values_of_an_earlier_layout_are_opened(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path)
    digest = hashlib.sha256(b"\x89PNG").hexdigest()
    (tmp_path / "attachments").mkdir()
    (tmp_path / "attachments" / f"{digest}.png").write_bytes(b"\x89PNG")
    flat = hashlib.sha256(b"[1]").hexdigest()
    (tmp_path / f"{flat}.json").write_bytes(b"[1]")
    opened(store, flat).close()
    with opened(store, handle_of(digest)) as file:
        assert (file.read(0, 4), file.suffix) == (b"\x89PNG", ".png")


def test_handle_is_never_a_path(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path / "store", tmp_path)
    digest = store.keep(b"{}").sha256
    path = store.path(digest)
    (tmp_path / "store" / "plain.txt").write_text("no digest")
    for wrong in (
        *(str(path), path.name, f"../store/{digest}", "plain.txt", "plain", ""),
        *(digest.upper(), digest[:15], f"{digest}0", f"{digest}\n", f"file://{path}", "*" * 16),
    ):
        assert store.open(wrong) is None, wrong


def test_deleted_and_foreign_files_are_not_opened(tmp_path: Path) -> None:
    mine, other = LocalArtifacts(tmp_path / "mine"), LocalArtifacts(tmp_path / "other")
    digest = mine.keep(b"1").sha256
    assert other.open(digest) is None
    mine.path(mine.keep(b"1").sha256).unlink()
    assert mine.open(digest) is None


def test_link_in_place_of_a_value_is_not_followed(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path / "store")
    path = store.path(store.keep(b"secret").sha256)
    (tmp_path / "elsewhere").write_bytes(b"secret")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert store.open(path.stem) is None


def test_start_of_two_digests_opens_neither(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path)
    path = store.path(store.keep(b"1").sha256)
    path.with_name(f"{path.stem[:63]}x.json").write_bytes(b"no digest at all")
    other = path.stem[:63] + ("0" if path.stem[63] != "0" else "1")
    path.with_name(f"{other}.json").write_bytes(b"2")
    assert store.open(path.stem[:16]) is None
    with opened(store, path.stem) as file:
        assert file.read(0, 1) == b"1"


def test_changed_file_is_not_read(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path)
    path = store.path(store.keep(b"[1,2,3]").sha256)
    with opened(store, path.stem) as file:
        path.write_bytes(b"[9,9,9]")
        with pytest.raises(OSError, match="has changed"):
            file.read(0, 7)
    assert store.open(path.stem) is None


def test_verified_file_is_not_read_again_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalArtifacts(tmp_path)
    path = store.path(store.keep(b"[1,2,3]").sha256)
    monkeypatch.setattr("ptc._records._stored_file._SETTLED_NS", -(10**9))
    opened(store, path.stem).close()
    read: list[int] = []
    whole = StoredFile._read

    def count_reads(self: StoredFile, offset: int, count: int) -> bytes:
        read.append(count)
        return whole(self, offset, count)

    monkeypatch.setattr(StoredFile, "_read", count_reads)
    opened(store, path.stem).close()
    assert read == []
    path.write_bytes(b"[1,2,4]")
    age(str(path))
    assert store.open(path.stem) is None
    assert read
