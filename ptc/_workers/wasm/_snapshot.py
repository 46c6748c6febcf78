"""Snapshots: the memory of a guest that has imported the worker, copied into each new guest.

The interpreter comes with its own start in its image. Preparing the worker changes some megabytes
of that; those pages are kept, and written over the memory of a new guest. The exports have returned
by then, so all that the interpreter knows is in its memory.

While a snapshot is made, only code of this project and of the chosen packages runs, with the zip of
its library to read. Later guests have no files at all.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import shutil
import struct
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

from ..._dataclass import dataclass
from ...errors import SetupError
from ._cache import cache_folder, clean_cache, is_used
from ._module import (
    Interpreter,
    ensure_library,
    guest_folders,
    load_interpreter,
    write_privately,
)
from ._place import Layout, find_layout
from ._sources import digest_of_sources, worker_sources

__all__ = [
    "PAGE",
    "WASM_PAGE",
    "Image",
    "Snapshot",
    "SnapshotBuilder",
    "call_turn",
    "in_big_stack",
    "load_snapshot",
    "read_snapshot",
    "write_snapshot",
]

PAGE: Final = 4_096
WASM_PAGE: Final = 65_536
_FORMAT: Final = "2"
_HOST_FAULT: Final = -2
_THREAD_STACK: Final = 32 << 20
_ADDRESS: Final = struct.Struct("<I")
_RANGE: Final = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Memory to write into a new guest."""

    interpreter: Interpreter
    size: int
    """Size of the memory."""
    runs: tuple[tuple[int, int, int], ...]
    """Address in the guest, address here, and number of bytes."""
    policy: str
    """Version of the language policy in it."""
    layout: Layout | None
    """Places of the interpreter's frames; None if they are not known."""
    buffer: Any
    """Holds the memory that `runs` refer to."""


@dataclass(frozen=True, slots=True)
class Image:
    """Memory of a prepared guest: what differs from that of the interpreter at its start."""

    size: int
    """Size of the memory."""
    runs: list[tuple[int, bytes]]
    """Changed ranges: address and content."""
    policy: str
    layout: Layout | None


def in_big_stack(name: str, function: Callable[[], None]) -> threading.Thread:
    """Start a daemon thread whose stack has room for that of a guest."""
    with _stack_lock:
        before = threading.stack_size(_THREAD_STACK)
        try:
            thread = threading.Thread(target=function, name=name, daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    return thread


_stack_lock: Final = threading.Lock()
_build_lock: Final = threading.Lock()
_snapshots: Final[dict[tuple[str, ...], Snapshot]] = {}


def load_snapshot(
    packages: Sequence[str] = (), on_compile: Callable[[], None] | None = None
) -> Snapshot:
    """Return the snapshot for these packages: of this process, of the cache, or a new one.

    Args:
        packages: Packages that scripts may import.
        on_compile: Called before the interpreter is compiled.

    Raises:
        SetupError: If the interpreter is missing, or a package cannot be imported.
    """
    key = tuple(packages)
    with _build_lock:
        if key not in _snapshots:
            interpreter = load_interpreter(on_compile)
            file = _file_of(interpreter, key)
            found = read_snapshot(interpreter, file) if is_used(file) else None
            if found is None:
                # Another process may have removed it since the interpreter was loaded.
                ensure_library()
                write_snapshot(file, SnapshotBuilder(interpreter, key).run())
                found = read_snapshot(interpreter, file)
                clean_cache(cache_folder())
            if found is None:
                raise SetupError(f"{file} cannot be read back")
            _snapshots[key] = found
        return _snapshots[key]


def _file_of(interpreter: Interpreter, packages: tuple[str, ...]) -> Path:
    parts = (_FORMAT, interpreter.name, interpreter.digest, digest_of_sources(), *packages)
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return cache_folder() / f"{digest[:32]}.snapshot"


def write_snapshot(file: Path, made: Image) -> None:
    """Write a snapshot to a file of the cache."""
    runs = made.runs
    head = {
        "size": made.size,
        "policy": made.policy,
        "layout": None if made.layout is None else astuple(made.layout),
        "runs": [(address, len(content)) for address, content in runs],
    }
    header = json.dumps(head).encode().ljust(-len(head) % PAGE + len(head))
    write_privately(
        file,
        b"".join([_ADDRESS.pack(len(header)), b"\0" * (PAGE - 4), header, *(b for _, b in runs)]),
    )


def read_snapshot(interpreter: Interpreter, file: Path) -> Snapshot | None:
    """Map a snapshot into memory; None: there is none, or it is damaged."""
    try:
        with file.open("rb") as source:
            # A private copy, of which nothing is written: processes share the pages.
            buffer = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_COPY)
        (length,) = _ADDRESS.unpack_from(buffer)
        head = json.loads(buffer[PAGE : PAGE + length])
        at, runs = PAGE + length, []
        for address, size in head["runs"]:
            place = ctypes.addressof(ctypes.c_char.from_buffer(buffer, at))
            runs.append((address, place, size))
            at += size
        if at != len(buffer):
            return None
        layout = None if head["layout"] is None else Layout(*head["layout"])
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return None
    return Snapshot(interpreter, head["size"], tuple(runs), head["policy"], layout, buffer)


def call_turn(exports: Any, store: Any, code: str) -> int:
    """Execute Python code in a guest; return its exit status."""
    data = code.encode()
    address = exports["host_alloc"](store, len(data)) & 0xFFFF_FFFF
    exports["memory"].write(store, data, address)
    status: int = exports["turn"](store, address, len(data))
    return status


