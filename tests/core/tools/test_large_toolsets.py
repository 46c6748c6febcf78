"""Thousands of tools: little work for each definition and run, a bounded text for models."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ptc import Allow, Session, Tool, define_tool, tool
from ptc._core._deferred import Deferred, copy_with, peek
from ptc._tools._listing import TOOLS_CHARS, describe_tools
from ptc._tools._names import list_within
from ptc._tools._table import ToolTable, read_record

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


async def find(query: str, limit: int = 10) -> list[str]:
    """Find records.

    Args:
        query: Words.
        limit: Most records.
    """
    return [query] * limit


FIND = tool(find)


def make_tools(count: int, in_each: int = 25, summary: str = "Find records.") -> list[Tool]:
    return [
        copy_with(FIND, name=f"service_{n // in_each}.find_{n}", description=summary)
        for n in range(count)
    ]


TOOLS = [tool(name=f"service_{n // 25}.find_{n}")(find) for n in range(500)]


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session(tmp_path, tools=TOOLS, toolsets=(), workers=1) as session:
        yield session


# --- the text for a model ------------------------------------------------------------------------


def test_few_tools_are_described_by_stubs_and_more_by_their_summaries() -> None:
    assert "async def find_7(" in describe_tools(make_tools(20))
    text = describe_tools(make_tools(100, summary=f"Find records. {'x' * 600}"))
    assert "async def" not in text
    assert "# ctx.service_0.find_7: Find records." in text
    assert text.startswith("# 100 tools: too many to show their parameters.")


def test_names_of_a_thousand_tools_are_grouped_by_namespace() -> None:
    text = describe_tools(make_tools(1_000))
    assert len(text) <= TOOLS_CHARS
    assert "\n# ctx.service_3 (25): find_75, find_76, " in text
    assert all(f"find_{n}" in text for n in range(1_000))
    assert "ctx.search_tools(" in text


@pytest.mark.parametrize("in_each", [1, 10, 5_000])
def test_list_of_any_number_of_tools_is_bounded_and_counts_the_others(in_each: int) -> None:
    tools = make_tools(5_000, in_each)
    text = describe_tools(tools)
    assert 0.8 * TOOLS_CHARS < len(text) <= TOOLS_CHARS
    (more,) = re.findall(r"and ([\d,]+) more", text)[-1:]
    if in_each == 5_000:
        assert text.count("find_") + int(more.replace(",", "")) == 5_000
    compile(text, "listing", "exec")


def test_names_that_only_ctx_call_accepts_are_listed_as_its_argument() -> None:
    with pytest.warns(UserWarning, match="cannot be a method of ctx"):
        odd = define_tool("crm-find", "Find.", {"type": "object"}, lambda arguments: arguments)
    call = '# ctx.call("crm-find", {...}): Find.'
    assert call in describe_tools([odd, *make_tools(100)], 10_000)
    assert '# ctx.call(name, {...}) (1): "crm-find".' in describe_tools([odd, *make_tools(900)])


@pytest.mark.parametrize("room", [3, 20, 21, 30, 10_000])
def test_as_many_names_as_fit_are_listed(room: int) -> None:
    names = [f"n{number}" for number in range(100)]
    text = list_within(names, room)
    assert len(text) < max(room, 5)
    shown = text.count("n") - (" and " in text)
    rest = re.search(r"and (\d+) more", text)
    assert shown + (int(rest[1]) if rest else 0) == (100 if shown else 0)


async def test_describing_and_running_scripts_derives_no_other_schema(session: Session) -> None:
    def derived() -> set[str]:
        return {one.name for one in TOOLS if not isinstance(peek(one, "parameters"), Deferred)}

    before = derived()
    session.program_definition("anthropic")
    session.describe_tools()
    result = await session.program(source="return_value = 1\nreturn_value")
    assert result.value == 1
    # The first tool is that of the example.
    assert derived() - before <= {"service_0.find_0"}


# --- scripts -------------------------------------------------------------------------------------


async def test_script_calls_tools_by_names_that_it_computes(session: Session) -> None:
    source = """
