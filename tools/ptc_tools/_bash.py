"""`bash`: run a command, confined by the kernel to the root and, unless allowed, off the network.

Rule 1: No text is ever given to a shell that the caller did not name as the program.
    (test_no_shell_reads_the_arguments)
Rule 2: What is not enforced is not claimed: where the kernel lacks a layer the tool refuses, unless
    it was made with ``confinement="available"``. (test_a_missing_layer_refuses_the_command)
Rule 3: Output is never cut unsaid, nor inside a character; the whole of it is kept.
    (test_output_over_the_budget_is_marked_and_kept_whole)
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import anyio
from anyio.lowlevel import RunVar
from pydantic import Field

from ptc import Attachment, Tool, ToolContext, ToolError, UsageError, tool
from ptc._protected import explain
from ptc._workers._command import KEPT_BYTES, Command, Ended, Output

from ._killable import in_killable_thread
from .files._paths import Root, protection_of, shown
from .web._network_words import network_hint, refuse_network_words

__all__ = [
    "MAX_ARGS",
    "MAX_ARG_LENGTH",
    "MAX_COMMAND_LENGTH",
    "MAX_CWD_LENGTH",
    "MAX_OUTPUT_BYTES",
    "MAX_TIMEOUT_MS",
    "CommandResult",
    "bash",
    "bash_tool",
]

MAX_COMMAND_LENGTH = 8_192
"""Characters of the program's name, and of it and all arguments joined by spaces."""
MAX_ARGS = 128
MAX_ARG_LENGTH = 8_192
MAX_CWD_LENGTH = 1_024
MAX_TIMEOUT_MS = 3_600_000
"""An hour."""
MAX_OUTPUT_BYTES = KEPT_BYTES
"""Most that `bash_tool` takes as budget of one stream (10 MiB)."""
DEFAULT_TIMEOUT_MS = 60_000
DEFAULT_OUTPUT_BYTES = 200_000
"""Bytes of each stream in a result. What is longer is cut in its middle and kept as an artifact."""

_MAX_VARIABLES = 64
_AT_ONCE = 16
"""Commands at once in one event loop: each holds a thread, and other tools need some too."""

