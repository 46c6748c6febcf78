"""The language policy: tables of names, and the rules that read them.

This module owns the *data* of the policy; `ptc._language._transformer` applies it to a syntax
tree and `ptc.worker._guards` at run time. It knows neither.

A name in a script is one of four kinds, decided by spelling alone (`kind_of`):

* ordinary: an attribute load is a plain attribute load, at the speed of CPython, because no
  object that carries power answers to the name;
* power: some interpreter object answers to it with power (``gi_frame``, ``mro``, ``format``);
  the load goes through a guard that decides by the receiver (`_power_names`);
* private (``_x``): renamed, so that it works on the script's own objects and by construction
  never reaches an attribute of a library object;
* dunder: refused except for the tables below, each entry with its reason.

Rule 1: a renamed private name cannot be spelled in a script, in source or as text
    (test_prefix_of_renamed_names_cannot_be_written_in_source,
    test_prefix_of_renamed_names_is_refused_in_text).
"""

from __future__ import annotations

import hashlib
import re
import sys
from typing import Final, Literal

from .._policy_modules import MISSING_HINTS, MODULE_HINTS, MODULES
from ._power_names import power_names

__all__ = [
    "BUILTIN_HINTS",
    "DEFINABLE",
    "MISSING_HINTS",
    "MODULES",
    "MODULE_HINTS",
    "OBJECT_NUMBERS",
    "OFFERED",
    "POLICY_VERSION",
    "PRIVATE_PREFIX",
    "TRUSTED_PACKAGES",
    "demangle",
    "kind_of",
    "power_names",
    "rename",
]

#: Modules of the packages that the session offers beside `MODULES`, and the names of the packages.
#: `ptc.worker._packages` fills both in the zygote, before a script exists. Nobody has reviewed the
#: references in them, so their classes are not guarded by name.
OFFERED: Final[set[str]] = set()
TRUSTED_PACKAGES: Final[set[str]] = set()

Kind = Literal["ordinary", "power", "private", "dunder"]

# Plain ASCII on purpose: dataclasses and namedtuple compile text that contains field names.
PRIVATE_PREFIX: Final = "ptc_private_"

_MANGLED = re.compile(rf"{PRIVATE_PREFIX}(?=\w)")

#: Keys in the namespace of an object under which a worker keeps the number that `id` returns, with
#: the address of the object, and the number that is its hash. No script may read or write them.
OBJECT_NUMBERS: Final = frozenset({"@number", "@hash"})

# Documented single-underscore names of the standard library are part of its public interface, and
# refer to data or to objects of the script. They are not renamed.
PUBLIC_UNDERSCORE: Final = frozenset(
    {
        "_",  # the throw-away name; no library object has such an attribute
        "_asdict", "_replace", "_fields", "_make", "_field_defaults",  # namedtuple: data
        "_missing_", "_generate_next_value_", "_ignore_", "_order_",  # Enum: hooks over data
        "_value_", "_name_",  # Enum: the data of a member
    }
)  # fmt: skip

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

# Methods that an operator or a builtin calls, so calling them by name reaches no receiver that
# the operator would not.
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

# Methods that a script may define, and may call on its own classes or through super() only.
OWN_METHODS: Final = frozenset(
    {
        "__init__", "__new__",  # construction; __new__ only ever makes script classes
        "__post_init__",  # dataclasses
        "__getattr__", "__setattr__", "__delattr__",  # attribute hooks; names arrive un-renamed
        "__get__", "__set__", "__delete__", "__set_name__",  # descriptors over script objects
        "__init_subclass__", "__class_getitem__",  # plain class-level hooks
        "__copy__", "__deepcopy__", "__fspath__", "__replace__", "__sizeof__",  # called by library
    }
)  # fmt: skip

# Data that a class body may bind.
CLASS_DATA: Final = frozenset({"__slots__", "__match_args__", "__doc__", "__hash__", "__name__"})

#: Those that hold names as text. They must be literals, which nothing can change afterwards.
NAMES_AS_TEXT: Final = frozenset({"__slots__", "__match_args__"})

DEFINABLE: Final = OPERATOR_METHODS | OWN_METHODS

