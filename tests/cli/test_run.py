"""``ptc run`` on pipes: what goes where, what each outcome's exit status is, what is refused."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from ptc import Limits, RunResult
from ptc._cli._status import status_of
from ptc._records._result import Status
from ptc._workers._choose import wasm_is_installed
from ptc._workers.wasm._module import is_compiled

HELLO = """
async def run(ctx, inputs):
    print("hello")
    return {"sum": await ctx.add(inputs.get("a", 1), b=4), "inputs": inputs}
"""


def test_run_prints_only_the_value_as_json_on_a_pipe(command: Any, script: Any) -> None:
    done = command("run", script(HELLO), "--toolset", "shelf", "--input", "a=3")
    assert done.status == 0, done.err
    assert json.loads(done.out) == {"sum": 7, "inputs": {"a": 3}}
    assert done.err == "hello\n"


def test_string_value_is_json_without_a_terminal(command: Any) -> None:
    done = command("run", "-", "--toolset", "shelf", stdin="def run(ctx, inputs): return 'a\\nb'")
    assert done.out == '"a\\nb"\n'


def test_json_prints_the_whole_result_and_nothing_on_standard_error(
    command: Any, script: Any
) -> None:
    source = (
        "async def run(ctx, inputs):\n"
        "    print('seen')\n"
        "    ctx.log('noted')\n"
        "    ctx.emit({'part': 1})\n"
        "    await ctx.add(1)\n"
        "    raise ValueError('it broke')\n"
    )
    done = command("run", script(source), "--toolset", "shelf", "--json")
    assert done.status == 1
    assert done.err == ""
    result = json.loads(done.out)
    assert result["status"] == "failed"
    assert (result["stdout"], result["stderr"]) == ("seen\n", "noted\n")
    assert result["partial"] == [{"part": 1}]
    assert [call["tool"] for call in result["calls"]] == ["add"]
    assert result["error"]["line"] == 6
    assert set(result) >= {"run_id", "usage", "limits", "warnings", "value", "cut"}


NOISY = """
import os
from ptc import tool

print("file is loaded")

@tool
def double(n: int) -> int:
    \"\"\"Double a number.\"\"\"
    print("tool is called")
    os.write(1, b"raw\\n")
    os.system("echo program is started")
    return n * 2
