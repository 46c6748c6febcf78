"""Skills that tests write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

__all__ = ["AddSkill", "write_skill"]

AddSkill: TypeAlias = Callable[..., Path]


def write_skill(
    skills: Path,
    name: str,
    head: str = "description: Does it.",
    body: str = "Do it.",
    **files: str,
) -> Path:
    """Write a skill: its front matter after the name, its text, and its files by path."""
    folder = skills / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\n{head}\n---\n{body}\n")
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
