"""Make a saved program of a recorded run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .._core import _json
from .._core._arguments import parts_of
from .._dataclass import dataclass
from .._records._limits import Limits
from .._records._result import RunResult
from .._runs._direct_journal import is_direct_call
from .._runs._program_row import (
    limits_of_record,
    load_result,
    read_options,
    recorded_tools,
    require_source,
)
from .._schema._check import make_adapter, value_check
from .._tools._allow import Allow, AllowList
from .._tools._allow_text import format_allow
from .._tools._catalog import Catalog
from ..errors import UsageError
from ..journal._journal import RunRecord, RunRow
from ._derive import derive_inputs, derive_output
from ._pins import pin
from ._saved import SavedProgram, validate_program_name
from ._tool import define_program_tool

__all__ = ["SaveRequest", "draft_program", "find_docstring"]


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """Arguments of `Session.save_program`."""

    name: str
    description: str | None
    input_schema: Any
    output_schema: Any
    allowed_tools: AllowList | None


def draft_program(
    recorded: RunRecord,
    request: SaveRequest,
    catalog: Catalog,
    saved: Mapping[str, SavedProgram],
) -> SavedProgram:
    """Make the program of a run, without its version and folder.

    Args:
        recorded: The run.
        request: Name and options of the program.
        catalog: Tools of the session.
        saved: Saved programs of the session, by name.

    Raises:
        UsageError: If the run or an option cannot be saved.
    """
    row = recorded.run
    validate_program_name(request.name)
    result = _completed(row)
    require_source(row)
    options = read_options(row)
    entries = _entries(recorded, options, request.allowed_tools, catalog, saved)
    pins = {name: pin(tool) for name, tool in catalog.select(entries).items()}
    others = {name: state for name, state in pins.items() if name != request.name}
    inputs = _json.loads(row.inputs)
    draft = SavedProgram(
        name=request.name,
        version=0,
        description=_description(request.description, row),
        source=row.source,
        input_schema=_input_schema(inputs, request.input_schema),
        output_schema=_output_schema(result, options["schema"], request.output_schema),
        allowed_tools=tuple(format_allow(entry) for entry in entries),
        tools=others,
        limits=_limits(options["limits"], pins),
        run_id=row.run_id,
        saved_at=datetime.now(UTC).isoformat(timespec="seconds"),
        folder=Path(),
    )
    tool = define_program_tool(draft, _never)
    _check_example(row.run_id, draft, inputs, result)
    if request.name in pins:
        # It calls the version before it; from now on, that is itself.
        return replace(draft, tools={**others, request.name: pin(tool)})
    return draft


async def _never(arguments: dict[str, Any]) -> Any:
    """Stand in for the function of a tool that is defined to be checked."""
    raise NotImplementedError("a tool that is only checked is never called")


def _completed(row: RunRow) -> RunResult:
    result = load_result(row)
    if result is not None and result.ok and not is_direct_call(row):
        return result
    state = "a direct call of a tool" if is_direct_call(row) else row.status
    msg = f"run {row.run_id!r} cannot be saved: it is {state}; save a script that completed"
    raise UsageError(msg)


# --- allow-list ---------------------------------------------------------------------------------


def _entries(
    recorded: RunRecord,
    options: Mapping[str, Any],
    requested: AllowList | None,
    catalog: Catalog,
    saved: Mapping[str, SavedProgram],
) -> list[str | Allow]:
    """Return the allow-list of a program: names and rules of tools, no patterns.

    Raises:
        UsageError: If it has a tool that the run could not call, or that the session lacks.
    """
    run_id, parameters = recorded.run.run_id, recorded_tools(recorded.run)
    entries: list[str | Allow]
    if requested is not None:
        given = parts_of("allowed_tools", requested, "a list of names of tools")
        entries = _expand(given, catalog)
    else:
        used = _used_tools(recorded, parameters, saved)
        entries = [*used]
        if options["rules"]:
            default = _expand(catalog.default or (), catalog)
            if {_tool_of(entry) for entry in default} != parameters.keys():
                msg = (
                    f"run {run_id!r} had rules on arguments, which are not recorded: pass them "
                    "again with allowed_tools"
                )
                raise UsageError(msg)
            entries = [entry for entry in default if _tool_of(entry) in used]
    for name in dict.fromkeys(_tool_of(entry) for entry in entries):
        if name not in parameters:
            msg = f"allowed_tools: run {run_id!r} was not allowed to call {name!r}"
            raise UsageError(msg)
        found = catalog.tools.get(name)
        if found is None or list(found.parameter_names) != parameters[name]:
            state = "is missing in this session" if found is None else "has other parameters now"
            msg = f"run {run_id!r} cannot be saved: its tool {name!r} {state}; run the script again"
            raise UsageError(msg)
    return entries


def _expand(entries: Iterable[str | Allow], catalog: Catalog) -> list[str | Allow]:
    """Replace patterns and toolsets by the names of their tools."""
    found: dict[str | int, str | Allow] = {}
    for entry in entries:
        if isinstance(entry, Allow):
            found[id(entry)] = entry
        else:
            found.update((name, name) for name in catalog.select([entry]))
    return list(found.values())


def _tool_of(entry: str | Allow) -> str:
    return entry.tool if isinstance(entry, Allow) else entry


def _used_tools(
    recorded: RunRecord, allowed: Iterable[str], saved: Mapping[str, SavedProgram]
) -> list[str]:
    """List the allowed tools that the run called, or that its source names.

    A saved program needs the tools that it is pinned to.
    """
    used = {row.tool for row in recorded.calls} | _named(recorded.run.source, allowed)
    todo = [name for name in used if name in saved]
    while todo:
        more = saved[todo.pop()].tools.keys() - used
        used |= more
        todo += [name for name in more if name in saved]
    return [name for name in allowed if name in used]


def _named(source: str, names: Iterable[str]) -> set[str]:
    """Return the names that the text of a script has as an attribute, or between quotes."""
    attributes = set(re.findall(r"\.\s*([A-Za-z_]\w*)", source))
    quoted = set(re.findall(r"""["']([A-Za-z_][\w.]*)["']""", source))
    found = set()
    for name in names:
        namespace, _, last = name.rpartition(".")
        if name in quoted or (last in attributes and (not namespace or namespace in source)):
            found.add(name)
    return found


def _limits(recorded: Mapping[str, Any], tools: Mapping[str, Any]) -> Limits:
    """Return the limits of a run, with those of single tools for the tools of the program."""
    limits = limits_of_record(recorded)
    by_tool = {name: most for name, most in limits.max_calls_by_tool.items() if name in tools}
    return replace(limits, max_calls_by_tool=by_tool)


# --- texts and schemas --------------------------------------------------------------------------


def _description(given: str | None, row: RunRow) -> str:
    text = find_docstring(row.source) if given is None else given
    if isinstance(text, str) and text.strip():
        return text.strip()
    msg = (
        "description must be text that tells a model what the program does; pass description= "
        "(`--description TEXT`), or give the script a docstring"
    )
    raise UsageError(msg)


def find_docstring(source: str) -> str:
    """Return the docstring of `run`, or of the script; ``""`` if it has none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    functions = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "run"
    ]
    return next(filter(None, map(ast.get_docstring, [*functions[-1:], tree])), "")


def _input_schema(inputs: Mapping[str, Any], given: Any) -> dict[str, Any]:
    if given is None:
        return derive_inputs(inputs)
    return dict(given) if isinstance(given, Mapping) else make_adapter(given, "input_schema")[1]


def _output_schema(result: RunResult, recorded: Any, given: Any) -> dict[str, Any] | None:
    if given is not None:
        from ..structured import Contract

        if isinstance(given, Contract):
            given = given.schema
        is_schema = isinstance(given, Mapping)
        return dict(given) if is_schema else make_adapter(given, "output_schema")[1]
    if isinstance(recorded, Mapping):
        return dict(recorded)
    return derive_output(result.value) if result.cut is None else None


def _check_example(
    run_id: str, draft: SavedProgram, inputs: Mapping[str, Any], result: RunResult
) -> None:
    """Raise `UsageError` if the schemas do not accept the run itself."""
    wrong = value_check(draft.input_schema, "inputs")(inputs)
    if draft.output_schema is not None and result.cut is None:
        wrong += value_check(draft.output_schema, "value")(result.value)
    if wrong:
        msg = f"the schemas do not accept run {run_id!r} itself: {'; '.join(wrong[:3])}"
        raise UsageError(msg)
