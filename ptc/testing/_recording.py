"""Recorded runs as test fixtures: a recording is one JSON file that replays without any tool.

::

    recording = Recording.load("tests/data/report.json")
    result = await recording.replay()                       # the same result again
    result = await recording.replay(source=changed_script)  # the result of another script

A script that does not make the same calls in the same order fails with code ``divergence``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .._core import _json
from .._dataclass import dataclass
from .._records._result import RunResult
from .._runs._history import History
from .._runs._program_row import read_options, recorded_tools, require_source
from .._session._session import Session
from .._tools._tool import Tool, define_tool
from ..errors import ToolError, UsageError
from ..journal._journal import (
    CallEnd,
    CallRow,
    DecisionRow,
    Journal,
    PendingRow,
    RevertRow,
    RunRecord,
    RunRow,
    Tick,
)
from ..journal._journal import Delivery as _Delivery

__all__ = ["Recording"]

FORMAT = 1
"""Version of the file format; `Recording.load` rejects any other."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run: its script, inputs and the results of its tool calls."""

    recorded: RunRecord

    @classmethod
    async def of(cls, history: History, run_id: str) -> Recording:
        """Export a run from `Session.history`.

        Raises:
            JournalError: If there is no such run.
        """
        return cls(await history.recorded(run_id))

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a file that `save` or ``ptc export`` wrote.

        Raises:
            UsageError: If the file is not a recording.
        """
        try:
            data = _json.loads(Path(path).read_bytes())
            if data["format"] != FORMAT:
                msg = (
                    f"{str(path)!r} has format {data['format']}, and this version reads format "
                    f"{FORMAT}; record the run again"
                )
                raise UsageError(msg)
            return cls(_from_json_data(data))
        except (OSError, ValueError, KeyError, TypeError) as error:
            msg = f"{str(path)!r} is not a recording of a run: {type(error).__name__}: {error}"
            raise UsageError(msg) from None

    def to_json(self) -> bytes:
        """Serialize the recording as one JSON object."""
        return _json.dumps(_to_json_data(self.recorded), what="recording")

    def save(self, path: str | Path) -> None:
        """Write the recording to a file."""
        Path(path).write_bytes(self.to_json() + b"\n")

    async def replay(self, *, source: str | None = None, until: str | None = None) -> RunResult:
        """Replay the script with the recorded results. No tool is called, nothing is written.

        Args:
            source: Script to run instead of the recorded one.
            until: Stop when the script receives the result of this call, as ``"3"``; the result is
                then ``paused``, with its local variables in `RunResult.frames`.

        Returns:
            The result of the run. A call without a recorded result raises `ToolError` with code
            ``not_recorded`` in the script.

        Raises:
            UsageError: If there is no such call.
        """
        run = self.recorded.run
        if source is None:
            require_source(run)
        options = read_options(run)
        paths = {delivery.path for delivery in self.recorded.deliveries}
        if until is not None and until not in paths:
            msg = f"run {run.run_id!r} received no result of a call {until!r}"
            raise UsageError(msg)
        names = recorded_tools(run)
        tools = [_make_recorded_tool(name, parameters) for name, parameters in names.items()]
        with TemporaryDirectory() as root:
            async with Session(root, tools=tools, toolsets=(), journal=":memory:") as session:
                await copy(self.recorded, await session.history.open(), source=source)
                return await session.resume(
                    _current_id(run.run_id),
                    allowed_tools=list(names),
                    output_schema=options["schema"] or {},
                    until=until,
                    accept_changed_tools=True,
                )


async def copy(recorded: RunRecord, journal: Journal, *, source: str | None = None) -> None:
    """Write a recorded run into another journal, as an interrupted run."""
    run = recorded.run
    run_id = _current_id(run.run_id)
    fresh = RunRow(
        run_id=run_id,
        source=run.source if source is None else source,
        filename=run.filename,
        inputs=run.inputs,
        options=run.options,
        seed=run.seed,
        clock=run.clock,
        created_ms=run.created_ms,
        engine=run.engine,
    )
    lease = journal.start_run(fresh)
    rows = {row.path: row for row in recorded.calls}
    for delivery in recorded.deliveries:
        row = rows.pop(delivery.path, None) if delivery.path is not None else None
        journal.append(lease, Tick(delivery.elapsed) if row is None else row)
    for row in rows.values():
        journal.append(lease, row)
    for pending in recorded.pending:
        journal.append(lease, pending)
    await journal.barrier(lease)
    journal.release(lease)
    for decision in recorded.decisions:
        await journal.decide(run_id, decision)


def _current_id(run_id: str) -> str:
    """Return the id of the run of an earlier revision, which its keys were derived from."""
    return run_id.partition(".")[0]


def _make_recorded_tool(name: str, parameters: list[str]) -> Tool:
    def answer(arguments: dict[str, Any]) -> Any:
        msg = f"{name}: this call is not in the recording; record a run that makes it"
        raise ToolError(msg, code="not_recorded", tool=name, details={"arguments": arguments})

    schema = {"type": "object", "properties": {parameter: {} for parameter in parameters}}
    return define_tool(name, "A recorded tool.", schema, answer)


def _to_json_data(recorded: RunRecord) -> dict[str, Any]:
    run = recorded.run
    return {
        "format": FORMAT,
        "run_id": run.run_id,
        "source": run.source,
        "filename": run.filename,
        "inputs": _json.loads(run.inputs),
        "options": _json.loads(run.options),
        "seed": run.seed,
        "clock": run.clock,
        "created_ms": run.created_ms,
        "engine": run.engine,
        "status": run.status,
        "result": None if run.result is None else _json.loads(run.result),
        "calls": [
            {
                **row._asdict(),
                "arguments": _json.loads(row.arguments),
                "partial": _json.loads(row.partial) if row.partial else None,
                "end": None
                if row.end is None
                else {
                    "path": row.path,
                    **row.end._asdict(),
                    "body": _json.loads(row.end.body),
                    "usage": _json.loads(row.end.usage) if row.end.usage else None,
                },
            }
            for row in recorded.calls
        ],
        "deliveries": [[d.path, d.elapsed] for d in recorded.deliveries],
        "pending": [
            {**asdict(row), "details": _json.loads(row.details)} for row in recorded.pending
        ],
        "verdicts": [
            {**asdict(row), "value": _json.loads(row.value)} for row in recorded.decisions
        ],
        "rolled_back_ms": run.rolled_back_ms,
        "reverts": [asdict(row) for row in recorded.reverts],
    }


def _from_json_data(data: Mapping[str, Any]) -> RunRecord:
    calls = []
    for row in data["calls"]:
        # Files of earlier versions lack some of these fields.
        fields = {key: row[key] for key in CallRow._fields if key in row}
        fields["arguments"] = _json.dumps(row["arguments"], sort_keys=True)
        partial = fields.get("partial")
        fields["partial"] = b"" if partial is None else _json.dumps(partial)
        end = row["end"]
        if end is not None:
            parts = {key: end[key] for key in CallEnd._fields if key != "usage"}
            parts["body"] = _json.dumps(end["body"])
            usage = end.get("usage")
            fields["end"] = CallEnd(**parts, usage=_json.dumps(usage) if usage else b"")
        calls.append(CallRow(**fields))
    run = RunRow(
        run_id=data["run_id"],
        source=data["source"],
        filename=data["filename"],
        inputs=_json.dumps(data["inputs"]),
        options=_json.dumps(data["options"]),
        seed=data["seed"],
        clock=data["clock"],
        created_ms=data["created_ms"],
        status=data["status"],
        result=None if data["result"] is None else _json.dumps(data["result"]),
        rolled_back_ms=data.get("rolled_back_ms"),
        engine=data.get("engine", ""),
    )
    deliveries = tuple(_Delivery(path, elapsed) for path, elapsed in data["deliveries"])
    # Files of earlier versions lack these keys.
    pending = [
        PendingRow(**{**row, "details": _json.dumps(row["details"])})
        for row in data.get("pending", ())
    ]
    decisions = [
        DecisionRow(**{**row, "value": _json.dumps(row["value"])})
        for row in data.get("verdicts", ())
    ]
    reverts = tuple(RevertRow(**row) for row in data.get("reverts", ()))
    return RunRecord(run, tuple(calls), deliveries, tuple(pending), tuple(decisions), reverts)
