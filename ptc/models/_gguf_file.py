"""Names of models in GGUF files: ``gguf:PATH``, with options for loading."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from .._dataclass import dataclass
from ..errors import UsageError

__all__ = ["LoadOptions", "parse_source"]

PREFIX: Final = "gguf:"
_MAGIC = b"GGUF"
_RANGES: Final = {
    "n_ctx": (256, 16_777_216),
    "parallel": (1, 64),
    "threads": (1, 1_024),
    "gpu_layers": (0, 1_000_000),
}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """A GGUF file and how it is loaded."""

    path: str
    """Absolute path of the file."""
    n_ctx: int = 4_096
    """Tokens of a prompt and its answer together."""
    parallel: int = 2
    """Requests that are answered at the same time. Others wait."""
    threads: int | None = None
    """Threads that compute. None: one for each core."""
    gpu_layers: int | None = None
    """Layers on the GPU. None: as many as fit, if there is one."""


def parse_source(source: str) -> LoadOptions:
    """Read ``gguf:PATH?n_ctx=N&parallel=N&threads=N``.

    PATH is a file, or the name of an installed package that has one such file.

    Raises:
        UsageError: If there is no such file or option, or the file is not a GGUF file.
    """
    path, _, query = source.removeprefix(PREFIX).partition("?")
    options: dict[str, int] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in _RANGES:
            msg = f"{source!r:.200}: option {name!r:.40} is unknown; options: {', '.join(_RANGES)}"
            raise UsageError(msg)
        least, most = _RANGES[name]
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            msg = f"{source!r:.200}: {name} must be an integer from {least} to {most:,}"
            raise UsageError(msg)
        options[name] = int(text)
    file = _find_file(path)
    _check_file(file)
    return LoadOptions(str(file.resolve()), **options)


def _find_file(path: str) -> Path:
    if path.endswith(".gguf") or "/" in path:
        return Path(path).expanduser()
    try:
        distribution = importlib.metadata.distribution(path)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        msg = (
            f"{PREFIX}{path}: {path!r:.80} is neither a file that ends in .gguf nor an installed "
            "package; write gguf:PATH, as in gguf:models/qwen3-4b.gguf"
        )
        raise UsageError(msg) from None
    found = [file for file in distribution.files or () if file.suffix == ".gguf"]
    if len(found) != 1:
        msg = f"{PREFIX}{path}: package {path} has {len(found)} GGUF files, not one; write the path"
        raise UsageError(msg)
    return Path(str(distribution.locate_file(found[0])))


def _check_file(file: Path) -> None:
    try:
        if file.exists() and not file.is_file():
            # Opening a named pipe would wait for a writer.
            msg = f"{PREFIX}{file}: this is not a file; pass the path of a GGUF file"
            raise UsageError(msg)
        with file.open("rb") as opened:
            start = opened.read(len(_MAGIC))
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        msg = f"{PREFIX}{file}: {reason}; download a model in GGUF form, or correct the path"
        raise UsageError(msg) from None
    if start != _MAGIC:
        lfs = " It is a pointer of Git LFS: run git lfs pull." if start == b"vers" else ""
        msg = (
            f"{PREFIX}{file}: this is not a GGUF file (it starts with {start!r}).{lfs} Models of "
            "other formats have to be converted, for example with llama.cpp's convert_hf_to_gguf.py"
        )
        raise UsageError(msg)
