"""``ptc extract``: extract data from many documents, with resumption, limits and a report."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError
from ._options import HISTORY_KEYS, json_option, settings_options
from ._status import COMPLETED, FAILED, INTERRUPTED, LIMIT, TERMINATED

if TYPE_CHECKING:
    import anyio

    from .._config._settings import Settings
    from .._extraction._extraction import Extraction
    from .._extraction._row import ExtractionReport
    from .._runs._lazy_journal import LazyJournal
    from ..errors import PtcError
    from ..journal._documents import Documents
    from ._extract_progress import ExtractProgress

__all__ = ["command"]

_HELP = """Extract an object from each of many documents; every object matches the schema.

DOCS is a folder, a file, a glob (in quotes), or a JSONL file with the texts "id" and "text" in each
line. FILE of --schema is a JSON Schema; MODULE:CLASS is a pydantic model or another type.

Each document has one row in the output: id, status, object, error, attempts, usage, cost, and
evidence. A row is on the disk before the next one counts. If the command is interrupted or killed,
run it again: documents with a row are not sent again. With --output, the journal records the
progress, and `ptc ui` shows it with the rows.

With --batch the requests go to the provider's batch API, usually at half the price, and the answers
come within a day. Press Ctrl-C meanwhile if you like: the same command collects them later.

\b
Examples:
  ptc extract invoices/ --schema invoice.json --model openai:gpt-5 --output rows.jsonl
  ptc extract "mail/**/*.txt" --schema mail.py:Mail --concurrency 32 --max-cost 5 --output m.jsonl
  ptc extract docs.jsonl --schema s.json --output rows.jsonl --retry-failed
  ptc extract docs.jsonl --schema s.json --output rows.jsonl --compare gold.jsonl --report q.html
  ptc extract docs/ --schema s.json --model openai:gpt-5 --output rows.jsonl --batch
"""

_EXIT_STATUS = """\b
Exit status:
    0  every document has an object
    1  some rows failed or are dead; the output has the reasons
    2  the command line is invalid; nothing was sent
    3  the budget is used up; the output has what was done
    5  this machine lacks a requirement, e.g. the key of a provider
  130  interrupted with Ctrl-C (143: terminated); run the command again to continue