async def run(ctx, inputs):
    namespace = getattr(ctx, "serv" + "ice_19")
    first = await getattr(namespace, "find_" + str(499))("x", 2)
    second = await ctx.call("service_1." + "find_30", {"query": "y", "limit": 1})
    third = await getattr(ctx.tools, "service_" + "2").find_50({"query": "z", "limit": 1})
    return [first, second, third, len(dir(namespace)), len([n for n in dir(ctx) if "_" in n])]
"""
    for _ in range(2):  # the second time from the cache
        result = await session.program(source=source)
        assert result.ok, result.error
        assert result.value == [["x", "x"], ["y"], ["z"], 25, 20 + len(["search_tools"])]


async def test_script_follows_the_listing_to_a_signature(session: Session) -> None:
    listing = session.describe_tools()
    body = re.findall(r"^#   (.*?)(?:  #.*)?$", listing, re.MULTILINE)
    source = "async def run(ctx, inputs):\n    " + "\n    ".join(body)
    allowed = ["service_2.*", "service_3.find_75"]
    result = await session.program(
        source=source.replace("words of the task", "find 75 60 records"), allowed_tools=allowed
    )
    assert result.ok, result.error
    found = re.findall(r"async def (\w+)\(query: str, limit: int = 10\)", "".join(result.value))
    assert found[:2] == ["find_75", "find_60"] or found[:2] == ["find_60", "find_75"]
    assert len(found) == 5
    assert {int(name.removeprefix("find_")) for name in found} <= {*range(50, 75), 75}


async def test_wrong_call_among_many_tools_is_refused_with_a_bounded_message(
    session: Session,
) -> None:
    wrong = await session.program(source="await ctx.service_0.find_3('x', words='x')")
    assert wrong.status == "rejected"
    assert wrong.error is not None
    assert "service_0.find_3 has no parameter 'words'" in wrong.error.message
    unknown = await session.program(source="await ctx.service_0.fnd_499()")
    assert unknown.status == "rejected"
    assert unknown.error is not None
    assert "more; find them with ctx.search_tools" in unknown.error.message
    assert "did you mean" in unknown.error.hint
    computed = await session.program(source="await ctx.call('service_' + '0.fnd')")
    assert computed.error is not None
    assert "there is no tool 'service_0.fnd'" in computed.error.message
    assert len(computed.error.message) < 2_500


# --- allow-lists ---------------------------------------------------------------------------------


async def test_runs_with_the_same_allow_list_share_their_table(session: Session) -> None:
    catalog = session._catalog
    rule = Allow("service_0.find_0", query="x")
    assert catalog.table(["service_0.*", rule]) is catalog.table(("service_0.*", rule))
    assert catalog.table(["service_0.*"]) is not catalog.table(["service_1.*"])
    other = Allow("service_0.find_0", query="x")
    assert catalog.table([rule]) is not catalog.table([other])


async def test_changing_a_selection_does_not_widen_an_allow_list(session: Session) -> None:
    allowed = ["service_0.find_0"]
    session.select_tools(allowed).update(session.select_tools(["service_0.find_1"]))
    source = "await ctx.call('service_0.' + 'find_1', {'query': 'x'})"
    result = await session.program(source=source, allowed_tools=allowed)
    assert result.error is not None
    assert "'service_0.find_1' is not allowed in this run" in result.error.message


def test_record_of_many_tools_is_short_and_complete() -> None:
    for count in (3, 1_000):
        table = ToolTable({made.name: made for made in make_tools(count)})
        data = json.loads(table.record)
        assert read_record(data) == {name: ["query", "limit"] for name in table.tools}
        assert len(table.record) < 12_000


async def test_run_with_many_tools_is_resumed_and_retried(session: Session) -> None:
    source = "await ctx.service_1.find_33(query='x', limit=1)"
    first = await session.program(source=source)
    again = await session.retry(first.run_id)
    assert (first.value, again.value) == (["x"], ["x"]), again.error
