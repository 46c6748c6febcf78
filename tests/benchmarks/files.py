"""Measure grep, glob and read_files against ripgrep and plain Python; print a table.

    python tests/benchmarks/files.py
    python tests/benchmarks/files.py --rounds 9 --files 5000 --json numbers.json

Nothing is asserted: a person who knows how busy the machine was judges the numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from measure import machine

import ptc
import ptc_tools
from ptc_tools.search._ripgrep import _binary

_TEXT = "import os\n\ndef function_{n}(value):\n    return value + {n}\n" * 8
_READ = 1_000
"""Total number of files read."""
_NEEDLE_EACH = 100
"""One in this many files has the line that is searched for."""


@dataclass(slots=True)
class Samples:
    """Time of one implementation. The minimum counts: any excess is disturbance."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def take(self, work: Callable[[], Any]) -> Any:
        """Run it once."""
        before, started = _cpu(), time.perf_counter()
        value = work()
        self.wall.append(time.perf_counter() - started)
        self.cpu.append(_cpu() - before)
        return value


def _cpu() -> float:
    """Return the CPU seconds of this process and of its finished children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _tree(root: Path, files: int) -> None:
    for number in range(files):
        folder = root / f"p{number % 50}" / f"q{number // 50 % 20}"
        folder.mkdir(parents=True, exist_ok=True)
        needle = "needle\n" if number % _NEEDLE_EACH == 0 else ""
        (folder / f"f{number}.py").write_text(_TEXT.format(n=number) + needle)


def _ripgrep(root: Path, *arguments: str) -> list[str]:
    # Without --no-require-git ripgrep would ignore .gitignore files here, which our tools read.
    command = [_binary(), "--no-config", "--color=never", "--no-require-git", *arguments]
    done = subprocess.run(command, cwd=root, capture_output=True, stdin=subprocess.DEVNULL)
    return done.stdout.decode().splitlines()


def _plain(root: Path, paths: list[str]) -> list[str]:
    texts = []
    for path in paths:
        with open(root / path, encoding="utf-8", newline="") as file:
            texts.append(file.read())
    return texts


async def _awaited(tool: ptc.Tool, *arguments: Any, **named: Any) -> Any:
    return await tool.function(*arguments, **named)


def measure(root: Path, files: int, rounds: int) -> list[dict[str, Any]]:
    """Measure all cases, alternating between the tool and its rival within each round."""
    context = ptc.ToolContext(root=root, tool_name="x", call_id="x", run_id=None, seq=1)

    def grep(pattern: str) -> list[ptc_tools.Match]:
        found: list[ptc_tools.Match] = asyncio.run(_awaited(ptc_tools.grep, context, pattern))
        return found

    def glob() -> list[str]:
        found: list[str] = asyncio.run(_awaited(ptc_tools.glob, context, "**", limit=files))
        return found

    def grep_other(pattern: str) -> list[str]:
        return _ripgrep(root, "--line-number", "--no-heading", "--with-filename", pattern, ".")

    paths = glob()[:_READ]
    cases: list[tuple[str, Callable[[], Any], str, Callable[[], Any]]] = [
        (
            "grep, a line in each 100th file",
            lambda: grep("needle"),
            "rg",
            lambda: grep_other("needle"),
        ),
        ("grep, no match", lambda: grep("absent"), "rg", lambda: grep_other("absent")),
        ("glob of all files", glob, "rg", lambda: _ripgrep(root, "--files", "--sort=path")),
        (
            f"read_files, {len(paths):,} files",
            lambda: ptc_tools.read_files.function(context, paths),
            "open",
            lambda: _plain(root, paths),
        ),
    ]
    rows = []
    for name, ours, other, theirs in cases:
        mine, plain = Samples(), Samples()
        for _ in range(rounds):
            found, wanted = mine.take(ours), plain.take(theirs)
            if len(found) != len(wanted):
                msg = f"{name}: ours has {len(found)}, {other} has {len(wanted)}"
                raise AssertionError(msg)
        rows.append(
            {
                "name": name,
                "beside": other,
                "wall_ms": min(mine.wall) * 1000,
                "other_wall_ms": min(plain.wall) * 1000,
                "wall_ratio": min(mine.wall) / min(plain.wall),
                "cpu_ms": min(mine.cpu) * 1000,
                "other_cpu_ms": min(plain.cpu) * 1000,
                "cpu_ratio": min(mine.cpu) / min(plain.cpu),
            }
        )
    return rows


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        prog="python tests/benchmarks/files.py", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="default: 7")
    parser.add_argument("--files", type=int, default=50_000, metavar="N", help="default: 50,000")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers there")
    chosen = parser.parse_args()
    if chosen.rounds < 1 or chosen.files < 1:
        parser.error("--rounds and --files must be at least 1")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        _tree(root, chosen.files)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows = measure(root, chosen.files, chosen.rounds)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    about = machine()
    print(
        f"Python {about['python']}, {about['cores']} cores, {chosen.files:,} files, "
        f"{chosen.rounds} rounds, load {about['load_1_min']}; minimum of each, in ms\n"
    )
    print(f"{'':34}{'beside':>8}{'wall':>9}{'':>9}{'ratio':>8}{'CPU':>9}{'':>9}{'ratio':>8}")
    for row in rows:
        print(
            f"{row['name']:34}{row['beside']:>8}"
            f"{row['wall_ms']:>9.1f}{row['other_wall_ms']:>9.1f}{row['wall_ratio']:>7.2f}x"
            f"{row['cpu_ms']:>9.1f}{row['other_cpu_ms']:>9.1f}{row['cpu_ratio']:>7.2f}x"
        )
    print(f"\nthe host's peak memory grew by {grown:.1f} MB")
    if chosen.json is not None:
        data = {"machine": about, "rows": rows, "grown_mb": grown}
        chosen.json.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
