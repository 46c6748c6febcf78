"""Many clients of the HTTP server at once: each answer is the client's own, and none is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .mcp_client import environment

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_concurrent_clients_receive_their_own_answers() -> None:
    program = Path(__file__).parents[1] / "benchmarks" / "http_load.py"
    done = subprocess.run(
        [sys.executable, str(program), "--clients", "40", "--programs", "200"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "answers: {'right': 200} distinct runs: 200 exit: 0" in done.stdout
