"""Values of any size from a script: bounded in the worker, on the wire and in the host."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import orjson
import pytest

from ptc import Limits, RunResult, Session, tool
from ptc._runs import _run as run_module
from ptc._runs._script_calls import HELD_BYTES
from ptc._wire import _bodies as bodies
from ptc._wire._bodies import INLINE_BYTES

from ..ready_session import ready_session

pytestmark = pytest.mark.anyio

Json = dict[str, Any] | list[Any] | str | int | float | bool | None


@tool
async def size_of(value: Json) -> int:
    """Bytes of the JSON of a value."""
    return len(orjson.dumps(value))


@pytest.fixture(scope="module", params=["jail", "process"])
async def session(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(
        root, tools=[size_of], toolsets=(), workers=1, isolation=request.param
    ) as opened:
        yield opened


# The output of a worker does not depend on the host's event loop.
ONE_LOOP = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")


async def run(session: Session, source: str, **limits: Any) -> RunResult:
    with anyio.fail_after(120):
        return await session.program(
            source=source, limits=replace(Limits(timeout_ms=90_000), **limits)
        )


VALUES = {
    "two million numbers": "[0] * 2_000_000",
    "six million numbers": "[0] * 6_000_000",
    "lists": "[[]] * 2_000_000",
    "lists of a list": "[[[1]]] * 600_000",
    "texts": "['abcdefgh'] * 1_000_000",
    "nothing": "[None] * 2_000_000",
    "floats": "[0.1] * 2_000_000",
    "tuples": "((1, 'a'),) * 600_000",
    "keys": "{str(n): n for n in range(400_000)}",
    "a text": "'x' * 16_000_000",
    "a text of characters that JSON escapes": "'\\x00' * 2_500_000",
    "a wide text": "'\\U0001f600' * 4_000_000",
    "a key": "{'k' * 5_000_000: [1]}",
    "deep": "(lambda f: f(f, 198))(lambda f, n: [f(f, n - 1)] if n else [0] * 700_000)",
    "rows": "[{'id': n, 'tags': ['a', 'b'], 'score': n / 8} for n in range(100_000)]",
    "members of which one is large": "{'a': 1, 'rows': [[n] for n in range(300_000)], 'z': None}",
}
"""All of them have at most 16 MiB of JSON."""
BOTH = [("jail", "two million numbers"), ("jail", "texts"), ("jail", "keys"), ("jail", "a key")]
BOTH += [("jail", "a wide text"), ("jail", "deep"), ("process", "rows"), ("process", "deep")]
FAST = {("jail", name) for name in ("lists", "keys", "a wide text")}
FAST |= {("process", "deep"), ("jail", "what is shared")}
"""The others are slow."""


def cases(*pairs: tuple[str, str]) -> pytest.MarkDecorator:
    marked = [pytest.param(*pair, marks=() if pair in FAST else pytest.mark.slow) for pair in pairs]
    return pytest.mark.parametrize(("session", "name"), marked, indirect=["session"])


PASSED = ("two million numbers", "texts", "keys", "a wide text", "a key", "deep", "rows")


@ONE_LOOP
@cases(*[("jail", name) for name in VALUES], *[("process", name) for name in PASSED])
async def test_a_large_value_completes_truncated_and_is_stored_whole(
    session: Session, name: str
) -> None:
    # Regression: most of these killed the worker, whose encoder asked for more memory than it had.
    source = VALUES[name]
    result = await run(session, source)
    assert result.status == "completed", result.error
    assert result.cut is not None
    data = session.artifacts.path(result.cut.sha256).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (result.cut.bytes, result.cut.sha256)
    assert result.usage.output_bytes == len(data)
    assert data == orjson.dumps(eval(source))  # noqa: S307  # of this file
    assert 1_000 < len(orjson.dumps(result.value)) <= 65_536 or name in ("a key", "deep")
    assert "cut…" in json.dumps(result.value, ensure_ascii=False)
    assert f"{len(data):,} bytes, over max_output_bytes=65,536" in result.warnings[0].message


@ONE_LOOP
@cases(("jail", "a long text"), ("process", "many numbers"), ("jail", "what is shared"))
@pytest.mark.slow
async def test_a_value_too_large_to_be_stored_ends_the_run_with_the_reason(
    session: Session, name: str
) -> None:
    source, used = {
        "a long text": ("'x' * 64_000_000", 32 << 20),
        "many numbers": ("[0] * 10_000_000", 20_000_001),
        "what is shared": ("x = 1\nfor n in range(60):\n    x = [x, x]\nx", 32 << 20),
    }[name]
    result = await run(session, source)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.breach is not None
    assert result.error.breach.limit == "max_output_bytes"
    # More than 32 MiB are not counted.
    assert used <= (result.error.breach.used or 0) < used + INLINE_BYTES
    assert "return only the requested data" in result.error.hint


@ONE_LOOP
@pytest.mark.sample(2)
@pytest.mark.parametrize(("session", "name"), BOTH, indirect=["session"])
@pytest.mark.slow
async def test_a_large_value_is_emitted_and_passed_whole_where_limits_allow(
    session: Session, name: str
) -> None:
    value = VALUES[name]
    result = await run(
        session,
        f"value = {value}\nctx.emit(value)\nawait ctx.size_of(value)",
        max_emit_bytes=16 << 20,
        max_argument_bytes=16_000_000,
        max_containers=1_000_000,
        max_output_bytes=16 << 20,
    )
    expected = orjson.dumps(eval(value))  # noqa: S307  # of this file
    if len(expected) + 20 > 16_000_000:
        assert result.error is not None
        assert "over the limit of 16,000,000 (max_argument_bytes)" in result.error.message
    else:
        assert result.value == len(expected), result.error
    assert len(result.partial) == 1
    assert orjson.dumps(result.partial[0]) == expected
    assert result.usage.emit_bytes == len(expected)


@ONE_LOOP
@pytest.mark.sample(2)
@pytest.mark.parametrize(("session", "name"), BOTH, indirect=["session"])
async def test_large_value_over_emit_and_argument_limits_is_counted(
    session: Session, name: str
) -> None:
    value = VALUES[name]
    source = f"value = {value}\ntry:\n    await ctx.size_of(value)\nexcept ToolError as error:\n"
    source += "    ctx.emit([error.code, error.details['used']])\nctx.emit(value)"
    result = await run(session, source, max_argument_bytes=1 << 20)
    size = len(orjson.dumps(eval(value)))  # noqa: S307  # of this file
    assert result.partial == (["arguments_too_large", size + len('{"value":}')],)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.breach is not None
    assert result.error.breach.limit == "max_emit_bytes"
    assert result.error.breach.used == result.usage.emit_bytes + size


@ONE_LOOP
@pytest.mark.slow
async def test_value_is_written_with_little_memory_left(session: Session) -> None:
    # 48 of 64 MiB are taken by the list itself.
    result = await run(session, "[0] * 6_000_000", max_memory_bytes=64 << 20)
    assert result.status == "completed", result.error
    held = "held = []\ntry:\n    while True:\n        held.append(bytearray(1 << {}))\nexcept "
    held += "MemoryError:\n    pass\n"
    for step in (20, 16, 12):
        fill = held.format(step)
        for value in ("[0] * 50_000", "['x' * 30] * 300", "'y' * 60_000", "{'a': [1, 2]}"):
            source = f"{fill}value = None\nheld[-(1 << 20 >> {step}):] = []\nvalue = {value}\nvalue"
            result = await run(session, source, max_memory_bytes=64 << 20)
            assert result.status in {"completed", "limit_exceeded"}, (step, value, result.error)
            if result.error is not None:
                assert result.error.code == "memory"


# --- the host ------------------------------------------------------------------------------------


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, int]]:
    """Bodies that are decoded: whether in this thread, which is the event loop's, and bytes."""
    seen: list[tuple[bool, int]] = []
    loop, real = threading.get_ident(), bodies.load_json

    def load_json(body: bytes) -> Any:
        seen.append((threading.get_ident() == loop, len(body)))
        return real(body)

    monkeypatch.setattr(bodies, "load_json", load_json)
    return seen


