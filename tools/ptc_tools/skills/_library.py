"""Skills in folders: found, read and indexed when a session is made.

Rule 1: A skill's files are opened beneath its own folder: no ``..`` and no link leads out.
    tests/tools/skills/test_hostile.py::test_link_that_leaves_a_skill_is_refused
Rule 2: SKILL.md and the scripts are read once. A later change of them has no effect on the session,
    so that neither the instructions nor the tools of a script change under a model.
    tests/tools/skills/test_skills.py::test_change_of_a_skill_has_no_effect_on_the_session
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from ptc import ToolError, UsageError
from ptc._core._arguments import nearest
from ptc._tools._search import WordIndex

from ..files._path_errors import quote
from ..files._paths import Root
from ..files._read import read_lines, text_of
from ._allowed import problems_of
from ._format import Header, parse_skill

__all__ = [
    "MAX_FILES",
    "MAX_SCRIPT_BYTES",
    "MAX_SKILLS",
    "MAX_SKILL_BYTES",
    "Library",
    "SkillFolder",
]

MAX_SKILL_BYTES = 524_288
"""Maximum size of a SKILL.md (512 KiB)."""
MAX_SCRIPT_BYTES = 131_072
"""Maximum size of a script (128 KiB): the default of ``max_source_bytes``."""
MAX_SKILLS = 1_000
"""Maximum number of skills in one folder."""
MAX_FILES = 1_000
"""Maximum number of files of a skill that are listed."""

_NAMES = ("SKILL.md", "skill.md")
_NO_FILES_IN = ("__pycache__", "node_modules")
_MAX_DEPTH = 8
_MAX_FOLDERS = 2_000
"""Folders of a skill that are searched for files."""
_RUN = re.compile(r"^(?:async[ \t]+)?def[ \t]+run[ \t]*\(", re.MULTILINE)
"""Definition of `run` at the top level. The host parses no Python of a skill."""


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A skill that was read."""

    header: Header
    body: str
    """Instructions: the text of SKILL.md after its front matter."""
    first_line: int
    """Lines of SKILL.md before the instructions."""
    folder: Path
    """Absolute and resolved."""
    files: tuple[str, ...]
    """Files relative to the folder, without SKILL.md."""
    scripts: Mapping[str, str] = field(repr=False)
    """Sources of the scripts that define `run`, by file."""
    text: str = field(repr=False)
    """SKILL.md, whole."""

    @property
    def name(self) -> str:
        """Name of the skill."""
        return self.header.name

    def read(self, file: str, offset: int, limit: int | None) -> str:
        """Return a file, or lines of it.

        Raises:
            ToolError: As `read_lines`.
        """
        text = self.text if file in _NAMES else self.scripts.get(file)
        if text is None:
            with Root(self.folder) as root:
                return read_lines(root, file, offset, limit)
        # A line ends with a line feed only, as for `read`.
        lines = io.StringIO(text, newline="\n")
        return "".join(islice(lines, offset, None if limit is None else offset + limit))

    def script(self, name: str) -> tuple[str, str]:
        """Return file and source of a script, named with or without the folder ``scripts/``.

        Raises:
            ToolError: ``unknown_script`` or ``not_a_script``.
        """
        for file in (name, f"scripts/{name}"):
            if file in self.scripts:
                return file, self.scripts[file]
        known = ", ".join(self.scripts) or "none"
        if name in self.files or f"scripts/{name}" in self.files:
            msg = (
                f"{quote(name)} of skill {self.name!r} does not define run(ctx, inputs), or has "
                f"more than {MAX_SCRIPT_BYTES:,} bytes; read it with file=. Scripts: {known}"
            )
            raise ToolError(msg, code="not_a_script")
        near = nearest(name, self.scripts)
        msg = f"skill {self.name!r} has no script {quote(name)}{near}; scripts: {known}"
        raise ToolError(msg, code="unknown_script")


