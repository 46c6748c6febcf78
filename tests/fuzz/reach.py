"""A sealed runtime, scripts that run on it, and the walk from the objects in their frames.

The walk follows each attribute that CPython itself reads without a guard, and the results of some
methods without arguments: everything that a script would reach if no name were ever rejected.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import importlib.abc
import io
import json
import mmap
import socket
import sys
import threading
import types
from collections.abc import Collection, Iterator
from typing import Any, TypeAlias

from ptc._wire._protocol import Kind, encode
from ptc.worker import _context, _freeze, _internals, _rehearsal, _runtime, _seal, _wire
from ptc.worker._modules import _text
from ptc.worker._runtime import Runtime

real = vars(__import__("builtins"))
MEMORY_FILES = (io.StringIO, io.BytesIO)
FORBIDDEN_TYPES = (
    types.FrameType, types.CodeType, types.CellType, types.ModuleType, io.IOBase, socket.socket,
    mmap.mmap, importlib.abc.Loader, importlib.abc.MetaPathFinder, ctypes._SimpleCData,
    ctypes.Structure, ctypes.CDLL, type(ctypes.pythonapi.Py_IncRef), threading.Thread,
    _wire.Wire, Runtime,
    _runtime._Run, _runtime._Kit, _context.Calls,
)  # fmt: skip
# Classes and functions of these modules are powerful, under any name.
POWER_MODULES = {
    "_ctypes", "_frozen_importlib", "_frozen_importlib_external", "_imp", "_io", "_posixsubprocess",
    "_socket", "_thread", "ctypes", "gc", "importlib", "importlib._bootstrap", "inspect",
    "importlib._bootstrap_external", "importlib.abc", "io", "marshal", "mmap", "multiprocessing",
    "os", "posix", "ptc.worker._internals", "select", "shutil", "signal", "socket", "subprocess",
    "sys", "tempfile", "threading", "zipimport",
}  # fmt: skip
ALLOWED = {
    "_io.StringIO", "_io.BytesIO", "_io._TextIOBase", "_io._BufferedIOBase", "_io._IOBase",
    "_io.IncrementalNewlineDecoder", "io.UnsupportedOperation", "os.PathLike", "os.fspath",
    "posix.fspath",
    # Functions on numbers and text that the facade of `sys` exposes.
    "sys.float_info", "sys.hash_info", "sys.int_info", "sys.version_info",
    "posix._path_normpath", "posix._path_splitroot_ex",
    # Functions of the worker that answer with copies, or with classes that scripts know.
    "ptc.worker._internals._patch_library.<locals>.subclasses",
    "ptc.worker._internals._snapshot", "_thread.RLock",
    "sys.getdefaultencoding", "sys.getrecursionlimit", "sys.getsizeof", "sys.intern",
    "sys.get_int_max_str_digits", "sys.set_int_max_str_digits",
    "os._fscodec.<locals>.fsdecode", "os._fscodec.<locals>.fsencode", "os.PathLike.__fspath__",
    # Plain predicates that the facade of `inspect` exposes, and their implementations.
    *(f"inspect.{name}" for name in [
        "isabstract", "isasyncgen", "isasyncgenfunction", "isawaitable", "isbuiltin", "isclass",
        "iscoroutine", "iscoroutinefunction", "isfunction", "isgenerator", "isgeneratorfunction",
        "ismethod", "isroutine",
    ]),
}  # fmt: skip


@functools.cache
def own_classes() -> frozenset[int]:
    """Return the ids of the classes of the worker that bear a name of a powerful module.

    A class that the module itself has under this name is the library's.
    """
    return frozenset(
        id(kind)
        for module in [*sys.modules.values()]
        if module.__name__.startswith("ptc.worker.")
        for kind in vars(module).values()
        if isinstance(kind, type)
        and kind.__module__ in POWER_MODULES
        and getattr(sys.modules.get(kind.__module__), kind.__name__, None) is not kind
    )


POWER_BUILTINS = {
    id(real[name]): name
    for name in ("open", "eval", "exec", "compile", "__import__", "breakpoint", "input", "help")
    if name in real
}
NAMESPACES: dict[int, str] = {}
# Called without arguments on every object that has them.
CALLED = ("__reduce__", "get_loop", "get_coro", "get_context", "get_stack", "copy", "items", "mro")
DATA = (types.GetSetDescriptorType, types.MemberDescriptorType, property)
_WHOLE = (type, types.FunctionType)
BOUND = {types.MethodType, types.BuiltinMethodType, types.MethodWrapperType}
LEAVES = (str, int, float, bytes, bytearray, complex, bool, type(None), range, slice)


class Walk:
    """A breadth-first walk over attributes."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.alike: collections.Counter[Any] = collections.Counter()
        self.visited: collections.Counter[type] = collections.Counter()
        self.reached: list[tuple[str, str]] = []
        self.todo: collections.deque[tuple[Any, str]] = collections.deque()

    def add(self, obj: Any, path: str) -> None:
        """Queue `obj` if it is new."""
        kind = type(obj)
        if kind in LEAVES or id(obj) in self.seen:
            return
        why = forbidden(obj)
        # Each read creates a new bound method, endlessly: visit a few of each name.
        alike = (kind, getattr(obj, "__qualname__", "")) if kind in BOUND else kind
        self.alike[alike] += 1
        most = 3 if kind in BOUND else 1_000
        if not why and self.alike[alike] > most and not issubclass(kind, _WHOLE):
            return
        self.seen[id(obj)] = obj  # referenced, so that its id is not reused
        if why:
            self.reached.append((path, why))
        else:
            self.todo.append((obj, path))

    def run(self, limit: int) -> None:
        """Visit every queued object."""
        while self.todo and len(self.seen) < limit:
            obj, path = self.todo.popleft()
            # Methods of a type are the same for each instance; its data are not.
            kind = type(obj)
            self.visited[kind] += 1
            many = self.visited[kind] > 20 and not issubclass(kind, _WHOLE)
            for step, value in steps(obj, data_only=many):
                self.add(value, f"{path}{step}" if len(path) < 300 else path)


