"""Extraction from many documents: the workers, their shared limits, and the rows.

Rule 1: A row is recorded before it is yielded, and a recorded row is never paid for again.
    tests/core/extraction/test_extraction.py::test_resumed_extraction_sends_no_recorded_document
Rule 2: Stopping sends no new document and loses no answer that has been paid for.
    tests/core/extraction/test_extraction.py::test_stop_finishes_requests_in_flight
"""

from __future__ import annotations

import time
import unicodedata
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from .._core._background import running
from .._facts import ModelUsage
from ..errors import ModelError, PtcError, UsageError
from ..models._batch import open_batch_api
from ..models._model import Model
from ..models._open import OpenModels
from ..models._prices import find_prices
from ._batches import Activity, Batches
from ._documents import Document, Documents, DocumentSource, open_documents
from ._options import Plan, make_plan
from ._pacing import Pace, StoppedError, Throttle, find_throttle
from ._parquet import require_parquet, write_parquet
from ._questions import Questioner, digest_of, is_fatal
from ._record import OpenDocuments, recording
from ._row import ExtractedRow, ExtractionReport, row_from_json, row_to_json
from ._row_log import RowEntry, RowLog, write_error
from ._slots import Slots
from ._spending import Budget, require_prices

__all__ = ["Extraction", "open_extraction"]

T = TypeVar("T")

_MAX_CHARS = 100_000_000
"""Characters of the documents in flight. Each is in memory a few times, as a part of a request."""
_FAILURES_IN_A_ROW = 20
"""Documents after whose failure, one after the other, the provider is taken to be down."""