"""
NOISE = ["file is loaded", "tool is called", "raw", "program is started"]


@pytest.mark.parametrize("arguments", [["run", "-"], ["call", "double", '{"n": 2}']])
def test_output_of_tools_and_of_their_file_goes_to_standard_error(
    command: Any, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    source = "async def run(ctx, inputs): return await ctx.double(n=2)"
    done = command(*arguments, "--tools", str(tmp_path / "noisy.py"), stdin=source)
    assert (done.status, done.out) == (0, "4\n")
    assert [line for line in done.err.splitlines() if line in NOISE] == NOISE


def test_output_of_tools_goes_nowhere_else_if_standard_output_is_closed(tmp_path: Path) -> None:
    """Its number must not become that of a socket."""
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "script.py").write_text(
        "async def run(ctx, inputs):\n    assert await ctx.double(n=2) == 4\n"
    )
    ptc = f"{sys.executable} -P -m ptc run script.py --tools noisy.py --no-input"
    for closed in (">&-", "2>&-", "<&- >&- 2>&-"):
        done = subprocess.run(
            ["sh", "-c", f"exec {ptc} {closed}"], cwd=tmp_path, timeout=60, check=False
        )
        assert done.returncode == 0, closed


def test_both_streams_of_a_script_go_to_standard_error(command: Any, script: Any) -> None:
    source = (
        "import logging, sys\nprint('out')\nprint('err', file=sys.stderr)\n"
        "logging.warning('log')\nctx.log('said')\n7\n"
    )
    done = command("run", script(source))
    assert (done.status, done.out) == (0, "7\n")
    assert done.err.startswith("out\nerr\nWARNING:root:log\nsaid\n")


def test_failure_shows_its_location_and_all_emitted_values(command: Any, script: Any) -> None:
    source = (
        "def f(n):\n    return 1 / n\n\n"
        "def run(ctx, inputs):\n    ctx.emit([1, 2])\n    print('open', end='')\n    return f(0)\n"
    )
    done = command("run", script(source), "--toolset", "shelf")
    assert done.status == 1
    assert done.out == ""
    lines = done.err.splitlines()
    assert lines[:2] == [
        "open",
        "Error: the script failed in line 2: ZeroDivisionError: division by zero",
    ]
    assert '  File "script.py", line 7, in run' in lines
    at = lines.index('  File "script.py", line 2, in f')
    assert lines[at + 1].strip() == "return 1 / n"
    assert lines[at + 2].strip() == "^^^^^"
    assert lines[-2:] == ["partial values emitted: 1 (--json shows them in full)", "  [1,2]"]


def test_rejected_script_shows_every_finding_with_its_location(command: Any, script: Any) -> None:
    source = "import socket\nimport ctypes\n\ndef run(ctx, inputs):\n    return 1\n"
    done = command("run", script(source), "--toolset", "shelf")
    assert done.status == 1
    assert done.out == ""
    assert done.err.startswith("Error: the script was rejected before it ran\nscript.py:1:")
    assert "\nscript.py:2:" in done.err
    assert "    import socket\n" in done.err
    assert "^^^^" in done.err


def test_run_over_a_limit_exits_with_3_and_names_the_limit(command: Any, script: Any) -> None:
    spin = script("def run(ctx, inputs):\n    while True:\n        pass\n")
    done = command("run", spin, "--toolset", "shelf", "--timeout-ms", "150")
    assert done.status == 3
    # From 3.14 on, the jump back belongs to the line of `pass`.
    line, text = (3, "    pass") if sys.version_info >= (3, 14) else (2, "while True:")
    assert done.err.startswith(
        f"Error: the run timed out in line {line}: the run took longer than 150 ms"
    )
    assert f"computing on line {line}\n        {text}\nhint: " in done.err


def test_max_tool_calls_option_limits_the_run(command: Any, script: Any) -> None:
    source = "async def run(ctx, inputs):\n    for n in range(9):\n        await ctx.add(n)\n"
    done = command("run", script(source), "--toolset", "shelf", "--max-tool-calls", "3", "--json")
    result = json.loads(done.out)
    assert [call["status"] for call in result["calls"]] == ["succeeded"] * 3 + ["not_started"]
    assert result["limits"]["max_tool_calls"] == 3


def test_max_calls_by_tool_option_limits_one_tool(command: Any, script: Any) -> None:
    source = "async def run(ctx, inputs):\n    for n in range(9):\n        await ctx.add(n)\n"
    options = ["--toolset", "shelf", "--max-calls-by-tool", "add=2", "--tool-timeout-ms", "9000"]
    done = command("run", script(source), *options, "--json")
    result = json.loads(done.out)
    assert [call["status"] for call in result["calls"]] == ["succeeded"] * 2 + ["not_started"]
    assert result["error"]["breach"] == {"limit": "max_calls_by_tool", "most": 2, "used": None}
    assert result["limits"]["tool_timeout_ms"] == 9000
    for wrong, words in {
        "add": "write TOOL=N, as in bash=3",
        "=3": "write TOOL=N",
        "add=x": "write TOOL=N",
        "add=0": "--max-calls-by-tool['add'] must be an integer from 1",
        "ad=3": "--max-calls-by-tool names 'ad', which is not a tool of the session",
    }.items():
        refused = command("run", script(source), "--toolset", "shelf", "--max-calls-by-tool", wrong)
        assert refused.status == 2, wrong
        assert words in refused.err, refused.err


def test_value_over_its_limit_is_truncated_and_printed_whole_by_artifact(
    command: Any, script: Any, tmp_path: Path
) -> None:
    big = script("def run(ctx, inputs):\n    return 'x' * 5000\n")
    done = command("run", big, "--toolset", "shelf", "--max-output-bytes", "100")
    assert done.status == 0
    assert len(json.loads(done.out)) <= 100
    (kept,) = (tmp_path / ".ptc" / "artifacts").rglob("*.json")
    assert json.loads(kept.read_bytes()) == "x" * 5000
    assert done.err.startswith("warning: ")
    reference = f"sha256:{kept.stem}"
    assert reference in done.err
    (run,) = json.loads(command("runs", "--json").out)["runs"]
    for name in (run["run_id"], reference):
        whole = command("artifact", name, "--output", str(tmp_path / "whole"))
        assert whole.status == 0, whole.err
        assert json.loads((tmp_path / "whole").read_bytes()) == "x" * 5000
    wrong = command("artifact", "sha256:../../etc/passwd")
    assert "a reference is sha256:DIGEST" in wrong.err


def test_command_line_may_set_a_limit_above_the_default_ceiling(command: Any, script: Any) -> None:
    one = script("def run(ctx, inputs): return 1")
    done = command("run", one, "--toolset", "shelf", "--timeout-ms", "3600000", "--json")
    result = json.loads(done.out)
    assert (result["limits"]["timeout_ms"], result["warnings"]) == (3_600_000, [])


@pytest.mark.parametrize("status", get_args(Status))
def test_every_outcome_has_an_exit_status(status: Status) -> None:
    expected = {"completed": 0, "failed": 1, "rejected": 1, "timed_out": 3, "limit_exceeded": 3}
    found = status_of(RunResult(run_id="r", status=status, limits=Limits()))
    expected |= {"cancelled": 130, "paused": 6}
    assert found == expected.get(status, 4)


WAITING = """
async def run(ctx, inputs):
    await ctx.add(1)
    await ctx.announce(60)
