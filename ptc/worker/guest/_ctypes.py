"""Stand-in for ctypes in a guest while its snapshot is made: words of the guest's own memory.

A guest has no `_ctypes`, which the worker needs to freeze classes, before a script exists. So the
host, which owns the memory, reads and writes it on request while it makes the snapshot, and never
after.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, Final

__all__ = ["c_char_p", "c_int", "c_ulong", "c_void_p", "py_object", "pythonapi", "sizeof"]

_host: Final[Any] = sys.modules.get("_host")  # of the guest, which has imported it
_WORD: Final = 4
_IMMUTABLE: Final = 1 << 8
_FLAGS_OFFSET: Final = (3 + 18) * _WORD
_TEXT_BYTES: Final = 256


def _read(address: int, size: int) -> bytes:
    found: bytes = _host.call(b"r" + struct.pack("<II", address, size))
    return found


def _write(address: int, data: bytes) -> None:
    _host.call(b"w" + struct.pack("<I", address) + data)


class _Word:
    """A word at an address."""

    __slots__ = ("_address",)

    def __init__(self, address: int) -> None:
        self._address = address

    @classmethod
    def from_address(cls, address: int) -> _Word:
        """Return the word at `address`."""
        return cls(address)

    @property
    def value(self) -> Any:
        """The word."""
        return struct.unpack("<I", _read(self._address, _WORD))[0]

    @value.setter
    def value(self, value: int | None) -> None:
        _write(self._address, struct.pack("<I", value or 0))


class c_ulong(_Word):  # the library's name
    """An unsigned word."""


class c_int(_Word):  # as above
    """A word; its sign is of no interest here."""


class c_void_p(_Word):  # as above
    """A pointer."""

    @property
    def value(self) -> Any:
        """The pointer; None if it is null."""
        return super().value or None

    @value.setter
    def value(self, value: int | None) -> None:
        _write(self._address, struct.pack("<I", value or 0))


class c_char_p:  # as above
    """A pointer to a text, which is only read."""

    __slots__ = ("_address",)

    def __init__(self, address: int) -> None:
        self._address = address

    @classmethod
    def from_address(cls, address: int) -> c_char_p:
        """Return the pointer at `address`."""
        return cls(address)

    @property
    def value(self) -> bytes | None:
        """The text."""
        (address,) = struct.unpack("<I", _read(self._address, _WORD))
        return _read(address, _TEXT_BYTES).partition(b"\0")[0] if address else None


def py_object(value: object) -> object:
    """Return `value`."""
    return value


def sizeof(_kind: object) -> int:
    """Return the size of a word."""
    return _WORD


class pythonapi:  # as above
    """The one function of CPython's interface that the worker calls."""

    @staticmethod
    def PyType_Modified(kind: type) -> None:  # as above
        """Drop what the interpreter has cached about a class: any store on it does."""
        flags = c_ulong(id(kind) + _FLAGS_OFFSET)
        before = flags.value
        flags.value = before & ~_IMMUTABLE
        try:
            type.__setattr__(kind, "__ptc_modified__", True)
            type.__delattr__(kind, "__ptc_modified__")
        finally:
            flags.value = flags.value & ~_IMMUTABLE | before & _IMMUTABLE
