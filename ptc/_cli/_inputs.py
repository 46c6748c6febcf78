"""Parse text and JSON from options and files of the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ._script import read_script, read_standard_input, refuse_host_program

__all__ = ["merge_inputs", "parse_object", "read_object", "read_program", "read_text"]

_MAX_BYTES = 67_108_864
"""The ceiling of `Limits.max_inputs_bytes`."""


class _NotJsonError(ValueError):
    """Raised when a text is not JSON; the message has the location."""


def read_program(script: str, pairs: Iterable[str], inputs: str | None) -> dict[str, Any]:
    """Return the arguments of `Session.program` that the options `script_options` describe.

    Args:
        script: Path of the script; ``-``: standard input.
        pairs: Texts ``NAME=VALUE``.
        inputs: Path of a JSON file; ``-``: standard input. None: there is none.

    Raises:
        UsageError: If a file cannot be read, or is no script or no JSON object.
    """
    if script == "-" and inputs == "-":
        msg = "SCRIPT and --inputs cannot both be `-`: there is one standard input"
        raise UsageError(msg)
    source, filename = read_script(script)
    refuse_host_program(source, script)
    base = read_object(inputs, "--inputs") if inputs is not None else {}
    return {"source": source, "filename": filename, "inputs": merge_inputs(pairs, base)}


def merge_inputs(pairs: Iterable[str], base: dict[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by each ``NAME=VALUE`` of `pairs`.

    VALUE is parsed as JSON; if it is not JSON, it is a string.

    Raises:
        UsageError: If a pair has no ``=`` or no name, or a name is repeated.
    """
    overrides: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            msg = f"--input {pair!r}: write NAME=VALUE, as in --input query=TODO"
            raise UsageError(msg)
        if name in overrides:
            msg = f"--input {name!r} is repeated; pass a list as --input '{name}=[1, 2]'"
            raise UsageError(msg)
        try:
            overrides[name] = _parse(text)
        except _NotJsonError:
            overrides[name] = text
    return {**base, **overrides}


def read_object(name: str, option: str) -> dict[str, Any]:
    """Read a JSON object from the file `name`; ``-`` is standard input.

    Raises:
        UsageError: If the file cannot be read or is not a JSON object.
    """
    what = option if name == "-" else f"{option} {name!r}"
    return parse_object(read_text(name, option, what, _MAX_BYTES), what)


def read_text(name: str, option: str, what: str, max_bytes: int) -> str:
    """Read UTF-8 text from the file `name`; ``-`` is standard input.

    Args:
        name: Path of the file, or ``-``.
        option: Option or argument that names it.
        what: Name of the text in error messages.
        max_bytes: Size limit.

    Raises:
        UsageError: If the file cannot be read, is too large, or is not UTF-8 text.
    """
    if name == "-":
        data = read_standard_input(option)
    else:
        try:
            with Path(name).open("rb") as file:
                data = file.read(max_bytes + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            msg = f"{what} cannot be read: {reason}"
            raise UsageError(msg) from None
    if len(data) > max_bytes:
        msg = f"{what} has more than {max_bytes:,} bytes"
        raise UsageError(msg)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{what} is not UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02x}"
        raise UsageError(msg) from None


def parse_object(text: str, what: str) -> dict[str, Any]:
    """Parse `text` as a JSON object.

    Raises:
        UsageError: If it is anything else; the message has the line and column.
    """
    try:
        value = _parse(text)
    except _NotJsonError as error:
        msg = f"{what} is not JSON: {error}"
        raise UsageError(msg) from None
    if not isinstance(value, dict):
        kind = {list: "an array", str: "a string", type(None): "null", bool: "a boolean"}
        found = kind.get(type(value), "a number")
        msg = f'{what} must be a JSON object, {{"name": value}}, not {found}'
        raise UsageError(msg)
    return value


def _parse(text: str) -> Any:
    """Parse strict JSON: no NaN, no duplicate keys.

    Integers of any size stay exact.
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
    raise _NotJsonError(f"{name} is not a JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"JSON object has the key {duplicate!r} twice")
    return found
