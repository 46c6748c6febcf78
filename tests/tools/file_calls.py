"""Random calls that change files, with the result of each; run by a confined command.

``python file_calls.py SEED STEPS`` works in its current folder and prints one line for each call,
then the resulting tree. Two runs with the same seed print the same if files behave the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import random
import stat
import sys
from collections.abc import Callable

NAMES = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/../a", "./b", "d/", "a/", "l", "l/a", "m", "d//c",
         "d/e", "d", ".", "nowhere/a", "x" * 300, "", "\udcff", "ü", "l/../a", "d/l/b",
         "/dev/null", "/usr/no", "/dev/fd/0"]  # fmt: skip
MODES = [0o777, 0o666, 0o600, 0o4755, 0o000]
FLAGS = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_CREAT,
         os.O_WRONLY | os.O_CREAT | os.O_EXCL, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND,
         os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, os.O_RDONLY | os.O_CREAT,
         os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, os.O_RDONLY | os.O_DIRECTORY,
         os.O_WRONLY | os.O_NONBLOCK, os.O_PATH | os.O_CREAT, os.O_WRONLY | os.O_SYNC | os.O_CREAT,
         os.O_TMPFILE | os.O_RDWR]  # fmt: skip


START = os.getcwd()


class Player:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.folders: list[int | None] = [None]
        self.home = os.open(".", os.O_PATH)
        self.last: list[object] = []
        """Description of the last call."""

    def name(self) -> str:
        name = self.random.choice(NAMES)
        self.last.append(name)
        if name.startswith(("a", "b", "d")) and self.random.random() < 0.1:
            return self.random.choice(["/proc/self/cwd/", f"{START}/"]) + name
        return name

    def at(self) -> int | None:
        return self.random.choice(self.folders)

    def step(self) -> object:
        calls: list[Callable[[], object]] = [self.open] * 6 + [
            *(self.mkdir, self.mkdir, self.symlink, self.link, self.rename, self.rename),
            *(self.unlink, self.rmdir, self.truncate, self.chmod, self.umask, self.mkfifo),
            *(self.chdir, self.opendir, self.fchmod, self.exchange),
        ]
        call = self.random.choice(calls)
        self.last = [call.__name__]
        return call()

    def mkdir(self) -> None:
        os.mkdir(self.name(), self.random.choice(MODES), dir_fd=self.at())

    def symlink(self) -> None:
        target = self.name().replace("/dev/fd/0", "a").replace("/proc/self/cwd/", "")
        name = self.random.choice(["l", "m", "d/l", self.name()])
        os.symlink(target, name, dir_fd=self.at())

    def link(self) -> None:
        os.link(
            *(self.name(), self.name()),
            src_dir_fd=self.at(),
            dst_dir_fd=self.at(),
            follow_symlinks=self.random.choice([True, False]),
        )

    def rename(self) -> None:
        os.rename(self.name(), self.name(), src_dir_fd=self.at(), dst_dir_fd=self.at())

    def unlink(self) -> None:
        os.unlink(self.name(), dir_fd=self.at())

    def rmdir(self) -> None:
        os.rmdir(self.name(), dir_fd=self.at())

    def truncate(self) -> None:
        name = self.name().replace("/dev/fd/0", "a")
        os.truncate(name, self.random.choice([0, 5, 1 << 40, -1]))

    def chmod(self) -> None:
        os.chmod(self.name(), self.random.choice(MODES))

    def umask(self) -> object:
        return os.umask(self.random.choice([0, 0o022, 0o077]))

    def mkfifo(self) -> None:
        os.mkfifo(self.random.choice(["p", "d/p"]), self.random.choice(MODES))

    def chdir(self) -> None:
        os.fchdir(self.home)
        os.chdir(self.random.choice([".", "d", "d/e", "l"]))

    def opendir(self) -> None:
        name = self.random.choice(["d", "d/e", "."])
        self.folders.append(os.open(name, os.O_RDONLY | os.O_DIRECTORY))

    def fchmod(self) -> None:
        fd = os.open(self.name(), os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.fchmod(fd, self.random.choice(MODES))
        finally:
            os.close(fd)

    def exchange(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        names = (os.fsencode(self.name()), os.fsencode(self.name()))
        if libc.renameat2(-100, names[0], -100, names[1], self.random.choice([1, 2])) < 0:
            raise OSError(ctypes.get_errno(), "")

    def open(self) -> object:
        flags, mode = self.random.choice(FLAGS), self.random.choice(MODES)
        self.last += [oct(flags), oct(mode)]
        fd = os.open(self.name(), flags, mode, dir_fd=self.at())
        try:
            said: list[object] = [stat.filemode(os.fstat(fd).st_mode), os.get_inheritable(fd)]
            with contextlib.suppress(OSError):
                said.append(os.write(fd, b"0123456789"[: self.random.randrange(10)]))
            with contextlib.suppress(OSError):
                said.append(os.lseek(fd, 0, os.SEEK_CUR))
            return said
        finally:
            os.close(fd)


def tree() -> list[str]:
    lines = []
    for folder, folders, files in os.walk("."):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = os.path.join(folder, name)
            info = os.lstat(path)
            text = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""
            if stat.S_ISREG(info.st_mode) and info.st_size < 10_000 and os.access(path, os.R_OK):
                with open(path, "rb") as file:
                    text = repr(file.read())
            lines.append(f"{path!a} {stat.filemode(info.st_mode)} {info.st_nlink} {text!a}")
    return lines


def main() -> None:
    player = Player(int(sys.argv[1]))
    os.mkdir("d")
    for _ in range(int(sys.argv[2])):
        said: object
        try:
            said = player.step()
        except OSError as error:
            name = errno.errorcode[error.errno or 0]
            # Landlock reports a link of a folder by another error.
            said = name.replace("EXDEV", "EPERM") if player.last[0] == "link" else name
        print(player.last, said)  # noqa: T201 - what it is for
    os.chmod(START, 0o700)
    os.fchdir(player.home)
    print(*tree(), sep="\n")  # noqa: T201 - what it is for


main()
