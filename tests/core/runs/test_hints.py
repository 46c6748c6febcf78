"""Hints in the errors of scripts: each says how to repair the mistake."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ptc import Session, tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f'["{path}"]'


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[read], toolsets=(), workers=1) as opened:
        yield opened


async def hint_of(session: Session, source: str) -> str:
    result = await session.program(source=source)
    assert result.error is not None, result.value
    return result.error.hint


@pytest.mark.parametrize(
    "body",
    [
        "calls = [ctx.read('a'), ctx.read('b')]\n    return ','.join(calls)",
        "table = {}\n    table['a'] = ctx.read('a')\n    return json.loads(table['a'])",
        "text = ctx.read('a')\n    texts = text,\n    return json.dumps(texts)",
        "text = ctx.read('a')\n    def width(x):\n        return int(x)\n    return width(text)",
    ],
)
async def test_call_used_as_a_value_is_hinted_with_its_tool(session: Session, body: str) -> None:
    source = f"import json\nasync def run(ctx, inputs):\n    {body}\n"
    assert (await hint_of(session, source)).startswith("write `await ctx.read(...)`")


async def test_call_used_as_a_value_is_hinted_without_a_variable(session: Session) -> None:
    source = "async def run(ctx, inputs):\n    return ','.join([ctx.read('a')])\n"
    assert (await hint_of(session, source)).startswith("write `await ctx.tool(...)`")
