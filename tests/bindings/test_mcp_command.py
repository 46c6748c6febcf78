"""The MCP server as a process: a real client over standard input and output, and its command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from click.testing import CliRunner

import ptc
from ptc import Session, UsageError
from ptc_bindings.mcp import command, serve

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")


from .mcp_client import (
    COUNT,
    SECONDS,
    cpu_ticks,
    descendants,
    environment,
    is_alive,
    over_pipes,
    script,
    server_command,
    stdio,
    texts,
    wait_until,
)

pytestmark = pytest.mark.anyio


# --- over standard input and output -------------------------------------------------------------


@over_pipes
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("mode", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])
async def test_a_client_runs_a_script_over_real_files(
    root: Path, mode: Literal["auto", "legacy"]
) -> None:
    async with stdio(root, "--allow", "read,grep", mode=mode) as client:
        program = (await client.list_tools()).tools[0]
        result = await client.call_tool("program", {"source": COUNT, "inputs": {"query": "TODO"}})
    assert program.name == "program"
    assert not result.is_error
    value = {"files": ["a.py", "b.py"], "chars": 42, "none": None}
    printed = {"stdout": "looked at 2 files\n", "stderr": "done\n"}
    assert result.structured_content == {"value": value, **printed}
    assert json.loads(texts(result)[0]) == value
    assert texts(result)[1] == "Printed:\nlooked at 2 files\n\nPrinted to stderr:\ndone"


@pytest.mark.slow
@over_pipes
@pytest.mark.usefixtures("nothing_left")
async def test_client_receives_the_reason_a_script_failed(root: Path) -> None:
    cases = {
        "unknown tool": ("await ctx.reed('a.py')", ["line 4, column 11", "did you mean read"]),
        "denied import": ("import subprocess", ["line 4", "import subprocess", "Suggested fix"]),
        "error": ("return 1 / 0", ["ZeroDivisionError: division by zero", "line 4, column 12"]),
        "no JSON": ("await ctx.read(path=b'x')", ["no JSON form"]),
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
@pytest.mark.slow
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
@pytest.mark.slow
async def test_client_requesting_progress_is_notified_of_each_tool_call(root: Path) -> None:
    seen: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    body = "await ctx.read('a.py')\ntry:\n    await ctx.read('gone')\nexcept ToolError:\n    pass"
    async with stdio(root) as client:
        await client.call_tool("program", script(body), progress_callback=note)
        # Notifications may be handled after the answer; they were sent before it.
        await wait_until(lambda: len(seen) == 2, "two progress notifications")
    assert seen == [(1, "read succeeded"), (2, "read failed")]


@over_pipes
@pytest.mark.usefixtures("nothing_left")
async def test_cancelling_a_call_kills_its_worker_and_the_server_continues(root: Path) -> None:
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
            await wait_until(worker_is_busy, "the script to be running")
            group.cancel_scope.cancel()
        await wait_until(lambda: not any(map(is_alive, busy)), f"the end of worker {busy}")
        assert not (await client.call_tool("program", script("return 2"))).is_error


@pytest.mark.slow
@over_pipes
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
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
            await wait_until(lambda: len(descendants(process.pid)) >= 2, "a zygote and a worker")
            below = descendants(process.pid)
            process.send_signal(number)
            await wait_until(lambda: process.poll() is not None, "the end of the server")
            await wait_until(lambda: not any(map(is_alive, below)), "the end of its processes")
        finally:
            process.kill()
            output, errors = process.communicate()
    assert process.returncode == 128 + number
    assert (output, errors) == (b"", b"")


NOISY = '''
import ptc
print("the file is loaded", flush=True)
@ptc.tool
def nothing() -> None:
    """Do nothing."""
'''


@pytest.mark.slow
@over_pipes
async def test_standard_output_contains_only_protocol_messages(root: Path) -> None:
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
    (root / "noisy.py").write_text(NOISY)
    options = ("--toolset", "builtin", "--tools", str(root / "noisy.py"))
    with anyio.fail_after(SECONDS):
        async with await anyio.open_process(
            server_command(root, *options), env=environment()
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


def test_disconnected_client_causes_one_line_and_no_traceback(root: Path) -> None:
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
    assert errors == b"ptc mcp: the client disconnected\n"


OWN = """
from ptc import tool

@tool
async def price(item: str) -> float:
    \"\"\"Look up a price.\"\"\"
    return 2.5