_BOOT: Final = """
def _boot(packages):
    import _host, sys
    from importlib.machinery import ModuleSpec

    class Sources:
        found = {}

        def find_spec(self, name, path=None, target=None):
            got = _host.call(b"i" + name.encode())
            if not got:
                return None
            self.found[name] = got[1:]
            return ModuleSpec(name, self, is_package=got[:1] == b"p")

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            name = module.__name__
            code = compile(self.found.pop(name), f"<{name}>", "exec", dont_inherit=True)
            exec(code, module.__dict__)

    try:
        sys.meta_path.insert(0, Sources())
        for name in ("ctypes", "mmap"):
            sys.modules.pop(name, None)
        sys.modules["ssl"] = None
        from ptc.worker.guest._start import POLICY_VERSION, prepare, serve
        del sys.modules["ssl"]
        prepare(packages)
        _host.call(b"p" + POLICY_VERSION.encode())
    except BaseException as error:
        import traceback
        text = "".join(traceback.format_exception(error))
        known = type(error).__name__ == "PackageError"
        _host.call((b"k" + str(error).encode()) if known else (b"e" + text.encode()))
    return serve

_ptc_serve = _boot(PACKAGES)
del _boot
"""


class SnapshotBuilder:
    """The guest in which a snapshot is prepared, and the requests that it makes of the host."""

    def __init__(
        self, interpreter: Interpreter, packages: Sequence[str], boot: str = _BOOT
    ) -> None:
        self._interpreter = interpreter
        self._boot = boot.replace("PACKAGES", repr(list(packages)))
        self._error: Exception | None = None
        self._policy = ""
        self._made: Image | None = None

    def run(self) -> Image:
        """Prepare the guest, and return its memory."""
        in_big_stack("ptc-wasm-snapshot", self._try).join()
        if self._error is not None:
            raise self._error
        assert self._made is not None  # noqa: S101  # `_try` has returned
        return self._made

    def _try(self) -> None:
        try:
            self._build()
        except Exception as error:  # noqa: BLE001  # raised again in the thread that waits
            self._error = error

    def _build(self) -> None:
        import wasmtime

        engine = self._interpreter.engine
        linker = wasmtime.Linker(engine)
        linker.define_wasi()
        word = wasmtime.ValType.i32()
        kind = wasmtime.FuncType([word] * 4, [word])
        linker.define_func("host", "call", kind, self._serve, access_caller=True)
        store = wasmtime.Store(engine)
        scratch = tempfile.mkdtemp(prefix="ptc-wasm-")
        try:
            store.set_epoch_deadline(2**62)
            wasi = wasmtime.WasiConfig()
            wasi.argv, wasi.env = ["python"], []
            for inside, folder in guest_folders(self._interpreter.library).items():
                wasi.preopen_dir(str(folder), inside, False)
            wasi.preopen_dir(scratch, "/tmp", True)  # noqa: S108  # a path of the guest
            store.set_wasi(wasi)
            exports = linker.instantiate(store, self._interpreter.module).exports(store)
            memory: Any = exports["memory"]
            before = bytes(memory.read(store, 0, memory.data_len(store)))
            call_turn(exports, store, self._boot)
            if self._error is not None:
                return
            after = bytes(memory.read(store, 0, memory.data_len(store)))
            changes = _changes(before, after)
            self._made = Image(len(after), changes, self._policy, find_layout(after))
        finally:
            store.close()
            shutil.rmtree(scratch, ignore_errors=True)

    def _serve(self, caller: Any, start: int, size: int, place: int, length: int) -> int:
        """Answer a request of the guest: a module, or words of its memory."""
        try:
            memory = caller["memory"]
            answer = self._answer(caller, bytes(memory.read(caller, start, start + size)))
            address = caller["host_alloc"](caller, max(1, len(answer))) & 0xFFFF_FFFF
            memory.write(caller, answer, address)
            memory.write(caller, _ADDRESS.pack(address), place)
            memory.write(caller, _ADDRESS.pack(len(answer)), length)
        except Exception as error:  # noqa: BLE001  # must not cross the runtime's frames
            self._error = error
            return _HOST_FAULT
        return 0

    def _answer(self, caller: Any, request: bytes) -> bytes:
        kind, body = request[:1], request[1:]
        if kind == b"i":
            return _module(body.decode())
        if kind == b"r":
            start, size = _RANGE.unpack(body)
            return bytes(caller["memory"].read(caller, start, start + size))
        if kind == b"w":
            caller["memory"].write(caller, body[4:], _ADDRESS.unpack(body[:4])[0])
        elif kind == b"p":
            self._policy = body.decode()
        elif kind == b"k":
            self._error = SetupError(body.decode())
        else:
            self._error = SetupError(f"the guest cannot be prepared:\n{body.decode()}")
        return b""


def _module(name: str) -> bytes:
    sources = worker_sources()
    if f"{name}." in sources:
        return b"p" + sources[f"{name}."]
    return b"m" + sources[name] if name in sources else b""


def _changes(before: bytes, after: bytes) -> list[tuple[int, bytes]]:
    """Return the ranges of pages that differ, with their new content."""
    nothing = bytes(PAGE)
    ranges: list[list[int]] = []
    for start in range(0, len(after), PAGE):
        old = before[start : start + PAGE] or nothing
        if after[start : start + PAGE] != old:
            if ranges and ranges[-1][1] == start:
                ranges[-1][1] += PAGE
            else:
                ranges.append([start, start + PAGE])
    return [(start, after[start:end]) for start, end in ranges]
