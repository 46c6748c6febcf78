"""Every limit ends a run in its own typed way, and what the run had is kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Limits, RunEvent, RunResult, Session, tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def large(size: int) -> str:
    """Give a long text."""
    return "x" * size


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[add, large], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, body: str, *, kind: str = "def", **limits: Any) -> RunResult:
    source = f"import asyncio, re, itertools\n{kind} run(ctx, inputs):\n"
    source += "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return await session.program(source=source, limits=Limits(**limits))


FOR_EVER = {
    "busy loop": ("def", "while True: pass"),
    "busy loop that catches everything": (
        "def",
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    ),
    "sleep for ever": ("async def", "while True: await asyncio.sleep(3600)"),
    "sleep in no time": ("async def", "while True: await asyncio.sleep(0)"),
    "catastrophic regex": ("def", "re.match('(a+)+$', 'a' * 64 + 'b')"),
    "huge power": ("def", "return len(str(10 ** 10 ** 8))"),
    "endless sum in C": ("def", "return sum(itertools.repeat(1))"),
    "swallowed cancellation": (
        "async def",
        "while True:\n    try:\n        await asyncio.sleep(9)\n"
        "    except asyncio.CancelledError:\n        pass",
    ),
}


@pytest.mark.parametrize("name", list(FOR_EVER))
async def test_endless_script_is_stopped_at_its_timeout(session: Session, name: str) -> None:
    kind, body = FOR_EVER[name]
    with anyio.fail_after(20):
        result = await run(
            session, f"ctx.emit('begun')\nprint('hello')\n{body}", kind=kind, timeout_ms=200
        )
    assert result.status == "timed_out"
    assert result.error is not None
    assert result.error.code == "timeout"
    assert "longer than 200 ms" in result.error.message
    assert result.partial == ("begun",)
    assert result.stdout == "hello\n"
    assert result.usage.duration_ms > 199


MEMORY = {
    "ten gigabytes of text": "return len('x' * 10 ** 10)",
    "a list without end": "rows = []\nwhile True: rows.append('x' * 10_000 + str(len(rows)))",
    "doubling": "s = 'ab'\nwhile True: s = s + s",
    "a dict without end": "d = {}\nfor n in itertools.count(): d[n] = [n] * 100",
}


@pytest.mark.parametrize("name", list(MEMORY))
async def test_run_out_of_memory_keeps_its_partial_results(session: Session, name: str) -> None:
    body = f"ctx.emit('begun')\n{MEMORY[name]}"
    with anyio.fail_after(60):
        result = await run(session, body, max_memory_bytes=64 << 20, timeout_ms=30_000)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.code == "memory"
    assert "max_memory_bytes" in result.error.hint
    assert result.partial == ("begun",)


async def test_memory_error_can_be_caught_and_the_run_continues(session: Session) -> None:
    body = "try:\n    'x' * 10 ** 10\nexcept MemoryError:\n    return 'went on'"
    assert (await run(session, body)).value == "went on"


async def test_endless_recursion_breaches_a_limit(session: Session) -> None:
    result = await run(session, "def f(n): return f(n + 1)\nreturn f(0)")
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.code == "recursion"


DEEP = {
    "plain functions": "def f(n): return f(n + 1)\nreturn f(0)",
    "through a sort": "def f(n): return sorted([1, 2], key=f)\nreturn f(0)",
    "through a pattern": "def f(m): return re.sub('a', f, 'a')\nreturn f(0)",
    "through repr": "class A:\n    def __repr__(self): return repr(A())\nreturn repr(A())",
    "iterators in iterators": "x = [1]\nfor n in range(200_000): x = map(int, x)\nreturn list(x)",
    "lists in lists": "x = []\nfor n in range(200_000): x = [x]\nreturn x == [x]",
}


@pytest.mark.parametrize("name", list(DEEP))
async def test_deep_recursion_at_worst_crashes_the_worker(session: Session, name: str) -> None:
    result = await run(session, f"import sys\nsys.setrecursionlimit(10 ** 6)\n{DEEP[name]}")
    assert result.error is not None
    assert result.error.code in {"recursion", "crash"}
    if name in {"plain functions", "through a pattern", "lists in lists"}:
        assert result.error.code == "recursion"


async def test_endless_printing_breaches_its_limit_and_keeps_the_tail(session: Session) -> None:
    result = await run(session, "for n in itertools.count(): print('line', n)", timeout_ms=20_000)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.code == "limit_max_stdout_bytes"
    assert len(result.stdout) <= 65_536
    assert "line " in result.stdout[-40:]
    assert result.usage.stdout_bytes > 1_048_576


async def test_result_reports_how_much_printed_text_it_dropped(session: Session) -> None:
    result = await run(session, "for n in range(1_000): print('x' * 99)")
    assert (result.status, len(result.stdout)) == ("completed", 65_536)
    [warning] = result.warnings
    assert (warning.code, warning.line) == ("stdout_truncated", 0)
    assert "wrote 100,000 characters to stdout" in warning.message
    assert "34,464 were dropped" in warning.message
    result = await run(session, "import sys\nprint('x' * 65_537, file=sys.stderr)")
    assert [warning.code for warning in result.warnings] == ["stderr_truncated"]
    result = await run(session, "print('x' * 65_535)")
    assert (len(result.stdout), result.warnings) == (65_536, ())


async def test_single_enormous_print_breaches_the_limit(session: Session) -> None:
    result = await run(session, "print('x' * 50_000_000)", max_stdout_bytes=1_000)
    assert result.status == "limit_exceeded"
    assert len(result.stdout) <= 65_536


async def test_stderr_is_separate_and_counts_towards_the_stdout_limit(session: Session) -> None:
    body = (
        "import sys, logging\nprint('out')\nprint('err', file=sys.stderr)\n"
        "logging.getLogger('a').error('logged')\nctx.log('n', 1)\n"
    )
    result = await run(session, body)
    assert result.ok
    assert (result.stdout, result.stderr) == ("out\n", "err\nlogged\nn 1\n")
    assert (result.usage.stdout_bytes, result.usage.stderr_bytes) == (4, 15)
    for line in ("print('line', n, file=sys.stderr)", "logging.error('line %d', n)", "ctx.log(n)"):
        over = await run(
            session,
            f"import sys, logging\nprint('x' * 500)\nfor n in itertools.count(): {line}",
            max_stdout_bytes=1_000,
        )
        assert over.status == "limit_exceeded", line
        assert over.error is not None
        assert over.error.code == "limit_max_stdout_bytes"
        assert (over.usage.stdout_bytes, over.usage.stderr_bytes > 499) == (501, True)
    whole = await run(session, "import sys\nsys.stderr.write('a' * 70_000 + 'end')\nprint('o')")
    assert (len(whole.stderr), whole.stderr[-4:], whole.stdout) == (65_536, "aend", "o\n")


async def test_library_output_is_captured_as_script_output(session: Session) -> None:
    body = "import calendar\ncalendar.TextCalendar().prmonth(2024, 2)\nre.compile('a', re.DEBUG)"
    result = await run(session, body)
    assert result.stdout.startswith("   February 2024\n")
    assert "LITERAL 97" in result.stdout


@pytest.mark.parametrize("text", ["[i := 0 for i in x]", "(yield)", "await x", "x =", "a b"])
async def test_string_annotation_is_not_compiled(session: Session, text: str) -> None:
    body = f"import typing\ntry:\n    return repr(typing.List[{text!r}])\nexcept SyntaxError:\n"
    result = await run(session, f"{body}    return 'wrong'")
    assert result.value in {"wrong", f"typing.List[ForwardRef({text!r})]"}


async def test_output_events_are_emitted_in_order_with_their_kind(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    body = "import logging, sys\nlogging.error('l')\nprint('e', file=sys.stderr)\nprint('o')"
    source = "".join(f"{line}\n" for line in body.split("\n"))
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        await session.program(source=source, on_event=events.append)
    told = [(e.kind, e.text, e.call) for e in events if e.text]
    assert told == [
        ("log", "ERROR:root:l\n", None),
        ("stderr", "e\n", None),
        ("stdout", "o\n", None),
    ]


async def test_endless_emitting_breaches_its_limit(session: Session) -> None:
    result = await run(session, "while True: ctx.emit('x' * 10_000)", max_emit_bytes=100_000)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.code == "limit_max_emit_bytes"
    assert len(result.partial) == 9


async def test_call_over_the_limit_raises_and_the_script_can_return(session: Session) -> None:
    body = """
