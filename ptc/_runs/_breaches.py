"""What going over a limit looks like: the limit, what was used, what it allows, the way out.

Pure: told what was used, it gives the `Failure` of the run, or the `ToolError` of a call.
"""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Final

from .._records._limits import Breach, Limits
from .._records._result import Failure
from .._workers._process import Exit
from ..errors import ToolError

__all__ = [
    "arguments_too_large",
    "over",
    "refused_memory",
    "told_of_limit",
    "used_cpu",
]

_REFUSED_SIGNALS = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT})
"""What code in C dies of that does not look whether it was given the memory it asked for."""
_MORE_MEMORY = "hold less data at a time, or ask for a higher limits.max_memory_bytes"
_WORDS: Final = {
    "max_stdout_bytes": (
        "the script printed {used:,} bytes",
        "print less, return the data, or ask for more max_stdout_bytes",
    ),
    "max_messages": (
        "the script printed or logged {used:,} times",
        "join lines and print them at once, or ask for more max_messages",
    ),
    "max_emit_bytes": (
        "the script emitted {used:,} bytes of values",
        "emit less, or ask for more max_emit_bytes",
    ),
    "max_emits": (
        "the script emitted {used:,} partial values",
        "emit several values as one list, or ask for more max_emits",
    ),
    "max_containers": (
        "the script emitted values with {used:,} lists and objects in them",
        "emit less, or ask for more max_containers",
    ),
    "max_output_bytes": (
        "the script returned {used:,} bytes, too many to be stored at all",
        "return what is asked for only: count, filter or join in the script",
    ),
    "max_argument_bytes": (
        "a call of {used:,} bytes was sent",
        "pass less at a time",
    ),
    "max_tool_calls": (
        "the script made {used:,} tool calls and went on calling after it was refused",
        "stop at the first ToolError with code limit_exceeded, or ask for a higher max_tool_calls",
    ),
}


def over(limits: Limits, name: str, used: int) -> Failure:
    """A run that ends because it used more of one limit than that allows."""
    message, hint = _WORDS[name]
    return _failure(limits, name, used, message.format(used=used), hint)


def used_cpu(limits: Limits, used: int | None) -> Failure:
    """The same of CPU time; None: the kernel stopped it, and did not say at how much."""
    spent = f"{used:,} ms" if used is not None else "all it may have"
    hint = "compute less in one run, or ask for more max_cpu_ms"
    message = f"the script used {spent} of CPU time"
    return _failure(limits, "max_cpu_ms", used, message, hint)


def _failure(limits: Limits, name: str, used: int | None, message: str, hint: str) -> Failure:
    most: int = getattr(limits, name)
    return Failure(
        code=f"limit_{name}",
        message=f"{message}, over {name}={most:,}",
        hint=hint,
        breach=Breach(name, most, used),
    )


def refused_memory(limits: Limits, how: Exit) -> Failure | None:
    """The death of a process that was refused memory; None if it did not hold enough for that.

    A buffer that is doubled is half of the limit when the next doubling is refused; two fifths
    leave room for what a worker holds elsewhere. A stack that overflows there looks the same.
    """
    most, used = limits.max_memory_bytes, how.memory_bytes
    if how.signal not in _REFUSED_SIGNALS or used * 5 < most * 2:
        return None
    return Failure(
        code="memory",
        message=(
            f"the worker process died ({how.words}) with {used:,} bytes of its "
            f"max_memory_bytes={most:,}: most likely it was refused more"
        ),
        hint=f"{_MORE_MEMORY}; very deep nesting of data or calls ends like this, too",
        breach=Breach("max_memory_bytes", most, used),
    )


def told_of_limit(limits: Limits, failure: Failure) -> Failure:
    """What a worker says of the limit its script went over, with what that allows."""
    name = failure.code.removeprefix("limit_")
    if name == "memory":
        most = limits.max_memory_bytes
        message = f"the script ran out of memory: it wanted more than max_memory_bytes={most:,}"
        return replace(failure, message=message, breach=Breach("max_memory_bytes", most))
    allowed: int | None = getattr(limits, name, None)
    if name == "max_calls_by_tool":
        allowed = limits.max_calls_by_tool.get(failure.tool)
    return failure if allowed is None else replace(failure, breach=Breach(name, allowed))


def arguments_too_large(limits: Limits, tool: str, limit: str, used: int) -> ToolError:
    """A call whose arguments are over `limit`."""
    most: int = getattr(limits, limit)
    unit = "bytes of JSON" if limit == "max_argument_bytes" else "lists and objects"
    msg = (
        f"the arguments of {tool} have {used:,} {unit}, over the limit of {most:,} "
        f"({limit}); pass less at a time"
    )
    details: dict[str, object] = {"limit": limit, "most": most, "used": used}
    return ToolError(msg, code="arguments_too_large", tool=tool, details=details)
