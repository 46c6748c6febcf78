"""The documentation site: navigation, the generated page, clicks, and the strict build."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptc._cli._group import _HOME
from ptc._config._keys import KEYS
from ptc._config._settings import _OTHER_VARIABLES
from tests.core.test_documents import LINK, PAGES, ROOT, prose

SITE = ROOT / "docs" / "site"
QUESTION = re.compile(r"^## (.+\?)$", re.MULTILINE)


def listed(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from listed(value)


def test_navigation_has_every_page_once() -> None:
    config = tomllib.loads((SITE / "zensical.toml").read_text(encoding="utf-8"))
    names = list(listed(config["project"]["nav"]))
    elsewhere = re.findall(r'"[\w./]+\.md": "([\w-]+\.md)"', (SITE / "build.py").read_text())
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} | set(elsewhere)
    assert sorted(names) == sorted(pages)


def test_page_of_the_api_is_generated_from_the_docstrings() -> None:
    generator = runpy.run_path(str(SITE / "api.py"))
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert page == generator["render_page"](), "run: python docs/site/api.py > docs/api.md"


def links(page: Path) -> set[tuple[Path, str]]:
    """Pages that a page links to, with the anchors."""
    found = set()
    for link in LINK.findall(prose(page)):
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            found.add(((page.parent / path).resolve() if path else page, anchor))
    return found


def clicks() -> dict[Path, int]:
    """The least number of clicks from the README to each page."""
    found = {ROOT / "README.md": 0}
    queue = [ROOT / "README.md"]
    for page in queue:
        for target, _ in links(page):
            if target in PAGES and target not in found:
                found[target] = found[page] + 1
                queue.append(target)
    return found


def test_every_page_is_reached_from_the_readme_with_two_clicks() -> None:
    found = clicks()
    pages = [page for page in PAGES if page.parent == ROOT / "docs"]
    assert {page.name: found.get(page) for page in pages if found.get(page, 9) > 2} == {}


def test_answers_to_questions_of_newcomers_are_two_clicks_away() -> None:
    page = ROOT / "docs" / "questions.md"
    assert clicks()[page] == 1
    text = page.read_text(encoding="utf-8")
    questions = QUESTION.findall(text)
    assert len(questions) >= 12
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        assert LINK.search(section), f"no link to more: {section[:40]}"
    # Each question is in the list at the top: a click to the page, and one to the answer.
    top = text.partition("\n## ")[0]
    assert all(f"[{question}](#" in top for question in questions)


def test_links_of_llms_txt_lead_to_pages() -> None:
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    targets = LINK.findall(text)
    assert len(targets) > 15
    assert [target for target in targets if not (ROOT / "docs" / target).is_file()] == []


def test_page_of_the_command_line_has_every_command() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    commands = [*_HOME, "mcp", "todo", "verify"]
    assert [name for name in commands if f"`ptc {name}" not in page] == []


def test_table_of_variables_has_every_key() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    plain = [key for name, key in KEYS.items() if not name.startswith(("limits.", "ceiling."))]
    assert len(plain) > 20
    variables = [key.variable for key in plain] + list(_OTHER_VARIABLES)
    assert [name for name in variables if f"`{name}`" not in page and name != "PTC_SHARED"] == []


def test_readme_has_one_screen_before_more() -> None:
    first = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## More\n")[0]
    assert len(first.splitlines()) <= 50
    assert "![" in first


@pytest.mark.slow
def test_site_is_built_strictly(tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="pip install '.[docs]'")
    done = subprocess.run(
        [sys.executable, str(SITE / "build.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    assert (tmp_path / "html" / "tutorial.html").exists()
    text = (tmp_path / "html" / "concepts.html").read_text(encoding="utf-8")
    assert 'class="mermaid"' in text