_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command that succeeded has written."""

    output: str
    """stdout, then stderr."""
    stdout: str
    stderr: str
    exit_code: int
    """0: anything else is an error."""
    truncated: bool
    """True if a stream was longer than its budget: its middle is left out and says so."""
    stdout_bytes: int
    """Bytes written, those left out too."""
    stderr_bytes: int
    artifacts: list[str]
    """Files with the whole of what was cut (up to 10 MiB a stream), relative to the root where
    they are beneath it."""
    duration_ms: float
    refused: list[str]
    """Changes of protected paths that the command tried and that were not made, up to 20: which
    rule refused each, and who lifts it."""


def _render(result: CommandResult) -> str:
    return "\n".join([result.output or "(no output)", *(f"[{text}]" for text in result.refused)])


def bash_tool(
    *,
    network: bool = False,
    confinement: Literal["required", "available"] = "required",
    readable: Sequence[str | Path] = (),
    max_output_bytes: int = DEFAULT_OUTPUT_BYTES,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> Tool:
    """Make the tool `bash`.

    Args:
        network: True: commands may use the host's network, its loopback included.
        confinement: ``"required"``: refuse to run where the kernel cannot enforce all of it.
            ``"available"``: go without the layers it lacks; then a command may reach the network
            and any file of the user, protected paths too, and nothing says so.
        readable: Absolute folders and files, beside the system's programs and the running Python,
            that commands may read and execute: a toolchain in a home, for example.
        max_output_bytes: Budget of each of the two streams, 1 to 10 MiB.
        timeout_ms: Time a command has that asks for none, 1 to an hour.

    Raises:
        UsageError: If an option has a value that means nothing.
    """
    if confinement not in ("required", "available"):
        msg = f'confinement must be "required" or "available", not {confinement!r}'
        raise UsageError(msg)
    _in_range("max_output_bytes", max_output_bytes, MAX_OUTPUT_BYTES)
    _in_range("timeout_ms", timeout_ms, MAX_TIMEOUT_MS)
    folders = [Path(path) for path in readable]
    for folder in folders:
        if not folder.is_absolute():
            raise UsageError(f"readable: {str(folder)!r} is not an absolute path")
    default_timeout_ms = timeout_ms

    @tool(side_effect=True, idempotent=False, render=_render)
    async def bash(
        ctx: ToolContext,
        cmd: Annotated[str, Field(min_length=1, max_length=MAX_COMMAND_LENGTH, pattern=r"\S")],
        args: Annotated[
            list[Annotated[str, Field(max_length=MAX_ARG_LENGTH)]], Field(max_length=MAX_ARGS)
        ]
        | None = None,
        cwd: Annotated[str, Field(min_length=1, max_length=MAX_CWD_LENGTH)] = ".",
        timeout_ms: Annotated[int, Field(ge=1, le=MAX_TIMEOUT_MS)] | None = None,
        env: Annotated[
            dict[Annotated[str, Field(pattern=_VARIABLE)], str],
            Field(max_length=_MAX_VARIABLES),
        ]
        | None = None,
    ) -> CommandResult:
        """Run a program with arguments and return {output, stdout, stderr, exit_code, ...}.

        No shell reads the arguments: for pipes, globs and && give cmd="sh", args=["-c", "..."].
        Files can be changed in the workspace, except protected ones, and in $TMPDIR. Any exit code
        but 0 is an error (command_failed) that carries the output. What still runs when the program
        ends is killed.

        Args:
            ctx: The call.
            cmd: Program: a name looked up on PATH, or a path.
            args: Its arguments, one string each.
            cwd: Folder to start in, relative to the workspace root. Default: the root.
            timeout_ms: Time it has, in milliseconds; then everything it started is killed.
            env: Variables on top of a clean environment.
        """
        arguments = args or []
        _check(cmd, arguments, env or {})
        if not network:
            refuse_network_words(cmd, arguments)
        with Root(ctx.root) as root:
            place = root.locate(cwd)
        if not place.is_folder:
            msg = f"cwd {shown(cwd)} is a file, not a folder"
            raise ToolError(msg, code="not_a_directory")
        command = Command(
            [cmd, *arguments],
            root=ctx.root,
            cwd=place.path,
            env=env,
            network=network,
            required=confinement == "required",
            readable=folders,
            protection=protection_of(ctx.root, ctx.unprotected),
        )
        given_ms = timeout_ms or default_timeout_ms
        ended = await in_killable_thread(lambda: command.run(given_ms), command.kill, _limiter())
        # In a thread: it may write 20 MiB.
        result = await anyio.to_thread.run_sync(_collect, ended, max_output_bytes, ctx)
        if ended.how != "exit" or ended.number != 0:
            raise _failure(ended, result, _Request(cmd, arguments, cwd, given_ms, network))
        return result

    return bash


_LIMITER: RunVar[anyio.CapacityLimiter] = RunVar("ptc_tools.bash")


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_AT_ONCE)
        _LIMITER.set(limiter)
        return limiter


def _in_range(name: str, value: int, most: int) -> None:
    if type(value) is not int or not 1 <= value <= most:
        msg = f"{name} must be an integer from 1 to {most:,}, not {value!r:.80}"
        raise UsageError(msg)


def _check(cmd: str, args: Sequence[str], env: dict[str, str]) -> None:
    """What the schema cannot say."""
    joined = len(" ".join([cmd, *args]))
    if joined > MAX_COMMAND_LENGTH:
        msg = (
            f"cmd and args together are {joined:,} characters, over {MAX_COMMAND_LENGTH:,}; put "
            "long text into a file and give its path"
        )
        raise ToolError(msg, code="invalid_arguments")
    for name, values in (("cmd", [cmd]), ("args", args), ("env", list(env.values()))):
        for value in values:
            if "\0" in value:
                raise ToolError(f"{name} has a NUL character", code="invalid_arguments")
            if not value.isascii() and re.search("[\ud800-\udfff]", value):
                msg = f"{name} is not valid Unicode: it has a lone surrogate"
                raise ToolError(msg, code="invalid_arguments")


def _collect(ended: Ended, budget: int, ctx: ToolContext) -> CommandResult:
    kept: list[str] = []
    texts = []
    for name, output in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        where = ""
        if output.total_bytes > budget:
            where = _kept(ctx, name, output)
            kept += [where] if where else []
            where = where or "could not be kept"
        texts.append(_shorten(output, budget, where))
    stdout, stderr = texts
    between = "\n" if stdout and stderr and not stdout.endswith("\n") else ""
    return CommandResult(
        output=stdout + between + stderr,
        stdout=stdout,
        stderr=stderr,
        exit_code=ended.number if ended.how == "exit" else -1,
        truncated=any(o.total_bytes > budget for o in (ended.stdout, ended.stderr)),
        stdout_bytes=ended.stdout.total_bytes,
        stderr_bytes=ended.stderr.total_bytes,
        artifacts=kept,
        duration_ms=round(ended.duration_ms, 3),
        refused=[explain(item.path, item.rule, item.entry) for item in ended.protected],
    )


def _kept(ctx: ToolContext, name: str, output: Output) -> str:
    """Keep a whole stream in the session's store. Its path; ``""`` if it cannot be kept."""
    data = output.head + output.tail
    try:
        ref = ctx.attach(Attachment(name=f"{name}.txt", media_type="text/plain", data=data))
    except (ToolError, UsageError):
        return ""
    path = Path(ref.path)
    return str(path.relative_to(ctx.root)) if path.is_relative_to(ctx.root) else ref.path


