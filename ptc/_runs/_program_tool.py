"""The tool ``program``: a script for an agent that calls tools by name with JSON arguments.

Rule 1: a caller's arguments can only narrow what the application allows. Tools are limited to the
    allow-list that the application passes, limits to the session's ceiling.
    tests/core/runs/test_program_tool.py::test_arguments_cannot_widen_the_allow_list
Rule 2: scripts cannot call it, nor can other tools: it is not in the catalog.
    tests/core/runs/test_program_tool.py::test_script_cannot_call_program
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, TypeAlias

from .._calls._subscribers import EventSink
from .._core import _json
from .._records._limits import Limits
from .._records._result import RunResult
from .._tools._allow import AllowList
from .._tools._catalog import Catalog
from .._tools._instructions import describe_program
from .._tools._names import list_within
from .._tools._table import ToolTable
from .._tools._tool import Tool, define_tool
from .._tools._tool_result import ToolResult
from ..errors import ToolError, UsageError
from ._runner import ProgramRunner

__all__ = [
    "DESCRIPTION_CHARS",
    "PROGRAM",
    "DefinitionStyle",
    "program_definition",
    "program_tool",
]

PROGRAM = "program"

DefinitionStyle: TypeAlias = Literal["openai", "anthropic", "mcp"]

_ALIASES = {"allowedTools": "allowed_tools"}
DESCRIPTION_CHARS = 2_000
"""Claude Code truncates a tool's description and a server's instructions at 2,048 characters
(anthropics/claude-code issues 41593 and 87650), but not schemas. Rules and signatures are longer,
so they are the description of the parameter ``source``."""
_OPENAI_CHARS = 1_024
"""OpenAI rejects longer descriptions of functions, but not of parameters."""
_TEXT_CHARS = 8_192
_MAX_WARNINGS = 20


def program_tool(
    runner: ProgramRunner, catalog: Catalog, allowed: AllowList | None, on_event: EventSink | None
) -> Tool:
    """Create the tool for one call.

    Args:
        runner: Runs the script.
        catalog: Tools of the session.
        allowed: Tools that the script may have at most. None: all without a side effect.
        on_event: Receives the events of the run.

    Raises:
        UsageError: If the session lacks a tool of `allowed`.
    """
    permitted = catalog.narrow(allowed, None)

    async def run(arguments: dict[str, Any]) -> ToolResult:
        try:
            result = await runner.run(
                source=arguments.get("source"),
                path=arguments.get("path"),
                inputs=arguments.get("inputs"),
                allowed_tools=catalog.narrow(permitted, arguments.get("allowed_tools")),
                limits=arguments.get("limits"),
                output_schema=None,
                filename=None,
                env=None,
                run_id=None,
                on_event=on_event,
            )
        except UsageError as error:
            raise ToolError(str(error), code="invalid_arguments") from None
        return _tool_result(result)

    made = define_tool(PROGRAM, "Run a script.", _parameters("The script."), run)
    return replace(made, validate=_with_aliases(made.validate))


def program_definition(
    table: ToolTable, limits: Limits, modules: Sequence[str], style: DefinitionStyle
) -> dict[str, Any]:
    """Return the definition of the tool for the API of a provider.

    Args:
        table: Tools that a script may call.
        limits: Limits of a script.
        modules: Names of the modules that a script may import.
        style: The API.

    Raises:
        UsageError: If `style` is unknown.
    """
    most_chars = _OPENAI_CHARS if style == "openai" else DESCRIPTION_CHARS
    description = _description(list(table.tools), most_chars)
    parameters = _parameters(describe_program(table, limits, modules))
    if style == "openai":
        function = {"name": PROGRAM, "description": description, "parameters": parameters}
        return {"type": "function", "function": function}
    if style == "anthropic":
        return {"name": PROGRAM, "description": description, "input_schema": parameters}
    if style == "mcp":
        changes = any(tool.side_effect for tool in table.tools.values())
        return {
            "name": PROGRAM,
            "description": description,
            "inputSchema": parameters,
            "annotations": {"readOnlyHint": not changes, "destructiveHint": changes},
        }
    msg = f"style must be 'openai', 'anthropic' or 'mcp', not {style!r:.80}"
    raise UsageError(msg)


def _description(names: list[str], most_chars: int) -> str:
    start = (
        "Run a Python script that calls tools and returns one result. Use it instead of a series "
        "of tool calls: it searches, reads, filters, counts and combines in one step, calls run "
        "in parallel, and only what the script returns comes back.\n\n"
        "`source` is the script: it defines `async def run(ctx, inputs)`, tools are methods of ctx "
        "(`await ctx.name(...)`), the return value is the result. The description of the "
        "parameter `source` has the rules, the limits and the typed signatures of the tools, or "
        "of many tools a way to find them: read it before the first script. Scripts run in a "
        "sandbox: files, network and packages are available only through ctx.\n\nTools on ctx: "
    )
    return start + list_within(names, most_chars - len(start))


def _parameters(source: str) -> dict[str, Any]:
    """Return the JSON Schema of the arguments; `source` describes the script."""
    count = {"type": "integer", "minimum": 1}
    return {
        "type": "object",
        "properties": {
            "source": {"type": "string", "description": source},
            "path": {
                "type": "string",
                "description": "File of the script below the root, in place of source.",
            },
            "inputs": {
                "type": "object",
                "description": "JSON data for the script; its parameter `inputs`.",
            },
            "allowed_tools": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Tools that the script may call. Default: all on ctx.",
            },
            "limits": {
                "type": "object",
                "description": "Limits of the run; higher ones than the session's are lowered.",
                "properties": {
                    "timeout_ms": count,
                    "max_tool_calls": count,
                    "max_output_bytes": count,
                },
            },
            "type": {"enum": ["script"], "description": "The only kind of program."},
            "language": {"enum": ["python"], "description": "The only language."},
        },
        "additionalProperties": False,
    }


def _with_aliases(validate: Callable[[Mapping[str, Any]], Any]) -> Callable[..., Any]:
    """Return a validator that also accepts the names of arguments in camelCase."""

    def validate_renamed(arguments: Mapping[str, Any]) -> Any:
        plain = dict(arguments)
        for alias, name in _ALIASES.items():
            if alias in plain:
                if name in plain:
                    msg = f"{PROGRAM}: {name} and {alias} are the same argument; pass one"
                    raise ToolError(msg, code="invalid_arguments", tool=PROGRAM)
                plain[name] = plain.pop(alias)
        return validate(plain)

    return validate_renamed


# --- results ------------------------------------------------------------------------------------


def _tool_result(result: RunResult) -> ToolResult:
    metadata = {
        "run_id": result.run_id,
        "status": result.status,
        "warnings": [str(warning) for warning in result.warnings],
        "usage": asdict(result.usage),
    }
    if result.ok:
        lines = [_value_text(result.value), *_notes(result)]
        return ToolResult.success(result.value, text="\n\n".join(lines), metadata=metadata)
    details: dict[str, object] = {
        "run_id": result.run_id,
        "status": result.status,
        "partial": list(result.partial),
        "pending": [
            {"call": call.call, "tool": call.tool, "arguments": call.arguments}
            for call in result.pending
        ],
    }
    code = result.error.code if result.error is not None else result.status
    text = "\n\n".join([*_failure_lines(result), *_notes(result)])
    return ToolResult.failure(text, code=code, details=details, metadata=metadata)


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else _json.dumps(value).decode()


def _failure_lines(result: RunResult) -> Iterable[str]:
    error = result.error
    if error is not None:
        where = f" (line {error.line})" if error.line else ""
        yield f"{result.status}: {error.message}{where}"
        yield from filter(None, [error.excerpt, error.hint and f"Hint: {error.hint}"])
        yield from (
            f"line {finding.line}: {finding.message} {finding.hint}".rstrip()
            for finding in error.findings[1:_MAX_WARNINGS]
        )
    elif result.pending:
        waiting = ", ".join(f"{call.tool} (call {call.call})" for call in result.pending)
        yield (
            f"{result.status}: run {result.run_id} awaits a decision about {waiting}. The "
            "application decides and resumes it; do not run the script again."
        )
    else:
        yield result.status
    if result.calls:
        counts = Counter((call.tool, call.status) for call in result.calls)
        made = ", ".join(f"{tool} {status} {n}" for (tool, status), n in counts.most_common(20))
        yield f"Calls: {made}"


def _notes(result: RunResult) -> Iterable[str]:
    printed = result.stdout + result.stderr
    if printed:
        left_out = max(0, len(printed) - _TEXT_CHARS)
        head = f"Printed ({left_out:,} earlier characters left out)" if left_out else "Printed"
        yield f"{head}:\n{printed[left_out:].rstrip()}"
    for warning in result.warnings[:_MAX_WARNINGS]:
        yield f"Warning: {warning}"
