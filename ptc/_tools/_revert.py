"""What the `revert` function of a tool is told about the call that it is to undo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["Effect", "RevertFunction"]


@dataclass(frozen=True, slots=True)
class Effect:
    """A call that had its effect, as it is recorded: what a tool's `revert` is called with."""

    root: Path
    """The session's root: an absolute, resolved folder."""
    run_id: str
    """The run that is rolled back."""
    call: str
    """``3``, or ``3.1`` for the first call that the tool of call 3 made."""
    tool: str
    """The tool's name."""
    arguments: Mapping[str, Any]
    """As the script sent them, or as whoever approved the call changed them, before defaults were
    filled in. What a journal does not hold is not here: of parameters that are `unrecorded`, and of
    arguments over 64 KiB, there is the size and SHA-256, of a secret its name."""
    value: Any
    """What the tool returned, as JSON data; None if `lost` says why it is not known."""
    lost: str | None
    """Why there is no value although the call had its effect: it was too large, for one. None: it
    is there."""
    idempotency_key: str
    """The key that the call had."""
    revert_key: str
    """What names this undoing: equal each time that it is tried, different from every call's."""
    attempt: int = 1
    """Number of the try; more than 1 if it failed before, or if the host died while it was tried:
    then it may have been done."""
    env: Any = field(default=None, repr=False)
    """The values the tool asks for with ``env=``, of this session. Never in a repr."""


RevertFunction: TypeAlias = Callable[[Effect], object] | Callable[[Effect], Awaitable[object]]
"""Undoes one call. What it returns is not used; what it raises is a failure."""
