"""The public API: arguments that a session accepts and refuses, and how it closes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ptc import (
    BlockingSession,
    Limits,
    RunEvent,
    RunResult,
    RunWarning,
    Session,
    SessionClosedError,
    SetupError,
    ToolError,
    UsageError,
    tool,
)
from ptc._runs._code_cache import _ENTRY_BYTES, CachedCode, CodeCache
from ptc.testing import NO_KERNEL_LAYER
from tests.core.pools import pool_of

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
def shout(text: str) -> str:
    """Make text loud."""
    return text.upper()


@tool
async def broken() -> None:
    """Fail in an unforeseen way."""
    msg = "no such luck"
    raise KeyError(msg)


@tool(side_effect=True, idempotent=True)
async def write(text: str) -> int:
    """Pretend to write."""
    return len(text)


def session(root: Path, **options: Any) -> Session:
    tools = options.pop("tools", [add, shout, broken, write])
    return Session(root, tools=tools, toolsets=(), workers=2, **options)


ASYNC = """
import asyncio

async def run(ctx, inputs):
    first = await ctx.add(inputs["a"], b=3)
    rest = await asyncio.gather(*(ctx.add(n) for n in range(3)))
    print("first is", first)
    ctx.emit({"so far": first})
    return {"first": first, "rest": rest, "loud": await ctx.shout("hey")}
"""

SYNC = """
def run(ctx, inputs):
    total = 0
    for n in range(3):
        total += ctx.add(a=n, b=total)
    return {"total": total, "loud": ctx.shout("hey")}
"""


@pytest.mark.usefixtures("nothing_left")
async def test_an_async_script_calls_tools_and_returns_a_value(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        result = await s.program(source=ASYNC, inputs={"a": 4})
    assert result.status == "completed", result.error
    assert result.value == {"first": 7, "rest": [2, 3, 4], "loud": "HEY"}
    assert result.stdout == "first is 7\n"
    assert result.partial == ({"so far": 7},)
    assert [(c.seq, c.tool, c.status, c.line) for c in result.calls] == [
        (1, "add", "succeeded", 5),
        (2, "add", "succeeded", 6),
        (3, "add", "succeeded", 6),
        (4, "add", "succeeded", 6),
        (5, "shout", "succeeded", 9),
    ]
    assert result.calls[0].arguments in ('{"b":3,"a":4}', '{"a":4,"b":3}')
    assert result.usage.tool_calls == 5
    assert result.unwrap() == result.value


async def test_sync_script_receives_values_from_blocking_calls(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        result = await s.program(source=SYNC)
    assert result.value == {"total": 4, "loud": "HEY"}, result.error


async def test_cached_compiled_script_runs_again(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        values = [(await s.program(source=ASYNC, inputs={"a": n})).unwrap() for n in range(4)]
    assert [v["first"] for v in values] == [3, 4, 5, 6]


def test_code_cache_evicts_the_least_recently_used_script() -> None:
    cache = CodeCache(most_bytes=3 * (12 + _ENTRY_BYTES))
    code = CachedCode(b"123456789")
    for source in ("a", "b", "c"):
        cache.put(source, code)
    assert cache.get("a") == code
    cache.put("d", code)
    assert [cache.get(source) for source in "abcd"] == [code, None, code, code]
    cache.put("a", code)
    cache.put("e", CachedCode(b"1" * 21))
    assert [source for source in "acde" if cache.get(source)] == ["a", "e"]


def test_code_cache_stores_nothing_over_its_size() -> None:
    cache = CodeCache(most_bytes=30 + _ENTRY_BYTES)
    cache.put("a", CachedCode(b"1" * 27))
    cache.put("b", CachedCode(b"1" * 28))
    assert [cache.get(source) for source in "ab"] == [CachedCode(b"1" * 27), None]


def test_code_cache_tells_scripts_that_were_checked_against_other_tools_apart() -> None:
    cache = CodeCache()
    cache.put("a", CachedCode(b"1"), b"tools")
    assert cache.get("a", b"tools") == CachedCode(b"1")
    assert cache.get("a", b"other tools") is None


async def test_calls_start_before_they_are_awaited(tmp_path: Path) -> None:
    started, gate = [], anyio.Event()

    @tool
    async def meet(name: str) -> str:
        """Wait until both are here."""
        started.append(name)
        if len(started) == 2:
            gate.set()
        await gate.wait()
        return name

    source = """
async def run(ctx, inputs):
    a = ctx.meet("a")
    b = ctx.meet("b")
    return [await a, await b]