got = []
try:
    for n in range(100):
        got.append(ctx.add(n))
except ToolError as error:
    return [error.code, len(got), error.details]
"""
    result = await run(session, body, max_tool_calls=7)
    assert result.status == "completed", result.error
    assert result.value == ["limit_exceeded", 7, {"limit": "max_tool_calls", "most": 7, "used": 7}]
    assert [c.status for c in result.calls] == ["succeeded"] * 7 + ["not_started"]


async def test_uncaught_call_limit_error_ends_the_run_at_the_limit(session: Session) -> None:
    result = await run(session, "while True: ctx.add(1)", max_tool_calls=5)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert (result.error.code, result.error.line) == ("limit_max_tool_calls", 3)


async def test_parallel_calls_cannot_exceed_max_tool_calls(session: Session) -> None:
    body = """
results = await asyncio.gather(*(ctx.add(n) for n in range(300)), return_exceptions=True)
return sum(1 for r in results if isinstance(r, int))
"""
    result = await run(session, body, kind="async def", max_tool_calls=20)
    assert result.value == 20, result.error


async def test_script_that_keeps_calling_after_refusal_is_stopped(
    session: Session,
) -> None:
    body = """
while True:
    try:
        ctx.add(1)
    except ToolError:
        pass
"""
    result = await run(session, body, max_tool_calls=3, timeout_ms=20_000)
    assert result.status == "limit_exceeded"
    assert result.error is not None
    assert result.error.code == "limit_max_tool_calls"
    assert sum(c.status == "succeeded" for c in result.calls) == 3


async def test_result_over_the_limit_is_truncated_and_stored_whole(
    session: Session, tmp_path: Path
) -> None:
    body = "return {'n': 3, 'rows': [{'i': i, 'text': 'é' * 20} for i in range(2_000)]}"
    result = await run(session, body, max_output_bytes=4_000)
    assert result.status == "completed"
    assert result.value["n"] == 3
    assert result.value["rows"][0] == {"i": 0, "text": "é" * 20}
    assert "items left out" in result.value["rows"][-1]["…cut…"]
    assert len(json.dumps(result.value, ensure_ascii=False).encode()) <= 4_400
    assert result.cut is not None
    whole = json.loads(session.artifacts.path(result.cut.sha256).read_bytes())
    assert len(whole["rows"]) == 2_000
    assert session.artifacts.path(result.cut.sha256).is_relative_to(session.root)
    assert result.cut.bytes == result.usage.output_bytes > 4_000
    assert "it was truncated; the whole value is stored as sha256:" in result.warnings[0].message


async def test_result_at_the_limit_is_not_truncated(session: Session) -> None:
    exact = await run(session, "return 'x' * 998", max_output_bytes=1_000)
    over = await run(session, "return 'x' * 999", max_output_bytes=1_000)
    assert exact.cut is None
    assert exact.usage.output_bytes == 1_000
    assert over.cut is not None


async def test_a_tool_result_over_its_limit_is_an_error_of_that_call(session: Session) -> None:
    body = """
