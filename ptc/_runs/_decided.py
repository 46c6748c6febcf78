"""Decisions about pending calls: the names of those who made them, and earlier decisions."""

from __future__ import annotations

from datetime import datetime

from .._records._result import PendingCall
from ..errors import UsageError
from ..journal._journal import DecisionRow, RunRecord

__all__ = [
    "describe_action",
    "describe_decision",
    "describe_other_decision",
    "find_edits",
    "validate_decider",
]

_NAME_CHARS = 200
_DONE = {
    "approve": "approved",
    "reject": "rejected",
    "done": "recorded as done",
    "failed": "recorded as failed",
    "again": "approved to be made again",
}


def describe_decision(run_id: str, decision: DecisionRow) -> str:
    """Describe an earlier decision to somebody who makes another one."""
    when = datetime.fromtimestamp(decision.at_ms / 1000).astimezone().isoformat(" ", "seconds")
    return (
        f"run {run_id!r}: call {decision.path} was {describe_action(decision)} at {when}; "
        "decisions are final"
    )


def describe_other_decision(run_id: str, call: PendingCall) -> str:
    """Describe the decision that a pending call needs to somebody who makes one of another kind."""
    if call.kind == "unknown":
        return (
            f"run {run_id!r}: call {call.call} ({call.tool}) was interrupted and its outcome is "
            "unknown. Check whether it took effect, and record its outcome: `settle` (`ptc settle "
            f"{run_id} {call.call} --outcome ...`)"
        )
    return (
        f"run {run_id!r}: call {call.call} ({call.tool}) has not started and awaits approval: "
        f"`approve` or `reject` it (`ptc approve {run_id} {call.call}`)"
    )


def describe_action(decision: DecisionRow) -> str:
    """Describe a decision: ``approved by ann``."""
    return _DONE[decision.action] + (f" by {decision.by}" if decision.by else "")


def find_edits(recorded: RunRecord) -> dict[str, bytes]:
    """Return JSON of the arguments that approvers replaced those of calls with, by call."""
    return {row.path: row.edited for row in recorded.decisions if row.edited is not None}


def validate_decider(by: str) -> str:
    """Return `by` if it is a name. Raises `UsageError`."""
    if not isinstance(by, str) or not by.strip() or not by.isprintable() or len(by) > _NAME_CHARS:
        msg = (
            f"by must name who decides, in 1-{_NAME_CHARS} printable characters, not {by!r:.80}; "
            "the record of the decision shows it"
        )
        raise UsageError(msg)
    return by
