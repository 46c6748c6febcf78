"""Floods from a worker and their cost: ``python tests/core/runs/floods.py [NAME ...]``.

The host is this process, the worker another one that sends bytes as fast as they are taken. For
each flood: how the run ended, the longest stall of the event loop in milliseconds and the most that
its thread computed without a pause (which other programs on the machine do not change), and the
most that the process's memory grew by, in bytes; one JSON object a line. Each has a new process.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

SOURCE = "def run(ctx, inputs):\n    return 1\n"
LONG_SOURCE = "x = 1\n" * 20_000
KINDS = {
    "COMPILED": 17, "REJECTED": 18, "CALL": 19, "CANCEL": 20, "PRINT": 21, "EMIT": 22, "TIMER": 23,
    "POLLED": 25, "DONE": 26, "FAILED": 27, "PART": 31, "PIECE": 33, "ATTACH": 34, "PROGRESS": 35,
}  # fmt: skip
BATCH = b"[" + b"[]," * 42_000 + b"[]]"
"""As many lists as one part can have."""
PIECE = b'"' + b"x" * 130_000 + b'"'


def frame(kind: str, body: bytes) -> bytes:
    return struct.pack(">IB", len(body) + 1, KINDS[kind]) + body


def in_parts(target: str, *parts: bytes) -> Iterator[bytes]:
    """A value in parts, and the frame that it belongs to."""
    yield frame("PART", b"<%c" % KINDS[target])
    yield from (frame("PART", part) for part in parts)
    yield frame(target, b'[1,"add",null,1]' if target == "CALL" else b"=")


def endless(*opener: bytes, part: bytes) -> Iterator[bytes]:
    """A value in parts that never ends."""
    parts = [b"<%c" % KINDS["DONE"], *opener]
    return chain((frame("PART", each) for each in parts), repeat(frame("PART", part) * 2_000))


def calls(arguments: bytes, times: int) -> Iterator[bytes]:
    """Calls whose arguments are in parts."""
    for n in range(1, 101):
        yield frame("PART", b"<%c" % KINDS["CALL"])
        yield from (frame("PART", part) for part in (b"{", b'""value"', b"[", *[arguments] * times))
        yield frame("PART", b"]") + frame("PART", b"}")
        yield frame("CALL", b'[%d,"hold",null,1]' % n)


def failure() -> bytes:
    frames = b",".join([b'[9999,9999,3,4,"run"]'] * 24)
    return (
        b'{"type":"T","message":"m","code":"exception","tool":"","hint":"","frames":[%b]}' % frames
    )


def finding(line: int) -> bytes:
    return (
        b'{"code":"x","message":"y","line":%d,"column":1,"end_line":1,"end_column":1,"hint":"",'
        b'"advisory":false}' % line
    )


FLOODS: dict[str, Callable[[], Iterable[bytes]]] = {
    "15 MB of [] in one frame": lambda: [frame("DONE", b"[" + b"[]," * (5 << 20) + b"1]")],
    "15 MB of [] in parts": lambda: in_parts("DONE", b"[", *repeat(b"i" + BATCH, 121), b"]"),
    "2,000,000 numbers in parts": lambda: in_parts(
        "DONE", b"[", *repeat(b"i[" + b"0," * 49_999 + b"0]", 40), b"]"
    ),
    "64 MB of text in one frame": lambda: [frame("DONE", b'"' + b"x" * (64 << 20) + b'"')],
    "64 MB of text in parts": lambda: in_parts("DONE", *repeat(b"+" + PIECE, 512), b'"""'),
    "15 MB of wide text in parts": lambda: in_parts(
        "DONE", *repeat(b'+"' + "x😀".encode() * 26_000 + b'"', 115), b'"""'
    ),
    "objects of one key in parts": lambda: in_parts(
        "DONE", b"[", *repeat(b"i[" + b'{"a":{}},' * 14_000 + b"0]", 120), b"]"
    ),
    "what is no JSON in parts": lambda: in_parts(
        "DONE", b"[", *repeat(b"i[" + b"]" * 131_000, 99), b"]"
    ),
    "lists of lists in parts": lambda: in_parts("DONE", *[b"["] * 200, *[b"]"] * 200),
    "values emitted": lambda: repeat(frame("EMIT", b"[" + b"[]," * 30_000 + b"1]")),
    "values emitted in parts": lambda: (
        f for _ in count() for f in in_parts("EMIT", b"[", b"i" + BATCH, b"]")
    ),
    "calls with 1 MB of []": lambda: calls(b"i" + BATCH, 8),
    "calls with 200,000 lists": lambda: calls(b"i" + BATCH, 5),
    "calls with 1 MB of text": lambda: calls(b"i[" + PIECE + b"]", 7),
    "calls": lambda: (frame("CALL", b'[%d,"add",{},1]' % n) for n in count(1)),
    "calls of no tool": lambda: (frame("CALL", b'[%d,"x",{},1]' % n) for n in count(1)),
    "calls that wait": lambda: (frame("CALL", b'[%d,"hold",{"value":[]},1]' % n) for n in count(1)),
    "calls with 100 KB of text": lambda: (
        frame("CALL", b'[%d,"x",{"value":%b},1]' % (n, PIECE[:100_000] + b'"')) for n in count(1)
    ),
    "prints of one character": lambda: repeat(frame("PRINT", b'["x",0]') * 2_000),
    "timers": lambda: repeat(frame("TIMER", b"[0]") * 2_000),
    "readings of the clock": lambda: repeat(frame("POLLED", b"[1,64]") * 2_000),
    "empty parts": lambda: repeat(frame("PART", b"<%c" % KINDS["DONE"]) * 2_000),
    "empty pieces of a text": lambda: endless(part=b'+""'),
    "pieces of one character": lambda: endless(part=b'+"x"'),
    "empty texts": lambda: endless(b"[", part=b'"""'),
    "attachments": lambda: repeat(frame("PIECE", b"x" * 65_536)),
    "attachments in pieces of two bytes": lambda: repeat(frame("PIECE", b"xy") * 2_000),
    "empty attachments": lambda: repeat(frame("ATTACH", b'["a","a/b"]')),
    "reports of progress": lambda: repeat(frame("PROGRESS", b'[1,2,"x"]') * 2_000),
    "a failure of many lines": lambda: [frame("FAILED", failure())],
    "100 findings": lambda: [
        frame("REJECTED", b"[%b]" % b",".join(finding(n) for n in range(100)))
    ],
}
_BEFORE_THE_SCRIPT = {"100 findings"}
_ENDLESS = {
    "calls with 1 MB of []",
    "calls with 200,000 lists",
    "calls with 1 MB of text",
    "prints of one character",
    "timers",
    "readings of the clock",
    "empty parts",
    "empty pieces of a text",
    "pieces of one character",
    "empty texts",
    "attachments in pieces of two bytes",
    "reports of progress",
}
"""Only the time-out ends them, or a limit where the machine is fast."""


