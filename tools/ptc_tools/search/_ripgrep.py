"""A run of ripgrep: start it confined, read its output, and terminate it in every case.

ripgrep reports only positions: the paths of files, and the byte at which a line starts. Text never
comes from it: the caller opens each file through `_paths` and reads the line itself. A folder that
is swapped for a link while ripgrep walks therefore reveals nothing.

Rule 1: ripgrep can open only files beneath the root and its own libraries, if the kernel has
    Landlock (5.13).
    test_an_ignore_file_that_links_outside_is_not_read
Rule 2: No file outside the root affects the result: no configuration, no ignore file of a parent
    folder or of the user.
    test_ignore_file_above_the_root_is_not_applied
Rule 3: When the call ends, for any reason, the process has been killed and reaped.
    test_a_cancelled_search_leaves_no_process
Rule 4: Neither a hostile file nor a hostile pattern exhausts the host's memory: each line of output
    is bounded, and ripgrep's own memory has a limit.
    test_huge_line_cannot_exhaust_the_memory
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, TypeVar

from ptc import ToolError
from ptc._core._folder import Folder, pread

from .._killable import in_killable_thread
from ..files._paths import Place, Root
from ._spawn import Start, errors_file

__all__ = ["Hit", "Ripgrep", "run_killable"]

MAX_IGNORE_BYTES = 1_048_576
"""Maximum size of an ignore file above the searched folder; a longer one is not applied."""

_MAX_RECORD_BYTES = 65_536
"""Maximum length of a path and position in ripgrep's output: 16 times PATH_MAX."""

_FLAGS = (
    "--no-config",  # Else RIPGREP_CONFIG_PATH could bring --pre, which runs a program.
    "--no-messages",  # A file that cannot be opened is skipped, as README.md says.
    "--no-ignore-messages",
    "--no-ignore-parent",  # Those beneath the root are passed by --ignore-file.
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-require-git",  # A workspace need not be a git checkout for .gitignore to count.
    "--no-follow",
    "--color=never",
    "--path-separator=/",
    "--null",
)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Hit:
    """The position of a line that matches."""

    line: int
    """Number of the line, from 1."""
    offset: int
    """Offset in bytes at which the line starts."""


async def run_killable(body: Callable[[Ripgrep], _T]) -> _T:
    """Run `body` in a thread. Cancellation kills its ripgrep and waits for the thread."""
    ripgrep = Ripgrep()

    def work() -> _T:
        try:
            return body(ripgrep)
        finally:
            ripgrep.end()

    return await in_killable_thread(work, ripgrep.kill)


