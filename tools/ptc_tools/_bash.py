"""`bash`: run a command, confined to the root and, unless allowed, without network.

Rule 1: No text is passed to a shell unless the caller names the shell as the program.
    (test_arguments_are_not_interpreted_by_a_shell)
Rule 2: The tool fails closed: if the kernel lacks a layer it refuses every command, unless it was
    created with ``confinement="available"``. (test_command_is_refused_if_a_layer_is_missing)
Rule 3: Output is never truncated silently or inside a character; all of it is stored.
    (test_output_over_budget_is_truncated_and_stored_whole)
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

from ptc import Attachment, Tool, ToolContext, ToolError, UsageError, tool
from ptc._protected import explain
from ptc._records._preview import RECALL, recall_call
from ptc._schema._bounds import Bounds
from ptc._workers._command import MAX_STREAM_BYTES, Command, CommandOutcome, Output

from ._killable import in_killable_thread
from .files._path_errors import quote
from .files._paths import Root, protection_of
from .web._network_words import network_hint, refuse_network_words

__all__ = [
    "BASH_MAX_ARGS",
    "BASH_MAX_ARG_LENGTH",
    "BASH_MAX_COMMAND_LENGTH",
    "BASH_MAX_CWD_LENGTH",
    "BASH_MAX_OUTPUT_BYTES",
    "BASH_MAX_TIMEOUT_MS",
    "CommandResult",
    "bash",
    "bash_tool",
]

BASH_MAX_COMMAND_LENGTH = 8_192
"""Maximum characters of the program's name, and of it and all arguments joined by spaces."""
BASH_MAX_ARGS = 128
BASH_MAX_ARG_LENGTH = 8_192
BASH_MAX_CWD_LENGTH = 1_024
BASH_MAX_TIMEOUT_MS = 3_600_000
"""An hour."""
BASH_MAX_OUTPUT_BYTES = MAX_STREAM_BYTES
"""Maximum of the budget of one stream (10 MiB)."""
BASH_DEFAULT_TIMEOUT_MS = 60_000
BASH_DEFAULT_OUTPUT_BYTES = 200_000
"""Bytes of each stream in a result. A longer one is truncated in its middle and stored as an
artifact."""

_MAX_VARIABLES = 64
_AT_ONCE = 16
"""Concurrent commands in one event loop: each occupies a thread that other tools need too."""