#: Methods that receive an attribute's name, with the position of that parameter. In the body of a
#: class the compiler restores the script's spelling of the name, so they are defined only there.
NAME_HOOKS: Final = {
    "__getattr__": 1, "__setattr__": 1, "__delattr__": 1, "__set_name__": 2,
}  # fmt: skip

#: Names that functions and variables outside of a class may have: a class decorator defines such a
#: function and sets it on the class.
VARIABLES: Final = DEFINABLE - NAME_HOOKS.keys()

# Never definable, with the hint that the finding gives.
UNDEFINABLE_HINTS: Final = {
    "__del__": "it would run at an unpredictable time; use `with` or try/finally",
    "__getattribute__": "define __getattr__, which runs for missing names only",
    "__class__": "an object cannot change its reported type",
    "__reduce__": "objects are not pickled here; define __copy__ or __deepcopy__",
    "__reduce_ex__": "objects are not pickled here; define __copy__ or __deepcopy__",
    "__getstate__": "objects are not pickled here; define __copy__ or __deepcopy__",
    "__setstate__": "objects are not pickled here; define __copy__ or __deepcopy__",
    "__instancecheck__": "a script cannot override isinstance()",
    "__subclasscheck__": "a script cannot override issubclass()",
    "__subclasshook__": "a script cannot override issubclass()",
    "__mro_entries__": "list the base classes in the class statement",
    "__prepare__": "metaclasses are not available; use a decorator or __init_subclass__",
    "__dir__": "dir() lists the attributes of the object",
    "__buffer__": "define __bytes__",
}

# Attributes that a script may read as values. The guard decides by the receiver.
READABLE: Final = frozenset(
    {
        "__name__", "__qualname__", "__doc__",  # text of functions and classes
        "__version__",  # text, of a package
        "__members__",  # Enum: names and members
        "__notes__",  # exceptions: list of text
        "__annotations__",  # of the script's classes and functions: a copy
        "__defaults__", "__kwdefaults__",  # of the script's functions: a tuple, and a copy
        "__wrapped__",  # of a decorated function: the script's own
        "__cause__", "__context__", "__suppress_context__",  # exceptions, which the script may hold
        "__traceback__",  # copies of the script's lines in it
        "__dataclass_fields__",  # of the script's dataclasses: a copy
        "__match_args__",  # of the script's classes: a tuple of text
        "__args__", "__origin__", "__parameters__",  # of `list[int]` and unions
        "__class__",  # of the script's own objects: the same as `type(x)`
    }
)  # fmt: skip

# Methods of containers and iterators that are passed as functions: `key=table.__getitem__`.
KEEPABLE: Final = frozenset({"__next__", "__getitem__", "__contains__"})

# Attributes that may be used in place but not be assigned to a name. `__dict__` is a snapshot
# here, so a name for it would go stale, unlike in CPython.
IN_PLACE: Final = {
    "__dict__": "write `vars(x)`, or `dict(vars(x))` for a copy",
}

# Text that a decorator copies to the function it returns.
WRITABLE: Final = frozenset({"__name__", "__qualname__", "__doc__"})

# hasattr() answers truthfully for these: they describe an object and give no access.
TESTABLE: Final = OPERATOR_METHODS | READABLE | {"__dict__", "__slots__"}

READ_HINTS: Final = {
    "__globals__": "use the name itself",
    "__code__": "a function's code is not readable",
    "__closure__": "keep the value in an object that both functions share",
    "__subclasses__": "keep a registry with __init_subclass__",
    "__bases__": "use issubclass()",
    "__base__": "use issubclass()",
    "__mro__": "use issubclass()",
    "__module__": "every class of a script is in __main__",
    "__builtins__": "use the builtin's name",
    "__self__": "keep the object in a variable",
    "__func__": "use the function's name",
    "__wrapped__": "assign the undecorated function to a name of its own",
    "__getattribute__": "use getattr()",
    "__class__": "write `type(x)`",
    "__file__": "a script has no file; access files through ctx",
    "__import__": "use an import statement",
}

# Names of a module: metadata that tools write, and those that a script reads.
MODULE_NAMES: Final = frozenset({"__all__", "__author__", "__version__", "__license__", "__doc__"})
READABLE_NAMES: Final = MODULE_NAMES | {"__name__", "__debug__"}

# ---------------------------------------------------------------------------------------------
# Builtins

