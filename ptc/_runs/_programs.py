"""Construction of programs: from a caller's request, or from the record of a run."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._core import _json
from .._core._arguments import parts_of, path_of
from .._journal._journal import RunRow
from .._records._limits import Limits
from .._records._result import RunResult
from .._schema._check import value_check, value_reader
from .._tools._allow import Allow, AllowList
from .._tools._catalog import Catalog
from .._tools._table import ToolTable
from ..errors import UsageError
from ._ceiling import LimitPolicy
from ._history import History, validate_run_id
from ._program import NonFinite, Program, encode_inputs, read_script, validate_filename
from ._program_row import load_result, recorded_tools, restore_program

__all__ = ["ProgramBuilder", "typed_result"]


class ProgramBuilder:
    """Builds programs with the tools and the limits of a session."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        limit_policy: LimitPolicy,
        history: History,
        non_finite: NonFinite,
    ) -> None:
        self._non_finite: NonFinite = non_finite
        self._root = root
        self._catalog = catalog
        self._limit_policy = limit_policy
        self._history = history

    def from_request(
        self,
        *,
        source: str | None = None,
        path: str | Path | None = None,
        allowed_tools: AllowList | None = None,
        filename: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        output_schema: Any = None,
        run_id: str | None = None,
    ) -> Program:
        """Build the program that `Session.program` was called with.

        Raises:
            UsageError: If an argument is wrong.
        """
        if (source is None) == (path is None):
            msg = "pass either source= or path="
            raise UsageError(msg)
        if path is not None:
            source, filename = read_script(self._root, path_of("path", path), filename)
        if not isinstance(source, str):
            msg = f"source must be a string, not {type(source).__name__}"
            raise UsageError(msg)
        # Editors on Windows write a byte order mark, which `compile` rejects in text.
        source = source.removeprefix("\ufeff")
        allowed = self._catalog.default if allowed_tools is None else allowed_tools
        if allowed is not None:
            # Read twice below, and may be a generator.
            allowed = parts_of("allowed_tools", allowed, "a list of names of tools")
        table = self._catalog.table(allowed)
        applied, warnings = self._limit_policy.apply(limits)
        return Program(
            run_id=uuid.uuid4().hex if run_id is None else validate_run_id(run_id),
            seed=random.getrandbits(48),
            schema=output_schema,
            has_rules=any(isinstance(entry, Allow) for entry in allowed or ()),
            source=source,
            filename=validate_filename(filename),
            inputs_json=encode_inputs(inputs, applied),
            table=table,
            limits=applied,
            check_value=value_check(output_schema) if output_schema is not None else None,
            warnings=warnings,
            non_finite=self._non_finite,
        )

    def for_tool(
        self,
        table: ToolTable,
        most: Limits,
        *,
        source: str,
        inputs: Mapping[str, Any] | None,
        limits: Limits | Mapping[str, Any] | None,
        output_schema: Any,
        filename: str | None,
    ) -> Program:
        """Build the program that a tool runs, with the tools and the limits of its caller.

        Raises:
            UsageError: If an argument is wrong.
        """
        program = self.from_request(
            source=source,
            inputs=inputs,
            allowed_tools=(),
            limits=limits,
            output_schema=output_schema,
            filename=filename,
        )
        # The tool may return as much as any tool; the limit of output is for a model.
        limits = program.limits.clamp(replace(most, max_output_bytes=most.max_tool_result_bytes))
        return replace(program, table=table, limits=limits, recorded=False)

    def find_result(self, program: Program) -> RunResult | None:
        """Return the recorded result of the run with this id.

        Returns:
            None if there is no such run, it was interrupted, or a decision lets it continue.

        Raises:
            UsageError: If that run has another script or inputs, or was rolled back.
        """
        # The run may have finished a moment ago.
        self._history.journal.flush()
        row = self._history.journal.find(program.run_id)
        if row is None:
            return None
        if (row.source, row.inputs) != (program.source, program.inputs_json):
            msg = f"run_id {program.run_id!r} is used by a run with another script or inputs"
            raise UsageError(msg)
        if row.rolled_back_ms is not None:
            msg = f"run {program.run_id!r} was rolled back; pass another run_id for a new run"
            raise UsageError(msg)
        result = load_result(row)
        if result is not None and result.status == "paused":
            waiting = {call.call for call in self._history.pending(program.run_id)}
            return result if all(call.call in waiting for call in result.pending) else None
        return result

    def from_journal(
        self, run_id: str, allowed_tools: AllowList | None, output_schema: Any, until: str | None
    ) -> Program:
        """Build the program of a recorded run, for `Session.resume`.

        Raises:
            JournalError: If there is no such run.
            UsageError: If a tool or a rule of the run is missing.
        """
        row = self._history.run(run_id)
        if allowed_tools is None:
            allowed_tools = self._default_of(row)
        program = restore_program(row, self._catalog.table, allowed_tools, output_schema)
        limits = program.limits.clamp(self._limit_policy.ceiling)
        return replace(
            program, limits=limits, until=until, resumed=True, non_finite=self._non_finite
        )

    def _default_of(self, row: RunRow) -> AllowList | None:
        """Return the session's allow-list if the run had rules, which are not recorded, and it."""
        default = self._catalog.default
        options = _json.loads(row.options)
        if default is None or not options["rules"]:
            return None
        tools = self._catalog.table(None).tools
        return default if tools.keys() == recorded_tools(row).keys() else None

    def for_retry(self, run_id: str, allowed_tools: AllowList | None) -> Program:
        """Build a recorded program as a new run, with a warning about the earlier effects.

        Raises:
            JournalError: If there is no such run.
            UsageError: If a tool or a rule of the run is missing.
        """
        program = self.from_journal(run_id, allowed_tools, None, None)
        warning = self._history.warning_of(run_id)
        undone = self._history.run(run_id).rolled_back_ms is not None
        return replace(
            program,
            run_id=uuid.uuid4().hex,
            # A service would take calls with the keys of undone ones for repetitions.
            key_run=None if undone else program.key_run or run_id,
            resumed=False,
            clock=time.time(),
            seed=random.getrandbits(48),
            warnings=(*program.warnings, *([warning] if warning is not None else [])),
        )


def typed_result(result: RunResult, output_schema: Any) -> RunResult:
    """Let `RunResult.unwrap` return an instance of `output_schema`, if that is a type."""
    read = value_reader(output_schema)
    return result if read is None else replace(result, _read=read)
