"""Each worker that the kernel layer stopped is reported to the operator, with its system call.

The language layer is in the way of these scripts, so it is taken down: the host is given code for
the source that the compiler never saw, and the zygote leaves the interpreter's internals in reach.
"""

from __future__ import annotations

import logging
import marshal  # noqa: TID251  # the test makes what a compromised compiler would have made
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession, Limits, RunEvent, RunResult, Session, Violation, tool
from ptc._runs._code_cache import CachedCode
from ptc._tools._table import ToolTable
from ptc._wire._protocol import Kind, encode
from tests.core.zygotes import start_zygotes_through

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(sys.platform != "linux", reason="the jail is for Linux"),
]

SOURCE = "def run(ctx, inputs):\n    return 'harmless'\n"
OTHER = "def run(ctx, inputs):\n    return 'other'\n"
OUT = """
def out():
    for kind in ().__class__.__base__.__subclasses__():
        if kind.__name__ == "_wrap_close":
            return kind.__init__.__globals__
"""
WIRE = (
    OUT
    + """
def wire():
    frame = out()["sys"]._getframe()
    while frame is not None:
        for value in frame.f_locals.values():
            try:
                return value._wire._socket
            except AttributeError:
                pass
        frame = frame.f_back
"""
)
OPEN = OUT + "def run(ctx, inputs):\n    out()['open']('/etc/passwd', 0)\n"


UNSEALED_ZYGOTE = Path(__file__).parent / "unsealed_zygote.py"


@pytest.fixture(autouse=True)
def use_unsealed_zygote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start zygotes through `unsealed_zygote.py`."""
    start_zygotes_through(monkeypatch, UNSEALED_ZYGOTE)


@tool
async def double(n: int) -> int:
    """Double a number."""
    return 2 * n


def disable_language_layer(session: Session, code: str) -> None:
    # The file name by which a worker finds the line of a call.
    compiled = compile(code, "\ud800script", "exec", dont_inherit=True)
    tools = ToolTable(session.select_tools()).digest
    session._runs.code.put(SOURCE, CachedCode(marshal.dumps(compiled)), tools)


async def stopped(
    session: Session, code: str, events: list[RunEvent] | None = None, **limits: Any
) -> RunResult:
    disable_language_layer(session, code)
    tell = events.append if events is not None else None
    return await session.program(
        source=SOURCE, filename="hostile.py", limits=Limits(**limits), on_event=tell
    )


async def test_violation_names_the_call_the_script_and_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[RunEvent] = []
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        with caplog.at_level(logging.ERROR, logger="ptc"):
            result = await stopped(session, OPEN, events)
        assert (result.status, result.value) == ("violation", None)
        assert result.error is not None
        assert (result.error.code, result.error.syscall) == ("system_call", "openat")
        assert (result.error.line, result.error.hint) == (0, "")  # it made no call
        assert "blocked system call: openat" in result.error.message
        (violation,) = session.violations
        assert isinstance(violation, Violation)
        assert violation.run_id == result.run_id
        assert (violation.source, violation.filename) == (SOURCE, "hostile.py")
        assert (violation.syscall, len(violation.arguments)) == ("openat", 6)
        told = [event for event in events if event.kind == "violation"]
        assert [(event.run_id, event.value) for event in told] == [(result.run_id, violation)]
        (line,) = [r.getMessage() for r in caplog.records if r.name == "ptc"]
        for words in ("openat", result.run_id, "hostile.py", violation.source_sha256):
            assert words in line
        # Another run goes on as if nothing had happened.
        assert (await session.program(source=OTHER)).value == "other"
        assert len(session.violations) == 1


async def test_violation_has_the_line_of_the_last_call(tmp_path: Path) -> None:
    code = OUT + (
        "def run(ctx, inputs):\n    ctx.double(n=1)\n    ctx.double(n=2)\n"
        "    out()['open']('/etc/passwd', 0)\n"
    )
    async with Session(tmp_path, tools=[double], toolsets=(), workers=1) as session:
        result = await stopped(session, code)
        assert (result.status, len(result.calls)) == ("violation", 2)
        assert result.error is not None
        assert (
            result.error.line
            == result.calls[-1].line
            == code.splitlines().index("    ctx.double(n=2)") + 1
        )
        assert "its last call was" in result.error.hint


async def test_attempt_after_the_result_is_reported_as_a_violation(tmp_path: Path) -> None:
    code = f"""{WIRE}
def run(ctx, inputs):
    wire().sendall({encode(Kind.DONE, b"1")!r})
    out()['open']('/etc/passwd', 0)
"""
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        disable_language_layer(session, code)
        for _ in range(50):
            # The host hangs up at once: the worker may be dead before it gets that far.
            result = await session.program(source=SOURCE)
            assert (result.status, result.value) == ("completed", 1)
            if session.violations:
                break
        assert {violation.syscall for violation in session.violations} == {"openat"}


async def test_every_kind_of_system_call_is_named(tmp_path: Path) -> None:
    attempts = {
        "socket": "out()['sys'].modules['_socket'].socket(1, 1)",
        "getppid": "out()['getppid']()",
        "kill": "out()['kill'](1, 9)",
        "pipe2": "out()['pipe']()",
    }
    found = {}
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        for name, attempt in attempts.items():
            session._runs.code._codes.clear()
            result = await stopped(session, f"{OUT}def run(ctx, inputs):\n    {attempt}\n")
            found[name] = result.error.syscall if result.error else result.status
        assert [violation.syscall for violation in session.violations] == list(attempts)
    assert found == {name: name for name in attempts}


async def test_protocol_error_is_a_violation_without_a_system_call(
    tmp_path: Path,
) -> None:
    code = f"{WIRE}def run(ctx, inputs):\n    wire().sendall(b'\\0\\0\\0\\2\\xc8!')\n"
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        result = await stopped(session, code)
        assert result.error is not None
        assert (result.status, result.error.code) == ("violation", "protocol")
        assert result.error.syscall == ""
        (violation,) = session.violations
    assert (violation.code, violation.number, violation.arguments) == ("protocol", -1, ())


async def test_failing_script_is_not_a_violation(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        for source in ("1 / 0", "import subprocess", "'x' * 10 ** 12", "while True: pass"):
            result = await session.program(source=source, limits=Limits(timeout_ms=300))
            assert result.status != "violation"
        assert session.violations == ()


async def test_session_keeps_the_latest_hundred_violations(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        for number in range(103):
            session._runs.violations.protocol(
                f"frame {number}\n\x1b[2J", run_id="r", filename="f", source="s"
            )
        assert len(session.violations) == 100
        assert session._runs.violations.count == 103
        # Text of a worker cannot control a terminal or begin a line of a log.
        assert session.violations[-1].message.endswith(r"frame 102\n\x1b[2J")


def test_blocking_session_reports_violations(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, toolsets=(), workers=1) as session:
        disable_language_layer(session._session, OPEN)
        assert session.program(source=SOURCE).status == "violation"
        assert len(session.violations) == 1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has a second set of calls")
async def test_call_of_another_architecture_is_a_violation_without_a_name(tmp_path: Path) -> None:
    # 0x40000000 | 39 is getpid of the x32 ABI
    attempt = "out()['sys'].modules['ctypes'].CDLL(None).syscall(0x40000000 | 39)"
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        result = await stopped(session, f"{OUT}def run(ctx, inputs):\n    {attempt}\n")
        assert result.error is not None
        assert (result.status, result.error.syscall) == ("violation", "")
        assert "the kernel did not report which" in result.error.message
