"""Skills in a folder beside the workspace."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from .skill_folders import AddSkill, write_skill


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """An empty folder for skills."""
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


@pytest.fixture
def add_skill(skills: Path) -> AddSkill:
    """Write a skill into the folder, as `write_skill`."""
    return partial(write_skill, skills)
