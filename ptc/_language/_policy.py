"""What a script may say: name tables and the rules that read them.

This module owns the *data* of the language policy; `ptc._language._transformer` applies it to a
syntax tree and `ptc.worker._guards` at run time. It knows neither.

A name in a script is one of four kinds, decided by spelling alone (`kind_of`):

* ordinary: an attribute load is a plain attribute load, at the speed of CPython, because no
  object that carries power answers to the name;
* power: some interpreter object answers to it with power (``gi_frame``, ``mro``, ``format``);
  the load goes through a guard that decides by the receiver;
* private (``_x``): renamed, so that it works on the script's own objects and by construction
  never reaches an attribute of a library object;
* dunder: refused but for the tables below, each entry with its reason.

Rule 1: the set of power names is computed from the running interpreter, so a name that a new
    Python adds to a frame is guarded on the day it appears
    (test_every_attribute_of_a_power_bearing_type_is_guarded_or_has_a_reason).
Rule 2: a renamed private name cannot be spelled in a script
    (test_the_prefix_of_renamed_names_cannot_be_spelled).
"""

from __future__ import annotations

import asyncio
import builtins
import functools
import hashlib
import re
import sys
import types
import typing
from typing import Final, Literal

from .._policy_modules import MISSING_HINTS, MODULE_HINTS, MODULES

__all__ = [
    "BUILTIN_HINTS",
    "DEFINABLE",
    "MISSING_HINTS",
    "MODULES",
    "MODULE_HINTS",
    "OFFERED",
    "POLICY_VERSION",
    "PRIVATE_PREFIX",
    "TRUSTED_PACKAGES",
    "demangle",
    "kind_of",
    "power_names",
    "rename",
]

#: Modules of the packages that the session offers beside `MODULES`, and the names of the packages:
#: filled by `ptc.worker._packages` in the zygote, before a script exists. Nothing in them was read
#: for what it leads to, so their classes are not guarded by name.
OFFERED: Final[set[str]] = set()
TRUSTED_PACKAGES: Final[set[str]] = set()

Kind = Literal["ordinary", "power", "private", "dunder"]

# Plain ASCII on purpose: dataclasses and namedtuple compile text that contains field names.
PRIVATE_PREFIX: Final = "ptc_private_"

_MANGLED = re.compile(rf"{PRIVATE_PREFIX}(?=\w)")

# Documented single-underscore names of the standard library: part of its public interface, and
# data or script-made objects stand behind each of them. They are not renamed.
PUBLIC_UNDERSCORE: Final = frozenset(
    {
        "_",  # the throw-away name; no library object has such an attribute
        "_asdict", "_replace", "_fields", "_make", "_field_defaults",  # namedtuple: data
        "_missing_", "_generate_next_value_", "_ignore_", "_order_",  # Enum: hooks over data
        "_value_", "_name_",  # Enum: the data of a member
    }
)  # fmt: skip

# ---------------------------------------------------------------------------------------------
# Power names

# Not an attribute of a power-bearing type, or only on some versions, yet power by themselves.
VETTED_POWER: Final = {
    "format": "a format string walks attributes: CVE-2023-41039",
    "format_map": "a format string walks attributes: CVE-2023-41039",
    "mro": "reaches `object`, and from there every class",
    "obj": "AttributeError.obj and memoryview.obj hand out live objects: CVE-2024-47532",
    "cell_contents": "reads the closure of any function",
    "with_traceback": "exceptions carry frames in their tracebacks",
    "get_loop": "the event loop is the worker's own",
    "get_coro": "a coroutine carries its frame",
    "get_stack": "frames of a task",
    "print_stack": "frames of a task",
    "get_context": "context variables belong to the worker",
    "evaluate": "typing.ForwardRef.evaluate runs text as Python (3.14)",
    "evaluate_value": "lazily evaluated type alias (3.14)",
    "evaluate_bound": "lazily evaluated type parameter (3.14)",
    "evaluate_constraints": "lazily evaluated type parameter (3.14)",
    "evaluate_default": "lazily evaluated type parameter (3.14)",
    "f_generator": "frame of a generator (3.14)",
    "buffer_info": "array.array: an address",
    "getbuffer": "memoryview over a buffer that can be resized under it",
    "parser": "pathlib (3.13): the module posixpath, and through it os",
    "get_field": "string.Formatter: attribute walk that returns objects",
    "vformat": "string.Formatter: attribute walk",
    "fget": "function behind a property", "fset": "function behind a property",
    "fdel": "function behind a property",
    "func": "functools.partial, cached_property: a function that may not be the script's",
    "gen": "contextlib: the generator behind a context manager",
}  # fmt: skip

