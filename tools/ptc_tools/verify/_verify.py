"""`verify_commands`: run checks as commands of `bash`, and report the evidence of each.

Rule 1: each command is a call of the tool `bash` under the caller's allow-list, rules, approvals
    and limits; a caller who may not call it runs nothing.
    tests/tools/verify/test_verify.py::test_caller_without_bash_is_refused_before_anything_runs
Rule 2: a check passes only if its command exited with the expected code. Every other outcome has a
    status of its own, and its output is evidence.
    tests/tools/verify/test_verify.py::test_each_outcome_has_its_own_status
Rule 3: starting the tool again, on resume, repeats no command: its calls are answered from the
    record, and one with an unknown outcome awaits a decision.
    tests/tools/verify/test_verify.py::test_resumed_verification_repeats_no_finished_command
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import anyio

from ptc import Attachment, ToolContext, ToolError, tool
from ptc._schema._bounds import Bounds

from ._checks import Check, CheckResult, CheckStatus, VerificationReport, summarize
from ._command_line import split_command_line
from ._report import render_report

__all__ = [
    "HEAD_CHARS",
    "MAX_CHECKS",
    "MAX_CONCURRENCY",
    "TAIL_CHARS",
    "Job",
    "parse_checks",
    "verify_commands",
]

MAX_CHECKS = 64
"""Maximum number of checks in one call."""
MAX_CONCURRENCY = 16
HEAD_CHARS = 1_500
"""Characters of the start of a longer output in a result."""
TAIL_CHARS = 4_500
"""Characters of its end: errors are often there."""

_BASH = "bash"
_NOT_STARTED = frozenset(
    {
        # bash did not start the program.
        *("spawn_failed", "confinement_unavailable", "network_disabled", "git_remote_disabled"),
        *("invalid_arguments", "invalid_path", "outside_root", "not_found", "not_a_directory"),
        "permission_denied",
        # The host did not call bash.
        *("not_allowed", "unknown_tool", "approval_required", "rejected", "limit_exceeded"),
        *("circuit_open", "too_deep", "journal"),
    }
)
"""Codes of errors that prove that the command did not run."""


@tool(side_effect=True, idempotent=True, render=render_report)
async def verify_commands(
    ctx: ToolContext,
    subject: Annotated[str, Bounds(min_length=1, max_length=500)],
    checks: Annotated[list[Check], Bounds(min_length=1, max_length=MAX_CHECKS)],
    parallel: bool = False,
    max_concurrency: Annotated[int, Bounds(ge=1, le=MAX_CONCURRENCY)] = 4,
) -> VerificationReport:
    """Run commands that prove a claim, and return {status, checks, counts, failed, ...}.

    The status is "passed" if every required check exited with the expected code. Each check has
    its status (passed, failed, timed_out, killed, not_started, error), exit code, signal, duration
    and the start and end of its output. It needs the tool bash, which runs the commands.

    Args:
        ctx: The call.
        subject: The claim or change to verify.
        checks: [{"id": "unit", "kind": "test", "command": "pytest -q", "timeout_ms": 300000}]. A
            command is a list, or one line that no shell reads (for pipes, globs and && write
            sh -c '...'). Time limit: 60000 ms. With "required": false, a failure is reported only.
        parallel: True: run checks concurrently. They share the workspace.
        max_concurrency: Maximum number of concurrent checks with `parallel`.
    """
    jobs = parse_checks(checks)
    if _BASH not in ctx.tools:
        msg = (
            "verify_commands runs commands with the tool bash, which this caller may not call; "
            "nothing was run. Allow bash as well"
        )
        raise ToolError(msg, code="not_allowed")
    started = time.perf_counter()
    run = _Run(ctx, len(jobs), anyio.Semaphore(max_concurrency))
    if parallel:
        async with anyio.create_task_group() as tasks:
            for job in jobs:
                tasks.start_soon(run.one, job)
    else:
        # In order: each check sees the changes of those before it.
        for job in jobs:
            await run.one(job)
    results = [job.result for job in jobs if job.result is not None]
    return summarize(subject, results, (time.perf_counter() - started) * 1000)


@dataclass(slots=True)
class Job:
    check: Check
    argv: list[str]
    result: CheckResult | None = None


def parse_checks(checks: Sequence[Check]) -> list[Job]:
    """Validate all checks before the first one runs."""
    jobs: dict[str, Job] = {}
    for check in checks:
        if check.id in jobs:
            raise _wrong(f"two checks have the id {check.id!r}; ids must be unique")
        argv = check.command
        if isinstance(argv, str):
            try:
                argv = split_command_line(argv)
            except ValueError as error:
                raise _wrong(f"the command of check {check.id!r}: {error}") from None
        elif not argv[0].strip():
            raise _wrong(f"the command of check {check.id!r}: it names no program")
        jobs[check.id] = Job(check, list(argv))
    return list(jobs.values())


def _wrong(why: str) -> ToolError:
    return ToolError(f"{why}. Nothing was run", code="invalid_arguments")


@dataclass(slots=True)
class _Run:
    ctx: ToolContext
    total: int
    slots: anyio.Semaphore
    finished: int = 0

    async def one(self, job: Job) -> None:
        """Run a check in its turn, and report it to subscribers."""
        async with self.slots:
            self.ctx.log("check started", id=job.check.id)
            job.result = result = await _run_check(self.ctx, job)
        self.finished += 1
        self.ctx.output(asdict(result))
        self.ctx.progress(self.finished, self.total, f"{result.id}: {result.status}")


async def _run_check(ctx: ToolContext, job: Job) -> CheckResult:
    """Run the command of a check, and return its outcome with the evidence."""
    check = job.check
    arguments: dict[str, Any] = {"cmd": job.argv[0], "args": job.argv[1:]}
    # Omitted, bash has its own defaults, which rules of an allow-list compare.
    arguments |= {"cwd": check.cwd} if check.cwd != "." else {}
    arguments |= {"timeout_ms": check.timeout_ms} if check.timeout_ms is not None else {}
    arguments |= {"env": check.env} if check.env else {}
    result = CheckResult(
        id=check.id,
        kind=check.kind,
        description=check.description,
        command=job.argv,
        required=check.required,
        status="error",
        expect_exit=check.expect_exit,
    )
    started = time.perf_counter()
    try:
        output = _fields(await ctx.call_tool(_BASH, **arguments))
        result = _exited(result, 0)
    except ToolError as error:
        output = error.details
        result = _from_error(result, error)
    result = replace(result, duration_ms=round((time.perf_counter() - started) * 1000, 3))
    return _with_evidence(ctx, result, output)


def _fields(value: object) -> Mapping[str, object]:
    """Return the fields of a result of `bash`, or of a tool that has replaced it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value if isinstance(value, Mapping) else {"output": str(value)}


