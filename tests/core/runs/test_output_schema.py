"""The value of a program, held to the shape that was asked for."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import Session, UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


class Row(BaseModel):
    name: str
    when: date


SCHEMA = {
    "type": "object",
    "required": ["rows"],
    "properties": {
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "when"],
                "properties": {
                    "name": {"type": "string"},
                    "when": {"type": "string", "format": "date"},
                },
            },
        }
    },
}
GOOD = "{'rows': [{'name': 'a', 'when': '2026-01-02'}]}"
BAD = "{'rows': [{'name': 'a', 'when': '2026-01-02'}, {'name': 3, 'when': 'soon'}]}"


@pytest.mark.parametrize("schema", [SCHEMA, dict[str, list[Row]]], ids=["schema", "type"])
async def test_value_matching_output_schema_completes_and_others_fail_with_paths(
    tmp_path: Path, schema: Any
) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        good = await session.program(
            source=f"def run(ctx, inputs):\n    return {GOOD}\n", output_schema=schema
        )
        bad = await session.program(
            source=f"def run(ctx, inputs):\n    return {BAD}\n", output_schema=schema
        )
    assert good.status == "completed", good.error
    assert bad.status == "failed"
    assert bad.error is not None
    assert bad.error.code == "output_schema"
    assert "result.rows[1].name: " in bad.error.message
    assert "result.rows[1].when: " in bad.error.message
    assert bad.value["rows"][1]["name"] == 3


async def test_invalid_output_schema_is_refused_before_anything_runs(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        for schema in ({"type": "objekt"}, {"$ref": "https://example.com/x"}, 3):
            with pytest.raises(UsageError, match="output_schema"):
                await session.program(source="def run(ctx): return 1", output_schema=schema)