"""


def _start(
    environment: dict[str, str], folder: Path, *, source: str = WAITING, before: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    (folder / "script.py").write_text(source)
    process = subprocess.Popen(  # our own interpreter and our own command
        [sys.executable, *before, "-P", "-m", "ptc", "run", "script.py", "--toolset", "shelf"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"begun\n"
    return process


def test_a_worker_that_is_killed_exits_with_4(
    environment: dict[str, str], tmp_path: Path, processes: Any, wait_until_gone: Any
) -> None:
    with _start(environment, tmp_path) as process:
        below = processes(process.pid)
        for pid, _ in below:
            if not processes(pid):  # the workers; the zygote and its shell have children
                with contextlib.suppress(ProcessLookupError):  # it may be replaced just now
                    os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 4
    assert out == b""
    assert err.startswith(b"Error: the worker crashed: ")
    wait_until_gone(below)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_signal_interrupts_the_run_and_leaves_no_process(
    environment: dict[str, str],
    tmp_path: Path,
    processes: Any,
    wait_until_gone: Any,
    number: signal.Signals,
    status: int,
) -> None:
    with _start(environment, tmp_path) as process:
        below = processes(process.pid)
        assert below
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    first, following = err.decode().splitlines()
    assert (process.returncode, out) == (status, b"")
    assert first == "interrupted after 2 tool calls"
    assert re.fullmatch("next: ptc resume [0-9a-f]{32} --toolset shelf", following)
    wait_until_gone(below)


IGNORING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_signal_ignored_by_the_shell_stays_ignored(
    environment: dict[str, str], tmp_path: Path
) -> None:
    source = WAITING.replace("60", "0.3") + "    return 1\n"
    with _start(environment, tmp_path, source=source, before=["-c", IGNORING]) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, b"1\n", b"")


def test_signal_interrupts_the_call_command(environment: dict[str, str], tmp_path: Path) -> None:
    with subprocess.Popen(  # our own interpreter and our own command
        [sys.executable, "-P", "-m", "ptc", "call", "announce", *("--toolset", "shelf")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (130, b"", b"interrupted")


def test_signal_during_startup_ends_the_command(
    environment: dict[str, str], tmp_path: Path, processes: Any, wait_until_gone: Any
) -> None:
    (tmp_path / "script.py").write_text(WAITING)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ptc", "run", "script.py", "--toolset", "shelf"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
    ) as process:
        deadline = time.monotonic() + 20
        while not (below := processes(process.pid)):  # the zygote has just been spawned
            assert time.monotonic() < deadline
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.strip().startswith(b"interrupted")
    wait_until_gone(below)


NO_LANDLOCK = """
import ctypes, os, struct, sys
# if the system call is landlock_create_ruleset (444 everywhere): ENOSYS, else: allow
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050026), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
program = struct.pack("HxxxxxxQ", len(rows), ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Starts a command on a kernel that has no Landlock, as far as the command can tell."""


def test_missing_required_layer_exits_with_5_and_is_named(command: Any, script: Any) -> None:
    hello = script(HELLO)
    done = command("run", hello, "--toolset", "shelf", before=["-c", NO_LANDLOCK])
    assert done.status == 5
    assert done.out == ""
    assert done.err.startswith("Error: ")
    assert "landlock" in done.err
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_doctor_and_isolation_process_state_the_missing_layer(command: Any, script: Any) -> None:
    told = command("doctor", "--json", before=["-c", NO_LANDLOCK])
    findings = json.loads(told.out)
    # Scripts run in WebAssembly if its interpreter is compiled, which a check does not do.
    wasm = wasm_is_installed() and is_compiled()
    assert (told.status, findings["ok"]) == ((0, True) if wasm else (5, False)), findings["wasm"]
    assert "landlock" in findings["problems"][0]
    weak = findings["levels"]["process"]
    off = [layer["name"] for layer in weak["layers"] if not layer["on"]]
    assert (weak["ok"], off) == (True, ["landlock"]), "all that this machine has is on"

    read = command("doctor", "--isolation", "process", before=["-c", NO_LANDLOCK])
    assert read.status == 0
    assert "landlock\tnot probed\toff, optional\t" in read.out
    assert "process: scripts run here without landlock: one bug in the language layer" in read.out
    assert "jail: problem: jail layer 'landlock' is missing" in read.out

    weaker = [script(HELLO), "--toolset", "shelf", "--isolation", "process"]
    done = command("run", *weaker, before=["-c", NO_LANDLOCK])
    assert done.status == 0, done.err
    assert done.err.startswith("warning: --isolation process: ")
    assert "landlock is off on this machine" in done.err
    assert json.loads(done.out)["sum"] == 5


UNSEALED_ZYGOTE = str(Path(__file__).parent.parent / "core" / "runs" / "unsealed_zygote.py")
NO_FIRST_FENCE = f"""
import marshal, subprocess, sys
from ptc._cli import main
from ptc._runs._code_cache import CachedCode, CodeCache
hostile = '''
def run(ctx, inputs):
    for kind in ().__class__.__base__.__subclasses__():
        if kind.__name__ == "_wrap_close":
            kind.__init__.__globals__["open"]("/etc/passwd", 0)
'''
code = CachedCode(marshal.dumps(compile(hostile, "script", "exec")))
CodeCache.get = lambda cache, source, tools: code

class Opened(subprocess.Popen):
    def __init__(self, command, **options):
        super().__init__([*command[:4], {UNSEALED_ZYGOTE!r}, *command[4:]], **options)

subprocess.Popen = Opened
sys.argv = ["ptc", *sys.argv[4:]]
main()
"""
"""Gives the worker code that no compiler of ours has looked at."""


def test_kernel_layer_violation_exits_with_4_and_names_the_call(command: Any, script: Any) -> None:
    done = command("run", script(HELLO), "--toolset", "shelf", before=["-c", NO_FIRST_FENCE])
    assert (done.status, done.out) == (4, "")
    assert "Error: the kernel layer stopped the script: " in done.err
    assert "blocked system call: openat" in done.err
    # the alarm of the log, for whoever keeps standard error
    assert "violation: " in done.err
    told = command(
        "run", script(HELLO), "--toolset", "shelf", "--json", before=["-c", NO_FIRST_FENCE]
    )
    assert json.loads(told.out)["error"]["syscall"] == "openat"


def test_default_allow_list_excludes_side_effects(command: Any, script: Any) -> None:
    touch = script("async def run(ctx, inputs): return await ctx.touch('x')")
    refused = command("run", touch, "--toolset", "shelf")
    assert refused.status == 1
    allowed = command(
        "run", touch, "--toolset", "shelf", "--allow", "add, touch", "--allow", "slow"
    )
    assert (allowed.status, allowed.out) == (0, '"x"\n')


def test_an_empty_allow_list_allows_nothing(command: Any, script: Any) -> None:
    done = command("run", script(HELLO), "--toolset", "shelf", "--allow", "")
    assert done.status == 1
    assert "add" in done.err


def test_a_script_may_lie_outside_the_root(command: Any, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "windows.py").write_bytes(b"\xef\xbb\xbfdef run(ctx, inputs):\r\n    return 1\r\n")
    done = command("run", "windows.py", "--root", "root", "--toolset", "shelf")
    assert (done.status, done.out) == (0, "1\n"), done.err


def test_run_on_a_pipe_does_not_import_rich(command: Any, script: Any) -> None:
    done = command("run", script(HELLO), "--toolset", "shelf", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in done.err.splitlines()}
    assert "ptc._session._session" in loaded
    assert not {name for name in loaded if name.partition(".")[0] == "rich"}


def test_importing_ptc_loads_neither_click_nor_rich(environment: dict[str, str]) -> None:
    source = "import sys, ptc; ptc.Session; print(sorted({'click', 'rich'} & set(sys.modules)))"
    out = subprocess.check_output(  # our own interpreter and a constant
        [sys.executable, "-P", "-c", source], env=environment
    )
    assert out == b"[]\n"


def test_closed_pipe_is_not_a_failure(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("def run(ctx, inputs): return ['x' * 100] * 500")
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ptc", "run", "script.py", "--toolset", "shelf"],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
    ) as process:
        os.close(writer)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, b"")


def test_unwritable_standard_output_exits_with_5(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text("def run(ctx, inputs): return 1")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "ptc", "run", "script.py", "--toolset", "shelf"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment,
            timeout=20,
            check=False,
        )
    assert done.stderr == b"Error: standard output cannot be written: No space left on device\n"
    assert done.returncode == 5


CLOSED = """
import os, sys
os.close(1)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def test_closed_standard_output_causes_no_traceback(command: Any, script: Any) -> None:
    done = command("run", script(HELLO), "--toolset", "shelf", before=["-c", CLOSED])
    assert (done.status, done.err) == (0, "hello\n")


WRONG: list[tuple[list[str], str]] = [
    (["nope.py"], "Error: script 'nope.py' cannot be read: No such file or directory (the current"),
    (["."], "Error: script '.' is a folder"),
    # Not even root can read this one.
    (["/proc/self/mem"], "Error: script '/proc/self/mem' cannot be read: Input/output error"),
    (["latin.py"], "Error: script 'latin.py' is not UTF-8 text: byte 12 (line 2) is 0xe9"),
    (["binary"], "Error: script 'binary' is not text: byte 4 is NUL"),
    (["/dev/zero"], "Error: script '/dev/zero' has more than 8,388,608 bytes"),
    (["one.py", "--input", "a"], "Error: --input 'a': write NAME=VALUE"),
    (["one.py", "--input", "=1"], "Error: --input '=1': write NAME=VALUE"),
    (["one.py", "--input", "a=1", "--input", "a=2"], "Error: --input 'a' is repeated"),
    (["one.py", "--inputs", "nope.json"], "Error: --inputs 'nope.json' cannot be read: No such"),
    (["one.py", "--inputs", "list.json"], "Error: --inputs 'list.json' must be a JSON object"),
    (["one.py", "--inputs", "half.json"], "Error: --inputs 'half.json' is not JSON: "),
    (["-", "--inputs", "-"], "Error: SCRIPT and --inputs cannot both be `-`"),
    (["one.py", "--allow", "ad"], "Error: --allow: there is no tool 'ad' (did you mean `add`"),
    (["one.py", "--toolset", "shelv"], "Error: no toolset 'shelv' is installed (did you mean"),
    (["one.py", "--root", "nope"], "Error: --root 'nope': No such file or directory"),
    (["one.py", "--root", "one.py"], "Error: --root 'one.py' is not a folder"),
    (["one.py", "--timeout-ms", "0"], "Error: --timeout-ms must be an integer from 1 to "),
    (["one.py", "--max-memory-bytes", "1e9"], "Invalid value for '--max-memory-bytes'"),
    (["one.py", "--isolation", "none"], "Invalid value for '--isolation'"),
    (["one.py", "--imput", "a=1"], "No such option '--imput'. (Did you mean one of: '--input'"),
    ([], "Missing argument 'SCRIPT'"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_invalid_run_command_line_exits_with_2_and_the_reason(
    command: Any, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "one.py").write_text("def run(ctx, inputs): return 1")
    (tmp_path / "latin.py").write_bytes(b"# line one\n#\xe9\n")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "half.json").write_text('{"a": ')
    own = [] if "--toolset" in arguments else ["--toolset", "shelf"]
    done = command("run", *arguments, *own)
    assert done.status == 2
    assert message in done.err
    assert done.out == ""
    assert "Traceback" not in done.err
