"""The MCP server: what it offers and what it answers, with a real client in this process."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import (
    Attachment,
    ImageContent,
    Limits,
    Session,
    ToolResult,
    UsageError,
    define_tool,
    tool,
)
from ptc_bindings.mcp import serve

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import jsonschema_rs
import mcp
from mcp.shared.exceptions import MCPError

from .mcp_client import (
    SECONDS,
    in_process,
    over_pipes,
    read,
    script,
    stdio,
    texts,
)

pytestmark = pytest.mark.anyio

OWN = ["program", "program_log", "program_status", "program_resume"]
"""Tools of the server itself."""


@tool
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@tool
async def table(rows: int) -> dict[str, Any]:
    """Make a table."""
    return {"rows": [{"n": n, "none": None} for n in range(rows)]}


@tool
async def broken() -> int:
    """Fail in an unforeseen way."""
    msg = "no such luck"
    raise KeyError(msg)


@tool(side_effect=True, idempotent=True)
async def write(text: str) -> int:
    """Pretend to write."""
    return len(text)


# --- what is offered ----------------------------------------------------------------------------


async def test_program_description_fits_clients_and_lists_signatures(
    root: Path,
) -> None:
    names = [f"tool_number_{n}_with_a_long_name" for n in range(200)]
    many = [
        define_tool(name, "Do it.", {"type": "object", "properties": {}}, lambda a: a)
        for name in names
    ]
    for tools, shown in (([add], "Tools on ctx: add."), (many, "more."), ([], "ctx: none")):
        async with in_process(root, *tools) as (client, _):
            program = (await client.list_tools()).tools[0]
            assert client.instructions is not None
            assert program.description is not None
            assert len(client.instructions) < 2_048
        assert len(program.description) < 2_048
        assert shown in program.description
        told = program.input_schema["properties"]["source"]["description"]
        assert "async def run(ctx, inputs)" in told
        assert "30 s for the run" in told
        assert all(f"async def {item.name}(" in told for item in tools)


async def test_client_finds_signatures_of_many_tools_within_its_allow_list(root: Path) -> None:
    many = [tool(name=f"crm.find_{n}")(add.function) for n in (*range(1_000, 1_400), 2_000)]
    allowed = ["crm.find_1*", "add"]
    async with in_process(root, *many, add, allowed_tools=allowed) as (client, _):
        program = (await client.list_tools()).tools[0]
        told = program.input_schema["properties"]["source"]["description"]
        assert "ctx.search_tools(" in told
        assert "find_1399" in told
        assert "find_2000" not in told
        source = script(
            "found = await ctx.search_tools('find 2000 1399')\n"
            "return [tool.name for tool in found] + [await ctx.describe(found[0].name)]"
        )
        *names, signature = json.loads(texts(await client.call_tool("program", source))[0])
    assert names[0] == "crm.find_1399"
    assert all(name.startswith("crm.find_1") for name in names)
    assert "async def find_1399(a: int, b: int = 2) -> int:" in signature


async def test_published_tool_schemas_are_valid(root: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with (
            Session(root, workers=1) as session,
            mcp.Client(serve(session, direct_tools=True)) as client,
        ):
            tools = (await client.list_tools()).tools
    assert [item.name for item in tools] == [*OWN, *session.select_tools(None)]
    for item in tools:
        assert item.input_schema["type"] == "object"
        jsonschema_rs.meta.validate(item.input_schema)
        if item.name in ("program_log", "program_status"):
            assert item.output_schema is None
            continue
        assert item.output_schema is not None
        assert item.output_schema["type"] == "object"
        jsonschema_rs.meta.validate(item.output_schema)


async def test_tools_are_annotated_read_only_unless_they_have_side_effects(root: Path) -> None:
    async def hints(**options: Any) -> dict[str, tuple[bool | None, bool | None]]:
        async with in_process(root, add, write, **options) as (client, _):
            found = (await client.list_tools()).tools
        noted = {item.name: item.annotations for item in found}
        return {n: (a.read_only_hint, a.destructive_hint) for n, a in noted.items() if a}

    reports = {"program_log": (True, None), "program_status": (True, None)}
    assert await hints() == {"program": (True, False), "program_resume": (True, False), **reports}
    assert await hints(allowed_tools=["add", "write"], direct_tools=True) == {
        **reports,
        "program": (False, True),
        "program_resume": (False, True),
        "add": (True, False),
        "write": (False, True),
    }


async def test_a_client_cannot_widen_its_tools_or_limits(root: Path) -> None:
    source = script("return await ctx.write('x')")
    async with in_process(root, add, write) as (client, _):
        refused = await client.call_tool("program", source)
        assert "tool 'write' is not allowed in this run" in texts(refused)[0]
        unchecked = script("return await getattr(ctx, inputs['tool'])('x')")
        refused = await client.call_tool("program", unchecked | {"inputs": {"tool": "write"}})
        assert "no tool 'write' is allowed" in texts(refused)[0]
        for extra in ({"allowed_tools": ["write"]}, {"limits": {"timeout_ms": 1}}):
            result = await client.call_tool("program", source | extra)
            assert result.is_error
            assert "set by the operator of the server" in texts(result)[0]
        with pytest.raises(MCPError, match=r"there is no tool 'write' here; tools: program, "):
            await client.call_tool("write", {"text": "x"})
        with pytest.raises(MCPError, match=r"call it from a script: `await ctx\.add"):
            await client.call_tool("add", {"a": 1})


async def test_server_with_unknown_or_reserved_tool_name_is_rejected(root: Path) -> None:
    @tool(name="program")
    async def taken() -> None:
        """Have the name."""

    session = Session(root, tools=[add, taken], toolsets=())
    with pytest.raises(UsageError, match=r"there is no tool 'ad' \(did you mean `add`\?\)"):
        serve(session, allowed_tools=["ad"])
    with pytest.raises(UsageError, match="'program' cannot be offered directly"):
        serve(session, direct_tools=True)


# --- what is answered ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "source must be a string, the text of the script, not null or missing"),
        ({"source": ["x"]}, "not an array"),
        ({"source": 1}, "not a number"),
        ({"source": "x", "inputs": '{"a": 1}'}, 'inputs must be an object, such as {"query"'),
        ({"source": "x", "inputs": []}, "not an array"),
        ({"source": "x", "input": {}}, "unknown argument 'input'; program takes source and inputs"),
    ],
)
async def test_invalid_argument_is_reported_in_the_result(
    root: Path, arguments: dict[str, Any], message: str
) -> None:
    async with in_process(root, add) as (client, _):
        result = await client.call_tool("program", arguments)
    assert result.is_error
    assert message in texts(result)[0]
    assert result.structured_content["status"] == "rejected"
    assert result.structured_content["error"]["code"] == "usage"


@pytest.mark.usefixtures("nothing_left")
async def test_every_outcome_conforms_to_the_schema_that_is_published(root: Path) -> None:
    bodies = [
        "return None",
        "return 'text'",
        "return [await ctx.add(n) for n in range(120)]",
        "ctx.emit({'n': 1})\nprint('x')\nreturn 'y' * 200_000",
        "for n in range(60):\n    ctx.emit('z' * 4_000)\nraise ValueError",
        "ctx.add(1)",
        "import os, subprocess\neval('1')",
        "def deep(n):\n    return deep(n + 1)\nreturn deep(0)",
        "try:\n    await ctx.broken()\nexcept ToolError as error:\n    return error.code",
    ]
    limits = Limits(max_tool_calls=100, timeout_ms=10_000)
    statuses = []
    async with in_process(root, add, broken, limits=limits) as (client, _):
        program = (await client.list_tools()).tools[0]
        assert program.output_schema is not None
        schema = program.output_schema
        # Closed, so that a field which is not described is found.
        strict = jsonschema_rs.validator_for(json.loads(json.dumps(schema), object_hook=_closed))
        for body in bodies:
            result = await client.call_tool("program", script(body))
            strict.validate(result.structured_content)
            statuses.append(result.structured_content.get("status", "completed"))
            if result.is_error:
                assert len(json.dumps(result.structured_content)) <= 1_500
                assert sum(map(len, texts(result))) <= 1_500
            assert result.is_error == (statuses[-1] != "completed")
            assert len(json.dumps(result.structured_content)) < 150_000
            assert sum(map(len, texts(result))) < 150_000
        wrong = await client.call_tool("program", {"source": 1})
        strict.validate(wrong.structured_content)
    assert statuses == [
        *("completed", "completed", "limit_exceeded", "completed", "failed"),
        *("completed", "rejected", "limit_exceeded", "completed"),
    ]


def _closed(node: dict[str, Any]) -> dict[str, Any]:
    return (
        node | {"additionalProperties": False} if isinstance(node.get("properties"), dict) else node
    )


async def test_failed_run_reports_its_calls_output_and_partial_values(root: Path) -> None:
    body = """
