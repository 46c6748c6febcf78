"""The test plays the worker: whatever it sends, the host ends that run and goes on with the others.

The far end of the wire is in the hands of the test; everything on this side is the real host.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import orjson
import pytest

from ptc import Limits, RunResult, Session, ToolContext, tool
from ptc._core import _reactor
from ptc._core._reactor import current_reactor
from ptc._records._artifacts import LocalArtifacts
from ptc._runs._code_cache import CachedCode
from ptc._tools._table import ToolTable
from ptc._wire._protocol import Decoder, Kind, State, encode, parse
from ptc._workers import _worker
from ptc._workers._process import ProcessWorker

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

SOURCE = "def run(ctx, inputs):\n    return 1\n"
OTHER = "def run(ctx, inputs):\n    return 2\n"
NUMBERS = count(1)


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


class Script:
    """The far end: sends bytes, reads what the host says."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.gone = False

    async def send(self, data: bytes) -> None:
        self.sock.setblocking(False)
        rest = memoryview(data)
        while rest:
            await anyio.wait_writable(self.sock)
            try:
                rest = rest[self.sock.send(rest) :]
            except BlockingIOError:
                continue
            except OSError:
                self.gone = True  # the host has hung up, which is its right
                return

    async def frame(self, kind: Kind, body: Any) -> None:
        await self.send(encode(kind, orjson.dumps(body)))

    async def program(self) -> None:
        """Take START and SOURCE, answer that the script is compiled: it is running now."""
        await anyio.wait_readable(self.sock)
        self.sock.recv(1 << 20)
        await self.send(encode(Kind.COMPILED, b"code"))


async def played(
    root: Path, play: Callable[[Script], Awaitable[None]], *, begin: bool = True, **limits: Any
) -> RunResult:
    """Result of a run whose worker is played by `play`, in a session of its own."""
    async with Session(root, tools=[add], toolsets=(), workers=1) as session:
        return await play_in(session, play, begin=begin, **limits)


@contextmanager
def replace_worker(session: Session) -> Iterator[socket.socket]:
    """Give the next run of the session a worker whose end of the wire is yielded."""
    near, far = socket.socketpair()
    near.setblocking(False)
    worker = ProcessWorker(0, near, current_reactor(), 0)
    worker.state = State.IDLE

    async def acquire(_memory: int) -> ProcessWorker:
        return worker

    real, session._pool.acquire = session._pool.acquire, acquire  # type: ignore[method-assign,assignment]  # ours
    try:
        with far:
            yield far
    finally:
        session._pool.acquire = real  # type: ignore[method-assign]  # as it was


async def play_in(
    session: Session,
    play: Callable[[Script], Awaitable[None]],
    *,
    begin: bool = True,
    **limits: Any,
) -> RunResult:
    """Result of a run whose worker is played by `play`."""
    results: list[RunResult] = []
    # Another one each time: its code is stored, and a worker is not asked for it again.
    source = f"{SOURCE}# {next(NUMBERS)}\n"
    await session.warm_up()
    with replace_worker(session) as far, anyio.fail_after(20):

        async def one() -> None:
            results.append(
                await session.program(
                    source=source, limits=Limits(**{"timeout_ms": 1_000, **limits})
                )
            )

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            script = Script(far)
            if begin:
                await script.program()
            else:
                await anyio.wait_readable(far)  # START is sent
            await play(script)
    # Another run goes on as if nothing had happened.
    assert (await session.program(source=OTHER)).value == 2
    return results[0]


def check_violation(result: RunResult, words: str) -> None:
    assert result.status == "violation"
    assert result.error is not None
    assert result.error.code == "protocol"
    assert words in result.error.message


