from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptc import ToolError
from ptc_tools._paths import MAX_PATH_BYTES, Root, _has_openat2


@pytest.fixture(params=[True, False], ids=["openat2", "by_hand"])
def kernel_walk(request: pytest.FixtureRequest) -> bool:
    if request.param and not _has_openat2():
        pytest.skip("this kernel has no openat2")
    return bool(request.param)


def text_of(folder: Path, path: str, *, kernel_walk: bool) -> str:
    with Root(folder, kernel_walk=kernel_walk) as root:
        fd = root.open_file(path)
        with open(fd, encoding="utf-8") as file:
            return file.read()


def refusal(folder: Path, path: str, *, kernel_walk: bool) -> ToolError:
    with pytest.raises(ToolError) as caught:
        text_of(folder, path, kernel_walk=kernel_walk)
    return caught.value


def tree(root: Path) -> None:
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "b.txt").write_text("b")
    (root / "sub" / "deep" / "c.txt").write_text("c")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.txt", "a"),
        ("./a.txt", "a"),
        ("sub/b.txt", "b"),
        ("sub//b.txt", "b"),
        ("sub/./b.txt", "b"),
        ("sub/../a.txt", "a"),
        ("sub/deep/../../a.txt", "a"),
        ("sub/deep/../b.txt", "b"),
        ("{root}/sub/b.txt", "b"),
        ("/{root}/sub/../a.txt", "a"),
    ],
)
def test_a_path_beneath_the_root_is_opened(
    root: Path, path: str, text: str, kernel_walk: bool
) -> None:
    tree(root)
    assert text_of(root, path.format(root=root), kernel_walk=kernel_walk) == text


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.txt",
        "../root/a.txt",
        "sub/../../outside/secret.txt",
        "sub/../../root/a.txt",
        "./../outside/secret.txt",
        "/etc/passwd",
        "/",
        "//etc/passwd",
        "{root}/../outside/secret.txt",
        "{root}x/a.txt",
        "{root}/../root/a.txt",
        "/proc/self/cwd/a.txt",
        "/proc/self/root/etc/passwd",
    ],
)
def test_a_path_that_leaves_the_root_is_refused(
    root: Path, outside: Path, path: str, kernel_walk: bool
) -> None:
    tree(root)
    error = refusal(root, path.format(root=root), kernel_walk=kernel_walk)
    assert error.code == "outside_root"
    assert 'give a path beneath it, like "src/main.py"' in error.message


def test_a_link_that_stays_inside_is_followed(root: Path, kernel_walk: bool) -> None:
    tree(root)
    (root / "link.txt").symlink_to("a.txt")
    (root / "absolute.txt").symlink_to(root / "sub" / "b.txt")
    (root / "folder").symlink_to("sub")
    (root / "sub" / "up.txt").symlink_to("../a.txt")
    (root / "chain").symlink_to("link.txt")
    (root / "to_root").symlink_to(root)
    for path, text in {
        "link.txt": "a",
        "absolute.txt": "b",
        "folder/b.txt": "b",
        "folder/up.txt": "a",
        "folder/deep/../b.txt": "b",
        "chain": "a",
        "to_root/to_root/sub/b.txt": "b",
    }.items():
        assert text_of(root, path, kernel_walk=kernel_walk) == text, path


@pytest.mark.parametrize(
    ("links", "path"),
    [
        ({"link": "../outside/secret.txt"}, "link"),
        ({"link": "{outside}/secret.txt"}, "link"),
        ({"link": "/etc/passwd"}, "link"),
        ({"folder": "../outside"}, "folder/secret.txt"),
        ({"folder": "{outside}"}, "folder/secret.txt"),
        ({"one": "two", "two": "three", "three": "../outside/secret.txt"}, "one"),
        ({"dangling": "../outside/not-there"}, "dangling"),
        ({"dangling": "{outside}/not-there"}, "dangling"),
        ({"folder": "../outside/not-there"}, "folder/x"),
        ({"back": "../root/a.txt"}, "back"),
        ({"sub/link": "../../outside/secret.txt"}, "sub/link"),
        ({"process": "/proc/self/root"}, "process/etc/passwd"),
    ],
)
def test_a_link_that_leaves_the_root_is_refused(
    root: Path, outside: Path, links: dict[str, str], path: str, kernel_walk: bool
) -> None:
    tree(root)
    for name, target in links.items():
        (root / name).symlink_to(target.format(outside=outside))
    assert refusal(root, path, kernel_walk=kernel_walk).code == "outside_root"


