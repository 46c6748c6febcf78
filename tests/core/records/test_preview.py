"""Previews of values that are too long for a model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptc._records._artifacts import LocalArtifacts
from ptc._records._preview import Reader, preview_of

LIMIT = 500


@pytest.mark.parametrize(("length", "cut"), [(LIMIT - 1, False), (LIMIT, False), (LIMIT + 1, True)])
def test_text_at_below_and_above_the_limit(tmp_path: Path, length: int, cut: bool) -> None:
    found = preview_of("é" * length, LocalArtifacts(tmp_path), LIMIT)
    assert (found.note != "", found.stored is not None, found.handle != "") == (cut, cut, cut)
    assert len(str(found)) <= LIMIT
    assert cut or str(found) == "é" * length


@given(st.text(max_size=700), st.integers(300, 700))
def test_note_stands_only_beside_a_truncated_text(text: str, limit: int) -> None:
    class Nowhere(LocalArtifacts):
        def keep(self, data: bytes, suffix: str = ".json") -> Any:
            raise OSError(28, "No space left on device")

    found = preview_of(text, Nowhere(Path("/nowhere")), limit)
    if len(text) <= limit:
        assert (found.text, found.note) == (text, "")
        return
    counts = re.search(r"Truncated: ([\d,]+) of ([\d,]+) characters", found.note)
    assert counts is not None
    shown, total = (int(count.replace(",", "")) for count in counts.groups())
    assert text.startswith(found.text)
    assert (shown, total) == (len(found.text), len(text))
    assert 0 < shown < total
    assert "No space left on device" in found.note
    assert len(str(found)) <= limit


@pytest.mark.parametrize("value", [0, "", False, None, [], {}])
def test_falsy_value_is_shown_as_it_is(tmp_path: Path, value: Any) -> None:
    found = preview_of(value, LocalArtifacts(tmp_path), LIMIT)
    assert (found.text, found.note) == ("" if value == "" else json.dumps(value), "")


def test_raw_value_is_stored_whole(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path)
    rows = [{"n": n} for n in range(200)]
    listed = preview_of(rows, store, LIMIT)
    text = preview_of("line\n" * 200, store, LIMIT)
    rendered = preview_of(rows, store, LIMIT, text="row\n" * 200)
    assert json.loads(store.read(listed.stored.sha256)[1]) == rows  # type: ignore[index,union-attr]
    assert store.read(text.stored.sha256)[1] == b"line\n" * 200  # type: ignore[index,union-attr]
    assert rendered.handle == listed.handle
    assert rendered.text.startswith("row\nrow\n")


def test_preview_of_data_is_data_that_counts_what_is_missing(tmp_path: Path) -> None:
    found = preview_of({"rows": list(range(1_000)), "done": False}, LocalArtifacts(tmp_path), LIMIT)
    data = json.loads(found.text)
    assert data["done"] is False
    assert re.fullmatch(r"\d+ of 1,000 items left out", data["rows"][-1]["…cut…"])


def test_short_text_of_large_data_is_whole_and_the_data_is_stored(tmp_path: Path) -> None:
    found = preview_of(list(range(1_000)), LocalArtifacts(tmp_path), LIMIT, text="1000 numbers")
    assert found.text == "1000 numbers"
    assert "The data of this result has 3,891 bytes and is not shown." in found.note
    assert found.handle


def test_note_names_the_tool_only_for_a_reader_that_has_it(tmp_path: Path) -> None:
    def note(reader: Reader) -> str:
        return preview_of("x" * 600, LocalArtifacts(tmp_path), LIMIT, reader=reader).note

    handle = preview_of("x" * 600, LocalArtifacts(tmp_path), LIMIT).handle
    assert f'with get_tool_response(handle="{handle}")' in note("tool")
    assert f'in a script, with await ctx.get_tool_response(handle="{handle}")' in note("script")
    for reader, where in (("address", "ptc://artifacts/"), ("path", str(tmp_path))):
        plain = note(reader)  # type: ignore[arg-type]
        assert "get_tool_response" not in plain
        assert where in plain


def test_number_of_shown_characters_is_the_callers(tmp_path: Path) -> None:
    found = preview_of("x" * 600, LocalArtifacts(tmp_path), LIMIT, shown_chars=7)
    assert found.text == "x" * 7
    assert "Truncated: 7 of 600 characters." in found.note
