"""The engine `wasm`: its tests need its packages, and the interpreter compiled (`ptc warm-up`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc._workers._choose import wasm_is_installed

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder as slow, and skip them without the engine."""
    missing = pytest.mark.skip(reason="pip install -e '.[wasm]'")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("slow")
            if not wasm_is_installed():
                item.add_marker(missing)
