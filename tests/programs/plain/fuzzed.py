"""Differences that the fuzzer of plain Python found: messages, reprs, and arguments."""

import ast
import asyncio
import calendar
import collections
import concurrent.futures
import contextlib
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import io
import json
import logging
import math
import mimetypes
import operator
import os
import pathlib
import pprint
import queue
import re
import shlex
import statistics
import sys
import threading
import time
import traceback
import types
import typing
import urllib.parse
import warnings
import weakref


def case_traceback_limit_and_chain():
    def fail():
        raise KeyError(1)

    found = []
    try:
        try:
            fail()
        except KeyError:
            fail()
    except KeyError as error:
        found += [traceback.format_exc(limit=1), traceback.format_exc(-1), traceback.format_exc(chain=False)]
        found += traceback.format_exception(KeyError, error, None)
        for wrong in ((error, error), (1, 2, 3, 4, 5, 6)):
            try:
                traceback.format_exception(*wrong)
            except (TypeError, ValueError) as refused:
                found.append(type(refused).__name__)
    return found


def case_exception_without_notes():
    return [hasattr(ValueError(), "__notes__"), getattr(ValueError(), "__notes__", None)]


def case_every_object_has_a_class():
    return [hasattr(each, "__class__") for each in (1, len, asyncio, int)]


def case_vars_of_a_function():
    def f(): ...

    f.tag = 1
    return [vars(f), type(vars(f)).__name__, type(vars(f)) is dict]


def case_modules_of_library_classes():
    kinds = [logging.Logger, logging.StreamHandler, functools.cached_property, threading.Event, weakref.ref]
    return [repr(each) for each in kinds]


def case_reprs_of_library_objects():
    shown = [
        operator.attrgetter("a.b"), operator.methodcaller("f", 1, k=2), logging.StreamHandler(io.StringIO()),
        logging.NullHandler(), logging.LoggerAdapter(logging.getLogger("r"), {}), threading.Lock(), threading.Event(),
        threading.BoundedSemaphore(2), threading.Barrier(1), threading.Condition(threading.Lock()),
        warnings.catch_warnings(), warnings.catch_warnings(record=True), io.StringIO().flush,
    ]
    return [re.sub("0x[0-9a-f]+", "0x", repr(each)) for each in shown]


def case_parameters_are_ordered():
    return repr(inspect.signature(lambda a, b=1: a).parameters)


def case_futures_take_a_type():
    return [repr(asyncio.Future[int]), repr(asyncio.Task[str])]


def case_hint_of_a_callable():
    def f(x: collections.abc.Callable[[int], str]): ...

    return repr(typing.get_type_hints(f))


def case_calendar_methods_print():
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        calendar.TextCalendar().prmonth(2024, 2)
        calendar.TextCalendar().pryear(2024)
    return out.getvalue()


def case_subclass_of_a_namespace():
    class Mine(types.SimpleNamespace): ...

    return [repr(Mine(a=1)), repr(types.SimpleNamespace(a=1))]


def case_filters_answer_as_in_this_version():
    log = logging.getLogger("filtered")
    return [log.filter(logging.LogRecord("n", 20, "p", 1, "m", (), None)) is True]


def case_messages_of_wrong_arguments():
    class E(enum.Enum): ...

    acts = [
        lambda: getattr(1), lambda: hasattr(1), lambda: setattr(1), lambda: dir(1, 2), lambda: vars(1, 2), lambda: vars(1),
        lambda: type("A", 1, {}), lambda: E(nope=1), lambda: ast.parse("1 +"), lambda: warnings.simplefilter("q"),
        lambda: traceback.format_exc(1, 2, 3), lambda: list(type), lambda: list(asyncio.Future), lambda: {}[1:2:3],
    ]
    found = []
    for act in acts:
        try:
            found.append(act())
        except Exception as error:
            found.append([type(error).__name__, error.args])
    return found[:-1]


def case_errors_in_source_show_their_place():
    found = []
    for source in ("1 +", "x = = 2", "def f(:\n  1"):
        try:
            ast.parse(source)
        except SyntaxError as error:
            error.add_note("note")
            found += [traceback.format_exception_only(error), traceback.format_exception(error)[-5:]]
    found.append(traceback.format_exception_only(SyntaxError("bad", ("f", 1, 2, "text"))))
    return [*found, traceback.format_exception_only(SyntaxError("bad"))]


