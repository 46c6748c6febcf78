import copy, dataclasses, enum, functools, pprint, sys
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, MISSING, FrozenInstanceError, InitVar, asdict, astuple, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")


def tries(function, *args, **options):
    try:
        return repr(function(*args, **options))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@dataclass
class Plain:
    a: int
    b: str = "x"
    _c: list = field(default_factory=list)
    __d: float = 1.5
    total: ClassVar[int] = 7
    start: InitVar[int] = 3

    def __post_init__(self, start):
        self._c.append(start)


@dataclass(frozen=True, order=True)
class Frozen:
    x: int
    y: int = field(default=0, compare=False)
    z: dict = field(default_factory=dict, repr=False, hash=False)


@dataclass(slots=True)
class Slotted(Generic[T]):
    name: T
    size: int = 0
    made: list = field(default_factory=list, init=False)
    fixed: int = field(default=4, init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tight:
    first: int
    second: int = 2


@dataclass
class Base:
    base: int = 1
    _: KW_ONLY
    word: str = "w"


@dataclass
class Derived(Base):
    more: int = 2
    base: int = 10
    late: "ClassVar[int]" = 3
    text: "int" = 4


@dataclass(eq=False, repr=False)
class Bare:
    gi_frame: int = 1
    obj: Any = None
    format: str = "f"


@dataclass(unsafe_hash=True)
class Hashed:
    a: int
    b: int = field(default=1, hash=False)


@dataclass
class Node:
    self: int
    children: list = field(default_factory=list)


class Shape(ABC):
    @abstractmethod
    def area(self): ...


@dataclass
class Square(Shape):
    """A square."""

    side: float

    def area(self):
        return self.side**2


class Watched:
    seen = []

    def __init_subclass__(cls, **options):
        Watched.seen.append((cls.__name__, sorted(options)))


@dataclass(slots=True)
class Child(Watched, tag=1):
    a: int = 1


class Typed:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, owner=None):
        return 5 if obj is None else obj.__dict__.get(self.name, 5)

    def __set__(self, obj, value):
        obj.__dict__[self.name] = int(value)


@dataclass
class Described:
    n: int = Typed()


def bad():
    def default_after():
        @dataclass
        class C:
            a: int = 1
            b: int

    def mutable():
        @dataclass
        class C:
            a: list = []

    def thaw():
        @dataclass
        class C(Frozen):
            a: int = 1

    def freeze():
        @dataclass(frozen=True)
        class C(Plain):
            e: int = 1

    def unannotated():
        @dataclass
        class C:
            a = field(default=1)

    def order_alone():
        @dataclass(order=True, eq=False)
        class C:
            a: int

    def both():
        field(default=1, default_factory=list)

    def overwrite():
        @dataclass(order=True)
        class C:
            a: int

            def __lt__(self, other):
                return True

    def hash_given():
        @dataclass(unsafe_hash=True)
        class C:
            a: int

            def __hash__(self):
                return 1

    def slots_given():
        @dataclass(slots=True)
        class C:
            __slots__ = ("a",)
            a: int

    def weak_alone():
        @dataclass(weakref_slot=True)
        class C:
            a: int

    def factory_for_class():
        @dataclass
        class C:
            a: ClassVar[list] = field(default_factory=list)

    def two_marks():
        @dataclass
        class C:
            a: KW_ONLY
            b: KW_ONLY

    def unknown():
        dataclass(fast=True)

    checks = [default_after, mutable, thaw, freeze, unannotated, order_alone, both, overwrite, hash_given]
    checks += [slots_given, weak_alone, factory_for_class, two_marks, unknown]
    return [tries(check) for check in checks]


def run(ctx, inputs):
    p = Plain(1, _c=[9])
    out = [p, Plain(1) == Plain(1), Plain(1) == Plain(2), Plain(1) != 1, p._c, p.total, asdict(p), astuple(p)]
    out += [tries(Plain), tries(Plain, 1, nope=2), tries(hash, p), Plain.__doc__, Plain(2, start=5)._c]
    out += [[(f.name, f.init, f.repr, f.kw_only, f.default is MISSING) for f in fields(Plain)]]
    f, g = Frozen(1, 5), Frozen(1, 6)
    out += [f, f == g, f < Frozen(2), f <= g, sorted([Frozen(3), Frozen(1)]), hash(f) == hash(g), {f: 1}[g]]
    out += [tries(setattr, f, "x", 2), tries(setattr, f, "new", 2), tries(delattr, f, "x"), tries(lambda: f < 1)]
    s = Slotted("n")
    out += [s, s.made, s.fixed, tries(setattr, s, "other", 1), hasattr(s, "__dict__"), Slotted[int]("k", 3), s == Slotted("n")]
    t = Tight(first=1)
    out += [t, tries(Tight, 1), tries(setattr, t, "first", 3), replace(t, second=9), copy.copy(t), copy.deepcopy(t) == t]
    out += [Base(5, word="v"), tries(Base, 5, "v"), Derived(), Derived(1, 2, text=3), Derived.late, [x.name for x in fields(Derived)]]
    b = Bare()
    out += [b.gi_frame, b.obj, b.format, b == Bare(), b == b]
    out += [hash(Hashed(1, 2)) == hash(Hashed(1, 3)), Node(1), Node(1, [Node(2)]) == Node(1, [Node(2)])]
    n = Node(0)
    n.children.append(n)
    out += [n, pprint.pformat(Node(1, list(range(40)))), pprint.pformat(p)]
    out += [Square(2).area(), Square.__doc__, tries(Shape), Watched.seen, Child(), Described("3").n, Described().n]
    out += [is_dataclass(p), is_dataclass(Plain), is_dataclass(1), tries(fields, 1), tries(asdict, 1), tries(astuple, 1), tries(replace, 1)]
    out += [replace(p, a=4, start=1), tries(replace, p, total=1), tries(replace, s, made=[1]), asdict(n.__class__(1, [Node(2)]))]
    match Plain(1, "y"):
        case Plain(a, name):
            out += [a, name]
    match Base(8):
        case Base(base, word=word):
            out += [base, word]
    nan = float("nan")
    out += [Hashed(nan) == Hashed(nan), Hashed(nan) == Hashed(float("nan"))]
    out += [repr(fields(Frozen)[1])[:40], Frozen.__doc__, Slotted.__doc__, Tight.__doc__, Bare.__doc__, Base.__doc__]
    return [repr(x) for x in out] + bad()
