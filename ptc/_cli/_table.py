"""Tables: drawn on a terminal, tab-separated lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from ._terminal import Stream, safe

__all__ = ["Column", "write_table"]

Column = tuple[str, str]
"""A heading and the column's layout: ``""`` never shrinks, ``"wrap"`` wraps, ``"truncate"`` is
truncated to the available width, ``"number"`` is right-aligned."""


def write_table(stream: Stream, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Write `rows` to `stream`; off a terminal one line per row, for `cut`, `grep` and `awk`."""
    if not stream.is_terminal:
        for row in rows:
            stream.write("\t".join(" ".join(cell.split()) for cell in row) + "\n")
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for heading, kind in columns:
        table.add_column(
            heading,
            no_wrap=kind != "wrap",
            overflow="fold" if kind == "wrap" else "ellipsis",
            justify="right" if kind == "number" else "left",
            # Columns that must not shrink take their full width; the others share the rest.
            min_width=None
            if kind in ("wrap", "truncate")
            else max((len(heading), *(len(row[len(table.columns)]) for row in rows))),
        )
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    stream.console.print(table)
