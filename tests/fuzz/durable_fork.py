"""A host that is forked for each death, for tests with a `drive` of their own."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from tests.fuzz.durable_oracle import differences
from tests.fuzz.durable_server import Server
from tests.fuzz.durable_steps import Steps, watch

__all__ = ["Drive", "one", "outcome_of", "spawn", "warm_up"]

Drive = Callable[[Path], Awaitable[dict[str, Any]]]
"""Starts or resumes the run of a folder, and returns its result."""
_SECONDS = 60
"""Time limit for one process; exceeding it is a finding."""


def spawn(drive: Drive, folder: Path, at: int | None) -> str:
    """Fork a process and wait for it: ``ended``, ``killed``, or the problem."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os._exit(_child(drive, folder, at))
    end = time.monotonic() + _SECONDS
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return f"still at work after {_SECONDS} s"
        time.sleep(0.002)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return "killed"
    if os.WEXITSTATUS(status) == 0:
        return "ended"
    wrong = folder / "wrong"
    return wrong.read_text() if wrong.exists() else f"status {status}"


def _child(drive: Drive, folder: Path, at: int | None) -> int:
    try:
        watch()
        Steps.reset({} if at is None else {at: partial(os.kill, os.getpid(), signal.SIGKILL)})
        outcome = anyio.run(drive, folder)
        outcome["steps"] = Steps.count
        outcome["modules"] = sorted(sys.modules)
        (folder / "outcome.part").write_text(json.dumps(outcome))
        (folder / "outcome.part").rename(folder / "outcome")
    except BaseException:  # noqa: BLE001  # this is what is looked for
        (folder / "wrong").write_text(traceback.format_exc())
        return 1
    return 0


def outcome_of(folder: Path) -> dict[str, Any]:
    """Return the output of a process that finished."""
    found: dict[str, Any] = json.loads((folder / "outcome").read_text())
    return found


def warm_up(folder: Path) -> None:
    """Import what a process that finished has imported, so that later ones start with it."""
    for name in outcome_of(folder)["modules"]:
        with suppress(ImportError):
            importlib.import_module(name)


def one(drive: Drive, steps: list[int], straight: Path, folder: Path) -> tuple[int, list[str]]:
    """Kill at these steps in order, then let the run finish; return kills and problems."""
    folder.mkdir(parents=True)
    deaths = 0
    for at in [*steps, None]:
        how = spawn(drive, folder, at)
        if how == "ended":
            effects = [Server(place / "server").effects() for place in (folder, straight)]
            found = differences(outcome_of(folder), outcome_of(straight), *effects)
            return deaths, list(found)
        if how != "killed":
            return deaths, [how]
        deaths += 1
    return deaths, ["the process that was let be was killed"]
