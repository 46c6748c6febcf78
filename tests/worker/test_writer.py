"""Writing values in bounded memory: whole or in parts, JSON and errors are the same."""

from __future__ import annotations

import gc
import json
import re
from collections import Counter, OrderedDict, UserList, deque, namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc._wire._bodies import INLINE_BYTES, MAX_DEPTH
from ptc._wire._parts import PartReader, json_of
from ptc._wire._protocol import Kind
from ptc.worker import _writer
from ptc.worker._convert import Converter
from ptc.worker._record import Record
from ptc.worker._values import ValueRefused
from ptc.worker._writer import PartWriter, write, write_scalars

ALPHABETS = {
    "letters": "abc",
    "what JSON escapes": '"\\\b\f\n\r\t\x00\x1f\x7f/',
    "of two, three and four bytes": "é€\U0001f600a",
}


def read_parts(value: Any, *, strict: bool = True) -> PartReader:
    """`value` as it arrives in parts."""
    writer = PartWriter(value, Converter("result", strict=strict))
    reader = PartReader(Kind.DONE, most_bytes=1 << 30, most_containers=1 << 30, keep_bytes=1 << 30)
    for part in writer:
        assert len(part) <= INLINE_BYTES + 1
        reader.feed(part)
    reader.finish(Kind.DONE)
    assert writer.size == reader.size
    return reader


def strict() -> Converter:
    return Converter("result", strict=True)


def dumps(value: Any) -> bytes:
    body = write(value, strict())
    assert body is not None
    return body


def json_of_whole_or_parts(value: Any) -> bytes:
    return write(value, strict()) or json_of_parts(value)


def json_of_parts(value: Any) -> bytes:
    reader = read_parts(value)
    assert reader.root is not None
    data = b"".join(json_of(reader.root))
    assert len(data) == reader.size
    assert json.loads(data) == reader.value
    return data


