"""Files of the engine `wasm`: what a guest imports, and where compiled code is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ptc import SetupError
from ptc._workers.wasm._cache import cache_folder
from ptc._workers.wasm._sources import worker_sources


def test_guest_imports_the_worker_and_nothing_else() -> None:
    names = {name.rstrip(".") for name in worker_sources()}
    own = {name for name in names if name.split(".")[0] == "ptc"}
    assert names - own == {"ctypes", "greenlet", "mmap", "orjson"} | {
        name for name in names if name.split(".")[0] == "RestrictedPython"
    }
    host = ("ptc._calls", "ptc._runs", "ptc._session", "ptc._tools", "ptc._workers", "ptc.journal")
    assert not [name for name in own if name.startswith(host)]
    assert "ptc.worker.guest._start" in own


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_cache_that_others_can_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder()
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o770)
    with pytest.raises(SetupError, match="mode 0700"):
        cache_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(SetupError, match="must be a folder of yours"):
        cache_folder()
