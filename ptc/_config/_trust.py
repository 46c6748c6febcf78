"""Trust in the tables ``[tool.ptc]``, one file for each in the user's state directory.

Scripts are often asked to edit a pyproject.toml, so it is not a protected path. A table that a
script wrote there must not configure the next command. So its owner trusts a table once, and again
after each change.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import SetupError

__all__ = ["is_trusted", "trust"]

_FOLDER = "ptc-trusted"
"""A name in the rule `state` of `ptc._protected`: no tool changes anything beneath it."""


def is_trusted(path: Path, table: Mapping[str, Any]) -> bool:
    """Return True if `trust` was called for this table of this file."""
    try:
        return _record(path).read_text(encoding="ascii") == _digest(table)
    except (OSError, ValueError, SetupError):
        return False


def trust(path: Path, table: Mapping[str, Any]) -> None:
    """Trust the table of a pyproject.toml, in place of an earlier one.

    Raises:
        SetupError: If the state directory cannot be written.
    """
    record = _record(path)
    try:
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record.write_text(_digest(table), encoding="ascii")
    except OSError as error:
        raise SetupError(f"{record} cannot be written: {error.strerror}") from None


def _record(path: Path) -> Path:
    # Imported here because it takes 3 to 6 ms, and most projects have a ptc.toml.
    from platformdirs import user_state_path

    folder = user_state_path("ptc", appauthor=False)
    if not folder.is_absolute():
        msg = "the user has no state directory; set HOME or XDG_STATE_HOME, or use a ptc.toml"
        raise SetupError(msg)
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return folder / _FOLDER / name


def _digest(table: Mapping[str, Any]) -> str:
    # Values of TOML that JSON lacks, such as dates, are in no valid configuration.
    text = json.dumps(table, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()
