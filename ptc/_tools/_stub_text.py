"""Text of stubs: names, literals, docstrings and single lines as Python source."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["camel_case", "clean", "is_plain_name", "one_line", "python_literal", "quote_docstring"]


def python_literal(value: Any) -> str:
    """Write JSON data as a Python expression; text in double quotes, as models write it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(python_literal(item) for item in value)}]"
    if isinstance(value, Mapping):
        items = (f"{python_literal(key)}: {python_literal(v)}" for key, v in value.items())
        return f"{{{', '.join(items)}}}"
    return repr(value) if isinstance(value, bool | int | float) or value is None else "..."


def quote_docstring(lines: Sequence[str]) -> list[str]:
    """Write `lines` as a docstring that no text in them can close."""
    text = "\n".join(lines).replace('"""', "'''")
    opening = 'r"""' if "\\" in text else '"""'
    rows = (opening + text).split("\n")
    # On its own line, the closing quotes cannot merge with a last quote or backslash of the text.
    return [f'{rows[0]}"""'] if len(rows) == 1 and text[-1:] not in '"\\' else [*rows, '"""']


def is_plain_name(name: str) -> bool:
    """True for an ASCII Python identifier: no character can be mistaken for another."""
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def camel_case(name: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", name)
    joined = "".join(word[:1].upper() + word[1:] for word in words)
    return f"_{joined}" if joined[:1].isdigit() else joined


def clean(text: str) -> str:
    """Remove characters that could hide or move text that a model reads."""
    return "".join(c for c in text.expandtabs(4) if c == "\n" or c.isprintable())


def one_line(text: object, most: int) -> str:
    line = clean(" ".join(text.split())) if isinstance(text, str) else ""
    return line if len(line) <= most else f"{line[: most - 3]}..."
