"""Description of a call that the `revert` function of a tool undoes (`Effect`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

from .._dataclass import dataclass

__all__ = ["Effect", "RevertFunction"]


@dataclass(frozen=True, slots=True)
class Effect:
    """A recorded call that had its effect: the argument of a tool's `revert` function."""

    root: Path
    """The session's root: an absolute, resolved folder."""
    run_id: str
    """The run that is rolled back."""
    call: str
    """Path of the call: ``3``, or ``3.1`` for the first call that the tool of call 3 made."""
    tool: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    """Arguments as the script sent them, or as the approver changed them, before defaults were
    filled in. Only recorded data is available: `unrecorded` parameters, and arguments over 64 KiB,
    have a size and SHA-256 instead; a secret has its name."""
    value: Any
    """Returned value as JSON data; None if it is not available (see `lost`)."""
    lost: str | None
    """Reason why the value is not available although the call had its effect, for example that it
    was too large. None: it is available."""
    idempotency_key: str
    """Idempotency key of the call."""
    revert_key: str
    """Idempotency key of this reversal: equal for each attempt, different from every call's."""
    attempt: int = 1
    """Number of the attempt. More than 1 if an earlier one failed, or if the host died during it:
    then the call may be undone already."""
    env: Any = field(default=None, repr=False)
    """Values of the tool's ``env=``, from this session. Never in a repr."""


RevertFunction: TypeAlias = Callable[[Effect], object] | Callable[[Effect], Awaitable[object]]
"""Undoes one call. Its return value is ignored; if it raises, the reversal failed."""
