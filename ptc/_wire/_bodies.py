"""JSON bodies of frames: counted before they are decoded, decoded to a bounded depth.

A worker's JSON is hostile: three bytes of it make a list of 72 in memory. Decoding a body that
this module accepts takes a bounded time.

Rule 1: lists and objects are counted before a body is decoded.
    tests/core/wire/test_protocol.py::test_body_with_too_many_containers_is_refused_before_decoding
"""

from __future__ import annotations

import gc
from typing import Any, Final, NamedTuple

import orjson

from . import _wide
from ._json_errors import MAX_DEPTH

__all__ = [
    "INLINE_BYTES",
    "MAX_DEPTH",
    "NOTHING",
    "ProtocolError",
    "Tally",
    "decode",
    "load_json",
    "tally",
]


class ProtocolError(Exception):
    """The peer broke the protocol. Its channel is closed at once."""


INLINE_BYTES = 128 << 10
"""Largest JSON of a value that a worker sends in one frame, and of one part of a larger value.
Decoding it takes 3 ms and 4 MB at worst (``[[],[],...]``), measured on CPython 3.11 to 3.13."""

_LONG_BYTES = 16_384


_MOST_CONTAINERS = 16_384
"""Lists and objects of one body. A worker's own reports have far fewer, and it sends at most
`INLINE_BYTES` of a value at once."""


def decode(body: bytes, levels: int = MAX_DEPTH) -> Any:
    """Decode JSON of at most `_MOST_CONTAINERS` lists and objects, and `levels` levels of them.

    Raises:
        ProtocolError: If it is not JSON, or over one of these limits.
    """
    if len(body) > INLINE_BYTES and tally(body).containers > _MOST_CONTAINERS:
        msg = f"body has more than {_MOST_CONTAINERS:,} lists and objects"
        raise ProtocolError(msg)
    if len(body) < _LONG_BYTES and body.count(b"[") + body.count(b"{") <= levels:
        return _load(body)
    return _load_bounded(body, levels)


def _load(body: bytes) -> Any:
    try:
        return load_json(body)
    except ValueError as error:
        # Includes bodies that are too deep: orjson stops at 1,024 levels.
        msg = f"body is not JSON: {error}"
        raise ProtocolError(msg) from None


def _load_bounded(body: bytes, levels: int) -> Any:
    """Decode JSON, at most `levels` levels of it.

    orjson checks the depth while it decodes, against its own limit: lists around the body make up
    the difference.
    """
    around = _READ_DEPTH - levels
    try:
        value = load_json(b"[" * around + body + b"]" * around)
        for _ in range(around):
            # More than one: the body closed a list around it, and opened another.
            (value,) = value
    except ValueError:
        # Raises an exception if it is not JSON.
        _load(body)
        msg = f"body is nested deeper than {MAX_DEPTH} levels"
        raise ProtocolError(msg) from None
    return value


_READ_DEPTH = 1_024
"""Levels that orjson decodes."""


class Tally(NamedTuple):
    """Upper bounds for the contents of a JSON text."""

    values: int
    """Number of values, containers included."""
    containers: int
    """Number of lists and objects."""

    def __add__(self, other: Tally) -> Tally:  # type: ignore[override]  # sums, not a longer tuple
        return Tally(self.values + other.values, self.containers + other.containers)


NOTHING: Final = Tally(0, 0)


_WITHOUT_MEANING: Final = bytes(set(range(256)) - set(b'"[{,'))
"""Bytes that matter to no count."""


def tally(body: bytes) -> Tally:
    """Count the values in a JSON text without decoding it: 2 ms for 1 MB of rows.

    Counts separators and opening brackets outside of strings.
    """
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side enclose nothing that counts, or end one string and start another: the
    # others stay inside or outside of strings either way.
    plain = body.translate(None, _WITHOUT_MEANING).replace(b'""', b"")
    if b'"' in plain:
        # Every second piece between quotes is the inside of a string.
        plain = b"".join(plain.split(b'"')[::2])
    containers = plain.count(b"[") + plain.count(b"{")
    return Tally(1 + plain.count(b",") + containers, containers)


def load_json(body: bytes) -> Any:
    """Decode JSON; long JSON with the garbage collector off, which runs once per 700 objects.

    JSON has no cycles, and orjson holds the interpreter's lock, so that no other thread runs
    without a collector. 1 MB of rows takes 4.9 ms instead of 7.9.

    Raises:
        ValueError: If it is not JSON.
    """
    # A tab marks integers over 64 bits; orjson writes none.
    loads = _wide.loads if b"\t" in body else orjson.loads
    if len(body) < _LONG_BYTES or not gc.isenabled():
        return loads(body)
    gc.disable()
    try:
        return loads(body)
    finally:
        gc.enable()