@tool(side_effect=True, idempotent=True)
async def pay(amount: int) -> int:
    \"\"\"Pay.\"\"\"
    return amount
"""


@over_pipes
@pytest.mark.usefixtures("nothing_left")
async def test_server_offers_the_tools_and_the_rules_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(OWN)
    (tmp_path / "ptc.toml").write_text(
        'toolsets = []\ntools = ["tools.py"]\nallow = ["price", "pay(amount <= 100)"]\n'
    )
    source = script("return [await ctx.price('tea'), await ctx.pay(inputs['amount'])]")
    named = ("--config", str(tmp_path / "ptc.toml"))
    async with stdio(tmp_path, "--direct-tools", *named) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        done = await client.call_tool("program", {**source, "inputs": {"amount": 100}})
        over = await client.call_tool("program", {**source, "inputs": {"amount": 101}})
        direct = await client.call_tool("pay", {"amount": 101})
    own = ["program", "program_log", "program_status", "program_resume"]
    assert names == [*own, "price", "pay"]
    assert done.structured_content["value"] == [2.5, 100]
    assert "not allowed in this run: amount must be <= 100" in texts(over)[0]
    assert "not allowed in this run: amount must be <= 100" in texts(direct)[0]


# --- the command --------------------------------------------------------------------------------


def test_print_config_is_one_line_that_starts_this_server(root: Path) -> None:
    options = ["--allow", "read, grep", "--direct-tools", "--max-tool-calls", "7"]
    result = CliRunner().invoke(command, ["--root", str(root), *options, "--print-config"])
    assert result.exit_code == 0, result.output
    assert result.output.count("\n") == 1
    entry = json.loads(result.output)["mcpServers"]["ptc"]
    assert Path(entry["command"]).is_absolute()
    _, found, rest = " ".join(entry["args"]).partition("mcp ")
    assert found
    assert rest == f"--root {root} --allow read,grep --max-tool-calls 7 --direct-tools"


def test_print_config_contains_the_absolute_path_of_the_journal(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    options = ["--root", ".", "--journal", "j.sqlite3", "--journal-in-root"]
    result = CliRunner().invoke(command, [*options, "--print-config"])
    assert result.exit_code == 0, result.output
    [*_, option, journal, insists] = json.loads(result.output)["mcpServers"]["ptc"]["args"]
    assert (option, insists) == ("--journal", "--journal-in-root")
    assert Path(journal).is_absolute()
    assert Path(journal).resolve() == root.resolve() / "j.sqlite3"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--allow", "raed"], r"--allow: there is no tool 'raed' (did you mean `read`"),
        (["--max-tool-calls", "0"], "--max-tool-calls must be an integer from 1"),
        (["--root", "/no/such/folder"], "No such file or directory"),
        (["--toolset", "biultin"], "no toolset 'biultin' is installed"),
    ],
)
def test_invalid_mcp_option_is_refused_before_anything_starts(
    root: Path, options: list[str], message: str
) -> None:
    result = CliRunner().invoke(command, ["--root", str(root), *options])
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)


@pytest.mark.parametrize("arguments", [["mcp"], ["tools", "--mcp-server", "a=b"]])
def test_missing_sdk_error_names_the_package_to_install(root: Path, arguments: list[str]) -> None:
    # None in `sys.modules` is how the import system is told that a package is not there.
    hide = "import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None; "
    start = f"import ptc._cli; sys.argv = ['ptc', *{arguments}]; ptc._cli.main()"
    done = subprocess.run(  # our own interpreter
        [sys.executable, "-c", hide + start],
        cwd=root,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 5
    assert done.stderr == "Error: MCP needs its SDK: pip install 'ptc-host[mcp]'\n"
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


def test_server_reports_name_and_version_of_the_package(root: Path) -> None:
    server = serve(Session(root, toolsets=()))
    assert (server.name, server.version) == ("ptc", ptc.__version__)


@pytest.mark.slow
def test_mcp_client_sample_runs(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "samples" / "programs" / "mcp_client.py"
    done = subprocess.run(  # our own interpreter
        [sys.executable, str(sample)],
        # A client of the SDK passes HOME on, and nothing else that says where runs are recorded.
        env={**environment(), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    first, *_, second, third = done.stdout.splitlines()
    assert first == "program - Run a Python script that calls tools and returns one result"
    assert second == "{'a.py': 2}"
    assert third.startswith("there is no tool 'cat'; allowed: read, grep")