"""
    async with session(tmp_path, tools=[meet]) as s:
        with anyio.fail_after(10):
            result = await s.program(source=source)
    assert result.value == ["a", "b"]


async def test_call_never_awaited_is_executed_recorded_and_reported(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    ctx.write(text='abc')\n    return 1\n"
    async with session(tmp_path) as s:
        result = await s.program(source=source, allowed_tools=["write"])
    assert result.value == 1
    assert [(c.tool, c.status) for c in result.calls] == [("write", "succeeded")]
    assert "never awaited, but executed: ctx.write (line 2)" in result.warnings[0].message


async def test_warnings_are_the_same_in_events_json_and_the_journal(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    ctx.write(text='abc')\n    return 1\n"
    events: list[RunEvent] = []
    async with session(tmp_path) as s:
        result = await s.program(
            source=source, allowed_tools=["write"], run_id="r", on_event=events.append
        )
        recorded = await s.program(source=source, allowed_tools=["write"], run_id="r")
    [warning] = result.warnings
    assert (warning.code, warning.path, warning.line) == ("not_awaited", "", 2)
    assert [e.value for e in events if e.kind == "warning"] == [warning]
    assert json.loads(result.to_json())["warnings"] == [dataclasses.asdict(warning)]
    assert recorded.warnings == (warning,)


@pytest.mark.parametrize(
    "use", ["x.path", "x[0]", "len(x)", "f'{x}'", "[n for n in x]", "x + 1", "bool(x)", "1 in x"]
)
async def test_missing_await_is_reported_at_its_location(tmp_path: Path, use: str) -> None:
    # A variable that is bound once would be reported before the run.
    source = f"async def run(ctx, inputs, x=1):\n    x = ctx.add(1)\n    return {use}\n"
    async with session(tmp_path) as s:
        result = await s.program(source=source)
    assert result.status == "failed"
    assert result.error is not None
    assert "write `await ctx.add(...)`" in result.error.message
    assert result.error.line == 3


async def test_tool_error_can_be_caught_with_its_code(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    seen = []
    for call in (lambda: ctx.broken(), lambda: ctx.add(a="x"), lambda: ctx.call("nope")):
        try:
            await call()
        except ToolError as error:
            seen.append([error.tool, error.code, error.retryable, error.message])
    return seen
"""
    async with session(tmp_path) as s:
        result = await s.program(source=source)
    assert result.status == "completed", result.error
    (tool1, code1, retry1, text1), (_, code2, _, text2), (_, code3, _, text3) = result.value
    assert (tool1, code1, retry1) == ("broken", "internal", False)
    assert text1 == "broken failed: KeyError: 'no such luck'"
    assert code2 == "invalid_arguments"
    assert text2.startswith("add: `a`: Input should be a valid integer")
    assert code3 == "unknown_tool"
    assert "allowed: add, shout, broken" in text3
    assert [c.status for c in result.calls] == ["failed", "not_started", "not_started"]


async def test_uncaught_tool_error_names_tool_and_line(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    return await ctx.broken()\n"
    async with session(tmp_path) as s:
        result = await s.program(source=source)
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.code, result.error.tool, result.error.line) == ("tool_error", "broken", 2)
    assert result.error.excerpt == "    return await ctx.broken()\n           ^^^^^^^^^^^^^^^^^^"


