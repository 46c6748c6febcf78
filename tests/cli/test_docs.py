"""``ptc docs`` and ``ptc --version --verbose``."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ptc import __version__

ROOT = Path(__file__).parents[2]


def test_topics_are_the_pages_with_their_titles(command: Any) -> None:
    done = command("docs")
    rows = dict(line.split("\t") for line in done.out.splitlines())
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= rows.keys()
    assert {"readme", "changelog", "bindings", "tools-reference", "skill", "llms"} <= rows.keys()
    assert rows["limits"] == "Limits"
    assert (done.status, done.err) == (0, "")


def test_page_is_printed_as_markdown(command: Any) -> None:
    done = command("docs", "tutorial")
    assert done.out.startswith("# Tutorial\n")
    assert "<!--" not in done.out
    assert command("docs", "docs/Limits.md").out.startswith("# Limits\n")
    assert command("docs", "skill").out.startswith("---\nname: write-ptc-scripts\n")


def test_section_is_printed_alone(command: Any) -> None:
    done = command("docs", "durability#leases")
    assert done.out.startswith("## Leases\n")
    assert done.out.count("\n## ") == 0
    wrong = command("docs", "durability#lease")
    assert wrong.status == 2
    assert "Did you mean 'leases'?" in wrong.err


def test_unknown_topic_is_an_error_with_the_nearest_page(command: Any) -> None:
    done = command("docs", "tutorail")
    assert (done.status, done.out) == (2, "")
    assert "there is no page 'tutorail'. Did you mean 'tutorial'" in done.err
    assert "Print the documentation page TOPIC" in command("docs", "--help").out


def test_verbose_version_names_machine_engines_and_dependencies(command: Any) -> None:
    assert command("--version").out == f"ptc {__version__}\n"
    for order in (["--version", "--verbose"], ["--verbose", "--version"]):
        lines = command(*order).out.splitlines()
        rows = dict(line.split(maxsplit=1) for line in lines)
        assert rows["ptc"] == __version__
        assert rows["pydantic"] == version("pydantic")
        assert platform.python_version() in rows["Python"]
        assert platform.release() in rows["system"]
    alone = command("--verbose", "tools")
    assert alone.status == 2
    assert "belongs to --version" in alone.err
