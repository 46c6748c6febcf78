"""A folder with files, as a server is given."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1  # TODO one\n")
    (folder / "b.py").write_text("y = 2\nz = 3  # TODO two\n")
    (folder / "notes.txt").write_text("TODO three\n")
    return folder
