"""The progress of an extraction in the journal."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from ptc._extraction._extraction import open_extraction
from ptc._extraction._record import PREFIX, record_name
from ptc.errors import JournalError
from ptc.journal._documents import Documents
from ptc.journal._open import open_journal
from ptc.models._open import OpenModels

from .test_extraction import SCHEMA, Server, documents

pytestmark = pytest.mark.anyio


async def run(open_documents: Any, **options: Any) -> int:
    opened = open_extraction(OpenModels(Server()), documents(5), SCHEMA, options, open_documents)
    async with opened as rows:
        return len([row async for row in rows])


async def test_journal_records_the_state_of_an_output(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "journal.db")

    async def open_documents() -> Documents:
        return journal.documents

    output = tmp_path / "rows.jsonl"
    for _ in range(2):
        await run(open_documents, output=output)
    assert journal.documents.names(PREFIX) == [record_name(output)]
    found = journal.documents.read(record_name(output))
    assert found is not None
    assert (found.data["total"], found.data["done"], found.data["reused"]) == (5, 5, 5)
    assert found.data["output"] == str(output)
    assert found.data["ended_ms"] >= found.data["started_ms"]
    await run(open_documents)
    assert len(journal.documents.names()) == 1, "an extraction without an output is not recorded"
    await journal.close()


async def test_journal_that_fails_does_not_fail_the_extraction(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def open_documents() -> Documents:
        raise JournalError("the disk is full")

    with caplog.at_level(logging.WARNING, "ptc"):
        assert await run(open_documents, output=tmp_path / "rows.jsonl") == 5
    assert [record.message for record in caplog.records] == [
        "the progress of the extraction is not recorded: the disk is full"
    ]
