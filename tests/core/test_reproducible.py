"""Wheel and source archive of the same files have the same bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BUILD = "import hatchling.build as b, sys; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"
EPOCH = "1790000000"


def build(folder: Path, *, mtime: int, umask: int) -> dict[str, str]:
    """Build in a copy with other times and rights, and return the digest of each file."""
    source, target = folder / "source", folder / "dist"
    ignored = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", ".hypothesis", ".ptc")
    shutil.copytree(ROOT, source, ignore=ignored)
    target.mkdir()
    for path in source.rglob("*"):
        os.utime(path, (mtime, mtime))
    before = os.umask(umask)
    try:
        subprocess.run(
            [sys.executable, "-c", BUILD, str(target)],
            cwd=source,
            env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "TZ": "Asia/Tokyo" if umask else "UTC"},
            check=True,
            capture_output=True,
        )
    finally:
        os.umask(before)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in target.iterdir()}


def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install '.[dev]'")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = build(tmp_path / "a", mtime=1_000_000_000, umask=0o022)
    second = build(tmp_path / "b", mtime=1_700_000_000, umask=0o077)
    assert len(first) == 2
    assert first == second