async def test_a_value_over_its_limit_is_decoded_in_another_thread(
    tmp_path: Path, decoded: list[tuple[bool, int]]
) -> None:
    async with ready_session(tmp_path) as session:
        decoded.clear()
        result = await run(session, VALUES["rows"])
    assert result.cut is not None
    here = [size for in_loop, size in decoded if in_loop]
    there = [size for in_loop, size in decoded if not in_loop]
    # Until it was known to be over.
    assert sum(here) <= 65_536
    assert sum(there) > 3_000_000
    assert max(*here, *there) <= INLINE_BYTES


async def test_a_value_within_its_limit_is_decoded_in_bounded_steps(
    tmp_path: Path, decoded: list[tuple[bool, int]]
) -> None:
    async with ready_session(tmp_path) as session:
        decoded.clear()
        result = await run(session, VALUES["rows"], max_output_bytes=8 << 20)
    assert result.cut is None
    assert len(result.value) == 100_000
    assert len(decoded) > 50
    assert max(size for _, size in decoded) <= INLINE_BYTES


async def test_too_many_lists_and_objects_are_refused_before_they_are_decoded(
    tmp_path: Path,
) -> None:
    async with ready_session(tmp_path, size_of) as session:
        limits = {"max_containers": 10_000, "max_output_bytes": 8 << 20}
        result = await run(session, "[[]] * 200_000", **limits)
        assert result.status == "completed"
        assert result.cut is not None
        assert result.cut.bytes == 600_001
        assert len(result.value) < 10_000
        assert "lists and objects, over max_containers=10,000: it was" in result.warnings[0].message
        small = await run(session, "[[], [], []]", max_containers=3)
        assert small.cut is not None
        assert (await run(session, "[[], [], []]", max_containers=4)).value == [[], [], []]
        # Numbers and texts are no containers.
        assert (await run(session, "[0] * 200_000", **limits)).cut is None

        emitted = await run(session, "for n in range(9):\n    ctx.emit([[]] * 2_000)", **limits)
        assert emitted.status == "limit_exceeded"
        assert emitted.error is not None
        assert emitted.error.breach is not None
        assert emitted.error.breach.limit == "max_containers"
        assert len(emitted.partial) == 4

        source = "try:\n    await ctx.size_of([[]] * {})\nexcept ToolError as error:\n"
        source += "    ctx.emit([error.code, error.details, str(error)])"
        for count in (20_000, 200_000):
            refused = await run(session, source.format(count), **limits)
            code, details, message = refused.partial[0]
            assert (code, details["limit"], details["most"]) == (
                "arguments_too_large",
                "max_containers",
                10_000,
            )
            assert "lists and objects, over the limit of 10,000 (max_containers)" in message


