"""Tools of the sample worker. Every worker of a queue needs the same ones."""

from __future__ import annotations

from ptc import tool


@tool
def word_count(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
