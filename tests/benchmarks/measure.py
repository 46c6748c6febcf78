"""Reduce samples to numbers, read numbers from the kernel, and print one table. Knows no engine."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

__all__ = [
    "Row",
    "best",
    "descendants",
    "machine",
    "median",
    "percentile",
    "plain_seconds",
    "private_megabytes",
    "process_seconds",
    "table",
]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: the same figure for each engine."""

    name: str
    unit: str
    ptc: float | None
    plain: float | None = None
    """The figure of plain CPython."""
    rival: float | None = None
    """The figure of Monty, from the same rounds."""
    more_is_better: bool = False

    def as_data(self) -> dict[str, Any]:
        """Return the line as data for a program."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ptc": self.ptc,
            "cpython": self.plain,
            "ptc_to_cpython": _ratio(self.ptc, self.plain),
            "monty": self.rival,
            "ptc_to_monty": _ratio(self.ptc, self.rival),
            "more_is_better": self.more_is_better,
        }


# --- from samples to a figure ----------------------------------------------------------------


def median(samples: Sequence[float] | None) -> float | None:
    """Return the median; None without samples."""
    return statistics.median(samples) if samples else None


def best(samples: Sequence[float] | None) -> float | None:
    """Return the minimum; None without samples. For work of fixed size: any excess is noise."""
    return min(samples) if samples else None


def percentile(samples: Sequence[float] | None, percent: int) -> float | None:
    """Return the sample that `percent` of all do not exceed; None without samples."""
    if not samples:
        return None
    ranked = sorted(samples)
    return ranked[max(0, -(-len(ranked) * percent // 100) - 1)]


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or not theirs else ours / theirs


# --- other processes -------------------------------------------------------------------------

_PLAIN = """
import json, re, sys, time
source = sys.stdin.read()
started = time.perf_counter()
names = {"__name__": "script"}
exec(compile(source, "script.py", "exec"), names)
value = names["run"](None, {})
seconds = time.perf_counter() - started
print(json.dumps([seconds, value]))
"""
"""Modules that scripts use are imported before the clock starts, as in a worker."""


def plain_seconds(source: str) -> tuple[float, Any]:
    """Return the seconds in which a new plain CPython compiles and runs a script, without start-up.

    Each sample uses a new process, like a run of ptc: neither gains from a warm heap.
    """
    done = _python("-c", _PLAIN, stdin=source.encode())
    seconds, value = orjson.loads(done)
    return float(seconds), value


def process_seconds(code: str) -> float:
    """Return the wall seconds of ``python -c code``, from before its start to its end."""
    started = time.perf_counter()
    _python("-c", code)
    return time.perf_counter() - started


def _python(*arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(  # this interpreter and this code
        [sys.executable, *arguments],
        input=stdin,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
    )
    return done.stdout


def descendants(pid: int) -> dict[int, list[int]]:
    """Return the processes below `pid`, each with its children."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found: dict[int, list[int]] = {}
    queue = list(children.get(pid, []))
    while queue:
        each = queue.pop()
        found[each] = children.get(each, [])
        queue += found[each]
    return found


def _parent(entry: Path) -> int | None:
    try:
        # The name, in parentheses, may contain any character.
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has exited
        return None


def private_megabytes(pid: int) -> float | None:
    """Return the private memory: Private_Clean + Private_Dirty of smaps_rollup, proc(5).

    Return None if it is unreadable: a sandboxed worker is not dumpable, so only root can read it.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    kilobytes = [
        int(line.split()[1])
        for line in lines
        if line.startswith(("Private_Clean:", "Private_Dirty:"))
    ]
    return sum(kilobytes) / 1024 if kilobytes else None


# --- the table -------------------------------------------------------------------------------

_HEAD = ("measure", "unit", "ptc", "CPython", "ratio", "monty", "ratio")


def table(rows: Sequence[Row], *, rival: bool) -> str:
    """Format all lines with their ratios; `rival`: with Monty's column."""
    columns = len(_HEAD) if rival else len(_HEAD) - 2
    lines = [_HEAD[:columns], *(_cells(row)[:columns] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(columns)]
    shown = [
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    rule = "-" * max(map(len, shown))
    return "\n".join([shown[0], rule, *shown[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        row.unit + (", more is better" if row.more_is_better else ""),
        _number(row.ptc),
        *_beside(row.ptc, row.plain),
        *_beside(row.ptc, row.rival),
    )


def _beside(ours: float | None, theirs: float | None) -> tuple[str, str]:
    if theirs is None:
        return "-", ""
    ratio = _ratio(ours, theirs)
    return _number(theirs), "" if ratio is None else f"{ratio:.2f}x"


def _number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def machine() -> Mapping[str, Any]:
    """Return the conditions on which the numbers depend."""
    return {
        "python": sys.version.split()[0],
        "cores": len(os.sched_getaffinity(0)),
        "load_1_min": round(os.getloadavg()[0], 2),
    }
