"""Coroutines of a script that are never awaited: the warning of CPython."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ptc import Session

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, toolsets=(), workers=1) as opened:
        yield opened


HEAD = "import asyncio, warnings\nasync def f(): return {}\n"


@pytest.mark.parametrize(
    ("body", "line", "name"),
    [
        ("async def run(ctx, inputs):\n    f()\n", 4, "f"),
        ("async def run(ctx, inputs):\n    asyncio.sleep(1)\n    return 1\n", 4, "sleep"),
        ("async def run(ctx, inputs):\n    asyncio.to_thread(len, '')\n", 4, "to_thread"),
        ("def run(ctx, inputs):\n    f()\n", 4, "f"),
        # Dropped where no line of the script runs: the line of the function.
        ("async def run(ctx, inputs):\n    kept = f()\n", 2, "f"),
        ("kept = f()\n1\n", 2, "f"),
        ("class A:\n    async def _g(self): ...\ndef run(ctx, inputs):\n    A()._g()\n", 6, "A._g"),
        ("async def run(ctx, inputs):\n    return f()['key']\n", 4, "f"),
        ("async def run(ctx, inputs):\n    data = f()\n    return data['key']\n", 2, "f"),
        ("async def run(ctx, inputs):\n    main = f()\n    asyncio.run(main)\n", 2, "f"),
    ],
)
async def test_coroutine_that_is_never_awaited_is_reported(
    session: Session, body: str, line: int, name: str
) -> None:
    result = await session.program(source=HEAD + body)
    warning = f"script.py:{line}: RuntimeWarning: coroutine '{name}' was never awaited\n"
    assert result.stderr == warning


async def test_awaited_coroutines_are_not_reported(session: Session) -> None:
    source = f"""{HEAD}
async def run(ctx, inputs):
    await f()
    await asyncio.gather(f(), f())
    asyncio.create_task(f())
    f().close()
    await asyncio.wait_for(f(), 1)
"""
    result = await session.program(source=source)
    assert (result.status, result.stderr) == ("completed", "")


async def test_filters_of_the_script_apply(session: Session) -> None:
    source = f"""{HEAD}
def run(ctx, inputs):
    with warnings.catch_warnings(record=True) as found:
        f()
    warnings.simplefilter("ignore")
    f()
    return [str(each.message) for each in found]
"""
    result = await session.program(source=source)
    assert (result.value, result.stderr) == (["coroutine 'f' was never awaited"], "")