for n in range(55):
    await ctx.add(n)
print("about to fail")
ctx.emit({"so far": 55})
await ctx.broken()
"""
    async with in_process(root, add, broken) as (client, _):
        result = await client.call_tool("program", script(body))
    (text,) = texts(result)
    assert text.startswith("The script failed: ToolError: broken failed: KeyError: 'no such luck'")
    assert "Call 56: broken {}: failed [internal] (line 8)" in text
    assert "Calls made: add 55, broken 1 (1 not succeeded)" in text
    assert 'Emitted values (last 1 of 1):\n  {"so far":55}' in text
    assert "Printed:\nabout to fail" in text
    data = result.structured_content
    assert data["failed_call"]["call"] == "56"
    assert (data["calls"], data["failed_calls"]) == ({"add": 55, "broken": 1}, {"broken": 1})
    assert data["partial"] == [{"so far": 55}]
    assert f"Run: {data['run_id']}" in text


async def test_truncated_value_names_the_artifact_with_the_full_value(root: Path) -> None:
    limits = Limits(max_output_bytes=1_000)
    async with in_process(root, add, limits=limits) as (client, _):
        result = await client.call_tool("program", script("return list(range(10_000))"))
        data = result.structured_content
        assert not result.is_error
        uri = data["truncated"]["uri"]
        whole = await read(client, uri)
    assert whole.mime_type == "application/json"
    assert len(json.loads(whole.text)) == 10_000
    value, note = texts(result)
    assert len(value) <= 1_000
    assert f"was truncated; return less. The whole value: {uri}" in note
    assert str(root) not in value + note + json.dumps(data)


async def test_cancelling_a_call_cancels_the_tools_it_waits_for(root: Path) -> None:
    started, ended = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> None:
        """Wait for ever."""
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with in_process(root, wait, add) as (client, _):
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "program", script("await ctx.wait()"))
            await started.wait()
            group.cancel_scope.cancel()
        await ended.wait()
        assert not (await client.call_tool("program", script("return 1"))).is_error


async def test_missing_jail_is_reported_in_the_result(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on another system, without the extra: the zygote itself asks for it.
    monkeypatch.setattr("ptc._workers._choose.wasm_is_installed", lambda: False)
    monkeypatch.setattr(sys, "platform", "plan9")
    async with in_process(root, add, direct_tools=True) as (client, _):
        result = await client.call_tool("program", script("return 1"))
        assert result.is_error
        assert "runs scripts on Linux only, and this is plan9" in texts(result)[0]
        assert result.structured_content["error"]["code"] == "setup"
        assert not (await client.call_tool("add", {"a": 1})).is_error


# --- tools singly -------------------------------------------------------------------------------


@over_pipes
@pytest.mark.usefixtures("nothing_left")
async def test_direct_tool_returns_text_and_data(root: Path) -> None:
    async with stdio(root, "--direct-tools", "--allow", "read,grep") as client:
        assert [t.name for t in (await client.list_tools()).tools] == [*OWN, "read", "grep"]
        hits = await client.call_tool("grep", {"pattern": "TODO", "glob": "*.py"})
        text = await client.call_tool("read", {"path": "notes.txt"})
        gone = await client.call_tool("read", {"path": "gone.txt"})
        wrong = await client.call_tool("read", {"pth": "notes.txt"})
    assert texts(hits) == ["a.py:1:x = 1  # TODO one\nb.py:2:z = 3  # TODO two"]
    assert [hit["line"] for hit in hits.structured_content["result"]] == [1, 2]
    assert texts(text) == ["TODO three\n"]
    assert text.structured_content == {"result": "TODO three\n"}
    assert gone.is_error
    assert texts(gone)[0].startswith("Error [not_found]: ")
    assert wrong.is_error
    assert "unknown argument `pth` (did you mean `path`?)" in texts(wrong)[0]


async def test_object_result_is_sent_unwrapped_and_keeps_nulls(root: Path) -> None:
    async with in_process(root, table, add, direct_tools=True) as (client, _):
        tools = {item.name: item for item in (await client.list_tools()).tools}
        rows = await client.call_tool("table", {"rows": 1})
        number = await client.call_tool("add", {"a": 1})
    assert rows.structured_content == {"rows": [{"n": 0, "none": None}]}
    assert number.structured_content == {"result": 3}
    schemas = {name: tools[name].output_schema or {} for name in ("table", "add")}
    forms = {name: schema["anyOf"] for name, schema in schemas.items()}
    assert forms["table"][0] == {"type": "object", "additionalProperties": True}
    assert forms["add"][0] == {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }
    assert {form[1]["required"][0] for form in forms.values()} == {"preview"}


async def test_large_direct_result_is_a_preview_with_an_address(root: Path) -> None:
    options = {"direct_tools": True, "limits": Limits(max_output_bytes=1_200)}
    async with in_process(root, table, **options) as (client, _):
        result = await client.call_tool("table", {"rows": 100})
        uri = result.structured_content["uri"]
        whole = await read(client, uri)
    assert not result.is_error
    shown, note = texts(result)
    assert shown == result.structured_content["preview"]
    rows = json.loads(shown)["rows"]
    assert rows[0] == {"n": 0, "none": None}
    assert rows[-1] == {"…cut…": f"{101 - len(rows)} of 100 items left out"}
    assert len(shown) <= 300
    assert note == f"[Truncated: {len(shown)} of 2,100 characters. All of it: {uri}]"
    assert json.loads(whole.text)["rows"][99] == {"n": 99, "none": None}


async def test_image_is_sent_inline_and_a_file_by_its_address(root: Path) -> None:
    image = base64.b64encode(b"\x89PNG" * 100).decode()

    @tool
    async def draw() -> Any:
        """Draw."""
        return ToolResult.success(
            {"bars": 3},
            text="3 bars",
            content=[ImageContent(image, "image/png")],
            attachments=[Attachment("chart.png", "image/png", b"1")],
        )

    async with in_process(root, draw, direct_tools=True) as (client, _):
        result = await client.call_tool("draw", {})
        assert [part.type for part in result.content] == ["text", "image", "resource_link"]
        shown: Any
        link: Any
        shown, link = result.content[1:]
        file = await read(client, link.uri)
    assert (link.name, file.mime_type, base64.b64decode(file.blob)) == (
        "chart.png",
        "image/png",
        b"1",
    )
    assert texts(result)[0] == f"3 bars\nAttachment 'chart.png': {link.uri}"
    assert (shown.data, shown.mime_type) == (image, "image/png")
    assert result.structured_content == {"bars": 3}
    limits = Limits(max_tool_result_bytes=500)
    async with in_process(root, draw, direct_tools=True, limits=limits) as (client, _):
        refused = await client.call_tool("draw", {})
    assert refused.is_error
    assert "the images of draw have" in texts(refused)[0]


async def test_failing_tool_is_reported_in_the_result(root: Path) -> None:
    def render(value: Any) -> str:
        raise ZeroDivisionError(value)

    @tool(render=render)
    async def unshown() -> int:
        """Fail to be shown."""
        return 7

    @tool(render=render)
    async def secret() -> str:
        """Fail to be shown with a credential."""
        return "https://user:pa55word@host"

    @tool
    async def unsent() -> Any:
        """Return what is no data."""
        return object()

    tools = (broken, unshown, secret, unsent)
    async with in_process(root, *tools, direct_tools=True) as (client, _):
        for name, part in (
            ("broken", "Error [internal]: broken failed: KeyError: 'no such luck'"),
            ("unshown", "Error: unshown: ZeroDivisionError: 7"),
            ("secret", "Error: secret: ZeroDivisionError: https://user:[credential]@host"),
            ("unsent", "object has no JSON form"),
        ):
            result = await client.call_tool(name, {})
            assert result.is_error
            assert part in texts(result)[0]
