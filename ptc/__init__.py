"""Programmatic tool calling: run a model's Python script against your tools, in a sandbox.

    async with Session(root=".") as session:
        result = await session.program(path="find.py", allowed_tools=["grep", "read"])

Names are imported on first use, so that ``import ptc`` is cheap and a worker, which imports
`ptc.worker`, never loads the host.
"""

from typing import TYPE_CHECKING

from ._core._lazy import lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._agents._agent_tool import agent_tool as agent_tool
    from ._agents._handles import TaskHandle as TaskHandle
    from ._agents._kinds import AgentKind as AgentKind
    from ._agents._outcome import TaskResult as TaskResult
    from ._agents._response import FinalAnswer as FinalAnswer
    from ._agents._task_tools import TaskRequest as TaskRequest
    from ._agents._tool_file import tool_from_file as tool_from_file
    from ._extraction._documents import Document as Document
    from ._extraction._extraction import Extraction as Extraction
    from ._extraction._row import Conflict, Evidence, ExtractedRow, ExtractionReport, RowError
    from ._facts import Layer as Layer
    from ._generation._elements import ElementStream as ElementStream
    from ._generation._generate import Fallback, Generated
    from ._generation._prompt_tool import prompt_tool as prompt_tool
    from ._programs._saved import SavedProgram as SavedProgram
    from ._records._content import Attachment, AttachmentRef, ImageContent, TextContent
    from ._records._limits import Limits, Usage
    from ._records._result import (
        CallRecord,
        Cut,
        Failure,
        Finding,
        PendingCall,
        RunEvent,
        RunResult,
        RunWarning,
    )
    from ._runs._rollback import Reverted, Rollback
    from ._runs._violation import Violation as Violation
    from ._runs._webhook import Webhook, WebhookDelivery
    from ._session._blocking import BlockingSession
    from ._session._blocking_iterator import BlockingElementStream as BlockingElementStream
    from ._session._blocking_iterator import BlockingExtraction as BlockingExtraction
    from ._session._session import Session
    from ._telemetry._settings import Telemetry as Telemetry
    from ._tools._allow import Allow as Allow
    from ._tools._approval import ApprovalRequest, Decision
    from ._tools._cache import Cache as Cache
    from ._tools._context import ToolContext, current_tool_context
    from ._tools._environment import Public as Public
    from ._tools._foreign import tool_from as tool_from
    from ._tools._metadata import ToolMetadata, get_tool_metadata
    from ._tools._retry import Retry as Retry
    from ._tools._revert import Effect as Effect
    from ._tools._tool import Tool, ToolCall, define_tool, tool
    from ._tools._tool_result import ToolResult as ToolResult
    from ._tools._toolset import Toolset as Toolset
    from .errors import BusyRunError as BusyRunError
    from .errors import ChangedToolsError as ChangedToolsError
    from .errors import DamagedRunError as DamagedRunError
    from .errors import ElementsChangedError as ElementsChangedError
    from .errors import EndedRunError as EndedRunError
    from .errors import GenerationError as GenerationError
    from .errors import JournalError as JournalError
    from .errors import LeaseLostError as LeaseLostError
    from .errors import ModelError as ModelError
    from .errors import OtherEngineError as OtherEngineError
    from .errors import PtcError as PtcError
    from .errors import RunError as RunError
    from .errors import SessionClosedError as SessionClosedError
    from .errors import SetupError as SetupError
    from .errors import ToolError as ToolError
    from .errors import TruncatedError as TruncatedError
    from .errors import UnknownRunError as UnknownRunError
    from .errors import UsageError as UsageError