def send(name: str, fd: int) -> None:
    """The worker's side."""
    with socket.socket(fileno=fd) as wire:
        wire.recv(1 << 20)
        try:
            if name not in _BEFORE_THE_SCRIPT:
                wire.sendall(frame("COMPILED", b"code"))
            for data in FLOODS[name]():
                wire.sendall(data)
            while wire.recv(1 << 16):
                pass
        except OSError:
            pass  # the host has hung up


def memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) << 10
    raise KeyError(field)


async def measure(name: str) -> dict[str, Any]:
    """The host's side."""
    from ptc import Limits, Session, tool
    from ptc._core._reactor import current_reactor
    from ptc._wire._protocol import State
    from ptc._workers._process import ProcessWorker

    @tool
    async def add() -> int:
        """Add nothing."""
        return 1

    @tool
    async def hold(value: list[Any]) -> int:
        """Wait for a moment."""
        await asyncio.sleep(0.2)
        return len(value)

    near, far = socket.socketpair()
    near.setblocking(False)
    with tempfile.TemporaryDirectory() as root:
        async with Session(root, tools=[add, hold], toolsets=(), workers=1) as session:
            await session.warm_up()
            await session.program(source="x = [[0]] * 50_000\nx")
            worker = ProcessWorker(0, near, current_reactor(), 0)
            worker.state = State.IDLE

            async def acquire(_memory: int) -> ProcessWorker:
                return worker

            session._pool.acquire = acquire  # type: ignore[method-assign,assignment]  # ours
            command = [sys.executable, __file__, "--send", name, str(far.fileno())]
            with subprocess.Popen(command, pass_fds=[far.fileno()]) as other:  # noqa: ASYNC220  # not timed
                far.close()
                longest, busiest, stop = 0.0, 0.0, False

                async def watch() -> None:
                    nonlocal longest, busiest
                    while not stop:
                        started, used = time.perf_counter(), time.thread_time()
                        await asyncio.sleep(0.001)
                        longest = max(longest, time.perf_counter() - started - 0.001)
                        busiest = max(busiest, time.thread_time() - used)

                gc.collect()
                Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
                before = memory("VmRSS")
                watching = asyncio.create_task(watch())
                source = (
                    LONG_SOURCE if name in ("100 findings", "a failure of many lines") else SOURCE
                )
                limits = Limits(timeout_ms=1_000 if name in _ENDLESS else 60_000)
                result = await session.program(source=source, limits=limits)
                stop = True
                await watching
                grown = memory("VmHWM") - before
                other.kill()
    return {
        "flood": name,
        "status": result.status,
        "code": result.error.code if result.error else "",
        "stall_ms": round(longest * 1000, 1),
        "busy_ms": round(busiest * 1000, 1),
        "grown_bytes": grown,
        "message": result.error.message[:100] if result.error else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--send", nargs=2, metavar=("NAME", "FD"), help=argparse.SUPPRESS)
    parser.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("name", nargs="*", help=f"floods; default: all of {list(FLOODS)}")
    chosen = parser.parse_args()
    if chosen.send:
        send(chosen.send[0], int(chosen.send[1]))
    elif chosen.one:
        logging.disable(logging.CRITICAL)
        print(json.dumps(asyncio.run(measure(chosen.one))), flush=True)  # noqa: T201  # a command
    else:
        for name in chosen.name or FLOODS:
            subprocess.run([sys.executable, __file__, "--one", name], check=True)


if __name__ == "__main__":
    main()
