"""Text of servers that are not trusted, made safe for models, terminals and logs."""

from __future__ import annotations

import unicodedata

__all__ = ["clean_text"]


def clean_text(text: str, most: int) -> str:
    """Remove invisible characters, and truncate.

    Control characters could rewrite a terminal. Format characters are invisible to the person who
    reviews a text and visible to the model that obeys it: the Unicode tags, for example, spell out
    ASCII, and the directional overrides reverse what is shown.

    Args:
        text: The text.
        most: Characters to retain; a longer text ends with its full length.
    """
    shown = "".join(c for c in text[: most * 2] if c in "\n\t" or c.isprintable() or _is_space(c))
    if len(text) <= most:
        return shown
    note = f"... [{len(text):,} characters in all]"
    return shown[: max(0, most - len(note))] + note


def _is_space(character: str) -> bool:
    return unicodedata.category(character) == "Zs"
