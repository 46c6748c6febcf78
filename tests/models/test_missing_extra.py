"""Models by name on a machine without the extra ``models``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BLOCKER = "import sys; sys.modules['pydantic_ai'] = None; "
"""Makes every import of pydantic-ai raise, as where it is not installed."""
COMMAND = "from ptc._cli._group import run_command_line; sys.exit(run_command_line(sys.argv[1:]))"
SESSION = """
import asyncio, ptc
async def main():
    async with ptc.Session(model="openai:gpt-5") as session:
        try:
            await session.generate_object({"type": "object"}, "hi")
        except ptc.SetupError as error:
            print(error)
asyncio.run(main())
"""


def run(
    program: str, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKER + program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "--schema", "s.json", "--prompt", "hi"),
        ("extract", "a.txt", "--schema", "s.json", "--output", "rows.jsonl"),
    ],
)
def test_command_names_the_extra_models_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"type": "object"}))
    (tmp_path / "a.txt").write_text("hello")
    done = run(COMMAND, *arguments, "--model", "openai:gpt-5", folder=tmp_path)
    assert (done.returncode, done.stdout) == (5, ""), done.stderr
    assert done.stderr.startswith("Error: models by name need pydantic-ai (")
    assert done.stderr.endswith("run: pip install 'ptc-host[models]'\n")
    assert done.stderr.count("\n") == 1


def test_generate_object_raises_a_setup_error_that_names_the_extra(tmp_path: Path) -> None:
    done = run(SESSION, folder=tmp_path)
    assert done.stderr == ""
    assert done.stdout.endswith("run: pip install 'ptc-host[models]'\n")
