"""`bash`: commands, results and failures, with real confined processes."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

import ptc_tools
from ptc import Session, ToolError, UsageError
from ptc._workers._command import MAX_STREAM_BYTES, Command, CommandOutcome, Output
from ptc_tools import bash, bash_tool, get_tool_response

from .conftest import Call

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

_PY = sys.executable


async def error_of(call: Call, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await call(bash, **arguments)
    return caught.value


# --- commands ---------------------------------------------------------------------------------


async def test_program_receives_its_arguments_and_its_output_is_returned(call: Call) -> None:
    result = await call(bash, cmd="printf", args=["%s-", "a b", "", "$HOME", "*"])
    assert result.stdout == "a b--$HOME-*-"
    assert (result.stderr, result.exit_code, result.truncated) == ("", 0, False)


async def test_arguments_are_not_interpreted_by_a_shell(call: Call, root: Path) -> None:
    result = await call(bash, cmd="echo", args=["x;", "touch", "made", "&&", "$(touch made)"])
    assert result.stdout == "x; touch made && $(touch made)\n"
    assert list(root.iterdir()) == []
    error = await error_of(call, cmd="touch made")
    assert error.code == "spawn_failed"
    assert 'args=["-c", "..."]' in error.message
    assert list(root.iterdir()) == []


async def test_streams_are_captured_separately_and_joined_stdout_first(call: Call) -> None:
    script = "echo err1 >&2; echo out1; echo err2 >&2; printf out2"
    result = await call(bash, cmd="sh", args=["-c", script])
    assert result.stdout == "out1\nout2"
    assert result.stderr == "err1\nerr2\n"
    assert result.output == "out1\nout2\nerr1\nerr2\n"
    assert bash.render is not None
    assert bash.render(result) == result.output


async def test_command_starts_in_the_root_or_a_folder_of_it(call: Call, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "link").symlink_to("sub")
    assert (await call(bash, cmd="pwd")).stdout == f"{root}\n"
    for cwd in ("sub", "sub/../sub", "link", str(root / "sub")):
        assert (await call(bash, cmd="pwd", args=["-P"], cwd=cwd)).stdout == f"{root}/sub\n"


@pytest.mark.parametrize(
    ("cwd", "code"),
    [
        ("..", "outside_root"),
        ("/", "outside_root"),
        ("sub/../..", "outside_root"),
        ("out", "outside_root"),
        ("nothing", "not_found"),
        ("file", "not_a_directory"),
        ("a\0b", "invalid_path"),
    ],
)
async def test_a_cwd_outside_the_root_is_refused(
    call: Call, root: Path, outside: Path, cwd: str, code: str
) -> None:
    (root / "sub").mkdir()
    (root / "file").touch()
    (root / "out").symlink_to(outside)
    assert (await error_of(call, cmd="pwd", cwd=cwd)).code == code


async def test_environment_contains_only_a_short_list_of_variables(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "SECRET")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("PATH", f"relative:/sbin:{os.environ['PATH']}")
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    result = await call(bash, cmd=_PY, args=["-c", script], env={"MINE": "1", "TERM": "vt100"})
    seen = json.loads(result.stdout)
    assert seen.keys() <= {"PATH", "HOME", "TMPDIR", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TZ",
                           "MINE"}  # fmt: skip
    assert (seen["MINE"], seen["TERM"], seen["LANG"]) == ("1", "vt100", "C.UTF-8")
    assert all(entry.startswith("/") for entry in seen["PATH"].split(":"))


async def test_temporary_files_are_private_and_removed_afterwards(call: Call) -> None:
    first = await call(bash, cmd="sh", args=["-c", "echo x > $TMPDIR/f; echo $TMPDIR"])
    second = await call(bash, cmd="sh", args=["-c", "ls $TMPDIR; echo $TMPDIR"])
    assert first.stdout != second.stdout
    assert not Path(first.stdout.strip()).exists()
    assert len(second.stdout.splitlines()) == 1


async def test_command_can_connect_to_a_server_it_started_itself(call: Call) -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        "c = socket.create_connection(s.getsockname()); c.send(b'hello');"
        "print(s.accept()[0].recv(5).decode())"
    )
    if not _has_namespaces():
        pytest.skip("the private loopback is a network namespace's")
    assert (await call(bash, cmd=_PY, args=["-c", script])).stdout == "hello\n"


def _has_namespaces() -> bool:
    pid = os.fork()
    if pid == 0:
        import ctypes

        os._exit(ctypes.CDLL(None).unshare(0x10000000 | 0x40000000) != 0)
    return os.waitpid(pid, 0)[1] == 0


async def test_command_has_no_descriptor_but_its_streams(call: Call) -> None:
    script = "import os; print(sorted(os.listdir('/proc/self/fd')), os.read(0, 1))"
    # The fourth is the listing's own.
    result = await call(bash, cmd=_PY, args=["-c", script])
    assert result.stdout == "['0', '1', '2', '3'] b''\n"


# --- exit and failure -------------------------------------------------------------------------


async def test_nonzero_exit_code_is_an_error_with_the_output(call: Call) -> None:
    error = await error_of(call, cmd="sh", args=["-c", "echo out; echo why >&2; exit 7"])
    assert error.code == "command_failed"
    assert error.message == "Command failed with exit code 7\nwhy"
    assert error.details["exit_code"] == 7
    assert error.details["output"] == "out\nwhy\n"
    assert error.details["stdout"] == "out\n"
    assert error.details["cmd"] == "sh"
    assert error.details["args"] == ["-c", "echo out; echo why >&2; exit 7"]


@pytest.mark.parametrize("code", [1, 2, 124, 125, 126, 127, 128, 255])
async def test_exit_code_is_reported_exactly(call: Call, code: int) -> None:
    assert (await error_of(call, cmd="sh", args=["-c", f"exit {code}"])).details[
        "exit_code"
    ] == code


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (11, "SIGSEGV"), (15, "SIGTERM")])
async def test_signal_is_reported_by_number_and_name(call: Call, number: int, name: str) -> None:
    error = await error_of(call, cmd="sh", args=["-c", f"echo x; kill -{number} $$"])
    assert error.code == "command_failed"
    assert f"signal {number} ({name})" in error.message
    assert error.details["signal"] == name
    assert "exit_code" not in error.details
    assert error.details["stdout"] == "x\n"


async def test_timeout_error_contains_the_output_so_far(call: Call, root: Path) -> None:
    script = "echo before; (sleep 1; touch late) & sleep 100"
    error = await error_of(call, cmd="sh", args=["-c", script], timeout_ms=300)
    assert error.code == "timeout"
    assert error.message.startswith("Command timed out after 300ms")
    assert error.details["stdout"] == "before\n"
    assert error.details["timeout_ms"] == 300
    assert error.details["cwd"] == "."
    assert list(root.iterdir()) == []


async def test_command_that_writes_endlessly_is_killed_at_its_timeout(call: Call) -> None:
    error = await error_of(call, cmd="yes", timeout_ms=2_000)
    assert error.code == "timeout"
    assert error.details["truncated"] is True


async def test_a_background_child_does_not_delay_the_return(call: Call, root: Path) -> None:
    began = time.monotonic()
    await call(bash, cmd="sh", args=["-c", "(sleep 60; touch late) & echo x"])
    assert time.monotonic() - began < 30
    assert list(root.iterdir()) == []


async def test_a_cancelled_command_leaves_no_process(call: Call, root: Path) -> None:
    script = f"echo $$ > {root}/pid; exec sleep 1000.{os.getpid()}"

    async def begin() -> None:
        await call(bash, cmd="sh", args=["-c", script])

    async with anyio.create_task_group() as group:
        group.start_soon(begin)
        with anyio.fail_after(20):
            while not (root / "pid").exists():
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    assert _running(f"1000.{os.getpid()}") == []


async def test_a_command_dies_with_its_host(root: Path) -> None:
    needle = f"2000.{os.getpid()}"
    code = (
        "import sys; from pathlib import Path; from ptc._workers._command import Command\n"
        f"Command(['sh', '-c', 'touch started; sleep {needle}'], "
        f"root=Path({str(root)!r})).run(600_000)"
    )
    async with await anyio.open_process([_PY, "-c", code], stdin=None) as host:
        with anyio.fail_after(20):
            while not (root / "started").exists():
                await anyio.sleep(0.01)
        host.kill()
        await host.wait()
    with anyio.fail_after(20):
        while _running(needle):
            await anyio.sleep(0.01)


def _running(needle: str) -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if needle.encode() in line:
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("cmd", "why"),
    [
        ("no-such-program-anywhere", "No such file"),
        ("./no-such-file", "No such file"),
        ("./plain", "Permission denied"),
        ("./folder", "Permission denied"),
        ("/outside/program", "No such file"),
    ],
)
async def test_program_that_cannot_start_is_reported_as_spawn_failed(
    call: Call, root: Path, cmd: str, why: str
) -> None:
    (root / "plain").write_text("x")
    (root / "folder").mkdir()
    error = await error_of(call, cmd=cmd)
    assert error.code == "spawn_failed"
    assert error.message.startswith(f"Failed to spawn {cmd}: {why}")


async def test_command_is_refused_if_a_layer_is_missing(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:

    nothing = Output(b"", b"", 0)
    refused = CommandOutcome("refused", 0, "landlock: not there", nothing, nothing, 1.0)
    # test_command_escapes checks such a kernel itself; this test checks the error.
    monkeypatch.setattr(Command, "run", lambda self, timeout_ms: refused)
    error = await error_of(call, cmd="ls")
    assert error.code == "confinement_unavailable"
    assert "landlock: not there" in error.message
    assert 'bash_tool(confinement="available")' in error.message


# --- limits -----------------------------------------------------------------------------------


def test_command_limits_have_their_documented_values() -> None:
    values = {name: getattr(ptc_tools, name) for name in dir(ptc_tools) if "BASH_" in name}
    assert values == {
        "BASH_MAX_COMMAND_LENGTH": 8_192,
        "BASH_MAX_ARGS": 128,
        "BASH_MAX_ARG_LENGTH": 8_192,
        "BASH_MAX_CWD_LENGTH": 1_024,
        "BASH_MAX_TIMEOUT_MS": 3_600_000,
        "BASH_MAX_OUTPUT_BYTES": 10_485_760,
        "BASH_DEFAULT_TIMEOUT_MS": 60_000,
        "BASH_DEFAULT_OUTPUT_BYTES": 200_000,
    }
    schema = bash.parameters["properties"]
    assert schema["cmd"]["maxLength"] == ptc_tools.BASH_MAX_COMMAND_LENGTH


@pytest.mark.parametrize(
    "arguments",
    [
        {"cmd": ""},
        {"cmd": " \t"},
        {"cmd": 5},
        {"cmd": None},
        {"cmd": "x" * 8193},
        {"cmd": "a\0b"},
        {"cmd": "true", "args": "x"},
        {"cmd": "true", "args": ["x"] * 129},
        {"cmd": "true", "args": [1]},
        {"cmd": "true", "args": ["x" * 8193]},
        {"cmd": "true", "args": ["x" * 5000, "x" * 5000]},
        {"cmd": "true", "args": ["x" * (8192 - 4)]},
        {"cmd": "true", "args": ["a\0b"]},
        {"cmd": "true", "args": ["\ud800"]},
        {"cmd": "true", "cwd": ""},
        {"cmd": "true", "cwd": "x" * 1025},
        {"cmd": "true", "timeout_ms": 0},
        {"cmd": "true", "timeout_ms": -1},
        {"cmd": "true", "timeout_ms": 3_600_001},
        {"cmd": "true", "timeout_ms": "soon"},
        {"cmd": "true", "timeout_ms": float("inf")},
        {"cmd": "true", "env": {"A=B": "x"}},
        {"cmd": "true", "env": {"": "x"}},
        {"cmd": "true", "env": {"A": "a\0b"}},
        {"cmd": "true", "env": {"A": 1}},
        {"cmd": "true", "env": {f"A{n}": "x" for n in range(65)}},
        {"cmd": "true", "network": True},
    ],
)
async def test_command_arguments_over_a_limit_are_refused(
    call: Call, arguments: dict[str, Any]
) -> None:
    assert (await error_of(call, **arguments)).code == "invalid_arguments"


@pytest.mark.parametrize(
    "arguments",
    [
        {"args": ["x"] * 128},
        {"args": ["x" * (8192 - 5)]},
        {"timeout_ms": 3_600_000},
        {"env": {f"A{n}": "x" for n in range(64)}},
    ],
)
async def test_command_arguments_at_a_limit_are_accepted(
    call: Call, arguments: dict[str, Any]
) -> None:
    await call(bash, cmd="true", **arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"max_output_bytes": 0},
        {"max_output_bytes": 10_485_761},
        {"max_output_bytes": 1.5},
        {"timeout_ms": 0},
        {"timeout_ms": 3_600_001},
        {"timeout_ms": True},
        {"confinement": "none"},
        {"readable": ["relative"]},
    ],
)
def test_invalid_bash_tool_option_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        bash_tool(**options)


async def test_noisy_stream_does_not_shorten_the_other(call: Call) -> None:
    tool = bash_tool(max_output_bytes=1_000)
    script = "head -c 500000 /dev/zero | tr '\\0' e >&2; echo small"
    result = await call(tool, cmd="sh", args=["-c", script])
    assert result.stdout == "small\n"
    assert (result.stdout_bytes, result.stderr_bytes) == (6, 500_000)
    assert len(result.stderr) < 1_300
    assert result.output.startswith("small\nee")


async def test_output_over_budget_is_truncated_and_stored_whole(root: Path) -> None:
    tools = ptc_tools.builtin(max_output_bytes=1_000).only("bash")
    script = "for i in $(seq 1000); do echo line $i; done"
    async with Session(root=root, toolsets=(), tools=[tools]) as session:
        result = await session.bash(cmd="sh", args=["-c", script])  # type: ignore[attr-defined]  # a tool as a method
    whole = "".join(f"line {i}\n" for i in range(1, 1001))
    assert result.truncated
    assert result.stdout.startswith("line 1\n")
    assert result.stdout.endswith("line 1000\n")
    (artifact,) = result.artifacts
    assert artifact.startswith(".ptc/")
    assert (root / artifact).read_text() == whole
    assert f"of {len(whole):,} bytes omitted; full output: {artifact} ...]" in result.stdout


async def test_truncated_output_names_the_tool_that_reads_it_again(root: Path) -> None:
    tools = [bash_tool(max_output_bytes=1_000), get_tool_response]
    async with Session(root=root, toolsets=(), tools=tools) as session:
        result = await session.tool("bash", {"cmd": "seq", "args": ["1000"]})
        found = re.search(r'full output: get_tool_response\(handle="([0-9a-f]{16})"\)', result.text)
        assert found is not None
        again = await session.call(get_tool_response, handle=found[1], offset=499, limit=2)
    assert (again.value, again.total) == ("500\n501\n", 1_000)


@pytest.mark.parametrize("budget", range(20, 32))
async def test_truncation_never_splits_a_character(call: Call, budget: int) -> None:
    tool = bash_tool(max_output_bytes=budget)
    result = await call(tool, cmd="printf", args=["%s", "a" + "é€😀" * 20])
    assert "\ufffd" not in result.stdout
    shown = result.stdout.partition("\n[...")[0] + result.stdout.rpartition("...]\n")[2]
    assert len(shown.encode()) <= budget + 3
    assert "é€😀".startswith(shown[-1]) or shown[-1] in "é€😀"


async def test_output_at_the_budget_is_not_truncated(call: Call) -> None:
    tool = bash_tool(max_output_bytes=10)
    assert not (await call(tool, cmd="printf", args=["0123456789"])).truncated
    assert (await call(tool, cmd="printf", args=["0123456789a"])).truncated


async def test_output_over_the_storage_limit_is_counted_and_reported(root: Path) -> None:
    tool = bash_tool(max_output_bytes=1_000)
    size = MAX_STREAM_BYTES + 1_000_000
    script = f"head -c {size} /dev/zero | tr '\\0' x; echo THE END"
    async with Session(root=root, toolsets=(), tools=[tool]) as session:
        result = await session.bash(cmd="sh", args=["-c", script])  # type: ignore[attr-defined]  # a tool as a method
    assert result.stdout_bytes == size + 8
    assert result.stdout.endswith("THE END\n")
    assert "bytes of its middle)" in result.stdout
    assert (root / result.artifacts[0]).stat().st_size == MAX_STREAM_BYTES + 65_536


async def test_output_artifact_is_never_written_through_a_link(root: Path, outside: Path) -> None:
    tool = bash_tool(max_output_bytes=10)
    (root / ".ptc").symlink_to(outside)
    script = f"rm .ptc; ln -s {outside} .ptc; seq 1000"
    async with Session(root=root, toolsets=(), tools=[tool]) as session:
        result = await session.bash(cmd="sh", args=["-c", script])  # type: ignore[attr-defined]  # a tool as a method
    assert result.truncated
    assert [text.split()[0] for text in result.refused] == ["'.ptc'"]
    assert result.artifacts == []
    assert "could not be stored" in result.stdout
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]


async def test_output_that_is_not_text_is_shown_with_replacements(call: Call) -> None:
    result = await call(bash, cmd="printf", args=[r"\377\376x"])
    assert result.stdout == "\ufffd\ufffdx"


# --- early refusals ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cmd", "args"),
    [
        ("curl", ["example.org"]),
        ("/usr/bin/wget", ["-q", "example.org"]),
        ("npm", ["install"]),
        ("npm", ["--prefix", "sub", "ci"]),
        ("bun", ["add", "x"]),
        ("pip", ["install", "x"]),
        ("pip3", ["--no-input", "download", "x"]),
        ("curl", []),
        ("python", ["fetch.py", "https://example.org/x"]),
        ("tool", ["--from=http://example.org"]),
        ("curl", ["http://localhost.evil.com/"]),
        ("curl", ["http://localhost/", "http://example.org/"]),
        ("curl http://example.org/", []),
        ("sh", ["-c", "cd x && curl example.org"]),
        ("bash", ["-lc", "A=b pip install x"]),
        ("sh", ["-c", "echo $(wget example.org)"]),
    ],
)
async def test_network_command_is_refused_early(call: Call, cmd: str, args: list[str]) -> None:
    error = await error_of(call, cmd=cmd, args=args)
    assert error.code == "network_disabled"
    assert "network=True" in error.message
    assert error.details["executable"]


@pytest.mark.parametrize(
    "args",
    [
        ["push"],
        ["pull", "origin"],
        ["fetch"],
        ["clone", "x"],
        ["remote", "-v"],
        ["-C", "sub", "push"],
        ["-c", "a=b", "--no-pager", "fetch"],
    ],
)
async def test_remote_git_command_is_refused_early(call: Call, args: list[str]) -> None:
    assert (await error_of(call, cmd="git", args=args)).code == "git_remote_disabled"
    script = "git " + " ".join(args)
    assert (await error_of(call, cmd="sh", args=["-c", script])).code == "git_remote_disabled"


@pytest.mark.parametrize(
    ("cmd", "args"),
    [
        ("echo", ["bundle.js", "pipeline.txt", "curly", "npm"]),
        (
            "echo",
            ["http://localhost:1/", "http://127.0.0.1/x", "http://[::1]/", "http://a.localhost"],
        ),
        ("git", ["--version"]),
        ("echo", ["git", "push"]),
        ("sh", ["-c", "echo curl example.org"]),
        ("sh", ["-c", "echo pull request"]),
    ],
)
async def test_command_resembling_a_network_command_is_allowed(
    call: Call, cmd: str, args: list[str]
) -> None:
    await call(bash, cmd=cmd, args=args)


@pytest.mark.parametrize(
    ("program", "args"),
    [
        ("npm", ["test"]),
        ("npm", ["run", "build"]),
        ("npm", ["run", "install"]),
        ("npm", ["install", "--offline"]),
        ("bun", ["test"]),
        ("pip", ["list"]),
        ("pip", ["install", "--no-index", "--find-links=wheels", "x"]),
        ("pip", ["install", "--no-deps", "--no-build-isolation", "-e", "."]),
        ("pip", ["install", "--help"]),
    ],
)
async def test_package_managers_run_where_they_may_need_no_network(
    call: Call, root: Path, program: str, args: list[str]
) -> None:
    (root / program).write_text('#!/bin/sh\necho "ran $*"\n')
    (root / program).chmod(0o755)
    result = await call(bash, cmd=f"./{program}", args=args)
    assert result.stdout == f"ran {' '.join(args)}\n"
    script = f"PATH=.:$PATH {program} {' '.join(args)}"
    assert (await call(bash, cmd="sh", args=["-c", script])).stdout == result.stdout


_LOOK_UP = (
    "import socket\ntry:\n    socket.getaddrinfo('example.org', 80)\n"
    "except OSError as error:\n    raise SystemExit(str(error))\n"
)


async def test_a_command_that_fails_without_the_network_gets_a_hint(call: Call) -> None:
    error = await error_of(call, cmd=_PY, args=["-c", _LOOK_UP])
    assert error.code == "command_failed"
    assert error.message.endswith(
        "\nThe network is off for commands of this session. Do without the network, or ask the "
        "owner of the session for ptc_tools.builtin(network=True), or --network on the command line"
    )
    assert error.message.count("The network is off") == 1


@pytest.mark.parametrize(
    "output",
    [
        "curl: (6) Could not resolve host: example.org",
        "ssh: Could not resolve hostname example.org: Temporary failure in name resolution",
        "E: Temporary failure resolving 'deb.debian.org'",
        "socket.gaierror: [Errno -2] Name or service not known",
        "OSError: [Errno 101] Network is unreachable",
        "Error: getaddrinfo EAI_AGAIN registry.npmjs.org",
        "dial tcp: lookup proxy.golang.org: no such host",
        "java.net.UnknownHostException: example.org",
    ],
)
async def test_messages_of_other_programs_get_the_hint_too(call: Call, output: str) -> None:
    error = await error_of(call, cmd="sh", args=["-c", 'echo "$1" >&2; exit 1', "sh", output])
    assert error.message.count("network=True") == 1


async def test_other_failures_get_no_hint_about_the_network(call: Call) -> None:
    error = await error_of(call, cmd="sh", args=["-c", "echo 'connection refused' >&2; exit 1"])
    assert "network" not in error.message
    # With the network on, the same message has another cause.
    script = "echo 'Network is unreachable' >&2; exit 1"
    with pytest.raises(ToolError) as caught:
        await call(bash_tool(network=True), cmd="sh", args=["-c", script])
    assert "network=" not in caught.value.message


async def test_enabled_network_disables_early_refusal(call: Call) -> None:
    tool = bash_tool(network=True)
    with pytest.raises(ToolError) as caught:
        await call(tool, cmd="curl", args=["-s", "http://127.0.0.1:9/"])
    assert caught.value.code in {"command_failed", "spawn_failed"}


# --- in a session -----------------------------------------------------------------------------


@pytest.fixture
def script() -> str:
    return (
        "async def run(ctx, inputs):\n"
        "    ok = await ctx.bash(cmd='echo', args=['hello'])\n"
        "    try:\n"
        "        await ctx.bash(cmd='sh', args=['-c', 'echo no >&2; exit 3'])\n"
        "    except ToolError as error:\n"
        "        return [ok.stdout, error.code, error.details['exit_code']]\n"
    )


async def test_script_receives_command_data_and_a_usable_error(root: Path, script: str) -> None:
    async with Session(root=root) as session:
        result = await session.program(source=script, allowed_tools=["bash"])
        assert result.unwrap() == ["hello\n", "command_failed", 3]
        refused = await session.program(source=script)
        assert refused.status == "rejected"
        assert refused.error is not None
        assert "bash" in refused.error.message


async def test_application_receives_a_command_result_or_an_exception(root: Path) -> None:
    async with Session(root=root) as session:
        assert (await session.bash("echo", ["hello"])).stdout == "hello\n"  # type: ignore[attr-defined]  # a tool as a method
        with pytest.raises(ToolError, match="exit code 3"):
            await session.bash("sh", ["-c", "exit 3"])  # type: ignore[attr-defined]  # a tool as a method


def test_bash_is_a_non_idempotent_side_effect() -> None:
    assert (bash.side_effect, bash.idempotent) == (True, False)
