"""Top-level scripts, without `run`; the parameters of `run`, and exits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptc import RunResult, Session, tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@tool
async def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[add], toolsets=(), workers=1) as opened:
        yield opened


async def run(session: Session, source: str) -> RunResult:
    return await session.program(source=source, inputs={"n": 3})


MAIN = "import asyncio\nasync def main():\n    return await ctx.add(5)\n"


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("1 + 1", 2),
        ("x = await ctx.add(inputs['n'])\nx", 4),
        ("ctx.add(3)", 4),
        ("[await ctx.add(i) for i in range(3)]", [1, 2, 3]),
        ("import asyncio\nsum(await asyncio.gather(*[ctx.add(i) for i in range(3)]))", 6),
        ("import asyncio\nasync def main():\n    return await ctx.add(5)\nasyncio.run(main())", 6),
        ("async def main():\n    return await ctx.add(5)\nmain()", 6),
        ("if __name__ == '__main__':\n    x = 7\nx", 7),
        ("for i in range(2):\n    await ctx.add(i)", None),
        ("x = await ctx.add(5)", 6),
        ("x = 3", 3),
        ("x: int = 3", 3),
        ("x = [1]\nx += [2]", [1, 2]),
        ("a, *b = [1, 2, 3]", [1, [2, 3]]),
        ("found = {}\nfound['x'] = [1]", [1]),
        ("_x = y = 4", 4),
        ("if inputs['n'] > 2:\n    size = 'big'\nelse:\n    size = 'small'", "big"),
        ("try:\n    x = 1 / 0\nexcept ZeroDivisionError:\n    x = None", None),
        ("match inputs:\n    case {'n': n}:\n        x = n", 3),
        ("'Docstring.'\nx = 1", 1),
        ("total = 0\nfor i in [1, 2]:\n    total += i", None),
        ("x = 1\nif x:\n    print(x)", None),
        ("def main():\n    return 5\nif __name__ == '__main__':\n    main()", 5),
        (f"{MAIN}if __name__ == '__main__':\n    asyncio.run(main())", 6),
        (f"{MAIN}if __name__ == '__main__':\n    main()", 6),
        ("if inputs['n'] > 5:\n    'big'\nelif inputs['n'] > 2:\n    'small'", "small"),
        ("if inputs['n'] > 5:\n    'big'", None),
        ("try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    str(error)", "division by zero"),
        ("try:\n    x = 1\nexcept KeyError:\n    x = 2\nelse:\n    x + 1", 2),
        ("import contextlib\nwith contextlib.nullcontext(3) as x:\n    x * 2", 6),
        ("match inputs['n']:\n    case 3:\n        await ctx.add(3)", 4),
        ("import sys\nif inputs:\n    main = 7\n    main\n    sys.exit(0)", 7),
        ("class A:\n    x = 1\ny = A.x", 1),
    ],
)
async def test_top_level_script_returns_its_last_expression(
    session: Session, source: str, value: Any
) -> None:
    result = await run(session, source)
    assert (result.status, result.value) == ("completed", value), result.error


async def test_final_assignment_gives_an_advisory_finding(session: Session) -> None:
    (finding,) = await session.check(source="x = 1\ny = await ctx.add(x)\n")
    assert (finding.code, finding.advisory, finding.line) == ("ends_in_assignment", True, 2)
    assert finding.message == "the script ends in an assignment: its value is that of y"
    assert not await session.check(source="x = 1\nx")


LATER = """
import asyncio
async def later(n):
    await asyncio.sleep(0.001)
    return await ctx.add(n)
