"""JSON forms of the values that a script returns, emits and passes to tools.

A part of a result without an exact JSON form is replaced, with a note, so that a run which did its
work keeps its result. In the arguments of a call it is an error: no tool should act on something
else than the script wrote.

Rule 1: an error in the script's own code, called by a conversion, replaces the part and is never
    raised (tests/worker/test_convert.py::test_hostile_value_is_replaced).
Rule 2: a value that contains itself is replaced where it does
    (tests/worker/test_convert.py::test_value_that_contains_itself_is_replaced_there).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from enum import Enum
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, NoReturn, TypeAlias, cast

from .._wire._json_errors import MAX_DEPTH, is_exact
from .._wire._wide import MAX_DIGITS, MOST, is_wide
from . import _foreign, _values
from ._values import ValueRefused, Wide, shorten

__all__ = ["Converter", "NonFinite", "Note", "TooHeavyError"]

NonFinite: TypeAlias = Literal["null", "text", "error"]
"""Form of NaN and the infinities in results: null, with a note; ``"NaN"``, ``"Infinity"`` or
``"-Infinity"``; or an error."""

_SHOWN_CHARS: Final = 300
_PATH_CHARS: Final = 200
_KEY_CHARS: Final = 80
_NOTES_OF_KIND: Final = 5
_MOST_ITEMS: Final = 1_000_000
"""Items that are read from an iterator, which may be endless."""
_MOST_STEPS: Final = 8
"""Conversions of one part in a row: the value of an enum may be a member of another one."""
_ITEM_WEIGHT: Final = 8
_EMPTY: Final[dict[str, int]] = {}


class Note(NamedTuple):
    """A part of a value that was replaced."""

    code: str
    message: str
    path: str


class TooHeavyError(Exception):
    """The result of a conversion is too heavy to be written at once."""


class _UnknownError(Exception):
    """A key or a value has no JSON form."""


class Converter:
    """Converts the parts of one value, and notes which of them it replaced.

    Most values need none of it, so nothing is allocated before the first conversion.
    """

    __slots__ = (
        "_attach_bytes", "_left", "_non_finite", "_notes", "_of_kind", "_open", "_read",
        "_strict", "what",
    )  # fmt: skip

    def __init__(
        self,
        what: str,
        *,
        strict: bool = False,
        non_finite: NonFinite = "null",
        attach: Callable[[bytes, str], Any] | None = None,
    ) -> None:
        """Start with an empty list of notes.

        Args:
            what: Name of the value in paths, e.g. ``result``.
            strict: Raise `ValueRefused` instead of replacing a part.
            non_finite: Form of NaN and the infinities.
            attach: Sends bytes at a path as a file, and returns the data that stands for them;
                None if there are too many.
        """
        self._attach_bytes = attach
        self.what = what
        self._strict = strict
        self._non_finite: NonFinite = "error" if strict else non_finite
        self._notes: dict[tuple[str, str], Note] | None = None
        self._of_kind: dict[str, int] = _EMPTY
        self._open: set[int] | None = None
        self._read: dict[int, tuple[object, list[Any]]] | None = None

    def notes(self) -> list[Note]:
        """Return what was replaced: of each kind the first parts, and a note if there are more."""
        if self._notes is None:
            return []
        more = [
            Note(code, "the same applies to further parts of the value", self.what)
            for code, count in self._of_kind.items()
            if count > _NOTES_OF_KIND
        ]
        return [*self._notes.values(), *more]

    # --- conversion -------------------------------------------------------------------------

    def convert(self, value: Any, path: str, depth: int, most_weight: int) -> Any:
        """Convert a value with all its parts to data that `_values.encode` writes exactly.

        Args:
            value: Any object of a script.
            path: Position of the value.
            depth: Number of lists and objects around it.
            most_weight: Weight of the containers in the result, at most.

        Raises:
            TooHeavyError: If the result is heavier.
            ValueRefused: If a part has no JSON form, and the converter is strict.
        """
        self._left = most_weight
        return self._deep(value, path, depth)

    def _deep(self, value: Any, path: str, depth: int) -> Any:
        plain = self.step(value, path)
        kind = type(plain)
        if kind is not dict and kind is not list and kind is not tuple:
            return plain
        replaced = self.enter(value, path, depth)
        if replaced is not None:
            return replaced
        try:
            self._left -= len(plain) * _ITEM_WEIGHT
            if self._left < 0:
                raise TooHeavyError
            if kind is dict:
                return {
                    key: item
                    if is_exact(item)
                    else self._deep(item, f"{path}.{key[:_KEY_CHARS]}", depth + 1)
                    for key, item in list(plain.items())  # a conversion may change it
                }
            return [
                item if is_exact(item) else self._deep(item, f"{path}[{index}]", depth + 1)
                for index, item in enumerate(list(plain))
            ]
        finally:
            self.leave(value)

    def enter(self, value: object, path: str, depth: int) -> str | None:
        """Start to write the contents of a list or an object; `leave` ends it.

        Returns:
            The text that replaces it, if it contains itself or is nested too deeply; None if not.
        """
        own = id(value)
        if self._open is None:
            self._open = set()
        if own not in self._open and depth < MAX_DEPTH:
            self._open.add(own)
            return None
        if own in self._open:
            message = f"{_name(value)} contains itself"
        else:
            message = f"nested deeper than {MAX_DEPTH} levels, or contains itself"
        if self._strict:
            self._refuse(message, path)
        shown = f"<{_name(value)}>"
        self._note("replaced", f"{message}; {shown!r} was returned in its place", path)
        return shown

    def leave(self, value: object) -> None:
        """End the contents of a list or an object that `enter` accepted."""
        if self._open is not None:
            self._open.discard(id(value))

    def step(self, value: Any, path: str) -> Any:
        """Convert a value, but not its parts.

        Returns:
            None, True, False, an exact number, `Wide`, a valid text, a list, a tuple or a dict with
            valid texts as keys.

        Raises:
            ValueRefused: If it has no JSON form, and the converter is strict.
        """
        original = value
        for _ in range(_MOST_STEPS):
            kind = type(value)
            builtin = _BUILTIN.get(kind) or _find_builtin(kind)
            if builtin is not None:
                return builtin(self, value, path)
            try:
                value = self._next(value, path)
            except (MemoryError, ValueRefused):
                raise
            except _UnknownError:
                break
            except BaseException as error:  # noqa: BLE001  # the script's own code
                return self._replace(original, path, f"raised {type(error).__name__}")
        return self._replace(original, path)

    def _next(self, value: Any, path: str) -> Any:
        """Convert a value that is not of a builtin type.

        Raises:
            _UnknownError: If it has no JSON form.
            Exception: Any error of the script's own code.
        """
        kind = type(value)
        if issubclass(kind, Enum):
            return value.value
        if issubclass(kind, bytes | bytearray | memoryview):
            return self._attach(value, path)
        if issubclass(kind, asyncio.Future) and value.done():
            return value.result()  # of a call that was never awaited, but executed
        if issubclass(kind, _values.ITERATORS):
            return self._list_of(value, path)
        found = _foreign.convert(value)
        if found is not _foreign.UNKNOWN:
            plain, shape = found
            if shape and not self._strict:
                self._note("table", f"{shape} became records; missing values are null", path)
            return plain
        try:
            return _values.special(value)
        except TypeError:
            raise _UnknownError from None

    def _list_of(self, value: Any, path: str) -> list[Any]:
        """Read an iterator, once: a value may be converted again, in smaller pieces."""
        if self._read is None:
            self._read = {}
        if id(value) not in self._read:
            items = list(islice(value, _MOST_ITEMS))
            self._read[id(value)] = (value, items)
            if len(items) == _MOST_ITEMS and not self._strict:
                message = f"only the first {_MOST_ITEMS:,} items of the {_name(value)} were read"
                self._note("replaced", message, path)
        return self._read[id(value)][1]

    def _attach(self, value: Any, path: str) -> Any:
        if self._strict:
            self._refuse(f"{_name(value)} has no JSON form; {_values.HINTS['bytes']}", path)
        data = memoryview(value).tobytes()  # `bytes(value)` may return an object of the script
        handle = self._attach_bytes(data, path) if self._attach_bytes is not None else None
        if handle is None:
            message = "too many bytes to attach; only their number was returned"
            self._note("replaced", message, path)
            return {"bytes": len(data)}
        return handle

    # --- builtin types ------------------------------------------------------------------------

    def _same(self, value: Any, path: str) -> Any:
        return value

    def _text(self, value: Any, path: str) -> str:
        text: str = str.__str__(value)
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            if self._strict:
                self._refuse("text with a lone surrogate is not valid Unicode", path)
            self._note("text", "lone surrogates are not valid Unicode and were escaped", path)
            return text.encode(errors="backslashreplace").decode()
        return text

    def _integer(self, value: Any, path: str) -> Any:
        number = int.__int__(value)
        if not is_wide(number):
            return number
        if -MOST < number < MOST:
            return Wide(number)
        message = f"integer of more than {MAX_DIGITS:,} digits"
        if self._strict:
            self._refuse(f"{message}; pass hex(value)", path)
        self._note("integer", f"{message}; its hexadecimal text was returned in its place", path)
        return hex(number)

    def _float(self, value: Any, path: str) -> Any:
        number = float.__float__(value)
        if math.isfinite(number):
            return number
        text = _non_finite_text(number)
        if self._non_finite == "text":
            return text
        if self._non_finite == "error":
            self._refuse(f"{number!r} has no JSON form; use None or a string", path)
        self._note("non_finite", f"{text} has no JSON form; null was returned in its place", path)
        return None

    def _list(self, value: Any, path: str) -> Any:
        # Methods of the builtin types: those of a script's class may do anything.
        return value if type(value) is list else list.copy(value)

    def _tuple(self, value: Any, path: str) -> Any:
        if type(value) is tuple:
            return value
        items = list(tuple.__iter__(value))
        names = getattr(type(value), "_fields", None)
        if type(names) is not tuple or len(names) != len(items):
            return items
        if any(type(name) is not str for name in names):
            return items
        return {_values.demangle(name): item for name, item in zip(names, items, strict=True)}

    def _dict(self, value: Any, path: str) -> Any:
        members = value if type(value) is dict else dict(dict.items(value))
        if all(type(key) is str and key.isascii() for key in members):
            return members
        try:
            texts = [self._key(key, path) for key in members]
        except _UnknownError as error:
            return self._pairs(members, path, f"a {error} has no form as a key")
        if len(set(texts)) < len(texts):
            return self._pairs(members, path, "two keys have the same text, as 1 and '1' have")
        return dict(zip(texts, members.values(), strict=True))

    def _key(self, key: Any, path: str) -> str:
        """Return the text of a key, as `json.dumps` writes it; of the other types, their form."""
        plain = key
        for _ in range(_MOST_STEPS):
            kind = type(plain)
            if issubclass(kind, str) and not issubclass(kind, Enum):
                return self._text(plain, path)
            if plain is None or kind is bool:
                return _WORDS[plain]
            if issubclass(kind, int) and not issubclass(kind, Enum):
                number = int.__int__(cast("int", plain))
                return int.__repr__(number) if -MOST < number < MOST else hex(number)
            if issubclass(kind, float):
                real = float.__float__(cast("float", plain))
                return float.__repr__(real) if math.isfinite(real) else _non_finite_text(real)
            try:
                plain = _values.key_of(plain)
            except MemoryError:
                raise
            except BaseException:  # noqa: BLE001  # the script's own code, or no form
                break
        raise _UnknownError(_name(key))

    def _pairs(self, members: dict[Any, Any], path: str, why: str) -> list[Any]:
        if self._strict:
            self._refuse(f"{why}; use texts as keys", path)
        self._note("keys", f"{why}; a list of [key, value] pairs was returned", path)
        return [list(pair) for pair in members.items()]

    # --- replacements -------------------------------------------------------------------------

    def _replace(self, value: object, path: str, why: str = "has no JSON form") -> str:
        kind = _name(value)
        hint = _values.HINTS.get(kind) or _values.HINTS[""]
        if self._strict:
            self._refuse(f"{kind} {why}; {hint}", path)
        message = f"{kind} {why}; its repr was returned in its place: {hint}"
        self._note("replaced", message, path)
        return _show(value, _SHOWN_CHARS)

    def _refuse(self, message: str, path: str) -> NoReturn:
        msg = f"{path[:_PATH_CHARS]}: {message}"
        raise ValueRefused(msg) from None

    def _note(self, code: str, message: str, path: str) -> None:
        if self._notes is None:
            self._notes, self._of_kind = {}, {}
        path = shorten(path, _PATH_CHARS)
        if (code, path) in self._notes:
            return
        count = self._of_kind[code] = self._of_kind.get(code, 0) + 1
        if count <= _NOTES_OF_KIND:
            self._notes[code, path] = Note(code, message, path)


_Builtin: TypeAlias = Callable[[Converter, Any, str], Any]
_WORDS: Final = {None: "null", True: "true", False: "false"}
_BUILTIN: Final[dict[type, _Builtin]] = {
    str: Converter._text,
    int: Converter._integer,
    float: Converter._float,
    list: Converter._list,
    tuple: Converter._tuple,
    dict: Converter._dict,
    bool: Converter._same,
    type(None): Converter._same,
    Wide: Converter._same,
}


def _find_builtin(kind: type) -> _Builtin | None:
    """Return the conversion of a class derived from a builtin type; None if it is not one."""
    if issubclass(kind, Enum) or _foreign.is_foreign(kind):
        return None
    return next((_BUILTIN[base] for base in kind.__mro__ if base in _BUILTIN), None)


def _non_finite_text(number: float) -> str:
    """Return the word that `json.dumps` writes."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _name(value: object) -> str:
    return shorten(type(value).__name__, _KEY_CHARS)


def _show(value: object, most: int) -> str:
    """Return the repr of a value, in at most `most` characters; its type if that fails."""
    if issubclass(type(value), dict | list | tuple | set | frozenset):
        return f"<{_name(value)}>"  # its repr may be as large as the memory
    try:
        return shorten(repr(value), most)
    except MemoryError:
        raise
    except BaseException:  # noqa: BLE001  # a __repr__ of the script
        return f"<{_name(value)}>"
