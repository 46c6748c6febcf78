"""Values as JSON in bounded memory: in one piece if they are light, otherwise in parts.

orjson does not survive a refused allocation, and reserves up to 256 bytes for each item of a list
and 8 for each character before it writes them. So a value is weighed first, and no call of orjson
gets more than `_MOST`.

Rule 1: writing any value takes a bounded amount of memory beside the value.
    tests/core/runs/test_intake.py::test_value_is_written_with_little_memory_left
Rule 2: the parts of a value make the JSON that orjson would write.
    tests/worker/test_writer.py::test_parts_join_to_the_json_of_the_whole_value
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from .._wire._bodies import INLINE_BYTES, MAX_DEPTH, ProtocolError, decode
from . import _values
from ._convert import Converter, TooHeavyError
from ._record import Record
from ._values import Wide, require_room

__all__ = ["PartWriter", "write", "write_scalars"]

_MOST = 65_536
"""Largest weight that one call of orjson gets: 8 for each value, 1 for each character."""
_VALUE_WEIGHT = 8
_USUAL = _MOST * 3 // 4
"""Target weight of a batch, so that few batches are weighed in vain."""
_TOO_HEAVY = _MOST + 1
_SMALL = 800
"""Weight up to which free memory is not checked: the check takes longer than writing."""
_ROOM_BYTES = 6 << 20
"""More than the 4 MiB that orjson was seen to allocate for `_MOST`."""
_PIECE_CHARS = 32_768
_FIRST_BATCH, _LARGEST_BATCH = 64, 6_000
"""Items of a list or members of an object that are written at once. 6,000 of the longest numbers
just fit into `INLINE_BYTES`."""


def write(value: object, converter: Converter) -> bytes | None:
    """Write `value` as JSON; return None if it is too heavy to be written at once.

    Args:
        value: Any object of a script.
        converter: Converts the parts that have no exact JSON form.

    Raises:
        ValueRefused: If a part has no JSON form and the converter is strict, with the path to it.
        MemoryError: If there is not enough memory to write it.
    """
    return _write(value, 0, partial(converter.convert, value, converter.what, 0, _MOST))[0]


def write_scalars(members: dict[str, Any]) -> bytes | None:
    """Write an object of a few scalars, such as most arguments; return None for any other.

    Takes 1 us, `write` 7.
    """
    kinds = map(type, members.values())
    if not (_EXACT.issuperset(kinds) and _TEXT.issuperset(map(type, members))):
        return None
    texts = [value for value in members.values() if type(value) is str]
    weight = len(members) * _VALUE_WEIGHT + sum(map(len, members)) + sum(map(len, texts))
    if weight > _SMALL:
        return None
    try:
        return orjson.dumps(members, option=_values.OPTIONS)
    except TypeError:
        # A large integer, or a text with a lone surrogate: `write` converts or explains it.
        return None


def _write(value: object, depth: int, convert: Callable[[], object]) -> tuple[bytes | None, int]:
    """Return the JSON of a value with `depth` lists and objects around it, and its weight.

    The JSON is None if the value is too heavy.

    Args:
        value: Any object of a script.
        depth: Number of lists and objects around it.
        convert: Converts `value` to data with an exact JSON form.
    """
    weight, kinds = _weigh([value], depth)
    if weight > _MOST:
        return None, weight
    if weight > _SMALL:
        require_room(_ROOM_BYTES)
    try:
        body = _encode(value, depth, kinds)
        if body is None:
            plain = convert()
            weight, kinds = _weigh([plain], depth)
            if weight > _MOST:
                return None, weight
            body = orjson.dumps(plain, default=_values.special, option=_values.OPTIONS)
    except (TooHeavyError, ProtocolError):
        return None, _TOO_HEAVY
    return (body, weight) if len(body) <= INLINE_BYTES else (None, _TOO_HEAVY)


def _encode(value: object, depth: int, kinds: set[type]) -> bytes | None:
    """Write a light value; return None if a part of it has no exact JSON form.

    orjson writes a list from the length and the place that it had at first. So no code of a script
    may be called while it holds one of the script's: a `Mapping` that shortens the list around it
    would have memory of others written, as objects (`o[0] = M(o)`). Values of the types that call
    such code are converted first, to lists and objects that the script does not hold.

    Raises:
        TooHeavyError: If a conversion makes it too heavy.
        ProtocolError: If it is nested too deeply, since a set becomes a list.
    """
    if not kinds <= _SAFE:
        return None
    try:
        with _no_collection():
            body = orjson.dumps(value, default=_Special(), option=_values.OPTIONS)
    except (TypeError, ValueError, RecursionError) as error:
        # An error of `_Special` is the cause of orjson's own error.
        cause = error.__cause__
        if isinstance(cause, TooHeavyError | MemoryError):
            raise cause from None
        return None
    # orjson writes NaN and the infinities as null.
    if float in kinds and b"null" in body and not _is_finite([value]):
        return None
    if not kinds.isdisjoint(_SETS):
        decode(body, MAX_DEPTH - depth)
    return body


def _is_finite(level: list[Any]) -> bool:
    """Return True if sibling values of the types in `_KNOWN` hold no NaN and no infinity."""
    while level:
        if not math.isfinite(sum([x for x in level if type(x) is float])):
            return False
        lists = [x for x in level if type(x) in _LISTS]
        objects = [dict.values(x) for x in level if type(x) in _OBJECTS]
        level = list(chain.from_iterable(chain(lists, objects)))
    return True


def _first_batch(length: int) -> int:
    """Return the size of the first batch of a list or an object that is too heavy as a whole."""
    return min(_FIRST_BATCH, max(1, length // 2))


def _next_batch(count: int, weight: int) -> int:
    """Return the size of the next batch, after one of `count` items with `weight` in total."""
    if weight > _MOST:
        return max(1, count // 8)
    return min(_LARGEST_BATCH, max(1, count * _USUAL // weight))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep garbage as it is: its collection would execute the script's generators to their end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Special:
    """Converts values of the types in `_CONVERTED`, up to a total weight, by code of ours alone."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST

    def __call__(self, value: Any) -> object:
        if isinstance(value, datetime):
            ours = type(value.tzinfo) in _ZONES
        else:
            ours = type(value) not in _SETS or _EXACT.issuperset(map(type, value))
        if not ours:
            raise TypeError
        plain = _values.special(value)
        self._left -= _weigh([plain], 0)[0]
        if self._left < 0:
            raise TooHeavyError
        return plain


