"""Check that each row of a JSONL file has the fields and types of a JSON Schema.

    ptc run samples/cookbook/validate_rows.py --allow read \
        --input rows=samples/data/people/gold.jsonl --input schema=samples/data/people/schema.json

Inputs: `rows`, `schema`; `field`, the field of a row that holds the data (default: object).
"""

import asyncio
import json
from typing import Any

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "array": list,
    "object": dict,
    "boolean": bool,
}


def problems(row: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """Return missing, unknown and wrongly typed fields."""
    properties = schema.get("properties", {})
    found = [f"{name} is missing" for name in schema.get("required", []) if name not in row]
    found += [f"{name} is unknown" for name in row if name not in properties]
    for name, value in row.items():
        kind = properties.get(name, {}).get("type")
        if isinstance(kind, str) and kind in TYPES and not isinstance(value, TYPES[kind]):
            found.append(f"{name} is not of type {kind}")
    return found


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Validate every row, and report the first fifty wrong ones."""
    text, schema_text = await asyncio.gather(ctx.read(inputs["rows"]), ctx.read(inputs["schema"]))
    schema, wrong = json.loads(schema_text), []
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            wrong.append({"line": number, "problems": [str(error)]})
            continue
        if found := problems(row.get(inputs.get("field", "object"), row), schema):
            wrong.append({"line": number, "problems": found})
    return {"rows": len(lines), "wrong": len(wrong), "first": wrong[:50]}
