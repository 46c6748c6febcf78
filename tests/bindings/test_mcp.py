"""The MCP server: a real client, over standard input and output and in this process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from click.testing import CliRunner

import ptc
from ptc import Limits, Session, UsageError, define_tool, tool
from ptc_bindings.mcp import command, serve

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import jsonschema_rs
import mcp
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

pytestmark = pytest.mark.anyio

SECONDS = 20.0
"""How long a test waits for what must happen; far more than it takes."""

COUNT = """
import asyncio

async def run(ctx, inputs):
    hits = await ctx.grep(inputs["query"], glob="*.py")
    texts = await asyncio.gather(*(ctx.read(path=hit.path) for hit in hits))
    print("looked at", len(texts), "files")
    ctx.log("done")
    return {"files": [hit.path for hit in hits], "chars": sum(map(len, texts)), "none": None}
"""


over_pipes = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For tests of a server process, whose event loop is its own: the client's makes no difference."""


# --- helpers ------------------------------------------------------------------------------------


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


def script(body: str) -> dict[str, Any]:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    return {"source": f"import asyncio\n\nasync def run(ctx, inputs):\n{lines}\n"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1  # TODO one\n")
    (folder / "b.py").write_text("y = 2\nz = 3  # TODO two\n")
    (folder / "notes.txt").write_text("TODO three\n")
    return folder


def server_command(root: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "ptc", "mcp", "--root", str(root), *options]


def environment() -> dict[str, str]:
    # The packages under test, wherever they were imported from.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@asynccontextmanager
async def stdio(root: Path, *options: str, mode: Literal["auto", "legacy"] = "auto") -> Any:
    start, *arguments = server_command(root, *options)
    parameters = mcp.StdioServerParameters(command=start, args=arguments, env=environment())
    with anyio.fail_after(SECONDS):
        async with mcp.Client(parameters, mode=mode) as client:
            yield client


@asynccontextmanager
async def in_process(
    root: Path, *tools: Any, **options: Any
) -> AsyncIterator[tuple[mcp.Client, Session]]:
    with anyio.fail_after(SECONDS):
        async with (
            Session(root, tools=tools, toolsets=(), workers=1) as session,
            mcp.Client(serve(session, **options)) as client,
        ):
            yield client, session


def descendants(pid: int) -> set[int]:
    """Processes below `pid`, as far down as they go."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            # The name in brackets may hold anything, brackets too.
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    todo = [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        found.update(below)
        todo.extend(below)
    return found


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


async def until(condition: Callable[[], object], what: str) -> None:
    with anyio.move_on_after(SECONDS):
        while not condition():  # other processes set no event of ours
            await anyio.sleep(0.01)
        return
    pytest.fail(f"waited {SECONDS:.0f} s for {what}")


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


# --- over standard input and output -------------------------------------------------------------


@over_pipes
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_runs_a_script_over_real_files(
    root: Path, mode: Literal["auto", "legacy"]
) -> None:
    async with stdio(root, "--allow", "read,grep", mode=mode) as client:
        (program,) = (await client.list_tools()).tools
        result = await client.call_tool("program", {"source": COUNT, "inputs": {"query": "TODO"}})
    assert program.name == "program"
    assert not result.is_error
    value = {"files": ["a.py", "b.py"], "chars": 42, "none": None}
    assert result.structured_content["status"] == "completed"
    assert result.structured_content["value"] == value
    assert [call["tool"] for call in result.structured_content["calls"]] == ["grep", "read", "read"]
    assert json.loads(texts(result)[0]) == value
    assert texts(result)[1] == "Printed:\nlooked at 2 files\n\nPrinted to stderr:\ndone"
    assert result.structured_content["stderr"] == "done\n"


@over_pipes
@pytest.mark.usefixtures("nothing_left")
async def test_a_client_is_told_what_is_wrong_with_a_script(root: Path) -> None:
    cases = {
        "unknown tool": ("await ctx.reed('a.py')", ["line 4, column 11", "did you mean read"]),
        "denied import": ("import subprocess", ["line 4", "import subprocess", "Way out"]),
        "error": ("return 1 / 0", ["ZeroDivisionError: division by zero", "line 4, column 12"]),
        "no JSON": ("return object()", ["no JSON form"]),
        "time": ("while True:\n    pass", ["The run timed out", "longer than 700 ms"]),
    }
    async with stdio(root, "--timeout-ms", "700") as client:
        for what, (body, parts) in cases.items():
            result = await client.call_tool("program", script(body))
            assert result.is_error, what
            for part in parts:
                assert part in texts(result)[0], what
            assert result.structured_content["error"]["message"], what
            assert "value" not in result.structured_content, what


@over_pipes
@pytest.mark.usefixtures("nothing_left")
async def test_a_syntax_error_is_shown_with_its_line_and_a_caret(root: Path) -> None:
    source = "async def run(ctx, inputs):\n    return (1 +\n"
    async with stdio(root) as client:
        result = await client.call_tool("program", {"source": source})
    assert result.is_error
    error = result.structured_content["error"]
    assert result.structured_content["status"] == "rejected"
    assert (error["line"], error["excerpt"]) == (2, "    return (1 +\n           ^")
    assert "line 2, column 12:\n        return (1 +\n               ^" in texts(result)[0]


@over_pipes
@pytest.mark.usefixtures("nothing_left")
async def test_a_client_that_asks_for_progress_is_told_of_each_tool_call(root: Path) -> None:
    seen: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    body = "await ctx.read('a.py')\ntry:\n    await ctx.read('gone')\nexcept ToolError:\n    pass"
    async with stdio(root) as client:
        await client.call_tool("program", script(body), progress_callback=note)
        # Notifications may be handled after the answer; they were sent before it.
        await until(lambda: len(seen) == 2, "two progress notifications")
    assert seen == [(1, "read succeeded"), (2, "read failed")]


@over_pipes
@pytest.mark.usefixtures("nothing_left")
async def test_cancelling_a_call_kills_its_worker_and_the_server_goes_on(root: Path) -> None:
    async with stdio(root) as client:
        assert not (await client.call_tool("program", script("return 1"))).is_error
        before = {pid: cpu_ticks(pid) for pid in descendants(os.getpid())}
        busy: set[int] = set()

        def worker_is_busy() -> bool:
            below = descendants(os.getpid())
            busy.update(p for p in below if cpu_ticks(p) >= before.get(p, 0) + 20)
            return bool(busy)

        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "program", script("while True:\n    pass"))
            await until(worker_is_busy, "the script to be running")
            group.cancel_scope.cancel()
        await until(lambda: not any(map(alive, busy)), f"the end of worker {busy}")
        assert not (await client.call_tool("program", script("return 2"))).is_error


@over_pipes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_and_all_its_processes(
    root: Path, number: signal.Signals
) -> None:
    with anyio.fail_after(SECONDS):
        process = subprocess.Popen(  # noqa: ASYNC220  # our own interpreter
            server_command(root),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
        try:
            await until(lambda: len(descendants(process.pid)) >= 2, "a zygote and a worker")
            below = descendants(process.pid)
            process.send_signal(number)
            await until(lambda: process.poll() is not None, "the end of the server")
            await until(lambda: not any(map(alive, below)), "the end of its processes")
        finally:
            process.kill()
            output, errors = process.communicate()
    assert process.returncode == 128 + number
    assert (output, errors) == (b"", b"")


@over_pipes
async def test_standard_output_is_only_protocol(root: Path) -> None:
    """A client that writes what is no protocol, calls, and leaves in the middle of a call."""
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    call = {"name": "program", "arguments": script("print('to stdout?')\nreturn 1")}
    endless = {"name": "program", "arguments": script("await asyncio.sleep(600)")}
    rows: list[Any] = [
        "this is not JSON",
        '{"jsonrpc": "1.0"}',
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": call},
        {"id": 3, "method": "tools/call", "params": endless},
    ]
    lines = [r if isinstance(r, str) else json.dumps({"jsonrpc": "2.0", **r}) for r in rows]
    answers: list[dict[str, Any]] = []
    with anyio.fail_after(SECONDS):
        async with await anyio.open_process(
            server_command(root, "--toolset", "builtin"), env=environment()
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.send("".join(f"{line}\n" for line in lines).encode())
            buffer = b""
            while not any(answer.get("id") == 2 for answer in answers):
                buffer += await process.stdout.receive()
                *whole, buffer = buffer.split(b"\n")
                answers += map(json.loads, whole)
            await process.stdin.aclose()
            assert await process.wait() == 0
            async for chunk in process.stdout:
                buffer += chunk
    answers += map(json.loads, buffer.split(b"\n")[:-1])
    assert {answer["jsonrpc"] for answer in answers} == {"2.0"}
    (answer,) = (answer for answer in answers if answer.get("id") == 2)
    assert answer["result"]["structuredContent"]["value"] == 1


def test_a_client_that_has_gone_is_a_line_and_no_traceback(root: Path) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with subprocess.Popen(  # our own interpreter
        server_command(root),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(json.dumps(hello).encode() + b"\n", timeout=SECONDS)
    assert errors == b"ptc mcp: the client has gone\n"


# --- what is offered ----------------------------------------------------------------------------


async def test_the_tool_tells_the_rules_and_the_signatures_where_clients_do_not_cut(
    root: Path,
) -> None:
    names = [f"tool_number_{n}_with_a_long_name" for n in range(200)]
    many = [
        define_tool(name, "Do it.", {"type": "object", "properties": {}}, lambda a: a)
        for name in names
    ]
    for tools, shown in (([add], "Tools on ctx: add."), (many, "more."), ([], "ctx: none")):
        async with in_process(root, *tools) as (client, _):
            (program,) = (await client.list_tools()).tools
            assert client.instructions is not None
            assert program.description is not None
            assert len(client.instructions) < 2_048
        assert len(program.description) < 2_048
        assert shown in program.description
        told = program.input_schema["properties"]["source"]["description"]
        assert "async def run(ctx, inputs)" in told
        assert "30 s for the run" in told
        assert all(f"async def {item.name}(" in told for item in tools)


async def test_schemas_of_all_that_is_offered_are_valid(root: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with (
            Session(root, workers=1) as session,
            mcp.Client(serve(session, direct_tools=True)) as client,
        ):
            tools = (await client.list_tools()).tools
    assert [item.name for item in tools] == ["program", *session.select_tools(None)]
    for item in tools:
        assert item.input_schema["type"] == "object"
        jsonschema_rs.meta.validate(item.input_schema)
        assert item.output_schema is not None
        assert item.output_schema["type"] == "object"
        jsonschema_rs.meta.validate(item.output_schema)


async def test_a_tool_is_read_only_as_far_as_it_has_no_side_effect(root: Path) -> None:
    async def hints(**options: Any) -> dict[str, tuple[bool | None, bool | None]]:
        async with in_process(root, add, write, **options) as (client, _):
            found = (await client.list_tools()).tools
        noted = {item.name: item.annotations for item in found}
        return {n: (a.read_only_hint, a.destructive_hint) for n, a in noted.items() if a}

    assert await hints() == {"program": (True, False)}
    assert await hints(allowed_tools=["add", "write"], direct_tools=True) == {
        "program": (False, True),
        "add": (True, False),
        "write": (False, True),
    }


async def test_a_client_cannot_widen_its_tools_or_limits(root: Path) -> None:
    source = script("return await ctx.write('x')")
    async with in_process(root, add, write) as (client, _):
        refused = await client.call_tool("program", source)
        assert "no tool 'write' is allowed" in texts(refused)[0]
        for extra in ({"allowed_tools": ["write"]}, {"limits": {"timeout_ms": 1}}):
            result = await client.call_tool("program", source | extra)
            assert result.is_error
            assert "set by whoever started the server" in texts(result)[0]
        with pytest.raises(MCPError, match=r"there is no tool 'write' here; tools: program$"):
            await client.call_tool("write", {"text": "x"})
        with pytest.raises(MCPError, match=r"a script calls it: `await ctx\.add"):
            await client.call_tool("add", {"a": 1})


async def test_a_server_cannot_be_made_of_wrong_names(root: Path) -> None:
    @tool(name="program")
    async def taken() -> None:
        """Have the name."""

    session = Session(root, tools=[add, taken], toolsets=())
    with pytest.raises(UsageError, match=r"there is no tool 'ad' \(did you mean `add`\?\)"):
        serve(session, allowed_tools=["ad"])
    with pytest.raises(UsageError, match="'program' cannot be offered singly"):
        serve(session, direct_tools=True)


# --- what is answered ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "source is a string, the text of the script, not null or missing"),
        ({"source": ["x"]}, "not an array"),
        ({"source": 1}, "not a number"),
        ({"source": "x", "inputs": '{"a": 1}'}, 'inputs is an object, for example {"query"'),
        ({"source": "x", "inputs": []}, "not an array"),
        ({"source": "x", "input": {}}, "unknown argument 'input'; program takes source and inputs"),
    ],
)
async def test_a_wrong_argument_is_told_of_in_the_result(
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
        (program,) = (await client.list_tools()).tools
        assert program.output_schema is not None
        schema = program.output_schema
        # Closed, so that a field which is not described is found.
        strict = jsonschema_rs.validator_for(json.loads(json.dumps(schema), object_hook=_closed))
        for body in bodies:
            result = await client.call_tool("program", script(body))
            strict.validate(result.structured_content)
            statuses.append(result.structured_content["status"])
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


async def test_a_run_that_fails_tells_what_it_had(root: Path) -> None:
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
    assert "Tool calls made (56, 6 earlier not shown):" in text
    assert '  55. add {"a":54}: succeeded (line 5)' in text
    assert "  56. broken {}: failed [internal] (line 8)" in text
    assert 'Partial values (1):\n  {"so far":55}' in text
    assert "Printed:\nabout to fail" in text
    data = result.structured_content
    assert [call["seq"] for call in data["calls"]] == list(range(7, 57))
    assert data["calls_omitted"] == 6
    assert data["partial"] == [{"so far": 55}]


async def test_a_value_that_was_cut_says_so_and_where_all_of_it_is(root: Path) -> None:
    limits = Limits(max_output_bytes=1_000)
    async with in_process(root, add, limits=limits) as (client, _):
        result = await client.call_tool("program", script("return list(range(10_000))"))
    data = result.structured_content
    assert not result.is_error
    whole = await anyio.Path(data["cut"]["artifact"]).read_text()
    assert len(json.loads(whole)) == 10_000
    value, note = texts(result)
    assert len(value) <= 1_000
    assert f"was cut to fit 1,000; return less. All of it: {data['cut']['artifact']}" in note


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


async def test_a_machine_without_the_jail_is_told_of_in_the_result(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on another system: the zygote itself asks for it.
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
async def test_a_tool_called_singly_gives_text_and_data(root: Path) -> None:
    async with stdio(root, "--direct-tools", "--allow", "read,grep") as client:
        assert [t.name for t in (await client.list_tools()).tools] == ["program", "read", "grep"]
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


async def test_an_object_goes_as_it_is_and_keeps_its_nulls(root: Path) -> None:
    async with in_process(root, table, add, direct_tools=True) as (client, _):
        tools = {item.name: item for item in (await client.list_tools()).tools}
        rows = await client.call_tool("table", {"rows": 1})
        number = await client.call_tool("add", {"a": 1})
    assert rows.structured_content == {"rows": [{"n": 0, "none": None}]}
    assert number.structured_content == {"result": 3}
    assert tools["table"].output_schema == {"type": "object", "additionalProperties": True}
    assert tools["add"].output_schema == {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }


async def test_a_result_too_large_for_a_model_is_an_error_that_says_what_to_do(
    root: Path,
) -> None:
    options = {"direct_tools": True, "limits": Limits(max_output_bytes=500)}
    async with in_process(root, table, **options) as (client, _):
        result = await client.call_tool("table", {"rows": 100})
    assert result.is_error
    assert "over the limit of 500; ask for less, or call table in a script" in texts(result)[0]


async def test_a_broken_tool_is_told_of_in_the_result(root: Path) -> None:
    def render(value: Any) -> str:
        raise ZeroDivisionError(value)

    @tool(render=render)
    async def unshown() -> int:
        """Fail to be shown."""
        return 7

    @tool
    async def unsent() -> Any:
        """Return what is no data."""
        return object()

    async with in_process(root, broken, unshown, unsent, direct_tools=True) as (client, _):
        for name, part in (
            ("broken", "Error [internal]: broken failed: KeyError: 'no such luck'"),
            ("unshown", "Error: unshown: ZeroDivisionError: 7"),
            ("unsent", "object has no JSON form"),
        ):
            result = await client.call_tool(name, {})
            assert result.is_error
            assert part in texts(result)[0]


# --- the command --------------------------------------------------------------------------------


def test_print_config_gives_one_line_that_starts_this_server(root: Path) -> None:
    options = ["--allow", "read, grep", "--direct-tools", "--max-tool-calls", "7"]
    result = CliRunner().invoke(command, ["--root", str(root), *options, "--print-config"])
    assert result.exit_code == 0, result.output
    assert result.output.count("\n") == 1
    entry = json.loads(result.output)["mcpServers"]["ptc"]
    assert Path(entry["command"]).is_absolute()
    _, found, rest = " ".join(entry["args"]).partition("mcp ")
    assert found
    assert rest == f"--root {root} --allow read,grep --direct-tools --max-tool-calls 7"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--allow", "raed"], r"--allow: there is no tool 'raed' (did you mean `read`"),
        (["--max-tool-calls", "0"], "--max-tool-calls must be an integer from 1"),
        (["--root", "/no/such/folder"], "No such file or directory"),
        (["--toolset", "biultin"], "no toolset 'biultin' is installed"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_starts(
    root: Path, options: list[str], message: str
) -> None:
    result = CliRunner().invoke(command, ["--root", str(root), *options])
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


def test_without_the_sdk_the_command_says_what_to_install(root: Path) -> None:
    # None in `sys.modules` is how the import system is told that a package is not there.
    hide = "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None; "
    start = "import ptc._cli; sys.argv = ['ptc', 'mcp', '--root', '.']; ptc._cli.main()"
    done = subprocess.run(  # our own interpreter
        [sys.executable, "-c", hide + start],
        cwd=root,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == "ptc mcp needs the MCP SDK: pip install 'ptc[mcp]'\n"
    assert done.stdout == ""


def test_importing_the_module_does_not_import_the_sdk() -> None:
    code = "import sys, ptc_bindings.mcp; print('mcp' in sys.modules, 'mcp_types' in sys.modules)"
    done = subprocess.run(  # our own interpreter
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert done.stdout == "False False\n"


def test_the_name_and_version_are_those_of_the_package(root: Path) -> None:
    server = serve(Session(root, toolsets=()))
    assert (server.name, server.version) == ("ptc", ptc.__version__)


def test_the_sample_runs() -> None:
    sample = Path(__file__).parents[2] / "samples" / "mcp_client.py"
    done = subprocess.run(  # our own interpreter
        [sys.executable, str(sample)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    first, second, third = done.stdout.splitlines()
    assert first == "program - Run a Python script that calls tools and returns one result"
    assert second == "{'a.py': 2}"
    assert third.startswith("AttributeError: no tool 'cat' is allowed in this run")
