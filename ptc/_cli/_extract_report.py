"""Report of ``ptc extract`` and its comparison with a gold file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SetupError
from ._extract_progress import describe_duration, describe_tokens
from ._table import write_table
from ._terminal import Stream

if TYPE_CHECKING:
    from .._extraction._compare import Comparison
    from .._extraction._row import ExtractionReport

__all__ = ["write_comparison", "write_report"]


def write_comparison(
    stream: Stream,
    values: Mapping[str, Any],
    gold: Mapping[str, Any],
    options: Mapping[str, Any],
    report: str | None,
) -> Comparison:
    """Compare objects with the gold file, print the table of fields and write the HTML report.

    Args:
        stream: Receives the table.
        values: Extracted objects by id.
        gold: Right objects by id.
        options: Options of the extraction.
        report: Path of the HTML report, or None.

    Raises:
        SetupError: If the report cannot be written.
    """
    from .._extraction._compare import compare
    from .._extraction._compare_html import write_html
    from .._extraction._merge import read_merge_keys

    found = compare(values, gold, read_merge_keys(options["merge_keys"]))
    columns = [
        ("FIELD", ""),
        ("PRECISION", "number"),
        ("RECALL", "number"),
        ("RIGHT", "number"),
        ("WRONG", "number"),
        ("MISSING", "number"),
        ("EXTRA", "number"),
    ]
    rows = [
        [
            score.field or "(root)",
            _percent(score.precision),
            _percent(score.recall),
            *(f"{count:,}" for count in (score.right, score.wrong, score.missing, score.extra)),
        ]
        for score in (*found.fields, found.total)
    ]
    write_table(stream, columns, rows)
    if report is not None:
        try:
            Path(report).write_text(write_html(found), encoding="utf-8")
        except OSError as error:
            msg = f"--report {report!r} cannot be written: {error.strerror or error}"
            raise SetupError(msg) from None
    return found


def write_report(
    stream: Stream,
    report: ExtractionReport,
    options: Mapping[str, Any],
    comparison: Comparison | None,
    *,
    as_json: bool,
) -> None:
    """Print the report of an extraction."""
    if as_json:
        whole: dict[str, Any] = {**asdict(report), "rate": report.rate}
        if comparison is not None:
            whole["comparison"] = comparison.to_json()
        stream.json(whole)
        return
    for line, style in _lines(report, written=options.get("output") is not None):
        stream.line(line, style)


def _lines(report: ExtractionReport, *, written: bool) -> Iterator[tuple[str, str]]:
    """Yield the lines of the report with their styles."""
    counts = [f"{report.done:,} done", f"{report.failed:,} failed", f"{report.dead:,} dead"]
    if report.total is not None and report.total > report.rows:
        counts.append(f"{report.total - report.rows:,} not processed")
    reused = f" ({report.reused:,} from the output file)" if report.reused else ""
    yield f"{', '.join(counts)}{reused} in {describe_duration(report.seconds)}", ""
    money = "price unknown" if report.cost is None else f"${report.cost:.4f}"
    tokens = describe_tokens(report.usage.input_tokens + report.usage.output_tokens)
    yield f"{report.usage.requests:,} answers, {tokens}, {money}", ""
    notes = [
        (report.repaired, "rows needed a repair or a second answer", ""),
        (report.retries, _retried(report), ""),
        (report.conflicts, "conflicts between parts of documents", "yellow"),
        (report.unsupported, "values are not supported by their document", "yellow"),
    ]
    if report.batches is not None:
        ignored = "lines of results belong to no request, or cannot be read; they were ignored"
        notes.append((report.batches.ignored_lines, ignored, "yellow"))
    notes += [(n, f"rows without an object: {why}", "yellow") for why, n in report.errors.items()]
    yield from ((f"{count:,} {text}", style) for count, text, style in notes if count)
    if report.stopped is not None:
        yield f"stopped: {report.reason}", "bold yellow"
        if written:
            yield "run the command again to continue; recorded rows are not sent again", ""
    elif report.errors and written:
        yield "add --retry-failed to send only these documents again", ""


def _retried(report: ExtractionReport) -> str:
    if report.batches is not None:
        return "requests failed or expired in a batch, and were sent again in the next"
    return f"requests were sent again; the provider asked to wait {report.waited_s:.1f} s"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
