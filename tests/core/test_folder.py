"""Folders: entries by name, never through a link, and never in another folder of that name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ptc._core import _folder
from ptc._core._folder import Folder, lock_file, open_file, open_folder, pread, pwrite


@pytest.fixture(params=["o_path", "without"], autouse=True)
def flags(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr(_folder, "_ENTER", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    return outside


@pytest.fixture
def inside(tmp_path: Path, outside: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to(outside / "secret")
    (inside / "dangling").symlink_to(outside / "new")
    return inside


@pytest.mark.parametrize(
    "use",
    [
        lambda folder: folder.enter("folder"),
        lambda folder: folder.open("file", os.O_RDONLY),
        lambda folder: folder.open("file", os.O_WRONLY),
        lambda folder: folder.open("dangling", os.O_WRONLY | os.O_CREAT),
        lambda folder: folder.open("dangling", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
        lambda folder: folder.make("dangling"),
        lambda folder: folder.remove_folder("folder"),
    ],
)
def test_no_method_goes_through_a_link(
    inside: Path, outside: Path, use: Callable[[Folder], object]
) -> None:
    with open_folder(inside) as folder, pytest.raises(OSError):  # noqa: PT011  # any kind of it
        use(folder)
    assert os.listdir(outside) == ["secret"]


def test_link_is_removed_replaced_and_described_itself(inside: Path, outside: Path) -> None:
    with open_folder(inside) as folder:
        folder.touch("file")
        assert folder.target("file") == str(outside / "secret")
        assert folder.status("file").st_ino == (inside / "file").lstat().st_ino
        os.close(folder.open("new", os.O_WRONLY | os.O_CREAT))
        folder.replace("new", "file")
        folder.remove("dangling")
        folder.link("file", "second")
        with pytest.raises(FileExistsError):
            folder.link("file", "folder")
        assert sorted(folder.names()) == ["file", "folder", "second"]
    assert (outside / "secret").read_text() == "secret"
    assert not (inside / "file").is_symlink()


def test_replaced_folder_is_not_used(inside: Path, outside: Path) -> None:
    (inside / "mine").mkdir()
    with open_folder(inside) as folder, folder.enter("mine") as mine, mine.copy() as same:
        (inside / "mine").rename(inside / "moved")
        (inside / "mine").symlink_to(outside)
        os.close(mine.open("a", os.O_WRONLY | os.O_CREAT))
        same.make("b")
        same.flush()
        assert sorted(mine.names()) == ["a", "b"]
    assert sorted(os.listdir(inside / "moved")) == ["a", "b"]
    assert os.listdir(outside) == ["secret"]


def test_place_leads_another_program_to_the_folder(inside: Path) -> None:
    with open_folder(inside) as folder:
        folder.make("inner")
        assert "inner" in os.listdir(folder.place)


def test_opening_a_pipe_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.close(open_file(tmp_path / "pipe", os.O_RDONLY))


def test_files_are_read_and_written_by_position(tmp_path: Path) -> None:
    fd = open_file(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        assert pwrite(fd, b"ending", 4) == 6
        assert pwrite(fd, memoryview(b"begi"), 0) == 4
        assert (pread(fd, 5, 0), pread(fd, 5, 8), pread(fd, 5, 10)) == (b"begie", b"ng", b"")
    finally:
        os.close(fd)


def test_second_lock_of_a_file_is_refused(tmp_path: Path) -> None:
    first, second = (open_file(tmp_path / "file", os.O_RDWR | os.O_CREAT) for _ in range(2))
    lock_file(first)
    with pytest.raises(BlockingIOError):
        lock_file(second)
    os.close(first)
    lock_file(second)
    os.close(second)