_EXCEPTION_DATA = "plain data of an exception; exceptions that cross into a script are rebuilt"
_GENERATOR = "drives a generator that the script itself made"
_FUTURE = "the task's state; the loop, coroutine and frames behind it stay guarded"
_BUFFER = "size and content of a buffer"
_CONTEXT = "contextvars is not offered and Task.get_context is guarded: no receiver is reachable"

# Names on a power-bearing type that give no power there: they compile to plain loads.
HARMLESS: Final = {
    **dict.fromkeys(
        [
            "add_note",
            "args",
            "characters_written",
            "code",
            "encoding",
            "end",
            "end_lineno",
            "end_offset",
            "errno",
            "exceptions",
            "filename",
            "filename2",
            "lineno",
            "message",
            "msg",
            "name",
            "name_from",
            "object",
            "offset",
            "path",
            "print_file_and_line",
            "reason",
            "start",
            "strerror",
            "text",
            "value",
        ],
        _EXCEPTION_DATA,
    ),
    **dict.fromkeys(["send", "throw", "close", "aclose", "asend", "athrow"], _GENERATOR),
    **dict.fromkeys(
        [
            "add_done_callback",
            "remove_done_callback",
            "cancel",
            "cancelled",
            "cancelling",
            "uncancel",
            "done",
            "exception",
            "result",
            "get_name",
            "set_name",
            "set_exception",
            "set_result",
        ],
        _FUTURE,
    ),
    **dict.fromkeys(
        [
            "c_contiguous",
            "f_contiguous",
            "contiguous",
            "cast",
            "hex",
            "itemsize",
            "nbytes",
            "ndim",
            "readonly",
            "release",
            "shape",
            "strides",
            "suboffsets",
            "tobytes",
            "tolist",
            "toreadonly",
            "count",
            "index",
        ],
        _BUFFER,
    ),
    **dict.fromkeys(
        ["copy", "get", "items", "keys", "values", "run", "reset", "set", "var", "old_value"],
        _CONTEXT,
    ),
    **dict.fromkeys(["cache_clear", "cache_info", "cache_parameters"], "counters of lru_cache"),
    **dict.fromkeys(
        ["getter", "setter", "deleter"], "decorators that build a new property from a function"
    ),
    "keywords": "arguments of a partial that the script made: no facade hands one out",
    "clear": "frame.clear: no frame is reachable; dict, list and set need the name",
    "replace": "code.replace: no code object is reachable; str and datetime need the name",
    "split": "ExceptionGroup.split is harmless while no script can subclass it; str needs it",
    "when": "asyncio.Timeout.when is a number; a Handle is not reachable",
    "time": "loop.time: the loop is not reachable; datetime and the time module need the name",
    "create_task": "TaskGroup.create_task and asyncio.create_task; the loop is not reachable",
    "stop": "loop.stop: the loop is not reachable; range and slice need the name",
    "parent": "ModuleSpec.parent: no spec is reachable; PurePath and ChainMap need the name",
    "has_default": "TypeVar.has_default tells a bool",
}


def _power_bearing_types() -> list[type]:
    async def agen() -> typing.AsyncIterator[None]:
        yield None

    async def coro() -> None: ...

    source, waiting = agen(), coro()
    steps = [source.asend(None), source.athrow(ValueError), waiting.__await__()]  # type: ignore[attr-defined]  # an AsyncIterator is an async generator here
    found: list[type] = [type(step) for step in steps]
    waiting.close()
    for step in steps[:2]:
        step.close()
    found += [
        value
        for value in vars(types).values()
        if isinstance(value, type) and value.__module__ in {"builtins", "types"}
    ]
    found = [
        kind
        for kind in found
        if kind not in {types.SimpleNamespace, types.NoneType, types.DynamicClassAttribute}
    ]
    found += [type, property, super, classmethod, staticmethod, memoryview]
    found += [functools.partial, type(functools.cache(len)), typing.ForwardRef, typing.TypeVar]
    found += [asyncio.Future, asyncio.Task, asyncio.Handle, asyncio.TimerHandle]
    found += [asyncio.AbstractEventLoop, asyncio.SelectorEventLoop]
    found += [type(types.__spec__), type(types.__loader__)]
    import contextvars

    found += [contextvars.Context, contextvars.ContextVar, contextvars.Token]
    found += [
        value
        for value in vars(builtins).values()
        if isinstance(value, type) and issubclass(value, BaseException)
    ]
    return found


@functools.cache
def power_names() -> frozenset[str]:
    """Attribute names that some object of the running interpreter answers with power."""
    public = {
        name for kind in _power_bearing_types() for name in dir(kind) if not name.startswith("_")
    }
    return frozenset((public - HARMLESS.keys()) | VETTED_POWER.keys())


# ---------------------------------------------------------------------------------------------
# Double-underscore names