@pytest.mark.parametrize(
    "value",
    [
        [{"id": i, "name": f"name {i}", "tags": []} for i in range(20_000)],
        {f"row {i}": {"id": i} for i in range(20_000)},
        [[0] * 8_200, 1] * 40,
        {f"{i}": [0] * 8_200 for i in range(40)},
        {"k" * 70_000: ["", "x" * 70_000]},
        [""] * 200_000,
    ],
    ids=["rows", "rows by name", "heavy and light items", "heavy members", "texts", "empty texts"],
)
def test_parts_of_a_large_value_take_little_memory_beside_their_json(value: Any) -> None:
    size = read_parts(value).size
    reader = PartReader(Kind.DONE, most_bytes=10, most_containers=10, keep_bytes=size)
    for part in PartWriter(value, strict()):
        reader.feed(part)
    assert reader.root is not None


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is heavy, so that small values have many parts."""
    monkeypatch.setattr(_writer, "_MOST", 60)
    monkeypatch.setattr(_writer, "_TOO_HEAVY", 61)
    monkeypatch.setattr(_writer, "_USUAL", 45)
    monkeypatch.setattr(_writer, "_PIECE_CHARS", 20)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(max_size=60),
    lambda inner: (
        st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=30), inner, max_size=9)
    ),
    max_leaves=50,
).filter(lambda value: isinstance(value, str | list | dict))  # fmt: skip


@pytest.mark.usefixtures("small")
@given(values)
@settings(deadline=None)
def test_parts_join_to_the_json_of_the_whole_value(value: Any) -> None:
    if json.loads(orjson.dumps(value)) != value:  # orjson writes infinities as null
        with pytest.raises(ValueRefused, match="inf has no JSON form"):
            read_parts(value)
    else:
        assert json_of_parts(value) == orjson.dumps(value)


@pytest.mark.parametrize("name", list(ALPHABETS))
@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 1_000_000])
def test_long_text_matches_the_output_of_orjson(name: str, length: int) -> None:
    alphabet = ALPHABETS[name]
    text = (alphabet * (length // len(alphabet) + 1))[:length]
    for value in (text, {"a": [1, text, {"b": text}], "c": None}, [text], Record(row=text)):
        assert json_of_parts(value) == orjson.dumps(value)


LARGE: dict[str, Any] = {
    "numbers": [0] * 300_000,
    "long numbers": [2**64 - 1] * 30_000,
    "floats": [1 / 3] * 30_000,
    "nothing": [None] * 100_000,
    "lists": [[]] * 100_000,
    "lists in lists": [[[n], [[]]] for n in range(20_000)],
    "texts": ["abcdefgh"] * 100_000,
    "longer texts": ["x" * 40_000] * 20,
    "keys": {str(n): n for n in range(100_000)},
    "a long key": {"k" * 200_000: 5, "l" * 200_000: [], "m": None},
    "rows": [{"id": n, "name": f"row {n}", "tags": ["a", "b"]} for n in range(20_000)],
    "one heavy item": [*range(1_000), ["x" * 500_000, *range(1_000)], *range(1_000)],
    "one heavy member": {**dict.fromkeys("abc", 1), "d": {"e": [0] * 100_000}, "z": None},
    "tuples": tuple((n, (str(n),)) for n in range(30_000)),
    "deep": json.loads("[" * 150 + "1," * 100_000 + "1" + "]" * 150),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", list(LARGE))
def test_large_value_is_written_in_parts(name: str) -> None:
    value = LARGE[name]
    assert write(value, strict()) is None
    assert json_of_parts(value) == orjson.dumps(value)


class Color(Enum):
    RED = "red"
    MANY = ("x", [1, 2])


class Number(IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()

    def __len__(self) -> int:
        return -1


class Items(list[Any]):
    def __iter__(self) -> Any:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError


@dataclass
class Point:
    x: int
    more: Any = field(default_factory=dict)


Pair = namedtuple("Pair", "left right")
ODD: list[Any] = [
    {1, 2, 3},
    frozenset({"a"}),
    deque([1, [2]]),
    Counter("aab"),
    OrderedDict(a=1, b={"c": 2}),
    Color.RED,
    Color.MANY,
    Number.ONE,
    Text("abc"),
    Items([1, {"a": Items([2])}]),
    Point(1, [Point(2), {3}]),
    Pair(1, {"a": Pair(2, 3)}),
    date(2026, 1, 2),
    datetime(2026, 1, 2, 3, 4, 5),
    timedelta(seconds=90),
    Decimal("1.50"),
    UUID(int=5),
    range(3),
    {"a": 1}.keys(),
    {"a": [1]}.values(),
    (1, (2, {3})),
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_other_types_are_written_identically_whole_and_in_parts(value: Any) -> None:
    whole = dumps([value])
    many = [value, {"k": value}] * 3_000
    expected = b"[" + b",".join([whole[1:-1], b'{"k":' + whole[1:-1] + b"}"] * 3_000) + b"]"
    assert json_of_parts(many) == expected


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_single_value_of_another_type_is_written_in_parts(value: Any) -> None:
    for outer in ([value], {"k": value}, [[{"k": [value]}]]):
        converted = strict().convert(outer, "result", 0, 1 << 30)
        assert json.loads(json_of_parts(outer)) == json.loads(orjson.dumps(converted))


REFUSED: list[tuple[Any, str]] = [
    ([*range(9_000), b"x"], r"^result\[9000\]: bytes has no JSON form"),
    (
        {**{str(n): n for n in range(9_000)}, "bad": [1, {(2,): 3}]},
        r"^result.bad\[1\]: a tuple has no form as a key",
    ),
    (dict.fromkeys([*map(str, range(9_000)), 5]), r"^result: two keys have the same text"),
    ([["x" * 200_000, float("nan")]], r"^result\[0\]\[1\]: nan has no JSON form"),
    (["x" * 200_000 + "\ud800"], r"^result\[0\]: text with a lone surrogate"),
    ({"x" * 200_000 + "\ud800": 1}, "text with a lone surrogate"),
    ([[10**4300], *["x" * 70_000] * 2], r"^result\[0\]\[0\]: integer of more than 4,300"),
    ([*[[0] * 9_000] * 3, [Point(1, [object()])]], r"^result\[3\]\[0\]\.more\[0\]: object has no"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refusal_inside_a_large_value_names_its_path(value: Any, message: str) -> None:
    assert write(value, strict()) is None
    with pytest.raises(ValueRefused, match=message):
        read_parts(value)


@pytest.mark.slow
@pytest.mark.parametrize("heavy", [False, True])
def test_worker_enforces_the_depth_limit_of_the_host(*, heavy: bool) -> None:
    extra = ["x" * 200_000] if heavy else []

    def nested(levels: int, inner: Any) -> Any:
        for _ in range(levels):
            inner = [inner, *extra][: 1 + heavy]
        return inner

    inners: list[Any] = [[], {}, {1}, Point(1, 2), Pair(1, 2), [1]]
    for inner in inners:
        for value in (nested(MAX_DEPTH - 1, inner),):
            body = write(value, strict())
            if heavy:
                assert body is None
                read_parts(value)
            else:
                assert body is not None
        for value in (nested(MAX_DEPTH, inner), nested(MAX_DEPTH + 60, inner)):
            for attempt in (json_of_whole_or_parts, read_parts):
                with pytest.raises(ValueRefused, match="nested deeper than 200 levels"):
                    attempt(value)


class Hook:
    """Code of a script that a conversion calls: it empties the list or object around it."""

    def __init__(self) -> None:
        self.around: Any = None
        self.calls: list[bool] = []
        self.within = False

    def __call__(self) -> None:
        self.calls.append(self.within)
        self.around.clear()


HOOK = Hook()


class Members(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        return 1

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[str]:
        HOOK()
        return iter(["m"])


class Zone(tzinfo):
    def dst(self, _: Any) -> None: ...

    def tzname(self, _: Any) -> None: ...

    def utcoffset(self, _: Any) -> timedelta:
        HOOK()
        return timedelta(hours=1)


class Ordered:
    def __lt__(self, other: object) -> bool:
        HOOK()
        return True

    @property
    def value(self) -> int:
        HOOK()
        return 1


class Day(date):
    def isoformat(self) -> str:
        HOOK()
        return "2026-11-26"


class Words(UserList[str]):
    def __getattribute__(self, name: str) -> Any:
        if name == "data":
            HOOK()
        return super().__getattribute__(name)


class Amount(Decimal):
    def __str__(self) -> str:
        HOOK()
        return "1"


@dataclass
class Row:
    @property
    def x(self) -> int:
        HOOK()
        return 1


Row.__dataclass_fields__["x"] = Point.__dataclass_fields__["x"]


class Choice(Enum):
    A = 1

    @property
    def value(self) -> int:
        HOOK()
        return 1


HOSTILE: dict[str, Callable[[], Any]] = {
    "mapping": Members,
    "time zone": lambda: datetime(2026, 1, 1, tzinfo=Zone()),
    "set": lambda: {Ordered(), Ordered()},
    "frozenset": lambda: frozenset([Ordered(), Ordered()]),
    "date": lambda: Day(2026, 1, 1),
    "list": lambda: Words(["a"]),
    "decimal": lambda: Amount(1),
    "dataclass": Row,
    "enum": lambda: Choice.A,
    "deque": lambda: deque([Members()]),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("shape", ["list", "object"])
def test_no_code_of_a_script_runs_while_orjson_holds_its_values(
    name: str, depth: int, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """orjson would go on in memory that the list no longer has."""
    HOOK.calls = []
    HOOK.around = [0] * 8 + [HOSTILE[name]()] + [1] * 71
    if shape == "object":
        HOOK.around = {f"k{at}": item for at, item in enumerate(HOOK.around)}
    value = [HOOK.around] if depth else HOOK.around
    real = orjson.dumps

    def dumps(*args: Any, **options: Any) -> bytes:
        HOOK.within = True
        try:
            return real(*args, **options)
        finally:
            HOOK.within = False

    monkeypatch.setattr(orjson, "dumps", dumps)
    body = write(value, Converter("result"))
    assert HOOK.calls, "no code of the script ran"
    assert not any(HOOK.calls), "orjson held a list or an object of the script"
    assert body is not None
    assert len(json.loads(body)) in (0, 1, 80), "as it was before, or as the hook left it"


def test_garbage_of_a_script_is_not_collected_while_orjson_holds_its_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A generator of the script would be executed to its end, and could shorten the list."""
    real, enabled = orjson.dumps, []

    def dumps(*args: Any, **options: Any) -> bytes:
        enabled.append(gc.isenabled())
        return real(*args, **options)

    monkeypatch.setattr(orjson, "dumps", dumps)
    assert write([Decimal(1), {1, 2}], strict()) == b'["1",[1,2]]'
    assert enabled == [False]
    assert gc.isenabled()


