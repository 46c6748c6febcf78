"""``ptc check`` as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def check(*arguments: str, cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ptc", "check", *arguments],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=30,
    )


BAD = """\
import subprocess

async def run(ctx, inputs):
    return await ctx.grep(patern="x")
"""


def test_findings_are_printed_with_location_caret_and_suggested_fix(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(BAD.replace("import subprocess", ""))
    done = check("job.py", "--allow", "grep", cwd=tmp_path)
    assert done.returncode == 1
    assert "job.py:4:18: grep needs pattern [missing_argument]" in done.stdout
    assert "did you mean pattern?" in done.stdout
    assert "^" in done.stdout


def test_check_prints_findings_as_json_and_accepts_a_clean_script(tmp_path: Path) -> None:
    done = check("-", "--json", cwd=tmp_path, stdin=BAD)
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["line"] == 1
    clean = check("-", cwd=tmp_path, stdin="def run(ctx, inputs):\n    return 1\n")
    assert (clean.returncode, clean.stdout) == (0, "")
    assert "no problems found" in clean.stderr


def test_advice_alone_exits_with_0(tmp_path: Path) -> None:
    source = "async def run(ctx, inputs):\n    ctx.ls()\n"
    done = check("-", cwd=tmp_path, stdin=source)
    assert done.returncode == 0
    assert "[not_awaited, advice]" in done.stdout


def test_invalid_check_command_line_is_a_usage_error(tmp_path: Path) -> None:
    assert check("missing.py", cwd=tmp_path).returncode == 2
    done = check("-", "--allow", "gerp", cwd=tmp_path, stdin="def run(ctx): return 1")
    assert done.returncode == 2
    assert "grep" in done.stderr