"""


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("async def run():\n    return asyncio.gather(later(1), later(2))", [2, 3]),
        ("async def run():\n    return asyncio.gather(ctx.add(1), ctx.add(2))", [2, 3]),
        ("async def run():\n    return asyncio.create_task(later(1))", 2),
        ("async def run():\n    return asyncio.ensure_future(later(1))", 2),
        ("async def run():\n    return asyncio.shield(later(1))", 2),
        ("async def run():\n    return ctx.add(1)", 2),
        ("async def run():\n    return later(1)", 2),
        ("def run():\n    return asyncio.gather(later(1), later(2))", [2, 3]),
        ("def run():\n    return later(1)", 2),
        ("await ctx.add(0)\nasyncio.gather(later(1), later(2))", [2, 3]),
        ("await ctx.add(0)\nfound = asyncio.create_task(later(1))", 2),
        ("asyncio.gather(later(1), later(2))", [2, 3]),
    ],
)
async def test_value_that_was_not_awaited_is_awaited(
    session: Session, source: str, value: Any
) -> None:
    result = await run(session, LATER + source)
    assert (result.status, result.value) == ("completed", value), result.error
    assert result.warnings == ()


async def test_error_of_a_value_that_was_not_awaited_fails_the_run(session: Session) -> None:
    source = "async def fail():\n    raise ValueError('no')\nasync def run():\n    return "
    result = await run(session, f"{LATER}{source}asyncio.gather(fail())")
    assert result.error is not None
    assert (result.status, result.error.message) == ("failed", "ValueError: no")
    result = await run(session, "async def run():\n    return ctx.add('x')")
    assert result.error is not None
    assert (result.error.code, result.error.line) == ("tool_error", 2)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("def run():\n    return ctx.add(inputs['n'])", 4),
        ("async def run():\n    return await ctx.add(1)", 2),
        ("def run(context):\n    return context.add(1)", 2),
        ("def run(inputs):\n    return [inputs, ctx.add(1)]", [{"n": 3}, 2]),
        ("def run(inputs, ctx):\n    return ctx.add(inputs['n'])", 4),
        ("async def run(*, inputs, ctx):\n    return await ctx.add(inputs['n'])", 4),
        ("def run(ctx, inputs, more=1):\n    return [inputs, more]", [{"n": 3}, 1]),
        ("def run(*given):\n    return len(given)", 2),
        ("def run(ctx=None, inputs=None):\n    return inputs['n']", 3),
    ],
)
async def test_run_is_called_with_the_parameters_that_it_takes(
    session: Session, source: str, value: Any
) -> None:
    result = await run(session, source)
    assert (result.status, result.value) == ("completed", value), result.error


async def test_check_finds_calls_on_ctx_under_each_signature_of_run(session: Session) -> None:
    for parameters in ("", "ctx", "inputs", "inputs, ctx", "*, ctx"):
        source = f"async def run({parameters}):\n    return await ctx.sub(1)"
        findings = await session.check(source=source)
        assert [finding.code for finding in findings] == ["unknown_tool"], parameters


ASYNC_EXIT = """
import asyncio, sys
async def stop():
    await asyncio.sleep(0)
    sys.exit({code})
async def wait():
    try:
        await asyncio.sleep(1000)
    finally:
        print("cancelled")
async def run(ctx, inputs):
    ctx.add(5)
    await asyncio.gather(stop(), wait())
