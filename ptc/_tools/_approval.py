"""Asking before a call is made: what is asked (`ApprovalRequest`) and what is said (`Decision`)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import UsageError

__all__ = [
    "ApprovalGate",
    "ApprovalPrompt",
    "ApprovalRequest",
    "Approver",
    "Decision",
    "is_gated",
    "prompt_text",
]

ApprovalGate: TypeAlias = bool | Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
"""True, or a function, async or not, of the validated arguments. One that raises means yes."""
ApprovalPrompt: TypeAlias = str | Callable[[Mapping[str, Any]], str]
"""What the one who decides is told, or a function of the validated arguments that makes it."""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call that waits for a decision."""

    call_id: str
    """The call: ``<run id>.<path>``, as in its record."""
    run_id: str | None
    """Its run; None for a direct call."""
    tool: str
    """Tool's name."""
    arguments: Mapping[str, Any]
    """The validated arguments as JSON data: those the tool would get."""
    fingerprint: str
    """Digest of tool and arguments: a decision is about these and no others."""
    prompt: str = ""
    """The tool author's words for the one who decides; may be ``""``."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What the tool's author proposes for the decision's form, as given in `approval_defaults`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided of a request."""

    approved: bool
    """True: the call is made."""
    arguments: Mapping[str, Any] | None = None
    """Other arguments to make it with; they are validated as any call's. None: as asked."""
    by: str = ""
    """Who decided."""
    comment: str = ""
    """Why; a rejected call's error carries it."""

    def __post_init__(self) -> None:
        if not isinstance(self.approved, bool):
            msg = f"Decision.approved is True or False, not {self.approved!r}"
            raise UsageError(msg)
        if self.arguments is not None and not self.approved:
            msg = "Decision.arguments means nothing where the call is rejected"
            raise UsageError(msg)


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision]]
"""Waits for a decision. One that raises, or gives anything else, is a rejection."""


async def is_gated(gate: ApprovalGate, arguments: Mapping[str, Any]) -> bool:
    """True if a call with these arguments needs a decision; a predicate that fails says yes."""
    if isinstance(gate, bool):
        return gate
    try:
        answer = gate(arguments)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception:  # noqa: BLE001  # fail closed: a predicate that cannot tell means yes
        return True
    return answer is not False


def prompt_text(prompt: ApprovalPrompt, arguments: Mapping[str, Any]) -> str:
    """The prompt for these arguments; a function that fails loses the text, not the question."""
    if isinstance(prompt, str):
        return prompt
    try:
        return str(prompt(arguments))
    except Exception as error:  # noqa: BLE001  # the question stands without its text
        return f"(approval_prompt failed: {type(error).__name__})"