def _shorten(output: Output, budget: int, where: str) -> str:
    """The stream as text, or its beginning and its end, where mistakes are told, with a mark."""
    if output.total_bytes <= budget:
        return output.head.decode("utf-8", "replace")
    whole = output.head + output.tail
    first = whole[: _boundary(whole, budget * 3 // 4)]
    last = whole[_boundary(whole, len(whole) - (budget - budget * 3 // 4)) :]
    left_out = output.total_bytes - len(first) - len(last)
    mark = f"\n[... {left_out:,} of {output.total_bytes:,} bytes left out; whole output: {where}"
    if output.total_bytes > len(whole):
        mark += f" (of its middle, {output.total_bytes - len(whole):,} bytes were not kept)"
    return f"{first.decode('utf-8', 'replace')}{mark} ...]\n{last.decode('utf-8', 'replace')}"


def _boundary(data: bytes, position: int) -> int:
    """The nearest position at or before `position` that is not inside a UTF-8 character."""
    for back in range(min(4, position + 1)):
        if position - back < len(data) and data[position - back] & 0xC0 != 0x80:
            return position - back
    return position


_LAST_WORDS = 2_000
"""Characters of the end of a stream that an error message quotes."""
_MAX_REFUSALS = 3
"""Refused changes in an error message; its details have all of them."""


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of a call that failed."""

    cmd: str
    args: list[str]
    cwd: str
    timeout_ms: int
    network: bool


def _failure(ended: Ended, result: CommandResult, request: _Request) -> ToolError:
    cmd = request.cmd
    details: dict[str, object] = {"cmd": cmd, "args": request.args, "cwd": request.cwd}
    if ended.how == "missing":
        return _not_started(ended, request, details)
    if ended.how == "refused":
        msg = (
            f"commands cannot be confined on this machine, so none is run. Missing: {ended.text}. "
            'Fix that, or make the tool with bash_tool(confinement="available") if its commands '
            "may do whatever this user may"
        )
        return ToolError(msg, code="confinement_unavailable", details=details)
    if ended.how == "fault":
        return ToolError(f"{cmd} could not be run: {ended.text}", code="failed", details=details)
    if ended.how == "killed":
        details |= _without_exit_code(result)
        return ToolError("the command was cancelled", code="cancelled", details=details)
    return _unsuccessful(ended, result, request, details | _without_exit_code(result))


def _unsuccessful(
    ended: Ended, result: CommandResult, request: _Request, details: dict[str, object]
) -> ToolError:
    """Return the error of a command that ran and did not exit with 0."""
    code = "command_failed"
    if ended.how == "timeout":
        code = "timeout"
        details["timeout_ms"] = request.timeout_ms
        msg = (
            f"Command timed out after {request.timeout_ms}ms, and everything it started was "
            f"killed. If it needs longer, raise timeout_ms (up to {MAX_TIMEOUT_MS:,})"
        )
    elif ended.how == "signal":
        name = _signal_name(ended.number)
        details["signal"] = name
        msg = f"Command was killed by signal {ended.number} ({name})"
    else:
        details["exit_code"] = ended.number
        msg = f"Command failed with exit code {ended.number}"
    lines = [msg, (result.stderr or result.stdout)[-_LAST_WORDS:].strip()]
    lines += result.refused[:_MAX_REFUSALS]
    if not request.network:
        lines.append(network_hint(result.stdout, result.stderr))
    return ToolError("\n".join(filter(None, lines)), code=code, details=details)


def _without_exit_code(result: CommandResult) -> dict[str, object]:
    row = asdict(result)
    del row["exit_code"]
    return row


def _not_started(ended: Ended, request: _Request, details: dict[str, object]) -> ToolError:
    cmd = request.cmd
    hint = "is it installed, and on PATH?"
    if not request.args and re.search(r"[\s|&;<>*$]", cmd.strip()):
        hint = (
            'no shell reads cmd: pass the arguments as args=[...], or use cmd="sh", '
            'args=["-c", "..."]'
        )
    elif "/" in cmd:
        hint = "it must be an executable in the workspace or among the system's programs"
    details["errno"] = ended.number
    msg = f"Failed to spawn {cmd[:200]}: {ended.text or os.strerror(ended.number)}; {hint}"
    return ToolError(msg, code="spawn_failed", details=details)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


bash = bash_tool()
"""The tool with every option at its default: confined, and off the network."""
