"""Scripts in WebAssembly need nothing that only Linux has."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).parent / "portable_child.py"


ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def ptc(system: str, *arguments: str, cwd: Path = ROOT) -> str:
    """Run the command line without what only Linux has; return its output."""
    done = subprocess.run(
        [sys.executable, CHILD, system, *arguments],
        capture_output=True, text=True, timeout=120, check=False, cwd=cwd,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1_000:] + done.stderr[-3_000:]
    return done.stdout


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_script_runs_without_what_only_linux_has(system: str) -> None:
    assert ptc(system).split()[:3] == ["wasm", "6", "timed_out"]


def test_first_command_of_the_readme_runs_on_macos() -> None:
    (line,) = re.findall(r"^python3 -m venv.*\.venv/bin/ptc (run .*)$", README, re.MULTILINE)
    found = json.loads(ptc("darwin", *shlex.split(line)))
    assert found["matches"] > 100
    assert found == json.loads(
        subprocess.run(
            [sys.executable, "-m", "ptc", *shlex.split(line), "--engine", "wasm"],
            capture_output=True, text=True, timeout=120, check=True, cwd=ROOT,
        ).stdout
    )  # fmt: skip


def test_files_journal_and_doctor_work_on_macos(tmp_path: Path) -> None:
    script = (
        "async def run(ctx, inputs):\n"
        "    await ctx.write('a/b.txt', 'one two')\n"
        "    await ctx.edit('a/b.txt', 'two', 'three')\n"
        "    ctx.attach('big.txt', b'x' * 100_000)\n"
        "    names = [entry.name for entry in await ctx.ls('a')]\n"
        "    return names, await ctx.read('a/b.txt'), await ctx.glob('**')\n"
    )
    (tmp_path / "script.py").write_text(script)
    allowed = ["--allow", "write,edit,ls,read,glob"]
    found = json.loads(ptc("darwin", "run", "script.py", *allowed, cwd=tmp_path))
    assert found[0] == ["b.txt"]
    assert "one three" in str(found[1])
    assert "completed" in ptc("darwin", "runs", cwd=tmp_path)
    assert "engine wasm" in ptc("darwin", "doctor", cwd=tmp_path)