class Ripgrep:
    """One process of ripgrep. Only `kill` may be called from another thread."""

    def __init__(self, remedy: str = "literal=True searches for plain text") -> None:
        """Start nothing yet.

        Args:
            remedy: Advice in the error of an invalid pattern.
        """
        self._remedy = remedy
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._errors = -1
        self._begun: Start | None = None

    def files(self, root: Root, place: Place, options: Sequence[str]) -> Iterator[str]:
        """Yield the paths of the files beneath folder `place`, relative to the root, unordered.

        Raises:
            ToolError: ``failed`` if ripgrep is missing or fails.
        """
        output = self._start_in(root, place, ["--files", *options])
        for record, _ in _records(output, with_position=False):
            yield os.fsdecode(record).removeprefix("./")
        self._finish()

    def lines(
        self, root: Root, place: Place, options: Sequence[str]
    ) -> Iterator[tuple[str, Hit | None]]:
        """Yield the path and position of each match, file by file; None for a binary file.

        Raises:
            ToolError: ``bad_pattern`` with ripgrep's message; ``failed`` as for `files`.
        """
        arguments = [
            "--with-filename",
            "--no-heading",
            "--line-number",
            "--byte-offset",
            # Only the position is needed: omit the text of every line over one byte.
            "--max-columns=1",
            # No transcoding: offsets are those of the file. Text is UTF-8, as for read.
            "--encoding=none",
            "--crlf",
            # A mapped file that shrinks would kill the process.
            "--no-mmap",
            *options,
        ]
        output = self._start_in(root, place, arguments)
        for token, position in _records(output, with_position=True):
            while note := _BINARY_NOTE.match(token):
                yield os.fsdecode(note[1]).removeprefix("./"), None
                token = token[note.end() :]
            if position is not None:
                line, offset = position.split(b":", 2)[:2]
                yield os.fsdecode(token).removeprefix("./"), Hit(int(line), int(offset))
        self._finish()

    def occurrences(
        self, folder: Folder, name: str, options: Sequence[str]
    ) -> Iterator[tuple[int, int, int]]:
        """Yield line, offset and length in bytes of each occurrence in one file; lines from 0.

        Args:
            folder: Folder of the file.
            name: Name of the file.
            options: The pattern, and how it is matched.

        Raises:
            ToolError: As for `lines`.
        """
        arguments = [
            "--no-filename",
            "--no-heading",
            "--line-number",
            "--byte-offset",
            "--only-matching",
            "--text",
            "--encoding=none",
            # A value may be one line of a gigabyte, which would not fit into a buffer.
            "--mmap",
            *options,
        ]
        yield from _occurrences(self._start(folder, name, b"", arguments))
        self._finish()

    def kill(self) -> None:
        """Kill the process, or prevent its start. Idempotent, and safe from any thread."""
        with self._lock:
            self._killed = True
            if self._process is not None:
                self._process.kill()

    def end(self) -> None:
        """Kill the process if it runs, reap it, and close its descriptors."""
        self.kill()
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1
        if self._begun is not None:
            self._begun.close()

    def _start_in(self, root: Root, place: Place, options: Sequence[str]) -> IO[bytes]:
        return self._start(root.top, place.path, _ignore_rules(root, place), options)

    def _start(self, folder: Folder, path: str, rules: bytes, options: Sequence[str]) -> IO[bytes]:
        program = _binary()
        self._errors = errors_file()
        begun = self._begun = Start([program, *_FLAGS, *options], folder, path, rules)
        try:
            with self._lock:
                if self._killed:
                    raise ToolError("the search was cancelled", code="cancelled")
                process = self._process = begun.spawn(self._errors)
            begun.feed(process)
        except OSError as error:
            msg = f"ripgrep ({program}) cannot be started: {error}"
            raise ToolError(msg, code="failed") from None
        finally:
            begun.close_pipe()
        if process.stdout is None:
            raise AssertionError("started with a pipe")
        return process.stdout

    def _finish(self) -> None:
        """Reap the process after its output has ended; raise if it failed."""
        if self._process is None:
            raise AssertionError("not started")
        code = self._process.wait()
        words = pread(self._errors, 4_096, 0).decode("utf-8", "replace").strip()
        if code in (0, 1) or (code == 2 and not words):
            # 1: nothing found. 2 without a message: a file could not be opened (--no-messages).
            return
        if code == 2:
            raise ToolError(_pattern_message(words, self._remedy), code="bad_pattern")
        if self._killed:
            raise ToolError("the search was cancelled", code="cancelled")
        if code < 0:
            msg = (
                f"ripgrep was killed by signal {-code}, most likely out of memory: a file has a "
                f"line of hundreds of megabytes; search elsewhere with path=... {words}"
            )
        else:
            msg = f"ripgrep failed with exit code {code}: {words or 'no message'}"
        raise ToolError(msg.strip(), code="failed")


def _pattern_message(words: str, remedy: str) -> str:
    text = words.removeprefix("rg: ").partition("\n\nConsider enabling")[0]
    return (
        f"{text}\n(the pattern is a regular expression of Rust's regex crate, matched by line, "
        f"without look-around and back-references; {remedy})"
    )


_BINARY_NOTE = re.compile(
    rb"(?s)\n*(.{1,4096}?): (?:WARNING: stopped searching binary file after match|binary file "
    rb'matches) \(found "\\0" byte around offset \d+\)\n+'
)


