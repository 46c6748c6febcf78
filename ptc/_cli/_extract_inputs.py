"""Schemas and gold files of ``ptc extract``."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ._inputs import read_object

__all__ = ["check_report", "read_gold", "read_schema"]


def read_schema(name: str) -> Any:
    """Read a JSON Schema from a file, or load the type ``module:Class`` or ``file.py:Class``.

    Loading a type executes its module.

    Raises:
        UsageError: If there is no such file, module or class.
    """
    module_name, colon, class_name = name.rpartition(":")
    if not colon or Path(name).exists() or not class_name.isidentifier():
        return read_object(name, "--schema")
    module = _load_file(Path(module_name)) if module_name.endswith(".py") else _load(module_name)
    try:
        return getattr(module, class_name)
    except AttributeError:
        msg = f"--schema {name!r}: {module_name} has no {class_name!r}"
        raise UsageError(msg) from None


def _load(name: str) -> Any:
    # Modules of the current folder can be imported, and shadow no others.
    if "" not in sys.path:
        sys.path.append("")
    try:
        return importlib.import_module(name)
    except Exception as error:  # noqa: BLE001  # the module is the user's code
        msg = f"--schema: module {name!r} cannot be imported: {type(error).__name__}: {error}"
        raise UsageError(msg) from None


def _load_file(path: Path) -> Any:
    # A name of its own: the file may be called `types.py`.
    name = f"ptc_schema_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        msg = f"--schema: {str(path)!r} is not a Python file"
        raise UsageError(msg)
    module = importlib.util.module_from_spec(spec)
    # Annotations of a class are looked up in the module of its name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  # the module is the user's code
        msg = f"--schema: {str(path)!r} cannot be loaded: {type(error).__name__}: {error}"
        raise UsageError(msg) from None
    return module


def read_gold(name: str) -> dict[str, Any]:
    """Read the right objects by id from JSONL lines ``{"id": ..., "object": ...}``.

    Raises:
        UsageError: If the file cannot be read, or a line is of another form.
    """
    found: dict[str, Any] = {}
    try:
        # Not `splitlines`: JSON strings may hold U+2028 and other separators.
        lines = Path(name).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        msg = f"--compare {name!r} cannot be read: {error}"
        raise UsageError(msg) from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found[str(row["id"])] = row["object"]
        except (ValueError, KeyError, TypeError, RecursionError):
            msg = f'--compare {name!r}, line {number}: write {{"id": ..., "object": ...}}'
            raise UsageError(msg) from None
    if not found:
        msg = f"--compare {name!r} has no lines"
        raise UsageError(msg)
    return found


def check_report(name: str, others: Iterable[str | None]) -> None:
    """Check that the report can be written, before anything is sent.

    Args:
        name: The path of the report.
        others: Files of the command, which the report must not replace.

    Raises:
        UsageError: If it cannot.
    """
    path = Path(name)
    taken = [other for other in others if other and Path(other).resolve() == path.resolve()]
    if taken:
        msg = f"--report {name!r} would replace {taken[0]!r}; choose another file"
        raise UsageError(msg)
    if path.is_dir() or not path.parent.is_dir():
        reason = "is a folder" if path.is_dir() else "is in a folder that does not exist"
        msg = f"--report {name!r} {reason}; choose another file"
        raise UsageError(msg)
