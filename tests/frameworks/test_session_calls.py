"""Calls from threads of frameworks without an event loop; no framework is needed."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession, Session, tool
from ptc_bindings._export import Exports
from ptc_bindings._session_calls import SessionCalls

pytestmark = pytest.mark.slow

STARTED, CANCELLED = threading.Event(), threading.Event()
WAITING = {"source": "await ctx.wait()"}


@tool
async def wait() -> str:
    """Wait until the call is cancelled."""
    STARTED.set()
    try:
        await asyncio.sleep(60)
    except BaseException:
        CANCELLED.set()
        raise
    return ""


def call_in_thread(calls: SessionCalls) -> tuple[threading.Thread, list[Any]]:
    exports = Exports(calls.session)
    ended: list[Any] = []

    def call() -> None:
        try:
            ended.append(calls.wait(partial(exports.call, "program", WAITING)))
        except BaseException as error:  # noqa: BLE001  # whatever a framework would get
            ended.append(error)

    STARTED.clear()
    CANCELLED.clear()
    thread = threading.Thread(target=call)
    thread.start()
    return thread, ended


def test_closing_a_blocking_session_cancels_the_run_of_a_thread(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, tools=[wait], toolsets=(), workers=1) as session:
        thread, ended = call_in_thread(SessionCalls(session))
        assert STARTED.wait(30)
    assert CANCELLED.wait(30)
    thread.join(30)
    assert len(ended) == 1


def test_closing_a_session_cancels_the_run_of_a_thread(tmp_path: Path) -> None:
    async def main() -> tuple[threading.Thread, list[Any]]:
        async with Session(tmp_path, tools=[wait], toolsets=(), workers=1) as session:
            found = call_in_thread(SessionCalls(session))
            assert await asyncio.to_thread(STARTED.wait, 30)
        await asyncio.to_thread(found[0].join, 30)
        return found

    thread, ended = asyncio.run(main())
    assert (CANCELLED.is_set(), thread.is_alive(), len(ended)) == (True, False, 1)