def test_writer_refuses_a_self_referencing_value() -> None:
    endless: list[Any] = [0] * 10_000
    endless.append(endless)
    twice: list[Any] = []
    twice += [twice, twice]
    circle: dict[str, Any] = {}
    circle["a"] = {"b": circle}
    for value in (endless, twice, circle):
        assert write(value, strict()) is None
        with pytest.raises(ValueRefused, match="contains itself"):
            read_parts(value)


class Odd:
    """A dataclass with a field that raises."""

    __dataclass_fields__ = Point(1).__dataclass_fields__

    @property
    def x(self) -> int:
        msg = "the script's own"
        raise KeyError(msg)


def test_exception_raised_by_a_script_value_refuses_an_argument() -> None:
    for value in ([Odd()], [Odd(), *["x" * 70_000] * 2]):
        with pytest.raises(ValueRefused, match=r"^result\[0\]: Odd raised KeyError"):
            write(value, strict()) or read_parts(value)


def test_an_error_about_a_value_calls_no_method_of_the_script() -> None:
    def lie(*_: object, **__: object) -> Any:
        raise AssertionError("a method of the script was called")

    def liar(base: Any, *names: str) -> Any:
        return type("Liar", (base,), {"__slots__": (), **dict.fromkeys(names, lie)})

    text = liar(str, "__str__", "__iter__", "__len__", "encode", "isascii")
    number = liar(int, "__int__", "__index__", "__le__", "__ge__", "__lt__", "__gt__")
    real = liar(float, "__float__", "__repr__", "__format__")
    items, pair = (liar(kind, "__iter__", "__len__", "__getitem__") for kind in (list, tuple))
    table = liar(dict, "items", "keys", "__iter__", "__len__", "__getitem__")
    for value, message in [
        (text("\ud800"), "result: text with a lone surrogate is not valid Unicode"),
        (number(10**4300), "result: integer of more than 4,300 digits; pass hex(value)"),
        (real("nan"), "result: nan has no JSON form; use None or a string"),
        (items([1, b""]), "result[1]: bytes has no JSON form; return text"),
        (pair([1, b""]), "result[1]: bytes has no JSON form; return text"),
        (table(a=b""), "result.a: bytes has no JSON form; return text"),
        (table({text("a\ud800"): 1}), "result: text with a lone surrogate"),
    ]:
        with pytest.raises(ValueRefused, match=f"^{re.escape(message)}"):
            write(value, strict()) or read_parts(value)


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20)


@given(st.dictionaries(st.text(max_size=8), SCALARS, max_size=6))
@settings(deadline=None)
def test_object_of_scalars_is_written_as_any_object(members: dict[str, Any]) -> None:
    body = write_scalars(members)
    large = [v for v in members.values() if isinstance(v, int) and not -(2**63) <= v < 2**64]
    assert (body is None) == bool(large)
    if body is not None:
        assert body == dumps(members)


@pytest.mark.parametrize(
    "members",
    [
        {"a": 0.5}, {"a": float("nan")}, {"a": [1]}, {"a": {}}, {"a": Number.ONE}, {"a": Text("b")},
        {Text("a"): 1}, {1: 1}, {"a": "\ud800"}, {"\ud800": 1}, {"a": 2**64}, {"a": "b" * 800},
        {"a" * 800: 1}, dict.fromkeys(map(str, range(101))),
    ],
)  # fmt: skip
def test_object_of_other_values_is_left_to_the_general_writer(members: dict[Any, Any]) -> None:
    assert write_scalars(members) is None
