"""The table ``requirements.md``, the lists ``requirements_*.py`` and the tests agree."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).parent
LISTS = sorted(TESTS.glob("requirements_*.py"))

IN_TWO_LISTS = {"SM-55", "SM-67", "SM-92", "W7", "W8"}
"""Requirements with a part in each of two lists."""


def table() -> list[tuple[set[str], set[str]]]:
    """Return ids and lists of each row of the table."""
    text = (TESTS / "requirements.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (\w+-?\d[^|]*) \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)
    return [(expand(ids), set(lists.split(", "))) for ids, lists in cells]


def expand(ids: str) -> set[str]:
    """Return every id of ``SM-01 to SM-06, SM-08``."""
    found: set[str] = set()
    for part in ids.split(", "):
        first, _, last = part.partition(" to ")
        if not last:
            found.add(first)
            continue
        prefix, start = first.split("-")
        found |= {f"{prefix}-{n:02}" for n in range(int(start), int(last.split("-")[1]) + 1)}
    return found


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def areas() -> dict[str, dict[str, tuple[str, tuple[str, ...]]]]:
    """Return the rows of each list, by the name of its file."""
    return {
        path.stem: getattr(load(path), path.stem.removeprefix("requirements_").upper())
        for path in LISTS
    }


def not_taken() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in LISTS:
        found |= getattr(load(path), "NOT_TAKEN", {})
    return found


@functools.cache
def functions_of(file: str) -> dict[str, bool]:
    """Functions of a file by name, and whether a marker keeps each out of the default run."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    marked = any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "pytestmark"
        and "pytest.mark.slow" in ast.unparse(node.value)
        for node in tree.body
    )
    return {
        node.name: marked
        or any(ast.unparse(mark) == "pytest.mark.slow" for mark in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("area", list(areas()))
def test_every_requirement_names_existing_tests(area: str) -> None:
    missing = []
    for name, (claim, tests) in areas()[area].items():
        assert claim, name
        assert tests, name
        assert len(set(tests)) == len(tests), name
        for test in tests:
            file, _, function = test.partition("::")
            if not function.startswith("test_") or function not in functions_of(file):
                missing.append(f"{name}: {test}")
    assert missing == []


def test_every_requirement_is_covered_by_the_default_run() -> None:
    only_slow = [
        name
        for area in areas().values()
        for name, (_, tests) in area.items()
        if all(
            functions_of(file)[function] for file, _, function in (t.partition("::") for t in tests)
        )
    ]
    assert only_slow == []


def test_every_id_of_a_list_is_in_one_row_of_the_table_that_names_the_list() -> None:
    rows = table()
    lists = areas()
    for path in LISTS:
        for name in [*lists[path.stem], *getattr(load(path), "NOT_TAKEN", {})]:
            named = [names for ids, names in rows if name in ids]
            assert len(named) == 1, name
            assert path.stem.removeprefix("requirements_") in named[0], name


def test_every_id_of_the_table_is_shown_or_left_out_for_a_reason() -> None:
    required = set().union(*(ids for ids, _ in table()))
    shown = {name for area in areas().values() for name in area}
    left_out = not_taken()
    assert required == shown | set(left_out)
    assert not shown & set(left_out)
    assert all(len(reason) > 40 for reason in left_out.values())


def test_every_requirement_is_listed_once() -> None:
    lists = [name for area in areas().values() for name in area]
    left_out = [name for path in LISTS for name in getattr(load(path), "NOT_TAKEN", {})]
    twice = {name for name, count in Counter([*lists, *left_out]).items() if count > 1}
    assert twice == IN_TWO_LISTS


def test_every_tool_test_file_covers_a_requirement() -> None:
    named = {
        test.partition("::")[0]
        for area in areas().values()
        for _, tests in area.values()
        for test in tests
    }
    files = {f"tools/{path.name}" for path in (TESTS / "tools").glob("test_*.py")}
    assert files - named == set()


def test_every_conformance_test_covers_a_requirement() -> None:
    named = {test for area in areas().values() for _, tests in area.values() for test in tests}
    there = {
        f"conformance/{path.name}::{name}"
        for path in (TESTS / "conformance").glob("test_*.py")
        for name in functions_of(f"conformance/{path.name}")
        if name.startswith("test_")
    }
    assert there - named == set()


def test_every_difference_has_a_row_in_the_documentation() -> None:
    page = (TESTS.parent / "docs" / "differences.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| (\w+-\d+) \|", page, re.MULTILINE)
    differing = {
        name
        for area in ("requirements_migration", "requirements_agents")
        for name, (claim, _) in areas()[area].items()
        if claim.startswith("differs: ")
    }
    left_out = load(TESTS / "requirements_agents.py").NOT_TAKEN
    assert sorted(documented) == sorted(differing | left_out.keys())
