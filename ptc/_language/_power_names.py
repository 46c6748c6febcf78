"""Power names: attributes of interpreter objects that lead out of a script.

Rule 1: the set is computed from the running interpreter, so a name that a new Python adds to a
    frame is guarded on the day it appears
    (test_every_attribute_of_a_power_bearing_type_is_guarded_or_has_a_reason).
"""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import functools
import types
import typing
from typing import Final

__all__ = ["HARMLESS", "VETTED_POWER", "power_names"]

# Powerful names that no power-bearing type has, or only on some versions.
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
_CONTEXT = "values of context variables that the script made: no other context is reachable"

# Names of a power-bearing type without power: they compile to plain loads.
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
        [
            "copy",
            "get",
            "items",
            "keys",
            "values",
            "run",
            "reset",
            "set",
            "var",
            "old_value",
            "MISSING",
        ],
        _CONTEXT,
    ),
    **dict.fromkeys(["cache_clear", "cache_info", "cache_parameters"], "counters of lru_cache"),
    **dict.fromkeys(
        ["getter", "setter", "deleter"], "decorators that build a new property from a function"
    ),
    "keywords": "arguments of a partial that the script made: no facade hands one out",
    "clear": "frame.clear: no frame is reachable; dict, list and set need the name",
    "replace": "code.replace: no code object is reachable; str and datetime need the name",
    **dict.fromkeys(
        ["derive", "split", "subgroup"],
        "methods of a group, which returns groups of its own exceptions (`ptc.worker._groups`)",
    ),
    "when": "asyncio.Timeout.when is a number; a Handle is not reachable",
    "time": "loop.time: the loop is not reachable; datetime and the time module need the name",
    "create_task": "TaskGroup.create_task and asyncio.create_task; the loop is not reachable",
    "stop": "loop.stop: the loop is not reachable; range and slice need the name",
    "parent": "ModuleSpec.parent: no spec is reachable; PurePath and ChainMap need the name",
    "has_default": "TypeVar.has_default returns a bool",
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
    plain = {types.SimpleNamespace, types.NoneType, types.DynamicClassAttribute}
    # 3.15 names the mapping of a frame, which only a frame returns. Its methods are those of dict.
    plain.add(getattr(types, "FrameLocalsProxyType", types.NoneType))
    found = [kind for kind in found if kind not in plain]
    found += [type, property, super, classmethod, staticmethod, memoryview]
    found += [functools.partial, type(functools.cache(len)), typing.ForwardRef, typing.TypeVar]
    found += [asyncio.Future, asyncio.Task, asyncio.Handle, asyncio.TimerHandle]
    found += [asyncio.AbstractEventLoop, asyncio.SelectorEventLoop]
    found += [type(types.__spec__), type(types.__loader__)]
    found += [contextvars.Context, contextvars.ContextVar, contextvars.Token]
    found += [
        value
        for value in vars(builtins).values()
        if isinstance(value, type) and issubclass(value, BaseException)
    ]
    return found


@functools.cache
def power_names() -> frozenset[str]:
    """Return the attribute names that some object of the running interpreter answers with power."""
    public = {
        name for kind in _power_bearing_types() for name in dir(kind) if not name.startswith("_")
    }
    return frozenset((public - HARMLESS.keys()) | VETTED_POWER.keys())