_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The output of a command that succeeded."""

    output: str
    """stdout, then stderr."""
    stdout: str
    stderr: str
    exit_code: int
    """Always 0: any other exit code is an error."""
    truncated: bool
    """True if a stream exceeded its budget: a mark replaces its middle."""
    stdout_bytes: int
    """Bytes written, including omitted ones."""
    stderr_bytes: int
    artifacts: list[str]
    """Files with the full streams that were truncated (up to 10 MiB each), relative to the root if
    they are beneath it."""
    duration_ms: float
    refused: list[str]
    """Refused changes of protected paths, up to 20, each with its rule and how to lift it."""


def _render(result: CommandResult) -> str:
    return "\n".join([result.output or "(no output)", *(f"[{text}]" for text in result.refused)])


def bash_tool(
    *,
    network: bool = False,
    confinement: Literal["required", "available"] = "required",
    readable: Sequence[str | Path] = (),
    max_output_bytes: int = BASH_DEFAULT_OUTPUT_BYTES,
    timeout_ms: int = BASH_DEFAULT_TIMEOUT_MS,
) -> Tool:
    """Create the tool `bash`.

    Args:
        network: True: commands may use the host's network, its loopback included.
        confinement: ``"required"``: refuse to run if the kernel cannot enforce every layer.
            ``"available"``: run without the missing layers; then a command may reach the network
            and any file of the user, including protected paths, without a warning.
        readable: Absolute folders and files that commands may read and execute in addition to the
            system's programs and the running Python: a toolchain in a home, for example.
        max_output_bytes: Budget of each of the two streams, 1 byte to 10 MiB.
        timeout_ms: Default time limit of a command, 1 ms to an hour.

    Raises:
        UsageError: If an option has an invalid value.
    """
    if confinement not in ("required", "available"):
        msg = f'confinement must be "required" or "available", not {confinement!r}'
        raise UsageError(msg)
    _in_range("max_output_bytes", max_output_bytes, BASH_MAX_OUTPUT_BYTES)
    _in_range("timeout_ms", timeout_ms, BASH_MAX_TIMEOUT_MS)
    folders = [Path(path) for path in readable]
    for folder in folders:
        if not folder.is_absolute():
            raise UsageError(f"readable: {str(folder)!r} is not an absolute path")
    default_timeout_ms = timeout_ms

    @tool(side_effect=True, idempotent=False, render=_render)
    async def bash(
        ctx: ToolContext,
        cmd: Annotated[
            str, Bounds(min_length=1, max_length=BASH_MAX_COMMAND_LENGTH, pattern=r"\S")
        ],
        args: Annotated[
            list[Annotated[str, Bounds(max_length=BASH_MAX_ARG_LENGTH)]],
            Bounds(max_length=BASH_MAX_ARGS),
        ]
        | None = None,
        cwd: Annotated[str, Bounds(min_length=1, max_length=BASH_MAX_CWD_LENGTH)] = ".",
        timeout_ms: Annotated[int, Bounds(ge=1, le=BASH_MAX_TIMEOUT_MS)] | None = None,
        env: Annotated[
            dict[Annotated[str, Bounds(pattern=_VARIABLE)], str],
            Bounds(max_length=_MAX_VARIABLES),
        ]
        | None = None,
    ) -> CommandResult:
        """Run a program with arguments and return {output, stdout, stderr, exit_code, ...}.

        No shell reads the arguments: for pipes, globs and && pass cmd="sh", args=["-c", "..."].
        Files can be changed in the workspace, except protected ones, and in $TMPDIR. Any exit code
        but 0 is an error (command_failed) with the output. Processes that still run when the
        program ends are killed.

        Args:
            ctx: The call.
            cmd: Program: a name on PATH, or a path.
            args: Arguments, one string each.
            cwd: Folder to start in, relative to the workspace root. Default: the root.
            timeout_ms: Time limit in milliseconds; then everything it started is killed.
            env: Variables added to a clean environment.
        """
        arguments = args or []
        _check(cmd, arguments, env or {})
        if not network:
            refuse_network_words(cmd, arguments)
        with Root(ctx.root) as root:
            place = root.locate(cwd)
        if not place.is_folder:
            msg = f"cwd {quote(cwd)} is a file, not a folder"
            raise ToolError(msg, code="not_a_directory")
        command = Command(
            [cmd, *arguments],
            root=ctx.root,
            cwd=place.path,
            env=env,
            network=network,
            required=confinement == "required",
            readable=folders,
            protection=protection_of(ctx.root, ctx.unprotected, ctx.protected),
        )
        limit_ms = timeout_ms or default_timeout_ms
        ended = await in_killable_thread(lambda: command.run(limit_ms), command.kill, _limiter())
        # In a thread, because it may write 20 MiB.
        result = await anyio.to_thread.run_sync(_collect, ended, max_output_bytes, ctx)
        if ended.how != "exit" or ended.number != 0:
            raise _failure(ended, result, _Request(cmd, arguments, cwd, limit_ms, network))
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
    """Validate what a JSON Schema cannot express."""
    joined = len(" ".join([cmd, *args]))
    if joined > BASH_MAX_COMMAND_LENGTH:
        msg = (
            f"cmd and args together are {joined:,} characters, over {BASH_MAX_COMMAND_LENGTH:,}; "
            "write long text to a file and pass its path"
        )
        raise ToolError(msg, code="invalid_arguments")
    for name, values in (("cmd", [cmd]), ("args", args), ("env", list(env.values()))):
        for value in values:
            if "\0" in value:
                raise ToolError(f"{name} has a NUL character", code="invalid_arguments")
            if not value.isascii() and re.search("[\ud800-\udfff]", value):
                msg = f"{name} is not valid Unicode: it has a lone surrogate"
                raise ToolError(msg, code="invalid_arguments")


def _collect(ended: CommandOutcome, budget: int, ctx: ToolContext) -> CommandResult:
    kept: list[str] = []
    texts = []
    for name, output in (("stdout", ended.stdout), ("stderr", ended.stderr)):
        where = ""
        if output.total_bytes > budget:
            path, where = _store(ctx, name, output)
            kept += [path] if path else []
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


def _store(ctx: ToolContext, name: str, output: Output) -> tuple[str, str]:
    """Store a whole stream as an artifact; return its path, if any, and how a reader gets it."""
    data = output.head + output.tail
    try:
        ref = ctx.attach(Attachment(name=f"{name}.txt", media_type="text/plain", data=data))
    except (ToolError, UsageError):
        return "", "could not be stored"
    plain = Path(ref.path)
    path = str(plain.relative_to(ctx.root)) if plain.is_relative_to(ctx.root) else ref.path
    return path, recall_call(ref.id) if RECALL in ctx.tools else path


def _shorten(output: Output, budget: int, where: str) -> str:
    """Return the stream as text, truncated in its middle: errors are often at the end."""
    if output.total_bytes <= budget:
        return output.head.decode("utf-8", "replace")
    whole = output.head + output.tail
    first = whole[: _boundary(whole, budget * 3 // 4)]
    last = whole[_boundary(whole, len(whole) - (budget - budget * 3 // 4)) :]
    left_out = output.total_bytes - len(first) - len(last)
    mark = f"\n[... {left_out:,} of {output.total_bytes:,} bytes omitted; full output: {where}"
    if output.total_bytes > len(whole):
        mark += f" (without {output.total_bytes - len(whole):,} bytes of its middle)"
    return f"{first.decode('utf-8', 'replace')}{mark} ...]\n{last.decode('utf-8', 'replace')}"


def _boundary(data: bytes, position: int) -> int:
    """Return the last position up to `position` that does not split a UTF-8 character."""
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


def _failure(ended: CommandOutcome, result: CommandResult, request: _Request) -> ToolError:
    cmd = request.cmd
    details: dict[str, object] = {"cmd": cmd, "args": request.args, "cwd": request.cwd}
    if ended.how == "missing":
        return _not_started(ended, request, details)
    if ended.how == "refused":
        msg = (
            f"commands cannot be confined on this machine, so none is run. Missing: {ended.text}. "
            'Fix that, or create the tool with bash_tool(confinement="available") if its commands '
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
    ended: CommandOutcome, result: CommandResult, request: _Request, details: dict[str, object]
) -> ToolError:
    """Return the error of a command that ran and did not exit with 0."""
    code = "command_failed"
    if ended.how == "timeout":
        code = "timeout"
        details["timeout_ms"] = request.timeout_ms
        msg = (
            f"Command timed out after {request.timeout_ms}ms, and everything it started was "
            f"killed. If it needs longer, raise timeout_ms (up to {BASH_MAX_TIMEOUT_MS:,})"
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


def _not_started(ended: CommandOutcome, request: _Request, details: dict[str, object]) -> ToolError:
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


bash: Tool = bash_tool()
"""The tool with default options: confined, and without network."""
