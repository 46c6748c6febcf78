"""Programmatic tool calling: run a model's Python script against your tools, in a jail.

    async with Session(root=".") as session:
        result = await session.program(path="find.py", allowed_tools=["grep", "read"])

The face is lazy: a name is imported when it is first used, so that ``import ptc`` costs nothing
and a worker, which imports `ptc.worker`, never loads the host.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._limits import Limits as Limits
    from ._limits import Usage as Usage
    from ._tool import Tool as Tool
    from ._tool import ToolCall as ToolCall
    from ._tool import ToolContext as ToolContext
    from ._tool import ToolResult as ToolResult
    from ._tool import define_tool as define_tool
    from ._tool import tool as tool
    from ._toolset import Toolset as Toolset
    from .errors import PtcError as PtcError
    from .errors import ToolError as ToolError
    from .errors import UsageError as UsageError

_HOME = {
    "Limits": "_limits",
    "PtcError": "errors",
    "Tool": "_tool",
    "ToolCall": "_tool",
    "ToolContext": "_tool",
    "ToolError": "errors",
    "ToolResult": "_tool",
    "Toolset": "_toolset",
    "Usage": "_limits",
    "UsageError": "errors",
    "define_tool": "_tool",
    "tool": "_tool",
}

__all__ = [
    "Limits",
    "PtcError",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "Toolset",
    "Usage",
    "UsageError",
    "define_tool",
    "tool",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
