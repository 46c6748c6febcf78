"""Text of a verification report, for a model and for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Literal

from ._checks import CheckResult, VerificationReport

__all__ = ["describe", "render_report", "report_lines"]

Tone = Literal["passed", "warning", "failed", "plain"]


def render_report(report: VerificationReport) -> str:
    """Format a report for a model: the summary, then each check with its evidence."""
    lines = list(report_lines(report))
    return "\n".join(text for text, _ in [lines[-1], *lines[:-1]])


def report_lines(report: VerificationReport) -> Iterator[tuple[str, Tone]]:
    """Yield the lines of a report and their tone, each check with its evidence, then the summary.

    Of a check that passed, the evidence is the last line of its output.
    """
    for result in report.checks:
        passed = result.status == "passed"
        tone: Tone = "passed" if passed else "failed" if result.required else "warning"
        yield describe(result), tone
        if passed:
            last = (result.tail or result.head).strip().rpartition("\n")[2]
            if last:
                yield f"  {last.strip()[:200]}", "plain"
            continue
        if result.reason:
            yield f"  {result.reason}", "plain"
        for line in _evidence(result):
            yield line, "plain"
    passed = report.status == "passed"
    tone = "failed" if not passed else "warning" if report.failed_optional else "passed"
    yield _summary(report), tone


def describe(result: CheckResult) -> str:
    """Describe a check in a line: ``failed: lint (exit code 1, 0.4 s): ruff check .``."""
    facts = [f"{result.duration_ms / 1000:.1f} s"]
    if result.status == "not_started":
        facts = []
    if result.exit_code is not None:
        facts.insert(0, f"exit code {result.exit_code}")
    if result.signal is not None:
        facts.insert(0, result.signal)
    if not result.required:
        facts.append("optional")
    status = result.status.replace("_", " ")
    shown = f" ({', '.join(facts)})" if facts else ""
    return f"{status}: {result.id}{shown}: {shlex.join(result.command)}"


def _evidence(result: CheckResult) -> Iterator[str]:
    if result.head.strip():
        yield result.head.rstrip("\n")
    if result.tail:
        files = ", ".join(result.artifacts) or "could not be stored"
        left_out = result.output_bytes - len(result.head.encode()) - len(result.tail.encode())
        yield (
            f"[... {max(0, left_out):,} of {result.output_bytes:,} bytes omitted; full output: "
            f"{files} ...]"
        )
        yield result.tail.rstrip("\n")


def _summary(report: VerificationReport) -> str:
    passed = report.counts.get("passed", 0)
    text = f"{report.status}: {report.subject}: {passed} of {len(report.checks)} checks passed"
    if report.failed:
        text += f"; required checks that did not pass: {', '.join(report.failed)}"
    if report.failed_optional:
        text += f"; optional checks that did not pass: {', '.join(report.failed_optional)}"
    return f"{text} ({report.duration_ms / 1000:.1f} s)"
