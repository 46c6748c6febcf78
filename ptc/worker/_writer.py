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

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import chain, islice
from typing import Any

from .._wire._bodies import INLINE_BYTES, MAX_DEPTH, ProtocolError, decode
from . import _values
from ._record import Record
from ._values import check_depth, check_key, explain, require_room

__all__ = ["PartWriter", "write"]

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


def write(value: object, what: str) -> bytes | None:
    """Write `value` as JSON; return None if it is too heavy to be written at once.

    Args:
        value: Any object of a script.
        what: Name of the value in errors, e.g. ``result``.

    Raises:
        ValueRefused: If a part has no exact JSON form, with the path to it.
        MemoryError: If there is not enough memory to write it.
    """
    return _write(value, 0, partial(explain, value, what, 0))[0]


def _write(value: object, depth: int, explain: Callable[[], None]) -> tuple[bytes | None, int]:
    """Return the JSON of a value with `depth` lists and objects around it, and its weight.

    The JSON is None if the value is too heavy.
    """
    weight, kinds = _weigh([value], depth)
    if weight > _MOST:
        return None, weight
    if weight > _SMALL:
        require_room(_ROOM_BYTES)
    try:
        body = _values.encode(value, _Special(), explain)
        if not kinds <= _PLAIN:
            # orjson writes NaN and the infinities as null.
            if b"null" in body:
                explain()
            if not kinds <= _KNOWN:
                # The result of a conversion may be nested.
                decode(body, MAX_DEPTH - depth)
    except (_HeavyError, ProtocolError):
        return None, _TOO_HEAVY
    return (body, weight) if len(body) <= INLINE_BYTES else (None, _TOO_HEAVY)


def _first_batch(length: int) -> int:
    """Return the size of the first batch of a list or an object that is too heavy as a whole."""
    return min(_FIRST_BATCH, max(1, length // 2))


def _next_batch(count: int, weight: int) -> int:
    """Return the size of the next batch, after one of `count` items with `weight` in total."""
    if weight > _MOST:
        return max(1, count // 8)
    return min(_LARGEST_BATCH, max(1, count * _USUAL // weight))


class _HeavyError(Exception):
    """The result of a conversion is too heavy to be written at once."""


class _Special:
    """Converts the values that orjson does not write by itself, up to a total weight."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST

    def __call__(self, value: object) -> object:
        plain = _values.special(value)
        self._left -= _weigh([plain], 0)[0]
        if self._left < 0:
            raise _HeavyError
        return plain


_SCALARS: set[type] = {int, float, bool, type(None)}
_LISTS: set[type] = {list, tuple}
_OBJECTS: set[type] = {dict, Record}
_KNOWN: set[type] = {str, *_SCALARS, *_LISTS, *_OBJECTS}
_PLAIN = _KNOWN - {float}
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
        except TypeError:
            return _TOO_HEAVY, found  # a key that is not text: writing in parts finds its path
        level = list(chain.from_iterable(chain(lists, map(dict.values, objects))))
        depth += 1
    return weight, found


def _sort(values: Iterator[Any], lists: list[Any], objects: list[Any]) -> int:
    """Add the contents of values of other types to `lists` and `objects`; return their weight."""
    weight = 0
    for value in values:
        if isinstance(value, Enum):
            lists.append((value.value,))
        elif isinstance(value, str):
            weight += str.__len__(value)
        # Methods of the builtin types: those of a script's class may do anything.
        elif isinstance(value, list):
            if list.__len__(value) > _LARGEST_BATCH:
                return _TOO_HEAVY
            lists.append(list.copy(value))
        elif isinstance(value, dict):
            if dict.__len__(value) > _LARGEST_BATCH:
                return _TOO_HEAVY
            objects.append(dict(dict.items(value)))
    return weight


class PartWriter:
    """Writes the parts of one heavy value, as `_parts` describes them.

    Attributes:
        size: Bytes of JSON written so far.
    """

    __slots__ = ("_value", "_what", "size")

    def __init__(self, value: object, what: str) -> None:
        """Prepare to write `value`; nothing is written yet.

        Args:
            value: Any object of a script.
            what: Name of the value in errors, e.g. ``result``.
        """
        self.size = 0
        self._value, self._what = value, what

    def __iter__(self) -> Iterator[bytes]:
        """Yield the parts.

        Raises:
            ValueRefused: If a part has no exact JSON form, with the path to it.
            MemoryError: If there is not enough memory to write it.
        """
        return self._write_heavy(self._value, self._what, 0)

    def _write_heavy(self, value: Any, path: str, depth: int) -> Iterator[bytes]:
        """Write a value that is too heavy to be written at once."""
        if isinstance(value, Enum):
            check_depth(path, depth)
            yield from self._write_heavy(value.value, path, depth + 1)
        elif isinstance(value, str):
            yield from self._write_text(str.__str__(value), path)
        elif isinstance(value, dict):
            check_depth(path, depth)
            yield from self._write_object(value, path, depth)
        elif isinstance(value, list) or type(value) is tuple:
            check_depth(path, depth)
            yield from self._write_list(value, path, depth)
        else:
            try:
                plain = _values.special(value)
            except TypeError:
                explain(value, path, depth)
                raise
            yield from self._write_heavy(plain, path, depth)

    def _write_list(self, items: Sequence[Any], path: str, depth: int) -> Iterator[bytes]:
        yield self._write_bracket(b"[")
        # Methods of the builtin types: those of a script's class may do anything.
        take: Any = list.__getitem__ if isinstance(items, list) else tuple.__getitem__
        at, most = 0, _first_batch(list.__len__(items) if isinstance(items, list) else len(items))
        while batch := list(take(items, slice(at, at + most))):
            explain_batch = partial(_explain_items, batch, at, path, depth)
            body, weight = _write(batch, depth, explain_batch)
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

    def _write_object(self, members: dict[Any, Any], path: str, depth: int) -> Iterator[bytes]:
        yield self._write_bracket(b"{")
        rest = iter(dict.items(members))
        held: list[tuple[Any, Any]] = []
        written, most = False, _first_batch(dict.__len__(members))
        while held := [*held, *islice(rest, max(0, most - len(held)))]:
            batch = dict(held[:most])
            body, weight = _write(batch, depth, partial(explain, batch, path, depth))
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

    def _write_member(self, key: Any, value: Any, path: str, depth: int) -> Iterator[bytes]:
        check_key(key, path)
        name = str.__str__(key)
        yield from self._write_text(name, path)
        self.size += 1
        path = f"{path}.{name[:80]}"
        body = None
        # With a short key, the value must be the heavy part: it is not weighed again.
        if len(name) > _PIECE_CHARS or not isinstance(value, _COMPOUND):
            body, _ = _write(value, depth + 1, partial(explain, value, path, depth + 1))
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
            body, _ = _write(piece, 0, partial(explain, piece, path, 0))
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


def _explain_items(items: Sequence[Any], at: int, path: str, depth: int) -> None:
    for index, item in enumerate(items, start=at):
        explain(item, f"{path}[{index}]", depth + 1)
