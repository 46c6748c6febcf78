"""How much of a run a model reads, and the log and the resources that have the rest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ptc import Attachment, Limits, ToolError, ToolResult, tool
from ptc_bindings.functions import program_function

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import mcp

from .mcp_client import in_process, over_pipes, read, script, stdio, texts

pytestmark = pytest.mark.anyio

SUCCESS_CHARS = 40
FAILURE_CHARS = 1_500


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def fail(text: str) -> None:
    """Fail with a long message."""
    raise ToolError(text, code="gone")


@tool
async def chart() -> Any:
    """Draw a chart."""
    return ToolResult.success({"bars": 3}, attachments=[Attachment("c.csv", "text/csv", b"a,b\n")])


SIXTY_CALLS = script("return sum(await asyncio.gather(*(ctx.add(n) for n in range(60))))")


def shown(result: Any) -> tuple[int, int]:
    """Count the characters that a client shows, as structured content and as text."""
    data = json.dumps(result.structured_content, ensure_ascii=False)
    return len(data), sum(map(len, texts(result)))


@pytest.mark.slow
@over_pipes
async def test_sixty_calls_that_give_one_number_cost_forty_characters(root: Path) -> None:
    body = "return sum([len(await ctx.read('notes.txt')) for _ in range(60)])"
    async with stdio(root, "--allow", "read") as client:
        result = await client.call_tool("program", script(body))
        assert result.structured_content == {"value": 660}
        assert max(shown(result)) <= SUCCESS_CHARS
        log = await client.call_tool("program_log", {})
        assert result.meta is not None
        whole = await read(client, f"ptc://runs/{result.meta['ptc/run_id']}")
    assert "Calls 1 to 60 of 60:" in texts(log)[0]
    assert len(json.loads(whole.text)["calls"]) == 60


FAILURES = {
    "tool error": (
        "for n in range(55):\n    await ctx.add(n)\nawait ctx.fail('é\"\\n' * 9_000)",
        "é",
    ),
    "error": ("raise ValueError('x' * 50_000)", "xxx"),
    "deep": (
        "def f(n):\n    return 1 / n if n < 1 else f(n - 1)\nreturn f(40)",
        "division by zero",
    ),
    "findings": ("\n".join(f"import os{n}\neval('{n}')" for n in range(60)), "findings"),
    "output": ("print('\\x00€' * 9_000)\nctx.emit('z' * 9_000)\nraise KeyError", "KeyError"),
    "many tools": (
        "for n in range(90):\n    try:\n        await getattr(ctx, 'add')(f'x{n}' * 90)\n"
        "    except ToolError:\n        pass\nawait ctx.fail('last')",
        "last",
    ),
    "limit": ("for n in range(999):\n    await ctx.add(n)", "max_tool_calls"),
}


async def test_failure_is_bounded_whatever_the_script_did(root: Path) -> None:
    async with in_process(root, add, fail, limits=Limits(max_tool_calls=100)) as (client, _):
        for what, (body, part) in FAILURES.items():
            result = await client.call_tool("program", script(body))
            assert result.is_error, what
            assert max(shown(result)) <= FAILURE_CHARS, what
            assert part in texts(result)[0], what
            assert part in json.dumps(result.structured_content, ensure_ascii=False), what
            assert result.structured_content["run_id"] in texts(result)[0], what


async def test_error_of_a_direct_call_is_bounded_and_stored_whole(root: Path) -> None:
    message = 'é"\n' * 9_000
    async with in_process(root, fail, direct_tools=True) as (client, _):
        result = await client.call_tool("fail", {"text": message})
        start, note = texts(result)
        assert result.is_error
        assert start.startswith('Error [gone]: é"\n')
        assert len(start) + len(note) <= FAILURE_CHARS
        uri = note.rpartition(" ")[2]
        assert message in (await read(client, uri)).text
        result = await client.call_tool("fail", {"text": "x", "é" * 9_000: 1})
        assert result.is_error
        assert sum(map(len, texts(result))) <= FAILURE_CHARS


async def test_error_of_a_request_is_bounded(root: Path) -> None:
    async with in_process(root, add, fail) as (client, _):
        # Each of these characters has a longer form in JSON.
        result = await client.call_tool("program", {"source": "", '\x00"\\' * 9_000: 1})
        assert result.is_error
        assert max(shown(result)) <= FAILURE_CHARS
        with pytest.raises(mcp.MCPError, match="tools: program, ") as caught:
            await client.call_tool("x" * 9_000, {})
        assert len(str(caught.value)) <= FAILURE_CHARS


async def test_completed_run_shows_output_and_warnings_and_no_calls(root: Path) -> None:
    body = "print('note ' * 2_000)\nctx.emit(1)\nctx.add(1)\nreturn 'ok'"
    async with in_process(root, add) as (client, _):
        result = await client.call_tool("program", script(body))
    data = result.structured_content
    assert data["value"] == "ok"
    assert data["stdout"].startswith("[8,001 earlier characters not shown]")
    assert (data["emitted"], len(data["warnings"])) == (1, 1)
    assert not data.keys() & {"status", "calls", "usage", "error"}
    assert texts(result)[0] == "ok"
    assert "The script emitted 1 values; the log of the run has them." in texts(result)[1]
    assert data["run_id"] in texts(result)[1]


async def test_function_for_frameworks_returns_the_same_small_outcome(root: Path) -> None:
    async with in_process(root, add) as (_, session):
        program = program_function(session)
        assert await program(SIXTY_CALLS["source"]) == {"value": 1_890}


async def test_log_lists_calls_in_pages(root: Path) -> None:
    body = "for n in range(300):\n    await ctx.add(n)\nprint('done')\nawait ctx.fail('why')"
    limits = Limits(max_tool_calls=400)
    async with in_process(root, add, fail, limits=limits) as (client, _):
        run_id = (await client.call_tool("program", script(body))).structured_content["run_id"]
        first, seen, text = 1, 0, ""
        for _ in range(5):
            (text,) = texts(
                await client.call_tool("program_log", {"run_id": run_id, "first": first})
            )
            assert len(text) < 20_000
            assert text.startswith(f"Run {run_id}: failed, 301 calls")
            assert "Printed:\ndone" in text
            seen += sum(line.startswith("  ") and ". add " in line for line in text.split("\n"))
            if "The next page starts with first=" not in text:
                break
            first = int(text.partition("The next page starts with first=")[2].partition(".")[0])
        assert seen == 300
        assert '301. fail {"text":"why"}: failed [gone] why' in text
        for wrong, message in (
            ({"first": 0}, "first must be an integer of at least 1"),
            ({"run_id": 1}, "run_id must be a string"),
            ({"run": "x"}, "unknown argument 'run'; program_log takes run_id and first"),
        ):
            assert message in texts(await client.call_tool("program_log", wrong))[0]


async def test_log_before_any_run_says_so(root: Path) -> None:
    async with in_process(root, add) as (client, _):
        result = await client.call_tool("program_log", {})
    assert result.is_error
    assert "this server has run no script yet" in texts(result)[0]


async def test_attachment_of_a_script_is_a_link_and_no_path_is_sent(root: Path) -> None:
    async with in_process(root, chart) as (client, _):
        result = await client.call_tool("program", script("return (await ctx.chart()).bars"))
        link: Any
        (link,) = [part for part in result.content if part.type == "resource_link"]
        file = await read(client, link.uri)
        assert result.meta is not None
        run_id = result.meta["ptc/run_id"]
        whole = await read(client, f"ptc://runs/{run_id}")
        (log,) = texts(await client.call_tool("program_log", {"run_id": run_id}))
    assert (file.text, file.mime_type) == ("a,b\n", "text/csv")
    assert result.structured_content["attachments"][0]["uri"] == link.uri
    for sent in (whole.text, log, *texts(result), json.dumps(result.structured_content)):
        assert str(root) not in sent
    assert json.loads(whole.text)["result"]["attachments"][0]["uri"] == link.uri


async def test_resource_address_reaches_no_other_file(root: Path) -> None:
    async with in_process(root, chart) as (client, session):
        await client.call_tool("program", script("await ctx.chart()"))
        folder = session.artifacts.folder
        secret = root / "secret.txt"
        secret.write_text("secret")
        digest = hashlib.sha256(b"secret").hexdigest()
        linked, changed = folder / f"{digest}.txt", folder / f"{'0' * 64}.txt"
        linked.symlink_to(secret)
        changed.write_text("other")
        for name in ("../../secret.txt", digest, "0" * 64, "", "x" * 64, "%2e%2e/secret.txt"):
            with pytest.raises(mcp.MCPError, match="there is no resource"):
                await client.read_resource(f"ptc://artifacts/{name}")
        with pytest.raises(mcp.MCPError, match="there is no resource"):
            await client.read_resource(f"file://{secret}")
        templates = (await client.list_resource_templates()).resource_templates
    assert [item.uri_template for item in templates] == [
        "ptc://runs/{run_id}",
        "ptc://artifacts/{digest}",
    ]
