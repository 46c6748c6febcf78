"""The record of a program and of its result, as a row of the journal."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache, lru_cache
from typing import Any, Final

from .._core import _json
from .._core._pydantic import pydantic
from .._records._limits import Limits
from .._records._result import RunResult
from .._schema._check import value_check
from .._tools._allow import AllowList
from .._tools._contract import describe_changes, mark_of
from .._tools._table import ToolTable, read_marks, read_record
from ..errors import DamagedRunError, EndedRunError, UsageError
from ..journal._journal import RunRow
from ._program import Program, encode_limits

__all__ = [
    "describe_source",
    "find_changed_tools",
    "is_source_of",
    "limits_of_record",
    "load_result",
    "read_options",
    "recorded_tools",
    "require_inputs",
    "require_source",
    "restore_program",
    "row_of",
    "without_source",
]

_LIMITS: Final = frozenset(field.name for field in fields(Limits))


def row_of(program: Program) -> RunRow:
    """Convert a program to its run record."""
    schema = program.schema
    options = {
        "rules": program.has_rules,
        "key_run": program.key_run,
        "schema": schema if isinstance(schema, Mapping) else None,
        "typed": schema is not None and not isinstance(schema, Mapping),
    }
    if not program.store_source:
        options["source_sha256"] = _digest(program.source)
    if program.trace:
        options["trace"] = program.trace
    if program.revision > 1:
        options |= {"reads": program.reads, "allow_unmatched": program.allow_unmatched}
    data = _json.dumps_unchecked(options) if schema is None else _json.dumps(options)
    return RunRow(
        run_id=program.run_id,
        source=program.source if program.store_source else "",
        filename=program.filename,
        inputs=program.inputs_json,
        options=b'%b,"tools":%b,"marks":%b,"limits":%b}'
        % (
            data[:-1],
            program.table.record,
            program.table.marks(program.source),
            encode_limits(program.limits),
        ),
        seed=program.seed,
        clock=program.clock,
        created_ms=int(program.clock * 1000),
        revision=program.revision,
        engine=program.engine,
    )


def recorded_tools(row: RunRow) -> dict[str, list[str]]:
    """Return the tools that a recorded run could call, each with the names of its parameters."""
    options = read_options(row)
    with _as_damage(row, "options"):
        found = read_record(options["tools"])
        return {str(name): list(parameters) for name, parameters in found.items()}


def read_options(row: RunRow) -> dict[str, Any]:
    """Decode the options of a recorded run. Raises `DamagedRunError`."""
    with _as_damage(row, "options"):
        found: dict[str, Any] = _json.loads(row.options)
        # All that every version records.
        _ = found["rules"], found["typed"], found["schema"], found["tools"], found["limits"]
        return found


def require_inputs(row: RunRow) -> None:
    """Raise `DamagedRunError` if the inputs of a recorded run are not JSON."""
    with _as_damage(row, "inputs"):
        _json.loads(row.inputs)


@contextmanager
def _as_damage(row: RunRow, part: str) -> Iterator[None]:
    """Convert the error of data that cannot be decoded to `DamagedRunError`."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, zlib.error, UsageError) as error:
        why = f"{type(error).__name__}: {error}"[:300]
        msg = f"run {row.run_id!r} is damaged: its {part} cannot be read: {why}"
        raise DamagedRunError(msg) from error


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode(errors="surrogatepass")).hexdigest()


def is_source_of(row: RunRow, source: str) -> bool:
    """Return True if `source` is the script of a recorded run, by its digest if need be."""
    if row.source:
        return row.source == source
    digest = read_options(row).get("source_sha256")
    return source == "" if digest is None else digest == _digest(source)


def describe_source(row: RunRow) -> str:
    """Return a line about a script that is not stored; ``""`` if it is."""
    digest = None if row.source else read_options(row).get("source_sha256")
    if digest is None:
        return ""
    return f"the script is not stored (store_source=False); its SHA-256 is {digest}"


def require_source(row: RunRow) -> None:
    """Raise `EndedRunError` if the journal has only the digest of the script."""
    if describe_source(row):
        msg = (
            f"run {row.run_id!r} was recorded without its script (store_source=False), so it "
            "cannot be replayed; pass the script to resume(..., source=...), or start a new run"
        )
        raise EndedRunError(msg)


def without_source(result: RunResult) -> RunResult:
    """Return a result without the lines of the script that its error quotes."""
    error = result.error
    if error is None:
        return result
    findings = tuple(replace(finding, excerpt="") for finding in error.findings)
    return replace(result, error=replace(error, excerpt="", traceback="", findings=findings))


def find_changed_tools(row: RunRow, table: ToolTable) -> dict[str, tuple[list[str], bool]]:
    """Find the tools whose schemas or flags differ from those of a recorded run.

    Returns:
        By tool, the changes in words, and whether the script names the tool. Empty for a run that
        an earlier version of ptc recorded.
    """
    recorded, names = read_options(row).get("marks"), recorded_tools(row)
    if recorded is None:
        return {}
    with _as_damage(row, "marks of tools"):
        marks = dict(zip(names, read_marks(recorded), strict=True))
        tools = {name: table.tools[name] for name in marks if name in table.tools}
        changed = {name: describe_changes(marks[name], mark_of(tools[name])) for name in tools}
    return {name: (changes, ":" in marks[name]) for name, changes in changed.items() if changes}


def limits_of_record(data: Mapping[str, Any]) -> Limits:
    """Return recorded limits. Those that only another version of ptc has are ignored."""
    return Limits(**{key: value for key, value in data.items() if key in _LIMITS})


@lru_cache(maxsize=64)
def _decode_limits(data: bytes) -> Limits:
    """Decode recorded limits. Their validation takes longer than the rest of a program."""
    return limits_of_record(_json.loads(data))


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
    options = read_options(row)
    if options["rules"] and allowed_tools is None:
        msg = f"run {row.run_id!r} had rules on arguments: pass allowed_tools (`--allow`) again"
        raise UsageError(msg)
    if options["typed"] and output_schema is None:
        msg = f"run {row.run_id!r} had a type as its output_schema: pass it again"
        raise UsageError(msg)
    schema = options["schema"] if output_schema is None else output_schema
    with _as_damage(row, "limits"):
        limits = _decode_limits(_json.dumps_unchecked(options["limits"]))
    return Program(
        run_id=row.run_id,
        source=row.source,
        filename=row.filename,
        inputs_json=row.inputs,
        table=table_of(list(recorded_tools(row)) if allowed_tools is None else allowed_tools),
        limits=limits,
        check_value=value_check(schema) if schema is not None else None,
        clock=row.clock,
        seed=row.seed,
        schema=schema,
        has_rules=options["rules"],
        key_run=options.get("key_run"),
        revision=row.revision,
        reads=options.get("reads", "reuse"),
        allow_unmatched=options.get("allow_unmatched", False),
        engine=row.engine,
        trace=options.get("trace", ""),
    )


@cache
def _results() -> pydantic.TypeAdapter[RunResult]:
    return pydantic.TypeAdapter(RunResult)


def load_result(row: RunRow) -> RunResult | None:
    """Decode the result of a recorded run; None if it has not ended. Raises `DamagedRunError`."""
    if row.result is None:
        return None
    with _as_damage(row, "result"):
        return _results().validate_json(row.result)
