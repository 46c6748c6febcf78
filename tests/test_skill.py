"""The skill that teaches agents to write scripts: its format, and each script in its SKILL.md."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptc import Session
from ptc_tools import skills_toolset

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SKILLS = Path(__file__).parents[1] / "docs" / "skills"
SKILL = SKILLS / "write-ptc-scripts" / "SKILL.md"
SCRIPTS = re.findall(r"^```python\n(.*?)^```$", SKILL.read_text(encoding="utf-8"), re.M | re.S)
INPUTS: list[tuple[dict[str, Any], Any]] = [
    ({"query": "tea"}, {"files": 2, "words": 5}),
    ({"paths": ["a.md", "no.md"]}, {"lines": {"a.md": 1}, "unread": {"no.md": "not_found"}}),
    ({}, {"stopped_at": None}),
    (
        {},
        {
            "rows": 3,
            "best": [{"region": "West", "revenue": 7.5}, {"region": "North", "revenue": 1.0}],
        },
    ),
]
"""Inputs and value of each script of the page, in order."""


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    (tmp_path / "a.md").write_text("tea and milk\n")
    (tmp_path / "b.md").write_text("more tea\n")
    (tmp_path / "c.csv").write_text("region,revenue\nWest,5\nNorth,1\nWest,2.5\n")
    async with Session(root=tmp_path) as opened:
        yield opened


async def test_scripts_of_the_skill_run_without_a_warning(session: Session) -> None:
    assert len(SCRIPTS) == len(INPUTS)
    for source, (inputs, value) in zip(SCRIPTS, INPUTS, strict=True):
        result = await session.program(source=source, inputs=inputs)
        assert result.value == value, (source, result.error)
        assert result.warnings == (), source


async def test_modules_that_the_skill_names_are_importable(session: Session) -> None:
    text = SKILL.read_text(encoding="utf-8")
    listed = text.partition("Importable are")[2].partition("Not there:")[0]
    names = re.findall(r"`([\w.]+)`", listed)
    assert len(names) > 20
    source = "".join(f"import {name}\n" for name in names) + "len('imported')"
    assert (await session.program(source=source)).status == "completed"


async def test_skill_is_valid_and_is_found_by_its_description() -> None:
    async with Session(tools=[skills_toolset(SKILLS)]) as session:
        found = await session.tool(
            "search_skills", {"query": "write a script that reads many files"}
        )
        assert [hit.name for hit in found.unwrap()] == ["write-ptc-scripts"]
