"""Links and names in the project's Markdown lead to something that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (".github", "bindings", "docs", "ptc", "samples", "tests", "tools")
PAGES = sorted(
    [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))]
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?:\.github|\.ci|bindings|docs|ptc|samples|tests|tools)/[\w./-]*")
TEST = re.compile(r"\btest_\w+(?:\.py)?")
# Files of a reader, not of this repository.
EXAMPLES = {"tests/data/report.json", "tests/tools/test_name.py", "test_name.py"}


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


@cache
def anchors(page: Path) -> frozenset[str]:
    headings = re.findall(r"^#+ (.*)$", prose(page), re.M)
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    )


@cache
def known_tests() -> frozenset[str]:
    """Names of the files and functions of the tests."""
    found = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        found.add(file.name)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(node.name)
    return frozenset(found)


def by_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_relative_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_paths_of_the_repository_exist(page: Path) -> None:
    named = {
        word
        for code in CODE.findall(prose(page))
        for word in re.split(r"[\s:]", code)
        if PATH.fullmatch(word)
    }
    assert [path for path in sorted(named - EXAMPLES) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_named_tests_exist(page: Path) -> None:
    named = {name for code in CODE.findall(prose(page)) for name in TEST.findall(code)}
    assert sorted(named - known_tests() - EXAMPLES) == []


def test_the_pages_are_found() -> None:
    names = {by_name(page) for page in PAGES}
    assert {"README.md", "docs/design.md", "tools/README.md", ".github/SECURITY.md"} <= names
    assert "test_named_tests_exist" in known_tests()
    assert len(SAMPLES) == 11


SAMPLES = [
    sample
    for sample in sorted(ROOT.glob("samples/frameworks/*.py"))
    if re.search(r"import (as_tools|ToolUses)", sample.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("sample", SAMPLES, ids=by_name)
def test_page_of_a_framework_shows_its_sample(sample: Path) -> None:
    text = sample.read_text(encoding="utf-8")
    name = "framework-" + _binding_of(text).replace("_", "-") + ".md"
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert f"```python\n{text}```\n" in page
    assert f"]({name})" in (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")


def _binding_of(source: str) -> str:
    found = re.search(r"from ptc_bindings\.(\w+) import", source)
    assert found is not None
    return found[1]


def test_pictures_exist_are_small_and_load_nothing() -> None:
    linked = {
        page.parent / link
        for page in PAGES
        for link in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", prose(page))
        if not re.match(r"[a-z]+:", link)
    }
    assert linked
    for picture in linked:
        if picture.suffix == ".webp":  # a screenshot
            assert len(picture.read_bytes()) < 60_000, picture
            continue
        text = picture.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert len(text) < 30_000, picture
        assert not re.search(r"https?:|@import|url\((?!#)|<script|<image|href=", text), picture
