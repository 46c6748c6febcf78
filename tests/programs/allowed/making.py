import abc
import collections
import copy
import dataclasses
import enum
import functools
import typing
from dataclasses import dataclass, field

T = typing.TypeVar("T")


def tries(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Lazy:
    def __init__(self):
        self.asked = 0

    @functools.cached_property
    def total(self):
        "how many"
        self.asked += 1
        return self.asked * 10

    @functools.cached_property
    def _hidden(self):
        return self.total + 1


class Slotted:
    __slots__ = ["_a", "b"]

    @functools.cached_property
    def c(self):
        return 1

    def __init__(self, a, b):
        self._a, self.b = a, b


class Described:
    __slots__ = {"x": "the x", "_y": "the y"}


@dataclass(frozen=True, slots=True)
class Point:
    x: list
    _y: int = 2


@dataclass(order=True)
class Base:
    a: int
    _b: list = field(default_factory=list, compare=False)


@dataclass
class Child(Base):
    c: str = "c"


class Tree(typing.Generic[T]):
    def __init__(self, left: "Tree[T] | None" = None):
        self.left = left


class Leaf(Tree[int], abc.ABC):
    pass


class Pair(typing.NamedTuple):
    key: str
    value: int = 0


class Row(typing.TypedDict, total=False):
    id: int


class Text(str, enum.Enum):
    title = "t"
    index = "i"
    plain = "p"


class Bag(dict):
    def __copy__(self):
        made = type(self)(self)
        made.copied = True
        return made


class Plugin:
    known = {}

    def __init_subclass__(cls, /, name="", **more):
        cls.known[name or cls.__name__] = more


class Named(Plugin, name="n", bases=1, self=2, namespace=3, function=4):
    pass


class Queue(collections.UserList):
    kind = "fifo"


def run(ctx, inputs):
    out = []
    lazy = Lazy()
    out += [lazy.total, lazy.total, lazy._hidden, lazy.asked, sorted(vars(lazy)), Lazy.total.__doc__]
    lazy.total = 5
    out += [lazy.total]
    del lazy.total
    out += [lazy.total, lazy.asked]
    s = Slotted([1], 2)
    out += [tries(lambda: s.c).split(":")[0], copy.copy(s)._a is s._a, copy.deepcopy(s)._a is s._a, copy.deepcopy(s).b]
    d = Described()
    d.x, d._y = 1, 2
    out += [copy.copy(d)._y]
    p = Point([1])
    out += [copy.copy(p) == p, copy.copy(p).x is p.x, copy.deepcopy(p) == p, copy.deepcopy(p).x is p.x, p]
    c = Child(1, [2])
    out += [c, copy.copy(c)._b is c._b, copy.deepcopy(c)._b is c._b, Base(1) < Base(2), dataclasses.replace(c, c="d")]
    out += [[f.name for f in dataclasses.fields(Child)], dataclasses.asdict(c), dataclasses.astuple(c)]
    leaf = Leaf(Tree())
    again = copy.deepcopy(leaf)
    out += [isinstance(leaf, Tree), type(again).__name__, again.left is leaf.left, issubclass(Leaf, Tree)]
    out += [Pair("a"), Pair("a")._replace(value=2), Row(id=1), copy.copy(Pair("x", 1)), copy.deepcopy([Pair("x", 1)])]
    out += [Text.title.value, Text("i") is Text.index, Text.title.name, Text.plain.upper(), Text.plain == "p"]
    out += [copy.copy(Text.title) is Text.title, copy.deepcopy([Text.title])[0] is Text.title]
    b = Bag(x=[1])
    out += [copy.copy(b).copied, copy.copy(b)["x"] is b["x"], copy.deepcopy(b), hasattr(copy.deepcopy(b), "copied")]
    out += [Plugin.known]
    q = Queue([[1], 2])
    out += [copy.copy(q), copy.copy(q)[0] is q[0], copy.deepcopy(q)[0] is q[0], q.kind]
    error = copy.copy(KeyError("k"))
    out += [repr(error), copy.copy([1, [2]]), copy.copy(len) is len, type("{}".format).__name__]
    try:
        from math import missing
    except ImportError as missing_error:
        out += ["no such name"]
    return [repr(x) for x in out]
