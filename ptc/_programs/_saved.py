"""A saved program, and its form in files.

Rule 1: a file that is not exactly as it was written is refused, with its name and the remedy.
    tests/core/programs/test_store.py::test_changed_file_is_refused_with_its_name_and_the_remedy
Rule 2: a record lists the pinned state of each tool that it allows, and of no other.
    tests/core/programs/test_store.py::test_record_that_does_not_describe_its_tools_is_refused
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from typing_extensions import TypedDict

from .._core import _json
from .._core._pydantic import pydantic
from .._dataclass import dataclass
from .._records._limits import Limits
from .._runs._program_row import limits_of_record
from .._schema._check import compile_schema
from .._tools._allow import Allow
from .._tools._allow_text import parse_allow
from .._tools._names import RESERVED
from ..errors import UsageError
from ._pins import PinnedTool

__all__ = [
    "RECORD",
    "SOURCE",
    "SavedProgram",
    "decode",
    "encode",
    "refused",
    "validate_program_name",
]

RECORD: Final = "program.json"
"""File of the record."""
SOURCE: Final = "program.py"
"""File of the script."""
_FORMAT: Final = 1
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NOT_NAMES = RESERVED | {"program"}


@dataclass(frozen=True, slots=True)
class SavedProgram:
    """One version of a saved program."""

    name: str
    """Name of the tool."""
    version: int
    """Number of the version, from 1."""
    description: str
    """Description of the tool, for models."""
    source: str
    """The script."""
    input_schema: Mapping[str, Any]
    """JSON Schema of the inputs, which are the arguments of the tool."""
    output_schema: Mapping[str, Any] | None
    """JSON Schema of the value; None: any value."""
    allowed_tools: tuple[str, ...]
    """Allow-list of the script: names, and rules such as ``pay(amount <= 100)``."""
    tools: Mapping[str, PinnedTool]
    """The allowed tools by name, as they were when the program was saved."""
    limits: Limits
    """Highest limits of the script."""
    run_id: str
    """Run that it was saved from."""
    saved_at: str
    """Time at which it was saved, as ``2026-01-31T12:00:00+00:00``."""
    folder: Path
    """Folder of its files."""

    @property
    def side_effect(self) -> bool:
        """True if one of its tools has a side effect."""
        return any(pinned.side_effect for pinned in self.tools.values())

    @property
    def idempotent(self) -> bool:
        """True if all of its tools are idempotent."""
        return all(pinned.idempotent for pinned in self.tools.values())

    @property
    def allow_list(self) -> list[str | Allow]:
        """`allowed_tools` with its rules parsed."""
        return [parse_allow(text) for text in self.allowed_tools]


def validate_program_name(name: str) -> str:
    """Return `name` if it can be that of a saved program: a tool, a method and a folder.

    Raises:
        UsageError: If it cannot.
    """
    # A folder is named after it: no path, and no two names that one file system takes for one.
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        msg = (
            f"{name!r:.80} cannot name a program: use 1-64 small letters, digits and _, starting "
            "with a letter"
        )
        raise UsageError(msg)
    if name in _NOT_NAMES or iskeyword(name):
        taken = "a word of Python" if iskeyword(name) else "reserved"
        msg = f"{name!r} cannot name a program: it is {taken}; choose another name"
        raise UsageError(msg)
    return name


class _Record(TypedDict):
    """Content of `RECORD` without its digest."""

    __pydantic_config__ = {"extra": "forbid", "strict": True}  # type: ignore[misc]  # noqa: RUF012  # read by pydantic

    format: int
    name: str
    version: int
    description: str
    run_id: str
    saved_at: str
    source_sha256: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    allowed_tools: list[str]
    tools: dict[str, PinnedTool]
    limits: dict[str, Any]


@cache
def _records() -> pydantic.TypeAdapter[_Record]:
    return pydantic.TypeAdapter(_Record)


def encode(program: SavedProgram) -> bytes:
    """Encode everything but the source, as indented JSON for people."""
    import json

    record = {
        "format": _FORMAT,
        "name": program.name,
        "version": program.version,
        "description": program.description,
        "run_id": program.run_id,
        "saved_at": program.saved_at,
        "source_sha256": _digest(program.source),
        "input_schema": program.input_schema,
        "output_schema": program.output_schema,
        "allowed_tools": list(program.allowed_tools),
        "tools": {name: asdict(pinned) for name, pinned in program.tools.items()},
        "limits": asdict(program.limits),
    }
    whole = {**_json.loads(_json.dumps(record)), "sha256": _json.sha256_of(record)}
    return (json.dumps(whole, indent=2, ensure_ascii=False) + "\n").encode()


def decode(data: bytes, source: bytes, folder: Path) -> SavedProgram:
    """Decode a program from its two files, and validate each part.

    Args:
        data: Content of `RECORD`.
        source: Content of `SOURCE`.
        folder: Folder of the files, named by the version in a folder named by the program.

    Raises:
        UsageError: If a file is not as it was written; the message has its path and the remedy.
    """
    file = folder / RECORD
    try:
        whole = _json.loads(data)
        digest = whole.pop("sha256", None) if isinstance(whole, dict) else None
        if isinstance(whole, dict) and whole.get("format") not in (None, _FORMAT):
            msg = f"its format is {whole['format']!r:.20}; this version of ptc reads {_FORMAT}"
            raise refused(file, msg)
        record = _records().validate_json(_json.dumps(whole))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"`{'.'.join(map(str, first['loc']))}`: " for _ in first["loc"][:1])
        raise refused(file, f"{where}{first['msg']}") from None
    except ValueError:
        raise refused(file, "it is not JSON") from None
    if digest != _json.sha256_of(whole):
        raise refused(file, "it was changed after it was saved (its sha256 differs)")
    try:
        text = source.decode()
    except UnicodeDecodeError:
        raise refused(folder / SOURCE, "it is not UTF-8 text") from None
    if record["source_sha256"] != _digest(text):
        msg = "it was changed after it was saved (its SHA-256 is not that in program.json)"
        raise refused(folder / SOURCE, msg)
    if (folder.parent.name, folder.name) != (record["name"], str(record["version"])):
        msg = f"it is version {record['version']} of {record['name']!r}, in the folder of another"
        raise refused(file, msg)
    try:
        return _program_of(record, text, folder)
    except UsageError as error:
        raise refused(file, str(error)) from None


def _program_of(record: _Record, source: str, folder: Path) -> SavedProgram:
    allowed = [parse_allow(text) for text in record["allowed_tools"]]
    names = {entry.tool if isinstance(entry, Allow) else entry for entry in allowed}
    if names != record["tools"].keys():
        msg = "`tools` does not list the tools of `allowed_tools`"
        raise UsageError(msg)
    if record["output_schema"] is not None:
        compile_schema(record["output_schema"], "output_schema")
    return SavedProgram(
        name=validate_program_name(record["name"]),
        version=record["version"],
        description=record["description"],
        source=source,
        input_schema=record["input_schema"],
        output_schema=record["output_schema"],
        allowed_tools=tuple(record["allowed_tools"]),
        tools=record["tools"],
        limits=limits_of_record(record["limits"]),
        run_id=record["run_id"],
        saved_at=record["saved_at"],
        folder=folder,
    )


def refused(file: Path, problem: str) -> UsageError:
    """Return the error of a file that is not as it should be, with the remedies."""
    name = file.parent.parent.name
    return UsageError(
        f"saved program {name!r}: {file}: {problem}. Restore the file, save the program again from "
        f"a run, or delete it with `ptc programs delete {name} --version {file.parent.name}`"
    )


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()
