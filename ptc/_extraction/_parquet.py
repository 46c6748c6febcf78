"""Parquet form of the rows, if pyarrow is installed."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import SetupError

__all__ = ["require_parquet", "write_parquet"]

_NESTED = ("object", "error", "repairs", "usage", "evidence", "conflicts")


def require_parquet(output: Path | None) -> None:
    """Raise `SetupError` if `output` is a Parquet file and pyarrow is not installed."""
    if output is None or output.suffix != ".parquet":
        return
    if importlib.util.find_spec("pyarrow") is None:
        msg = f"output {str(output)!r} needs pyarrow; run: pip install pyarrow, or write .jsonl"
        raise SetupError(msg)


def write_parquet(output: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write the rows as a table, atomically; nested values are columns of JSON text."""
    import pyarrow
    import pyarrow.parquet

    flat = [
        {
            name: json.dumps(value, ensure_ascii=False)
            if name in _NESTED and value is not None
            else value
            for name, value in row.items()
        }
        for row in rows
    ]
    draft = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(flat), draft)
        os.replace(draft, output)
    finally:
        draft.unlink(missing_ok=True)