_OPERATORS = [
    "add",
    "sub",
    "mul",
    "matmul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "xor",
    "or",
]

# Methods whose call does what an operator or a builtin of the same meaning does, so calling them
# by name gives no receiver away that the operator would not.
OPERATOR_METHODS: Final = frozenset(
    [f"__{name}__" for name in _OPERATORS]
    + [f"__r{name}__" for name in _OPERATORS]
    + [f"__i{name}__" for name in _OPERATORS if name != "divmod"]
    + [
        f"__{name}__"
        for name in [
            "lt",
            "le",
            "eq",
            "ne",
            "gt",
            "ge",
            "hash",
            "bool",
            "len",
            "length_hint",
            "getitem",
            "setitem",
            "delitem",
            "contains",
            "missing",
            "reversed",
            "iter",
            "next",
            "aiter",
            "anext",
            "await",
            "enter",
            "exit",
            "aenter",
            "aexit",
            "call",
            "neg",
            "pos",
            "abs",
            "invert",
            "complex",
            "int",
            "float",
            "index",
            "round",
            "trunc",
            "floor",
            "ceil",
            "str",
            "repr",
            "bytes",
            "format",
        ]
    ]
)

# Methods a script may define and call on its own classes or through super(); on any other
# receiver they are refused.
OWN_METHODS: Final = frozenset(
    {
        "__init__", "__new__",  # construction; __new__ only ever makes script classes
        "__post_init__",  # dataclasses
        "__getattr__", "__setattr__", "__delattr__",  # attribute hooks; names arrive un-renamed
        "__get__", "__set__", "__delete__", "__set_name__",  # descriptors over script objects
        "__init_subclass__", "__class_getitem__",  # plain class-level hooks
        "__copy__", "__deepcopy__", "__fspath__", "__sizeof__",  # called by library functions
    }
)  # fmt: skip

# Data a class body may bind.
CLASS_DATA: Final = frozenset({"__slots__", "__match_args__", "__doc__", "__hash__"})

#: Those that hold names as text: a literal, which nothing can change afterwards.
NAMES_AS_TEXT: Final = frozenset({"__slots__", "__match_args__"})

DEFINABLE: Final = OPERATOR_METHODS | OWN_METHODS

# Never definable, with the reason a script is told.
UNDEFINABLE_HINTS: Final = {
    "__del__": "it would run at a moment nobody chose; use `with` or try/finally",
    "__getattribute__": "define __getattr__, which runs for missing names only",
    "__class__": "an object may not lie about its type",
    "__reduce__": "objects are not pickled here; define __copy__ or __deepcopy__",
    "__reduce_ex__": "objects are not pickled here; define __copy__ or __deepcopy__",
    "__getstate__": "objects are not pickled here; define __copy__ or __deepcopy__",
    "__setstate__": "objects are not pickled here; define __copy__ or __deepcopy__",
    "__instancecheck__": "isinstance() may not be answered by a script",
    "__subclasscheck__": "issubclass() may not be answered by a script",
    "__subclasshook__": "issubclass() may not be answered by a script",
    "__mro_entries__": "list the base classes in the class statement",
    "__prepare__": "metaclasses are not available; use a decorator or __init_subclass__",
    "__dir__": "dir() lists the attributes of the object",
    "__buffer__": "define __bytes__",
}

# Attributes a script may read as values. The guard decides by the receiver.
READABLE: Final = frozenset(
    {
        "__name__", "__qualname__", "__doc__",  # text of functions and classes
        "__version__",  # text, of a package
        "__members__",  # Enum: names and members
        "__notes__",  # exceptions: list of text
        "__annotations__",  # of script classes: a copy
        "__cause__",  # what the script chained with `raise ... from ...`; None only in a test
    }
)  # fmt: skip

# Methods of containers and iterators that are handed on as functions: `key=table.__getitem__`.
KEEPABLE: Final = frozenset({"__next__", "__getitem__", "__contains__"})

# Attributes that may be used in place but not be kept under a name. `type(x)` is the same class;
# what stands for `__dict__` is a snapshot, so a name for it would go stale unlike CPython's.
IN_PLACE: Final = {
    "__class__": "write `type(x)`",
    "__dict__": "write `vars(x)`, or `dict(vars(x))` for a copy",
}

# Text that a decorator copies to the function it returns.
WRITABLE: Final = frozenset({"__name__", "__qualname__", "__doc__"})

# hasattr() answers truthfully for these: they tell what an object can do, and give nothing.
TESTABLE: Final = OPERATOR_METHODS | READABLE | {"__dict__", "__dataclass_fields__", "__slots__"}