def case_hash_of_an_enum_with_a_mixin():
    class Mixin: ...

    class Colour(Mixin, enum.Enum):
        RED = 1

    class Table(Mixin, dict): ...

    class Pair(Mixin, tuple): ...

    found = [hash(Colour.RED) == hash("RED"), hash(Pair((1, 2))) == hash((1, 2))]
    try:
        hash(Table())
    except TypeError as error:
        found.append(str(error))
    return found


def case_signatures_of_enums():
    class Colour(enum.Enum):
        RED = 1

    class Empty(enum.Enum): ...

    return [str(inspect.signature(kind)) for kind in (Colour, Empty, enum.Enum("Made", "a b"))]


def case_docstrings_of_dataclasses_without_init():
    @dataclasses.dataclass(init=False)
    class Error(Exception):
        a: int = 1

    @dataclasses.dataclass(init=False)
    class Plain:
        a: int = 1

    return [Error.__doc__, Plain.__doc__]


def case_printers_show_private_fields():
    @dataclasses.dataclass
    class Data:
        _hidden: int = 1

    out = io.StringIO()
    printer = pprint.PrettyPrinter(width=5, stream=out)
    printer.pprint(Data())
    return [printer.pformat(Data()), out.getvalue()]


def case_wrong_arguments_of_the_library_raise():
    class K:
        @functools.singledispatchmethod
        def f(self, x): ...

    def warn():
        with warnings.catch_warnings():
            warnings.filterwarnings("always", message="a")
            warnings.warn(1)

    acts = [
        lambda: traceback.print_tb(1), lambda: traceback.extract_tb(1), lambda: next(traceback.walk_tb(1)), lambda: logging.Formatter().formatException(1), lambda: operator.attrgetter(1),
        lambda: functools.lru_cache(maxsize=len, typed=2), lambda: logging.NullHandler().set_name([1]), K().f, warn,
        lambda: next(sys.stdout),
    ]
    found = []
    for act in acts:
        try:
            found.append(act())
        except Exception as error:
            found.append([type(error).__name__, str(error)])
    return found


def case_types_of_library_objects():
    shown = [concurrent.futures.Future, concurrent.futures.ThreadPoolExecutor, functools.wraps(len)]
    return [repr(shown[:2]), type(shown[2]).__name__, repr(logging.Handler(True)), hasattr(sys.stdout, "__iter__")]


def case_fields_of_another_object_hide_the_cause():
    try:
        try:
            1 / 0
        except ZeroDivisionError:
            dataclasses.fields(1)
    except TypeError as error:
        return [error.__suppress_context__, traceback.format_exc().count("Traceback")]


def case_fields_are_checked_before_the_bases():
    @dataclasses.dataclass(frozen=True)
    class Base:
        a: int = 1

    try:

        @dataclasses.dataclass
        class Sub(Base):
            b: list = []
    except ValueError as error:
        return str(error)


def case_copies_of_library_objects():
    class Handler(logging.Handler):
        pass

    class Reference:
        pass

    found = [copy.copy(print) is print, copy.copy(logging.getLogger()) is logging.getLogger()]
    for make in (threading.Lock, threading.RLock, queue.SimpleQueue, Handler, queue.Queue, concurrent.futures.Future):
        for function in (copy.copy, copy.deepcopy):
            try:
                found.append(type(function(make())).__name__)
            except TypeError as error:
                found.append(str(error))
    reference = weakref.ref(Reference)
    found += [copy.deepcopy(reference) is reference, list(copy.deepcopy(iter([1, [2]]))), copy.deepcopy(urllib.parse.urlparse("//a"))]
    iterator = iter((1, 2, 3))
    next(iterator)
    return [*found, list(copy.deepcopy(iterator)), list(iterator), copy.deepcopy(statistics.NormalDist(1, 2))]


def case_weak_references_name_their_target():
    class Node:
        pass

    def function():
        pass

    return [repr(weakref.ref(each)).rpartition(" (")[2] for each in (Node, function, dict)]


