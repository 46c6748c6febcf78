"""Programs of a session: made from what a caller asks for, or from what is recorded of a run."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._arguments import parts_of, path_of
from .._records._limits import Limits
from .._records._result import RunResult
from .._schema._check import value_check
from .._tools._allow import Allow, AllowList
from .._tools._catalog import Catalog
from ..errors import UsageError
from ._ceiling import Allowance
from ._history import History, checked_run_id, program_of, recorded_result
from ._program import Program, checked_filename, inputs_json, read_script

__all__ = ["Programs"]


class Programs:
    """Makes programs with the tools and the limits that a session has."""

    def __init__(
        self, root: Path, catalog: Catalog, allowance: Allowance, history: History
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._allowance = allowance
        self._history = history

    def asked(
        self,
        *,
        source: str | None = None,
        path: str | Path | None = None,
        allowed_tools: AllowList | None = None,
        filename: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        output_schema: Any = None,
        run_id: str | None = None,
    ) -> Program:
        """The program of `Session.program`.

        Raises:
            UsageError: If an argument is wrong.
        """
        if (source is None) == (path is None):
            msg = "give either source= or path="
            raise UsageError(msg)
        if path is not None:
            source, filename = read_script(self._root, path_of("path", path), filename)
        if not isinstance(source, str):
            msg = f"source is a string, not {type(source).__name__}"
            raise UsageError(msg)
        # Editors on Windows write a byte order mark; a compiler given text does not know it.
        source = source.removeprefix("\ufeff")
        allowed = allowed_tools
        if allowed is not None:
            # It is read twice, and may be a generator.
            allowed = parts_of("allowed_tools", allowed, "a list of names of tools")
        tools = self._catalog.select(allowed)
        granted, warnings = self._allowance.granted(limits)
        return Program(
            run_id=uuid.uuid4().hex if run_id is None else checked_run_id(run_id),
            seed=random.getrandbits(48),
            schema=output_schema,
            ruled=any(isinstance(entry, Allow) for entry in allowed or ()),
            source=source,
            filename=checked_filename(filename),
            inputs_json=inputs_json(inputs, granted),
            tools=tools,
            limits=granted,
            check_value=value_check(output_schema) if output_schema is not None else None,
            warnings=warnings,
        )

    def known(self, program: Program) -> RunResult | None:
        """What became of the run of that name; None if there is none, or it was cut off.

        Raises:
            UsageError: If it is a run of something else, or was rolled back.
        """
        # A run of this name may have ended a moment ago.
        self._history.journal.flush()
        row = self._history.journal.find(program.run_id)
        if row is None:
            return None
        if (row.source, row.inputs) != (program.source, program.inputs_json):
            msg = f"run_id {program.run_id!r} is the name of a run with another script or inputs"
            raise UsageError(msg)
        if row.rolled_back_ms is not None:
            msg = f"run {program.run_id!r} was rolled back; give the new one a run_id of its own"
            raise UsageError(msg)
        return recorded_result(row)

    def recorded(
        self, run_id: str, allowed_tools: AllowList | None, output_schema: Any, until: str | None
    ) -> Program:
        """The program of a recorded run, for `Session.resume`.

        Raises:
            JournalError: If there is no such run.
            UsageError: If a tool or a rule of the run is not there.
        """
        row = self._history.run(run_id)
        program = program_of(row, self._catalog.select, allowed_tools, output_schema)
        limits = program.limits.clamp(self._allowance.ceiling)
        return replace(program, limits=limits, until=until)

    def fresh(self, run_id: str, allowed_tools: AllowList | None) -> Program:
        """The same as a new run, for `Session.retry`, warned of what the earlier one did.

        Raises:
            JournalError: If there is no such run.
            UsageError: If a tool or a rule of the run is not there.
        """
        program = self.recorded(run_id, allowed_tools, None, None)
        warning = self._history.warning_of(run_id)
        return replace(
            program,
            run_id=uuid.uuid4().hex,
            clock=time.time(),
            seed=random.getrandbits(48),
            warnings=(*program.warnings, *([warning] if warning else [])),
        )
