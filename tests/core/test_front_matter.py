"""Front matter of Markdown files."""

from __future__ import annotations

import pytest

from ptc import UsageError
from ptc._core._front_matter import read_front_matter


def test_front_matter_and_text_are_separated() -> None:
    text = "---\nname: a\ntools: [read, grep]\n---\n\nBody\n---\nmore\n"
    assert read_front_matter(text, where="a.md") == (
        {"name": "a", "tools": ["read", "grep"]},
        "Body\n---\nmore",
    )
    assert read_front_matter("\ufeff---\r\nname: a\r\n---\r\n", where="a.md") == ({"name": "a"}, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: a\n", "must start with front matter"),
        ("---\nname: a\n", "must start with front matter"),
        ("", "must start with front matter"),
        ("---\n- a\n---\n", "must be a mapping"),
        ("---\n1: a\n---\n", "must be a mapping"),
        ("---\nname: [a\n---\n", "a.md, line 3: the front matter is not valid YAML"),
        ("---\na: &x [1]\nb: *x\n---\n", "aliases"),
        ("---\na: !!python/object/apply:os.system [id]\n---\n", "not valid YAML"),
        ("---\na: 2026-13-45\n---\n", "not valid YAML"),
        ("---\na: " + "[" * 100 + "\n---\n", "nested over 32 deep"),
        ("---\na: " + "[" * 5_000 + "\n---\n", "nested over 32 deep"),
        ("---\n" + "a: 1 #" + "x" * 70_000 + "\n---\n", "characters, over"),
    ],
)
def test_malformed_front_matter_is_an_error_with_its_place(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_front_matter(text, where="a.md")
