"""The built-in tools, one file a tool.

::

    Session(root=".")
    Session(root=".", toolsets=(), tools=[ptc_tools.read, ptc_tools.grep])

Each name is imported when it is first used. A tool's module has an underscore because the module
and the tool would otherwise want the same name.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptc import Toolset

    from ._bash import CommandResult as CommandResult
    from ._bash import bash as bash
    from ._bash import bash_tool as bash_tool
    from ._git import git as git
    from ._git import git_tool as git_tool
    from ._glob import glob as glob
    from ._grep import Match as Match
    from ._grep import grep as grep
    from ._ls import Entry as Entry
    from ._ls import ls as ls
    from ._read import read as read

_HOME = {
    "CommandResult": "_bash",
    "Entry": "_ls",
    "Match": "_grep",
    "bash": "_bash",
    "bash_tool": "_bash",
    "git": "_git",
    "git_tool": "_git",
    "glob": "_glob",
    "grep": "_grep",
    "ls": "_ls",
    "read": "_read",
}

_BUILTIN = ("read", "ls", "glob", "grep", "bash", "git")
"""The tools of `builtin`, in the order a model is told about them."""

__all__ = [
    "CommandResult",
    "Entry",
    "Match",
    "bash",
    "bash_tool",
    "builtin",
    "git",
    "git_tool",
    "glob",
    "grep",
    "ls",
    "read",
]


def builtin() -> "Toolset":
    """The toolset ``builtin``: every tool of this package, confined to the session's root."""
    from ptc import Tool, Toolset

    found = (__getattr__(name) for name in _BUILTIN)
    return Toolset("builtin", tuple(item for item in found if isinstance(item, Tool)))


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
