"""The key ``allowed-tools`` of a skill as an allow-list of its scripts.

Rule 1: An entry allows exactly what its author wrote, or less; one that cannot be translated is an
    error and allows nothing.
    tests/tools/skills/test_allowed.py::test_entry_that_cannot_be_translated_is_an_error
Rule 2: A rule on a command also refuses variables and other folders: `PATH`, `GIT_PAGER` or a file
    of the same name elsewhere would run another program under the command's name.
    tests/tools/skills/test_allowed.py::test_rule_on_a_command_refuses_variables_and_other_folders
Rule 3: The list narrows the caller's tools and adds none.
    tests/tools/skills/test_scripts.py::test_skill_that_lists_write_cannot_write_for_a_caller_without_it
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from ptc import Allow, Tool, UsageError
from ptc._tools._allow_text import parse_allow

__all__ = ["AllowedTools", "allowed_tools", "problems_of"]

_PUBLIC_NAMES: Final = {
    "Agent": "task",
    "Bash": "bash",
    "Edit": "edit",
    "Glob": "glob",
    "Grep": "grep",
    "LS": "ls",
    "MultiEdit": "edit",
    "Read": "read",
    "Task": "task",
    "WebFetch": "web_fetch",
    "WebSearch": "web_search",
    "Write": "write",
}
"""Names of tools in published skills, and the tools here."""
_WITH_PATHS: Final = ("Edit", "MultiEdit", "Read", "Write")
"""Names whose argument is a pattern of paths."""
_WORD = re.compile(r"[A-Za-z0-9_./:=@+,%-]+")
"""A word of a command that means itself, to a shell too."""


@dataclass(frozen=True, slots=True)
class AllowedTools:
    """Allow-list of the scripts of a skill for one caller."""

    entries: tuple[str | Allow, ...]
    unavailable: tuple[str, ...]
    """Entries whose tool the caller may not call, as written."""


def allowed_tools(listed: Iterable[str] | None, tools: Mapping[str, Tool]) -> AllowedTools:
    """Translate the entries of a skill.

    Args:
        listed: The entries; None: the skill has no list, and gets the tools without a side effect.
        tools: Tools that the caller may call.

    Raises:
        UsageError: If an entry cannot be translated.
    """
    if listed is None:
        free = [name for name, tool in tools.items() if not tool.side_effect]
        return AllowedTools(tuple(free), ())
    entries: list[str | Allow] = []
    unavailable = []
    for text in listed:
        entry = _translate(text, tools)
        found: list[str | Allow] = []
        if not isinstance(entry, Allow):
            found += [name for name in tools if fnmatchcase(name, entry)]
        elif entry.tool in tools:
            found.append(entry)
        entries += found
        unavailable += [] if found else [text]
    return AllowedTools(tuple(entries), tuple(unavailable))


def problems_of(listed: Iterable[str] | None) -> list[str]:
    """Return the reason for each entry that can be translated for no caller."""
    problems = []
    for text in listed or ():
        try:
            _translate(text, {})
        except UsageError as error:
            problems.append(str(error))
    return problems


def _translate(text: str, tools: Mapping[str, Tool]) -> str | Allow:
    """Return a name, a pattern of names, or a rule."""
    if not text.isprintable():
        raise _error(text, "it has a character that cannot be seen")
    name, has_argument, rest = text.partition("(")
    if not has_argument:
        # A tool that has the public name itself comes first.
        return name if name in tools else _name_of(name)
    if name not in _PUBLIC_NAMES:
        rule = parse_allow(text)
        if not isinstance(rule, Allow):
            raise _error(text, "it is not a rule")
        return rule
    argument = rest.removesuffix(")").strip()
    if not rest.endswith(")") or not argument:
        raise _error(text, f"write {name}, or {name}(ARGUMENT)")
    tool = _PUBLIC_NAMES[name]
    if argument == "*":
        return tool
    if tool == "bash":
        return _command_rule(text, argument)
    if name in _WITH_PATHS:
        return Allow(tool, path=_path_pattern(text, argument))
    raise _error(text, f"a rule for {tool} has no counterpart here; list {name} without one")


def _name_of(name: str) -> str:
    server, found, tool = name.removeprefix("mcp__").partition("__")
    if name.startswith("mcp__") and found:
        return f"{server}.{tool}"
    return _PUBLIC_NAMES.get(name, name)


def _command_rule(text: str, argument: str) -> Allow | str:
    """Translate a command, or the start of one: ``git:*``, ``git diff *``, ``npm test``."""
    start = re.fullmatch(r"(.*?)(?::\*| \*)", argument)
    words = (start[1] if start else argument).split()
    if not words or not all(_WORD.fullmatch(word) for word in words):
        raise _error(
            text, "only the first words of a command can be compared: write Bash(git diff:*)"
        )
    command, *arguments = words
    if start and not arguments:
        return Allow("bash", cmd=command, cwd=".", env=None)
    matches = _arguments(arguments, exact=start is None)
    return Allow("bash", cmd=command, args=matches, cwd=".", env=None)


def _arguments(words: list[str], *, exact: bool) -> Callable[[object], bool]:
    def matches(value: object) -> bool:
        arguments = value if isinstance(value, list) else []
        return arguments == words if exact else arguments[: len(words)] == words

    # Part of the message of a refused call.
    matches.__name__ = f"{'exactly' if exact else 'as its start'} {words}"
    return matches


def _path_pattern(text: str, argument: str) -> str:
    pattern = argument.removeprefix("./")
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or not pattern:
        raise _error(text, "the path must be beneath the root, such as Read(src/**)")
    return pattern


def _error(text: str, problem: str) -> UsageError:
    return UsageError(f"allowed-tools: {text!r:.200} cannot be translated: {problem}")
