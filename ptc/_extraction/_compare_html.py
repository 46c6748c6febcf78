"""HTML report of a comparison: one file, without scripts and external assets.

Every value comes from documents or a model, so all of them are escaped.
    tests/core/extraction/test_compare.py::test_html_report_escapes_values_and_loads_nothing
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

from ._compare import Comparison, FieldScore

__all__ = ["write_html"]

_MAX_DISAGREEMENTS = 5_000
_MAX_CHARS = 500
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>Extraction quality</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem;
  padding: 0 1rem }}
table {{ border-collapse: collapse; margin: 1rem 0; width: 100% }}
th, td {{ border-bottom: 1px solid #ddd; padding: .3rem .6rem; text-align: left;
  vertical-align: top; overflow-wrap: anywhere }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }}
tr.total {{ font-weight: 600 }}
.gold {{ background: #e6f4e6 }} .found {{ background: #fbe9e7 }} .none {{ color: #888 }}
code {{ font: 13px ui-monospace, monospace; white-space: pre-wrap }}
</style>
<h1>Extraction quality</h1>
<p>{right} of {documents} documents have no disagreement.{without}</p>
<h2>Fields</h2>
<table><tr><th>Field<th class=n>Precision<th class=n>Recall<th class=n>Right<th class=n>Wrong
<th class=n>Missing<th class=n>Extra</tr>
{fields}
</table>
<h2>Disagreements</h2>
{note}<table><tr><th>Document<th>Field<th>Gold<th>Extracted</tr>
{rows}
</table>
</html>
"""


def write_html(comparison: Comparison) -> str:
    """Return the report as the text of an HTML page."""
    shown = comparison.disagreements[:_MAX_DISAGREEMENTS]
    left = len(comparison.disagreements) - len(shown)
    missing = len(comparison.without_object)
    return _PAGE.format(
        right=f"{comparison.right_documents:,}",
        documents=f"{comparison.documents:,}",
        without=f" {missing:,} have no object." if missing else "",
        fields="\n".join(_field_rows(comparison)),
        note=f"<p>The first {len(shown):,}; {left:,} more are not shown.</p>\n" if left else "",
        rows="\n".join(
            f"<tr><td>{_text(d.id)}<td>{_text(d.path or '(root)')}"
            f"<td class=gold>{_value(d.gold)}<td class=found>{_value(d.found)}</tr>"
            for d in shown
        ),
    )


def _field_rows(comparison: Comparison) -> Iterable[str]:
    for score in comparison.fields:
        yield _field_row(score, "")
    yield _field_row(comparison.total, " class=total")


def _field_row(score: FieldScore, mark: str) -> str:
    cells = [_percent(score.precision), _percent(score.recall)]
    cells += [f"{n:,}" for n in (score.right, score.wrong, score.missing, score.extra)]
    return f"<tr{mark}><td>{_text(score.field or '(root)')}" + "".join(
        f"<td class=n>{cell}" for cell in cells
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}&nbsp;%"


def _value(value: Any) -> str:
    if value is None:
        return "<span class=none>absent</span>"
    return f"<code>{_text(json.dumps(value, ensure_ascii=False))}</code>"


def _text(text: str) -> str:
    cut = text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}..."
    return html.escape(cut.encode(errors="backslashreplace").decode())