__all__ = [
    "AgentKind",
    "Allow",
    "ApprovalRequest",
    "Attachment",
    "AttachmentRef",
    "BlockingElementStream",
    "BlockingExtraction",
    "BlockingSession",
    "BusyRunError",
    "Cache",
    "CallRecord",
    "ChangedToolsError",
    "Conflict",
    "Cut",
    "DamagedRunError",
    "Decision",
    "Document",
    "Effect",
    "ElementStream",
    "ElementsChangedError",
    "EndedRunError",
    "Evidence",
    "ExtractedRow",
    "Extraction",
    "ExtractionReport",
    "Failure",
    "Fallback",
    "FinalAnswer",
    "Finding",
    "Generated",
    "GenerationError",
    "ImageContent",
    "JournalError",
    "Layer",
    "LeaseLostError",
    "Limits",
    "ModelError",
    "OtherEngineError",
    "PendingCall",
    "PtcError",
    "Public",
    "Retry",
    "Reverted",
    "Rollback",
    "RowError",
    "RunError",
    "RunEvent",
    "RunResult",
    "RunWarning",
    "SavedProgram",
    "Session",
    "SessionClosedError",
    "SetupError",
    "TaskHandle",
    "TaskRequest",
    "TaskResult",
    "Telemetry",
    "TextContent",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolMetadata",
    "ToolResult",
    "Toolset",
    "TruncatedError",
    "UnknownRunError",
    "Usage",
    "UsageError",
    "Violation",
    "Webhook",
    "WebhookDelivery",
    "agent_tool",
    "current_tool_context",
    "define_tool",
    "get_tool_metadata",
    "prompt_tool",
    "tool",
    "tool_from",
    "tool_from_file",
]

__getattr__: "Callable[[str], object]"
__dir__: "Callable[[], list[str]]"
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "_agents._agent_tool": ["agent_tool"],
        "_agents._handles": ["TaskHandle"],
        "_agents._kinds": ["AgentKind"],
        "_agents._outcome": ["TaskResult"],
        "_agents._response": ["FinalAnswer"],
        "_agents._task_tools": ["TaskRequest"],
        "_agents._tool_file": ["tool_from_file"],
        "_session._blocking": ["BlockingSession"],
        "_session._blocking_iterator": ["BlockingElementStream", "BlockingExtraction"],
        "_extraction._documents": ["Document"],
        "_extraction._extraction": ["Extraction"],
        "_extraction._row": [
            "Conflict",
            "Evidence",
            "ExtractedRow",
            "ExtractionReport",
            "RowError",
        ],
        "_generation._elements": ["ElementStream"],
        "_generation._generate": ["Fallback", "Generated"],
        "_generation._prompt_tool": ["prompt_tool"],
        "_facts": ["Layer"],
        "_programs._saved": ["SavedProgram"],
        "_records._content": ["Attachment", "AttachmentRef", "ImageContent", "TextContent"],
        "_records._limits": ["Limits", "Usage"],
        "_records._result": [
            "CallRecord",
            "Cut",
            "Failure",
            "Finding",
            "PendingCall",
            "RunEvent",
            "RunResult",
            "RunWarning",
        ],
        "_runs._rollback": ["Reverted", "Rollback"],
        "_runs._violation": ["Violation"],
        "_runs._webhook": ["Webhook", "WebhookDelivery"],
        "_session._session": ["Session"],
        "_telemetry._settings": ["Telemetry"],
        "_tools._allow": ["Allow"],
        "_tools._approval": ["ApprovalRequest", "Decision"],
        "_tools._cache": ["Cache"],
        "_tools._context": ["ToolContext", "current_tool_context"],
        "_tools._environment": ["Public"],
        "_tools._foreign": ["tool_from"],
        "_tools._retry": ["Retry"],
        "_tools._revert": ["Effect"],
        "_tools._metadata": ["ToolMetadata", "get_tool_metadata"],
        "_tools._tool": ["Tool", "ToolCall", "define_tool", "tool"],
        "_tools._tool_result": ["ToolResult"],
        "_tools._toolset": ["Toolset"],
        "errors": [
            "BusyRunError",
            "ChangedToolsError",
            "DamagedRunError",
            "ElementsChangedError",
            "EndedRunError",
            "GenerationError",
            "JournalError",
            "LeaseLostError",
            "ModelError",
            "OtherEngineError",
            "PtcError",
            "RunError",
            "SessionClosedError",
            "SetupError",
            "ToolError",
            "TruncatedError",
            "UnknownRunError",
            "UsageError",
        ],
    },
)
__version__ = "0.1.0"
