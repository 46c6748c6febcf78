"""Standard output and standard error, with text made safe for terminals.

Rule 1: standard output carries the result and nothing else; a program reading a pipe can parse it.
    tests/cli/test_run.py::test_run_prints_only_the_value_as_json_on_a_pipe
    tests/cli/test_run.py::test_output_of_tools_and_of_their_file_goes_to_standard_error
Rule 2: text of a script, tool or model reaches a terminal without control characters: an escape
    sequence could repaint the screen, set the clipboard or answer as if it were typed.
    tests/cli/test_terminal.py::test_script_output_cannot_control_the_terminal
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ..errors import SetupError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Stream",
    "pretty_json",
    "result_file",
    "safe",
    "standard_error",
    "standard_output",
]

# C0 but tab and newline, DEL, and C1: U+009B alone is CSI (ECMA-48, 8.3.16). Then the directional
# controls, which make text display in an order other than its own (CVE-2021-42574), and lone
# surrogates, which no stream can encode.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_HIGHLIGHT_MOST = 100_000
"""Maximum length of JSON that is coloured; longer JSON is written plain, without delay."""


def safe(text: str) -> str:
    """Return `text` with every character that could control a terminal escaped."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def pretty_json(value: Any) -> str:
    """Format plain data as indented JSON."""
    import orjson

    from .._wire import _wide

    try:
        data = orjson.dumps(value, option=orjson.OPT_INDENT_2)
    except TypeError:  # an integer over 64 bits; the only tabs are the marks of such integers
        data = orjson.dumps(_wide.widen(value), option=orjson.OPT_INDENT_2).replace(b"\t", b"")
    return data.decode()


class Stream:
    """One of the two standard streams and the features of its terminal, if it has one."""

    def __init__(self, file: TextIO, name: str, *, must_arrive: bool) -> None:
        """Wrap `file`; with `must_arrive` a failed write raises instead of being ignored."""
        self._file = file
        self._name = name
        self._must_arrive = must_arrive
        self.is_closed = False
        """True if a write failed, so that further writes have no effect."""
        self.is_terminal = file.isatty()
        self.has_cursor = self.is_terminal and os.environ.get("TERM") not in ("dumb", "unknown")
        """True if lines can be redrawn in place."""
        # https://no-color.org: any non-empty value.
        self.has_colour = self.has_cursor and not os.environ.get("NO_COLOR")
        self._console: Console | None = None

    @property
    def console(self) -> Console:
        """A rich console on this stream. Imports rich: use it on a terminal only."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(
                file=self._file,
                force_terminal=self.is_terminal,
                # None drops bold and dim along with colour.
                color_system="auto" if self.has_colour else None,
                markup=False,
                highlight=False,
                emoji=False,
            )
        return self._console

    def write(self, text: str) -> None:
        """Write `text`, escaped by `safe` if the stream is a terminal.

        If the reader of a pipe has closed it, the rest is dropped without an error.

        Raises:
            SetupError: If a write to a `must_arrive` stream failed, e.g. the disk is full.
        """
        try:
            self._file.write(safe(text) if self.is_terminal else text)
            self._file.flush()
        except BrokenPipeError:
            self._drop()
        except OSError as error:
            self._drop()
            if self._must_arrive:
                msg = f"{self._name} cannot be written: {error.strerror or error}"
                raise SetupError(msg) from None

    def line(self, text: str = "", style: str = "") -> None:
        """Write one line, with `style` if the stream has colour."""
        if style and self.has_colour:
            from rich.text import Text

            self.console.print(Text(safe(text), style=style), soft_wrap=True)
        else:
            self.write(f"{text}\n")

    def json(self, value: Any) -> None:
        """Write plain data as JSON; coloured on a terminal."""
        text = pretty_json(value)
        if not self.is_terminal:
            self.write(f"{text}\n")
            return
        # These characters occur only in strings, where JSON can escape them.
        text = _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
        if self.has_colour and len(text) <= _HIGHLIGHT_MOST:
            from rich.highlighter import JSONHighlighter
            from rich.text import Text

            shown = Text(text)
            JSONHighlighter().highlight(shown)
            self.console.print(shown, soft_wrap=True)
        else:
            self.write(f"{text}\n")

    def _drop(self) -> None:
        """Redirect further writes to /dev/null, so that Python's flush at exit cannot fail."""
        self.is_closed = True
        self.is_terminal = self.has_cursor = self.has_colour = False
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._file.fileno())
            os.close(null)


def standard_output() -> Stream:
    """Open standard output, which carries the result."""
    return Stream(result_file(), "standard output", must_arrive=True)


_private: TextIO | None = None


def result_file() -> TextIO:
    """Return the file of standard output, which carries the result from now on and nothing else.

    What else this process writes there goes to standard error: a tools file, its tools, libraries
    and the programs they start. So call it before the code of a user is loaded.
    """
    global _private
    if _private is None:
        _private = _claim_output()
    return _as_utf8(sys.stdout) if _private is None else _private


def _claim_output() -> TextIO | None:
    """Return a file for standard output, in place of which there is standard error from now on.

    None if it is closed, or if a program that calls the command has put another file there.
    """
    file = sys.stdout
    try:
        if file is None or file.fileno() != 1:
            return None
        file.flush()
        private = os.dup(1)
        os.dup2(2, 1)
    except (OSError, ValueError):
        return None
    file.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it has a descriptor
    return _as_utf8(open(private, "w"))  # open until the end


def standard_error() -> Stream:
    """Open standard error, which carries everything else."""
    return Stream(_as_utf8(sys.stderr), "standard error", must_arrive=False)


def _as_utf8(file: TextIO | None) -> TextIO:
    if file is None or file.closed:  # closed by the shell, as in `ptc run x >&-`
        return Path(os.devnull).open("w", encoding="utf-8")
    # JSON is UTF-8 in every locale (RFC 8259, 8.1).
    reconfigure = getattr(file, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8", errors="backslashreplace")
    return file