def case_attributes_of_exceptions():
    error = json.JSONDecodeError("a", "b", 0)
    error.extra = 1
    error._private = 2
    error.add_note("n")
    return [vars(error), vars(ValueError())]


def case_traceback_is_a_summary():
    try:
        1 / 0
    except ZeroDivisionError as error:
        rows = traceback.extract_tb(error.__traceback__)
    return [type(rows).__name__, isinstance(rows, list), len(rows.format()), type(rows[:1]).__name__]


def case_limits_and_nodes_of_wrong_types():
    acts = [lambda: traceback.format_exc("a"), lambda: traceback.format_tb(None, ()), lambda: list(ast.walk(1)), lambda: ast.dump(1), lambda: ast.get_docstring(1), lambda: traceback.format_exception_only(3), lambda: pprint.pprint(object=[1])]
    found = []
    for act in acts:
        try:
            found.append(act())
        except Exception as error:
            found.append([type(error).__name__, str(error)])
    return found


def case_registry_of_single_dispatch():
    @functools.singledispatch
    def f(x): ...

    f.register(int, len)
    return [list(f.registry), f.registry[int] is len, f.dispatch(cls=bool) is len]


def case_none_inside_of_hints():
    def f(x: list[None], y: "dict[str, None]", z: None): ...

    return [str(each) for each in typing.get_type_hints(f).values()]


def case_futures_can_be_subscribed():
    return [str(concurrent.futures.Future[int])]


def case_original_bases():
    class A: ...

    T = typing.TypeVar("T")

    class B(A, typing.Generic[T]): ...

    function = getattr(types, "get_original_bases", None)
    return [] if function is None else [function(A), function(int), function(B)[0] is A, str(function(B)[1])]


def case_older_names_of_lock_methods():
    lock = threading.Lock()
    return [lock.acquire_lock(), lock.locked_lock(), lock.release_lock(), lock.locked()]


def case_hash_of_slots_with_getattr():
    class A:
        __slots__ = ("x",)

        def __getattr__(self, name):
            return name

    return [isinstance(hash(A()), int), len({A(), A()})]


def case_dataclass_of_another_object():
    try:
        dataclasses.dataclass(1)
    except AttributeError as error:
        return str(error)


def outcomes_of(*acts):
    found = []
    for act in acts:
        try:
            found.append(act())
        except Exception as error:
            found.append([type(error).__name__, str(error)])
    return found


def types_of(outcomes):
    """Leave the texts of errors out: they differ between versions."""
    return [each[0] if isinstance(each, list) and isinstance(each[0], str) else repr(each) for each in outcomes]


def case_methods_of_handlers_loggers_and_filters():
    class OneLine(logging.Formatter):
        def formatException(self, ei):
            return repr(super().formatException(ei).splitlines()[-1])

    class Early(logging.Formatter):
        @staticmethod
        def converter(seconds):
            return time.gmtime(0)

    class Universal(logging.Formatter):
        converter = time.gmtime

    own = logging.Formatter("%(asctime)s")
    own.converter = lambda seconds: time.gmtime(86400 * 365)
    handler, logger, lines = logging.Handler(), logging.getLogger("f.calls"), []
    handler.createLock()
    handler.acquire()
    handler.emit = lambda record: lines.append(OneLine().format(record))
    logger.addHandler(handler)
    logger.addFilter(lambda record: False)
    logger.propagate = False
    record = logging.LogRecord("f.calls", 20, "p", 1, "m", (), (ValueError, ValueError("v"), None), None, "stack")
    logger.callHandlers(record)
    logger.handle(record)
    adapter = logging.LoggerAdapter(logger, {"x": 1})
    return [
        lines, handler.release(), repr(logging.Logger("own")), logging.Logger("own").parent, logging.Filter("ab").nlen, Early("%(asctime)s", "%Y").formatTime(record, "%Y"), own.formatTime(record, "%Y"), Universal().formatTime(record, "%Y") > "1999", hasattr(adapter, "warn"),
        logging.Formatter().formatStack(1), repr(logging.Logger("a", True)), handler.lock is not None, logging.NullHandler().lock,
        sorted(each.name for each in logger.getChildren()) if hasattr(logger, "getChildren") else 0,
        *outcomes_of(
            lambda: logging.Formatter("no field"), lambda: logging.Formatter("{", style="{"), lambda: logging.Formatter("%(nope)s").format(record), lambda: logging.Filter(1), lambda: logger.getChild(1),
            lambda: handler.release(), lambda: logging.Formatter().formatException("abc"), lambda: logging.Formatter().formatException(ValueError()), lambda: logging.getLevelName((1, 2)),
            lambda: logging.Formatter("%(a)s").formatMessage(int), lambda: logging.basicConfig(force=True, nope=1), lambda: logging.basicConfig(force=True, stream=1, filename="f"),
        ),
    ]


