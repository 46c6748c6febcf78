"""Displays of results and sessions in notebooks, and their short reprs.

Rule 1: all texts are hostile: they are escaped, and characters that change the direction of text or
    cannot be seen are shown as escapes. There is no script, link, image or other external content.
    tests/core/records/test_display.py::test_hostile_texts_are_shown_as_text
Rule 2: the size is bounded, whatever the size of the result.
    tests/core/records/test_display.py::test_display_of_a_large_result_is_bounded
Rule 3: colours are those of the notebook, with tints that can be read on light and dark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .._core._lazy import compile_later

if TYPE_CHECKING:
    from ._result import CallRecord, RunResult

__all__ = ["describe_result", "result_html", "session_html"]

_ROWS: Final = 50
_VALUE_CHARS: Final = 4_000
_OUTPUT_CHARS: Final = 2_000
_ARGUMENT_CHARS: Final = 200
_NAME_CHARS: Final = 80
_REPR_CHARS: Final = 60
_INVISIBLE: Final = compile_later(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_GREEN, _RED, _AMBER = "46,160,67", "218,54,51", "191,135,0"
_TINTS: Final = {
    "completed": _GREEN,
    "succeeded": _GREEN,
    "paused": _AMBER,
    "cancelled": _AMBER,
    "unknown": _AMBER,
    "not_started": _AMBER,
}
_CELL: Final = "text-align:left;vertical-align:top;padding:2px 8px 2px 0;border:0;font-size:13px"
_PRE: Final = (
    "margin:4px 0;padding:6px 8px;border-left:3px solid rgba(127,127,127,.5);"
    "background:rgba(127,127,127,.1);color:inherit;white-space:pre-wrap;overflow-wrap:anywhere;"
    "max-height:24em;overflow:auto"
)


def describe_result(result: RunResult[Any]) -> str:
    """Return a short repr of a result."""
    parts = [f"RunResult {_plain(result.run_id, _REPR_CHARS)} {result.status}"]
    parts.append(f"{result.usage.duration_ms:,.0f} ms, {_count(len(result.calls), 'call')}")
    if result.error is not None:
        parts.append(f"{result.error.code}: {_plain(result.error.message, _REPR_CHARS)}")
    elif result.ok:
        parts.append(f"value={_plain(_short(result.value), _REPR_CHARS)}")
    return f"<{'; '.join(parts)}>"


def result_html(result: RunResult[Any]) -> str:
    """Return a result as HTML: status, error, value, table and timeline of calls, and output."""
    usage = result.usage
    head = (
        f"<div>{_chip(result.status)} <b>run {_text(result.run_id, _NAME_CHARS)}</b> "
        f"\u00b7 {usage.duration_ms:,.0f} ms \u00b7 {_count(len(result.calls), 'call')}</div>"
    )
    parts = [head, _error(result)]
    if result.ok:
        parts.append(_pre(_pretty(result.value), _VALUE_CHARS))
    parts += [_pending(result), _calls(result.calls)]
    for title, text in (("Output", result.stdout), ("Standard error", result.stderr)):
        if text:
            parts.append(_details(title, _pre(text[-_OUTPUT_CHARS:], _OUTPUT_CHARS)))
    if result.warnings:
        rows = "\n".join(str(warning) for warning in result.warnings[:_ROWS])
        parts.append(_details(f"Warnings ({len(result.warnings):,})", _pre(rows, _OUTPUT_CHARS)))
    return _frame(parts)


def session_html(title: str, tools: Iterable[tuple[str, str, str]]) -> str:
    """Return a session as HTML.

    Args:
        title: A line about it.
        tools: Name, flags and description of each tool.
    """
    rows = list(tools)
    table = _table(("Tool", "", "Description"), rows[:_ROWS], len(rows))
    name = _count(len(rows), "tool")
    return _frame([f"<div><b>{_text(title, 400)}</b></div>", _details(name, table, is_open=True)])


def _frame(parts: Iterable[str]) -> str:
    inner = "".join(part for part in parts if part)
    return f'<div style="font-size:13px;line-height:1.5;color:inherit">{inner}</div>'


def _error(result: RunResult[Any]) -> str:
    error = result.error
    if error is None:
        return ""
    line = f"line {error.line}: " if error.line else ""
    texts = [f"{error.code}: {line}{error.message}", error.excerpt, error.hint]
    return _pre("\n".join(text for text in texts if text), _VALUE_CHARS)


def _pending(result: RunResult[Any]) -> str:
    rows = [(call.call, call.kind, call.tool, call.prompt) for call in result.pending]
    if not rows:
        return ""
    table = _table(("Call", "Awaits", "Tool", "Prompt"), rows[:_ROWS], len(rows))
    return _details("Pending", table, is_open=True)


def _calls(calls: Sequence[CallRecord]) -> str:
    if not calls:
        return ""
    shown = calls[:_ROWS]
    starts = [call.started_ms for call in shown if call.started_ms]
    begin = min(starts, default=0)
    ends = [call.started_ms + call.duration_ms for call in shown if call.started_ms]
    span = max(max(ends, default=0) - begin, 1.0)
    names = ("Call", "Line", "Tool", "Arguments", "Status", "ms", "Timeline")
    rows = "".join(_call(call, begin, span) for call in shown)
    head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in names)
    table = (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;border:0;'
        f'color:inherit;background:none"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{_more(len(calls))}"
    )
    return _details(_count(len(calls), "call"), table, is_open=len(calls) <= 20)


def _call(call: CallRecord, begin: float, span: float) -> str:
    path = str(call.seq) if call.parent is None else f"{call.parent}.{call.seq}"
    status = call.error_code or ("cached" if call.cached else call.status)
    cells = [
        _text(path, _NAME_CHARS),
        "" if call.line is None else str(call.line),
        _code(call.tool, _NAME_CHARS),
        _arguments(call),
        _chip(status, _TINTS.get(call.status, _RED)),
        f"{call.duration_ms:,.1f}",
        _bar(call, begin, span),
    ]
    row = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f'<tr style="background:none">{row}</tr>'


def _arguments(call: CallRecord) -> str:
    requested = _code(call.arguments, _ARGUMENT_CHARS)
    if call.decided_arguments is None:
        return requested
    return f"{_code(call.decided_arguments, _ARGUMENT_CHARS)}, the script requested {requested}"


def _bar(call: CallRecord, begin: float, span: float) -> str:
    if not call.started_ms:
        return ""
    left = max(0.0, min(99.0, (call.started_ms - begin) / span * 100))
    width = max(1.0, min(100 - left, call.duration_ms / span * 100))
    tint = _TINTS.get(call.status, _RED)
    return (
        '<div style="width:160px;height:10px;margin-top:5px;background:rgba(127,127,127,.15)">'
        f'<div style="margin-left:{left:.1f}%;width:{width:.1f}%;height:10px;'
        f'background:rgba({tint},.8)"></div></div>'
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], total: int) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in names)
    body = "".join(
        '<tr style="background:none">'
        + "".join(f'<td style="{_CELL}">{_text(cell, _ARGUMENT_CHARS)}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;border:0;'
        f'color:inherit;background:none"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        f"</table></div>{_more(total)}"
    )


def _more(total: int) -> str:
    return f"<div>and {total - _ROWS:,} more</div>" if total > _ROWS else ""


def _details(title: str, inner: str, *, is_open: bool = False) -> str:
    attribute = " open" if is_open else ""
    return f'<details{attribute}><summary style="cursor:pointer">{title}</summary>{inner}</details>'


def _chip(status: str, tint: str = "") -> str:
    tint = tint or _TINTS.get(status, _RED)
    return (
        f'<span style="padding:0 6px;border-radius:4px;border:1px solid rgb({tint});'
        f'background:rgba({tint},.15);white-space:nowrap">{_text(status, _NAME_CHARS)}</span>'
    )


def _pre(text: str, most: int) -> str:
    return f'<pre style="{_PRE}">{_text(text, most)}</pre>'


def _code(text: str, most: int) -> str:
    return f'<code style="background:none;color:inherit">{_text(text, most)}</code>'


def _text(text: object, most: int) -> str:
    from html import escape

    return escape(_plain(text, most))


def _plain(text: object, most: int) -> str:
    words = str(text)
    more = len(words) - most
    words = _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", words[:most])
    return words if more <= 0 else f"{words} \u2026 ({more:,} more characters)"


def _pretty(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=_short)
    except (ValueError, TypeError, RecursionError):
        return _short(value)


def _short(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001  # a repr is the code of its class
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
