"""The same scripts in plain CPython and in a session, for comparison.

As a program it reads sources from standard input (JSON), runs the `run` of each in plain Python
and prints the outcomes.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

from ptc import Limits, Session

__all__ = ["in_python", "in_session", "parse_cases"]


def parse_cases(text: str) -> dict[str, str]:
    """Split a text at its lines ``# name``; the name of a case is the rest of that line."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if line.startswith("# "):
            name = line[2:].strip()
            found[name] = ""
        elif name:
            found[name] += line
    return found


def in_python(sources: dict[str, str]) -> dict[str, Any]:
    """Return the outcome of each source in plain Python: its value, or the type of its error."""
    done = subprocess.run(
        [sys.executable, "-X", "utf8", Path(__file__)],
        input=json.dumps(sources), text=True, capture_output=True, timeout=100, check=False,
        cwd=Path(__file__).parent.parent.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


async def in_session(session: Session, source: str) -> Any:
    """Return the outcome of `source` in `session`: ``["value", v]`` or ``["raises", type]``."""
    result = await session.program(source=source, limits=Limits(timeout_ms=20_000))
    if result.status == "completed":
        return ["value", result.value]
    assert result.error is not None
    return ["raises", result.error.type or result.error.message]


def _run_plain(source: str) -> Any:
    namespace: dict[str, Any] = {"__name__": "script"}
    try:
        exec(compile(source, "script.py", "exec", dont_inherit=True), namespace)  # noqa: S102  # the case
        value = namespace["run"](None, {})
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        return ["value", json.loads(json.dumps(value))]
    except BaseException as error:  # noqa: BLE001  # the outcome of the case
        return ["raises", type(error).__name__]
    finally:
        if sys.version_info < (3, 14):
            asyncio.set_event_loop_policy(None)  # a loop that the case left behind


def _main() -> None:
    warnings.simplefilter("ignore")
    sources = json.load(sys.stdin)
    outcomes = {name: _run_plain(source) for name, source in sources.items()}
    sys.stdout.write("\n" + json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    _main()
