"""Look up a run by its id or by the beginning of it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from ..errors import UnknownRunError, UsageError

if TYPE_CHECKING:
    from .._runs._history import History

__all__ = ["RUN_HELP", "find_run"]

RUN_HELP = "RUN is an ID from `ptc runs`, or its first characters."

_SHOWN = 10
_SEARCHED = 1_000


async def find_run(history: History, text: str) -> str:
    """Return the full id of the run that `text` names: its id, or an unambiguous prefix of it.

    The record of an earlier revision is named by its number: ``3f2a.1``.

    Raises:
        UsageError: If several ids start with `text`; the message lists them.
        UnknownRunError: If none does; the message suggests the nearest.
    """
    from .._runs._run_id import validate_run_id

    text, dot, revision = text.partition(".")
    if dot:
        archived = f"{await find_run(history, text)}.{revision}"
        return (await history.run(archived)).run_id
    found = await history.find_ids(validate_run_id(text), _SHOWN + 1)
    if text in found or len(found) == 1:
        return text if text in found else found[0]
    if found:
        rows = [f"  {name}  {await _describe(history, name)}" for name in found[:_SHOWN]]
        more = ["  ... and more; type more characters"] if len(found) > _SHOWN else []
        msg = f"{text!r} is the start of several run ids; type more of one:\n"
        raise UsageError(msg + "\n".join([*rows, *more]))
    nearest = await _nearest(history, text)
    raise UnknownRunError(f"there is no run {text!r}{nearest}; `ptc runs` lists them")


async def _describe(history: History, run_id: str) -> str:
    from datetime import datetime

    run = await history.run(run_id)
    started = datetime.fromtimestamp(run.created_ms / 1000).astimezone()
    return f"{started.isoformat(' ', 'seconds')}  {run.status}  {run.filename}"


async def _nearest(history: History, text: str) -> str:
    # Compared at the length of the abbreviation: most of a long id would be missing otherwise.
    names = {run.run_id[: len(text)]: run.run_id for run in reversed(await history.runs(_SEARCHED))}
    close = difflib.get_close_matches(text, names, n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(names[name] for name in close)}?)" if close else ""