def steps(obj: Any, *, data_only: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the results of one read on `obj`."""
    yield from _items(obj)
    yield from _class_attributes(obj, data_only=data_only)
    names = list(getattr(obj, "__dict__", None) or {})
    for name in names if data_only else [*names, *dir_of(obj)]:
        try:
            yield f".{name}", getattr(obj, name)
        except BaseException:  # noqa: BLE001, S112  # descriptors raise errors of any kind
            continue


def _items(obj: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items of a container, read by its base class."""
    kind = type(obj)
    if issubclass(kind, dict):
        for key, value in list(dict.items(obj)):
            yield ".key", key
            yield "[key]", value
    for container in (list, tuple, set, frozenset, collections.deque):
        if issubclass(kind, container):
            for index, item in enumerate(list(container.__iter__(obj))):
                yield f"[{index}]", item


def _class_attributes(obj: Any, *, data_only: bool) -> Iterator[tuple[str, Any]]:
    """Yield attributes named by the classes of `obj`, and the results of calling some."""
    kind = type(obj)
    classes = list(kind.__mro__)
    if issubclass(kind, type):
        classes += list(obj.__mro__)
    names = {
        name: None
        for each in classes
        for name, value in _freeze.class_namespace(each).items()
        if not data_only or isinstance(value, DATA)
    }
    for name in names:
        try:
            value = getattr(obj, name)
        except BaseException as error:  # noqa: BLE001  # descriptors raise errors of any kind
            yield f".{name}!", error
            continue
        yield f".{name}", value
        if name in CALLED and not isinstance(obj, type) and callable(value):
            try:
                yield f".{name}()", value()
            except BaseException as error:  # noqa: BLE001  # as above
                yield f".{name}()!", error


def dir_of(obj: Any) -> list[str]:
    """Return the names that `dir` reports for `obj`."""
    try:
        return [name for name in dir(obj) if type(name) is str]
    except BaseException:  # noqa: BLE001  # a `__dir__` that fails
        return []


def forbidden(obj: Any) -> str:
    """Return the reason why a script must not reach `obj`, or ``""``."""
    kind = type(obj)
    if issubclass(kind, FORBIDDEN_TYPES) and not issubclass(kind, MEMORY_FILES):
        return f"{kind.__name__}: {obj!r:.100}"
    if id(obj) in NAMESPACES:
        return f"namespace of {NAMESPACES[id(obj)]}"
    if id(obj) in POWER_BUILTINS:
        return f"builtin {POWER_BUILTINS[id(obj)]}"
    if issubclass(kind, type | types.FunctionType | types.BuiltinFunctionType):
        module = getattr(obj, "__module__", None)
        name = f"{module}.{getattr(obj, '__qualname__', '')}"
        if module in POWER_MODULES and name not in ALLOWED and id(obj) not in own_classes():
            return f"{kind.__name__} {name}"
    return ""


# --- functions that call powerful functions ----------------------------------------------------

_POWER_MODULES = ("posix", "_io", "_socket", "_imp", "_posixsubprocess", "_ctypes", "_signal",
                  "select", "mmap", "marshal", "gc", "_locale", "fcntl", "resource")  # fmt: skip
_PURE = {"fspath", "_path_normpath", "_path_splitroot", "_path_splitroot_ex"}


def deputies(walk: Walk) -> dict[str, str]:
    """Return reachable functions outside the script that may call powerful functions, by name.

    A function counts if its code, or that of a function it names, names a powerful function: as a
    global, a builtin, or an attribute of a module that it also names.
    """
    power = {
        id(value): f"{module}.{name}"
        for module in _POWER_MODULES
        for name, value in vars(sys.modules.get(module, types)).items()
        if isinstance(value, types.BuiltinFunctionType) and name not in _PURE
    }
    power |= {key: f"builtins.{name}" for key, name in POWER_BUILTINS.items() if name != "compile"}
    found: dict[int, str] = {}

    def leads_to(function: types.FunctionType) -> str:
        if id(function) not in found:
            found[id(function)] = ""
            found[id(function)] = next(
                (why for value in _named_objects(function) if (why := _why(value))), ""
            )
        return found[id(function)]

    def _why(value: Any) -> str:
        if isinstance(value, types.FunctionType):
            return leads_to(value)
        return power.get(id(value), "")

    functions = [
        each
        for each in walk.seen.values()
        if isinstance(each, types.FunctionType) and "@getattr" not in _internals.globals_of(each)
    ]
    return {f"{f.__module__}.{f.__qualname__}": why for f in functions if (why := leads_to(f))}


def _named_objects(function: types.FunctionType) -> Iterator[Any]:
    """Yield the objects that the code of a function names."""
    namespace = _internals.globals_of(function)
    for code in _codes(_internals.code_of(function)):
        modules = []
        for name in code.co_names:
            value = namespace.get(name, real.get(name))
            yield value
            if isinstance(value, types.ModuleType):
                modules.append(value)
        for module in modules:
            yield from (vars(module).get(name) for name in code.co_names)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


# --- objects that scripts hold -----------------------------------------------------------------


class Host:
    """Sends START and the program, then answers each call with rows."""

    def __init__(self, source: str) -> None:
        limits = json.loads(_rehearsal.WARM_START)["limits"]
        tools = {"t": ["x"], "ns.tool": ["x"]}
        start = {"inputs": {"a": [1, {"b": 2}]}, "tools": tools, "limits": limits, "epoch": 1e9}
        frames = [encode(Kind.START, json.dumps({**start, "seed": 1}).encode())]
        frames.append(encode(Kind.SOURCE, source.encode()))
        self._frames = frames[::-1]
        self.ended = "no last frame"
        self._answer = 0

    def recv(self, _size: int, _flags: int = 0, /) -> bytes:
        """Return the next frame."""
        if self._frames:
            return self._frames.pop()
        self._answer += 1
        if self._answer > 200:
            return b""
        number, time = self._answer // 2 + 1, float(self._answer)
        ok = number % 3 != 0
        value: Any = [{"a": 1, "path": "p"}]
        if not ok:
            value = {
                "message": "no", "code": "failed", "tool": "t", "retryable": False, "details": {}
            }  # fmt: skip
        if self._answer % 2:
            return encode(Kind.RESULT, json.dumps([number, time, ok, True, value]).encode())
        return encode(Kind.TICK, json.dumps([time]).encode())

    def sendall(self, data: bytes, /) -> None:
        """Record how the script finished."""
        while data:
            end = 4 + int.from_bytes(data[:4])
            if data[4] in (Kind.DONE, Kind.FAILED, Kind.REJECTED):
                self.ended = f"{Kind(data[4]).name} {data[5:end][:300].decode(errors='replace')}"
            data = data[end:]


_OF_A_CLASS = ("__classcell__", "__classdict__", "__classdictcell__")
"""Variables of a class statement that no source can name."""


class Done(BaseException):
    """Mark the run as finished."""


def hold(runtime: Runtime, source: str, name: str, walk: Walk) -> str:
    """Run a script, add all objects in its frames, and return its outcome in one word."""

    def note(frame: types.FrameType, event: str, _arg: object) -> None:
        code = _internals.frame_code(frame)
        if code.co_filename == _runtime._FILENAME and event in ("return", "call"):
            for variable, value in dict(_internals.frame_locals(frame)).items():
                if variable not in _OF_A_CLASS:
                    walk.add(value, f"{name}:{code.co_name}:{variable}")
        elif event == "c_call" and code.co_filename == _runtime._FILENAME:
            walk.add(_arg, f"{name}:{code.co_name}:called")

    host = Host(source)
    wire = _wire.Wire(host)
    kit = runtime._make_kit()
    runtime._kits = [kit]
    sys.setprofile(note)
    try:
        runtime.serve(wire)
    except Done:
        host.ended = "out of answers"
    finally:
        sys.setprofile(None)
    walk.add(kit.namespace, f"{name}:globals")
    return host.ended if "-v" in sys.argv else host.ended.partition(" ")[0]


Namespaces: TypeAlias = dict[type, dict[str, Any]]


def namespaces() -> Namespaces:
    """Return the contents of each class of the sealed process."""
    return {
        kind: dict(_freeze.class_namespace(kind))
        for kind in _freeze.all_types()
        if kind.__flags__ & _freeze.IMMUTABLE
    }


def changed(before: Namespaces) -> list[str]:
    """Return the names of classes with changed contents."""
    found = []
    for kind, namespace in before.items():
        now = _freeze.class_namespace(kind)
        names = (now.keys() ^ namespace.keys()) - {"__annotations__"}  # created on first access
        names |= {name for name, value in namespace.items() if now.get(name) is not value}
        found += [f"{kind.__module__}.{kind.__qualname__}.{name}" for name in sorted(names)]
    return found


def prepare(keep: Collection[str] = ()) -> Runtime:
    """Set this process up like a zygote.

    Args:
        keep: Weakness to leave in, as a check that the walk finds it: ``internals`` or ``paths``.
    """
    if "internals" in keep:
        _seal.__dict__["remove_internals"] = lambda offered: None
    if "paths" in keep:
        _text.__dict__["confine_paths"] = lambda: None
    runtime = Runtime()
    runtime.prepare()
    _seal.seal()
    runtime.prepare()
    _wire.__dict__["os"] = types.SimpleNamespace(_exit=_done)
    NAMESPACES.update(
        {id(vars(module)): name for name, module in list(sys.modules.items())
         if isinstance(module, types.ModuleType)}
    )  # fmt: skip
    return runtime


def _done(_code: int) -> None:
    raise Done