"""


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("import sys\nr = await ctx.add(1)\nsys.exit(0)", 2),
        ("import sys\nr = await ctx.add(1)\nsys.exit()", 2),
        ("r = [1]\nraise SystemExit", [1]),
        ("r = [1]\nexit(0)", [1]),
        ("import sys\nif inputs:\n    r = 1\n    sys.exit()\nr = 2", None),
        ("def main():\n    return 0\nif __name__ == '__main__':\n    exit(main())", None),
        ("import sys\ndef run(ctx, inputs):\n    ctx.add(1)\n    sys.exit(False)", None),
        ("async def run(ctx, inputs):\n    await ctx.add(1)\n    raise SystemExit(0)", None),
        (ASYNC_EXIT.format(code=0), None),
    ],
)  # fmt: skip
async def test_exit_without_a_code_completes_the_run(
    session: Session, source: str, value: Any
) -> None:
    result = await run(session, source)
    assert (result.status, result.value) == ("completed", value), result.error
    assert all(call.status == "succeeded" for call in result.calls)


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("import sys\nsys.exit(1)", 2, "SystemExit: 1"),
        ("import sys\ndef run(ctx, inputs):\n    sys.exit('no rows')", 3, "SystemExit: no rows"),
        ("def run(ctx, inputs):\n    raise SystemExit([])", 2, "SystemExit: []"),
        (ASYNC_EXIT.format(code=7), 5, "SystemExit: 7"),
    ],
)
async def test_exit_with_a_code_fails_the_run_at_its_line(
    session: Session, source: str, line: int, message: str
) -> None:
    result = await run(session, source)
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error.code, result.error.type) == ("exit", "SystemExit")
    assert (result.error.line, result.error.message) == (line, message)


async def test_exit_cancels_and_awaits_the_other_tasks(session: Session) -> None:
    result = await run(session, ASYNC_EXIT.format(code=0))
    assert result.stdout == "cancelled\n"
    assert [call.tool for call in result.calls] == ["add"]


async def test_value_without_json_form_is_reported_at_its_return(session: Session) -> None:
    source = "def run(ctx, inputs):\n    if inputs['n'] > 2:\n        return object()\n    return 1"
    result = await run(session, source)
    assert [(warning.path, warning.line) for warning in result.warnings] == [("result", 3)]
    result = await run(session, "x = 1\n[x, object()]\n")
    assert [(warning.path, warning.line) for warning in result.warnings] == [("result[1]", 2)]


async def test_error_of_a_value_is_reported_at_its_return(tmp_path: Path) -> None:
    source = "def run(ctx, inputs):\n    if inputs['n'] > 2:\n        return nan\n    return 1"
    async with Session(tmp_path, toolsets=(), workers=1, non_finite="error") as session:
        result = await run(session, f"from math import nan\n{source}")
        assert result.error is not None
        assert (result.error.code, result.error.line, result.error.column) == ("not_json", 4, 16)
        result = await run(session, "x = float('nan')\n[x, 1]\n")
        assert result.error is not None
        assert (result.error.line, result.error.excerpt) == (2, "[x, 1]\n^^^^^^")


async def test_cached_top_level_script_runs_again(tmp_path: Path) -> None:
    source = "y = await ctx.add(1)\ny * 10"
    async with Session(tmp_path, tools=[add], toolsets=(), workers=1) as session:
        values = [(await session.program(source=source)).value for _ in range(3)]
    assert values == [20, 20, 20]


async def test_misnamed_entry_point_is_rejected_with_a_rename_hint(session: Session) -> None:
    result = await run(session, "LIMIT = 3\nasync def main(ctx, inputs):\n    return 1\n")
    assert result.status == "rejected"
    assert result.error is not None
    assert result.error.hint == "rename `main` to `run`: it is called with (ctx, inputs)"


async def test_run_executes_once_even_if_the_script_calls_it_itself(
    session: Session,
) -> None:
    source = """
import asyncio
async def run(ctx, inputs):
    return await ctx.add(1)
if __name__ == "__main__":
    asyncio.run(run(ctx, inputs))
"""
    result = await run(session, source)
    assert result.value == 2
    assert len(result.calls) == 1


async def test_error_in_top_level_script_has_its_line_number(session: Session) -> None:
    result = await run(session, "x = await ctx.add(1)\nx / 0\n")
    assert result.error is not None
    assert (result.error.type, result.error.line) == ("ZeroDivisionError", 2)


async def test_asyncio_run_in_a_running_loop_suggests_await(session: Session) -> None:
    source = (
        "import asyncio\nasync def f():\n    return 1\n"
        "async def run(ctx, inputs):\n    return asyncio.run(f())\n"
    )
    result = await run(session, source)
    assert result.error is not None
    assert "write `await main()`" in result.error.message
