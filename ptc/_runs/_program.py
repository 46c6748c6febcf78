"""A script that the host has validated and can send to a worker."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict

from .._calls._earlier import Reads
from .._core import _json
from .._core._arguments import nearest
from .._dataclass import dataclass
from .._records._limits import Breach, Limits
from .._records._result import Failure, Finding, RunResult, RunWarning
from .._schema._check import ValueCheck
from .._tools._allow import AllowList
from .._tools._table import ToolTable
from .._tools._tool import Tool
from ..errors import UsageError

__all__ = [
    "NonFinite",
    "Program",
    "ProgramOptions",
    "encode_inputs",
    "encode_limits",
    "read_script",
    "reject_unsendable",
    "validate_filename",
    "validate_non_finite",
]


NonFinite: TypeAlias = Literal["null", "text", "error"]
"""Form of NaN and the infinities in results."""
_NON_FINITE: Final[tuple[NonFinite, ...]] = ("null", "text", "error")


class UntypedOptions(TypedDict, total=False):
    """Arguments of `Session.program` except ``on_event`` and ``output_schema``."""

    source: str | None
    path: str | Path | None
    inputs: Mapping[str, Any] | None
    allowed_tools: AllowList | None
    limits: Limits | Mapping[str, Any] | None
    filename: str | None
    env: Mapping[str, Any] | None
    run_id: str | None


class ProgramOptions(UntypedOptions, total=False):
    """Arguments of `Session.program` except ``on_event``."""

    output_schema: Any


@dataclass(frozen=True, slots=True)
class Program:
    """A script that the host has validated and can send to a worker."""

    run_id: str
    source: str
    filename: str
    inputs_json: bytes
    table: ToolTable
    """Tools that it may call."""
    limits: Limits
    warnings: tuple[RunWarning, ...] = ()
    check_value: ValueCheck | None = None
    only_check: bool = False
    """True: the script is checked, not run."""
    recorded: bool = True
    """False: the journal has no record of the run."""
    clock: float = field(default_factory=time.time)
    """Start of the script's clock, in seconds since 1970."""
    seed: int = 0
    """Seed of the script's random numbers."""
    resumed: bool = False
    """True: it is the program of a recorded run, so the check before the run only warns."""
    until: str | None = None
    """Stop the replay after the outcome of this call was sent to the script."""
    non_finite: NonFinite = "null"
    """Form of NaN and the infinities in results."""
    schema: Any = None
    """Output schema that `check_value` was compiled from."""
    key_run: str | None = None
    """Run of which this one is a retry: the idempotency keys of its calls are the same."""
    has_rules: bool = False
    """True if the allow-list had rules, which are code and cannot be recorded."""
    revision: int = 1
    """Number of the script: 1, and one more for each that continued the run."""
    reads: Reads = "reuse"
    """Treatment of the reads of earlier revisions."""
    store_source: bool = True
    """False: the journal stores the digest of the script only."""
    allow_unmatched: bool = False
    """True: new effects are made although recorded ones were not."""
    engine: str = ""
    """Engine that a recorded run was started on; empty if that is unknown."""
    trace: str = ""
    """Context of the first span of the run, in the format of ``traceparent``; empty: none."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Tools that it may call, by name."""
        return self.table.tools


def validate_filename(name: str | None) -> str:
    """Return the name of the script in tracebacks. Raises `UsageError` if it is unusable."""
    if name is None:
        return "script.py"
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= 200:
        msg = f"filename must be 1 to 200 printable characters, not {name!r:.80}"
        raise UsageError(msg)
    return name


def validate_non_finite(form: object) -> None:
    """Raise `UsageError` if `form` is not a form of NaN and the infinities."""
    if form not in _NON_FINITE:
        msg = f"non_finite={form!r} is unknown{nearest(form, _NON_FINITE)}; forms: "
        raise UsageError(msg + ", ".join(_NON_FINITE))


def encode_inputs(inputs: Mapping[str, Any] | None, limits: Limits) -> bytes:
    """Encode the inputs. Raises `UsageError` if they have no JSON form or exceed their limit."""
    if inputs is None:
        return b"{}"
    if not isinstance(inputs, Mapping):
        msg = f"inputs must be a dict of JSON-able values, not {type(inputs).__name__}"
        raise UsageError(msg)
    try:
        data = _json.dumps(dict(inputs), what="inputs")
    except _json.JsonError as error:
        raise UsageError(str(error)) from None
    if len(data) > limits.max_inputs_bytes:
        most = limits.max_inputs_bytes
        msg = (
            f"inputs has {len(data):,} bytes of JSON, over {most:,} (max_inputs_bytes); pass less, "
            "or references that tools can look up"
        )
        raise UsageError(msg)
    return data


@lru_cache(maxsize=64)
def encode_limits(limits: Limits) -> bytes:
    """Encode limits for the worker and the journal."""
    return _json.dumps(asdict(limits))


def read_script(root: Path, path: Path, filename: str | None) -> tuple[str, str]:
    """Read a script below `root`; return its text and name. Raises `UsageError` on failure."""
    try:
        resolved = (root / path).resolve(strict=True)
        if not resolved.is_relative_to(root):
            msg = f"script {str(path)!r} is outside the session's root {str(root)!r}"
            raise UsageError(msg)
        if not resolved.is_file():
            msg = f"script {str(path)!r} is not a file"
            raise UsageError(msg)
        data = resolved.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        msg = f"script {str(path)!r} cannot be read: {reason}"
        raise UsageError(msg) from None
    try:
        return data.decode("utf-8"), filename or resolved.name
    except UnicodeDecodeError as error:
        msg = f"script {str(path)!r} is not UTF-8 text: byte {error.start} is {data[error.start]}"
        raise UsageError(msg) from None


def reject_unsendable(program: Program) -> RunResult | None:
    """Reject a script without a worker if it is too large or not valid Unicode, else None."""
    source, limits = program.source, program.limits
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        return _rejected(program, "source_text", f"character {error.start} is a lone surrogate")
    if size > limits.max_source_bytes:
        most = limits.max_source_bytes
        message = f"the script has {size:,} bytes, over max_source_bytes={most:,}"
        hint = "pass data as inputs, not as literals, or ask for a higher max_source_bytes"
        breach = Breach("max_source_bytes", most, size)
        return _rejected(program, "source_size", message, hint, breach)
    return None


def _rejected(
    program: Program, code: str, message: str, hint: str = "", breach: Breach | None = None
) -> RunResult:
    finding = Finding(code=code, message=message, line=0, column=0, hint=hint, excerpt="")
    failure = Failure(code=code, message=message, hint=hint, findings=(finding,), breach=breach)
    return RunResult(run_id=program.run_id, status="rejected", error=failure, limits=program.limits)