def case_arguments_are_checked_in_the_order_of_the_library():
    lock, class_ = threading.Lock(), contextlib.ExitStack
    acts = [
        lambda: enum.Enum("E", [[1]]), lambda: repr(enum.Enum("E", [], 1)), lambda: typing.NamedTuple("N", "a", b=int), lambda: inspect.Parameter("x", "kind"), lambda: inspect.Parameter("x", 1.5), lambda: str(inspect.Parameter("x", 3.0)), lambda: sys.exc_info(1), lambda: ast.literal_eval(int), lambda: ast.literal_eval(b"1"),
        lambda: collections.namedtuple(1, "a"), lambda: typing.NamedTuple(None, []), lambda: threading.Condition(1), lambda: lock.acquire(True, "a"), lambda: lock.acquire(False, 2), lambda: [lock.acquire([1]), lock.locked()], lambda: threading.Semaphore(1).acquire(False, -1),
        lambda: threading.Semaphore(1).release(1.5), lambda: concurrent.futures.wait([], None, []), lambda: concurrent.futures.wait([concurrent.futures.Future()], None, []), lambda: dataclasses.dataclass(class_()), lambda: dataclasses.make_dataclass("A", ["if"]), lambda: dataclasses.make_dataclass("A", [1]),
        lambda: dataclasses.make_dataclass("A", [(1, 2)]), lambda: shlex.split([1]), lambda: str(shlex.split("a")), lambda: functools.update_wrapper({}, len), lambda: functools.update_wrapper("", len, 1), lambda: mimetypes.init(0),
        lambda: traceback.format_exception(1, "value", "trace"), lambda: traceback.print_tb(1, 1 << 70), lambda: logging.Handler("nope"), lambda: os.path.relpath("/a/b", "/a"), lambda: repr(collections.abc).split("'")[1], lambda: repr(os.path).split("'")[1],
    ]  # fmt: skip
    if sys.version_info >= (3, 12):
        acts += [lambda: asyncio.run(1, loop_factory=dict), lambda: asyncio.run(1, loop_factory=2)]
    return types_of(outcomes_of(*acts))


def case_filters_of_warnings_are_checked():
    def twice():
        manager = warnings.catch_warnings()
        with manager, manager:
            pass

    def recorded():
        with warnings.catch_warnings(record=True, action="always", lineno=0, append=False) as caught:
            warnings.warn(ValueError("v"), stacklevel=1)
        return [str(each.message) for each in caught]

    def unhashable():
        with warnings.catch_warnings(action="default"):
            warnings.warn({})

    outcomes = outcomes_of(
        lambda: warnings.filterwarnings("nope", 1), lambda: warnings.filterwarnings("error", 1), lambda: warnings.filterwarnings("error", "a", int), lambda: warnings.filterwarnings("error", lineno=-1),
        lambda: warnings.simplefilter("error", lineno="a"), lambda: repr(warnings.catch_warnings(module=1, record=1)), lambda: repr(warnings.catch_warnings(module=warnings)), twice, recorded,
        lambda: warnings.catch_warnings(nope=1), lambda: warnings.catch_warnings().__exit__(), lambda: warnings.warn("x", {}), unhashable, lambda: warnings.warn("x", None, 1 << 70),
    )
    return types_of(outcomes)


