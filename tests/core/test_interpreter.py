"""A session exists only on a Python on which the sandbox was reviewed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ptc import Session, SetupError


def test_free_threaded_build_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = "3.14.0 free-threading build (main, Oct  7 2025) [GCC 14.2.0]"
    monkeypatch.setattr(sys, "version", version)
    with pytest.raises(SetupError, match=r"free-threaded build of CPython 3\.14\.0"):
        Session(tmp_path)


def test_other_implementation_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))
    with pytest.raises(SetupError, match="this is pypy"):
        Session(tmp_path)
