"""Ids of runs, and of their earlier revisions."""

from __future__ import annotations

import re

from ..errors import UsageError

__all__ = ["validate_recorded_id", "validate_run_id"]

_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ARCHIVED_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\.[1-9][0-9]{0,8}")


def validate_run_id(run_id: str) -> str:
    """Return `run_id` if it is well-formed. Raises `UsageError`."""
    if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
        msg = f"run_id must be 1-64 letters, digits, _ and -, not {run_id!r:.80}"
        raise UsageError(msg)
    return run_id


def validate_recorded_id(run_id: str) -> str:
    """Return `run_id` if it is the id of a run or of an earlier revision."""
    if isinstance(run_id, str) and _ARCHIVED_ID.fullmatch(run_id):
        return run_id
    return validate_run_id(run_id)
