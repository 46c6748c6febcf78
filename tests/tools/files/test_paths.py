from __future__ import annotations

import ctypes
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ptc import ToolError
from ptc._core import _folder
from ptc_tools.files._atomic import Transaction
from ptc_tools.files._paths import MAX_PATH_BYTES, Root
from ptc_tools.files._syscalls import has_openat2


@pytest.fixture(params=["openat2", "by_hand", "posix"])
def kernel_walk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param == "openat2" and not has_openat2():
        pytest.skip("this kernel has no openat2")
    if request.param == "posix":
        # As on macOS, which has no O_PATH: it opens a folder without the right to list it.
        monkeypatch.setattr(_folder, "_ENTER", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return bool(request.param == "openat2")


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
    assert 'pass a path beneath it, like "src/main.py"' in error.message


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


def test_refusal_does_not_reveal_whether_an_outside_file_exists(
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
def test_malformed_path_is_invalid(root: Path, path: str, words: str, kernel_walk: bool) -> None:
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


def test_missing_file_error_suggests_the_nearest_names(root: Path, kernel_walk: bool) -> None:
    tree(root)
    (root / "sub" / "settings.py").touch()
    error = refusal(root, "sub/setings.py", kernel_walk=kernel_walk)
    assert error.code == "not_found"
    assert error.message == (
        "'sub/setings.py' does not exist: folder 'sub' has no 'setings.py'; "
        "did you mean 'settings.py'?"
    )
    assert error.details == {"folder": "sub", "nearest": ["settings.py"]}


def test_missing_folder_error_names_the_folder(root: Path, kernel_walk: bool) -> None:
    tree(root)
    error = refusal(root, "sbu/b.txt", kernel_walk=kernel_walk)
    assert error.message == (
        "'sbu/b.txt' does not exist: folder '.' has no 'sbu'; did you mean 'sub'?"
    )
    far = refusal(root, "sub/zzzzzz/b.txt", kernel_walk=kernel_walk)
    assert far.message.endswith("folder 'sub' has no 'zzzzzz'; ls('sub') lists it")


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


def test_non_regular_file_is_refused_without_blocking(root: Path, kernel_walk: bool) -> None:
    os.mkfifo(root / "fifo")
    (root / "to_fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as server:
        # The name of a socket has at most 108 bytes: bind it through a short path.
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
    """Run as an unprivileged user: root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_unreadable_file_is_reported_as_permission_denied(kernel_walk: bool) -> None:
    # Not in tmp_path: another user must be able to reach it.
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


def test_missing_root_is_reported(tmp_path: Path) -> None:
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


def test_both_implementations_of_path_resolution_agree(root: Path, outside: Path) -> None:
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


SWAPS = 10_000


def exchange(one: Path, other: Path) -> None:
    """Swap two names atomically (RENAME_EXCHANGE, renameat2(2)): neither is ever missing."""
    at_cwd, rename_exchange = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), rename_exchange)
    if result != 0:
        raise OSError(ctypes.get_errno(), "renameat2", str(one))


def swapper(victim: Path, target: Path) -> threading.Thread:
    """Start a thread that makes `victim` a link to `target` and back, 10,000 times."""
    aside = victim.with_name("aside")
    aside.symlink_to(target)

    def swap() -> None:
        for number in range(SWAPS):
            exchange(victim, aside)
            if not (victim.is_symlink() or aside.is_symlink()):
                # A write has replaced the link.
                fresh = victim.with_name(f"fresh{number}")
                fresh.symlink_to(target)
                fresh.rename(aside)

    return threading.Thread(target=swap)


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_swapped_link_never_yields_content_from_outside(
    root: Path, outside: Path, swapped: str, kernel_walk: bool
) -> None:
    (outside / "f.txt").write_text("SECRET")
    (root / "d").mkdir()
    (root / "d" / "f.txt").write_text("inside")
    victim = root / "d" / "f.txt" if swapped == "file" else root / "d"
    target = outside / "f.txt" if swapped == "file" else outside
    attack = swapper(victim, target)
    attack.start()
    texts: set[str] = set()
    codes: set[str] = set()
    while attack.is_alive() or not texts:
        try:
            texts.add(text_of(root, "d/f.txt", kernel_walk=kernel_walk))
        except ToolError as error:
            codes.add(error.code)
    attack.join()
    assert texts == {"inside"}
    assert codes <= {"outside_root", "failed"}


@pytest.mark.parametrize(
    ("becomes", "code"), [("link", "outside_root"), ("fifo", "not_a_file"), ("gone", "not_found")]
)
def test_file_swapped_between_check_and_open_is_refused(
    root: Path,
    outside: Path,
    becomes: str,
    code: str,
    kernel_walk: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victim = root / "a.txt"
    victim.write_text("inside")
    fstat, look, swapped = os.fstat, os.stat, threading.Event()

    def swap_after_fstat(fd: int) -> os.stat_result:
        return swap(fstat(fd))

    def swap_after_stat(path: Any, **options: Any) -> os.stat_result:
        status = look(path, **options)
        return swap(status) if "dir_fd" in options else status

    def swap(status: os.stat_result) -> os.stat_result:
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
        patched.setattr(os, "fstat", swap_after_fstat)
        patched.setattr(os, "stat", swap_after_stat)
        # In a thread: opening the FIFO could block forever.
        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(timeout=20)
    assert swapped.is_set()
    assert codes == [code]


def test_opening_a_path_leaves_no_descriptor_open(
    root: Path, outside: Path, kernel_walk: bool
) -> None:
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


# --- slots --------------------------------------------------------------------------------------


def slot_of(folder: Path, path: str, *, kernel_walk: bool) -> tuple[str, list[str], str, bool]:
    with Root(folder, kernel_walk=kernel_walk) as root, root.slot(path) as slot:
        return slot.path, list(slot.missing), slot.name, slot.fd is not None


def slot_refusal(folder: Path, path: str, *, kernel_walk: bool) -> ToolError:
    with pytest.raises(ToolError) as caught:
        slot_of(folder, path, kernel_walk=kernel_walk)
    return caught.value


@pytest.mark.parametrize(
    ("path", "real", "missing", "exists"),
    [
        ("a.txt", "a.txt", [], True),
        ("./sub//b.txt", "sub/b.txt", [], True),
        ("sub/../a.txt", "a.txt", [], True),
        ("new.txt", "new.txt", [], False),
        ("sub/new.txt", "sub/new.txt", [], False),
        ("x/y/new.txt", "x/y/new.txt", ["x", "y"], False),
        ("sub/x/./new.txt", "sub/x/new.txt", ["x"], False),
        ("{root}/sub/new.txt", "sub/new.txt", [], False),
        ("link.txt", "sub/b.txt", [], True),
        ("folder/b.txt", "sub/b.txt", [], True),
        ("folder/x/new.txt", "sub/x/new.txt", ["x"], False),
        ("absolute/new.txt", "sub/deep/new.txt", [], False),
        ("sub/up/a.txt", "a.txt", [], True),
    ],
)
def test_slot_resolves_links_to_the_real_target(
    root: Path, path: str, real: str, missing: list[str], exists: bool, kernel_walk: bool
) -> None:
    tree(root)
    (root / "link.txt").symlink_to("folder/b.txt")
    (root / "folder").symlink_to("sub")
    (root / "absolute").symlink_to(root / "sub" / "deep")
    (root / "sub" / "up").symlink_to("..")
    name = real.rpartition("/")[2]
    found = slot_of(root, path.format(root=root), kernel_walk=kernel_walk)
    assert found == (real, missing, name, exists)
    assert not (root / "x").exists()


@pytest.mark.parametrize(
    "path",
    [
        "../new.txt",
        "sub/../../new.txt",
        "/etc/new.txt",
        "{root}x/new.txt",
        "out/new.txt",
        "out/x/y/new.txt",
        "out_file",
        "dangling_out",
        "chain",
        "sub/middle/new.txt",
        "proc/self/cwd/new.txt",
        "/proc/self/cwd/new.txt",
    ],
)
def test_slot_outside_the_root_is_refused(
    root: Path, outside: Path, path: str, kernel_walk: bool
) -> None:
    tree(root)
    (root / "out").symlink_to("../outside")
    (root / "out_file").symlink_to(outside / "secret.txt")
    (root / "dangling_out").symlink_to("../outside/new.txt")
    (root / "chain").symlink_to("chain2")
    (root / "chain2").symlink_to("dangling_out")
    (root / "sub" / "middle").symlink_to("../../outside/nowhere")
    (root / "proc").symlink_to("/proc")
    error = slot_refusal(root, path.format(root=root), kernel_walk=kernel_walk)
    assert error.code == "outside_root"


@pytest.mark.parametrize("path", ["dangling", "chain", "dangling/new.txt", "sub/far/new.txt"])
def test_a_dangling_link_is_never_written_through(root: Path, path: str, kernel_walk: bool) -> None:
    tree(root)
    (root / "dangling").symlink_to("nothing")
    (root / "chain").symlink_to("dangling")
    (root / "sub" / "far").symlink_to("../sub/nothing/more")
    error = slot_refusal(root, path, kernel_walk=kernel_walk)
    assert error.code == "not_found"
    assert not (root / "nothing").exists()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (".", "not_a_file"),
        ("sub", "not_a_file"),
        ("sub/", "not_a_file"),
        ("new/", "not_a_file"),
        ("new/.", "not_a_file"),
        ("new/..", "not_found"),
        ("new/../a.txt", "not_found"),
        ("a.txt/", "not_a_directory"),
        ("a.txt/new.txt", "not_a_directory"),
        ("a.txt/x/new.txt", "not_a_directory"),
        ("fifo", "not_a_file"),
        ("to_fifo", "not_a_file"),
        ("loop", "invalid_path"),
        ("", "invalid_path"),
        ("a\0b", "invalid_path"),
        ("b" * 256, "invalid_path"),
        ("a/" * 2_048 + "b", "invalid_path"),
        ("\ud800", "invalid_path"),
    ],
)
def test_slot_that_cannot_hold_a_file_is_refused(
    root: Path, path: str, code: str, kernel_walk: bool
) -> None:
    tree(root)
    os.mkfifo(root / "fifo")
    (root / "to_fifo").symlink_to("fifo")
    (root / "loop").symlink_to("loop")
    assert slot_refusal(root, path, kernel_walk=kernel_walk).code == code


def test_slot_on_a_device_is_refused(kernel_walk: bool) -> None:
    assert slot_refusal(Path("/dev"), "null", kernel_walk=kernel_walk).code == "not_a_file"


@pytest.mark.parametrize("path", ["self/environ", "self/mem", "1/cmdline", "version", "kmsg"])
def test_file_of_a_kernel_file_system_is_refused(path: str, kernel_walk: bool) -> None:
    error = refusal(Path("/proc"), path, kernel_walk=kernel_walk)
    assert error.code in ("not_a_file", "outside_root")
    above = refusal(Path("/"), f"proc/{path}", kernel_walk=kernel_walk)
    assert above.code in ("not_a_file", "not_found", "permission_denied")
    if path == "version":
        assert "the kernel's own" in error.message
        assert "the kernel's own" in above.message
        assert slot_refusal(Path("/"), "proc/version", kernel_walk=kernel_walk).code == "not_a_file"
        with Root(Path("/"), kernel_walk=kernel_walk) as opened:
            assert opened.open_exact("proc/version") is None
            with pytest.raises(ToolError, match="the kernel's own"):
                opened.locate("proc/version")


@pytest.mark.parametrize("path", ["self/root/etc/passwd", "self/cwd/x", "self/exe", "self/fd/0"])
def test_a_magic_link_of_procfs_is_not_followed(path: str, kernel_walk: bool) -> None:
    error = refusal(Path("/proc"), path, kernel_walk=kernel_walk)
    assert error.code in ("outside_root", "not_found", "not_a_file")


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_swapped_link_never_causes_a_write_outside(
    root: Path, outside: Path, swapped: str, kernel_walk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A flush to disk takes as long as a hundred swaps.
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    (outside / "f.txt").write_text("SECRET")
    (root / "d").mkdir()
    (root / "d" / "f.txt").write_text("inside")
    victim = root / "d" / "f.txt" if swapped == "file" else root / "d"
    target = outside / "f.txt" if swapped == "file" else outside
    attack = swapper(victim, target)
    attack.start()
    written = 0
    codes: set[str] = set()
    while attack.is_alive() or not written:
        try:
            with (
                Root(root, kernel_walk=kernel_walk) as opened,
                opened.slot("d/f.txt") as slot,
                Transaction() as transaction,
            ):
                transaction.put(slot, b"written")
                transaction.commit()
            written += 1
        except ToolError as error:
            codes.add(error.code)
    attack.join()
    assert codes <= {"outside_root", "failed"}
    assert sorted(os.listdir(outside)) == ["f.txt", "secret.txt"]
    assert (outside / "f.txt").read_text() == "SECRET"
    assert (outside / "secret.txt").read_text() == "SECRET word\n"


def test_slot_leaves_no_descriptor_open(root: Path, outside: Path, kernel_walk: bool) -> None:
    tree(root)
    (root / "out").symlink_to(outside)
    (root / "link").symlink_to("sub/b.txt")
    os.mkfifo(root / "fifo")
    before = len(os.listdir("/proc/self/fd"))
    for path in ["a.txt", "sub/../a.txt", "out/x", "fifo", "sub", "x/y", "link", "a.txt/x", ".."]:
        try:
            slot_of(root, path, kernel_walk=kernel_walk)
        except ToolError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


MOUNTS = """
import os, subprocess, sys
from pathlib import Path
from typing import Any
from ptc import ToolError
from ptc_tools.files._atomic import Transaction
from ptc_tools.files._paths import Root

root, outside, kernel_walk = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True"
for folder in ("bound", "proc", "file"):
    (root / folder).mkdir() if folder != "file" else (root / folder).touch()
for command in (
    ["mount", "--make-rprivate", "/"],
    ["mount", "--bind", outside, str(root / "bound")],
    ["mount", "--bind", "/proc", str(root / "proc")],
    ["mount", "--bind", "/proc/version", str(root / "file")],
):
    subprocess.run(command, check=True)

def answer(path):
    try:
        with Root(root, kernel_walk=kernel_walk) as opened:
            with open(opened.open_file(path)) as file:
                return file.read()
    except ToolError as error:
        return error.code

for path in sys.argv[4:]:
    print(answer(path).strip())
"""


def test_mount_is_part_of_the_root_unless_it_is_a_kernel_file_system(
    root: Path, outside: Path, kernel_walk: bool
) -> None:
    paths = {
        "bound/secret.txt": "SECRET word",
        "bound/../../outside/secret.txt": "outside_root",
        "proc/version": "not_a_file",
        "proc/self/environ": "not_a_file",
        "file": "not_a_file",
        "proc/self/root/etc/passwd": "outside_root",
        "proc/self/cwd/x": "outside_root",
    }
    done = subprocess.run(
        [
            *("unshare", "--mount", "--map-root-user", sys.executable, "-c", MOUNTS),
            *(str(root), str(outside), str(kernel_walk), *paths),
        ],
        capture_output=True,
        text=True,
        cwd="/",
    )
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()[-200:]}")
    assert done.stdout.splitlines() == list(paths.values()), done.stderr
