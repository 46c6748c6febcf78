"""Facades of the modules that a script may import.

Rule 1: without a guarded name, no module, frame, code object or `open` can be reached from a
    facade (test_nothing_dangerous_can_be_reached_from_a_facade).
Rule 2: the facades have exactly the names of the table
    (test_every_facade_has_the_names_of_the_policy_table).
"""

from __future__ import annotations

import encodings
import importlib
import random
import string
import sys
from collections.abc import Mapping
from typing import Any, Final

from ..._language._policy import MODULES
from .._classes import allow_bases
from .._clock import Clock
from .._hints import get_type_hints
from .._types import Token
from . import _copy, _dataclasses, _dispatch, _own, _patches, _signature, _syntax_trees, _text
from ._console import redirect_stderr, redirect_stdout
from ._event_loop import asyncio_members
from ._facade import make_facade
from ._formats import (
    codecs_members,
    confine_formats,
    gzip_members,
    mimetypes_members,
    xml_members,
)
from ._futures import futures_members
from ._logging import BASES as LOGGING_BASES
from ._logging import logging_members
from ._queues import queue_members
from ._references import vet_references, weakref_members
from ._threading import threading_members
from ._time import time_modules
from ._traceback import traceback_members
from ._warnings import warnings_members

__all__ = ["build_modules"]

# Modules with members of our own; those of the others come from the real module, name by name.
_WRITTEN_HERE: Final = frozenset(
    [
        "concurrent",
        "concurrent.futures",
        "datetime",
        "logging",
        "os",
        "pathlib",
        "pprint",
        "queue",
        "random",
        "secrets",
        "sys",
        "threading",
        "time",
        "traceback",
        "urllib",
        "uuid",
        "warnings",
        "xml",
        "xml.etree",
        "zoneinfo",
    ]
)

# Encodings with tables in files, which the jail cannot open later.
_CODECS: Final = [
    "ascii",
    "base64_codec",
    "charmap",
    "cp1250",
    "cp1251",
    "cp1252",
    "cp437",
    "cp850",
    "hex_codec",
    "idna",
    "iso8859_1",
    "iso8859_15",
    "iso8859_2",
    "latin_1",
    "mac_roman",
    "punycode",
    "quopri_codec",
    "raw_unicode_escape",
    "rot_13",
    "unicode_escape",
    "utf_16",
    "utf_16_be",
    "utf_16_le",
    "utf_32",
    "utf_32_be",
    "utf_32_le",
    "utf_7",
    "utf_8",
    "utf_8_sig",
    "zlib_codec",
    "uu_codec",
    "big5",
    "gbk",
    "gb2312",
    "gb18030",
    "euc_jp",
    "euc_kr",
    "shift_jis",
    "koi8_r",
    "cp932",
    "cp949",
]
# Imported by library functions on first use.
_LATE: Final = [
    "_strptime",
    "stringprep",
    "unicodedata",
    "copyreg",
    "fnmatch",
    "ntpath",
    "bisect",
    "heapq",
    "hashlib",
    "json.encoder",
    "decimal",
    "numbers",
    "locale",
    "calendar",
    "warnings",
    "linecache",
    "traceback",
]

_BASES: Final = {
    "abc": "ABC",
    "ast": "NodeTransformer NodeVisitor",
    "collections": "ChainMap Counter OrderedDict UserDict UserList defaultdict deque",
    "collections.abc": "*",
    "configparser": "BasicInterpolation ConfigParser ExtendedInterpolation Interpolation "
    "RawConfigParser",
    "contextlib": "AbstractAsyncContextManager AbstractContextManager AsyncContextDecorator "
    "AsyncExitStack ContextDecorator ExitStack",
    "datetime": "date datetime time timedelta tzinfo",
    "decimal": "Decimal",
    "enum": "Enum Flag IntEnum IntFlag ReprEnum StrEnum auto",
    "fractions": "Fraction",
    "json": "JSONDecoder JSONEncoder",
    "logging": LOGGING_BASES,
    "numbers": "*",
    "pathlib": "Path PurePath PurePosixPath",
    "random": "Random",
    "string": "Template",
    "threading": "Thread Timer",
    "types": "SimpleNamespace",
    "typing": "Generic Protocol SupportsAbs SupportsFloat SupportsIndex SupportsInt",
    "csv": "Dialect excel excel_tab unix_dialect",
    "os": "PathLike",
    "queue": "LifoQueue PriorityQueue Queue",
}