def _records(output: IO[bytes], *, with_position: bool) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the text before each NUL and, with positions, the line after it.

    A path may have a newline, so a record extends to NUL and its position from there to a newline.
    The last record has no position if the output ends with a note.
    """
    buffer = b""
    while chunk := os.read(output.fileno(), 65_536):
        buffer += chunk
        start = 0
        while (nul := buffer.find(b"\0", start)) >= 0:
            if not with_position:
                yield buffer[start:nul], None
                start = nul + 1
                continue
            newline = buffer.find(b"\n", nul)
            if newline < 0:
                break
            yield buffer[start:nul], buffer[nul + 1 : newline]
            start = newline + 1
        buffer = buffer[start:]
        if len(buffer) > _MAX_RECORD_BYTES:
            raise ToolError("ripgrep's output is invalid: a record is too long")
    if with_position and buffer:
        yield buffer, None


def _occurrences(output: IO[bytes]) -> Iterator[tuple[int, int, int]]:
    """Read ``line:offset:text`` of each occurrence; a text of any length is only counted."""
    buffer = b""
    long: tuple[int, int, int] | None = None
    while chunk := os.read(output.fileno(), 65_536):
        buffer += chunk
        start = 0
        while (newline := buffer.find(b"\n", start)) >= 0:
            record = buffer[start:newline]
            yield _occurrence(record) if long is None else (*long[:2], long[2] + len(record))
            start, long = newline + 1, None
        buffer = buffer[start:]
        if len(buffer) > _MAX_RECORD_BYTES:
            more = len(buffer)
            long = _occurrence(buffer) if long is None else (*long[:2], long[2] + more)
            buffer = b""


def _occurrence(record: bytes) -> tuple[int, int, int]:
    line, offset, text = record.split(b":", 2)
    return int(line) - 1, int(offset), len(text)


@lru_cache(maxsize=1)
def _binary() -> str:
    """Find ``rg``: from the package `ripgrep` beside this interpreter, else on PATH.

    Raises:
        ToolError: ``failed`` with the command that installs it.
    """
    beside = [Path(sys.executable or "").parent, Path(sysconfig.get_path("scripts"))]
    search = os.pathsep.join([*map(str, beside), os.environ.get("PATH", "")])
    # Planted rg: a relative entry means the folder in which the host was started, which may be
    # the workspace.
    absolute = [entry for entry in search.split(os.pathsep) if Path(entry).is_absolute()]
    found = shutil.which("rg", path=os.pathsep.join(absolute))
    if found is None:
        msg = (
            "ripgrep (rg) is not installed on the host; install it with "
            '`pip install "ripgrep>=14.1,<15"` or from the system\'s packages'
        )
        raise ToolError(msg, code="failed")
    return found


# Ignore files between the root and the searched folder. ripgrep would read those of all parents,
# up to `/`, and has bugs if the search starts below an ignore file (its issues 2747, 2770 and
# 2778 on GitHub).


def _ignore_rules(root: Root, place: Place) -> bytes:
    """Return the rules of ignore files above folder `place`, rewritten relative to the root.

    The last rule that matches wins, and ignore files in the folder itself or below it override
    these. As in ripgrep, .rgignore overrides .ignore, which overrides .gitignore.
    """
    if not place.is_folder or not place.path:
        return b""
    names = place.path.split("/")
    rules: dict[str, list[bytes]] = {".gitignore": [], ".ignore": [], ".rgignore": []}
    for depth in range(len(names)):
        folder = Place("/".join(names[:depth]), is_folder=True)
        for name, lines in rules.items():
            text = _small_file(root, folder.child(name))
            lines += [_rebase(line, folder.path) for line in text.splitlines()]
    return b"\n".join(line for lines in rules.values() for line in lines)


def _small_file(root: Root, path: str) -> bytes:
    fd = root.open_exact(path)
    if fd is None:
        return b""
    with open(fd, "rb") as file:
        data = file.read(MAX_IGNORE_BYTES + 1)
    return data if len(data) <= MAX_IGNORE_BYTES else b""


def _rebase(line: bytes, folder: str) -> bytes:
    """Rewrite a rule of the ignore file in `folder` for the root (gitignore(5))."""
    if not folder or not line.strip() or line.startswith(b"#"):
        return line
    negation = b"!" if line.startswith(b"!") else b""
    rule = line[len(negation) :]
    base = re.sub(rb"([\\*?\[\]{}!#])", rb"\\\1", os.fsencode(folder))
    # A slash other than at the end anchors a rule to the folder of its file.
    anchored = b"/" in rule.rstrip()[:-1]
    return negation + b"/" + base + (b"/" if anchored else b"/**/") + rule.removeprefix(b"/")