def _exited(result: CheckResult, code: int) -> CheckResult:
    if code == result.expect_exit:
        return replace(result, status="passed", exit_code=code)
    reason = f"it exited with {code}, and {result.expect_exit} was expected"
    return replace(result, status="failed", exit_code=code, reason=reason)


def _from_error(result: CheckResult, error: ToolError) -> CheckResult:
    """Tell apart the reasons for which `bash` raises an error."""
    details = error.details
    code, killed_by = details.get("exit_code"), details.get("signal")
    if error.code == "command_failed" and isinstance(code, int):
        return _exited(result, code)
    if error.code == "command_failed" and isinstance(killed_by, str):
        reason = f"it was killed by {killed_by}"
        return replace(result, status="killed", signal=killed_by, reason=reason)
    status: CheckStatus = "error"
    reason = error.message
    if error.code == "timeout":
        # The rest of the message quotes the output, which is evidence of its own.
        status, reason = "timed_out", error.message.partition("\n")[0]
    elif error.code in _NOT_STARTED:
        status = "not_started"
        reason += _unreadable_program(error.code, result.command[0])
    return replace(result, status=status, reason=f"{reason} [{error.code}]")


def _unreadable_program(code: str, program: str) -> str:
    """Return the remedy if the host has a program that commands cannot see."""
    found = shutil.which(program) if code == "spawn_failed" and "/" not in program else None
    if found is None:
        return ""
    return (
        f" This machine has {found}, but commands may not read that folder: pass it, and those "
        "that the program needs, to ptc_tools.builtin(readable=[...]), `builtin.readable` of "
        "ptc.toml or --readable; ptc_tools.preset lists them for known programs"
    )


def _with_evidence(
    ctx: ToolContext, result: CheckResult, output: Mapping[str, object]
) -> CheckResult:
    """Add the output: whole, or its start and end with the full streams as artifacts."""
    text = _text(output, "output")
    sizes = [output.get("stdout_bytes"), output.get("stderr_bytes")]
    written = sum(size for size in sizes if isinstance(size, int)) or len(text.encode())
    spent = output.get("duration_ms")
    duration = spent if isinstance(spent, int | float) else result.duration_ms
    result = replace(result, output_bytes=written, duration_ms=float(duration))
    listed = output.get("artifacts")
    stored = [path for path in listed if isinstance(path, str)] if isinstance(listed, list) else []
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        # A smaller budget of bash may have truncated it already.
        return replace(result, head=text, artifacts=stored)
    head, tail = _ends(text)
    files = [*stored, *_store(ctx, result.id, output, stored)]
    return replace(result, head=head, tail=tail, artifacts=files)


def _ends(text: str) -> tuple[str, str]:
    """Return the start and the end of a text, of whole lines unless these are long."""
    head, tail = text[:HEAD_CHARS], text[-TAIL_CHARS:]
    last, first = head.rfind("\n") + 1, tail.find("\n") + 1
    if last > HEAD_CHARS // 2:
        head = head[:last]
    if 0 < first < TAIL_CHARS // 2:
        tail = tail[first:]
    return head, tail


def _store(
    ctx: ToolContext, check_id: str, output: Mapping[str, object], stored: Sequence[str]
) -> list[str]:
    """Store the streams that `bash` has not stored, and return their files."""
    found = []
    for name in ("stdout", "stderr") if "stdout" in output else ("output",):
        text = _text(output, name)
        # A stream that bash has truncated names its file in the gap.
        if not text or any(path in text for path in stored):
            continue
        data = text.encode("utf-8", "replace")
        with suppress(ToolError):
            ref = ctx.attach(Attachment(f"{check_id}.{name}.txt", "text/plain", data))
            path = Path(ref.path)
            is_inside = path.is_relative_to(ctx.root)
            found.append(str(path.relative_to(ctx.root)) if is_inside else ref.path)
    return found


def _text(output: Mapping[str, object], name: str) -> str:
    value = output.get(name)
    return value if isinstance(value, str) else ""