_FILES = "access files through ctx, for example `await ctx.read(path)`"
_TEXT_AS_CODE = "text cannot be run as code; write the code out, or use a dict of functions"
BUILTIN_HINTS: Final = {
    "open": _FILES,
    "eval": f"{_TEXT_AS_CODE}; json.loads() reads data",
    "exec": _TEXT_AS_CODE,
    "compile": _TEXT_AS_CODE,
    "input": "a script cannot prompt; take values from `inputs`",
    "breakpoint": "use print()",
    "help": "use print()",
    "copyright": "it is not part of the language",
    "credits": "it is not part of the language",
    "license": "it is not part of the language",
    "memoryview": "slice bytes instead",
    "BaseExceptionGroup": "use ExceptionGroup",
}

# Refused if the call certainly runs; any other call fails only when it runs. A script that prompts
# only when a tool returned nothing, or that catches the error, is accepted.
FAIL_WHEN_REACHED: Final = frozenset({"open", "input"})

# May only be called: their result depends on the calling frame.
CALL_ONLY: Final = {
    "globals": "call it: `globals()`",
    "locals": "call it: `locals()`",
    "vars": "call it: `vars(x)`",
    "dir": "call it: `dir(x)`",
}

# ---------------------------------------------------------------------------------------------
# Rules


def is_dunder(name: str) -> bool:
    """True for ``__x__``, and for the names under which a worker keeps numbers in an object."""
    return (
        len(name) > 4 and name.startswith("__") and name.endswith("__")
    ) or name in OBJECT_NUMBERS


def is_private(name: str) -> bool:
    """True for a name with a leading underscore that is renamed as an attribute."""
    return (
        name.startswith("_")
        and not is_dunder(name)
        and name not in PUBLIC_UNDERSCORE
        and not name[1:].isdecimal()  # namedtuple(rename=True) makes _0, _1
    )


#: Methods of `dict` whose names an object of a tool's result may have as fields. Read without a
#: call, such a name is the field (`ptc.worker._record`).
MAPPING_METHODS: Final = frozenset(
    {
        "clear", "copy", "fromkeys", "get", "items", "keys", "pop", "popitem", "setdefault",
        "update", "values",
    }
)  # fmt: skip


def kind_of(name: str) -> Kind:
    """Return the kind of an attribute name, by spelling alone."""
    if is_dunder(name):
        return "dunder"
    if name.startswith("_"):
        return "private" if is_private(name) else "ordinary"
    return "power" if name in power_names() else "ordinary"


def mangle(name: str, class_name: str | None) -> str:
    """Apply Python's own mangling of ``__x`` inside class `class_name`."""
    if class_name is None or not name.startswith("__") or name.endswith("__") or "." in name:
        return name
    stripped = class_name.lstrip("_")
    return f"_{stripped}{name}" if stripped else name


def rename(name: str) -> str:
    """Return the attribute name that stands for the private name `name` (already mangled).

    Raises:
        AttributeError: If `name` is text of a script that has the form of a renamed name.
    """
    if name.startswith(PRIVATE_PREFIX):
        raise AttributeError(f"a name may not start with {PRIVATE_PREFIX!r}")
    return PRIVATE_PREFIX + name[1:] if is_private(name) else name


def demangle(text: str) -> str:
    """Restore the script's spelling of private names in `text`. Cheap if there are none."""
    return _MANGLED.sub("_", text) if PRIVATE_PREFIX in text else text


def _version() -> str:
    tables = (
        sorted(power_names()), sorted(DEFINABLE), sorted(READABLE), sorted(WRITABLE),
        sorted(TESTABLE), sorted(KEEPABLE), sorted(IN_PLACE), sorted(BUILTIN_HINTS),
        sorted(CALL_ONLY), sorted(PUBLIC_UNDERSCORE), sorted(FAIL_WHEN_REACHED),
        sorted(MAPPING_METHODS),
        sorted((name, sorted(MODULES[name])) for name in MODULES),
    )  # fmt: skip
    digest = hashlib.sha256(repr((6, PRIVATE_PREFIX, sys.version, tables)).encode())
    return digest.hexdigest()[:16]


#: Part of the key under which compiled scripts are cached: interpreter, tables and rule number.
POLICY_VERSION: Final = _version()
