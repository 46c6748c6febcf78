"""The tools `search_skills` and `Skill`: find skills, read them, and run their scripts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread

from ptc import Failure, RunResult, Tool, ToolContext, ToolError, Toolset, UsageError, tool
from ptc._schema._bounds import Bounds
from ptc._tools._tool import renamed

from ._allowed import allowed_tools
from ._library import Library, SkillFolder
from ._results import (
    MAX_LISTED,
    SkillHit,
    SkillInstructions,
    SkillRun,
    SkillText,
    one_line,
    render_hits,
    render_skill,
)

__all__ = ["configured_toolset", "skills_toolset"]

_log = logging.getLogger("ptc")
_CATALOGUE_CHARS = 6_000
"""Characters of the list of skills in the description of `Skill`."""
_SUMMARY_CHARS = 300
"""Characters of one description in that list."""


def skills_toolset(*folders: str | Path) -> Toolset:
    """Create the toolset ``skills``: `search_skills` and `Skill`.

    A folder is a skill if it has a file ``SKILL.md``, in the public format Agent Skills; otherwise
    the folders directly in it are. Broken rules of the format are warnings in the log. No tool of a
    session with this toolset may change the folders.

    Args:
        *folders: Folders, relative to the current one.

    Raises:
        UsageError: If a folder does not exist, or has too many skills.
    """
    places = [Path(folder).expanduser().absolute() for folder in folders]
    library = Library(places)
    for warning in library.warnings:
        _log.warning("%s", warning)
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
    @tool(render=render_hits)
    def search_skills(
        ctx: ToolContext, query: str, limit: Annotated[int, Bounds(ge=1, le=100)] = 10
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


# --- skills -------------------------------------------------------------------------------------


def _skill_tool(library: Library) -> Tool:
    async def skill(
        ctx: ToolContext,
        skill_name: str,
        script: Annotated[str, Bounds(min_length=1)] | None = None,
        inputs: dict[str, Any] | None = None,
        file: Annotated[str, Bounds(min_length=1)] | None = None,
        offset: Annotated[int, Bounds(ge=0)] = 0,
        limit: Annotated[int, Bounds(ge=1)] | None = None,
    ) -> SkillInstructions | SkillText | SkillRun:
        chosen = library.get(skill_name)
        if script is not None:
            if file is not None:
                msg = "pass script to run one or file to read one, not both"
                raise ToolError(msg, code="invalid_arguments")
            return await _run_script(ctx, chosen, script, inputs)
        if inputs is not None:
            known = ", ".join(chosen.scripts) or "none"
            msg = f"inputs are for a script, and none is named; scripts of {skill_name!r}: {known}"
            raise ToolError(msg, code="invalid_arguments")
        if file is not None:
            return await anyio.to_thread.run_sync(partial(_read_file, chosen, file, offset, limit))
        return _instructions(chosen, ctx.root)

    skill.__doc__ = _SKILL_DOC.format(catalogue=_catalogue(library))
    # `renamed`, since a definition would warn that the name is not snake_case: models know it so.
    return renamed(tool(render=render_skill)(skill), "Skill")


_SKILL_DOC = """Load the instructions of a skill, read a file of it, or run a script of it.

        A script has the tools that the skill allows and its caller may call.

        {catalogue}

        Args:
            ctx: The call.
            skill_name: Name of the skill. With nothing else: return its instructions.
            script: Script of the skill to run, such as scripts/count.py. Returns its value.
            inputs: Inputs of the script.
            file: File of the skill to read, such as references/api.md.
            offset: Lines of the file to skip.
            limit: Maximum number of lines. Default: all to the end.
        """


def _catalogue(library: Library) -> str:
    skills = list(library.skills.values())
    rows = [
        f"{skill.name}: {one_line(skill.header.description)[:_SUMMARY_CHARS]}" for skill in skills
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
    try:
        text = skill.read(file, offset, limit)
    except ToolError as error:
        if error.code not in ("not_found", "outside_root"):
            raise
        known = ", ".join(skill.files[:MAX_LISTED]) or "none"
        msg = f"skill {skill.name!r} has no file {file!r:.200} in its folder; files: {known}"
        raise ToolError(msg, code=error.code) from None
    return SkillText(skill.name, file, text, offset)


async def _run_script(
    ctx: ToolContext, skill: SkillFolder, script: str, inputs: dict[str, Any] | None
) -> SkillRun:
    """Run a script under the list of its skill and that of the caller."""
    file, source = skill.script(script)
    try:
        listed = allowed_tools(skill.header.allowed_tools, ctx.tools)
    except UsageError as error:
        msg = f"skill {skill.name!r}: {error}; nothing was run"
        raise ToolError(msg, code="invalid_skill") from None
    narrowed = ctx.restricted(listed.entries)
    result = await narrowed.program(source, inputs, filename=f"{skill.name}/{file}")
    if not result.ok:
        raise _script_error(skill, file, result, listed.unavailable)
    return SkillRun(
        name=skill.name,
        script=file,
        value=result.value,
        output=result.stdout,
        unavailable=list(listed.unavailable),
        whole_value=None if result.cut is None else result.cut.artifact,
        attached=[ref.path for ref in result.attached],
    )


def _script_error(
    skill: SkillFolder, file: str, result: RunResult, unavailable: tuple[str, ...]
) -> ToolError:
    failure = result.error or Failure(result.status, "it did not complete")
    line = f", line {failure.line}" if failure.line else ""
    parts = [f"script {file} of skill {skill.name!r}{line}: {failure.message}"]
    parts += [failure.hint] if failure.hint else []
    if unavailable:
        names = ", ".join(unavailable)
        parts.append(f"The skill lists tools that its caller may not call: {names}")
    details: dict[str, object] = {"status": result.status, "failure": failure.code}
    details |= {"traceback": failure.traceback, "unavailable": list(unavailable)}
    return ToolError(". ".join(parts), code="script_failed", details=details)


def _path_in(root: Path, folder: Path) -> str | None:
    return folder.relative_to(root).as_posix() if folder.is_relative_to(root) else None
