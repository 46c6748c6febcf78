import abc
import enum
import functools
from abc import ABC, ABCMeta, abstractmethod
from typing import ClassVar, Generic, NamedTuple, Optional, Protocol, TypedDict, TypeVar, runtime_checkable

T = TypeVar("T")


class Shape(ABC):
    _registry: ClassVar[dict] = {}
    count = 0

    def __init_subclass__(cls, tag=None, **kwargs):
        super().__init_subclass__(**kwargs)
        Shape._registry[tag or cls.__name__] = cls

    def __init__(self, name="shape"):
        self._name = name
        self.__secret = len(name)
        Shape.count += 1
        self.__class__.count += 1

    @property
    def name(self):
        return self._name

    @name.setter
    def name(self, value):
        if not value:
            raise ValueError("empty")
        self._name = value

    @abstractmethod
    def area(self): ...

    def secret(self):
        return self.__secret

    def __repr__(self):
        return f"{self.__class__.__name__}({self._name!r})"

    def __lt__(self, other):
        return self.area() < other.area()


class Square(Shape, tag="sq"):
    def __init__(self, side):
        super().__init__("square")
        self.side = side
        self.__secret = "own"

    def area(self):
        return self.side**2

    def both(self):
        return [self.__secret, self.secret(), self._Shape__secret]


class Circle(Shape):
    def area(self):
        return 3


class Other(metaclass=ABCMeta):
    @abc.abstractmethod
    def f(self): ...


class Singleton:
    _instance = None

    def __new__(cls, *args, **kwargs):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance


class Frozen:
    def __init__(self, a):
        object.__setattr__(self, "a", a)
        super().__setattr__("_b", a + 1)

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot set {name}")


class Recorder:
    def __init__(self):
        self.__dict__["seen"] = []

    def __setattr__(self, name, value):
        self.seen.append(name)
        self.__dict__[name] = value

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return "auto:" + name

    def __delattr__(self, name):
        self.seen.append("del " + name)
        super().__delattr__(name)


class Typed:
    def __init__(self, kind):
        self.kind = kind

    def __set_name__(self, owner, name):
        self.name = name
        self.private = "_" + name

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        return getattr(obj, self.private, None)

    def __set__(self, obj, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name} must be {self.kind.__name__}")
        setattr(obj, self.private, value)


class Person:
    age = Typed(int)
    _hidden = Typed(str)
    __slots__ = ("_age", "__private", "open", "__dict__")

    def __init__(self, age):
        self.age = age
        self.__private = age * 2
        self._hidden = "h"

    def get(self):
        return self.__private, self._hidden


class Stack(Generic[T]):
    def __init__(self, items: Optional[list[T]] = None) -> None:
        self._items: list[T] = list(items or [])

    def push(self, item: T) -> "Stack[T]":
        self._items.append(item)
        return self

    def __len__(self):
        return len(self._items)

    def __iter__(self):
        yield from self._items

    def __getitem__(self, index):
        return self._items[index]

    def __contains__(self, item):
        return item in self._items

    def __bool__(self):
        return bool(self._items)

    def __eq__(self, other):
        return isinstance(other, self.__class__) and self._items == other._items

    def __hash__(self):
        return hash(tuple(self._items))


class Vector(NamedTuple):
    x: float
    y: float = 0.0

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)


class Movie(TypedDict, total=False):
    title: str
    year: int


@runtime_checkable
class Closer(Protocol):
    def close(self) -> None: ...


class Door:
    def close(self):
        return "closed"


class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    BLUE = 3

    @property
    def low(self):
        return self.name.lower()

    @classmethod
    def _missing_(cls, value):
        return cls.RED


class Perm(enum.IntFlag):
    R = 4
    W = 2
    X = 1


class Planet(enum.Enum):
    EARTH = (1, 2)
    MARS = (3, 4)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius


class Coded(str, enum.Enum):
    A = "a"

    def __new__(cls, value):
        obj = str.__new__(cls, value)
        obj._value_ = value
        obj.label = value.upper()
        return obj


@functools.total_ordering
class Version:
    def __init__(self, text):
        self.parts = tuple(map(int, text.split(".")))

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts


class Meta(dict):
    def __missing__(self, key):
        self[key] = key * 2
        return self[key]

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


class Node:
    def __init__(self, func, obj=None, parser=None):
        self.func = func
        self.obj = obj
        self.parser = parser
        self.format = lambda: "formatted"

    def mro(self):
        return "mine"

    def bump(self):
        self.obj += 1
        self.obj *= 2
        self.func, (self.parser, *self.gen) = 1, (2, 3, 4)
        for self.obj_ in range(3):
            pass
        return self.obj, self.func, self.parser, self.gen


class _Private:
    class _Inner:
        _x = 5
        _y = _x + 1

        def __get(self):
            return self._y

        def get(self):
            return self.__get()

    def _method(self):
        return self._Inner().get()


def tries(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run(ctx, inputs):
    out = []
    s = Square(3)
    out += [s.area(), s.both(), repr(s), s.name, sorted(Shape._registry), Shape.count, Square.count]
    s.name = "big"
    out += [s._name, tries(setattr, s, "name", ""), s < Circle(), vars(s) == s.__dict__]
    out += [sorted(vars(s)), tries(Shape), isinstance(s, Shape), issubclass(Square, Shape)]
    out += [Singleton() is Singleton(), tries(Other)]
    f = Frozen(1)
    out += [f.a, f._b, tries(setattr, f, "a", 2), tries(setattr, f, "_b", 2)]
    r = Recorder()
    r.a = 1
    r._b = 2
    del r._b
    out += [r.seen, r.zzz, hasattr(r, "_zzz"), r.__dict__, getattr(r, "_b", "gone")]
    p = Person(4)
    out += [p.age, p.get(), tries(setattr, p, "age", "x"), Person.age.name, p._age]
    st = Stack([1]).push(2)
    out += [len(st), list(st), st[0], 2 in st, bool(Stack()), st == Stack([1, 2]), hash(st) == hash((1, 2))]
    out += [Stack[int]([3])._items, Vector(1) + Vector(2, 3), Vector(1)._asdict(), Vector._fields, Vector(1)._replace(x=9)]
    out += [Movie(title="x"), isinstance(Door(), Closer), isinstance(3, Closer)]
    out += [Color.RED, Color("g").low, Color(99), list(Color), Color["BLUE"].value, [c.name for c in Color], Color.__members__.keys() >= {"RED"}]
    out += [Perm.R | Perm.W, Perm(7) & Perm.X, Planet.MARS.radius, Coded.A.label, Coded("a") is Coded.A, Coded.A == "a"]
    out += [Version("1.2") <= Version("1.10"), max([Version("1.2"), Version("1.10")], key=lambda v: v.parts).parts]
    m = Meta(a=1)
    out += [m["zz"], m.a, tries(lambda: m.nope)]
    n = Node(len, 5)
    out += [n.func("abc"), n.obj, n.mro(), n.format(), n.bump(), hasattr(n, "parser"), getattr(n, "func")]
    out += [_Private()._method(), _Private._Inner.__name__, _Private._method.__name__, _Private.__qualname__, _Private._Inner.__qualname__]
    E = enum.Enum("E", "A B")
    out += [list(E), E.A.value, type(E.A).__name__, type(s).__name__, type(Door) is type, isinstance(Square, type)]
    return [repr(x) for x in out]