"""


@click.command(
    "extract",
    short_help="Fill in a schema from each of many documents.",
    help=_HELP,
    epilog=_EXIT_STATUS,
)
@click.argument("docs", metavar="DOCS")
@click.option("--schema", required=True, metavar="FILE|MODULE:CLASS", help="Schema of the object.")
@click.option(
    "--output",
    metavar="FILE",
    help="JSONL file of rows, continued if it exists; .parquet needs pyarrow. [default: standard "
    "output, which cannot be continued]",
)
@click.option("--prompt", metavar="TEXT", help="The task. [default: extract the data]")
@click.option("--system", metavar="TEXT", help="System instructions for the model.")
@click.option("--schema-name", metavar="NAME", help="Name of the schema, shown to the model.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "tool", "native", "prompt"]),
    help="How to request structured output. [default: auto, by the model's features]",
)
@click.option(
    "--batch",
    is_flag=True,
    help="Use the provider's batch API: cheaper, within a day; needs --output. [openai, anthropic]",
)
@click.option(
    "--poll-ms",
    type=int,
    metavar="N",
    help="Longest time between two looks at a batch. [default: 60,000]",
)
@click.option(
    "--concurrency",
    type=int,
    metavar="N",
    help="Requests in flight; with --batch, documents. [default: 8; with --batch 10,000]",
)
@click.option("--rpm", type=float, metavar="N", help="Requests a minute at most.")
@click.option("--tpm", type=float, metavar="N", help="Tokens a minute at most.")
@click.option("--max-cost", type=float, metavar="USD", help="Stop before spending more.")
@click.option("--max-total-tokens", type=int, metavar="N", help="Stop before using more tokens.")
@click.option(
    "--price",
    type=(float, float),
    metavar="IN OUT",
    help="US dollars for a million tokens of input and output. [default: known prices]",
)
@click.option("--max-tokens", type=int, metavar="N", help="Maximum tokens per answer.")
@click.option(
    "--max-repair-attempts",
    type=int,
    metavar="N",
    help="Further attempts after an invalid answer, 0 to 5. [default: 2]",
)
@click.option(
    "--timeout-ms", type=int, metavar="N", help="Wall time of one request. [default: 120,000]"
)
@click.option("--evidence", is_flag=True, help="Quote the source of each value, and verify it.")
@click.option(
    "--split-chars",
    type=int,
    metavar="N",
    help="Split documents above N characters at pages, headings and paragraphs. [default: 100,000]",
)
@click.option(
    "--merge-key",
    "merge_keys",
    multiple=True,
    metavar="LIST=FIELD[,FIELD]",
    help="Fields that identify the items of a list in the parts of a long document.",
)
@click.option(
    "--retry-failed",
    is_flag=True,
    help="Send documents again whose row failed or is dead, also with another model.",
)
@click.option(
    "--compare", metavar="FILE", help='JSONL file with the right objects: {"id", "object"}.'
)
@click.option("--report", metavar="FILE", help="HTML report of the comparison.")
@settings_options("model", *HISTORY_KEYS)
@json_option("Print the report as JSON; needs --output.")
def command(
    *,
    docs: str,
    schema: str,
    compare: str | None,
    report: str | None,
    settings: Settings,
    as_json: bool,
    **options: Any,
) -> int:
    """Run the command; `_HELP` is its help text."""
    import anyio

    from ._extract_inputs import check_report, read_gold, read_schema
    from ._extract_progress import ExtractProgress
    from ._extract_report import write_comparison, write_report
    from ._terminal import standard_error, standard_output

    model = settings.model()
    if report is not None and compare is None:
        raise UsageError("--report needs --compare, whose result it shows")
    if report is not None:
        check_report(report, (docs, schema, options["output"], compare))
    gold = None if compare is None else read_gold(compare)
    if as_json and options["output"] is None:
        raise UsageError("--json prints the report, so the rows need --output FILE")
    wanted = read_schema(schema)
    keep = compare is not None
    given = _to_options(options)
    errors, output = standard_error(), standard_output()
    progress = ExtractProgress(errors, quiet=as_json)
    to_rows = output if given.get("output") is None else None
    run = _Run(progress, to_rows, _journal_of(settings), keep=keep)
    try:
        anyio.run(run.execute, model, docs, wanted, given)
    except UsageError as error:
        raise settings.explain(error) from None
    assert run.report is not None  # noqa: S101  # only an exception leaves none
    comparison = None
    if gold is not None:
        comparison = write_comparison(errors, run.values, gold, given, report)
    write_report(errors if not as_json else output, run.report, given, comparison, as_json=as_json)
    if run.failure is not None:
        raise run.failure
    return _status(run.report, run.signal)


def _to_options(options: dict[str, Any]) -> dict[str, Any]:
    """Convert options of the command line to those of `extract_many`."""
    given = {name: value for name, value in options.items() if value not in (None, ())}
    max_tokens = given.pop("max_tokens", None)
    if max_tokens is not None:
        given["settings"] = {"max_tokens": max_tokens}
    if "price" in given:
        given["prices"] = given.pop("price")
    keys = {}
    for pair in given.pop("merge_keys", ()):
        name, equals, fields = pair.partition("=")
        if not equals or not fields:
            msg = f"--merge-key {pair!r}: write LIST=FIELD, as in --merge-key lines=number"
            raise UsageError(msg)
        keys[name] = fields.split(",")
    return {**given, "merge_keys": keys}


def _journal_of(settings: Settings) -> LazyJournal:
    """Return the journal that shows the progress; nothing is opened."""
    from functools import partial

    from .._runs._lazy_journal import LazyJournal
    from ..journal._location import default_journal

    journal = settings.journal()
    if journal is None:
        return LazyJournal(partial(default_journal, settings.root.resolve(), ()))
    return LazyJournal(journal)


def _status(report: ExtractionReport, number: signal.Signals | None) -> int:
    if number is not None:
        return TERMINATED if number == signal.SIGTERM else INTERRUPTED
    if report.stopped == "budget":
        return LIMIT
    return FAILED if report.failed or report.dead else COMPLETED


class _Run:
    """One extraction that a signal stops cleanly."""

    def __init__(
        self, progress: ExtractProgress, rows: Any, journal: LazyJournal, *, keep: bool
    ) -> None:
        """Prepare the extraction.

        Args:
            progress: Shows the state.
            rows: Stream that rows are printed to; None: they are not printed.
            journal: Records the progress, for `ptc ui`.
            keep: True: keep the objects, for a comparison.
        """
        self._progress = progress
        self._rows = rows
        self._journal = journal
        self._keep = keep
        self.values: dict[str, Any] = {}
        """Objects by id of the document; None for a row without one."""
        self.report: ExtractionReport | None = None
        self.failure: PtcError | None = None
        self.signal: signal.Signals | None = None

    async def execute(self, model: str, docs: str, schema: Any, options: dict[str, Any]) -> None:
        """Extract all documents."""
        import anyio

        from .._extraction._extraction import open_extraction
        from ..errors import ModelError, SetupError
        from ..models._open import OpenModels

        models = OpenModels(model)
        try:
            opened = open_extraction(models, docs, schema, options, self._open_documents)
            async with opened as extraction:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._watch, extraction, group.cancel_scope)
                    group.start_soon(self._progress.follow, extraction)
                    # Let the watcher install its handler.
                    await anyio.lowlevel.checkpoint()
                    try:
                        await self._read(extraction)
                    except (ModelError, SetupError, UsageError) as error:
                        self.failure = error
                    group.cancel_scope.cancel()
                self.report = extraction.report
        finally:
            self._progress.close()
            with anyio.CancelScope(shield=True):
                await models.aclose()
            await self._journal.close()

    async def _open_documents(self) -> Documents:
        return (await self._journal.open()).documents

    async def _read(self, extraction: Extraction[Any]) -> None:
        import json

        from .._extraction._row import row_to_json

        async for row in extraction:
            if self._keep:
                self.values[row.id] = row.value
            if self._rows is not None:
                self._rows.write(json.dumps(row_to_json(row), ensure_ascii=False) + "\n")
                if self._rows.is_closed:
                    extraction.stop()  # nobody reads the rows, which would be paid for
            if row.error is not None and not row.reused:
                self._progress.line(f"{row.status}: {row.id}: {row.error.message}")

    async def _watch(self, extraction: Extraction[Any], scope: anyio.CancelScope) -> None:
        """Finish the requests in flight at the first signal; cancel them at the second."""
        from .._core._signals import receive_signals
        from ._extract_progress import describe_stop
        from ._signals import stop_signals

        handled = stop_signals()
        if not handled:
            return
        with receive_signals(*handled) as signals:
            async for number in signals:
                if self.signal is not None:
                    scope.cancel()
                    return
                self.signal = number
                before = extraction.report
                extraction.stop()
                if (line := describe_stop(before)) is not None:
                    self._progress.line(line)
