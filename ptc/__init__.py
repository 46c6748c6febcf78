"""Programmatic tool calling: run a model's Python script against your tools, in a sandbox.

    async with Session(root=".") as session:
        result = await session.program(path="find.py", allowed_tools=["grep", "read"])

Names are imported on first use, so that ``import ptc`` is cheap and a worker, which imports
`ptc.worker`, never loads the host.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._blocking import BlockingSession as BlockingSession
    from ._generation._generate import Fallback, Generated
    from ._layer import Layer as Layer
    from ._records._content import Attachment, AttachmentRef, ImageContent, TextContent
    from ._records._limits import Limits, Usage
    from ._records._result import CallRecord, Cut, Failure, Finding, RunEvent, RunResult
    from ._runs._rollback import Reverted, Rollback
    from ._runs._violation import Violation as Violation
    from ._session import Session as Session
    from ._tools._allow import Allow as Allow
    from ._tools._approval import ApprovalRequest, Decision
    from ._tools._cache import Cache as Cache
    from ._tools._context import ToolContext, current_tool_context
    from ._tools._environment import Public as Public
    from ._tools._foreign import tool_from as tool_from
    from ._tools._retry import Retry as Retry
    from ._tools._revert import Effect as Effect
    from ._tools._tool import Tool, ToolCall, ToolMetadata, define_tool, get_tool_metadata, tool
    from ._tools._tool_result import ToolResult as ToolResult
    from ._tools._toolset import Toolset as Toolset
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
    "Allow": "_tools._allow",
    "ApprovalRequest": "_tools._approval",
    "Attachment": "_records._content",
    "AttachmentRef": "_records._content",
    "BlockingSession": "_blocking",
    "Cache": "_tools._cache",
    "CallRecord": "_records._result",
    "Cut": "_records._result",
    "Decision": "_tools._approval",
    "Effect": "_tools._revert",
    "Failure": "_records._result",
    "Fallback": "_generation._generate",
    "Finding": "_records._result",
    "Generated": "_generation._generate",
    "GenerationError": "errors",
    "ImageContent": "_records._content",
    "Layer": "_layer",
    "Limits": "_records._limits",
    "JournalError": "errors",
    "ModelError": "errors",
    "PtcError": "errors",
    "Public": "_tools._environment",
    "Retry": "_tools._retry",
    "Reverted": "_runs._rollback",
    "Rollback": "_runs._rollback",
    "RunError": "errors",
    "RunEvent": "_records._result",
    "RunResult": "_records._result",
    "Session": "_session",
    "SessionClosedError": "errors",
    "SetupError": "errors",
    "TextContent": "_records._content",
    "Tool": "_tools._tool",
    "ToolCall": "_tools._tool",
    "ToolContext": "_tools._context",
    "ToolError": "errors",
    "ToolMetadata": "_tools._tool",
    "ToolResult": "_tools._tool_result",
    "Toolset": "_tools._toolset",
    "Violation": "_runs._violation",
    "Usage": "_records._limits",
    "TruncatedError": "errors",
    "UsageError": "errors",
    "current_tool_context": "_tools._context",
    "define_tool": "_tools._tool",
    "get_tool_metadata": "_tools._tool",
    "tool": "_tools._tool",
    "tool_from": "_tools._foreign",
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
