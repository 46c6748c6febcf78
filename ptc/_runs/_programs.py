"""Construction of programs: from a caller's request, or from the record of a run."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._core._arguments import parts_of, path_of
from .._records._limits import Limits
from .._records._result import RunResult
from .._schema._check import value_check, value_reader
from .._tools._allow import Allow, AllowList
from .._tools._catalog import Catalog
from .._tools._table import ToolTable
from ..errors import ChangedToolsError, UsageError
from ..journal._continuable import archived_id
from ..journal._journal import RunRow
from ._ceiling import LimitPolicy, clamp_limits
from ._continuation import describe_stop, has_lifted_error, require_other_end
from ._correction import Correction
from ._history import History
from ._program import NonFinite, Program, encode_inputs, read_script, validate_filename
from ._program_row import (
    find_changed_tools,
    is_source_of,
    load_result,
    read_options,
    recorded_tools,
    require_source,
    restore_program,
)
from ._revisions import load_earlier
from ._run_id import validate_run_id

__all__ = ["ProgramBuilder", "typed_result"]

_MAX_NAMES = 5
"""Names of tools in an error."""


class ProgramBuilder:
    """Builds programs with the tools and the limits of a session."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        limit_policy: LimitPolicy,
        history: History,
        non_finite: NonFinite,
        store_source: bool = True,
    ) -> None:
        self._store_source = store_source
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
            store_source=self._store_source,
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

    async def find_result(self, row: RunRow, program: Program) -> RunResult | None:
        """Return the recorded result of the run with this id.

        Args:
            row: The row of the run.
            program: The program that is requested with its id.

        Returns:
            None if it was interrupted, or a decision lets it continue.

        Raises:
            UsageError: If that run has another script or inputs, or was rolled back.
        """
        if not await self.is_requested(row, program):
            msg = f"run_id {program.run_id!r} is used by a run with another script or inputs"
            raise UsageError(msg)
        if row.rolled_back_ms is not None:
            msg = f"run {program.run_id!r} was rolled back; pass another run_id for a new run"
            raise UsageError(msg)
        result = load_result(row)
        if result is not None and result.status == "paused":
            waiting = {call.call for call in await self._history.pending(program.run_id)}
            return result if all(call.call in waiting for call in result.pending) else None
        return result

    async def is_requested(self, row: RunRow, program: Program) -> bool:
        """Return True if a run is that of `program`, or a correction of it."""
        if row.inputs != program.inputs_json or is_source_of(row, program.source):
            return row.inputs == program.inputs_json
        for revision in range(1, row.revision):
            earlier = await self._history.find(archived_id(row.run_id, revision))
            if earlier is not None and is_source_of(earlier, program.source):
                return True
        return False

    async def from_journal(
        self,
        run_id: str,
        allowed_tools: AllowList | None,
        output_schema: Any,
        until: str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        *,
        needs_source: bool = True,
    ) -> Program:
        """Build the program of a recorded run, for `Session.resume`.

        Raises:
            JournalError: If there is no such run, it is damaged, or it has no script and
                `needs_source` is True.
            UsageError: If a tool or a rule of the run is missing, or a limit is wrong.
        """
        row = await self._history.run(run_id)
        if needs_source:
            require_source(row)
        return self.from_row(row, allowed_tools, output_schema, until, limits)

    def from_row(
        self,
        row: RunRow,
        allowed_tools: AllowList | None = None,
        output_schema: Any = None,
        until: str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> Program:
        """Build the program of the row of a run, as `from_journal`."""
        if allowed_tools is None:
            allowed_tools = self._default_of(row)
            self._require_loaded(row)
        program = restore_program(row, self._catalog.table, allowed_tools, output_schema)
        if limits is None:
            applied = clamp_limits(program.limits, self._limit_policy.ceiling)
            warnings = program.warnings
        else:
            applied, warnings = self._limit_policy.apply(limits, program.limits)
        stopped = describe_stop(row)
        if stopped is not None:
            warnings = (*warnings, stopped)
        return replace(
            program,
            limits=applied,
            warnings=warnings,
            until=until,
            resumed=row.status != "queued",
            non_finite=self._non_finite,
            store_source=self._store_source,
        )

    async def to_continue(
        self,
        program: Program,
        *,
        new_limits: bool,
        correction: Correction | None,
        accept_changed_tools: bool = False,
    ) -> Program:
        """Return the program that continues a recorded run; its revision is higher if it is new.

        Args:
            program: The recorded program, with the limits to continue it with.
            new_limits: True: these limits were requested.
            correction: The script that continues it. None: its own.
            accept_changed_tools: True: its tools may have changed.

        Raises:
            ChangedToolsError: If a tool that the run relies on changed.
            JournalError: If the run has ended in a way that this does not change.
        """
        row = await self._history.run(program.run_id)
        if not accept_changed_tools and program.until is None:
            await self._require_same_tools(row, program, correction)
        if correction is not None:
            return correction.apply(program)
        if new_limits and program.until is None:
            recorded = await self._history.recorded(program.run_id)
            if has_lifted_error(recorded, program.limits):
                return replace(program, revision=program.revision + 1)
        require_other_end(row, program.limits)
        return program

    async def _require_same_tools(
        self, row: RunRow, program: Program, correction: Correction | None
    ) -> None:
        """Raise `ChangedToolsError` if tools changed that the run called, or its script names.

        A corrected script was written for the tools as they are.
        """
        changed = find_changed_tools(row, program.table)
        if not changed:
            return
        recorded = await self._history.recorded(row.run_id)
        earlier = await load_earlier(await self._history.open(), row)
        called = {call.tool for record in (recorded, *earlier) for call in record.calls}
        relevant = {
            name: changes
            for name, (changes, is_named) in changed.items()
            if name in called or (is_named and correction is None)
        }
        if relevant:
            raise ChangedToolsError(row.run_id, relevant)

    def _default_of(self, row: RunRow) -> AllowList | None:
        """Return the session's allow-list if the run had rules, which are not recorded, and it."""
        default = self._catalog.default
        if default is None or not read_options(row)["rules"]:
            return None
        tools = self._catalog.table(None).tools
        return default if tools.keys() == recorded_tools(row).keys() else None

    def _require_loaded(self, row: RunRow) -> None:
        """Raise `UsageError` if the session lacks a tool of a run, which names no allow-list."""
        lacking = [name for name in recorded_tools(row) if name not in self._catalog.tools]
        if lacking:
            several = len(lacking) > 1
            names = ", ".join(f"`{name}`" for name in lacking[:_MAX_NAMES])
            msg = (
                f"run {row.run_id!r} has the tool{'s' if several else ''} {names}, which "
                f"{'are' if several else 'is'} not loaded: pass the tools of the run again, with "
                "tools= or toolsets= (`--tools` or `--toolset`)"
            )
            raise UsageError(msg)

    async def for_retry(self, run_id: str, allowed_tools: AllowList | None) -> Program:
        """Build a recorded program as a new run, with a warning about the earlier effects.

        Raises:
            JournalError: If there is no such run.
            UsageError: If a tool or a rule of the run is missing.
        """
        program = await self.from_journal(run_id, allowed_tools, None)
        warning = await self._history.warning_of(run_id)
        undone = (await self._history.run(run_id)).rolled_back_ms is not None
        return replace(
            program,
            run_id=uuid.uuid4().hex,
            # A service would take calls with the keys of undone ones for repetitions.
            key_run=None if undone else program.key_run or run_id,
            resumed=False,
            revision=1,
            clock=time.time(),
            seed=random.getrandbits(48),
            engine="",
            warnings=() if warning is None else (warning,),
        )


def typed_result(result: RunResult, output_schema: Any) -> RunResult:
    """Let `RunResult.unwrap` return an instance of `output_schema`, if that is a type."""
    read = value_reader(output_schema)
    return result if read is None else replace(result, _read=read)
