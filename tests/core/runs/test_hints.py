"""Hints in the errors of scripts: each says how to repair the mistake."""

from __future__ import annotations

import sys
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


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("from ptc import ToolError\n1", "ToolError needs no import in a script"),
        ("from ptc import ToolError, ctx\n1", "ToolError, ctx need no import in a script"),
        ("from ptc.errors import ToolError\n1", "ToolError needs no import in a script"),
        ("from errors import TimeoutError\n1", "TimeoutError needs no import in a script"),
        ("from asyncio import ToolError\n1", "ToolError needs no import in a script"),
        ("import ptc\n1", "`ctx`, `inputs` and ToolError need no import in a script"),
        ("from ptc_tools import read\n1", "tools are methods of `ctx`: `await ctx.name(...)`"),
        ("from requests import ToolError\n1", "ToolError needs no import in a script"),
    ],
)
async def test_import_of_a_name_that_scripts_have_is_hinted(
    session: Session, source: str, hint: str
) -> None:
    assert await hint_of(session, source) == hint


@pytest.mark.parametrize(
    ("source", "advised"),
    [
        ("def run(n, name):\n    return name", True),
        ("async def run(file_name, limit=3):\n    return [file_name, limit]", True),
        ("async def run(c, data):\n    return await c.read(data['path'])", False),
        ("async def run(context, data):\n    return 1", False),
        ("async def run(ctx, data):\n    return data", False),
        ("def run(_, data):\n    return data", False),
        ("def run(anything):\n    return 1", False),
    ],
)
async def test_parameters_of_run_named_like_inputs_are_advised(
    session: Session, source: str, advised: bool
) -> None:
    found = await session.check(source=source)
    assert [(each.code, each.advisory) for each in found] == [("run_parameters", True)] * advised
    if "(n, name)" in source:
        warnings = (await session.program(source=source, inputs={"n": 1, "name": "a"})).warnings
        assert warnings[0].code == "run_parameters"
        assert "read inputs['n'] and inputs['name']" in warnings[0].message


async def test_methods_of_such_a_parameter_do_not_hide_the_advice(session: Session) -> None:
    found = await session.check(source="def run(path, limit):\n    return path.strip()")
    assert [each.code for each in found] == ["run_parameters", "unknown_tool"]


BY_NAME = 'write ctx.call("name", {"key": value}) or ctx.name(key=value)'


@pytest.mark.parametrize("call", ["call_tool('read', path='a')", "call('read', path='a')"])
async def test_call_by_name_in_another_form_is_hinted(session: Session, call: str) -> None:
    assert await hint_of(session, f"await ctx.{call}") == BY_NAME


async def test_call_by_name_with_keywords_reports_the_form_at_run_time(session: Session) -> None:
    result = await session.program(source="call = ctx.call\nawait call('read', path='a')")
    assert result.error is not None
    assert result.error.message.endswith(f"takes a dict of arguments: {BY_NAME}")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="such quotes are legal")
@pytest.mark.parametrize(
    "text",
    ['f"{inputs["n"]}"', 'f"{inputs.get("n")}"', 'f"{", ".join(inputs)}"', "f'n: {inputs['n']}'"],
)
async def test_quotes_inside_an_fstring_are_hinted(session: Session, text: str) -> None:
    hint = "before Python 3.12 use the other kind of quotes inside an f-string"
    assert await hint_of(session, text) == hint
    assert await hint_of(session, 'f"{inputs"') == ""


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        (
            "async def run(ctx, inputs):\n    return 1\nresult = await run(ctx, inputs)",
            "the host calls run(ctx, inputs): remove this line",
        ),
        (
            "async def run(ctx, inputs):\n    return 1\ntext = await ctx.read('a')",
            "move it into `async def run(ctx, inputs)`, which the host calls",
        ),
        (
            "def run(ctx, inputs):\n    return await ctx.read('a')",
            "write `async def` for the function around it",
        ),
    ],
)
async def test_await_outside_a_function_is_hinted(session: Session, source: str, hint: str) -> None:
    assert await hint_of(session, source) == hint
