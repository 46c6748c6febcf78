"""The check before a run refuses what is certain to fail, and nothing that may be meant."""

from __future__ import annotations

import ast
import textwrap

import pytest

from ptc._language._scopes import survey
from ptc.worker._context import Context
from ptc.worker._preflight import OWN, Signature, preflight

TOOLS = {
    "read": Signature(
        ("path", "limit"), frozenset({"path"}), True, {"limit": ("an integer", "tno")}
    ),
    "grep": Signature(("pattern",), ["pattern"], True, {"pattern": ("text", "ifbnlo")}),
    "log": Signature(("text",), ["text"], True, {}),
}


def findings(source: str) -> list[tuple[str, bool]]:
    tree = ast.parse(source)
    found = preflight(tree, source, TOOLS, survey(tree).read)
    return [(finding.code, finding.advisory) for finding in found]


def in_run(body: str, kind: str = "async def") -> str:
    return f"import asyncio\n{kind} run(ctx, inputs):\n" + textwrap.indent(
        textwrap.dedent(body).strip("\n"), "    "
    )


CERTAIN = {
    "in a line of its own": "return await ctx.raed('a')",
    "in a loop": "for path in inputs['paths']:\n    await ctx.raed(path)",
    "in an endless loop": "while True:\n    await ctx.raed('a')",
    "on data of a tool": "rows = await ctx.grep('x')\nif rows:\n    await ctx.raed(rows[0])",
    "after a test of data": (
        "rows = await ctx.grep('x')\nif not rows:\n    return 0\nawait ctx.raed('a')"
    ),
    "in a gather": "await asyncio.gather(*[ctx.read(pth=p) for p in inputs])",
    "with a time-out": "await asyncio.wait_for(ctx.read(pth='a'), 5)",
    "in a handler's try": "try:\n    await ctx.raed('a')\nexcept KeyError:\n    pass",
    "after a handled part": (
        "try:\n    int('a')\nexcept ValueError:\n    pass\nawait ctx.read(pth='a')"
    ),
    "in a finally": (
        "try:\n    int('a')\nexcept ValueError:\n    pass\nfinally:\n    await ctx.raed('a')"
    ),
    "in a helper": (
        "async def one(path):\n    return await ctx.read(pth=path)\nreturn await one('a')"
    ),
    "in a gathered helper": (
        "async def one(path):\n    return await ctx.read(pth=path)\n"
        "try:\n    int('a')\nexcept ValueError:\n    pass\n"
        "return await asyncio.gather(*(one(path) for path in inputs))"
    ),
    "in a helper that takes ctx": (
        "async def one(ctx, path):\n    return await ctx.read(pth=path)\nreturn await one(ctx, 'a')"
    ),
    "in a mapped helper": (
        "async def one(path):\n    return await ctx.read(pth=path)\n"
        "return await asyncio.gather(*map(one, inputs))"
    ),
    "in a lambda": "return await asyncio.gather(*map(lambda p: ctx.raed(p), inputs))",
    "beside a lock": "async with asyncio.Semaphore(2):\n    await ctx.raed('a')",
    "as a value": "return ctx.read('a')['text']",
    "as text": "return f'{ctx.read(\"a\")}'",
    "as an argument of a builtin": "return len(ctx.read('a'))",
    "as an argument of json": "import json\nreturn json.loads(ctx.read('a'))",
    "in a variable": "text = ctx.read('a')\nreturn len(text)",
    "in a variable with a type": (
        "import json\ntext: str = ctx.read('a')\nreturn json.loads(text)"
    ),
    "in a variable of a loop": (
        "import re\nfor path in inputs:\n    text = ctx.read(path)\n    re.findall('x', text)"
    ),
    "in a test": "if not ctx.read('a'):\n    return 1",
    "two values": "await ctx.read('a', path='b')",
    "too many": "await ctx.read('a', 1, 2)",
    "missing": "await ctx.read()",
    "a wrong type": "await ctx.read('a', limit='all')",
    "a wrong type by position": "await ctx.read('a', None)",
    "a wrong type in a dict": "await ctx.read({'path': 'a', 'limit': {}})",
    "a wrong type by name": "await ctx.call('grep', {'pattern': 3})",
    "an unknown name": "await ctx.call('gerp', {})",
    "a negative number": "await ctx.grep(-1)",
}  # fmt: skip


