"""The file SKILL.md in the public format Agent Skills (https://agentskills.io/specification).

A skill that breaks a rule of the format is used if its meaning is clear, with a warning. One
without a name, a description or readable front matter is not used.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ptc import UsageError
from ptc._core._front_matter import read_front_matter

__all__ = ["Header", "parse_skill", "split_allowed_tools"]

_MAX_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 1_024
_MAX_COMPATIBILITY_CHARS = 500
_LONGEST_NAME = 256
"""Characters of a name that is used with a warning."""
_LONGEST_DESCRIPTION = 16_384
"""Characters of a description that is used with a warning."""


@dataclass(frozen=True, slots=True)
class Header:
    """Front matter of a SKILL.md. Unknown keys are allowed, and not stored."""

    name: str
    description: str
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: tuple[str, ...] | None = None
    """Entries of ``allowed-tools``; None without the key."""
    for_models: bool = True
    """False: ``disable-model-invocation: true``, a key of some clients."""


def parse_skill(text: str, folder: str, where: str) -> tuple[Header, str, list[str]]:
    """Parse a SKILL.md.

    Args:
        text: Content of the file.
        folder: Name of the skill's folder.
        where: Path of the file, for messages.

    Returns:
        The header, the text after it, and a warning for each broken rule.

    Raises:
        UsageError: If the skill cannot be used. The message has the file, and the key if one is
            wrong.
    """
    warnings: list[str] = []
    try:
        data, body = read_front_matter(text, where=where)
    except UsageError:
        # The most frequent mistake in published skills: `description: Use this when: ...`.
        quoted = _quote_values(text)
        if quoted == text:
            raise
        data, body = read_front_matter(quoted, where=where)
        warnings.append("the front matter is not valid YAML; put values with a colon in quotes")
    rules = _Rules(data, where, warnings)
    name = unicodedata.normalize("NFKC", rules.required("name", _LONGEST_NAME))
    rules.check_name(name, folder)
    description = rules.required("description", _LONGEST_DESCRIPTION)
    rules.check_length("description", description, _MAX_DESCRIPTION_CHARS)
    compatibility = rules.text("compatibility")
    rules.check_length("compatibility", compatibility, _MAX_COMPATIBILITY_CHARS)
    header = Header(
        name,
        description,
        rules.text("license"),
        compatibility,
        rules.metadata(),
        rules.allowed_tools(),
        data.get("disable-model-invocation") is not True,
    )
    return header, body, [f"{where}: {warning}" for warning in warnings]


class _Rules:
    """Checks of the front matter. Broken rules of a usable skill are added to `warnings`."""

    def __init__(self, data: Mapping[str, Any], where: str, warnings: list[str]) -> None:
        self._data = data
        self._where = where
        self._warnings = warnings

    def required(self, key: str, longest: int) -> str:
        """Return the text of a key, without control characters and invisible ones."""
        value = self._data.get(key)
        if not isinstance(value, str) or not _visible(value):
            found = "is missing" if value is None else f"must be text, not {value!r:.80}"
            raise UsageError(f"{self._where}: the key `{key}` {found}")
        if len(value) > longest:
            size = f"{len(value):,} characters; the format allows"
            most = _MAX_NAME_CHARS if key == "name" else _MAX_DESCRIPTION_CHARS
            raise UsageError(f"{self._where}: the key `{key}` has {size} {most:,}")
        return _visible(value)

    def check_name(self, name: str, folder: str) -> None:
        # Such as `..` or a control character: no name of a skill, under any rule.
        if not re.fullmatch(r"\w[\w .:+-]*", name):
            msg = (
                f"{self._where}: the key `name` is {name!r:.80}; use lowercase letters and hyphens"
            )
            raise UsageError(msg)
        self.check_length("name", name, _MAX_NAME_CHARS)
        strict = all(c.isalnum() or c == "-" for c in name) and name == name.lower()
        if not strict or name.startswith("-") or name.endswith("-") or "--" in name:
            self._warn("name", f"{name!r} must have lowercase letters, digits and single hyphens")
        if name != unicodedata.normalize("NFKC", folder):
            self._warn("name", f"{name!r} must equal the name of the folder, {folder!r}")

    def check_length(self, key: str, value: str, most: int) -> None:
        if len(value) > most:
            self._warn(key, f"it has {len(value):,} characters; the format allows {most:,}")

    def text(self, key: str) -> str:
        value = self._data.get(key)
        if value is None or isinstance(value, str):
            return _visible(value or "")
        self._warn(key, f"must be text, not {value!r:.80}; it is ignored")
        return ""

    def metadata(self) -> dict[str, str]:
        value = self._data.get("metadata")
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._warn("metadata", f"must be a mapping, not {value!r:.80}; it is ignored")
            return {}
        return {_visible(str(key)): _visible(str(item)) for key, item in value.items()}

    def allowed_tools(self) -> tuple[str, ...] | None:
        if "allowed-tools" not in self._data:
            return None
        value = self._data["allowed-tools"]
        if value is None or isinstance(value, str):
            return split_allowed_tools(value or "")
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(entry for item in value for entry in split_allowed_tools(item))
        # Not ignored, since without the key a script has more tools.
        self._warn("allowed-tools", f"must be text or a list of texts, not {value!r:.80}")
        return ()

    def _warn(self, key: str, problem: str) -> None:
        self._warnings.append(f"the key `{key}`: {problem}")


def _visible(text: str) -> str:
    # A description is read in lists of tools and on terminals, where an escape could act.
    return "".join(char for char in text if char.isprintable() or char in "\n\t").strip()


def split_allowed_tools(text: str) -> tuple[str, ...]:
    """Split a list of tools at spaces and commas, but not in parentheses or quotes.

    The format has spaces between the entries; many published skills have commas.
    """
    entries, entry, depth, quote = [], "", 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif depth and char in "\"'":
            quote = char
        elif char in "()":
            depth = max(0, depth + (1 if char == "(" else -1))
        elif not depth and (char.isspace() or char == ","):
            entries.append(entry)
            entry = ""
            continue
        entry += char
    return tuple(filter(None, [*entries, entry]))


def _quote_values(text: str) -> str:
    """Quote values of the front matter that have a colon in them."""
    head, fence, rest = text.removeprefix("\ufeff").partition("\n---")
    quoted = re.sub(
        r"(?m)^([A-Za-z][\w-]*): +([^\s\"'\[{|>&*!%@`].*?: .*?)[ \t\r]*$",
        lambda found: f"{found[1]}: {_quoted(found[2])}",
        head,
    )
    return quoted + fence + rest if quoted != head else text


def _quoted(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"
