"""Rows of runs as PostgreSQL stores them: a text cannot hold U+0000, so a source is bytes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

__all__ = ["decode_run", "encode_run"]

_SOURCE: Final = 2
"""Index of the source among the values of ``start_run``."""


def encode_run(values: Sequence[Any]) -> list[Any]:
    """Return the values of ``start_run`` with the source as bytes."""
    encoded = list(values)
    encoded[_SOURCE] = encoded[_SOURCE].encode()
    return encoded


def decode_run(row: Sequence[Any]) -> list[Any]:
    """Return the values of `RUN_COLUMNS` with the source as text."""
    run_id, source, *rest = row
    with suppress(UnicodeDecodeError):  # Bytes are reported as damage.
        source = source.decode()
    return [run_id, source, *rest]
