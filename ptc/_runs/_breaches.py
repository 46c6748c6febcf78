"""Failures for exceeded limits: the limit, the amount used, the maximum, and the suggested fix.

Pure functions: they take the amount used, and return the `Failure` of the run or the `ToolError` of
a call.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .._calls._earlier import EarlierCalls
from .._records._limits import Breach, Limits
from .._records._result import Failure, Status
from .._workers._worker import Exit
from ..errors import ToolError

__all__ = [
    "MORE_MEMORY",
    "arguments_too_large",
    "complete_breach",
    "cpu_failure",
    "exit_failure",
    "limit_failure",
    "timeout_failure",
    "unmatched_failure",
]

_SIGXCPU = getattr(signal, "SIGXCPU", -1)  # Windows has it not, and no processes
_OUT_OF_MEMORY_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, getattr(signal, "SIGBUS", signal.SIGSEGV)}
)
"""Signals that kill C code which uses an allocation without checking that it succeeded."""
MORE_MEMORY = "hold less data at a time, or ask for a higher limits.max_memory_bytes"
_MAX_TOOLS_SHOWN: Final = 5
_WORDS: Final = {
    "max_stdout_bytes": (
        "the script printed {used:,} bytes",
        "print less, return the data, or ask for a higher max_stdout_bytes",
    ),
    "max_messages": (
        "the script printed, logged or reported progress {used:,} times",
        "join lines and print them at once, or ask for a higher max_messages",
    ),
    "max_emit_bytes": (
        "the script emitted {used:,} bytes of values",
        "emit less, or ask for a higher max_emit_bytes",
    ),
    "max_emits": (
        "the script emitted {used:,} partial values",
        "emit several values as one list, or ask for a higher max_emits",
    ),
    "max_attachment_bytes": (
        "the script attached {used:,} bytes of files",
        "attach smaller files, or ask for a higher max_attachment_bytes",
    ),
    "max_containers": (
        "the script emitted values with {used:,} lists and objects in them",
        "emit less, or ask for a higher max_containers",
    ),
    "max_output_bytes": (
        "the script returned {used:,} bytes, too many to be stored at all",
        "return only the requested data: count, filter or join in the script",
    ),
    "max_argument_bytes": (
        "a call of {used:,} bytes was sent",
        "pass less at a time",
    ),
    "max_tool_calls": (
        "the script made {used:,} tool calls and kept calling after the limit was reached",
        "stop at the first ToolError with code limit_exceeded, or ask for a higher max_tool_calls",
    ),
}
"""Message and hint by limit."""


def limit_failure(limits: Limits, name: str, used: int) -> Failure:
    """Build the failure of a run that exceeded the limit `name`."""
    message, hint = _WORDS[name]
    return _failure(limits, name, used, message.format(used=used), hint)


def unmatched_failure(earlier: EarlierCalls, line: int) -> Failure:
    """Build the failure of a script that did not make all effects of earlier revisions.

    Args:
        earlier: Their calls.
        line: Line of the new effect that the script was about to make; 0: it ended.
    """
    how = "is about to make a new effect" if line else "ended"
    message = (
        f"the script {how} and has not made these calls, which an earlier revision made; nothing "
        f"new was done:\n{earlier.describe_unmatched()}"
    )
    hint = (
        "make the same calls with the same arguments, which does not repeat them; or accept that "
        "these effects stand, and resume with allow_unmatched"
    )
    return Failure(code="unmatched_effects", message=message, line=line, hint=hint)


def cpu_failure(limits: Limits, used: int | None, line: int = 0) -> Failure:
    """Build the failure of a run that used its CPU time.

    Args:
        limits: Limits of the run.
        used: Milliseconds; None: the kernel stopped it, and did not report the amount.
        line: Line of the script that computed; 0: unknown.
    """
    spent = f"{used:,} ms of CPU time" if used is not None else "up its CPU time"
    hint = "compute less in one run, or ask for a higher max_cpu_ms"
    failure = _failure(limits, "max_cpu_ms", used, f"the script used {spent}", hint)
    where = f"; it was computing on line {line}" if line else ""
    return replace(failure, message=failure.message + where, line=line)


def _failure(limits: Limits, name: str, used: int | None, message: str, hint: str) -> Failure:
    most: int = getattr(limits, name)
    return Failure(
        code=f"limit_{name}",
        message=f"{message}, over {name}={most:,}",
        hint=hint,
        breach=Breach(name, most, used),
    )


def timeout_failure(
    limits: Limits,
    *,
    used_ms: int,
    running: Sequence[str] = (),
    line: int = 0,
    polling: bool = False,
    computing: bool = False,
    last_call: str = "",
) -> Failure:
    """Build the failure of a run that timed out.

    Args:
        limits: Limits of the run.
        used_ms: Elapsed time.
        running: Tools of the calls under way.
        line: Line of the script that waited or was last seen; 0: unknown.
        polling: True if the script read its clock in a loop.
        computing: True if the script did not wait.
        last_call: The last call of a script that computed, in words.
    """
    message = f"the run took longer than {limits.timeout_ms:,} ms"
    hint = "do less in one run, emit partial values with ctx.emit, or ask for a higher timeout_ms"
    where = f" on line {line}" if line else ""
    if running:
        tools = ", ".join(running[:_MAX_TOOLS_SHOWN])
        message += f"; it was waiting for {tools}{where}"
    elif polling:
        message += f"; it was reading the clock in a loop{where}"
        hint = (
            "each reading advances a script's clock by 0.1 ms, however long the loop computes; "
            "repeat a fixed number of times, or pause with `await asyncio.sleep(s)`"
        )
    elif line and not computing:
        message += f"; it was waiting{where}"
    else:
        message += f"; it was computing{where}" + (f" ({last_call})" if last_call else "")
    breach = Breach("timeout_ms", limits.timeout_ms, used_ms)
    return Failure(code="timeout", message=message, hint=hint, breach=breach, line=line)


def exit_failure(limits: Limits, how: Exit) -> tuple[Status, Failure]:
    """Explain the exit of a worker's process before the script finished."""
    if how.signal == _SIGXCPU:
        return "limit_exceeded", cpu_failure(limits, None)
    failure = _memory_failure(limits, how)
    if failure is not None:
        return "limit_exceeded", failure
    message = f"the worker process ended before the script did ({how.words})"
    hint = ""
    if how.signal == signal.SIGSEGV:
        hint = "very deep nesting of data or calls overflows the C stack of the interpreter"
    code = "killed" if how.signal == signal.SIGKILL else "crash"
    return "crashed", Failure(code=code, message=message, hint=hint)


