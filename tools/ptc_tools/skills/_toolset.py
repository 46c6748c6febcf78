"""The tools `search_skills` and `Skill`: find skills, read them, and run their scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from pydantic import Field

from ptc import Tool, ToolContext, ToolError, Toolset, tool
from ptc._tools._names import warn_definition
from ptc._tools._tool import renamed

from ..files._paths import Root
from ..files._read import read_lines
from ._library import Library, SkillFolder

__all__ = ["SkillHit", "SkillInstructions", "SkillText", "configured_toolset", "skills_toolset"]

_SHOWN_CHARS = 100_000
"""Characters of instructions or of a file in the text for a model; a script receives all."""
_CATALOGUE_CHARS = 6_000
"""Characters of the list of skills in the description of `Skill`."""
_SUMMARY_CHARS = 300
"""Characters of one description in that list."""
_MAX_LISTED = 100
"""Files of a skill in the text for a model."""


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


def skills_toolset(*folders: str | Path) -> Toolset:
    """Create the toolset ``skills``: `search_skills` and `Skill`.

    A folder is a skill if it has a file ``SKILL.md``, in the public format Agent Skills; otherwise
    the folders directly in it are. A skill that breaks a rule of the format emits a warning. No
    tool of a session with this toolset may change the folders.

    Args:
        *folders: Folders, relative to the current one.

    Raises:
        UsageError: If a folder does not exist, or has too many skills.
    """
    places = [Path(folder).expanduser().absolute() for folder in folders]
    library = Library(places)
    for warning in library.warnings:
        warn_definition(warning)
    # The skills as well: a folder that contains the root would protect nothing in it.
    files = tuple(dict.fromkeys([*places, *(skill.folder for skill in library.skills.values())]))
    made = (_search_tool(library), _skill_tool(library))
    return Toolset("skills", tuple(replace(item, files=files) for item in made))


def configured_toolset(folders: Sequence[str | Path] = ()) -> Toolset:
    """Create the toolset ``skills`` for the key ``skills`` of a configuration.

    Args:
        folders: As for `skills_toolset`.

    Raises:
        UsageError: As `skills_toolset`.
    """
    return skills_toolset(*folders)


# --- search -------------------------------------------------------------------------------------


def _search_tool(library: Library) -> Tool:
    @tool(render=_render_hits)
    def search_skills(
        ctx: ToolContext, query: str, limit: Annotated[int, Field(ge=1, le=100)] = 10
    ) -> list[SkillHit]:
        """Find skills: instructions and scripts for a kind of task. Returns the best match first.

        An empty query lists all skills. Then call Skill with the name of one.

        Args:
            ctx: The call.
            query: Words of the task.
            limit: Maximum number of skills.
        """
        return [
            SkillHit(
                skill.name,
                skill.header.description,
                list(skill.scripts),
                _path_in(ctx.root, skill.folder),
                round(score, 3),
            )
            for skill, score in library.find(query, limit)
        ]

    return search_skills


def _render_hits(hits: list[SkillHit]) -> str:
    if not hits:
        return "No skills match"
    rows = []
    for hit in hits:
        scripts = f" [scripts: {', '.join(hit.scripts)}]" if hit.scripts else ""
        rows.append(f"{hit.name}: {_one_line(hit.description)}{scripts}")
    return "\n".join(rows)


# --- skills -------------------------------------------------------------------------------------


def _skill_tool(library: Library) -> Tool:
    async def skill(
        ctx: ToolContext,
        skill_name: str,
        file: Annotated[str, Field(min_length=1)] | None = None,
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1)] | None = None,
    ) -> SkillInstructions | SkillText:
        chosen = library.get(skill_name)
        if file is not None:
            return await anyio.to_thread.run_sync(partial(_read_file, chosen, file, offset, limit))
        return _instructions(chosen, ctx.root)

    skill.__doc__ = _SKILL_DOC.format(catalogue=_catalogue(library))
    # `renamed`, since a definition would warn that the name is not snake_case: models know it so.
    return renamed(tool(render=_render_skill)(skill), "Skill")


_SKILL_DOC = """Load a skill: its instructions, or a file of it.

        {catalogue}

        Args:
            ctx: The call.
            skill_name: Name of the skill.
            file: File of the skill to read, such as references/api.md.
            offset: Lines of the file to skip.
            limit: Maximum number of lines. Default: all to the end.
        """


def _catalogue(library: Library) -> str:
    skills = list(library.skills.values())
    rows = [
        f"{skill.name}: {_one_line(skill.header.description)[:_SUMMARY_CHARS]}" for skill in skills
    ]
    text = "\n        ".join(["Skills:", *rows])
    if not skills:
        return "There are no skills."
    if len(text) > _CATALOGUE_CHARS:
        return f"There are {len(skills):,} skills; find one with search_skills."
    return text


def _instructions(skill: SkillFolder, root: Path) -> SkillInstructions:
    header = skill.header
    return SkillInstructions(
        name=header.name,
        description=header.description,
        instructions=skill.body,
        scripts=list(skill.scripts),
        files=list(skill.files),
        path=_path_in(root, skill.folder),
        allowed_tools=None if header.allowed_tools is None else list(header.allowed_tools),
        license=header.license,
        compatibility=header.compatibility,
        metadata=dict(header.metadata),
        first_line=skill.first_line,
    )


def _read_file(skill: SkillFolder, file: str, offset: int, limit: int | None) -> SkillText:
    with Root(skill.folder) as root:
        try:
            text = read_lines(root, file, offset, limit)
        except ToolError as error:
            if error.code not in ("not_found", "outside_root"):
                raise
            known = ", ".join(skill.files[:_MAX_LISTED]) or "none"
            msg = f"skill {skill.name!r} has no file {file!r:.200} in its folder; files: {known}"
            raise ToolError(msg, code=error.code) from None
    return SkillText(skill.name, file, text, offset)


def _render_skill(value: SkillInstructions | SkillText) -> str:
    if isinstance(value, SkillText):
        return _shorten(value.text, value.name, value.file, value.offset)
    parts = [_shorten(value.instructions, value.name, "SKILL.md", value.first_line)]
    if value.path is not None:
        parts.append(f"Folder of the skill: {value.path}")
    if value.compatibility:
        parts.append(f"Compatibility: {_one_line(value.compatibility)}")
    if value.scripts:
        scripts = ", ".join(value.scripts)
        parts.append(f"Scripts, run with Skill({value.name!r}, script=...): {scripts}")
    if value.files:
        rest = len(value.files) - _MAX_LISTED
        more = f" and {rest:,} more" if rest > 0 else ""
        files = ", ".join(value.files[:_MAX_LISTED])
        parts.append(f"Files, read with Skill({value.name!r}, file=...): {files}{more}")
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


def _path_in(root: Path, folder: Path) -> str | None:
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else None


def _one_line(text: str) -> str:
    return " ".join(text.split())