class Library:
    """Skills by name."""

    def __init__(self, folders: list[Path]) -> None:
        """Read the skills of `folders`. Of two with one name, the first counts.

        Args:
            folders: Absolute folders. Each is a skill, or contains skills.

        Raises:
            UsageError: If a folder does not exist, or has too many skills.
        """
        self.skills: dict[str, SkillFolder] = {}
        self.warnings: list[str] = []
        """Broken rules of the format, and skills that are not used."""
        self._unused: dict[str, str] = {}
        """By name of its folder: the reason why a skill is not used."""
        for folder in folders:
            found = _find_skills(folder)
            for path in found:
                self._add(path)
            if not found:
                self.warnings.append(f"{folder} has no skill: a folder with a file SKILL.md")

    @cached_property
    def _index(self) -> WordIndex:
        # When it is first used: it takes as long as to read the skills.
        return WordIndex(
            {skill.name: 4, skill.header.description: 2, skill.body: 1}
            for skill in self.skills.values()
        )

    def _add(self, path: Path) -> None:
        try:
            skill, warnings = _read_skill(path)
            if not skill.header.for_models:
                self._unused.setdefault(skill.name, f"{path}: disable-model-invocation is true")
                return
            first = self.skills.setdefault(skill.name, skill)
            if first is not skill:
                msg = f"{path}: skill {skill.name!r} is not used; {first.folder} has the same name"
                raise UsageError(msg)
        except UsageError as error:
            self._unused.setdefault(path.name, str(error))
            warnings = [str(error)]
        self.warnings += warnings

    def get(self, name: str) -> SkillFolder:
        """Return a skill.

        Raises:
            ToolError: ``unknown_skill``, or ``invalid_skill`` if it cannot be used.
        """
        if name in self.skills:
            return self.skills[name]
        if name in self._unused:
            msg = f"skill {name!r} cannot be used: {self._unused[name]}"
            raise ToolError(msg, code="invalid_skill")
        near = nearest(name, self.skills)
        msg = f"there is no skill {name!r:.80}{near}; find one with search_skills"
        raise ToolError(msg, code="unknown_skill")

    def find(self, query: str, limit: int) -> list[tuple[SkillFolder, float]]:
        """Return skills and their scores, best match first."""
        skills = list(self.skills.values())
        return [(skills[at], score) for at, score in self._index.find(query, limit)]


def _find_skills(folder: Path) -> list[Path]:
    """Return the skills of a folder: itself, or the folders directly in it."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        msg = f"the folder {folder} cannot be read: {error.strerror}"
        raise UsageError(msg) from None
    if not set(_NAMES).isdisjoint(names):
        return [folder]
    found = [
        folder / name
        for name in names
        # A name that cannot be printed would be part of messages.
        if not name.startswith(".")
        and name.isprintable()
        and any(os.path.lexists(folder / name / n) for n in _NAMES)
    ]
    if len(found) > MAX_SKILLS:
        msg = f"{folder} has {len(found):,} skills; at most {MAX_SKILLS:,} are allowed"
        raise UsageError(msg)
    return found


def _read_skill(path: Path) -> tuple[SkillFolder, list[str]]:
    """Read a skill; return it and its broken rules. Raises `UsageError` if it cannot be used."""
    folder = path.resolve()
    if path.is_symlink() and path.parent.resolve() != folder.parent:
        # In a checkout, such a link would make files of the user part of a skill.
        msg = f"{path} is a link that leaves its folder; name its target among the folders instead"
        raise UsageError(msg)
    try:
        with Root(folder) as root:
            name = next(name for name in _NAMES if os.path.lexists(folder / name))
            text = _read_text(root, name, MAX_SKILL_BYTES)
            files = tuple(file for file in _list_files(folder) if file != name)
            scripts = {file: source for file in files if (source := _script(root, file))}
    except (ToolError, OSError) as error:
        raise UsageError(f"{path}: {error}") from None
    where = str(path / name)
    header, body, warnings = parse_skill(text, path.name, where)
    first_line = text.count("\n", 0, text.rfind(body)) if body else 0
    skill = SkillFolder(header, body, first_line, folder, files, scripts, text)
    problems = problems_of(header.allowed_tools)
    return skill, [*warnings, *(f"{where}: {problem}" for problem in problems)]


def _list_files(folder: Path) -> list[str]:
    return sorted(islice(_walk(folder), MAX_FILES))


def _walk(folder: Path) -> Iterator[str]:
    """Yield regular files, without hidden ones; links are not followed."""
    for number, (above, folders, files) in enumerate(os.walk(folder)):
        depth = len(Path(above).relative_to(folder).parts)
        hidden = (n for n in folders if n.startswith(".") or n in _NO_FILES_IN)
        folders[:] = sorted(set(folders).difference(hidden)) if depth < _MAX_DEPTH else []
        for name in sorted(files):
            path = Path(above, name)
            relative = path.relative_to(folder).as_posix()
            # A name that is not UTF-8 could not be written in a call.
            shown = not name.startswith(".") and relative.isprintable()
            if shown and not path.is_symlink() and path.is_file():
                yield relative
        if number == _MAX_FOLDERS:
            return


def _script(root: Root, file: str) -> str | None:
    if not file.endswith(".py"):
        return None
    try:
        source = _read_text(root, file, MAX_SCRIPT_BYTES)
    except ToolError:
        return None
    return source if _RUN.search(source) else None


def _read_text(root: Root, path: str, most: int) -> str:
    fd = root.open_file(path)
    with open(fd, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        msg = f"{quote(path)} has more than {most:,} bytes"
        raise ToolError(msg, code="too_large")
    return text_of(data, 0, path)