def _memory_failure(limits: Limits, how: Exit) -> Failure | None:
    """Attribute the death of a process to a failed allocation; None if it held too little memory.

    A buffer that is doubled is half of the limit when the next doubling is refused; two fifths
    leave room for the rest of the worker's memory. A stack overflow at that size looks the same.
    """
    most, used = limits.max_memory_bytes, how.memory_bytes
    if how.signal not in _OUT_OF_MEMORY_SIGNALS or used * 5 < most * 2:
        return None
    return Failure(
        code="memory",
        message=(
            f"the worker process died ({how.words}) with {used:,} bytes of its "
            f"max_memory_bytes={most:,}: most likely an allocation failed"
        ),
        hint=f"{MORE_MEMORY}; very deep nesting of data or calls has the same effect",
        breach=Breach("max_memory_bytes", most, used),
    )


def complete_breach(limits: Limits, failure: Failure) -> Failure:
    """Add the maximum to a worker's report that its script exceeded a limit."""
    name = failure.code.removeprefix("limit_")
    if name == "memory":
        most = limits.max_memory_bytes
        message = f"the script ran out of memory: it needed more than max_memory_bytes={most:,}"
        return replace(failure, message=message, breach=Breach("max_memory_bytes", most))
    allowed: int | None = getattr(limits, name, None)
    if name == "max_calls_by_tool":
        allowed = limits.max_calls_by_tool.get(failure.tool)
    return failure if allowed is None else replace(failure, breach=Breach(name, allowed))


def arguments_too_large(limits: Limits, tool: str, limit: str, used: int) -> ToolError:
    """Build the error of a call whose arguments exceed `limit`."""
    most: int = getattr(limits, limit)
    unit = "bytes of JSON" if limit == "max_argument_bytes" else "lists and objects"
    msg = (
        f"the arguments of {tool} have {used:,} {unit}, over the limit of {most:,} "
        f"({limit}); pass less at a time"
    )
    details: dict[str, object] = {"limit": limit, "most": most, "used": used}
    return ToolError(msg, code="arguments_too_large", tool=tool, details=details)