def test_a_refusal_does_not_tell_whether_the_outside_exists(
    root: Path, outside: Path, kernel_walk: bool
) -> None:
    (root / "there").symlink_to(outside / "secret.txt")
    (root / "gone_").symlink_to(outside / "nothing.txt")
    there = refusal(root, "there", kernel_walk=kernel_walk).message
    gone = refusal(root, "gone_", kernel_walk=kernel_walk).message
    assert there.replace("there", "gone_") == gone
    up = refusal(root, "../outside/secret.txt", kernel_walk=kernel_walk).message
    assert up.replace("secret", "nothin") == (
        refusal(root, "../outside/nothin.txt", kernel_walk=kernel_walk).message
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", 'the root itself is "."'),
        ("a\0b", "NUL"),
        ("a" * (MAX_PATH_BYTES + 1), "at most 4,096"),
        ("é" * (MAX_PATH_BYTES // 2 + 1), "at most 4,096"),
        ("b" * 256, "too long"),
        ("a\ud800", "lone surrogate"),
    ],
)
def test_a_path_that_names_nothing_is_invalid(
    root: Path, path: str, words: str, kernel_walk: bool
) -> None:
    error = refusal(root, path, kernel_walk=kernel_walk)
    assert error.code == "invalid_path"
    assert words in error.message
    assert len(error.message) < 500
    error.message.encode()


def test_a_loop_of_links_is_invalid(root: Path, kernel_walk: bool) -> None:
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")
    assert refusal(root, "x", kernel_walk=kernel_walk).code == "invalid_path"


def test_forty_links_are_followed_and_one_more_is_not(root: Path, kernel_walk: bool) -> None:
    (root / "0").write_text("end")
    for number in range(1, 42):
        (root / str(number)).symlink_to(str(number - 1))
    assert text_of(root, "40", kernel_walk=kernel_walk) == "end"
    assert refusal(root, "41", kernel_walk=kernel_walk).code == "invalid_path"


def test_a_missing_file_is_answered_with_the_nearest_names(root: Path, kernel_walk: bool) -> None:
    tree(root)
    (root / "sub" / "settings.py").touch()
    error = refusal(root, "sub/setings.py", kernel_walk=kernel_walk)
    assert error.code == "not_found"
    assert error.message == (
        "'sub/setings.py' does not exist: folder 'sub' has no 'setings.py'; "
        "did you mean 'settings.py'?"
    )
    assert error.details == {"folder": "sub", "nearest": ["settings.py"]}


def test_a_missing_folder_is_named_itself(root: Path, kernel_walk: bool) -> None:
    tree(root)
    error = refusal(root, "sbu/b.txt", kernel_walk=kernel_walk)
    assert error.message == (
        "'sbu/b.txt' does not exist: folder '.' has no 'sbu'; did you mean 'sub'?"
    )
    far = refusal(root, "sub/zzzzzz/b.txt", kernel_walk=kernel_walk)
    assert far.message.endswith("folder 'sub' has no 'zzzzzz'; ls('sub') shows what is there")


def test_a_dangling_link_inside_is_not_found(root: Path, kernel_walk: bool) -> None:
    (root / "link").symlink_to("nothing")
    assert refusal(root, "link", kernel_walk=kernel_walk).code == "not_found"


@pytest.mark.parametrize("path", [".", "sub", "sub/", "sub/deep/..", "{root}"])
def test_a_folder_is_not_a_file(root: Path, path: str, kernel_walk: bool) -> None:
    tree(root)
    error = refusal(root, path.format(root=root), kernel_walk=kernel_walk)
    assert error.code == "not_a_file"
    assert "list it with ls(path)" in error.message


@pytest.mark.parametrize("path", ["a.txt/", "a.txt/.", "a.txt/x", "a.txt/..", "{root}/a.txt/"])
def test_a_file_is_not_a_folder(root: Path, path: str, kernel_walk: bool) -> None:
    tree(root)
    error = refusal(root, path.format(root=root), kernel_walk=kernel_walk)
    assert error.code == "not_a_directory"
    assert "'a.txt' is a file, so nothing is beneath it" in error.message


def test_what_is_no_regular_file_is_refused_without_waiting(root: Path, kernel_walk: bool) -> None:
    os.mkfifo(root / "fifo")
    (root / "to_fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as server:
        # The name of a socket has at most 108 bytes: bind it by a short way to the folder.
        folder = os.open(root, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/socket")
        os.close(folder)
        for path, kind in {"fifo": "a FIFO", "to_fifo": "a FIFO", "socket": "a socket"}.items():
            error = refusal(root, path, kernel_walk=kernel_walk)
            assert error.code == "not_a_file"
            assert kind in error.message


def test_a_device_is_refused(kernel_walk: bool) -> None:
    error = refusal(Path("/dev"), "null", kernel_walk=kernel_walk)
    assert error.code == "not_a_file"
    assert "a character device" in error.message


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user without rights: root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_is_said_to_be_so(kernel_walk: bool) -> None:
    # Not in tmp_path: another user must be able to get to it.
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        (folder / "file").touch(0o000)
        (folder / "closed").mkdir()
        (folder / "closed" / "file").touch()
        (folder / "closed").chmod(0o000)
        with unprivileged():
            for path in ("file", "closed/file"):
                error = refusal(folder, path, kernel_walk=kernel_walk)
                assert error.code == "permission_denied"
        (folder / "closed").chmod(0o700)
    finally:
        shutil.rmtree(folder)


def test_a_root_that_is_gone_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="the session's root cannot be opened"):
        Root(tmp_path / "gone")


def test_a_folder_is_located_by_its_real_path(root: Path) -> None:
    tree(root)
    (root / "link").symlink_to("sub/deep")
    with Root(root) as opened:
        assert opened.locate("link").path == "sub/deep"
        assert opened.locate("link/../b.txt").path == "sub/b.txt"
        assert not opened.locate("link/c.txt").is_folder
        assert opened.locate(".").path == opened.locate(str(root)).path == ""


def test_a_reported_name_is_opened_only_if_no_link_is_in_it(root: Path, kernel_walk: bool) -> None:
    tree(root)
    (root / "link.txt").symlink_to("a.txt")
    (root / "folder").symlink_to("sub")
    with Root(root, kernel_walk=kernel_walk) as opened:
        for path in ("link.txt", "folder/b.txt", "sub", "missing", "../root/a.txt"):
            assert opened.open_exact(path) is None, path
        fd = opened.open_exact("sub/b.txt")
        assert fd is not None
        os.close(fd)


def test_both_ways_of_opening_agree(root: Path, outside: Path) -> None:
    tree(root)
    (root / "in").symlink_to("sub")
    (root / "out").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    parts = ["", ".", "..", "sub", "in", "out", "loop", "a.txt", "b.txt", "secret.txt"]

    def answer(path: str, *, kernel_walk: bool) -> str:
        try:
            return text_of(root, path, kernel_walk=kernel_walk)
        except ToolError as error:
            return f"{error.code}: {error.message}"

    answers = set()
    for first in parts:
        for second in parts:
            for third in parts:
                path = f"{first}/{second}/{third}".lstrip("/") or "."
                by_kernel = answer(path, kernel_walk=True)
                assert by_kernel == answer(path, kernel_walk=False), path
                answers.add(by_kernel.partition(":")[0])
    assert {"a", "b", "outside_root", "not_found", "not_a_file", "not_a_directory"} <= answers


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_swapped_link_never_gives_content_from_outside(
    root: Path, outside: Path, swapped: str, kernel_walk: bool
) -> None:
    (outside / "f.txt").write_text("SECRET")
    (root / "d").mkdir()
    (root / "d" / "f.txt").write_text("inside")
    victim = root / "d" / "f.txt" if swapped == "file" else root / "d"
    target = outside / "f.txt" if swapped == "file" else outside
    aside = root / "aside"

    def swap() -> None:
        for _ in range(2_000):
            victim.rename(aside)
            victim.symlink_to(target)
            victim.unlink()
            aside.rename(victim)

    swapper = threading.Thread(target=swap)
    swapper.start()
    texts: list[str] = []
    codes: set[str] = set()
    while swapper.is_alive() or not texts:
        try:
            texts.append(text_of(root, "d/f.txt", kernel_walk=kernel_walk))
        except ToolError as error:
            codes.add(error.code)
    swapper.join()
    assert set(texts) == {"inside"}
    assert codes <= {"outside_root", "not_found", "failed"}


@pytest.mark.parametrize(
    ("becomes", "code"), [("link", "outside_root"), ("fifo", "not_a_file"), ("gone", "not_found")]
)
def test_a_file_swapped_between_look_and_open_is_refused(
    root: Path,
    outside: Path,
    becomes: str,
    code: str,
    kernel_walk: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = root / "a.txt"
    victim.write_text("inside")
    fstat, swapped = os.fstat, threading.Event()

    def swap_then_look(fd: int) -> os.stat_result:
        status = fstat(fd)
        if stat.S_ISREG(status.st_mode) and not swapped.is_set():
            swapped.set()
            victim.unlink()
            if becomes == "link":
                victim.symlink_to(outside / "secret.txt")
            elif becomes == "fifo":
                os.mkfifo(victim)
        return status

    codes: list[str] = []

    def attempt() -> None:
        codes.append(refusal(root, "a.txt", kernel_walk=kernel_walk).code)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", swap_then_look)
        # In a thread: to wait for the FIFO would be to wait for ever.
        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(timeout=20)
    assert swapped.is_set()
    assert codes == [code]


def test_no_descriptor_stays_open(root: Path, outside: Path, kernel_walk: bool) -> None:
    tree(root)
    (root / "out").symlink_to(outside)
    os.mkfifo(root / "fifo")
    before = len(os.listdir("/proc/self/fd"))
    for path in ["a.txt", "sub/../a.txt", "out/secret.txt", "fifo", "sub", "x", "a.txt/x", ".."]:
        try:
            text_of(root, path, kernel_walk=kernel_walk)
        except ToolError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before
