import copy
import dataclasses
import functools
import time
import typing


def refusals(*calls):
    found = []
    for call in calls:
        try:
            found.append(repr(call()))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def case_wrong_arguments_of_builtins():
    return refusals(
        lambda: getattr(), lambda: getattr(1), lambda: getattr(1, "a", 2, 3), lambda: getattr(1, name="a"),
        lambda: hasattr(1), lambda: hasattr(1, "a", 2), lambda: setattr(1, "a"), lambda: delattr(1),
        lambda: setattr(obj=1), lambda: type(1, x=1), lambda: type("A", (), []), lambda: type(None, (), {}),
        lambda: type("A", [object], {}), lambda: print(1, colour=2), lambda: print(1, self=2),
        lambda: print(1, sep="", **{"sep": ""}), lambda: print(1, end=2))


def case_wrong_arguments_of_caches():
    decorate = functools.lru_cache(maxsize=3)
    return refusals(
        lambda: functools.cache(3), lambda: functools.cache(), lambda: decorate(3), lambda: decorate(),
        lambda: decorate(user_function=abs)(-3), lambda: dataclasses.dataclass(frozen=True)())


def case_wrong_lengths_of_a_sleep():
    found = refusals(lambda: time.sleep(float("nan")), lambda: time.sleep("1"), lambda: time.sleep(-1))
    types = [text.partition(":")[0] for text in refusals(lambda: time.sleep(1e30), lambda: time.sleep(float("-inf")))]
    return found + types


def case_modules_that_are_not_there():
    found = []
    try:
        import no_such.part
    except ImportError as error:
        found.append([str(error), error.name])
    try:
        import json.decoder.part
    except ImportError as error:
        found.append(type(error).__name__)
    try:
        import math.tau
    except ImportError as error:
        found.append([str(error), error.name])
    try:
        from urllib.no_such import part
    except ImportError as error:
        found.append([str(error), error.name])
    return found


def case_class_of_an_object_in_a_variable():
    class Node:
        def __init__(self, value):
            self.value = value
        def next(self):
            kind = self.__class__
            return kind(self.value + 1)
    return [Node(1).next().value, getattr(Node(1), "__class__") is Node]


def case_parts_of_aliases():
    T = typing.TypeVar("T")
    class Box(typing.Generic[T]): ...
    maybe = int | None
    return [repr(x) for x in (
        list[int].__origin__, dict[str, int].__args__, maybe.__args__, list[T].__parameters__,
        typing.Type[int].__origin__, typing.Callable[[int], str].__args__, Box[int].__args__,
        Box.__parameters__, hasattr(maybe, "__args__"), hasattr(int, "__args__"))]


def case_names_of_fields():
    @dataclasses.dataclass
    class Point:
        x: int
        _y: int = 2
        kind: typing.ClassVar[str] = "point"
    given = {"x": 1, "_y": 3, "z": 4}
    point = Point(**{k: v for k, v in given.items() if k in Point.__dataclass_fields__})
    return [repr(point)[-14:], list(point.__dataclass_fields__), Point.__dataclass_fields__["_y"].default,
            Point.__match_args__, hasattr(int, "__dataclass_fields__")]


class Linked:
    def __init__(self, parts):
        self.parts = parts
    def __deepcopy__(self, memo):
        made = Linked(None)
        memo[id(self)] = made
        made.parts = copy.deepcopy(self.parts, memo)
        return made
    def count(self):
        return len(self.parts)


def case_deepcopy_with_a_memo():
    ring = Linked([1])
    ring.parts.append(ring)
    made = copy.deepcopy({"a": ring, "b": ring})
    memo, inner = {}, [1]
    outer = [inner]
    first = copy.deepcopy(outer, memo)
    second = copy.deepcopy([inner, outer], memo)
    return [made["a"] is made["b"], made["a"].parts[1] is made["a"], made["a"] is not ring,
            second[0] is first[0], second[1] is first, memo[id(inner)] is first[0], id(memo) in memo]


def case_copies_of_functions_with_arguments():
    base = functools.partial(sorted, [2, 1], reverse=True)
    made = copy.deepcopy(base)
    parts = []
    ring = functools.partial(len, parts)
    parts.append(ring)
    looped = copy.deepcopy(ring)
    cached = functools.cache(abs)
    return [made(), made.args[0] is base.args[0], looped.args[0][0] is looped,
            copy.copy(Linked([1, 2]).count)(), copy.deepcopy(cached) is cached]


def case_super_with_arguments():
    class A:
        def f(self):
            return "A"

        @classmethod
        def g(cls):
            return cls.__name__

    class B(A):
        def f(self):
            named = super
            return [super().f(), super(B, self).f(), named(B, self).f(), repr(super), type(super()) is super]

        @classmethod
        def g(cls):
            return super(B, cls).g() + super().g()

    class Doubling(list):
        def append(self, item):
            super(Doubling, self).append(item * 2)

        def extend(self, items):
            [super(Doubling, self).append(item) for item in items]

    class Wrong(ValueError):
        def __init__(self, text):
            super(Wrong, self).__init__(text)

    made = Doubling()
    made.append(2)
    made.extend([3])
    return [B().f(), B.g(), made, str(Wrong("no")), isinstance(super(B, B()), super)]
