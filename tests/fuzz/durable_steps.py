"""Steps of a journal in a process under test, and the actions planned at some of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from ptc.journal._journal import CallRow
from ptc.journal._writes import Write

__all__ = ["Steps", "watch"]

_SYNCHRONOUS = ("start_run", "append", "end_run", "release")
_ASYNCHRONOUS = ("acquire", "revise", "barrier", "decide")


class Steps:
    """Counter of the steps of this process: before and after each operation and each effect."""

    count = 0
    plan: dict[int, Callable[[], None]] = {}  # noqa: RUF012  # one process has one plan
    """Actions by the step at which they are called."""
    passed: dict[str, list[Any]] = {}  # noqa: RUF012
    """Tool and number of effects whose start is stored and whose end is not, by path."""

    @classmethod
    def reset(cls, plan: dict[int, Callable[[], None]] | None = None) -> None:
        """Count from 0 again, with another plan."""
        cls.count, cls.plan = 0, plan or {}
        cls.passed = {}

    @classmethod
    def step(cls) -> None:
        """Count one step."""
        cls.count += 1
        action = cls.plan.pop(cls.count, None)
        if action is not None:
            action()

    @classmethod
    def note(cls, batch: Sequence[Write]) -> None:
        """Note the starts and ends of effects that were stored."""
        for write in batch:
            if write.kind == "call":
                row = CallRow(*write.values[1:10])
                if row.side_effect and write.values[10] == "started":
                    cls.passed[row.path] = [row.tool, json.loads(row.arguments).get("n")]
                else:
                    cls.passed.pop(row.path, None)

    @classmethod
    def write_passed(cls, path: Path) -> None:
        """Write the effects that a frozen process may still have."""
        path.write_text(json.dumps(list(cls.passed.values())))


def watch(*, inside: bool = True) -> None:
    """Make the operations of both stores steps, in this process.

    Args:
        inside: False: without steps in the middle of a transaction of SQLite. A process that is
            stopped there holds the lock of the file.
    """
    from ptc.journal import _sqlite, _sqlite_batches

    stores: list[tuple[Any, Any]] = [(_sqlite.SqliteJournal, _sqlite_batches.SqliteBatches)]
    try:
        from ptc.journal._postgres import _batches, _journal
    except ImportError:  # no asyncpg
        pass
    else:
        stores.append((_journal.PostgresJournal, _batches.PostgresBatches))
    for journal, batches in stores:
        for name in _SYNCHRONOUS:
            _wrap(journal, name, _synchronous)
        for name in _ASYNCHRONOUS:
            _wrap(journal, name, _asynchronous)
        _wrap(batches, "commit", _synchronous)
    if inside:
        _wrap(_sqlite_batches.SqliteBatches, "execute_group", _synchronous)


def _wrap(owner: Any, name: str, wrapper: Callable[[str, Any], Any]) -> None:
    setattr(owner, name, wrapper(name, getattr(owner, name)))


def _synchronous(name: str, inner: Any) -> Any:
    @wraps(inner)
    def call(*args: Any, **options: Any) -> Any:
        Steps.step()
        found = inner(*args, **options)
        if name == "commit":
            Steps.note(args[1])
        Steps.step()
        return found

    return call


def _asynchronous(_: str, inner: Any) -> Any:
    @wraps(inner)
    async def call(self: Any, *args: Any, **options: Any) -> Any:
        Steps.step()
        found = await inner(self, *args, **options)
        Steps.step()
        return found

    return call
