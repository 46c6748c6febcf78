"""An allow-list also holds for the calls that tools make, whichever tool makes them.

Tools that can call others are found by introspection. Each needs a driver here: the arguments with
which a caller lets it make a call.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from typing import Any

import pytest

from ptc import Allow, Session, Tool, Toolset

from .tool_callers import modules_with_powers, powers_of, reached_files

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

Arguments = dict[str, Any]
ROOT = Path(__file__).parents[2]

DRIVERS: dict[str, Callable[[str, Arguments], Arguments]] = {
    "batch": lambda name, arguments: {"calls": [{"tool": name, "arguments": arguments}]},
    "program": lambda name, arguments: {
        "source": "async def run(ctx, inputs):\n    return await ctx.call(*inputs['call'])",
        "inputs": {"call": [name, arguments]},
    },
    "tool": lambda name, arguments: {"name": name, "arguments": arguments},
}
"""Tools that call tools -> the arguments with which they make a call."""

CALL: Arguments = {"path": "planted.txt", "content": "planted"}
"""A call of `write` that no allow-list below permits."""

DOORS = {
    "bindings/ptc_bindings/_export.py": "bindings/test_export.py",
    "bindings/ptc_bindings/_mcp_programs.py": "bindings/test_mcp.py",
    "bindings/ptc_bindings/_mcp_server.py": "bindings/test_mcp.py",
    "bindings/ptc_bindings/_pydantic_ai_tools.py": "frameworks/test_pydantic_ai.py",
    "bindings/ptc_bindings/functions.py": "bindings/test_functions.py",
    "ptc/_calls/_services.py": "core/calls/test_dispatch.py",
    "ptc/_cli/_doctor.py": "cli/test_commands.py",
    "ptc/_cli/_run.py": "cli/test_run.py",
    "ptc/_runs/_nested_programs.py": "core/runs/test_nested_programs.py",
    "ptc/_session/_blocking.py": "core/test_session.py",
    "ptc/_session/_session.py": "core/test_session.py",
    "ptc/_tools/_context.py": "core/calls/test_dispatch.py",
}
"""Modules that call tools, or run scripts, but not for a tool of ptc -> their tests."""


def entries() -> list[EntryPoint]:
    """Return the toolsets that the project installs."""
    return sorted(distribution("ptc-host").entry_points.select(group="ptc.toolsets"))


def build(entry: EntryPoint) -> Toolset:
    """Create a toolset with every optional tool in it."""
    factory = entry.load()
    more = {"network", "git_writes"} & inspect.signature(factory).parameters.keys()
    built = factory(**dict.fromkeys(more, True))
    assert isinstance(built, Toolset)
    return built


async def answer(_messages: Any) -> str:
    return "1"


def all_tools(session: Session) -> dict[str, Tool]:
    """Return every tool of a session, also those that only applications may call."""
    hosted = {name: make(None, None) for name, make in session._direct._host_tools.items()}
    return {**session._catalog.tools, **hosted}


def create(entry: EntryPoint, root: Path) -> Session:
    """Create a session with a toolset, and with everything that a session adds."""
    tools = [build(entry)]
    return Session(root, toolsets=(), tools=tools, model=answer, journal=":memory:", workers=1)


@pytest.fixture(scope="module", params=entries(), ids=lambda entry: entry.name)
async def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_zygote: None
) -> AsyncIterator[Session]:
    async with create(request.param, tmp_path_factory.mktemp("root")) as opened:
        yield opened


def callers(session: Session) -> list[str]:
    """Return the tools that can call tools."""
    return [name for name, item in all_tools(session).items() if powers_of(item)]


def planted(session: Session) -> list[str]:
    """Return the files in the root."""
    ignored = session.root / ".ptc"
    files = (p for p in session.root.rglob("*") if p.is_file() and ignored not in p.parents)
    return sorted(str(path.relative_to(session.root)) for path in files)


async def drive(
    session: Session,
    chain: Sequence[str],
    name: str,
    arguments: Arguments,
    allowed: Sequence[str | Allow] = (),
) -> None:
    """Let the first tool of a chain call the second, and so on; the last one calls `name`.

    The tools of the chain are allowed, too. Only applications may call `program`.
    """
    entries = [*allowed, *(caller for caller in chain if caller != "program")]
    for caller in reversed(chain):
        name, arguments = caller, DRIVERS[caller](name, arguments)
    await session.tool(name, arguments, allowed_tools=entries)


def test_every_tool_that_can_call_tools_has_a_driver(session: Session) -> None:
    assert sorted(set(callers(session)) - DRIVERS.keys()) == []


async def test_allow_list_without_write_holds_for_every_tool_that_calls_tools(
    session: Session,
) -> None:
    known = all_tools(session)
    for caller in callers(session):
        for name, item in known.items():
            if item.side_effect and name != caller:
                arguments = CALL if name in ("write", "writeFile") else {}
                await drive(session, [caller], name, arguments, ["read"])
        assert planted(session) == [], caller


async def test_allow_list_holds_through_two_tools_that_call_tools(session: Session) -> None:
    for chain in itertools.product(callers(session), repeat=2):
        if chain[1] != "program":
            await drive(session, chain, "write", CALL, ["read"])
            assert planted(session) == [], chain


async def test_rule_on_arguments_holds_for_every_tool_that_calls_tools(session: Session) -> None:
    rule = Allow("write", path="allowed-*")
    for caller in callers(session):
        await drive(session, [caller], "write", CALL, [rule])
        assert planted(session) == [], caller
        # This call shows that the driver works.
        file = f"allowed-{caller}"
        await drive(session, [caller], "write", {"path": file, "content": ""}, [rule])
        assert planted(session) == [file]
        (session.root / file).unlink()


def test_every_module_that_calls_tools_belongs_to_a_tool_with_a_driver(tmp_path: Path) -> None:
    found = {str(Path(name).relative_to(ROOT)) for name in modules_with_powers()}
    reached = {
        str(Path(file).relative_to(ROOT))
        for entry in entries()
        for name, item in all_tools(create(entry, tmp_path)).items()
        if name in DRIVERS
        for file in reached_files(item)
        if Path(file).is_relative_to(ROOT)
    }
    assert DOORS.keys() <= found
    assert sorted(found - reached - DOORS.keys()) == []
    assert [test for test in DOORS.values() if not (ROOT / "tests" / test).is_file()] == []


def test_search_finds_a_power_behind_a_helper_a_class_and_an_import() -> None:
    names: dict[str, Any] = {"__name__": "ptc_tools.example", "__package__": "ptc_tools"}
    exec(EXAMPLES, names)  # noqa: S102  # the text below
    assert powers_of(names["hidden"]) == {"call_tool"}
    assert powers_of(names["importing"]) == {"call_tool"}
    assert powers_of(names["harmless"]) == set()


EXAMPLES = '''
from ptc import ToolContext, tool

class Caller:
    def __init__(self, ctx):
        self.ctx = ctx

    async def run(self):
        await self.ctx.call_tool("write")

async def help_with(ctx):
    await Caller(ctx).run()

@tool
async def hidden(ctx: ToolContext) -> None:
    """Call a tool in a class, in a helper."""
    await help_with(ctx)

@tool
async def importing(ctx: ToolContext) -> None:
    """Call a function that is imported late."""
    from . import _compat
    await _compat._call_tool.function(ctx, "write")

@tool
async def harmless(ctx: ToolContext) -> str:
    """Call nothing."""
    return ctx.tool_name
'''
