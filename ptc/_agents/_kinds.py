"""Kinds of child agents: Markdown files with front matter, built-in ones and a project's own.

Rule 1: a folder is read only if the application or its configuration names it. A file that an agent
    can write must not become the instructions of another; the named folders are protected paths.
    tests/core/agents/test_kinds.py::test_folder_of_kinds_is_protected_from_tools
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from .._core._arguments import nearest, parts_of, path_of, require
from .._core._front_matter import read_front_matter
from .._dataclass import dataclass
from .._tools._allow import Allow, select
from .._tools._allow_text import parse_allow, split_entries
from .._tools._tool import Tool
from ..errors import UsageError
from ._limits import TaskLimits

__all__ = ["HANDOFF_TAG", "AgentKind", "AgentKinds", "find_kind", "kind_from", "read_kind"]

_BUILTIN = Path(__file__).with_name("kinds")
_MAX_BYTES = 65_536
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
HANDOFF_TAG = "agent"
"""Tag of the tools of `agent_tool`."""


@dataclass(frozen=True, slots=True)
class AgentKind:
    """A kind of child agent."""

    name: str
    """Name by which `task` calls it."""
    description: str
    """Purpose, for the agent that selects a kind."""
    instructions: str
    """Instructions for the child's model."""
    tools: tuple[str | Allow, ...] | None = None
    """Allow-list: names, patterns and rules. None: all tools of the caller except ``task``,
    ``tasks`` and those of `agent_tool`. It never adds a tool that the caller may not call."""
    read_only: bool = False
    """True: only tools without a side effect."""
    model: str | None = None
    """Model, as ``provider:name``. None: the session's."""
    limits: TaskLimits = TaskLimits()  # frozen
    output_schema: Mapping[str, Any] | None = None
    """JSON Schema of its structured answer. None: it answers with text."""

    def select_tools(self, tools: Mapping[str, Tool]) -> list[str | Allow]:
        """Return the entries of the kind's allow-list that apply to `tools`, those of its caller.

        A tool that the caller lacks is left out.
        """
        if self.read_only:
            tools = {name: tool for name, tool in tools.items() if not tool.side_effect}
        if self.tools is None:
            return [name for name, tool in tools.items() if not _delegates(tool)]
        entries: list[str | Allow] = []
        for entry in self.tools:
            if isinstance(entry, Allow):
                entries += [entry] if entry.tool in tools else []
            elif re.search(r"[*?\[]", entry) and entry not in tools:
                entries += _expand(entry, tools)
            elif entry in tools:
                entries.append(entry)
        return entries

    def check_tools(self, tools: Mapping[str, Tool]) -> None:
        """Raise `UsageError` if an entry of the allow-list fits none of the session's tools."""
        for entry in self.tools or ():
            select([entry], tools, {})


def _delegates(tool: Tool) -> bool:
    """True for a tool that a child has only if its kind names it.

    Most tasks need no further delegation, and a child could delegate to its own kind without end.
    """
    return tool.name in ("task", "tasks") or HANDOFF_TAG in tool.tags


def _expand(pattern: str, tools: Mapping[str, Tool]) -> list[str]:
    try:
        return list(select([pattern], tools, {}))
    except UsageError:
        # It fits tools of the session, and none of the caller's.
        return []


class AgentKinds:
    """The kinds of a session by name: the built-in ones, replaced and joined by a project's."""

    def __init__(self, folders: str | Path | Iterable[str | Path] = ()) -> None:
        """Read the kinds of a folder or several; a later one replaces kinds of an earlier one.

        Raises:
            UsageError: If a folder or a file cannot be read, or is malformed.
        """
        listed = [folders] if isinstance(folders, str | Path) else folders
        paths = parts_of("agents", listed, "a folder, or a list of folders")
        self.folders: tuple[Path, ...] = tuple(_folder(path) for path in paths)
        """The folders of the project."""
        self._own = {kind.name: kind for folder in self.folders for kind in _read_folder(folder)}

    def paths(self) -> list[Path]:
        """List the folders and files of the project, which no tool may change.

        A file may be a link to one outside of its folder.
        """
        return [*self.folders, *(file for folder in self.folders for file in folder.glob("*.md"))]

    @property
    def _all(self) -> dict[str, AgentKind]:
        return {**_builtin_kinds(), **self._own}

    def __iter__(self) -> Iterator[AgentKind]:
        return iter(self._all.values())

    def find(self, name: str) -> AgentKind:
        """Return the kind `name`.

        Raises:
            UsageError: If there is none; the message has the nearest names.
        """
        kinds = self._all
        if name not in kinds:
            msg = f"there is no agent {name!r:.80}{nearest(name, kinds)}; agents: "
            raise UsageError(msg + ", ".join(kinds))
        return kinds[name]

    def check_tools(self, tools: Mapping[str, Tool]) -> None:
        """Raise `UsageError` if a project's kind names a tool that the session lacks.

        Built-in kinds use what there is of the tools that they name.
        """
        for kind in self._own.values():
            try:
                kind.check_tools(tools)
            except UsageError as error:
                raise UsageError(f"agent {kind.name!r}: {error}") from None