KILLED = dict.fromkeys(("type", "message", "tool", "hint"), "") | {"code": "killed", "frames": []}
"""A code that the host gives to a run whose process got SIGKILL."""
KILLED_FINDING = {
    **{"code": "killed", "message": "", "hint": "", "advisory": False},
    **dict.fromkeys(("line", "column", "end_line", "end_column"), 0),
}
BROKEN_FRAMES = (
    (struct.pack(">IB", 2**32 - 1, Kind.DONE), "over the limit"),
    (struct.pack(">IB", 5, 200) + b"abcd", "unknown kind"),
    (encode(Kind.READY, b"[]"), "READY is not legal in state RUNNING"),
    (encode(Kind.COMPILED, b"other code"), "COMPILED is not legal in state RUNNING"),
    (encode(Kind.TICK, b"[1]"), "does not send TICK"),
    (encode(Kind.TOOLS, b"{}"), "does not send TOOLS"),
    (2 * encode(Kind.REQUEST_TOOLS, b"[]"), "REQUEST_TOOLS was not requested"),
    (encode(Kind.RESULT, b"[1]"), "does not send RESULT"),
    (encode(Kind.CALL, b'[1,"add",[],null]'), "item 2 of the body is list"),
    (encode(Kind.CALL, b"[1,"), "not JSON"),
    (encode(Kind.DONE, b"[" * 100_000), "not JSON"),
    (encode(Kind.CALL, b'[2,"add",{},1]') * 2, "call 2 repeats the number of an earlier call"),
    (encode(Kind.CANCEL, b"[7]"), "more calls were cancelled than made"),
    (encode(Kind.FAILED, b"{}"), "wrong keys"),
    (encode(Kind.FAILED, orjson.dumps(KILLED)), "a failure has the unknown code 'killed'"),
)


async def test_a_frame_that_breaks_the_protocol_is_a_violation(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[add], toolsets=(), workers=1) as session:
        for data, words in BROKEN_FRAMES:
            check_violation(await play_in(session, partial(Script.send, data=data)), words)


@pytest.mark.parametrize(
    ("data", "begin", "status"),
    [
        (encode(Kind.FAILED, orjson.dumps(KILLED)), True, "violation"),
        (encode(Kind.REJECTED, orjson.dumps([KILLED_FINDING])), False, "rejected"),
    ],
    ids=["failed", "rejected"],
)
async def test_script_of_a_tool_cannot_crash_the_run_of_its_caller(
    tmp_path: Path, data: bytes, begin: bool, status: str
) -> None:
    @tool
    async def helper(ctx: ToolContext) -> str:
        """Run a script in a worker that lies about its end."""
        results = []
        with replace_worker(session) as far:

            async def one() -> None:
                results.append(await ctx.program(SOURCE))

            async with anyio.create_task_group() as group:
                group.start_soon(one)
                script = Script(far)
                if begin:
                    await script.program()
                else:
                    await anyio.wait_readable(far)  # START is sent
                await script.send(data)
        return results[0].status

    async with Session(tmp_path, tools=[helper], toolsets=(), workers=1) as session:
        with anyio.fail_after(20):
            result = await session.program(
                source="async def run(ctx, inputs):\n    return await ctx.helper()\n"
            )
    assert (result.status, result.value) == ("completed", status), result.error


async def test_done_before_compilation_is_a_violation(tmp_path: Path) -> None:
    result = await played(tmp_path, lambda s: s.frame(Kind.DONE, "FORGED"), begin=False)
    check_violation(result, "DONE is not legal in state COMPILING")
    assert result.value is None


