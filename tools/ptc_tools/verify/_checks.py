"""Checks and their results, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from ptc._schema._bounds import Bounds

__all__ = ["Check", "CheckResult", "CheckStatus", "VerificationReport", "summarize"]

CheckStatus = Literal["passed", "failed", "timed_out", "killed", "not_started", "error"]

_ID = r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}$"


@dataclass(frozen=True, slots=True)
class Check:
    """A command, and the exit code that proves something."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    id: Annotated[str, Bounds(pattern=_ID)]
    """Name of the check in the report, unique."""
    command: Annotated[list[str], Bounds(min_length=1)] | Annotated[str, Bounds(min_length=1)]
    """Program and arguments, or one line that is split at its spaces and quotes. No shell reads it:
    for pipes, globs and && write ["sh", "-c", "..."]."""
    kind: Annotated[str, Bounds(max_length=32)] = ""
    """Sort of evidence, such as test, lint, types or build."""
    description: Annotated[str, Bounds(max_length=500)] = ""
    """The claim that the check proves."""
    required: bool = True
    """False: a failure is reported, but does not fail the report."""
    timeout_ms: Annotated[int, Bounds(ge=1, le=3_600_000)] | None = None
    """Time limit in milliseconds. Default: that of bash (60,000)."""
    expect_exit: Annotated[int, Bounds(ge=0, le=255)] = 0
    """Exit code of a check that passes."""
    cwd: Annotated[str, Bounds(min_length=1)] = "."
    """Folder to start in, relative to the workspace root."""
    env: dict[str, str] | None = None
    """Variables added to a clean environment."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of a check, with its evidence."""

    id: str
    kind: str
    description: str
    command: list[str]
    """Program and arguments."""
    required: bool
    status: CheckStatus
    """``passed`` or ``failed``: it exited. ``timed_out``, ``killed``: it did not (see `signal`).
    ``not_started``: it could not start, or was refused. ``error``: its outcome is not known."""
    expect_exit: int
    """Expected exit code."""
    exit_code: int | None = None
    """None: it did not exit."""
    signal: str | None = None
    """Name of the signal that killed it, as ``SIGSEGV``."""
    duration_ms: float = 0.0
    reason: str = ""
    """Why it did not pass, and what to do; empty if it passed."""
    head: str = ""
    """Output, stdout before stderr: all of it, or its start."""
    tail: str = ""
    """The end of a longer output."""
    output_bytes: int = 0
    """Bytes that the command wrote."""
    artifacts: list[str] = field(default_factory=list)
    """Files with the full streams of a longer output, relative to the root if beneath it."""


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """The results of all checks."""

    subject: str
    """The claim or change that was verified."""
    status: Literal["passed", "failed"]
    """``passed`` if every required check passed."""
    checks: list[CheckResult]
    """In the order of the request."""
    counts: dict[CheckStatus, int]
    """Number of checks with each status that occurs."""
    failed: list[str]
    """Ids of required checks that did not pass."""
    failed_optional: list[str]
    """Ids of the other checks that did not pass."""
    duration_ms: float


def summarize(
    subject: str, results: Sequence[CheckResult], duration_ms: float
) -> VerificationReport:
    """Return the report of finished checks."""
    counts: dict[CheckStatus, int] = {}
    for result in results:
        counts[result.status] = counts.get(result.status, 0) + 1
    missed = [result for result in results if result.status != "passed"]
    failed = [result.id for result in missed if result.required]
    return VerificationReport(
        subject=subject,
        status="failed" if failed else "passed",
        checks=list(results),
        counts=counts,
        failed=failed,
        failed_optional=[result.id for result in missed if not result.required],
        duration_ms=round(duration_ms, 3),
    )
