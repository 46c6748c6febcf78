"""Scripts in WebAssembly need nothing that only Linux has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).parent / "portable_child.py"


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_script_runs_without_what_only_linux_has(system: str) -> None:
    done = subprocess.run(
        [sys.executable, CHILD, system], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert done.stdout.split()[:3] == ["wasm", "6", "timed_out"]
