"""One worker seen from the host."""

from __future__ import annotations

import signal
import socket

import anyio
import anyio.lowlevel
import pytest

from ptc._core._reactor import current_reactor
from ptc._wire._protocol import Kind, ProtocolError, State, encode
from ptc._workers._pool import Pool
from ptc._workers._process import ProcessWorker

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops, pytest.mark.usefixtures("nothing_left")]


async def test_a_worker_is_killed_by_descriptor() -> None:
    pool = Pool(isolation="jail", size=1, memory_bytes=64 << 20, cpu_ms=5_000)
    try:
        with anyio.fail_after(20):
            worker = await pool.acquire(64 << 20)
            ended = anyio.Event()
            worker.on_end = ended.set
            worker.kill()
            await ended.wait()
        assert worker.exit is not None
        assert worker.exit.signal == signal.SIGKILL
        worker.kill()  # nothing to kill, and no other process is hit
    finally:
        await pool.close()


async def test_large_frame_is_sent_as_fast_as_the_worker_reads() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    worker = ProcessWorker(1, near, current_reactor(), 0)
    worker.state = State.RUNNING
    body = b'["%b"]' % (b"x" * 5_000_000)
    received = b""
    with far, anyio.fail_after(20):
        worker.send((Kind.RESULT, body))
        far.setblocking(False)
        while len(received) < len(body) + 5:
            await anyio.wait_readable(far)
            received += far.recv(1 << 20)
        assert received[5:] == body
        worker.hang_up()


async def test_frames_of_a_slow_reading_worker_are_received() -> None:
    # Regression: under trio, the end of waiting to write also ended the reading.
    near, far = socket.socketpair()
    near.setblocking(False)
    worker = ProcessWorker(1, near, current_reactor(), 0)
    worker.state = State.RUNNING
    heard = anyio.Event()
    worker.on_frame = lambda _kind, _message, _size: heard.set()
    with far, anyio.fail_after(20):
        body = b'["%b"]' % (b"x" * 2_000_000)
        worker.send((Kind.RESULT, body))
        far.setblocking(False)
        left = len(body) + 5
        while left:
            await anyio.wait_readable(far)
            left -= len(far.recv(1 << 20))
        while worker._stop_writing is not None:
            await anyio.lowlevel.checkpoint()
        far.sendall(encode(Kind.PRINT, b'["x",0]'))
        await heard.wait()
        worker.hang_up()


async def test_frames_of_an_iteration_of_the_event_loop_are_sent_together_and_in_order() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    worker = ProcessWorker(1, near, current_reactor(), 0)
    worker.state = State.RUNNING
    with far, anyio.fail_after(20):
        far.setblocking(False)
        frames = [(Kind.RESULT, b"[%d]" % number) for number in range(10)]
        for frame in frames:
            worker.send(frame, more=True)
        with pytest.raises(BlockingIOError):
            far.recv(1 << 16)
        assert worker.backlog_bytes == 0  # they do not wait for the worker
        await anyio.wait_readable(far)
        expected = b"".join(encode(*frame) for frame in frames)
        assert far.recv(1 << 16) == expected
        # A frame that nothing follows is sent at once, behind those that were collected.
        worker.send(frames[0], more=True)
        worker.send((Kind.TICK, b"[1]"))
        assert far.recv(1 << 16) == encode(*frames[0]) + encode(Kind.TICK, b"[1]")
        # So are many, although more follow: the worker reads them meanwhile.
        for _ in range(1_000):
            worker.send(frames[0], more=True)
        assert len(far.recv(1 << 16)) >= 700 * len(encode(*frames[0]))
        worker.send(frames[0], more=True)
        worker.hang_up()


async def test_host_refuses_to_send_an_illegal_frame() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    worker = ProcessWorker(1, near, current_reactor(), 0)
    with far, pytest.raises(ProtocolError, match="RESULT is not legal in state FORKED"):
        worker.send((Kind.RESULT, b"[]"))
    worker.hang_up()


async def test_a_pool_keeps_its_number_of_workers_ready() -> None:
    pool = Pool(isolation="jail", size=3, memory_bytes=64 << 20, cpu_ms=5_000)
    try:
        with anyio.fail_after(20):
            for _ in range(6):
                worker = await pool.acquire(64 << 20)
                worker.hang_up()
            while pool.ready != 3 or pool.live != 3:
                await anyio.sleep(0.001)
    finally:
        await pool.close()
    assert pool.live == 0


async def test_a_run_with_a_memory_limit_of_its_own_gets_a_worker_of_its_own() -> None:
    pool = Pool(isolation="jail", size=1, memory_bytes=64 << 20, cpu_ms=5_000)
    try:
        with anyio.fail_after(20):
            small = await pool.acquire(32 << 20)
            assert small.memory_bytes == 32 << 20
            assert (await pool.acquire(64 << 20)).memory_bytes == 64 << 20
    finally:
        await pool.close()
