"""Skills in a folder beside the workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

AddSkill = Callable[..., Path]


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """An empty folder for skills."""
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


@pytest.fixture
def add_skill(skills: Path) -> AddSkill:
    """Write a skill: its front matter after the name, its text, and its files."""

    def add(
        name: str, head: str = "description: Does it.", body: str = "Do it.", **files: str
    ) -> Path:
        folder = skills / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\n{head}\n---\n{body}\n")
        for file, text in files.items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    return add