async def test_frames_after_the_result_change_nothing(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        done = encode(Kind.DONE, b'"honest"')
        await script.send(done + encode(Kind.DONE, b'"FORGED"') + b"garbage" * 100)

    result = await played(tmp_path, play)
    assert (result.status, result.value) == ("completed", "honest")


async def test_forged_code_is_used_only_for_its_own_source(
    tmp_path: Path,
) -> None:
    # `played` answers with the bytes b"code" for SOURCE, then runs the same source in a real
    # worker: what a hostile worker compiled can break that very script and no other.
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        tools = ToolTable(session.select_tools()).digest
        session._runs.code.put(SOURCE, CachedCode(b"not code at all"), tools)
        broken = await session.program(source=SOURCE)
        other = await session.program(source=OTHER)
    assert broken.status == "failed"
    assert other.value == 2


@pytest.mark.both_loops
async def test_silent_worker_is_stopped_at_the_timeout(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        await script.send(b"\x00\x00")

    assert (await played(tmp_path, play, timeout_ms=200)).status == "timed_out"


async def test_worker_sending_byte_by_byte_is_stopped_at_the_timeout(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        # As long as the host listens.
        for byte in encode(Kind.PRINT, orjson.dumps(["x" * 10_000, 0])):
            await script.send(bytes([byte]))
            if script.gone:
                return
            await anyio.sleep(0.01)
        pytest.fail("the host took all of it")

    result = await played(tmp_path, play, timeout_ms=150)
    assert result.status == "timed_out"


async def test_disconnect_before_the_result_is_not_a_success(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        await script.frame(Kind.PRINT, ["a word", 0])
        script.sock.shutdown(socket.SHUT_RDWR)

    result = await played(tmp_path, play, timeout_ms=300)
    assert result.status != "completed"
    assert result.stdout == "a word"


async def test_descriptors_sent_by_a_worker_are_not_received(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    async def play(script: Script) -> None:
        with Path("/dev/null").open() as file:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))]
            script.sock.sendmsg([encode(Kind.PRINT, b'["x",0]')], rights)
        await script.frame(Kind.DONE, 1)

    assert (await played(tmp_path, play)).value == 1
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.both_loops
async def test_worker_that_does_not_read_does_not_block_the_host(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        for number in range(1, 400):
            await script.frame(Kind.CALL, [number, "add", {"a": "x" * 2_000}, 1])
        await script.frame(Kind.DONE, 1)

    result = await played(tmp_path, play, max_tool_calls=1_000, timeout_ms=5_000)
    assert result.status == "completed"


async def test_unrequested_answers_are_a_violation(tmp_path: Path) -> None:
    # Regression: local variables that nobody had asked for made a run `paused`.
    for data in (
        encode(Kind.FRAMES, b"[]"),
        encode(Kind.PONG, b"[]"),
    ):
        payload = data
        check_violation(
            await played(tmp_path, partial(Script.send, data=payload)), "was not requested"
        )
    findings = encode(Kind.CHECKED, b"[]")
    result = await played(tmp_path, partial(Script.send, data=findings), begin=False)
    check_violation(result, "was not requested")


async def test_value_nested_too_deeply_to_serialize_is_a_violation(tmp_path: Path) -> None:
    # Regression: orjson reads 1,024 levels and writes 254, so the result could not be recorded.
    async with Session(tmp_path, tools=[add], toolsets=(), workers=1) as session:
        for kind in (Kind.EMIT, Kind.DONE, Kind.CALL):
            for depth in (201, 255, 1_000):
                body = b"[" * depth + b"]" * depth
                if kind is Kind.CALL:
                    body = b'[1,"add",{"a":%b},1]' % body
                play = partial(Script.send, data=encode(kind, body))
                check_violation(await play_in(session, play), "nested deeper")


@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        (Kind.DONE, "max_output_bytes"),
        (Kind.EMIT, "max_emit_bytes"),
        (Kind.CALL, "max_argument_bytes"),
    ],
)
async def test_a_value_too_large_for_a_frame_is_refused_by_its_header(
    tmp_path: Path, kind: Kind, limit: str
) -> None:
    # Regression: 15 MB of `[]` were decoded: 360 MB of memory, and a second without any other run.
    size = 15 << 20
    kept: list[int] = []
    real = Decoder.feed

    def feed(self: Decoder, data: bytes) -> Any:
        yield from real(self, data)
        kept.append(self.pending_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Decoder, "feed", feed)
        header = struct.pack(">IB", size + 1, kind)
        result = await played(tmp_path, partial(Script.send, data=header + b"[],"[:2] * 400_000))
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.breach is not None
    assert (result.error.breach.limit, result.error.breach.used) == (limit, size)
    assert max(kept) < 1_000


async def test_a_result_over_its_limit_in_one_frame_is_truncated(tmp_path: Path) -> None:
    body = b"[" + b"[]," * 30_000 + b"1]"
    result = await played(tmp_path, partial(Script.send, data=encode(Kind.DONE, body)))
    assert result.status == "completed"
    assert result.cut is not None
    assert result.cut.bytes == len(body)
    assert (
        LocalArtifacts(tmp_path / ".ptc" / "artifacts").path(result.cut.sha256).read_bytes() == body
    )
    assert result.value[-1] == {
        "…cut…": f"{30_001 - len(result.value) + 1:,} of 30,001 items left out"
    }
    bad = await played(tmp_path, partial(Script.send, data=encode(Kind.DONE, body[:-1])))
    check_violation(bad, "not JSON")
    assert bad.value is None


def part(*parts: bytes) -> bytes:
    return b"".join(encode(Kind.PART, one) for one in parts)


PARTS_OF_NOTHING = (
    part(b"["),
    part(b"<\x07"),
    part(b"<%c" % Kind.DONE) + part(b"i[1]"),
    part(b"<%c" % Kind.DONE, b"[") + encode(Kind.DONE, b"="),
    part(b"<%c" % Kind.EMIT, b"[", b"]") + encode(Kind.DONE, b"="),
    part(b"<%c" % Kind.CALL, b"[", b"]") + encode(Kind.CALL, b'[1,"add",null,1]'),
    encode(Kind.DONE, b"="),
    encode(Kind.EMIT, b"="),
    encode(Kind.CALL, b'[1,"add",null,1]'),
    part(b"<%c" % Kind.DONE, *[b"["] * 201),
)


async def test_parts_that_form_no_value_are_a_violation(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[add], toolsets=(), workers=1) as session:
        for data in PARTS_OF_NOTHING:
            check_violation(await play_in(session, partial(Script.send, data=data)), "")


async def test_parts_of_an_unfinished_value_are_discarded(tmp_path: Path) -> None:
    begin = part(b"<%c" % Kind.EMIT, b"[", b"i[1,2]")
    data = begin + part(b"<%c" % Kind.EMIT, b"[", b"i[3]", b"]") + encode(Kind.EMIT, b"=")
    data += begin + encode(Kind.EMIT, b'"small"') + encode(Kind.DONE, b"1")
    result = await played(tmp_path, partial(Script.send, data=data))
    assert result.status == "completed", result.error
    assert result.partial == ([3], "small")


async def test_value_of_too_many_parts_is_over_the_limit_that_it_exceeds(tmp_path: Path) -> None:
    # 65,536 lists that come one by one take the memory of a whole value of 16 MiB.
    data = part(b"<%c" % Kind.DONE, b"[", *[b"[", b"]"] * 70_000, b"]") + encode(Kind.DONE, b"=")
    bounds: dict[str, Any] = {
        "max_containers": 100,
        "max_output_bytes": 1_000_000,
        "timeout_ms": 20_000,
    }
    result = await played(tmp_path, partial(Script.send, data=data), **bounds)
    assert (result.status, result.value) == ("limit_exceeded", None)
    assert result.error is not None
    assert result.error.code == "limit_max_containers"


async def test_flood_of_frames_does_not_starve_the_event_loop(
    tmp_path: Path,
) -> None:
    frames = 20_000
    handled = most = 0

    def counted(kind: Kind, body: bytes) -> Any:
        nonlocal handled
        handled += kind is Kind.POLLED
        return parse(kind, body)

    async def play(script: Script) -> None:
        nonlocal most
        async with anyio.create_task_group() as group:
            group.start_soon(script.send, encode(Kind.POLLED, b"[1,64]") * frames)
            while handled < frames:
                before = handled
                await anyio.lowlevel.checkpoint()
                most = max(most, handled - before)
        await script.frame(Kind.DONE, 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_worker, "parse", counted)
        result = await played(tmp_path, play, timeout_ms=20_000)
    assert result.status == "completed"
    assert 0 < most <= 256


@pytest.mark.both_loops
async def test_flood_of_timers_does_not_delay_other_runs(tmp_path: Path) -> None:
    # Regression: each was a task under trio, and a run beside them waited for 18 seconds.
    timers = 20_000
    armed = 0

    async def play(script: Script) -> None:
        await script.send(encode(Kind.TIMER, b"[0]") * timers)
        await script.frame(Kind.DONE, 1)

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call_later(*args: Any) -> Any:
            nonlocal armed
            armed += 1
            return real(*args)

        return call_later

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_AsyncioReactor", "_TrioReactor"):
            reactor = getattr(_reactor, name)
            patch.setattr(reactor, "call_later", counted(reactor.call_later))
        result = await played(tmp_path, play, timeout_ms=10_000)
    assert result.status == "completed"
    assert armed < timers / 10
