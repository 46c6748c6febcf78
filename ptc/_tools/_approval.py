"""Approval of calls: the request (`ApprovalRequest`) and the answer (`Decision`)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

from .._dataclass import dataclass
from ..errors import ToolError, UsageError

__all__ = [
    "ApprovalGate",
    "ApprovalNeededError",
    "ApprovalPrompt",
    "ApprovalRequest",
    "Approver",
    "Decision",
    "prompt_text",
    "requires_approval",
]

ApprovalGate: TypeAlias = bool | Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
"""True, or a predicate of the validated arguments, async or not. If it raises, approval is
required."""
ApprovalPrompt: TypeAlias = str | Callable[[Mapping[str, Any]], str]
"""Text for the approver, or a function of the validated arguments that returns it."""


class ApprovalNeededError(ToolError):
    """A running tool requires approval of its call, which has had no effect yet."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that is awaiting approval."""

    call_id: str
    """The call: ``<run id>.<path>``, as in its record."""
    run_id: str | None
    """Its run; None for a direct call."""
    tool: str
    """Tool's name."""
    arguments: Mapping[str, Any]
    """The validated arguments as JSON data, as the tool would receive them."""
    fingerprint: str
    """Digest of tool and arguments: a decision is valid for these only."""
    prompt: str = ""
    """The tool author's text for the approver; may be ``""``."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values that the tool's author proposes for the approver's form (`approval_defaults`)."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Answer to an approval request."""

    approved: bool
    """True: the call is made."""
    arguments: Mapping[str, Any] | None = None
    """Arguments to use instead, validated like those of any call. None: those requested."""
    by: str = ""
    """Name of the approver."""
    comment: str = ""
    """Reason; the error of a rejected call contains it."""

    def __post_init__(self) -> None:
        if not isinstance(self.approved, bool):
            msg = f"Decision.approved must be True or False, not {self.approved!r}"
            raise UsageError(msg)
        if self.arguments is not None and not self.approved:
            msg = "Decision.arguments has no meaning for a rejected call; pass approved=True"
            raise UsageError(msg)


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision]]
"""Returns the decision on a request. If it raises or returns anything else, the call is
rejected."""


async def requires_approval(gate: ApprovalGate, arguments: Mapping[str, Any]) -> bool:
    """True if a call with these arguments requires approval, or the predicate raises."""
    if isinstance(gate, bool):
        return gate
    try:
        answer = gate(arguments)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception:  # noqa: BLE001  # fail closed: a broken predicate never skips the approval
        return True
    return answer is not False


def prompt_text(prompt: ApprovalPrompt, arguments: Mapping[str, Any]) -> str:
    """Return the prompt, or a note if its function raises: the approver is asked anyway."""
    if isinstance(prompt, str):
        return prompt
    try:
        return str(prompt(arguments))
    except Exception as error:  # noqa: BLE001  # the request is made without its text
        return f"(approval_prompt failed: {type(error).__name__})"