class Extraction(Generic[T]):
    """Rows of an extraction, an async iterator; made by `Session.extract_many`.

    Rows come as they are finished, those of the output file first.
    """

    def __init__(self, documents: Documents, plan: Plan, model: Model, throttle: Throttle) -> None:
        """Prepare the extraction; nothing is sent or written.

        Args:
            documents: The documents.
            plan: The options.
            model: Receives the requests.
            throttle: State of the model, shared with other extractions.

        Raises:
            UsageError: If the budget is in money and the price of the model is unknown.
            SetupError: If the output needs pyarrow.
        """
        prices = find_prices(model.name, plan.prices, batch=plan.batch)
        if plan.max_cost is not None:
            require_prices(model.name, prices)
        require_parquet(plan.output)
        self._documents = documents
        self._plan = plan
        self._model = model
        self._pace = Pace(plan.concurrency, rpm=plan.rpm, tpm=plan.tpm, throttle=throttle)
        self._budget = Budget(prices, plan.max_cost, plan.max_total_tokens)
        self._log: RowLog | None = None
        self._parts: RowLog | None = None
        self._submissions: RowLog | None = None
        self._batches: Batches | None = None
        self._activity = Activity()
        self._slots = Slots(plan.concurrency, _MAX_CHARS)
        self._stopped: Literal["budget", "interrupted", "model"] | None = None
        self._reason = ""
        self._failure: Exception | None = None
        self._failures = 0
        self._released = anyio.Event()
        self._counts: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._started = time.monotonic()
        self._ended: float | None = None
        self._rows_in: MemoryObjectSendStream[ExtractedRow[T]]
        self._rows_out: MemoryObjectReceiveStream[ExtractedRow[T]]
        self._rows_in, self._rows_out = anyio.create_memory_object_stream(0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ExtractedRow[T]:
        try:
            return await self._rows_out.receive()
        except anyio.EndOfStream:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure from None
            raise StopAsyncIteration from None

    def stop(self) -> None:
        """Send no further document. The iteration ends when the requests in flight have ended.

        Batches continue at the provider; the same call collects their results later.
        """
        self._stop("interrupted", "interrupted before all documents were sent")

    @property
    def report(self) -> ExtractionReport:
        """The state now."""
        counts, budget, batches = self._counts, self._budget, self._batches
        return ExtractionReport(
            total=self._documents.total,
            **{name: counts[name] for name in _COUNTED},
            in_flight=self._pace.in_flight if batches is None else batches.waiting,
            usage=budget.spent,
            cost=None if budget.prices is None else budget.cost,
            retries=self._pace.retries if batches is None else batches.retries,
            waited_s=self._pace.waited_s,
            waiting_s=self._pace.waiting_s if self._ended is None else 0.0,
            seconds=(self._ended or time.monotonic()) - self._started,
            batches=None if batches is None else batches.progress,
            stopped=self._stopped,
            reason=self._reason,
            errors=dict(self._errors),
        )

    # --- work -------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Open the output file.

        Raises:
            UsageError: If it cannot be used.
        """
        if self._plan.output is None:
            return
        self._log = await anyio.to_thread.run_sync(RowLog, journal_of(self._plan.output))
        self._check_recorded(self._log)
        self._parts = await anyio.to_thread.run_sync(RowLog, _parts_of(self._plan.output))
        if self._plan.batch:
            api = await open_batch_api(self._model)
            record = _batches_of(self._plan.output)
            self._submissions = await anyio.to_thread.run_sync(RowLog, record)
            self._batches = Batches(
                api,
                self._submissions,
                self._activity,
                model=self._model.name,
                poll_s=self._plan.poll_ms / 1000,
                on_failure=self._fail,
            )

    def _check_recorded(self, log: RowLog) -> None:
        """Refuse rows of other questions, which would be sent and paid for again."""
        ours = self._plan.digest(), self._model.name
        if not log.entries or self._plan.retry_failed:
            return
        if any((entry.settings, entry.model) == ours for entry in log.entries.values()):
            return
        models = {entry.model for entry in log.entries.values()}
        changed = "the schema, the prompt or an option differs"
        if self._model.name not in models:
            changed = f"the model was {', '.join(sorted(models))}, not {self._model.name}"
        msg = (
            f"output {str(self._plan.output)!r} has {len(log.entries):,} rows of another "
            f"extraction: {changed}. Choose another output. To ask again about failed rows only, "
            "pass retry_failed"
        )
        raise UsageError(msg)

    async def _run(self) -> None:
        """Process the documents, and close the stream of rows."""
        try:
            questioner = Questioner(
                self._plan,
                self._model,
                self._pace,
                self._budget,
                self._parts,
                self._activity,
                self._batches,
            )
            async with anyio.create_task_group() as group:
                if self._batches is not None:
                    group.start_soon(self._batches.run)
                await self._process(questioner)
                if self._batches is not None:
                    self._batches.close()
            if self._log is not None:
                await anyio.to_thread.run_sync(self._finish, self._log)
        except Exception as raised:  # noqa: BLE001  # raised again by the iteration
            self._failure = _first(raised)
        finally:
            self._ended = time.monotonic()
            self._rows_in.close()

    async def _process(self, questioner: Questioner) -> None:
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            self._activity.begin()
            try:
                await self._feed(questioner, group)
            except Exception as error:  # noqa: BLE001  # also those of the caller's iterator
                # Raised after the documents in flight, which are paid for.
                failure = error
            self._activity.end()
        if failure is not None:
            raise failure

    async def _feed(self, questioner: Questioner, group: TaskGroup) -> None:
        """Start a task for each document, and yield those that have a row."""
        seen: set[str] = set()
        async with aclosing(self._documents.read()) as documents:
            async for document in documents:
                if self._stopped is not None:
                    break
                if document.id in seen:
                    msg = f"two documents have the id {document.id!r:.80}; make them unique"
                    raise UsageError(msg)
                seen.add(document.id)
                if (row := self._recorded(document)) is not None:
                    await self._yield(row)
                    continue
                while not self._slots.take(len(document.text)):
                    with self._activity.waiting():
                        await self._slots.wait()
                self._activity.begin()
                group.start_soon(self._extract_in_slot, questioner, document)

    def _recorded(self, document: Document) -> ExtractedRow[T] | None:
        """Return the row of the output file, unless the document is to be sent.

        Raises:
            UsageError: If the row is of another version or schema.
        """
        entry = self._entry(document)
        if self._log is None or entry is None or entry[1].digest != digest_of(document.text):
            return None
        if entry[1].status != "done" and self._plan.retry_failed:
            return None
        try:
            return row_from_json(self._log.read(entry[0]), self._plan.contract.typed)
        except (KeyError, TypeError, ValueError, UsageError) as error:
            reason = (
                f"{error}" if isinstance(error, UsageError) else f"{type(error).__name__} {error}"
            )
        msg = (
            f"output {str(self._plan.output)!r}: the row of {entry[0]!r:.80} does not fit this "
            f"version or schema: {reason}. Choose another output"
        )
        raise UsageError(msg)

    def _entry(self, document: Document) -> tuple[str, RowEntry] | None:
        """Find the row of a document, also under the other normal form of its id."""
        entries = {} if self._log is None else self._log.entries
        if (entry := entries.get(document.id)) is not None:
            return document.id, entry
        if document.id.isascii():
            return None
        # macOS and Linux name the same file by different characters.
        forms: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
        for form in forms:
            name = unicodedata.normalize(form, document.id)
            if (entry := entries.get(name)) is not None:
                return name, entry
        return None

    def _previous(self, document: Document) -> dict[str, Any] | None:
        """Return the recorded row that the row of `document` will replace."""
        entry = self._log.entries.get(document.id) if self._log is not None else None
        if self._log is None or entry is None:
            return None
        return self._log.read(document.id)

    async def _extract_in_slot(self, questioner: Questioner, document: Document) -> None:
        try:
            if self._stopped is None:
                await self._extract(questioner, document)
        finally:
            self._slots.release(len(document.text))
            self._activity.end()

    async def _extract(self, questioner: Questioner, document: Document) -> None:
        estimate = questioner.estimate(document)
        while (reason := self._budget.reserve(estimate)) is not None:
            if not self._budget.reserved:
                self._stop("budget", reason)
            if self._stopped is not None:
                return
            released = self._released
            with self._activity.waiting():
                await released.wait()
        usage = ModelUsage()
        try:
            row, error = await questioner.extract(document, self._previous(document))
            usage = row.usage
        except StoppedError as stopped:
            if reason := str(stopped):
                self._stop("budget", reason)
            return
        finally:
            self._budget.release(estimate, usage)
            self._notify()
        self._judge(error)
        if self._log is not None:
            await self._log.append(row_to_json(row))
        await self._yield(row)

    def _judge(self, error: PtcError | None) -> None:
        """Stop if the other documents would fail, too."""
        self._failures = self._failures + 1 if isinstance(error, ModelError) else 0
        if error is None or self._stopped is not None:
            return
        if is_fatal(error, first=not self._counts["done"]):
            self._fail(error)
        elif self._failures >= max(_FAILURES_IN_A_ROW, self._plan.concurrency):
            reason = f"{self._failures} documents in a row failed, the last with: {error}"
            self._fail(ModelError(reason, retryable=True))

    def _fail(self, error: PtcError) -> None:
        """Stop with an error that concerns all documents."""
        if self._stopped is None:
            self._stop("model", str(error))
            self._failure = error

    async def _yield(self, row: ExtractedRow[T]) -> None:
        counts = self._counts
        counts[row.status] += 1
        counts["reused"] += row.reused
        counts["repaired"] += row.status == "done" and (
            row.attempts > row.parts or bool(row.repairs)
        )
        counts["conflicts"] += len(row.conflicts)
        counts["unsupported"] += sum(not found.supported for found in row.evidence or ())
        if row.error is not None:
            self._errors[row.error.reason] += 1
        if self._plan.on_progress is not None:
            self._plan.on_progress(self.report)
        await self._rows_in.send(row)

    def _stop(self, why: Literal["budget", "interrupted", "model"], reason: str) -> None:
        if self._stopped is None:
            self._stopped, self._reason = why, reason
            self._pace.stop()
            if self._batches is not None:
                self._batches.stop()
            self._notify()

    def _notify(self) -> None:
        self._released.set()
        self._released = anyio.Event()

    def _finish(self, log: RowLog) -> None:
        """Leave one row for each document, and nothing else if all are done."""
        output = self._plan.output
        assert output is not None  # noqa: S101  # there is a log
        try:
            log.compact()
            if output.suffix == ".parquet":
                write_parquet(output, log.read_all())
        except OSError as error:
            raise write_error(output, error) from None
        if self._stopped is None and not self._errors:
            _parts_of(output).unlink(missing_ok=True)
            _batches_of(output).unlink(missing_ok=True)

    def _close(self) -> None:
        """Close the streams and files."""
        self._rows_in.close()
        self._rows_out.close()
        self._pace.close()
        output = self._plan.output
        if output is not None:
            for log, path in (
                (self._parts, _parts_of(output)),
                (self._submissions, _batches_of(output)),
            ):
                if log is not None and not log.entries:
                    path.unlink(missing_ok=True)
        for log in (self._log, self._parts, self._submissions):
            if log is not None:
                log.close()


_COUNTED = ("done", "failed", "dead", "reused", "repaired", "conflicts", "unsupported")


@asynccontextmanager
async def open_extraction(
    models: OpenModels,
    documents: DocumentSource,
    schema: Any,
    options: dict[str, Any],
    journal: OpenDocuments | None = None,
) -> AsyncIterator[Extraction[Any]]:
    """Start an extraction; leaving the block early cancels it.

    Exceptions of the block are raised unchanged, not in a group.

    Args:
        models: Models of the session.
        documents: As for `Session.extract_many`, like `schema` and `options`.
        schema: The schema.
        options: The options.
        journal: Opens the documents of the journal that shows the progress. None: there is none.
    """
    model = models.get(options.pop("model", None))
    plan = make_plan(schema, options)
    throttle = find_throttle(models, model.name)
    found = open_documents(documents, _own_files(plan.output))
    extraction: Extraction[Any] = Extraction(found, plan, model, throttle)
    try:
        await extraction._open()
        progress = recording(journal, plan, model.name, lambda: extraction.report)
        async with progress, running(extraction._run):
            yield extraction
    finally:
        extraction._close()


def journal_of(output: Path) -> Path:
    """Return the file of the rows: the output, or a JSONL file beside one of another format."""
    return output if output.suffix != ".parquet" else output.with_name(f"{output.name}.jsonl")


def _parts_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.parts")


def _batches_of(output: Path) -> Path:
    return output.with_name(f"{output.name}.batches")


def _own_files(output: Path | None) -> tuple[Path, ...]:
    """Return the files that an extraction writes, which may be in the folder of the documents."""
    if output is None:
        return ()
    return output, journal_of(output), _parts_of(output), _batches_of(output)


def _first(error: Exception) -> Exception:
    """Return the first exception of a group."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
