"""An allow-list also holds for the calls that tools make, whichever tool makes them.

Tools that can call others are found by introspection. Each needs a driver here: the arguments with
which a caller lets it make a call.
"""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pydantic_ai", reason="agents need ptc-host[models]")

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ptc import Allow, RunEvent, Session, Tool, Toolset, agent_tool

from .tool_callers import modules_with_powers, powers_of, reached_files

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@pytest.fixture(params=["asyncio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The agents of pydantic-ai, which `task` runs, need asyncio."""
    return str(request.param)


Arguments = dict[str, Any]
ROOT = Path(__file__).parents[2]
FORWARD = '''
async def run(ctx, inputs):
    """Make the call in the inputs."""
    return await ctx.call(*inputs["call"])
'''
SKILL = "---\nname: forward\ndescription: Makes a call.\nallowed-tools: [Write, batch]\n---\nD.\n"


class Call(NamedTuple):
    """A call that writes a file, and a rule that allows some of them."""

    tool: str
    to: Callable[[str], Arguments]
    """Arguments of a call that writes the file of this name."""
    rule: Allow


WRITE = Call("write", lambda path: {"path": path, "content": ""}, Allow("write", path="allowed-*"))
BASH = Call(
    "bash",
    lambda path: {"cmd": "sh", "args": ["-c", f": > {path}"]},
    Allow("bash", args=lambda args: "planted" not in str(args)),
)


class Driver(NamedTuple):
    """How a caller lets a tool make a call."""

    arguments: Callable[[str, Arguments], Arguments]
    """Arguments of the tool, from name and arguments of the call."""
    call: Call = WRITE
    """The call by which the tool can write."""
    also: tuple[str, ...] = ()
    """Further tools that its caller has to be allowed."""


def as_prompt(name: str, arguments: Arguments) -> str:
    """Return the prompt that makes the model of these tests call a tool."""
    return json.dumps([name, arguments])


DRIVERS: dict[str, Driver] = {
    "Skill": Driver(
        lambda *call: {"skill_name": "forward", "script": "run.py", "inputs": {"call": call}}
    ),
    "batch": Driver(lambda *call: {"calls": [{"tool": call[0], "arguments": call[1]}]}),
    "hand_over": Driver(lambda *call: {"prompt": as_prompt(*call)}),
    "program": Driver(lambda *call: {"source": FORWARD, "inputs": {"call": call}}),
    "saved": Driver(lambda *call: {"call": list(call)}),
    "task": Driver(lambda *call: {"agent": "general", "prompt": as_prompt(*call)}),
    "tasks": Driver(
        lambda *call: {"tasks": [{"agent": "general", "prompt": as_prompt(*call)}] * 2},
        also=("task",),
    ),
    "tool": Driver(lambda *call: {"name": call[0], "arguments": call[1]}),
    "verify_commands": Driver(
        lambda _, arguments: {
            "subject": "s",
            "checks": [{"id": "c", "command": ["sh", *arguments.get("args", [])]}],
        },
        BASH,
    ),
}
"""Tools that call tools: those of a session, and `hand_over` and `saved` of these tests."""

ONLY_LOOK = {"bash"}
"""Tools that look up names in ``ctx.tools`` and call none of them."""

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
    "ptc/_session/_program_session.py": "core/test_session.py",
    "ptc/_tools/_context.py": "core/calls/test_dispatch.py",
    "ptc/_ui/_bench.py": "ui/test_routes.py",
}
"""Modules that call tools, or run scripts, but not for a tool of ptc -> their tests."""


EVENTS: list[RunEvent] = []
"""Events of the session."""


def installed_tools(skills: Path) -> list[Tool]:
    """Create the tools of every toolset that the project installs, the optional ones, too."""
    found: dict[str, Tool] = {}
    options = {"network": True, "git_writes": True, "folders": [skills]}
    for entry in sorted(distribution("ptc-host").entry_points.select(group="ptc.toolsets")):
        factory = entry.load()
        known = inspect.signature(factory).parameters
        built = factory(**{name: value for name, value in options.items() if name in known})
        assert isinstance(built, Toolset)
        found = {item.name: item for item in built} | found
    return list(found.values())


def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Make the call that the prompt describes, then finish."""
    if len(messages) > 1:
        return ModelResponse(parts=[TextPart("done")])
    name, arguments = json.loads(str(messages[0].parts[-1].content))  # type: ignore[union-attr]  # the prompt
    return ModelResponse(parts=[ToolCallPart(name, arguments)])


def all_tools(session: Session) -> dict[str, Tool]:
    """Return every tool of a session, also those that only applications may call."""
    hosted = {name: make(None, None) for name, make in session._direct._host_tools.items()}
    return {**session._catalog.tools, **hosted}


def create(folder: Path) -> Session:
    """Create a session with every toolset, and with everything that a session adds."""
    skill = folder / "skills" / "forward"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (skill / "scripts" / "run.py").write_text(FORWARD)
    root = folder / "root"
    root.mkdir()
    return Session(
        root,
        toolsets=(),
        tools=[*installed_tools(skill.parent), agent_tool("general", name="hand_over")],
        model=FunctionModel(answer),
        on_event=EVENTS.append,
        journal=":memory:",
        workers=1,
    )


async def save_program(session: Session) -> None:
    """Save a script that makes any call of `write`."""
    call = ["write", {"path": "saved.txt", "content": ""}]
    run = await session.program(source=FORWARD, inputs={"call": call}, allowed_tools=["write"])
    assert run.ok, run.error
    (session.root / "saved.txt").unlink()
    schema = {"type": "object", "properties": {"call": {"type": "array"}}, "required": ["call"]}
    await session.save_program(run.run_id, name="saved", input_schema=schema)


@pytest.fixture(scope="module")
async def session(
    tmp_path_factory: pytest.TempPathFactory, shared_zygote: None
) -> AsyncIterator[Session]:
    async with create(tmp_path_factory.mktemp("session")) as opened:
        await save_program(opened)
        yield opened


def callers(session: Session) -> list[str]:
    """Return the tools that can call tools."""
    powers = {name: powers_of(item) for name, item in all_tools(session).items()}
    return [
        name
        for name, found in powers.items()
        if found and not (name in ONLY_LOOK and found == {"tools"})
    ]


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
        entries += DRIVERS[caller].also
        name, arguments = caller, DRIVERS[caller].arguments(name, arguments)
    await session.tool(name, arguments, allowed_tools=entries)


def test_every_tool_that_can_call_tools_has_a_driver(session: Session) -> None:
    assert sorted(set(callers(session)) - DRIVERS.keys()) == []


async def test_allow_list_without_write_holds_for_every_tool_that_calls_tools(
    session: Session,
) -> None:
    effects = {name for name, item in all_tools(session).items() if item.side_effect}
    for caller in callers(session):
        call = DRIVERS[caller].call
        EVENTS.clear()
        await drive(session, [caller], call.tool, call.to("planted.txt"), ["read"])
        for name in effects - {caller, call.tool}:
            arguments = WRITE.to("planted.txt") if name == "writeFile" else {}
            await drive(session, [caller], name, arguments, ["read"])
        finished = [e.call for e in EVENTS if e.kind == "tool_finished" and e.call is not None]
        assert caller in {made.tool for made in finished}
        executed = {made.tool for made in finished if made.status != "not_started"}
        assert executed & effects <= {caller}
        assert planted(session) == [], caller


@pytest.mark.slow
async def test_allow_list_holds_through_two_tools_that_call_tools(session: Session) -> None:
    for outer, inner in itertools.product(callers(session), repeat=2):
        if inner != "program":
            call = DRIVERS[inner].call
            await drive(session, [outer, inner], call.tool, call.to("planted.txt"), ["read"])
            assert planted(session) == [], (outer, inner)


async def test_rule_on_arguments_holds_for_every_tool_that_calls_tools(session: Session) -> None:
    for caller in callers(session):
        call = DRIVERS[caller].call
        await drive(session, [caller], call.tool, call.to("planted.txt"), [call.rule])
        assert planted(session) == [], caller
        # This call shows that the driver works.
        file = f"allowed-{caller}"
        await drive(session, [caller], call.tool, call.to(file), [call.rule])
        assert planted(session) == [file]
        (session.root / file).unlink()


def test_every_module_that_calls_tools_belongs_to_a_tool_with_a_driver(session: Session) -> None:
    found = {str(Path(name).relative_to(ROOT)) for name in modules_with_powers()}
    items = [item for name, item in all_tools(session).items() if name in DRIVERS]
    files = {Path(file) for item in items for file in reached_files(item)}
    reached = {str(file.relative_to(ROOT)) for file in files if file.is_relative_to(ROOT)}
    assert sorted(DOORS.keys() - found) == []
    assert sorted(found - reached - DOORS.keys()) == []
    assert [test for test in DOORS.values() if not (ROOT / "tests" / test).is_file()] == []


def test_search_finds_a_power_behind_a_helper_a_class_and_an_import() -> None:
    names: dict[str, Any] = {"__name__": "ptc_tools.example", "__package__": "ptc_tools"}
    exec(EXAMPLES, names)  # noqa: S102  # the text below
    assert powers_of(names["hidden"]) == {"call_tool"}
    assert "call_tool" in powers_of(names["importing"])
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
