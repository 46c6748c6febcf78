"""Conversion of single values in this process: what scripts cannot make, and attacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from typing import Any
from uuid import UUID

import orjson
import pytest
from pydantic import BaseModel

from ptc._wire._parts import PartReader
from ptc._wire._protocol import Kind
from ptc.worker._byte_values import ByteValues
from ptc.worker._convert import Converter, TooHeavyError
from ptc.worker._values import ValueRefused
from ptc.worker._writer import PartWriter, write


def convert(value: Any, **options: Any) -> tuple[Any, list[str]]:
    """Return the JSON data of a value, and the paths that were replaced."""
    converter = Converter("result", **options)
    body = write(value, converter)
    if body is not None:
        return orjson.loads(body), [note.path for note in converter.notes()]
    most = 1 << 30
    reader = PartReader(Kind.DONE, most_bytes=most, most_containers=most, keep_bytes=0)
    for part in PartWriter(value, converter):
        reader.feed(part)
    reader.finish(Kind.DONE)
    return reader.value, [note.path for note in converter.notes()]


class Model(BaseModel):
    n: int
    inner: dict[int, set[int]]


def test_models_become_objects() -> None:
    assert convert([Model(n=1, inner={1: {2}})]) == ([{"n": 1, "inner": {"1": [2]}}], [])


class Class:
    """An object whose class is a lie that raises."""

    @property  # type: ignore[misc]  # that is the attack
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
        raise SystemExit


class Table(Mapping[str, int]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __getitem__(self, key: str) -> int:
        return 1


class Fields(tuple[int, ...]):
    _fields = ("a", "b", "c")


class Forever(Enum):
    ONE = 1

    @property
    def value(self) -> Any:
        return self


class Broken(Enum):
    ONE = 1

    @property
    def value(self) -> Any:
        raise SystemExit


class Zone(tzinfo):
    def utcoffset(self, dt: datetime | None) -> timedelta:
        raise SystemExit

    dst = tzname = utcoffset  # type: ignore[assignment]  # never called


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise KeyboardInterrupt

    def isascii(self) -> bool:
        raise KeyboardInterrupt


class Number(int):
    def __int__(self) -> int:
        raise KeyboardInterrupt

    def __index__(self) -> int:
        raise KeyboardInterrupt

    def __le__(self, other: object) -> bool:
        raise KeyboardInterrupt


@dataclass
class Own:
    me: Any


HOSTILE: dict[str, tuple[Any, Any]] = {
    "class": (Class(), re.compile(r"<.*Class object.*>")),
    "length too short": (Table(0), {"a": 1, "b": 1}),
    "length too long": (Table(10**9), {"a": 1, "b": 1}),
    "wrong fields": (Fields((1, 2)), [1, 2]),
    "enum of itself": (Forever.ONE, "<Forever.ONE: 1>"),
    "enum without a value": (Broken.ONE, "<Broken.ONE: 1>"),
    "zone": (datetime(2026, 1, 2, tzinfo=Zone()), re.compile(r"datetime\.datetime\(.*")),
    "identifier": (object.__new__(UUID), re.compile("<UUID>")),
    "inside": (Own(Broken.ONE), {"me": "<Broken.ONE: 1>"}),
    "set": ({Broken.ONE}, ["<Broken.ONE: 1>"]),
    "text": (Text("a\u1234"), "a\u1234"),
    "number": (Number(7), 7),
    "type": (type, "<class 'type'>"),
    "ellipsis": (..., "Ellipsis"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_value_is_replaced(name: str) -> None:
    value, expected = HOSTILE[name]
    for outer in (lambda v: v, lambda v: [v], lambda v: {"k": v}):
        found, _ = convert(outer([value, float("nan")]))
        while isinstance(found, dict) or (isinstance(found, list) and found[1:] != [None]):
            found = found["k"] if isinstance(found, dict) else found[0]
        if isinstance(expected, re.Pattern):
            assert expected.fullmatch(found[0])
        else:
            assert found[0] == expected


def test_value_that_contains_itself_is_replaced_there() -> None:
    row: dict[str, Any] = {"a": 1}
    row["me"] = [row]
    both: list[Any] = []
    both += [both, both]
    assert convert(row) == ({"a": 1, "me": ["<dict>"]}, ["result.me[0]"])
    assert convert(both) == (["<list>", "<list>"], ["result[0]", "result[1]"])
    shared = [1]
    assert convert([shared, shared]) == ([[1], [1]], [])
    with pytest.raises(ValueRefused, match=r"result.me\[0\]: dict contains itself"):
        list(PartWriter(row, Converter("result", strict=True)))


def test_iterator_is_read_once_however_often_it_is_converted() -> None:
    value = [{"rows": iter([1, 2]), "x": float("nan")}, *["x" * 70_000] * 2]
    converter = Converter("result")
    assert write(value, converter) is None
    assert b"[1,2]" in b"".join(PartWriter(value, converter))


def test_endless_iterator_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptc.worker._convert._MOST_ITEMS", 3)

    def endless() -> Iterator[int]:
        while True:
            yield 0

    assert convert([endless()]) == ([[0, 0, 0]], ["result[0]"])


def test_conversion_is_bounded_in_weight() -> None:
    def wide() -> Any:
        return {1: [[{2: range(1_000)}] * 1_000] * 1_000}

    with pytest.raises(TooHeavyError):
        Converter("result").convert(wide(), "result", 0, 65_536)
    assert write(wide(), Converter("result")) is None


class Octets(bytes):
    def __bytes__(self) -> bytes:
        return self

    def __len__(self) -> int:
        return 0

    def __hash__(self) -> int:
        raise SystemExit

    def __getitem__(self, key: Any) -> Any:
        return 5


def test_bytes_of_a_script_class_are_attached_as_exact_bytes() -> None:
    sent: list[tuple[str, bytes, str]] = []

    def attach(name: str, data: bytes, media_type: str) -> dict[str, str]:
        sent.append((name, data, media_type))
        return {"name": name}

    values = ByteValues(attach)
    value = {"chart": Octets(b"\xff\xd8\xffx"), "same": bytearray(b"\xff\xd8\xffx"), "b": b""}
    found, notes = convert(value, attach=values.handle)
    assert found == {"chart": {"name": "chart.jpg"}, "same": {"name": "chart.jpg"},
                     "b": {"name": "b.bin"}}  # fmt: skip
    assert notes == []
    assert [type(data) for _, data, _ in sent] == [bytes, bytes]


@pytest.mark.parametrize("form", ["null", "text"])
def test_non_finite_keys_and_values(form: Any) -> None:
    value = {float("inf"): [float("-inf")], float("nan"): 1.5}
    replaced = None if form == "null" else "-Infinity"
    assert convert(value, non_finite=form)[0] == {"Infinity": [replaced], "NaN": 1.5}
