"""The tool of a saved program.

Rule 1: a call never widens its caller's allow-list: every pinned tool must be on it, and its rules
    apply beside those that were saved.
    tests/core/programs/test_saved_tools.py::test_call_is_refused_if_its_caller_may_not_call_a_pinned_tool
Rule 2: a program runs only with the tools that it was saved with: none is missing or has another
    schema or other flags.
    tests/core/programs/test_saved_tools.py::test_program_whose_tool_changed_calls_nothing_and_says_what_changed
Rule 3: a call that is started again executes the version that it began with.
    tests/core/programs/test_saved_tools.py::test_restarted_call_continues_the_version_it_began_with
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from .._records._result import RunResult
from .._tools._context import ToolContext
from .._tools._revert import Effect
from .._tools._tool import Tool, ToolFunction, ToolOptions, tool_from_schema
from .._tools._tool_result import ToolResult
from ..errors import ToolError, UsageError
from ._pins import describe_changes, pin
from ._saved import SavedProgram
from ._store import ProgramStore

__all__ = ["create_tool", "define_program_tool"]


def create_tool(program: SavedProgram, store: ProgramStore, known: Mapping[str, Tool]) -> Tool:
    """Create the tool of a saved program.

    Args:
        program: The program.
        store: Holds its other versions.
        known: All tools of the session, now and later.

    Raises:
        UsageError: If the name is taken, or the input schema is not one of an object.
    """

    async def call(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        return await _Call(program, store, known).run(arguments, ctx)

    return define_program_tool(program, call)


def define_program_tool(program: SavedProgram, function: ToolFunction) -> Tool:
    """Define the tool of a program, with a function of its arguments and a `ToolContext`.

    All its effects are those of the calls that it makes, and each of these has its own key. So it
    passes its key on, and may be suspended and started again although it is not idempotent.
    """
    options = ToolOptions(
        side_effect=program.side_effect,
        idempotent=program.idempotent,
        uses_key=not program.idempotent,
        result_schema=program.output_schema,
        tags=["program"],
    )
    if program.side_effect:
        options["revert"] = _revert
    return tool_from_schema(
        program.name, program.description, program.input_schema, function, options
    )


async def _revert(effect: Effect) -> None:
    """Undo nothing: a rollback undoes the calls of a program by themselves."""


class _Call:
    """A call of a saved program."""

    def __init__(
        self, program: SavedProgram, store: ProgramStore, known: Mapping[str, Tool]
    ) -> None:
        self._program = program
        self._store = store
        self._known = known

    async def run(self, arguments: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        """Check the pinned tools, and run the script with them."""
        started = await ctx.step("version", self._describe_version)
        program = self._find_version(started)
        self._check_tools(program)
        self._check_allowed(program, ctx)
        limits = program.limits
        result = await ctx.restricted(program.allow_list).program(
            program.source,
            arguments,
            # Its value is the result of a tool, which its caller receives whole.
            limits=replace(limits, max_output_bytes=limits.max_tool_result_bytes),
            output_schema=program.output_schema,
            filename=f"{program.name}.py",
        )
        return _result_of(program, result)

    async def _describe_version(self) -> dict[str, Any]:
        return {"version": self._program.version, "sha256": _digest(self._program)}

    def _find_version(self, started: Mapping[str, Any]) -> SavedProgram:
        """Return the version that the call began with; it may have begun in an earlier process."""
        program = self._program
        version = started["version"]
        if version != program.version:
            try:
                program = self._store.load(program.name, version)
            except UsageError as error:
                raise self._outdated(f"this call began with version {version}: {error}") from None
        if _digest(program) != started["sha256"]:
            msg = f"this call began with a version {version} that was replaced since then"
            raise self._outdated(msg)
        return program

    def _check_tools(self, program: SavedProgram) -> None:
        """Raise `ToolError` ``program_outdated`` if a pinned tool is missing or has changed."""
        problems = []
        for name, pinned in program.tools.items():
            tool = self._known.get(name)
            changes = ["it is gone"] if tool is None else describe_changes(pinned, pin(tool))
            if changes:
                problems.append(f"tool {name!r}: {', '.join(changes)}")
        if problems:
            raise self._outdated(
                f"it was saved with tools that have changed since then. {'; '.join(problems)}"
            )

    def _outdated(self, problem: str) -> ToolError:
        name = self._program.name
        msg = (
            f"{name}: {problem}. Nothing was called. Run a script that works with the tools as "
            f"they are now, and save it: session.save_program(run_id, name={name!r}), or "
            f"`ptc save RUN {name}`"
        )
        return ToolError(msg, code="program_outdated", tool=name)

    def _check_allowed(self, program: SavedProgram, ctx: ToolContext) -> None:
        """Raise `ToolError` ``not_allowed`` if the caller may not call all pinned tools."""
        allowed = ctx.tools
        missing = [name for name in program.tools if name not in allowed]
        if missing:
            msg = (
                f"{program.name}: its caller may not call all tools of this saved program. Add to "
                f"the allow-list: {', '.join(missing)}. Nothing was called"
            )
            details: dict[str, object] = {"missing": missing}
            raise ToolError(msg, code="not_allowed", tool=program.name, details=details)


def _result_of(program: SavedProgram, result: RunResult) -> ToolResult:
    """Return the value and the files of a script. Raises `ToolError` if it has no whole value."""
    name, error = program.name, result.error
    details: dict[str, object] = {"status": result.status, "version": program.version}
    if result.ok and result.cut is None:
        return ToolResult.success(result.value, attachments=result.attached)
    if result.ok and result.cut is not None:
        msg = f"{name}: its value has {result.cut.bytes:,} bytes, more than a tool may return"
        details["artifact"] = result.cut.artifact
        raise ToolError(msg, code="result_too_large", tool=name, details=details)
    msg = f"{name}: the program ended as {result.status}"
    if error is not None:
        where = f" in line {error.line}" if error.line else ""
        hint = f" ({error.hint})" if error.hint else ""
        msg = f"{msg}{where}: {error.message}{hint}"
        details |= {"code": error.code, "line": error.line, "tool": error.tool}
    raise ToolError(msg, code="program_failed", tool=name, details=details)


def _digest(program: SavedProgram) -> str:
    return sha256(program.source.encode()).hexdigest()
