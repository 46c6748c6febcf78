"""Events of a recorded run with their times, for ``ptc show``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .._runs._history import History
    from ..journal._journal import CallEnd, CallRow, EventRow, RunRecord

__all__ = ["describe_usage", "event_data", "read_events", "timeline"]

_PAGE = 1_000
_TEXT_CHARS = 2_000


async def read_events(history: History, run_id: str) -> list[EventRow]:
    """Read all recorded events of a run."""
    found: list[EventRow] = []
    while True:
        page = await history.events(run_id, found[-1].number if found else 0, _PAGE)
        found += page
        if len(page) < _PAGE:
            return found


def event_data(run_id: str, row: EventRow) -> dict[str, Any]:
    """Return an event as JSON-able data. Raises `DamagedRunError`."""
    from .._core import _json
    from ..errors import DamagedRunError

    try:
        return {**row._asdict(), "body": _json.loads(row.body)}
    except ValueError as error:
        msg = f"run {run_id!r} is damaged: the body of event {row.number} is not JSON: {error}"
        raise DamagedRunError(msg) from error


def timeline(recorded: RunRecord, events: Sequence[EventRow]) -> list[str]:
    """List the events of a run and the starts and ends of its calls, by time."""
    run_id = recorded.run.run_id
    lines = [(row.at_ms, line) for row in events for line in _event_lines(run_id, row)]
    lines += [entry for row in recorded.calls for entry in _call_lines(row)]
    # Stable: events of one time stay in the order of their numbers.
    lines.sort(key=lambda entry: entry[0])
    return [f"{_time(at_ms)}  {text}" for at_ms, text in lines]


def _event_lines(run_id: str, row: EventRow) -> Iterable[str]:
    from .._core import _json

    body = event_data(run_id, row)["body"]
    if row.kind == "progress" and isinstance(body, dict):
        total = f" of {body['total']:g}" if body.get("total") is not None else ""
        left_out = f" ({body['left_out']} earlier not shown)" if body.get("left_out") else ""
        text = f"{body.get('done', 0):g}{total} {body.get('message', '')}".rstrip() + left_out
    elif row.kind == "left_out" and isinstance(body, dict):
        text = f"further events are not recorded: {body.get('reason', '')}"
    elif isinstance(body, str) and row.kind != "emitted":
        text = body.rstrip("\n")
    else:
        text = _json.dumps(body).decode()
    if len(text) > _TEXT_CHARS:
        text = f"{text[:_TEXT_CHARS]}… ({len(text):,} characters; --json shows all)"
    return [f"{row.kind:>8}  {line}" for line in text.split("\n")]


def _call_lines(row: CallRow) -> Iterable[tuple[int, str]]:
    yield row.at_ms, f"{'call':>8}  {row.path} {row.tool} started"
    if row.end is not None:
        attempts = f", {row.attempt} attempts" if row.attempt > 1 else ""
        usage = describe_usage(row.end)
        yield row.end.at_ms, f"{'call':>8}  {row.path} {row.tool} {row.end.status}{attempts}{usage}"


def describe_usage(end: CallEnd) -> str:
    """Describe the tokens that a call spent, after a comma; ``""`` if it used no model."""
    from .._facts import ModelUsage
    from ..errors import DamagedRunError

    if not end.usage:
        return ""
    from .._core import _json

    try:
        usage = ModelUsage(**_json.loads(end.usage))
    except (ValueError, TypeError) as error:
        msg = f"the usage of a call is damaged: {error}"
        raise DamagedRunError(msg) from error
    return (
        f", {usage.requests} model requests with {usage.input_tokens:,} input and "
        f"{usage.output_tokens:,} output tokens"
    )


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(" ", "milliseconds")
