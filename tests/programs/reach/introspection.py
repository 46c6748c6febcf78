import dataclasses
import functools
import inspect
import os
import sys
import traceback
import types
import typing


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **options):
        return function(*args, **options)

    return wrapper


@logged
def plain(a: int, b: "str" = "x", *, c=[1]) -> "list[int]":
    return [a, b, c]


@functools.lru_cache
def cached(x):
    return x


class Kind:
    x: "int" = 1

    @functools.singledispatchmethod
    def show(self, arg):
        return "other"

    @show.register
    def _(self, arg: int):
        return "int"

    def method(self, y=2): ...


def caught(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return error


def outer():
    try:
        {}["a"]
    except KeyError:
        raise ValueError("b")


def run(ctx, inputs):
    error = caught(outer)
    tb = error.__traceback__
    last = tb
    while last.tb_next:
        last = last.tb_next
    held = [error.__context__, error.__cause__, tb, tb.tb_frame, tb.tb_frame.f_code, last]
    rows = traceback.extract_tb(tb)
    held += [*rows, traceback.format_tb(tb), traceback.format_exception(error), list(traceback.walk_tb(tb))]
    try:
        outer()
    except ValueError:
        held += [sys.exc_info(), sys.exception(), traceback.format_exc()]
    signature = inspect.signature(plain)
    bound = signature.bind(1)
    bound.apply_defaults()
    held += [signature, signature.parameters, signature.parameters["b"], bound, bound.args, signature.empty]
    held += [signature.parameters["b"].kind, type(signature), type(tb), type(tb.tb_frame)]
    held += [caught(inspect.signature, len), caught(inspect.signature, ctx), caught(inspect.signature, print)]
    held += [plain.__annotations__, plain.__wrapped__, plain.__wrapped__.__defaults__, cached.__wrapped__]
    held += [plain.__wrapped__.__kwdefaults__, functools.partial(plain, 1).func, Kind().method.__defaults__]
    held += [typing.get_type_hints(plain), typing.get_type_hints(Kind), caught(typing.get_type_hints, ctx)]
    held += [caught(typing.get_type_hints, types.SimpleNamespace()), caught(inspect.signature, type(tb))]
    made = type("Made", (Kind,), {"y": 1, "_z": 2, "total": lambda self: self.y})
    data = dataclasses.make_dataclass("Data", [("a", int), ("_b", "str", 2)], bases=(made,))
    held += [made, made(), data, data(1), Kind.show, Kind().show, Kind().show(1), Kind().show("a")]
    held += [caught(type, "A", (int,), {"__slots__": ("a",)}), caught(type, "A", (type,), {})]
    held += [os.environ, os.getenv("HOME"), caught(lambda: os.environ["HOME"]), type(os.environ)]
    held += [types.GeneratorType, types.UnionType, type(plain)]
    return len(held)