def find_kind(thing: AgentKind | str | Path) -> AgentKind:
    """Return a kind itself, that of a file (a `Path`, or text that ends in ``.md``), or a built-in.

    Raises:
        UsageError: If there is no such kind, or the file is malformed.
    """
    if isinstance(thing, AgentKind):
        return thing
    if isinstance(thing, Path) or (isinstance(thing, str) and thing.endswith(".md")):
        return read_kind(Path(thing))
    require("agent", thing, str, "the name of an agent, the path of its file, or an AgentKind")
    return AgentKinds().find(thing)


@lru_cache(1)
def _builtin_kinds() -> Mapping[str, AgentKind]:
    return {kind.name: kind for kind in _read_folder(_BUILTIN)}


def _folder(path: str | Path) -> Path:
    folder = path_of("agents", path).absolute()
    if not folder.is_dir():
        msg = f"agents: {str(path)!r} is not a folder"
        raise UsageError(msg)
    return folder


def _read_folder(folder: Path) -> Iterator[AgentKind]:
    for path in sorted(folder.glob("*.md")):
        yield read_kind(path)


def read_kind(path: Path) -> AgentKind:
    """Read the kind that a file describes.

    Raises:
        UsageError: If the file cannot be read, or is malformed; the message has its name.
    """
    try:
        data = path.read_bytes()
        text = data.decode()
    except OSError as error:
        raise UsageError(f"agent file {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"agent file {path}: it is not UTF-8") from None
    if len(data) > _MAX_BYTES:
        msg = f"agent file {path}: it has {len(data):,} bytes; the limit is {_MAX_BYTES:,}"
        raise UsageError(msg)
    values, body = read_front_matter(text, where=f"agent file {path}")
    try:
        return kind_from(values, body, path.stem)
    except UsageError as error:
        raise UsageError(f"agent file {path}: {error}") from None


def kind_from(values: Mapping[str, Any], body: str, stem: str) -> AgentKind:
    """Return the kind that a front matter and the text below it describe.

    Args:
        values: The front matter.
        body: The text: the instructions.
        stem: Name of the kind, if the front matter has none.

    Raises:
        UsageError: If a key is unknown or missing, or a value is invalid.
    """
    known = [item.name for item in fields(AgentKind) if item.name != "instructions"]
    for key in values:
        if key not in known:
            msg = f"unknown key {key!r:.80}{nearest(key, known)}; keys: {', '.join(known)}"
            raise UsageError(msg)
    # A key without a value, as in `model:`, is absent.
    given = {key: value for key, value in values.items() if value is not None}
    name = given.pop("name", stem)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"name must be 1-64 letters, digits, `_` and `-`, not {name!r:.80}")
    description = given.pop("description", "")
    require("description", description, str, "text")
    if not description.strip():
        raise UsageError("description is missing: say when to use this agent")
    if not body.strip():
        raise UsageError("the text below the front matter is missing: it is the instructions")
    read = {key: _READ[key](value) for key, value in given.items()}
    return AgentKind(name, " ".join(description.split()), body.strip(), **read)


def _read_tools(value: object) -> tuple[str | Allow, ...]:
    if isinstance(value, str):
        value = split_entries(value)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"tools must be a list of names, patterns and rules, not {value!r:.80}")
    return tuple(parse_allow(item) for item in value)


def _read_flag(value: object) -> bool:
    require("read_only", value, bool, "true or false")
    return bool(value)


def _read_model(value: object) -> str:
    require("model", value, str, "provider:name")
    from ..models._open import validate_source

    return str(validate_source(value))


def _read_limits(value: object) -> TaskLimits:
    require("limits", value, dict, "a table, as {max_steps: 10}")
    return TaskLimits.from_mapping(value)  # type: ignore[arg-type]  # just checked


def _read_schema(value: object) -> Mapping[str, Any]:
    require("output_schema", value, dict, "a JSON Schema")
    from ..structured import Contract

    Contract(value)
    return value  # type: ignore[return-value]  # just checked


_READ: Mapping[str, Callable[[object], Any]] = {
    "tools": _read_tools,
    "read_only": _read_flag,
    "model": _read_model,
    "limits": _read_limits,
    "output_schema": _read_schema,
}
