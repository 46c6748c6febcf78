"""docs/limits.md says of every limit what the code says."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ptc import Limits
from ptc._records._limits import CEILING

PAGE = Path(__file__).parents[3] / "docs" / "limits.md"


def rows() -> dict[str, list[str]]:
    found = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            found[cells[0].strip("`")] = cells[1:]
    return found


def format_limit(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "none named"


def test_limits_page_lists_every_limit_in_code_order() -> None:
    assert list(rows()) == [field.name for field in dataclasses.fields(Limits)]


def test_limits_page_has_the_defaults_and_ceilings_of_the_code() -> None:
    told = {name: cells[1:3] for name, cells in rows().items()}
    assert told == {
        name: [format_limit(getattr(Limits(), name)), format_limit(getattr(CEILING, name))]
        for name in told
    }


def test_every_row_of_the_limits_page_is_complete() -> None:
    for name, cells in rows().items():
        assert len(cells) == 6, name
        assert all(cells), name
