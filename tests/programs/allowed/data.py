from __future__ import annotations

import copy
import dataclasses
import json
from collections import ChainMap, Counter, OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import KW_ONLY, InitVar, asdict, astuple, dataclass, field, fields, replace
from types import SimpleNamespace
from typing import ClassVar


@dataclass(order=True)
class Point:
    x: int
    y: int = 0
    _hidden: int = field(default=7, repr=True)
    tags: list[str] = field(default_factory=list, compare=False)
    total: ClassVar[int] = 3
    scale: InitVar[int] = 1

    def __post_init__(self, scale):
        self.x *= scale

    @classmethod
    def origin(cls) -> Point:
        return cls(0, 0)


@dataclass(frozen=True, slots=True)
class Pair:
    a: int
    _: KW_ONLY
    b: Pair | None = None


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)

    def total(self):
        return self.value + sum(c.total() for c in self.children)


class Lower(UserDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)


class Encoder(json.JSONEncoder):
    def default(self, o):
        if dataclasses.is_dataclass(o):
            return asdict(o)
        return super().default(o)


def tries(function, *args, **options):
    try:
        return function(*args, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run(ctx, inputs):
    out = []
    p = Point(1, 2, tags=["a"], scale=3)
    out += [p, Point(_hidden=1, x=5), p._hidden, asdict(p), astuple(p), [f.name for f in fields(p)]]
    out += [replace(p, _hidden=9, scale=1), p < Point(9), Point.origin(), Point.total, p == copy.deepcopy(p)]
    out += [Pair(1, b=Pair(2)), tries(setattr, Pair(1), "a", 2), hash(Pair(1)) == hash(Pair(1))]
    out += [Tree(1, [Tree(2), Tree(3, [Tree(4)])]).total(), asdict(Tree(1, [Tree(2)]))]
    c = copy.copy(p)
    c.tags.append("b")
    d = copy.deepcopy(p)
    d.tags.append("c")
    out += [p.tags, d.tags, json.dumps({"p": p}, cls=Encoder, sort_keys=True), tries(json.dumps, {1: object})]
    ns = SimpleNamespace(a=1, _b=2)
    ns.c = 3
    out += [ns, ns._b, vars(ns)["a"], ns == SimpleNamespace(a=1, _b=2, c=3)]
    low = Lower()
    low["ABC"] = 1
    out += [dict(low), "abc" in low]
    N = namedtuple("N", "a b", defaults=[2])
    out += [N(1), N._fields, N(1)._asdict(), tries(namedtuple, "N", "_a"), tries(namedtuple, "N", ["a b"])]
    R = namedtuple("R", ["a", "def", "a"], rename=True)
    out += [R(1, 2, 3), R(1, 2, 3)._1]
    dd = defaultdict(list)
    dd["x"].append(1)
    out += [dd, Counter("hello").most_common(2), deque([1, 2, 3], maxlen=2), ChainMap({"a": 1}, {"b": 2})["b"], OrderedDict(a=1)]
    out += [{"_id": 1} | dict(_id=2), (lambda **kw: kw)(_x=1, y=2), "{_x}-{p.x}-{p._hidden}-{0!r:>5}".format("q", _x=1, p=p)]
    out += ["{0.__class__.__name__}|{p.tags[0]}".format(p, p=p), "{a[b]}".format(a={"b": 1}), "{:{w}}|{:>{}}".format(1, 2, 5, w=3), "{k}".format_map({"k": 5})]
    out += [tries("{} {}".format, 1), tries("{a}".format), str.format("{}", 1), list(map("{:02d}".format, [1, 2]))]

    def outer(_private, *, _kw=1):
        __local = _private + _kw
        return __local, sorted(locals())

    out += [outer(1, _kw=4)]
    match p:
        case Point(x=3, _hidden=h, tags=[first, *rest]):
            out.append((h, first, rest))
    match {"k": [1, 2], "z": 3}:
        case {"k": [a, b], **rest}:
            out.append((a, b, rest))
    match (1, "x", None):
        case (int(n), str() as s, None) if n:
            out.append((n, s))
    match p:
        case Point(a, b):
            out.append((a, b))
    out += [sorted(["b", "A"], key=str.lower), max({"a": 1, "b": 3}.items(), key=lambda kv: kv[1])]
    out += [isinstance(True, (int, str)), issubclass(bool, int), type(3) is int, type("x") == str, callable(len), type(p)(1)]
    return [repr(x) for x in out]
