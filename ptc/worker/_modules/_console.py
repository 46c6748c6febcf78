"""Where text for people goes: one place that the runtime points at the wire."""

from __future__ import annotations

import builtins
from collections.abc import Callable

__all__ = ["CONSOLE", "Stream"]


class Console:
    """Holds the `print` of the running script."""

    __slots__ = ("print", "targets")

    def __init__(self) -> None:
        self.print: Callable[..., None] = builtins.print
        #: Where `contextlib.redirect_stdout` sends text, innermost last.
        self.targets: list[object] = []

    def show(
        self,
        *values: object,
        sep: str | None = " ",
        end: str | None = "\n",
        file: object = None,
        flush: bool = False,
    ) -> None:
        """`print` of a script."""
        if file is None or file is STDOUT:
            file = self.targets[-1] if self.targets else None
        if file is None or type(file) is Stream:
            self.print(*values, sep=sep, end=end, flush=flush)
        else:
            self.print(*values, sep=sep, end=end, file=file, flush=flush)


CONSOLE = Console()


class Stream:
    """`sys.stdout` and `sys.stderr` of a script."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("the streams of a script cannot be changed")

    def write(self, text: str) -> int:
        """Print `text` as it is; return its length."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        CONSOLE.show(text, end="", file=self)
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Print each of `lines` as it is."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Do nothing: what is printed is on its way."""

    def isatty(self) -> bool:
        """Tell that nobody types here."""
        return False


STDOUT = Stream("<stdout>")
STDERR = Stream("<stderr>")


class redirect_stdout:  # the library's name
    """`contextlib.redirect_stdout`: what the script prints goes to `target`."""

    def __init__(self, new_target: object) -> None:
        self.new_target = new_target

    def __enter__(self) -> object:
        CONSOLE.targets.append(self.new_target)
        return self.new_target

    def __exit__(self, *_: object) -> None:
        CONSOLE.targets.pop()
