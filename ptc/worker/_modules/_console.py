"""Text output of a script: `print`, `sys.stdout`, `sys.stderr`, and their redirections."""

from __future__ import annotations

import builtins
import io
import sys
from collections.abc import Callable, Iterable
from typing import Any

from ..._wire._messages import Output

__all__ = ["CONSOLE", "LOG", "STDERR", "STDOUT", "Stream", "redirect_stderr", "redirect_stdout"]


def _write_to_process(text: str, output: Output) -> None:
    (sys.stdout if output is Output.STDOUT else sys.stderr).write(text)


class Stream:
    """`sys.stdout` or `sys.stderr` of a script."""

    __module__ = "_io"  # reprs and errors show it

    __slots__ = ("_output", "name")
    encoding = "utf-8"
    errors = "strict"
    closed = False
    name: str
    _output: Output

    def __init__(self, name: str, output: Output) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_output", Output(output))

    def __repr__(self) -> str:
        return f"<_io.TextIOWrapper name='{self.name}' mode='w' encoding='utf-8'>"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("the streams of a script cannot be changed")

    def write(self, text: str) -> int:
        """Print `text` as it is; return its length."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        CONSOLE.write(str.__str__(text), self._output)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Print each of `lines` as it is."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Do nothing: text is sent at once."""

    def isatty(self) -> bool:
        """Return False: there is no terminal."""
        return False

    def readable(self) -> bool:
        """Return False: nothing can be read."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> str:
        raise io.UnsupportedOperation("not readable")

    def reconfigure(self, **_: object) -> None:
        """Do nothing: text is sent as UTF-8, at once."""


Stream.__name__ = Stream.__qualname__ = "TextIOWrapper"

STDOUT = Stream("<stdout>", Output.STDOUT)
STDERR = Stream("<stderr>", Output.STDERR)
#: Standard error of `logging` and `ctx.log`: the same text, but subscribers receive it as a log.
LOG = Stream("<stderr>", Output.LOG)


class Console:
    """The streams of the running script, and the function behind them."""

    __slots__ = ("stderr", "stdout", "write")

    def __init__(self) -> None:
        #: Receives text and its destination; the runtime sends it to the host.
        self.write: Callable[[str, Output], None] = _write_to_process
        #: Current `sys.stdout` and `sys.stderr`: the script may set objects of its own.
        self.stdout: Any = STDOUT
        self.stderr: Any = STDERR

    def log(self) -> Any:
        """Return the stream for a log: standard error, or the script's replacement of it."""
        return LOG if self.stderr is STDERR else self.stderr

    def show(self, /, *values: object, file: object = None, **options: Any) -> None:
        """Print as the script's `print`; the builtin checks `options`."""
        target: Any = self.stdout if file is None else file
        if target is None:  # `sys.stdout = None`
            return
        if type(target) is not Stream:
            builtins.print(*values, file=target, **options)
            return
        # One message for all parts of a line.
        buffer = io.StringIO()
        builtins.print(*values, file=buffer, **options)
        self.write(buffer.getvalue(), target._output)


CONSOLE = Console()


class _Redirect:
    _name: str

    def __init__(self, new_target: object) -> None:
        self._target = new_target
        self._before: list[object] = []

    def __enter__(self) -> object:
        self._before.append(getattr(CONSOLE, self._name))
        setattr(CONSOLE, self._name, self._target)
        return self._target

    def __exit__(self, *_: object) -> None:
        setattr(CONSOLE, self._name, self._before.pop())


class redirect_stdout(_Redirect):  # the library's name
    """`contextlib.redirect_stdout`: redirects the script's output to `new_target`."""

    _name = "stdout"


class redirect_stderr(_Redirect):  # the library's name
    """`contextlib.redirect_stderr`."""

    _name = "stderr"