def case_stand_ins_are_described_and_referred_to_as_in_the_library():
    made = [threading.Lock(), threading.RLock(), threading.Event(), threading.Condition(), threading.Semaphore(), threading.Barrier(1), queue.Queue(), queue.SimpleQueue(), concurrent.futures.Future(), warnings.catch_warnings()]
    kinds = [threading.Event, logging.Handler, queue.Queue, type(pathlib.Path()), types.SimpleNamespace, inspect.Signature, heapq.merge, dataclasses.asdict, copy.deepcopy, traceback.format_exc]
    return [
        [weakref.ref(each)() is each for each in made], [each.__doc__ for each in kinds], outcomes_of(lambda: weakref.ref(types.SimpleNamespace()))[0][0],
        types_of(outcomes_of(lambda: functools.update_wrapper(int, len), lambda: functools.update_wrapper(threading.Event, len), lambda: functools.singledispatch(print).dispatch(threading.Event()), lambda: functools.singledispatch(print).dispatch(list[int]))),
    ]  # fmt: skip
def case_copies_ask_getattr():
    class Answer(list):
        def __getattr__(self, name):
            return name

    class Endless:
        def __getattr__(self, name):
            return self.missing

    class Own:
        def __getattr__(self, name):
            if name == "__setstate__":
                return lambda state: found.append(sorted(state.items()))
            if name == "__deepcopy__":
                return lambda memo: "deep"
            raise AttributeError(name)

    class Fixed:
        __slots__ = ("x",)

        def __setattr__(self, name, value):
            raise TypeError(f"{name} is fixed")

    found = []
    for kind in (Answer, Endless, Own, Fixed):
        made = kind()
        object.__setattr__(made, "x", 1)
        if kind is not Fixed:
            made._y = 2
        for function in (copy.copy, copy.deepcopy):
            try:
                found.append(str(function(made))[:4])
            except Exception as error:
                found.append([type(error).__name__, str(error)])
    return found


def case_context_of_a_refused_value():
    found = []
    for value in (1, int):
        try:
            dataclasses.fields(value)
        except TypeError as error:
            found.append([str(error), str(error.__context__), error.__suppress_context__])
    return found


def case_classes_as_members_of_protocols():
    class A:
        def close(self): ...

    @typing.runtime_checkable
    class Closing(typing.Protocol):
        def close(self): ...

    return [isinstance(A, Closing), isinstance(int, Closing), isinstance(int, typing.SupportsInt)]


def case_lists_in_hints():
    def f(x: typing.Type[[int]], y: typing.Callable[["int"], "str"]): ...

    return [str(each) for each in typing.get_type_hints(f).values()]


def case_documentation_of_the_root_logger():
    return logging.getLogger().__doc__ is None


def case_copies_of_frozen_dataclasses_with_slots():
    @dataclasses.dataclass(frozen=True, slots=True)
    class A:
        x: list

    class B(A): ...

    found = []
    for kind in (A, B):
        made = kind([1])
        for function in (copy.copy, copy.deepcopy):
            other = function(made)
            found.append([type(other) is kind, other.x, other.x is made.x])
    try:
        copy.copy(object.__new__(A))
    except AttributeError as error:
        found.append(str(error))
    return found


def case_vars_asks_getattr():
    class A:
        __slots__ = ()

        def __getattr__(self, name):
            if name == "__dict__":
                return "answer"
            raise AttributeError(name)

    class B:
        __slots__ = ()

        def __getattr__(self, name):
            raise AttributeError(name)

    try:
        vars(B())
    except TypeError as error:
        return [vars(A()), str(error)]


def case_classes_have_documentation():
    return [hasattr(each, "__doc__") for each in (int, types.BuiltinFunctionType, types.GeneratorType, dict)]


def case_class_of_a_path():
    return str(type(pathlib.Path("a")))


def case_register_takes_classes_and_unions_only():
    f = functools.singledispatch(lambda x: "object")
    f.register(int | str, lambda x: "union")
    f.register(typing.Union[bytes, list])(lambda x: "typing")
    found = [f(1), f("a"), f(b""), f([]), f(1.5)]
    for kind in (list[int], 1, "int", typing.Any):
        try:
            f.register(kind, len)
        except TypeError as error:
            found.append(str(error))
    return found
