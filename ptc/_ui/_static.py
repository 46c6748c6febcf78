"""The files of the page: read once when the server starts, and served from memory.

A request names one of them exactly, so that no path of it reaches the file system.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from typing import Final

from .._dataclass import dataclass

__all__ = ["File", "load_files"]

_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page."""

    body: bytes
    compressed: bytes
    media_type: str
    tag: str
    """Digest, for ``ETag``."""


def load_files() -> dict[str, File]:
    """Read the files of the page, by name."""
    found = {}
    for entry in files(__name__.rpartition(".")[0]).joinpath("static").iterdir():
        suffix = "." + entry.name.rpartition(".")[2]
        if suffix in _TYPES:
            body = entry.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[entry.name] = File(body, gzip.compress(body, 9, mtime=0), _TYPES[suffix], tag)
    return found
