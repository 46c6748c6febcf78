"""Clients of one HTTP server: none reaches the runs, artifacts or sessions of another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import httpx2
import mcp
from mcp.shared.exceptions import MCPError

from .http_server import (
    HttpServer,
    connect,
    headers_of,
    http_server,
    open_session,
    rpc,
)
from .mcp_client import over_pipes, read, script, texts

pytestmark = pytest.mark.anyio

CLIENTS = {
    "alice": "",
    "alice-2": "",
    "bob": 'allow = ["read", "glob", "ls", "get_tool_response"]\n',
    "carol": "allow = []\nlimits = { timeout_ms = 400, max_tool_calls = 2 }\n",
}
ALLOWED = "read,grep,glob,get_tool_response"
LARGE = "return 'secret of alice ' * 10_000"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    root = tmp_path_factory.mktemp("isolation") / "workspace"
    root.mkdir()
    (root / "a.py").write_text("x = 1\n")
    with http_server(root, "--allow", ALLOWED, clients=CLIENTS) as found:
        yield found


async def run_id_of(client: mcp.Client, body: str) -> tuple[str, mcp.types.CallToolResult]:
    result = await client.call_tool("program", script(body))
    assert not result.is_error, texts(result)
    return str((result.meta or {})["ptc/run_id"]), result


@over_pipes
@pytest.mark.parametrize("other", ["bob", "alice-2"])
async def test_client_cannot_reach_runs_of_another_client(server: HttpServer, other: str) -> None:
    async with connect(server, "alice") as alice, connect(server, other) as thief:
        run_id, _ = await run_id_of(alice, "return 1")
        missing = run_id[:-1] + ("0" if run_id[-1] != "0" else "1")
        for name in ("program_status", "program_log", "program_resume"):
            assert not (await alice.call_tool(name, {"run_id": run_id})).is_error
            refused = await thief.call_tool(name, {"run_id": run_id})
            unknown = await thief.call_tool(name, {"run_id": missing})
            assert refused.is_error
            # A run of another client and no run at all: one answer.
            assert texts(refused)[0].replace(run_id, "RUN") == texts(unknown)[0].replace(
                missing, "RUN"
            )
        assert "no script yet" in texts(await thief.call_tool("program_log", {}))[0]
        with pytest.raises(MCPError, match="there is no run"):
            await read(thief, f"ptc://runs/{run_id}")
        assert "return 1" in (await read(alice, f"ptc://runs/{run_id}")).text


@over_pipes
async def test_client_cannot_read_artifacts_of_another_client(server: HttpServer) -> None:
    async with connect(server, "alice") as alice, connect(server, "bob") as bob:
        run_id, result = await run_id_of(alice, LARGE)
        uri = result.structured_content["truncated"]["uri"]
        # A script cannot grant an address to its own client by returning it.
        for body in (f"return '{uri}'", f"return {{'truncated': {{'uri': '{uri}'}}}}"):
            await run_id_of(bob, body)
        with pytest.raises(MCPError, match="there is no resource"):
            await read(bob, uri)
        assert "secret of alice" in (await read(alice, uri)).text
        # Nor do the files of the root lead to them.
        body = "return [await ctx.glob('**/*'), await ctx.ls('.')]"
        _, listed = await run_id_of(bob, body)
        assert uri.rpartition("/")[2] not in str(listed.structured_content)
        assert "a.py" in str(listed.structured_content)
        # An equal value of their own is theirs to read.
        await run_id_of(bob, LARGE)
        assert "secret of alice" in (await read(bob, uri)).text
        assert not (await alice.call_tool("program_status", {"run_id": run_id})).is_error


@over_pipes
async def test_client_cannot_recall_values_of_another_client(server: HttpServer) -> None:
    large = "return 'recall of alice ' * 10_000"
    async with connect(server, "alice") as alice, connect(server, "bob") as bob:
        _, result = await run_id_of(alice, large)
        digest = result.structured_content["truncated"]["uri"].rpartition("/")[2]
        assert f'get_tool_response(handle="{digest[:16]}")' in texts(result)[1]
        for handle in (digest[:16], digest, f"ptc://artifacts/{digest}"):
            found = await alice.call_tool("get_tool_response", {"handle": handle})
            assert "recall of alice" in texts(found)[0]
            refused = await bob.call_tool("get_tool_response", {"handle": handle})
            unknown = await bob.call_tool("get_tool_response", {"handle": "0" * 16})
            assert refused.is_error
            assert texts(refused) == texts(unknown)
            body = f"return await ctx.get_tool_response('{handle}')"
            inside = await bob.call_tool("program", script(body))
            assert (inside.is_error, "not allowed" in texts(inside)[0]) == (True, True)
        await run_id_of(bob, large)
        assert not (await bob.call_tool("get_tool_response", {"handle": digest})).is_error


@over_pipes
async def test_session_of_another_client_is_unknown(server: HttpServer) -> None:
    ping = rpc("ping")
    async with (
        httpx2.AsyncClient(headers=headers_of("alice")) as alice,
        httpx2.AsyncClient(headers=headers_of("bob")) as bob,
    ):
        stolen = await open_session(alice, server)
        unknown = {**stolen, "mcp-session-id": "0" * 32}
        for method, body in (("POST", ping), ("GET", None), ("DELETE", None)):
            answer = await bob.request(method, server.url, json=body, headers=stolen)
            same = await bob.request(method, server.url, json=body, headers=unknown)
            assert (answer.status_code, answer.content) == (404, same.content), method
        mine = await alice.post(server.url, json=ping, headers=stolen)
        assert mine.status_code == 200


@over_pipes
async def test_each_client_has_its_own_tools_and_limits(server: HttpServer) -> None:
    async with (
        connect(server, "alice") as alice,
        connect(server, "bob") as bob,
        connect(server, "carol") as carol,
    ):
        grep = script("return len(await ctx.grep('x'))")
        assert not (await alice.call_tool("program", grep)).is_error
        for client in (bob, carol):
            refused = await client.call_tool("program", grep)
            assert refused.is_error
            assert "tool 'grep' is not allowed in this run" in texts(refused)[0]
        slow = await carol.call_tool("program", script("await asyncio.sleep(600)"))
        assert "400 ms" in texts(slow)[0]
        widened = await carol.call_tool("program", {**grep, "limits": {"timeout_ms": 9_000}})
        assert "unknown argument 'limits'" in texts(widened)[0]
        (program, *_) = (await carol.list_tools()).tools
        assert "grep" not in str(program.description)
