"""Values of the tools of skills, and their texts for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ptc._core._json import dumps

__all__ = [
    "MAX_LISTED",
    "SkillHit",
    "SkillInstructions",
    "SkillRun",
    "SkillText",
    "one_line",
    "render_hits",
    "render_skill",
]

MAX_LISTED = 100
"""Files of a skill in a text for a model."""
_SHOWN_CHARS = 100_000
"""Characters of instructions or of a file in the text for a model; a script receives all."""


@dataclass(frozen=True, slots=True)
class SkillHit:
    """A skill that matches a search."""

    name: str
    description: str
    scripts: list[str]
    """Scripts that `Skill` can run."""
    path: str | None
    """Folder, relative to the root; None if it lies outside."""
    score: float
    """Higher for a better match; 0 for an empty query."""


@dataclass(frozen=True, slots=True)
class SkillInstructions:
    """A skill."""

    name: str
    description: str
    instructions: str
    """Text of SKILL.md after its front matter."""
    scripts: list[str]
    """Scripts that `Skill` can run."""
    files: list[str]
    """Files that `Skill` can read, scripts included."""
    path: str | None
    """Folder, relative to the root; None if it lies outside."""
    allowed_tools: list[str] | None
    """The key ``allowed-tools``, as written; None without it."""
    license: str
    compatibility: str
    metadata: dict[str, str]
    first_line: int
    """Lines of SKILL.md before the instructions."""


@dataclass(frozen=True, slots=True)
class SkillText:
    """Text of a file of a skill."""

    name: str
    """Name of the skill."""
    file: str
    text: str
    offset: int
    """Lines of the file before the text."""


@dataclass(frozen=True, slots=True)
class SkillRun:
    """Outcome of a script of a skill that completed."""

    name: str
    """Name of the skill."""
    script: str
    value: Any
    """Value that ``run`` returned."""
    output: str
    """Text that the script printed."""
    unavailable: list[str]
    """Entries of ``allowed-tools`` whose tool the caller may not call."""
    whole_value: str | None
    """File with the whole value as JSON, if `value` was truncated."""
    attached: list[str]
    """Files that the script attached."""


def render_hits(hits: list[SkillHit]) -> str:
    """Format the value of `search_skills`."""
    if not hits:
        return "No skills match"
    rows = []
    for hit in hits:
        scripts = f" [scripts: {', '.join(hit.scripts)}]" if hit.scripts else ""
        rows.append(f"{hit.name}: {one_line(hit.description)}{scripts}")
    return "\n".join(rows)


def render_skill(value: SkillInstructions | SkillText | SkillRun) -> str:
    """Format the value of `Skill`."""
    if isinstance(value, SkillRun):
        return _render_run(value)
    if isinstance(value, SkillText):
        return _shorten(value.text, value.name, value.file, value.offset)
    parts = [_shorten(value.instructions, value.name, "SKILL.md", value.first_line)]
    if value.path is not None:
        parts.append(f"Folder of the skill: {value.path}")
    if value.compatibility:
        parts.append(f"Compatibility: {one_line(value.compatibility)}")
    if value.scripts:
        scripts = ", ".join(value.scripts)
        parts.append(f"Scripts, run with Skill({value.name!r}, script=...): {scripts}")
    if value.files:
        rest = len(value.files) - MAX_LISTED
        more = f" and {rest:,} more" if rest > 0 else ""
        files = ", ".join(value.files[:MAX_LISTED])
        parts.append(f"Files, read with Skill({value.name!r}, file=...): {files}{more}")
    return "\n\n".join(parts)


def _render_run(value: SkillRun) -> str:
    parts = [value.value if isinstance(value.value, str) else dumps(value.value).decode()]
    if value.whole_value is not None:
        parts.append(f"[the value was truncated; whole value: {value.whole_value}]")
    if value.output:
        parts.append(f"Printed:\n{value.output}")
    if value.attached:
        parts.append(f"Attached: {', '.join(value.attached)}")
    return "\n\n".join(parts)


def _shorten(text: str, name: str, file: str, offset: int) -> str:
    """Truncate a text for a model at the end of a line, with the call that continues."""
    if len(text) <= _SHOWN_CHARS:
        return text
    end = text.rfind("\n", 0, _SHOWN_CHARS) + 1
    rest = f"{len(text) - (end or _SHOWN_CHARS):,} more characters"
    if not end:
        return f"{text[:_SHOWN_CHARS]}\n[truncated: {rest}, in this line]"
    line = offset + text.count("\n", 0, end)
    call = f"Skill({name!r}, file={file!r}, offset={line})"
    return f"{text[:end]}[truncated: {rest}; continue with {call}]"


def one_line(text: str) -> str:
    """Join the words of a text with single spaces."""
    return " ".join(text.split())
