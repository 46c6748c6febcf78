"""Content of the wheel: three packages, typed, and the data they need."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install '.[dev]'")
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import hatchling.build as b; print(b.build_wheel({str(folder)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    with zipfile.ZipFile(folder / done.stdout.split()[-1]) as archive:
        return archive.namelist()


def test_the_wheel_installs_three_packages_and_nothing_else(wheel: list[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "ptc",
        "ptc_bindings",
        "ptc_tools",
    }


def test_each_package_is_typed(wheel: list[str]) -> None:
    for package in ("ptc", "ptc_tools", "ptc_bindings"):
        assert f"{package}/py.typed" in wheel


def test_wheel_has_the_pages_and_the_skill(wheel: list[str]) -> None:
    pages = {f"ptc/_docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages <= set(wheel)
    assert "ptc/_docs/skills/write-ptc-scripts/SKILL.md" in wheel
    assert "ptc/_docs/llms.txt" in wheel
    assert "ptc/_docs/elsewhere/readme.md" in wheel


def test_wheel_has_every_file_of_the_page(wheel: list[str]) -> None:
    files = {f"ptc/_ui/static/{file.name}" for file in (ROOT / "ptc/_ui/static").iterdir()}
    assert {"ptc/_ui/static/index.html", "ptc/_ui/static/main.js"} <= files <= set(wheel)


def test_top_level_of_the_repository_has_only_expected_entries() -> None:
    wanted = {"pyproject.toml", "ptc", "bindings", "tools", "tests", "samples", "README.md"}
    also = {"LICENSE", "CHANGELOG.md", "docs"}
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    tops = {name.split("/")[0] for name in listed.stdout.split("\n") if name}
    visible = {top for top in tops if not top.startswith(".")}
    assert wanted <= visible
    assert visible <= wanted | also


def test_toolsets_and_commands_are_found_by_name() -> None:
    assert "builtin" in {entry.name for entry in entry_points(group="ptc.toolsets")}
    assert "mcp" in {entry.name for entry in entry_points(group="ptc.commands")}


def test_every_install_command_names_the_distribution() -> None:
    """`ptc` on the package index is another project: an extra of it installs the wrong package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = "|".join(project["optional-dependencies"])
    installs = re.compile(rf"([\w-]+)\[(?:{extras})[\],]")
    wrong, found = [], 0
    for folder in ("ptc", "tools", "bindings", "samples", "docs", ".github"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".md", ".yml"):
                names = installs.findall(path.read_text(encoding="utf-8"))
                found += len(names)
                wrong += [f"{path}: {name}" for name in names if name == "ptc"]
    assert wrong == []
    assert found > 5
    assert project["name"] == "ptc-host"
