"""Code of a script from the frame that has its source or its compiled code."""

from __future__ import annotations

import ast
import marshal  # noqa: TID251  # reads code that a worker compiled from the same source
import types
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Final

from .._language._compiler import ScriptRejected, compile_script
from .._language._scopes import Survey
from .._wire._messages import MAX_FINDINGS, Finding
from .._wire._protocol import MAX_BODY, Kind
from . import _values
from ._preflight import preflight
from ._tool_table import SignatureTable
from ._values import shorten
from ._wire import Wire

__all__ = ["load_code"]

_OF_CHECKS: Final = frozenset({"ends_in_assignment", "not_awaited"})
"""Findings that are reported by a check alone, not by a run."""
_FINDING_CHARS: Final = 800
"""A hundred findings with hints of this length, of characters that JSON escapes, fit a frame."""


def load_code(
    wire: Wire, filename: str, signatures: SignatureTable | None, then: str
) -> types.CodeType | None:
    """Return the code of the script; None if it was rejected or only checked, and reported.

    The host returns compiled code only for the same source, and received it before the first line
    of that source ran, so a run cannot change the code of another script.

    Args:
        wire: Connection to the host, which sends SOURCE or CODE.
        filename: File name of the compiled code.
        signatures: Parameters of the tools, to check calls against; None: calls are not checked.
        then: ``"report"``: report the findings and run nothing. ``"warn"``: no finding refuses the
            script.
    """
    code: types.CodeType
    kind, body = wire.receive()
    if kind is Kind.CODE:
        code = marshal.loads(body)  # noqa: S302  # see above
        return code
    source = body.decode()
    advice: list[Finding] = []

    def inspect(tree: ast.Module, survey: Survey) -> list[Finding]:
        """Check the calls of tools: return the certain errors, and add the rest to `advice`."""
        if signatures is None:
            return []
        found = preflight(tree, source, signatures, survey.read, signatures.denied)
        findings = _select(found, then)
        advice.extend(finding for finding in findings if finding.advisory)
        return [finding for finding in findings if not finding.advisory]

    try:
        # The host has already checked the source against the caller's limit.
        compiled = compile_script(
            source, filename, max_bytes=MAX_BODY[Kind.SOURCE], inspector=inspect
        )
    except ScriptRejected as rejected:
        findings = [*rejected.findings, *(advice if then == "report" else ())]
        findings.sort(key=lambda finding: (finding.line, finding.column))
        wire.close(Kind.REJECTED, _rows(findings))
        return None
    if then == "report":
        wire.close(Kind.CHECKED, _rows(advice))
        return None
    if advice:
        wire.queue(Kind.ADVISED, _rows(advice))
    return compiled.code if _send(wire, compiled.code) else None


def _select(findings: list[Finding], then: str) -> list[Finding]:
    if then != "report":
        # The run itself reports calls that were not awaited, and its value.
        findings = [finding for finding in findings if finding.code not in _OF_CHECKS]
    if then == "warn":
        findings = [replace(finding, advisory=True) for finding in findings]
    return findings


def _send(wire: Wire, code: types.CodeType) -> bool:
    """Send compiled code to the host; return False if it is too large, which is reported."""
    data, most = marshal.dumps(code), MAX_BODY[Kind.COMPILED]
    if len(data) > most:
        message = f"the compiled script has {len(data):,} bytes; at most {most:,} can be sent"
        finding = Finding("too_complex", message, 0, 0, 0, 0, "pass data as inputs")
        wire.close(Kind.REJECTED, _rows([finding]))
        return False
    wire.send(Kind.COMPILED, data)
    return True


def _rows(findings: Iterable[Finding]) -> bytes:
    rows = [
        {
            "code": f.code,
            "message": shorten(f.message, _FINDING_CHARS),
            "line": max(0, f.line),
            "column": max(0, f.column),
            "end_line": max(0, f.end_line),
            "end_column": max(0, f.end_column),
            "hint": shorten(f.hint, _FINDING_CHARS),
            "advisory": f.advisory,
        }
        for f in islice(findings, MAX_FINDINGS)
    ]
    return _values.dumps(rows, "findings")
