"""The lists of requirements (``tests/requirements_*.py``) and the tests agree, both ways."""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parent
LISTS = sorted(TESTS.glob("requirements_*.py"))

TOOLS = {f"SM-{number}" for number in range(60, 93)} | {"W7", "W8"}
"""Everything that is asked of the built-in tools."""


def numbered(kind: str, *ranges: tuple[int, int]) -> set[str]:
    return {f"{kind}-{n:02}" for first, last in ranges for n in range(first, last + 1)}


CONTRACT = (
    numbered("SM", (1, 24), (30, 45), (50, 58))
    | numbered("CG", (1, 10), (20, 33), (40, 45), (50, 64), (66, 68), (70, 73))
    | numbered("SA", (1, 12), (20, 30), (40, 48), (60, 63), (70, 75))
)
"""Everything that is asked of what a tool is, how it is called, recorded, approved and undone."""

IN_TWO_AREAS = {"SM-55", "SM-67", "SM-92", "W7", "W8"}
"""Asked of several built-in tools, or of tools and journal: each list has its part."""


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def areas() -> dict[str, dict[str, tuple[str, tuple[str, ...]]]]:
    """The rows of each list by the name of its dict, which is that of its file."""
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
    kinds: Any = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        node.name: any(ast.unparse(mark) == "pytest.mark.slow" for mark in node.decorator_list)
        for node in tree.body
        if isinstance(node, kinds)
    }


@pytest.mark.parametrize("area", list(areas()))
def test_every_requirement_is_shown_by_tests_that_are_there(area: str) -> None:
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


def test_every_requirement_is_shown_by_the_default_run_too() -> None:
    only_slow = [
        name
        for area in areas().values()
        for name, (_, tests) in area.items()
        if all(
            functions_of(file)[function] for file, _, function in (t.partition("::") for t in tests)
        )
    ]
    assert only_slow == []


def test_everything_asked_of_the_tools_is_shown_or_left_out_for_a_reason() -> None:
    shown = {name for area in areas().values() for name in area}
    left_out = not_taken()
    assert TOOLS - shown == TOOLS & set(left_out)
    assert not shown & set(left_out)
    assert all(len(reason) > 40 for reason in left_out.values())


def test_everything_asked_of_the_contract_is_shown_or_left_out_for_a_reason() -> None:
    shown = {name for area in areas().values() for name in area}
    assert CONTRACT - shown == CONTRACT & set(not_taken())


def test_what_is_asked_is_in_one_list_once() -> None:
    lists = [name for area in areas().values() for name in area]
    left_out = [name for path in LISTS for name in getattr(load(path), "NOT_TAKEN", {})]
    twice = {name for name, count in Counter([*lists, *left_out]).items() if count > 1}
    assert twice == IN_TWO_AREAS


def test_every_test_file_of_the_tools_shows_something_asked_for() -> None:
    named = {
        test.partition("::")[0]
        for area in areas().values()
        for _, tests in area.values()
        for test in tests
    }
    files = {f"tools/{path.name}" for path in (TESTS / "tools").glob("test_*.py")}
    assert files - named == set()


def test_every_test_of_conformance_shows_something_asked_for() -> None:
    named = {test for area in areas().values() for _, tests in area.values() for test in tests}
    there = {
        f"conformance/{path.name}::{name}"
        for path in (TESTS / "conformance").glob("test_*.py")
        for name in functions_of(f"conformance/{path.name}")
        if name.startswith("test_")
    }
    assert there - named == set()
