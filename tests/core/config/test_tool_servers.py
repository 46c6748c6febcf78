"""Servers of tools in a configuration: their messages, their files, and every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession, Session, UsageError
from ptc._cli._options import command_line
from ptc._config._settings import load_settings

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

SERVER = Path(__file__).parents[2] / "bindings" / "mcp_tool_server.py"
SECRET = "secret-0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the program of a server and its configuration."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    (tmp_path / "server.py").write_text(SERVER.read_text())
    (tmp_path / "ptc.toml").write_text(
        'toolsets = ["builtin"]\nallow = ["write", "shop.add"]\njournal = ":memory:"\n\n'
        f'[mcp_servers.shop]\ncommand = "{sys.executable}"\nargs = ["server.py"]\n'
        'env = ["SHOP_TOKEN"]\n'
    )
    return tmp_path


def ptc(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ptc", *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, **variables},
        check=False,
    )


def test_script_cannot_change_the_program_of_a_server(folder: Path) -> None:
    source = """
async def run(ctx, inputs):
    codes = []
    for path in ["server.py", "ptc.toml", "free.py"]:
        try:
            await ctx.write(path=path, content="evil")
        except ToolError as error:
            codes.append(error.code)
    return [await ctx.shop.add(a=1, b=2), codes]
"""
    with BlockingSession.from_config() as session:
        names = session.tool("shop.environment").unwrap()
        result = session.program(source=source)
    assert "SHOP_TOKEN" in names
    assert (result.status, result.value) == ("completed", [3, ["protected_path"] * 2]), result
    # Also a session that an application creates for the folder.
    with BlockingSession(".", journal=":memory:") as session:
        error = session.tool("write", {"path": "server.py", "content": "evil"}).error
    assert error is not None
    assert error.code == "protected_path"


@pytest.mark.slow
def test_commands_have_the_tools_of_servers(folder: Path) -> None:
    listed = ptc("tools", "--json")
    assert listed.returncode == 0, listed.stderr
    assert {"shop.add", "shop.create_issue"} <= {row["name"] for row in json.loads(listed.stdout)}
    (folder / "script.py").write_text("await ctx.shop.add(a=2, b=2)\n")
    run = ptc("run", "script.py")
    assert (run.returncode, run.stdout) == (0, "4\n"), run.stderr


@pytest.mark.slow
def test_call_and_allow_list_know_the_tools_of_servers(folder: Path) -> None:
    called = ptc("call", "shop.add", '{"a": 1, "b": 2}')
    assert (called.returncode, called.stdout) == (0, "3\n"), called.stderr
    wrong = ptc("tools", PTC_ALLOW="shop.nothing")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("Error: PTC_ALLOW: there is no tool 'shop.nothing'")
    misspelt = ptc("call", "shop.ad", "{}")
    assert misspelt.returncode == 2
    assert "did you mean `shop.add`" in misspelt.stderr


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_mcp_server_of_ptc_offers_the_tools_of_other_servers(folder: Path) -> None:
    from mcp import Client, StdioServerParameters

    # The names of variables only: the SDK passes a few, and the server needs the token.
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "ptc", "mcp"], env={"SHOP_TOKEN": SECRET}, cwd=folder
    )
    async with Client(server) as client:
        result = await client.call_tool("program", {"source": "await ctx.shop.add(a=1, b=2)"})
    assert result.structured_content == {"value": 3}


@pytest.mark.slow
def test_server_of_the_command_line_and_of_a_file_are_used(folder: Path) -> None:
    (folder / "mcp.json").write_text(
        json.dumps({"mcpServers": {"web": {"command": sys.executable, "args": ["server.py"]}}})
    )
    own = f"own={sys.executable} server.py"
    options = ["--no-config", "--toolset", "", "--mcp-config", "mcp.json", "--mcp-server", own]
    listed = ptc("tools", *options)
    assert listed.returncode == 0, listed.stderr
    assert "web.add\t" in listed.stdout
    assert "own.add\t" in listed.stdout


@pytest.mark.slow
def test_server_that_does_not_start_fails_the_command_with_the_reason(folder: Path) -> None:
    broken = f"bad={sys.executable} server.py --broken"
    found = ptc("call", "ls", "--no-config", "--mcp-server", broken)
    assert found.returncode != 0
    assert "MCP server 'bad' (command" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mcp_servers.a]\ncomand = 'x'", "ptc.toml:2: mcp_servers.a.comand is not a key (did you"),
        ("[mcp_servers.a]\nargs = []", "ptc.toml:1: mcp_servers.a: needs either `command`"),
        ("[mcp_servers.log]\ncommand = 'x'", "mcp_servers.log: choose another name"),
        (
            "[mcp_servers.a]\ncommand = 'x'\nenv = ['NOT_SET_ANYWHERE']",
            "mcp_servers.a: not set in the environment: NOT_SET_ANYWHERE",
        ),
        ("mcp_config = 'none.json'", "ptc.toml:1: mcp_config: "),
    ],
)
def test_problem_of_a_server_names_its_place(text: str, message: str, folder: Path) -> None:
    (folder / "ptc.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        Session.from_config()
    assert message in str(caught.value)


def test_token_is_a_header_and_in_no_message(folder: Path) -> None:
    (folder / "ptc.toml").write_text(
        "[mcp_servers.web]\nurl = 'https://shop.example/mcp'\ntoken_env = 'SHOP_TOKEN'\n"
    )
    session = Session.from_config()
    provider: Any = session._catalog.providers[0]
    (spec,) = provider._specs
    assert spec.headers == {"Authorization": f"Bearer {SECRET}"}
    assert SECRET not in repr(spec) + provider.name
    shown = ptc("config", "show", "--json")
    assert "SHOP_TOKEN" in shown.stdout
    assert SECRET not in shown.stdout


def test_printed_command_line_sets_the_same_servers(folder: Path) -> None:
    servers = {"a": {"command": "npx", "args": ["x y", "-z"]}, "b": {"url": "https://b.example"}}
    settings = load_settings({"mcp_servers": servers}, use_file=False)
    options = command_line(settings)
    assert options[options.index("--mcp-server") + 1] == "a=npx 'x y' -z"
    assert "b=https://b.example" in options