try:
    ctx.large(5_000)
except ToolError as error:
    return [error.code, len(ctx.large(100))]
"""
    result = await run(session, body, max_tool_result_bytes=1_000)
    assert result.value == ["result_too_large", 100]
    assert result.calls[0].error_code == "result_too_large"


async def test_error_message_length_is_bounded(session: Session) -> None:
    result = await run(session, "raise ValueError('x' * 50_000_000)")
    assert result.status == "failed"
    assert result.error is not None
    assert len(result.error.message) < 10_000


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
async def test_failing_scripts_do_not_disturb_concurrent_runs(
    tmp_path: Path,
) -> None:
    bodies = [
        "while True: pass",
        "return 10 ** 10 ** 8",
        "return 'x' * 10 ** 10",
        "def f(): return f()\n    f()",
        "raise SystemExit(3)",
    ]
    good = "def run(ctx, inputs):\n    return sum(ctx.add(n) for n in range(20))\n"
    outcomes: list[str] = []
    sums: list[Any] = []
    async with Session(tmp_path, tools=[add], toolsets=(), workers=3) as session:

        async def bad(start: int) -> None:
            for n in range(start, 50, 5):
                source = f"def run(ctx, inputs):\n    {bodies[n % 5]}\n"
                result = await session.program(source=source, limits=Limits(timeout_ms=150))
                outcomes.append(result.status)

        async def well() -> None:
            for _ in range(20):
                sums.append((await session.program(source=good)).value)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for start in range(5):
                    group.start_soon(bad, start)
                group.start_soon(well)
    assert len(outcomes) == 50
    assert set(outcomes) == {"timed_out", "limit_exceeded", "failed"}
    assert sums == [230] * 20
