"""Saved programs without an event loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import BlockingSession

from .shop import QUOTE, Shop


@pytest.mark.slow
def test_blocking_session_saves_lists_and_deletes(tmp_path: Path) -> None:
    shop = Shop()
    folder = tmp_path / "elsewhere"
    with BlockingSession(tmp_path, tools=shop.tools(), toolsets=(), programs=folder) as session:
        done = session.program(source=QUOTE, inputs={"items": ["a"]}, allowed_tools=["price"])
        for version in (1, 2):
            saved = session.save_program(done.run_id, name="quote", description=f"v{version}")
            assert saved.folder == folder / "quote" / str(version)
        assert session.tool("quote", {"items": ["ab"]}).unwrap() == [2]
        assert [program.version for program in session.saved_programs()] == [2]
        assert session.delete_program("quote", 2) == [2]
        assert session.select_tools()["quote"].description == "v1"
        assert session.delete_program("quote") == [1]
        assert "quote" not in session.tool_names()
