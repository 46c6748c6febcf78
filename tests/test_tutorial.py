"""The tutorial is followed in an empty folder: files and commands as the page shows them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SAVED = re.compile(r"[Ss]ave [^`]*?as\s+`([\w./]+)`")
RUN = re.compile(r"\b[0-9a-f]{32}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00")
SECONDS = 60.0


class Reader:
    """Does what the page shows, in `folder`. Ids of runs on the page stand for the real ones."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.runs: dict[str, str] = {}
        self.commands = 0

    def follow(self, text: str) -> None:
        start = 0
        for block in BLOCK.finditer(text):
            code = block["code"]
            match block["language"]:
                case "python":
                    (name,) = SAVED.findall(text[start : block.start()])
                    (self.folder / name).write_text(code)
                case "console":
                    for step in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
                        command, _, output = step.partition("\n")
                        self.execute(command, output)
            start = block.end()

    def execute(self, command: str, expected: str) -> None:
        for shown, real in self.runs.items():
            command = command.replace(shown, real)
        done = subprocess.run(  # a command of our own page
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        printed = TIME.sub("TIME", done.stdout)
        self.runs.update(zip(RUN.findall(expected), RUN.findall(printed), strict=False))
        for shown, real in self.runs.items():
            printed = printed.replace(real, shown)
        wanted = re.escape(TIME.sub("TIME", expected)).replace(re.escape("/..."), r"/[^\s\"]*")
        assert re.fullmatch(wanted, printed), f"$ {command}\n{printed}\ninstead of\n{expected}"
        self.commands += 1


def follow(folder: Path, scripts: Path) -> int:
    """Follow the page with the commands of `scripts`; return the number of commands."""
    work = folder / "work"
    work.mkdir()
    environment = {
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "TMPDIR": str(folder),
    }
    if "PYTHONPATH" in os.environ and not (scripts / "pip").exists():
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    reader = Reader(work, environment)
    reader.follow(PAGE.read_text(encoding="utf-8"))
    return reader.commands


def test_tutorial_works_as_shown(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="pip install 'ptc-host[mcp]'")
    scripts = tmp_path / "bin"
    scripts.mkdir()
    for name, command in {"ptc": "-m ptc", "python": ""}.items():
        (scripts / name).write_text(f'#!/bin/sh\nexec {sys.executable} {command} "$@"\n')
        (scripts / name).chmod(0o755)
    assert follow(tmp_path, scripts) > 15


@pytest.mark.timeout(600)
def test_tutorial_works_in_a_fresh_environment_with_the_wheel(tmp_path: Path) -> None:
    source, wheels, environment = tmp_path / "source", tmp_path / "wheels", tmp_path / ".venv"
    skipped = shutil.ignore_patterns(".git", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, source, ignore=skipped, symlinks=True)
    code = f"import hatchling.build as b; print(b.build_wheel({str(wheels)!r}))"
    wheels.mkdir()
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = wheels.iterdir()
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = environment / "bin" / "python"
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", f"{wheel}[mcp]"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the dependencies could not be installed: {done.stderr[-200:]}")
    assert follow(tmp_path, environment / "bin") > 15
    for topic, start in {
        "tutorial": "# Tutorial\n",
        "skill": "---\nname: ",
        "readme": "# ptc\n",
    }.items():
        shown = subprocess.run(
            [environment / "bin" / "ptc", "docs", topic],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout.startswith(start)