READ_HINTS: Final = {
    "__traceback__": "use traceback.format_exc() for its text",
    "__context__": "keep the first exception in a variable",
    "__globals__": "use the name itself",
    "__code__": "a function's code is not readable",
    "__closure__": "keep the value in an object that both functions see",
    "__subclasses__": "keep a registry with __init_subclass__",
    "__bases__": "use issubclass()",
    "__base__": "use issubclass()",
    "__mro__": "use issubclass()",
    "__module__": "every class of a script is in __main__",
    "__builtins__": "use the builtin's name",
    "__self__": "keep the object in a variable",
    "__func__": "use the function's name",
    "__wrapped__": "keep the undecorated function under a name of its own",
    "__args__": "use typing.get_args()",
    "__origin__": "use typing.get_origin()",
    "__getattribute__": "use getattr()",
    "__file__": "a script has no file; files are reached through ctx",
    "__import__": "use an import statement",
    "__dataclass_fields__": "use dataclasses.fields()",
}

# Names of a module: metadata that tools write, and the one a script reads.
MODULE_NAMES: Final = frozenset({"__all__", "__author__", "__version__", "__license__", "__doc__"})
READABLE_NAMES: Final = MODULE_NAMES | {"__name__", "__debug__"}

# ---------------------------------------------------------------------------------------------
# Builtins

_FILES = "files are reached through ctx, for example `await ctx.read(path)`"
_TEXT_AS_CODE = "text cannot be run as code; write the code out, or use a dict of functions"
BUILTIN_HINTS: Final = {
    "open": _FILES,
    "eval": f"{_TEXT_AS_CODE}; json.loads() reads data",
    "exec": _TEXT_AS_CODE,
    "compile": _TEXT_AS_CODE,
    "input": "a script cannot ask; take values from `inputs`",
    "breakpoint": "use print()",
    "help": "use print()",
    "exit": "use `return` in run(), or raise an exception",
    "quit": "use `return` in run(), or raise an exception",
    "copyright": "it is not part of the language",
    "credits": "it is not part of the language",
    "license": "it is not part of the language",
    "memoryview": "slice bytes instead",
    "BaseExceptionGroup": "use ExceptionGroup",
}

# Refused where the call is sure to be reached; elsewhere it fails only when it is. A script that
# asks only if a tool said nothing, or is ready to catch the error, is not refused for it.
FAIL_WHEN_REACHED: Final = frozenset({"open", "input", "exit", "quit"})

# Called by name only: what they see depends on who calls.
CALL_ONLY: Final = {
    "globals": "call it: `globals()`",
    "locals": "call it: `locals()`",
    "vars": "call it: `vars(x)`",
    "dir": "call it: `dir(x)`",
}

# ---------------------------------------------------------------------------------------------
# Rules


def is_dunder(name: str) -> bool:
    """True for ``__x__``."""
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def is_private(name: str) -> bool:
    """True for a name with a leading underscore that is renamed as an attribute."""
    return (
        name.startswith("_")
        and not is_dunder(name)
        and name not in PUBLIC_UNDERSCORE
        and not name[1:].isdecimal()  # namedtuple(rename=True) makes _0, _1
    )


def kind_of(name: str) -> Kind:
    """Kind of an attribute name, by spelling alone."""
    if name.startswith("_"):
        if is_dunder(name):
            return "dunder"
        return "private" if is_private(name) else "ordinary"
    return "power" if name in power_names() else "ordinary"


def mangle(name: str, class_name: str | None) -> str:
    """Apply Python's own mangling of ``__x`` inside class `class_name`."""
    if class_name is None or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    stripped = class_name.lstrip("_")
    return f"_{stripped}{name}" if stripped else name


def rename(name: str) -> str:
    """The attribute name that stands for the private name `name` (already mangled)."""
    return PRIVATE_PREFIX + name[1:] if is_private(name) else name


def demangle(text: str) -> str:
    """Give private names in `text` back the spelling of the script. Cheap when there are none."""
    return _MANGLED.sub("_", text) if PRIVATE_PREFIX in text else text


def _version() -> str:
    tables = (
        sorted(power_names()), sorted(DEFINABLE), sorted(READABLE), sorted(WRITABLE),
        sorted(TESTABLE), sorted(KEEPABLE), sorted(IN_PLACE), sorted(BUILTIN_HINTS),
        sorted(CALL_ONLY), sorted(PUBLIC_UNDERSCORE), sorted(FAIL_WHEN_REACHED),
        sorted((name, sorted(MODULES[name])) for name in MODULES),
    )  # fmt: skip
    digest = hashlib.sha256(repr((2, PRIVATE_PREFIX, sys.version, tables)).encode())
    return digest.hexdigest()[:16]


#: Part of the key under which compiled scripts are cached: interpreter, tables and rule number.
POLICY_VERSION: Final = _version()
