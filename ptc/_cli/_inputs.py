"""What an option or a file of the command line holds: text, and JSON in it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ._script import read_standard_input

__all__ = ["merge_inputs", "parse_object", "read_object", "read_text"]

_MOST_BYTES = 67_108_864
"""As much as `Limits.max_inputs_bytes` can be."""


class _NotJsonError(ValueError):
    """The text is no JSON; the message says where it stops being so."""


def merge_inputs(pairs: Iterable[str], base: dict[str, Any]) -> dict[str, Any]:
    """`base` with each ``NAME=VALUE`` of `pairs` over it.

    One rule for VALUE: it is what JSON makes of it, and if it is no JSON it is a string.

    Raises:
        UsageError: If a pair has no ``=`` or no name, or a name comes twice.
    """
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            msg = f"--input {pair!r}: write NAME=VALUE, as in --input query=TODO"
            raise UsageError(msg)
        if name in given:
            msg = f"--input {name!r} is given twice; pass a list as --input '{name}=[1, 2]'"
            raise UsageError(msg)
        try:
            given[name] = _parse(text)
        except _NotJsonError:
            given[name] = text
    return {**base, **given}


def read_object(name: str, option: str) -> dict[str, Any]:
    """The JSON object in file `name`; ``-`` is standard input.

    Raises:
        UsageError: If it cannot be read or holds anything else.
    """
    what = option if name == "-" else f"{option} {name!r}"
    return parse_object(read_text(name, option, what, _MOST_BYTES), what)


def read_text(name: str, option: str, what: str, most_bytes: int) -> str:
    """The UTF-8 text in file `name`; ``-`` is standard input.

    Args:
        name: As it was given.
        option: Where it was given.
        what: What errors call it.
        most_bytes: What is read at most.

    Raises:
        UsageError: If it cannot be read, is larger, or is no text.
    """
    if name == "-":
        data = read_standard_input(option)
    else:
        try:
            with Path(name).open("rb") as file:
                data = file.read(most_bytes + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            msg = f"{what} cannot be read: {reason}"
            raise UsageError(msg) from None
    if len(data) > most_bytes:
        msg = f"{what} has more than {most_bytes:,} bytes"
        raise UsageError(msg)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{what} is not UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02x}"
        raise UsageError(msg) from None


def parse_object(text: str, what: str) -> dict[str, Any]:
    """The JSON object that `text` is.

    Raises:
        UsageError: If it is something else; the message has the line and column.
    """
    try:
        value = _parse(text)
    except _NotJsonError as error:
        msg = f"{what} is not JSON: {error}"
        raise UsageError(msg) from None
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
        found = kind.get(type(value), "a number")
        msg = f'{what} must be a JSON object, {{"name": value}}, and is {found}'
        raise UsageError(msg)
    return value


def _parse(text: str) -> Any:
    """JSON by the letter: no NaN, no name twice.

    Integers stay exact, so that one over 64 bits is refused later by name, not rounded here.
    """
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _NotJsonError(f"{error.msg} at {where}") from None
    except RecursionError:
        raise _NotJsonError("it is nested too deeply") from None
    except _NotJsonError:
        raise
    except ValueError as error:  # an integer of more than 4,300 digits
        raise _NotJsonError(str(error)) from None


def _no_constant(name: str) -> Any:
    raise _NotJsonError(f"{name} is no JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"JSON object has the name {twice!r} twice")
    return found