def _own_members(clock: Clock) -> dict[str, dict[str, Any]]:
    """Return the members that replace those of the real module."""
    import abc
    import asyncio
    import enum
    import inspect

    return {
        "ast": _syntax_trees.syntax_members(),
        "abc": {"ABCMeta": Token("abc.ABCMeta", abc.ABCMeta)},
        "asyncio": {
            **asyncio_members(clock),
            "iscoroutinefunction": _own.coroutine_test(asyncio.iscoroutinefunction),
        },
        "calendar": _text.calendar_members(),
        "codecs": codecs_members(),
        "collections": {"namedtuple": _own.namedtuple},
        "contextlib": {
            "contextmanager": _own.contextmanager,
            "asynccontextmanager": _own.asynccontextmanager,
            "redirect_stderr": redirect_stderr,
            "redirect_stdout": redirect_stdout,
        },
        "copy": {
            "copy": _copy.shallow,
            "deepcopy": _copy.deepcopy,
            "replace": _dataclasses.copy_replace,
        },
        "dataclasses": {
            "asdict": _dataclasses.asdict,
            "astuple": _dataclasses.astuple,
            "dataclass": _dataclasses.dataclass,
            "fields": _dataclasses.fields,
            "make_dataclass": _dataclasses.make_dataclass,
            "replace": _dataclasses.replace,
        },
        "enum": {
            "EnumMeta": Token("enum.EnumType", enum.EnumMeta),
            "EnumType": Token("enum.EnumType", enum.EnumMeta),
        },
        "functools": {
            "cache": _own.cache,
            "cached_property": _own.cached_property,
            "lru_cache": _own.lru_cache,
            "singledispatch": _dispatch.singledispatch,
            "singledispatchmethod": _dispatch.singledispatchmethod,
            "update_wrapper": _own.update_wrapper,
            "wraps": _own.wraps,
        },
        "gzip": gzip_members(clock),
        "inspect": {
            "iscoroutinefunction": _own.coroutine_test(inspect.iscoroutinefunction),
            "BoundArguments": _signature.BoundArguments,
            "Parameter": _signature.Parameter,
            "Signature": _signature.Signature,
            "signature": _signature.signature,
        },
        "heapq": {"merge": _own.merge},
        "mimetypes": mimetypes_members(),
        "operator": {"attrgetter": _own.attrgetter, "methodcaller": _own.methodcaller},
        "shlex": {"split": _text.shlex_split},
        "types": {
            "SimpleNamespace": _own.SimpleNamespace,
            "get_original_bases": _own.get_original_bases,
        },
        "typing": {
            "NamedTuple": _own.NamedTuple,
            "TypedDict": _own.TypedDict,
            "get_origin": _own.get_origin,
            "get_type_hints": get_type_hints,
            "reveal_type": _own.reveal_type,
        },
        "weakref": weakref_members(),
        "xml.etree.ElementTree": xml_members(),
    }


def _random_members(rng: random.Random) -> dict[str, Any]:
    """Return the members of `statistics` that would draw from the system."""
    import statistics

    if not hasattr(statistics, "kde_random"):  # before 3.13
        return {}
    kde_random: Any = statistics.__dict__["kde_random"]

    def seeded(*args: Any, seed: Any = None, **options: Any) -> Any:
        seed = rng.getrandbits(128) if seed is None else seed
        return kde_random(*args, seed=seed, **options)

    seeded.__name__ = seeded.__qualname__ = "kde_random"
    return {"kde_random": seeded}


if sys.version_info >= (3, 13):
    _LATE.append("_pydecimal")  # for the error of a wrong format of a Decimal
if sys.version_info >= (3, 14):
    _LATE.append("_ast_unparse")
if sys.version_info >= (3, 15):
    _LATE.append("tomllib._re")


_IS_GUEST: Final = sys.platform == "wasi"
"""A WebAssembly guest lacks some functions of the library, such as `hashlib.pbkdf2_hmac`."""


def _preload() -> None:
    for name in _CODECS:
        importlib.import_module(f"encodings.{name}")
        encodings.search_function(name)
    for name in _LATE:
        importlib.import_module(name)
    string.Template("$a").substitute(a="")  # stores its pattern on the class, from 3.15 on


def build_modules(clock: Clock, rng: random.Random) -> Mapping[str, object]:
    """Build every facade, once, in the zygote.

    It makes the process a worker: dates follow `clock`, local time is UTC, `Enum(...)` checks
    names. Call it in no other process, and `seal` once all imports are done.

    Args:
        clock: Read by every function that returns the time; the runtime sets its fields.
        rng: Source of `random`, `secrets` and `uuid4`; the runtime seeds it for each run.
    """
    import os
    import posixpath

    _preload()
    _patches.vet_annotations()
    _patches.vet_enum_calls()
    _patches.vet_enum_members()
    _patches.vet_enum_properties()
    _patches.vet_decorators()
    _patches.vet_field_names()
    _patches.vet_flags()
    _patches.vet_pattern_groups()
    confine_formats()
    _copy.confine_copies()
    vet_references()
    _syntax_trees.open_nodes()
    own = _own_members(clock)
    members: dict[str, dict[str, Any]] = time_modules(clock, rng)
    members |= {
        "logging": logging_members(clock),
        "pathlib": dict(_text.PATHS),
        "pprint": _text.pprint_members(),
        "concurrent.futures": futures_members(),
        "queue": queue_members(),
        "sys": _text.sys_members(),
        "threading": threading_members(),
        "traceback": traceback_members(),
        "warnings": warnings_members(),
    }
    for name in MODULES.keys() - _WRITTEN_HERE - {"os.path"}:
        try:
            real = importlib.import_module(name)
        except ImportError:  # this Python was built without it, such as `lzma`
            continue
        replaced = own.get(name, {})
        chosen = {
            each: replaced[each] if each in replaced else getattr(real, each)
            for each in MODULES[name]
            if not _IS_GUEST or each in replaced or hasattr(real, each)
        }
        members[name] = chosen
    members["os.path"] = {name: getattr(posixpath, name) for name in MODULES["os.path"]}
    members["os.path"]["relpath"] = _text.relpath
    members["os"] = {
        **{name: getattr(os, name) for name in MODULES["os"] - {"path"} if hasattr(os, name)},
        **_text.environment_members(),
        "urandom": rng.randbytes,
    }
    members["statistics"] |= _random_members(rng)
    return _assemble(members)


def _assemble(members: dict[str, dict[str, Any]]) -> Mapping[str, object]:
    built: dict[str, object] = {}
    for name in ("concurrent", "urllib", "xml", "xml.etree"):
        members[name] = {}
    for name in sorted(members, key=lambda name: -name.count(".")):  # submodules first
        parent, _, last = name.rpartition(".")
        built[name] = make_facade(name, members[name])
        if parent:
            members[parent][last] = built[name]
    for module, names in _BASES.items():
        found = members[module] if names == "*" else names.split()
        bases = [members[module].get(name) for name in found]
        allow_bases(*(base for base in bases if isinstance(base, type)))
    return built
