"""Prose is checked as far as a program can: docstring openers, banned words, names of functions.

docs/glossary.md has the terms to use instead.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

# As long as the tests of a package, and about texts only.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PACKAGES = ("ptc", "tools", "bindings", "samples")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "tools" / "README.md"]
PAGES += sorted((ROOT / "docs" / "skills").rglob("*.md"))
PAGES += [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "glossary.md"]

OPENER = re.compile(r"(What|Who|Whom|Whose|Whoever|Whatever|Where|Wherever|Whether)\b")
BANNED = re.compile(
    r"\b(mend(s|ed|ing)?|way out|ways out|fell short|not to be had|front door|bare scripts?"
    r"|first fence|second fence|language fence|(go|goes|going|went) on with|is told|are told"
    r"|(?<!there )is no (tool|text|list|name|path|function|file|folder|type|JSON)"
    r"|whoever|who asks)\b",
    re.IGNORECASE,
)
PARTICIPLES = set(
    re.findall(
        r"\w+",
        """
        asked begun called chosen cut done drawn ended fallen found given held kept known left let
        made marked mended met named parked recovered refused said seen sent served settled shown
        taken told wanted written
        """,
    )
)
MOST_QUESTION_WORDS = 3.0
"""Limit of what, who, whose ... per 1,000 words; h11, anyio and structlog have 0.4 to 2.2."""


def sources() -> list[Path]:
    return sorted(path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py"))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Strings that stand as statements: of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """String constants of several words."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if text.count(" ") >= 3:
                yield node.lineno, text


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of a file that people or models read, without code spans."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        text = re.sub(r"^ *```.*?^ *```", "", source, flags=re.MULTILINE | re.DOTALL)
        rows = list(enumerate(text.splitlines(), 1))
    else:
        tree = ast.parse(source)
        rows = [*docstrings(tree), *comments(source), *messages(tree)]
    for line, row in rows:
        yield line, re.sub(r"`[^`]*`", "code", row)


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_docstrings_open_with_a_verb_or_a_noun(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:60]!r}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if OPENER.match(text.strip())
    ]
    assert found == []


def test_no_text_has_a_word_that_the_glossary_replaces() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}"
        for path in (*sources(), *PAGES)
        for line, text in prose_of(path)
        for match in BANNED.finditer(text)
    ]
    assert found == []


@pytest.mark.slow
def test_question_words_are_as_rare_as_in_other_projects() -> None:
    words = questions = 0
    for path in (*sources(), *PAGES):
        for _, text in prose_of(path):
            words += len(re.findall(r"[A-Za-z']+", text))
            questions += len(re.findall(r"\b(what|who|whom|whose|whoever|whatever)\b", text, re.I))
    assert 1_000 * questions / words < MOST_QUESTION_WORDS


def test_functions_are_named_by_verbs_or_predicates() -> None:
    names = [
        (path, node.name)
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.decorator_list
    ]
    participles = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, name in names
        if name.lstrip("_").split("_")[0] in PARTICIPLES
    ]
    assert len(participles) < 0.02 * len(names), participles
