"""Extractions on the page: progress, rows of the output file, and values that disagree."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc._core._clock import now_ms
from ptc._extraction._record import BEAT_MS, PREFIX, record_name
from ptc._ui import _extractions
from ptc._ui._extractions import head_of
from ptc._ui._row_file import RowFile
from ptc.errors import UsageError
from ptc.journal._documents import Document
from ptc.journal._open import open_journal
from tests.ui.conftest import HOSTILE, Page
from tests.ui.extracted import extract


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], Path]:
    """A journal with two extractions, their ids, and the folder of their outputs."""
    journal = tmp_path_factory.mktemp("store") / "journal.db"
    root = tmp_path_factory.mktemp("root")

    async def record() -> list[str]:
        return [await extract(journal, root, HOSTILE, shift=shift) for shift in (0, 5)]

    return journal, anyio.run(record), root


@pytest.fixture(scope="module")
def page(open_page: Callable[..., Page], store: tuple[Path, list[str], Path]) -> Page:
    return open_page(store[0])


@pytest.fixture(scope="module")
def name(store: tuple[Path, list[str], Path]) -> str:
    return store[1][0]


def test_list_has_the_extractions_with_their_progress(page: Page, name: str) -> None:
    found = {head["id"]: head for head in page.get("/api/extractions").json()["extractions"]}
    head = found[name]
    assert len(found) == 2
    assert (head["status"], head["total"], head["done"], head["dead"]) == ("completed", 9, 8, 1)
    assert head["cost"] == pytest.approx((120 * 2.5 + 12 * 10) * head["tokens"][1] / 12 / 1e6)


def test_extraction_has_reasons_models_and_fields_that_disagree(page: Page, name: str) -> None:
    head = page.get(f"/api/extractions/{name}").json()
    assert head["reasons"] == [["not_conforming", 1]]
    assert head["fields"] == [["/total", 1, 0]]
    assert head["shown"]["all"] == 9
    assert (head["problem"], head["whole"]) == ("", True)
    assert head["row_cost"] == pytest.approx(head["cost"])


def test_documents_are_filtered_by_outcome_field_and_text(page: Page, name: str) -> None:
    def ids(query: str) -> list[str]:
        rows = page.get(f"/api/extractions/{name}/rows?{query}").json()["rows"]
        return [row[1] for row in rows]

    assert len(ids("")) == 9
    assert ids("show=failed") == ["bad"]
    assert ids("show=conflicts&field=/total") == ["long"]
    assert ids("show=conflicts&field=/customer") == []
    assert ids("text=INVOICE-3") == ["invoice-3"]
    assert page.get(f"/api/extractions/{name}/rows?show=x").status_code == 400
    assert page.get(f"/api/extractions/{name}/rows?after=-1").status_code == 400


def test_document_has_the_values_of_its_parts_the_chosen_one_first(page: Page, name: str) -> None:
    rows = page.get(f"/api/extractions/{name}/rows?show=conflicts").json()["rows"]
    data = page.get(f"/api/extractions/{name}/rows/{rows[0][0]}").json()
    assert data["conflicts"] == [["/total", ["10", "12"]]]
    assert json.loads(data["object"]["text"])["total"] == 10
    assert page.get(f"/api/extractions/{name}/rows/99").status_code == 400


def test_two_extractions_are_compared_field_by_field(
    page: Page, store: tuple[Path, list[str], Path]
) -> None:
    one, other = store[1]
    data = page.get(f"/api/extractions/{one}/compare/{other}").json()
    assert (data["documents"], data["same"]) == (8, 7)
    assert data["fields"][0] == ["total", 7, 1, 0, 0]
    assert data["rows"] == [["invoice-1", "/total", "1", "6"]]


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({"done": 2}, "running"),
        ({"done": 5, "ended_ms": 1}, "completed"),
        ({"done": 2, "ended_ms": 1}, "cancelled"),
        ({"done": 2, "ended_ms": 1, "stopped": "budget"}, "limit_exceeded"),
        ({"done": 2, "ended_ms": 1, "stopped": "interrupted"}, "cancelled"),
        ({"done": 2, "ended_ms": 1, "stopped": "model"}, "failed"),
    ],
)
def test_status_is_that_of_the_process_that_extracts(
    state: dict[str, Any], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = Document(PREFIX + "0" * 24, 1, {"total": 5, **state}, now_ms())
    assert head_of(document)["status"] == status
    monkeypatch.setattr(_extractions, "now_ms", lambda: document.changed_ms + 3 * BEAT_MS)
    assert head_of(document)["status"] == ("crashed" if status == "running" else status)


@pytest.mark.parametrize("wrong", ["..", "x", "0" * 24, "a" * 23, "%2e%2e%2f"])
def test_unknown_extraction_is_an_error(page: Page, wrong: str) -> None:
    assert page.get(f"/api/extractions/{wrong}").status_code in (400, 404)


def test_file_of_another_kind_is_not_shown(
    open_page: Callable[..., Page], store: tuple[Path, list[str], Path], tmp_path: Path
) -> None:
    """A tool can write documents: the file that one names is not trusted."""
    journal = open_journal(tmp_path / "journal.db")
    secret = tmp_path / "secret.json"
    secret.write_text('{"password": "hunter2"}\n')
    named = {"output": str(secret), "host": platform.node(), "done": "many", "cost": [], "usage": 5}
    wrong: list[Any] = [
        *(named, {**named, "output": "/dev/zero"}, {**named, "output": str(tmp_path)}),
        *({**named, "output": "\0"}, {**named, "host": "elsewhere"}, {}, []),
    ]
    for number in range(len(wrong)):
        journal.documents.change(f"{PREFIX}{number:024x}", lambda _: wrong.pop(0))
    anyio.run(journal.close)
    page = open_page(tmp_path / "journal.db")
    assert len(page.get("/api/extractions").json()["extractions"]) == 6
    for number in range(6):
        head = page.get(f"/api/extractions/{number:024x}")
        assert head.status_code == 200, number
        assert head.json()["problem"], number
        rows = page.get(f"/api/extractions/{number:024x}/rows")
        assert rows.status_code == 400
        assert "hunter2" not in head.text + rows.text


def test_rows_of_a_growing_file_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = {"status": "done", "digest": "", "settings": "", "model": "m", "object": 1}
    lines = [json.dumps({"id": f"d{n}", **row}) + "\n" for n in range(3)]
    path.write_text(lines[0] + lines[1][:20])
    file = RowFile(path)
    file.refresh()
    assert [found.id for found in file.rows] == ["d0"]
    path.write_text("".join(lines))
    file.refresh()
    assert [found.id for found in file.rows] == ["d0", "d1", "d2"]
    # A document that is sent again has a newer line.
    before = file.generation
    with path.open("a") as stream:
        stream.write(json.dumps({"id": "d1", **row, "status": "dead"}) + "\n")
    file.refresh()
    assert [found.status for found in file.rows] == ["done", "dead", "done"]
    assert file.generation > before
    # The extraction replaces the file at its end.
    (tmp_path / "new").write_text(lines[2])
    (tmp_path / "new").replace(path)
    file.refresh()
    assert [found.id for found in file.rows] == ["d2"]
    assert file.read(0)["id"] == "d2"
    with pytest.raises(UsageError):
        file.read(1)


def test_hostile_rows_are_bounded(tmp_path: Path, open_page: Callable[..., Page]) -> None:
    output = tmp_path / "rows.jsonl"
    row = {
        "id": "x" * 100_000,
        "status": "done",
        "digest": "",
        "settings": "",
        "object": {"a": "y" * 500_000},
        "error": [],
        "repairs": 7,
        "usage": None,
        "cost": "free",
        "conflicts": [{"path": "/a" * 900, "values": ["z" * 3_000] * 60}] * 60 + [5],
        "evidence": [{"path": 5}, None],
    }
    output.write_text(json.dumps({**row, "conflicts": []}) + "\n" + json.dumps(row)[:-1] + "}\n")
    journal = open_journal(tmp_path / "journal.db")
    document = {"output": str(output), "host": platform.node(), "ended_ms": 1}
    journal.documents.change(record_name(output), lambda _: document)
    anyio.run(journal.close)
    page = open_page(tmp_path / "journal.db")
    name = record_name(output).removeprefix(PREFIX)
    started = time.monotonic()
    for path in ("", "/rows", "/rows/0"):
        answer = page.get(f"/api/extractions/{name}{path}")
        assert answer.status_code in (200, 400), path
        assert len(answer.content) < 3_000_000, path
    assert time.monotonic() - started < 10
