"""The record of a program and of its result, as a row of the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from .._core import _json
from .._journal._journal import RunRow
from .._records._limits import Limits
from .._records._result import RunResult
from .._schema._check import value_check
from .._tools._allow import AllowList
from .._tools._table import ToolTable, read_record
from ..errors import UsageError
from ._program import Program, encode_limits

__all__ = ["limits_of_record", "load_result", "recorded_tools", "restore_program", "row_of"]


def row_of(program: Program) -> RunRow:
    """Convert a program to its run record."""
    schema = program.schema
    options = {
        "rules": program.has_rules,
        "key_run": program.key_run,
        "schema": schema if isinstance(schema, Mapping) else None,
        "typed": schema is not None and not isinstance(schema, Mapping),
    }
    data = _json.dumps_unchecked(options) if schema is None else _json.dumps(options)
    return RunRow(
        run_id=program.run_id,
        source=program.source,
        filename=program.filename,
        inputs=program.inputs_json,
        options=b'%b,"tools":%b,"limits":%b}'
        % (data[:-1], program.table.record, encode_limits(program.limits)),
        seed=program.seed,
        clock=program.clock,
        created_ms=int(program.clock * 1000),
    )


def recorded_tools(row: RunRow) -> dict[str, list[str]]:
    """Return the tools that a recorded run could call, each with the names of its parameters."""
    return read_record(_json.loads(row.options)["tools"])


def limits_of_record(data: Mapping[str, Any]) -> Limits:
    """Return recorded limits. Those that only another version of ptc has are ignored."""
    known = asdict(Limits())
    return Limits(**{key: value for key, value in data.items() if key in known})


def restore_program(
    row: RunRow,
    table_of: Callable[[AllowList], ToolTable],
    allowed_tools: AllowList | None = None,
    output_schema: Any = None,
) -> Program:
    """Convert a run record to a program.

    Args:
        row: The run.
        table_of: Returns the tools of an allow-list.
        allowed_tools: Replaces the recorded names.
        output_schema: Replaces the recorded one.

    Raises:
        UsageError: If a rule or a type was not passed again, or a tool is missing.
    """
    options = _json.loads(row.options)
    if options["rules"] and allowed_tools is None:
        msg = f"run {row.run_id!r} had rules on arguments: pass allowed_tools again"
        raise UsageError(msg)
    if options["typed"] and output_schema is None:
        msg = f"run {row.run_id!r} had a type as its output_schema: pass it again"
        raise UsageError(msg)
    schema = options["schema"] if output_schema is None else output_schema
    return Program(
        run_id=row.run_id,
        source=row.source,
        filename=row.filename,
        inputs_json=row.inputs,
        table=table_of(list(recorded_tools(row)) if allowed_tools is None else allowed_tools),
        limits=limits_of_record(options["limits"]),
        check_value=value_check(schema) if schema is not None else None,
        clock=row.clock,
        seed=row.seed,
        schema=schema,
        has_rules=options["rules"],
        key_run=options.get("key_run"),
    )


@cache
def _results() -> TypeAdapter[RunResult]:
    return TypeAdapter(RunResult)


def load_result(row: RunRow) -> RunResult | None:
    """Decode the result of a recorded run; None if it has not ended."""
    return None if row.result is None else _results().validate_json(row.result)