async def test_a_tool_outside_the_allow_list_is_refused_by_the_host(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    try:
        await ctx.call("write", {"text": "x"})
    except ToolError as error:
        return [error.code, error.message]
"""
    async with session(tmp_path) as s:
        result = await s.program(source=source, allowed_tools=["add"])
    assert result.value[0] == "not_allowed"
    assert "allowed: add" in result.value[1]
    assert result.calls[0].status == "not_started"


async def test_default_allow_list_has_only_tools_without_side_effects(
    tmp_path: Path,
) -> None:
    source = "async def run(ctx, inputs):\n    return [n for n in dir(ctx) if n == 'write']\n"
    async with session(tmp_path) as s:
        result = await s.program(source=source)
        assert list(s.select_tools(None)) == ["add", "shout", "broken"]
    assert result.value == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either source= or path="),
        ({"source": "x", "path": "y"}, "either source= or path="),
        ({"source": 3}, "source must be a string, not int"),
        ({"source": "x", "allowed_tools": ["ad"]}, r"no tool 'ad' \(did you mean `add`"),
        ({"source": "x", "allowed_tools": "add"}, "a list of names of tools, not the string"),
        ({"source": "x", "inputs": [1]}, "inputs must be a dict"),
        ({"source": "x", "inputs": {"a": [object()]}}, r"inputs\.a\[0\]: object has no JSON form"),
        ({"source": "x", "inputs": {"a": float("nan")}}, r"inputs\.a: nan"),
        ({"source": "x", "inputs": {1: 2}}, "key 1 is not a string"),
        ({"path": "missing.py"}, "cannot be read: No such file"),
        ({"path": "../outside.py"}, "outside the session's root"),
        ({"path": "/etc/hostname"}, "outside the session's root"),
        ({"path": "link.py"}, "outside the session's root"),
        ({"path": "binary.py"}, "is not UTF-8 text: byte 2 is 255"),
        ({"path": "folder"}, "is not a file"),
        ({"path": "nul\0.py"}, "must be a path without the character NUL"),
        ({"source": "x", "filename": "a\nb"}, "printable"),
    ],
)
async def test_invalid_program_arguments_are_refused_before_anything_runs(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside.py").write_text("async def run(ctx, inputs): return 1\n")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    (root / "binary.py").write_bytes(b"ab\xff\x00")
    (root / "folder").mkdir()
    async with session(root) as s:
        with pytest.raises(UsageError, match=message):
            await s.program(**options)


async def test_an_unknown_option_is_an_error_not_ignored(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        with pytest.raises(TypeError, match="allowed_toolz"):
            await s.program(source="x", allowed_toolz=[])  # type: ignore[call-overload]  # the point
        with pytest.raises(TypeError, match="timeout"):
            Limits(timeout=3)  # type: ignore[call-arg]  # the point
    with pytest.raises(TypeError, match="tolls"):
        Session(tmp_path, tolls=[])  # type: ignore[call-arg]  # the point


@pytest.mark.parametrize(
    ("source", "line", "column", "word"),
    [
        ("def nun(ctx, inputs):\n    return 1\n", 0, 0, "run"),
        ("async def run(ctx, inputs):\n    return (1\n", 2, 12, "never closed"),
        ("async def run(ctx, inputs):\n    import subprocess\n    return 1\n", 2, 12, "subprocess"),
        ("x = 1\n\0", 0, 0, ""),
    ],
)
async def test_script_that_cannot_run_is_rejected_with_its_location(
    tmp_path: Path, source: str, line: int, column: int, word: str
) -> None:
    async with session(tmp_path) as s:
        result = await s.program(source=source)
    assert result.status == "rejected"
    assert result.error is not None
    assert word in result.error.message
    if line:
        assert (result.error.line, result.error.column) == (line, column)
        assert result.error.excerpt.split("\n")[1].index("^") == column - 1
    assert result.calls == ()
    assert result.usage.tool_calls == 0


async def test_script_that_is_too_large_or_not_text_is_rejected(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        large = await s.program(source="#" * 200_000)
        torn = await s.program(source="x = '\ud800'")
    assert large.error is not None
    assert "200,000 bytes, over max_source_bytes=131,072" in large.error.message
    assert torn.error is not None
    assert "character 5 is a lone surrogate" in torn.error.message


async def test_a_script_is_read_from_a_file_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "job.py").write_text("async def run(ctx, inputs):\n    return 1 / 0\n")
    async with session(tmp_path) as s:
        result = await s.program(path="deep/job.py")
    assert result.error is not None
    assert 'File "job.py", line 2, in run' in result.error.traceback
    assert result.error.type == "ZeroDivisionError"


async def test_tool_returns_a_result_and_methods_return_values(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        assert (await s.tool("add", {"a": 1})).value == 3
        assert await s.call(add, 1, b=5) == 6
        assert await s.call(shout, text="x") == "X"
        failed = await s.tool("broken", {})
        assert failed.error is not None
        assert failed.error.code == "internal"
        with pytest.raises(ToolError, match="`a` is required"):
            await s.add()  # type: ignore[attr-defined]  # a tool as a method
        with pytest.raises(UsageError, match="no tool 'sub'"):
            await s.tool("sub", {})
        with pytest.raises(AttributeError, match=r"no method or tool 'ad' \(did you mean `add`"):
            await s.ad(1)  # type: ignore[attr-defined]  # a tool as a method
        with pytest.raises(TypeError, match="two values for argument 'a'"):
            await s.add(1, a=2)  # type: ignore[attr-defined]  # a tool as a method
        assert s.tool_names() == ["add", "shout", "broken", "write"]
        assert s.tool_definitions(["shout"])[0]["parameters"]["required"] == ["text"]


async def test_session_is_usable_only_while_open(tmp_path: Path) -> None:
    s = session(tmp_path)
    with pytest.raises(SessionClosedError, match="not open"):
        await s.program(source=SYNC)
    async with s:
        pass
    with pytest.raises(SessionClosedError, match="is closed"):
        await s.tool("add", {"a": 1})
    with pytest.raises(SessionClosedError, match="opened once"):
        async with s:
            pass


def test_invalid_session_options_are_refused(tmp_path: Path) -> None:
    for options, message in (
        ({"root": tmp_path / "none"}, "No such file"),
        ({"root": __file__}, "is not a folder"),
        ({"isolation": "jale"}, r"did you mean `jail`"),
        ({"isolation": "none"}, r"'none' is unknown; levels: jail, process"),
        ({"workers": 0}, "workers must be an integer from 1 to 64"),
        ({"max_concurrent_runs": True}, "max_concurrent_runs must be"),
        ({"toolsets": ["builtn"]}, "did you mean `builtin`"),
        (
            {"limits": Limits(timeout_ms=5_000), "ceiling": Limits(timeout_ms=1_000)},
            "limits are above the ceiling: timeout_ms",
        ),
    ):
        with pytest.raises(UsageError, match=message):
            Session(**{"root": tmp_path, "toolsets": (), **options})  # type: ignore[arg-type]  # a table


async def test_level_without_kernel_layer_is_available_to_tests_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Session(tmp_path, toolsets=(), isolation=NO_KERNEL_LAYER) as session:
        on = {layer.name for layer in await session.warm_up() if layer.on}
        assert (await session.program(source="1 + 1")).value == 2
    assert "memory" in on
    assert not on & {"seccomp", "landlock", "no_new_privs", "files"}
    assert "seccomp and landlock are off" in caplog.text
    with pytest.raises(UsageError, match="levels: jail, process"):
        Session(tmp_path, toolsets=(), isolation=str(NO_KERNEL_LAYER))


def test_invalid_timeout_limit_is_refused() -> None:
    for wrong in (0, -1, None, 1.5, True, 10**12):
        with pytest.raises(UsageError, match=r"Limits\.timeout_ms must be an integer from 1 to"):
            Limits(timeout_ms=wrong)  # type: ignore[arg-type]  # the point of the test


async def test_limit_above_the_ceiling_is_clamped_with_a_warning(tmp_path: Path) -> None:
    ceiling = Limits(max_tool_calls=200)
    async with session(tmp_path, ceiling=ceiling) as s:
        result = await s.program(source=SYNC, limits=Limits(max_tool_calls=500))
    assert result.limits.max_tool_calls == 200
    assert result.warnings == (
        RunWarning(
            "limit_clamped",
            "limits.max_tool_calls=500 is above the session's ceiling and was clamped to 200",
        ),
    )


async def test_events_are_emitted_in_order(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    async with session(tmp_path) as s:
        await s.program(source=SYNC, on_event=events.append)
    kinds = [e.kind for e in events]
    assert kinds[0] == "started"
    assert kinds.count("tool_started") == kinds.count("tool_finished") == 4
    assert events[-1].call is not None
    assert (events[-1].call.tool, events[-1].call.status) == ("shout", "succeeded")


@pytest.mark.usefixtures("nothing_left")
async def test_two_hundred_programs_at_once_all_finish(tmp_path: Path) -> None:
    results: list[RunResult] = []
    async with session(tmp_path, max_concurrent_runs=8) as s:

        async def one(n: int) -> None:
            results.append(await s.program(source=ASYNC, inputs={"a": n}))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for n in range(200):
                    group.start_soon(one, n)
    assert {r.status for r in results} == {"completed"}
    assert sorted(r.value["first"] for r in results) == [n + 3 for n in range(200)]


async def test_queued_runs_start_in_order_of_arrival(tmp_path: Path) -> None:
    done: list[int] = []
    async with session(tmp_path, max_concurrent_runs=1) as s:

        async def one(n: int, *, task_status: anyio.abc.TaskStatus[None]) -> None:
            task_status.started()
            await s.program(source=SYNC)
            done.append(n)

        async with anyio.create_task_group() as group:
            for n in range(8):
                await group.start(lambda n=n, *, task_status: one(n, task_status=task_status))
    assert done == list(range(8))


HANGING = """
async def run(ctx, inputs):
    ctx.emit("begun")
    return await ctx.wait_for_ever()
"""


@pytest.mark.usefixtures("nothing_left")
async def test_closing_the_session_ends_runs_and_awaits_their_tools(tmp_path: Path) -> None:
    entered, left = anyio.Event(), []

    @tool
    async def wait_for_ever() -> None:
        """Never answer."""
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.append("cancelled")

    results = []
    s = session(tmp_path, tools=[wait_for_ever])
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            async with s:

                async def one() -> None:
                    results.append(await s.program(source=HANGING))

                group.start_soon(one)
                await entered.wait()
            assert left == ["cancelled"]
    assert results[0].status == "cancelled"
    assert results[0].partial == ("begun",)
    assert results[0].calls[0].status == "unknown"


@pytest.mark.usefixtures("nothing_left")
async def test_closing_a_session_with_starting_workers_returns_at_once(
    tmp_path: Path,
) -> None:
    s = session(tmp_path)
    refused: list[Exception] = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group, s:

            async def one() -> None:
                try:
                    await s.program(source=SYNC)
                except (SetupError, SessionClosedError) as error:
                    refused.append(error)

            group.start_soon(one)
            while pool_of(s)._zygote is None:
                await anyio.lowlevel.checkpoint()
    assert "closed" in str(refused[0])


@pytest.mark.usefixtures("nothing_left")
async def test_cancelling_the_caller_kills_the_run_and_cancels_its_tools(tmp_path: Path) -> None:
    entered, left = anyio.Event(), []

    @tool
    async def wait_for_ever() -> None:
        """Never answer."""
        entered.set()
        try:
            await anyio.sleep_forever()
        finally:
            left.append("cancelled")

    async with session(tmp_path, tools=[wait_for_ever]) as s:
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: s.program(source=HANGING))
                await entered.wait()
                group.cancel_scope.cancel()
            assert left == ["cancelled"]
            # The session is as good as new.
            again = await s.program(source="def run(ctx, inputs):\n    return 2\n")
            assert again.value == 2


@pytest.mark.usefixtures("nothing_left")
def test_blocking_session_works_without_an_event_loop(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, tools=[add, shout], toolsets=(), workers=1) as s:
        assert s.call(add, a=1) == 3
        assert s.tool("shout", {"text": "a"}).value == "A"
        assert s.tool_names() == ["add", "shout"]
        result = s.program(source=SYNC, limits=Limits(timeout_ms=5_000))
        assert result.value == {"total": 4, "loud": "HEY"}
    with pytest.raises(SessionClosedError, match=r"^the session is closed$"):
        s.call(add, a=1)


def test_blocking_session_that_is_not_open_says_how_to_open_it(tmp_path: Path) -> None:
    unopened = BlockingSession(tmp_path, tools=[add], toolsets=())
    with pytest.raises(SessionClosedError, match=r"^the session is not open: use `with`$"):
        unopened.call(add, a=1)


def test_tool_description_lists_tools_limits_and_modules(tmp_path: Path) -> None:
    text = session(tmp_path).describe_tools(["add"], Limits(max_tool_calls=7))
    assert "async def add(a: int, b: int = 2) -> int" in text
    assert "shout" not in text
    assert "7" in text
    assert "itertools" in text
    assert "subprocess" not in text


async def test_byte_order_mark_is_removed_from_a_script(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_bytes(b"\xef\xbb\xbf1 + 1\n")
    async with session(tmp_path) as s:
        assert (await s.program(path="job.py")).value == 2
        assert (await s.program(source="\ufeff1 + 2\n")).value == 3


async def test_truncated_value_that_cannot_be_stored_causes_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with Session(tmp_path, artifacts=tmp_path / "file" / "x") as s:
        result = await s.program(source="'x' * 100_000")
    assert result.cut is not None
    assert (result.cut.bytes, result.cut.artifact) == (100_002, "")
    assert "could not be stored" in result.warnings[0].message


def test_session_used_in_another_event_loop_raises(tmp_path: Path) -> None:
    opened = Session(tmp_path)

    async def begin() -> None:
        await opened.__aenter__()
        await opened.warm_up()

    async def go_on() -> None:
        with pytest.raises(SessionClosedError, match="belongs to the event loop it was opened in"):
            await opened.program(source="1 + 1")
        with pytest.raises(SessionClosedError, match="belongs to the event loop it was opened in"):
            await opened.tool("read", {"path": "x"})

    async def both() -> None:
        await begin()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, go_on()).result()
        await opened.aclose()

    asyncio.run(both())