async def test_value_too_large_to_validate_does_not_conform(tmp_path: Path) -> None:
    async with ready_session(tmp_path) as session:
        source = "[n for n in range(100_000)]"
        result = await session.program(source=source, output_schema=list[int])
        assert result.status == "failed"
        assert result.error is not None
        assert result.error.code == "output_schema"
        assert "588,891 bytes, over max_output_bytes=65,536, and is too large to be checked" in (
            result.error.message
        )
        assert result.cut is not None
        assert len(json.loads(session.artifacts.path(result.cut.sha256).read_bytes())) == 100_000
        whole = await session.program(
            source=source, output_schema=list[int], limits=Limits(max_output_bytes=1 << 20)
        )
        assert whole.status == "completed"


async def test_large_value_is_stored_although_the_run_is_cancelled(tmp_path: Path) -> None:
    async with ready_session(tmp_path) as session:
        results: list[RunResult] = []
        with anyio.CancelScope() as scope:
            real = run_module.Run._truncate_value

            async def truncate(self: Any) -> None:
                scope.cancel()
                await real(self)
                results.append(await self._build_result())

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(run_module.Run, "_truncate_value", truncate)
                await session.program(source="[0] * 100_000")
        (result,) = results
        assert result.cut is not None
        assert session.artifacts.path(result.cut.sha256).stat().st_size == 200_001


