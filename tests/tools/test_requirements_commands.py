"""Every test that the list of requirements names is there."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

_TESTS = Path(__file__).parents[1]


def _commands() -> dict[str, tuple[str, tuple[str, ...]]]:
    spec = importlib.util.spec_from_file_location("listed", _TESTS / "requirements_commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    listed: dict[str, tuple[str, tuple[str, ...]]] = module.COMMANDS
    return listed


def test_every_requirement_of_commands_is_shown_by_a_test() -> None:
    missing = []
    for name, (claim, tests) in _commands().items():
        assert claim
        assert tests, name
        for test in tests:
            file, _, function = test.partition("::")
            tree = ast.parse((_TESTS / file).read_text())
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            found = {node.name for node in tree.body if isinstance(node, kinds)}
            if function not in found:
                missing.append(f"{name}: {test}")
    assert missing == []