_SCALARS: set[type] = {int, float, bool, type(None)}
_TEXT = frozenset({str})
_EXACT = _TEXT | (_SCALARS - {float})
"""Scalars that orjson writes exactly or not at all."""
_LISTS: set[type] = {list, tuple}
_OBJECTS: set[type] = {dict, Record}
_KNOWN: set[type] = {str, *_SCALARS, *_LISTS, *_OBJECTS}
_SETS: set[type] = {set, frozenset}
_CONVERTED: set[type] = {
    date, datetime, timedelta, Decimal, Fraction, PurePosixPath, PureWindowsPath, *_SETS,
}  # fmt: skip
"""Types that `_Special` converts, but for a time zone of a script, and a set of objects, which are
compared to sort them."""
_ZONES = frozenset({type(None), timezone, ZoneInfo})
_SAFE = _KNOWN | _CONVERTED
_COMPOUND = (str, list, dict, tuple)


def _weigh(level: list[Any], depth: int) -> tuple[int, set[type]]:
    """Return the weight of sibling values, and the types in them.

    Works level by level, so that most of the work is done in C: 60 ns per value. A value that
    `_Special` converts counts as one.
    """
    weight = 0
    found: set[type] = set()
    while level:
        weight += len(level) * _VALUE_WEIGHT
        kinds = set(map(type, level))
        found |= kinds
        if weight > _MOST or kinds <= _SCALARS:
            break
        lists: list[Any] = [x for x in level if type(x) in _LISTS] if kinds & _LISTS else []
        objects: list[Any] = [x for x in level if type(x) in _OBJECTS] if kinds & _OBJECTS else []
        if str in kinds:
            weight += sum(map(len, [x for x in level if type(x) is str]))
        if not kinds <= _KNOWN:
            weight += _sort((x for x in level if type(x) not in _KNOWN), lists, objects)
        # Counted before they are copied: one container may have millions of items.
        below = sum(map(len, lists)) + sum(map(len, objects))
        if weight + below * _VALUE_WEIGHT > _MOST or (depth >= MAX_DEPTH and (lists or objects)):
            return _TOO_HEAVY, found
        try:
            weight += sum(map(str.__len__, chain.from_iterable(objects)))
        except TypeError:  # a key that is not text
            weight += sum(map(len, objects)) * _VALUE_WEIGHT
        level = list(chain.from_iterable(chain(lists, map(dict.values, objects))))
        depth += 1
    return weight, found


def _sort(values: Iterator[Any], lists: list[Any], objects: list[Any]) -> int:
    """Add the contents of values of other types to `lists` and `objects`; return their weight."""
    weight = 0
    for value in values:
        kind = type(value)  # `isinstance` reads `__class__`, which may be the script's code
        if issubclass(kind, Enum):
            lists.append((_value_of(value),))
        elif issubclass(kind, str):
            weight += str.__len__(value)
        elif kind is Wide:
            weight += value.digits
        # Methods of the builtin types: those of a script's class may do anything.
        elif issubclass(kind, list):
            if list.__len__(value) > _LARGEST_BATCH:
                return _TOO_HEAVY
            lists.append(list.copy(value))
        elif issubclass(kind, dict):
            if dict.__len__(value) > _LARGEST_BATCH:
                return _TOO_HEAVY
            objects.append(dict(dict.items(value)))
    return weight