@pytest.mark.parametrize("name", list(CERTAIN))
def test_certain_error_refuses_the_script(name: str) -> None:
    found = findings(in_run(CERTAIN[name]))
    assert found
    assert not any(advisory for _, advisory in found), found


POSSIBLE = {
    "caught": "try:\n    await ctx.raed('a')\nexcept ToolError:\n    pass",
    "caught by all": "try:\n    await ctx.raed('a')\nexcept:\n    pass",
    "caught as one of several": (
        "try:\n    await ctx.raed('a')\nexcept (KeyError, AttributeError):\n    pass"
    ),
    "caught as a group": (
        "try:\n    async with asyncio.TaskGroup() as g:\n        g.create_task(ctx.raed('a'))\n"
        "except ExceptionGroup:\n    pass"
    ),
    "left by a finally": "try:\n    await ctx.raed('a')\nfinally:\n    return 1",
    "suppressed": (
        "import contextlib\nwith contextlib.suppress(Exception):\n    await ctx.raed('a')"
    ),
    "collected": "return await asyncio.gather(ctx.read(pth='a'), return_exceptions=True)",
    "collected by a variable": (
        "calls = [ctx.read(pth='a')]\nfor call in calls:\n    try:\n        await call\n"
        "    except ToolError:\n        pass"
    ),
    "waited for": "done, _ = await asyncio.wait([asyncio.create_task(one(ctx))])",
    "not awaited": "ctx.read(pth='a')\nreturn 1",
    "tested by hasattr": "if hasattr(ctx, 'raed'):\n    await ctx.raed('a')",
    "tested by dir": "if 'raed' in dir(ctx):\n    await ctx.raed('a')",
    "tested in an expression": "return await ctx.raed('a') if hasattr(ctx, 'raed') else 0",
    "tested before": "if not hasattr(ctx, 'raed'):\n    return 0\nreturn await ctx.raed('a')",
    "tested with and": "return hasattr(ctx, 'raed') and await ctx.raed('a')",
    "searched for": "found = await ctx.search_tools('x')\nif found:\n    await ctx.raed('a')",
    "an option": "if inputs.get('save'):\n    await ctx.raed('a')",
    "an option in a variable": (
        "dry = inputs.get('dry', True)\nif not dry:\n    await ctx.raed('a')"
    ),
    "an option of a function": (
        "async def save(path, dry):\n    if not dry:\n        await ctx.raed(path)\n"
        "await save('a', True)"
    ),
    "an option by match": (
        "match inputs['mode']:\n    case 'a':\n        await ctx.raed('a')\n    case _:\n"
        "        pass"
    ),
    "an option in a loop": (
        "for mode in inputs['modes']:\n    if mode == 'a':\n        await ctx.raed('a')"
    ),
    "an early exit": "if inputs.get('stop'):\n    return 0\nawait ctx.raed('a')",
    "switched off": "DEBUG = False\nif DEBUG:\n    await ctx.raed('a')",
    "after a return": "return 1\nawait ctx.raed('a')",
    "never called": "async def later():\n    await ctx.raed('a')\nreturn 1",
    "called in a try": (
        "async def one(path):\n    return await ctx.read(pth=path)\n"
        "try:\n    return await one('a')\nexcept ToolError:\n    return 0"
    ),
    "called twice removed in a try": (
        "async def one(path):\n    return await ctx.read(pth=path)\n"
        "async def two(path):\n    return await one(path)\n"
        "try:\n    return await two('a')\nexcept Exception:\n    return 0"
    ),
    "called by somebody else": (
        "async def one(path):\n    return await ctx.read(pth=path)\n"
        "async def retry(function):\n    try:\n        return await function('a')\n"
        "    except ToolError:\n        return 0\nreturn await retry(one)"
    ),
    "a lambda that is called by somebody else": (
        "async def retry(function):\n    try:\n        return await function()\n"
        "    except ToolError:\n        return 0\nreturn await retry(lambda: ctx.read(pth='a'))"
    ),
    "decorated": (
        "def quiet(function):\n    async def inner(path):\n        try:\n"
        "            return await function(path)\n        except Exception:\n            return 0\n"
        "    return inner\n@quiet\nasync def one(path):\n    return await ctx.read(pth=path)\n"
        "return await one('a')"
    ),
    "a task that nobody awaits": (
        "async def one():\n    await ctx.raed('a')\nasyncio.create_task(one())\nreturn 1"
    ),
    "another ctx": (
        "def width(ctx):\n    return ctx.width\n"
        "class Box:\n    width = 3\nreturn width(Box())"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(POSSIBLE))
def test_script_that_may_survive_an_error_is_only_advised(name: str) -> None:
    body = POSSIBLE[name].replace("one(ctx)", "ctx.read(pth='a')")
    found = findings(in_run(body))
    assert all(advisory for _, advisory in found), found
    if name != "waited for":
        assert found


SILENT = {
    "a variable that is awaited": "text = ctx.read('a')\ntext = await text\nreturn len(text)",
    "a variable that may be something else": (
        "text = ctx.read('a')\nif text.done():\n    text = 'b'\nreturn len(text)"
    ),
    "a variable of another function": (
        "text = ctx.read('a')\ndef width(text):\n    return len(text)\nreturn width(await text)"
    ),
    "a variable in a list": "text = ctx.read('a')\nreturn len([text]), await text",
    "a gathered variable": (
        "a = ctx.read('a')\nb = ctx.read('b')\nreturn list(await asyncio.gather(a, b))"
    ),
    "a task of a variable": (
        "a = ctx.read('a')\nt = asyncio.create_task(one(a))\nawait asyncio.wait({a})\n"
        "return await t"
    ),
    "a call in a thread": (
        "def work(path):\n    text = ctx.read(path)\n    return len(text) + len(ctx.read(path))\n"
        "return await asyncio.to_thread(work, 'a')"
    ),
    "a lambda in a thread": "return await asyncio.to_thread(lambda: ctx.read('a')[0])",
    "a converted call": "import json\na = ctx.read('a')\nreturn json.dumps(a, default=repr)",
    "own functions": (
        "ctx.log('a', 1)\nctx.emit(1)\nctx.progress(1, 2)\nreturn ctx.budget.tool_calls"
    ),
    "an attachment": "ctx.attach('a.txt', 'text')",
    "a task": "call = ctx.read('a')\ncall.add_done_callback(print)\ncall.cancel()",
    "its repr": "return f'{ctx.read(\"a\")!r}'",
    "a number as text": "await ctx.read('a', limit='10')",
    "an unknown value": "await ctx.read('a', limit=inputs['n'])",
    "a computed name": "return await ctx.call('re' + 'ad', {'pth': 1})",
    "another object": "ctx = inputs\nreturn ctx.raed",
    "a function of that name": "def ctx(): ...\nreturn ctx.raed",
}  # fmt: skip


@pytest.mark.parametrize("name", list(SILENT))
def test_correct_use_has_no_finding(name: str) -> None:
    assert findings(in_run(SILENT[name])) == []


def test_blocking_call_fails_where_it_is_made() -> None:
    assert findings(in_run("x = ctx.read(pth='a')", "def")) == [
        ("missing_argument", False),
        ("unknown_argument", False),
    ]
    assert findings("x = ctx.read(pth='a')\nx") == [
        ("missing_argument", False),
        ("unknown_argument", False),
    ]


def test_top_level_script_that_awaits_makes_promises() -> None:
    assert findings("rows = ctx.grep('a')\nprint(rows[0])") == []
    assert findings("a = await ctx.read('a')\nprint(ctx.grep('a')[0])") == [
        ("missing_await", False)
    ]


def test_top_level_function_is_certain_if_asyncio_runs_it() -> None:
    source = (
        "import asyncio\nasync def main():\n    await ctx.raed('a')\n"
        "try:\n    int('a')\nexcept ValueError:\n    pass\nasyncio.run(main())"
    )
    assert findings(source) == [("unknown_tool", False)]


def test_decorated_run_may_handle_its_errors() -> None:
    source = "@wrap\nasync def run(ctx, inputs):\n    await ctx.raed('a')"
    assert findings(source) == [("unknown_tool", True)]


def test_the_check_knows_every_attribute_of_ctx() -> None:
    assert {name for name in dir(Context) if not name.startswith("_")} == OWN
