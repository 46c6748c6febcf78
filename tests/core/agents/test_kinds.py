"""Kinds of agents: the built-in ones, and files of a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import Allow, Session, ToolError, UsageError, tool
from ptc._agents._kinds import AgentKind, AgentKinds, find_kind, read_kind

pytestmark = pytest.mark.usefixtures("nothing_left")

OWN = """\
---
name: audit
description: Audits
  the prices.
tools: read, price(item="pear")
model: openai:gpt-5
limits: {max_steps: 7, max_cost_usd: 0.5}
output_schema: {type: object}
---
# Task

Audit.
"""


@tool
def read(path: str) -> str:
    """Read a file."""
    return path


@tool
def price(item: str) -> int:
    """Price of an item."""
    return len(item)


@tool(side_effect=True, idempotent=True)
def write(path: str) -> None:
    """Write a file."""


def kind_file(folder: Path, text: str, name: str = "audit.md") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_builtin_kinds_are_those_of_the_documentation() -> None:
    kinds = {kind.name: kind for kind in AgentKinds()}
    assert list(kinds) == ["explore", "general", "plan", "review", "verification"]
    assert [name for name, kind in kinds.items() if kind.read_only] == ["explore", "plan", "review"]
    assert kinds["verification"].output_schema is not None
    assert all(kind.description and kind.instructions for kind in kinds.values())


def test_file_has_all_keys_of_a_kind(tmp_path: Path) -> None:
    kind = read_kind(kind_file(tmp_path, OWN))
    assert (kind.name, kind.description) == ("audit", "Audits the prices.")
    assert kind.instructions == "# Task\n\nAudit."
    assert kind.tools is not None
    assert kind.tools[0] == "read"
    assert isinstance(kind.tools[1], Allow)
    assert kind.model == "openai:gpt-5"
    assert (kind.limits.max_steps, kind.limits.max_cost_usd) == (7, 0.5)
    assert kind.limits.max_tool_calls == 200
    assert kind.output_schema == {"type": "object"}
    assert find_kind(str(tmp_path / "audit.md")) == kind
    assert find_kind(kind) is kind
    assert find_kind("plan").name == "plan"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("toolz: [read]", "unknown key 'toolz' .did you mean `tools`"),
        ("tools: 3", "tools must be a list"),
        ("tools: [read(]", "read\\("),
        ("read_only: maybe", "read_only must be true or false"),
        ("model: gpt", "model 'gpt' is not a model name"),
        ("limits: {max_step: 3}", "unknown limit 'max_step' .did you mean `max_steps`"),
        ("limits: {max_steps: 0}", "max_steps must be an integer from 1"),
        ("limits: {max_cost_usd: -1}", "max_cost_usd must be a number above 0"),
        ("output_schema: {type: thing}", "thing"),
        ("name: a b", "name must be 1-64 letters"),
    ],
)
def test_malformed_file_is_an_error_that_names_it(tmp_path: Path, line: str, problem: str) -> None:
    path = kind_file(tmp_path, f"---\ndescription: Audits.\n{line}\n---\nAudit.\n")
    with pytest.raises(UsageError, match=problem) as wrong:
        AgentKinds(tmp_path)
    assert str(path) in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Audit.", "must start with front matter"),
        ("---\nname: audit\n---\nAudit.\n", "description is missing"),
        ("---\ndescription: Audits.\n---\n\n", "the text below the front matter is missing"),
    ],
)
def test_file_without_a_part_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read_kind(kind_file(tmp_path, text))


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"agents: .* is not a folder"):
        AgentKinds(tmp_path / "missing")


def test_kind_of_a_project_replaces_a_builtin_one(tmp_path: Path) -> None:
    kind_file(tmp_path, "---\ndescription: Ours.\n---\nExplore ours.\n", "explore.md")
    kinds = AgentKinds([tmp_path])
    assert kinds.find("explore").description == "Ours."
    assert kinds.find("plan").read_only
    with pytest.raises(UsageError, match=r"no agent 'exploer' .did you mean `explore`"):
        kinds.find("exploer")


def test_tools_of_a_kind_are_those_that_its_caller_has() -> None:
    tools = {item.name: item for item in (read, price, write)}
    everything = AgentKind("a", "A.", "Do.")
    assert everything.select_tools(tools) == ["read", "price", "write"]
    looking = AgentKind("a", "A.", "Do.", read_only=True)
    assert looking.select_tools(tools) == ["read", "price"]
    listed = AgentKind("a", "A.", "Do.", tools=("wr*", "read", "bash", Allow("price", item="x")))
    assert listed.select_tools({"read": read}) == ["read"]
    assert listed.select_tools(tools)[:2] == ["write", "read"]


@pytest.mark.anyio
async def test_unknown_tool_in_a_kind_of_the_project_fails_the_session(
    tmp_path: Path, anyio_backend: str
) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    kind_file(agents, "---\ndescription: Ours.\ntools: [raed]\n---\nDo.\n")
    session = Session(tmp_path, tools=[read], toolsets=(), agents=agents)
    with pytest.raises(UsageError, match=r"agent 'audit': .*'raed'.*did you mean `read`"):
        async with session:
            pass


@pytest.mark.anyio
async def test_folder_of_kinds_is_protected_from_tools(tmp_path: Path, anyio_backend: str) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    path = kind_file(agents, OWN.replace('read, price(item="pear")', "read"))
    linked = kind_file(tmp_path, "---\ndescription: Ours.\n---\nDo.\n", "linked.md")
    (agents / "other.md").symlink_to(linked)
    async with Session(tmp_path, agents=agents, workers=1) as session:
        for target in ("agents/audit.md", "agents/new.md", "linked.md"):
            arguments = {"path": target, "content": "---\ndescription: x\n---\nEvil.\n"}
            written = await session.tool("write", arguments)
            assert written.error is not None, target
            assert written.error.code == "protected_path"
    assert "Audit." in path.read_text()
    assert not (agents / "new.md").exists()


@pytest.mark.anyio
async def test_folder_in_the_state_of_ptc_is_not_read_unless_it_is_named(
    tmp_path: Path, anyio_backend: str
) -> None:
    agents = tmp_path / ".ptc" / "agents"
    agents.mkdir(parents=True)
    kind_file(agents, OWN)
    async with Session(tmp_path, toolsets=(), tools=[read, price]) as session:
        assert "audit" not in session.agent_kinds()
    async with Session(tmp_path, toolsets=(), tools=[read, price], agents=agents) as session:
        assert session.agent_kinds()["audit"] == "Audits the prices."


@pytest.mark.anyio
async def test_configured_folder_is_read_and_protected(tmp_path: Path, anyio_backend: str) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    kind_file(agents, "---\ndescription: Ours.\n---\nDo.\n")
    (tmp_path / "ptc.toml").write_text('agents = ["agents"]\n')
    arguments = {"path": "agents/new.md", "content": "x"}
    async with Session.from_config(tmp_path, config=tmp_path / "ptc.toml") as session:
        assert session.agent_kinds()["audit"] == "Ours."
    # Also in a session that was not made from the configuration: the next one reads the folder.
    async with Session(tmp_path, workers=1) as session:
        written = await session.tool("write", arguments)
        with pytest.raises(ToolError, match="protected"):
            written.unwrap()