# --- arguments -----------------------------------------------------------------------------------


async def test_arguments_of_finished_calls_are_released(tmp_path: Path) -> None:
    passed: list[int] = []

    @tool
    async def take(text: str) -> int:
        """Take a text."""
        passed.append(len(text))
        return len(text)

    source = """
import asyncio
async def run(ctx, inputs):
    texts = [str(n % 10) * 500_000 for n in range(90)]
    done = await asyncio.gather(*(ctx.take(text) for text in texts))
    small = await ctx.take("x")
    return [sum(done), small]
"""
    runs: list[Any] = []
    async with ready_session(tmp_path, take) as session:
        real = run_module.Run._build_result

        async def result_of(self: Any) -> RunResult:
            runs.append(self)
            return await real(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_module.Run, "_build_result", result_of)
            result = await session.program(source=source)
    assert result.value == [90 * 500_000, 1], result.error
    (finished,) = runs
    assert finished._calls.held_bytes == 0
    # A call that has ended is a record, which is made of its arguments.
    assert not finished._calls.calls.open
    first = result.calls[0]
    assert first.arguments.startswith('{"text":"00000')
    expected = hashlib.sha256(orjson.dumps({"text": "0" * 500_000})).hexdigest()
    assert first.arguments_sha256 == expected


async def test_reading_continues_when_calls_with_large_arguments_finish(
    tmp_path: Path,
) -> None:
    gate = anyio.Event()
    inside = most = 0

    @tool
    async def wait(text: str) -> int:
        """Wait at the gate."""
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await gate.wait()
        inside -= 1
        return len(text)

    source = """
import asyncio
async def run(ctx, inputs):
    calls = [ctx.wait("x" * 1_000_000) for n in range(45)]
    ctx.emit("all made")
    return sum(await asyncio.gather(*calls))
"""
    results: list[RunResult] = []
    async with ready_session(tmp_path, wait) as session:

        async def drive() -> None:
            results.append(await session.program(source=source))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(drive)
                while not session._runs.active:
                    await anyio.sleep(0.001)
                (active,) = session._runs.active
                while active._worker is None or not active._worker._held:
                    await anyio.sleep(0.001)
                assert active._calls.held_bytes <= HELD_BYTES + 2_000_000
                assert not active._outcome.intake.partial
                gate.set()
    assert results[0].value == 45_000_000, results[0].error
    assert results[0].partial == ("all made",)
    assert 20 < most < 45


@pytest.mark.slow
async def test_run_with_large_call_arguments_is_resumed(tmp_path: Path) -> None:
    @tool(needs_approval=True, side_effect=True, idempotent=True)
    async def store(rows: list[list[int | str]]) -> int:
        """Store rows."""
        return len(rows)

    source = """
async def run(ctx, inputs):
    rows = [[n, str(n)] for n in range(30_000)]
    first = await ctx.store(rows)
    ctx.emit(rows)
    return [first, await ctx.store(rows[:1])]
"""
    async with ready_session(tmp_path, store) as session:
        paused = await session.program(source=source, allowed_tools=["store"])
        assert paused.status == "paused", paused.error
        await session.history.approve(paused.run_id, by="ann")
        again = await session.resume(paused.run_id)
        assert again.status == "paused", again.error
        await session.history.approve(paused.run_id, by="ann")
        done = await session.resume(paused.run_id)
    assert done.value == [30_000, 1], done.error
    assert len(done.partial[0]) == 30_000