def _value_of(member: Any) -> object:
    """Return the value of an enum's member; None if the script's own property fails."""
    try:
        return member.value
    except MemoryError:
        raise
    except BaseException:  # noqa: BLE001  # the script's own code
        return None


class PartWriter:
    """Writes the parts of one heavy value, as `_parts` describes them.

    Attributes:
        size: Bytes of JSON written so far.
    """

    __slots__ = ("_converter", "_value", "size")

    def __init__(self, value: object, converter: Converter) -> None:
        """Prepare to write `value`; nothing is written yet.

        Args:
            value: Any object of a script.
            converter: Converts the parts that have no exact JSON form.
        """
        self.size = 0
        self._value, self._converter = value, converter

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts.

        Raises:
            ValueRefused: If a part has no JSON form and the converter is strict, with the path.
            MemoryError: If there is not enough memory to write it.
        """
        return self._write_heavy(self._value, self._converter.what, 0)

    def _write_heavy(self, value: Any, path: str, depth: int) -> Iterator[bytes]:
        """Write a value that is too heavy to be written at once."""
        converter = self._converter
        plain = converter.step(value, path)
        if not isinstance(plain, dict | list | tuple):
            # Light values are never written here, so this is text.
            yield from self._write_text(plain, path)
            return
        replaced = converter.enter(value, path, depth)
        if replaced is not None:
            yield from self._write_text(replaced, path)
            return
        try:
            if isinstance(plain, dict):
                yield from self._write_object(plain, path, depth)
            else:
                yield from self._write_list(plain, path, depth)
        finally:
            converter.leave(value)

    def _write_list(self, items: Sequence[Any], path: str, depth: int) -> Iterator[bytes]:
        yield self._write_bracket(b"[")
        at, most = 0, _first_batch(len(items))
        while batch := list(items[at : at + most]):
            body, weight = _write(
                batch, depth, partial(self._convert_items, batch, at, path, depth)
            )
            most = _next_batch(len(batch), weight)
            if body is None and len(batch) > 1:
                continue
            self.size += at > 0
            if body is None:
                yield from self._write_heavy(batch[0], f"{path}[{at}]", depth + 1)
            else:
                self.size += len(body) - 2
                yield b"i" + body
            at += len(batch)
        yield self._write_bracket(b"]")

    def _convert_items(self, batch: list[Any], at: int, path: str, depth: int) -> list[Any]:
        convert = self._converter.convert
        return [
            convert(item, f"{path}[{index}]", depth + 1, _MOST)
            for index, item in enumerate(batch, start=at)
        ]

    def _write_object(self, members: dict[str, Any], path: str, depth: int) -> Iterator[bytes]:
        yield self._write_bracket(b"{")
        rest = iter(members.items())
        held: list[tuple[str, Any]] = []
        written, most = False, _first_batch(len(members))
        while held := [*held, *islice(rest, max(0, most - len(held)))]:
            batch = dict(held[:most])
            convert = partial(self._converter.convert, batch, path, depth, _MOST)
            body, weight = _write(batch, depth, convert)
            most = _next_batch(len(batch), weight)
            if body is None and len(batch) > 1:
                continue
            self.size += written
            if body is None:
                yield from self._write_member(*held[0], path, depth)
            else:
                self.size += len(body) - 2
                yield b"m" + body
            written = True
            del held[: len(batch)]
        yield self._write_bracket(b"}")

    def _write_member(self, name: str, value: Any, path: str, depth: int) -> Iterator[bytes]:
        yield from self._write_text(name, path)
        self.size += 1
        path = f"{path}.{name[:80]}"
        body = None
        # With a short key, the value must be the heavy part: it is not weighed again.
        if len(name) > _PIECE_CHARS or not isinstance(value, _COMPOUND):
            convert = partial(self._converter.convert, value, path, depth + 1, _MOST)
            body, _ = _write(value, depth + 1, convert)
        if body is None:
            yield from self._write_heavy(value, path, depth + 1)
        else:
            self.size += len(body)
            yield b"v" + body

    def _write_text(self, text: str, path: str) -> Iterator[bytes]:
        self.size += 2
        at, most = 0, _PIECE_CHARS
        while True:
            piece = text[at : at + most]
            body, _ = _write(piece, 0, partial(self._converter.convert, piece, path, 0, _MOST))
            if body is None:
                most //= 8  # of characters that JSON escapes
                continue
            at += len(piece)
            self.size += len(body) - 2
            if at >= len(text):
                break
            yield b"+" + body
        yield b'"' + body

    def _write_bracket(self, bracket: bytes) -> bytes:
        self.size += 1
        return bracket
