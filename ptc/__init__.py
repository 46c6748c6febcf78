"""Programmatic tool calling: run a model's Python script against your tools, in a jail.

    async with Session(root=".") as session:
        result = await session.program(path="find.py", allowed_tools=["grep", "read"])

The face is lazy: a name is imported when it is first used, so that ``import ptc`` costs nothing
and a worker, which imports `ptc.worker`, never loads the host.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._allow import Allow as Allow
    from ._approval import ApprovalRequest as ApprovalRequest
    from ._approval import Decision as Decision
    from ._blocking import BlockingSession as BlockingSession
    from ._cache import Cache as Cache
    from ._content import Attachment as Attachment
    from ._content import AttachmentRef as AttachmentRef
    from ._content import ImageContent as ImageContent
    from ._content import TextContent as TextContent
    from ._context import ToolContext as ToolContext
    from ._context import current_tool_context as current_tool_context
    from ._environment import Public as Public
    from ._foreign import tool_from as tool_from
    from ._generate import Fallback as Fallback
    from ._generate import Generated as Generated
    from ._layer import Layer as Layer
    from ._limits import Limits as Limits
    from ._limits import Usage as Usage
    from ._result import CallRecord as CallRecord
    from ._result import Cut as Cut
    from ._result import Failure as Failure
    from ._result import Finding as Finding
    from ._result import RunEvent as RunEvent
    from ._result import RunResult as RunResult
    from ._retry import Retry as Retry
    from ._revert import Effect as Effect
    from ._rollback import Reverted as Reverted
    from ._rollback import Rollback as Rollback
    from ._session import Session as Session
    from ._tool import Tool as Tool
    from ._tool import ToolCall as ToolCall
    from ._tool import ToolMetadata as ToolMetadata
    from ._tool import define_tool as define_tool
    from ._tool import get_tool_metadata as get_tool_metadata
    from ._tool import tool as tool
    from ._tool_result import ToolResult as ToolResult
    from ._toolset import Toolset as Toolset
    from ._violation import Violation as Violation
    from .errors import GenerationError as GenerationError
    from .errors import JournalError as JournalError
    from .errors import ModelError as ModelError
    from .errors import PtcError as PtcError
    from .errors import RunError as RunError
    from .errors import SessionClosedError as SessionClosedError
    from .errors import SetupError as SetupError
    from .errors import ToolError as ToolError
    from .errors import TruncatedError as TruncatedError
    from .errors import UsageError as UsageError

_HOME = {
    "Allow": "_allow",
    "ApprovalRequest": "_approval",
    "Attachment": "_content",
    "AttachmentRef": "_content",
    "BlockingSession": "_blocking",
    "Cache": "_cache",
    "CallRecord": "_result",
    "Cut": "_result",
    "Decision": "_approval",
    "Effect": "_revert",
    "Failure": "_result",
    "Fallback": "_generate",
    "Finding": "_result",
    "Generated": "_generate",
    "GenerationError": "errors",
    "ImageContent": "_content",
    "Layer": "_layer",
    "Limits": "_limits",
    "JournalError": "errors",
    "ModelError": "errors",
    "PtcError": "errors",
    "Public": "_environment",
    "Retry": "_retry",
    "Reverted": "_rollback",
    "Rollback": "_rollback",
    "RunError": "errors",
    "RunEvent": "_result",
    "RunResult": "_result",
    "Session": "_session",
    "SessionClosedError": "errors",
    "SetupError": "errors",
    "TextContent": "_content",
    "Tool": "_tool",
    "ToolCall": "_tool",
    "ToolContext": "_context",
    "ToolError": "errors",
    "ToolMetadata": "_tool",
    "ToolResult": "_tool_result",
    "Toolset": "_toolset",
    "Violation": "_violation",
    "Usage": "_limits",
    "TruncatedError": "errors",
    "UsageError": "errors",
    "current_tool_context": "_context",
    "define_tool": "_tool",
    "get_tool_metadata": "_tool",
    "tool": "_tool",
    "tool_from": "_foreign",
}

__all__ = [
    "Allow",
    "ApprovalRequest",
    "Attachment",
    "AttachmentRef",
    "BlockingSession",
    "Cache",
    "CallRecord",
    "Cut",
    "Decision",
    "Effect",
    "Failure",
    "Fallback",
    "Finding",
    "Generated",
    "GenerationError",
    "ImageContent",
    "JournalError",
    "Layer",
    "Limits",
    "ModelError",
    "PtcError",
    "Public",
    "Retry",
    "Reverted",
    "Rollback",
    "RunError",
    "RunEvent",
    "RunResult",
    "Session",
    "SessionClosedError",
    "SetupError",
    "TextContent",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolMetadata",
    "ToolResult",
    "Toolset",
    "TruncatedError",
    "Usage",
    "UsageError",
    "Violation",
    "current_tool_context",
    "define_tool",
    "get_tool_metadata",
    "tool",
    "tool_from",
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
