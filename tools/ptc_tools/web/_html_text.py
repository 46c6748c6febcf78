"""HTML on standard input -> JSON ``{"title", "text"}``. A program of its own: it runs confined.

``python -I -S _html_text.py markdown|text``. HTML comes from strangers, and Python's parser has
had inputs on which it takes quadratic time (CVE-2025-6069): a process can be stopped.
"""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "math", "iframe", "object"})
_BLOCKS = frozenset({
    "address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "dialog",
    "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html",
    "legend", "main", "nav", "ol", "p", "section", "summary", "table", "tbody", "tfoot", "thead",
    "ul",
})  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPACE = re.compile(r"\s+")
_MAX_DEPTH = 64
"""Nesting of lists and quotes that is shown; deeper is as this deep."""


class Reader(HTMLParser):
    """Collects text in lines, with the marks of Markdown or without."""

    def __init__(self, *, markdown: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._markdown = markdown
        self.title = ""
        self._in_title = False
        self._skipped = 0
        self._pre = 0
        self._lists: list[int] = []
        self._quotes = 0
        self._links: list[str] = []
        self._cells: list[str] | None = None
        self._rows = 0
        self._line: list[str] = []
        self._mark = ""
        self.lines: list[str] = []

    # --- lines ----------------------------------------------------------------------------------

    def _prefix(self) -> str:
        return "> " * min(self._quotes, _MAX_DEPTH) if self._markdown else ""

    def _break(self, *, blank: bool = False) -> None:
        text = "".join(self._line)
        self._line.clear()
        if not self._pre:
            text = _SPACE.sub(" ", text).strip()
        if text.strip() or self._pre:
            for part in text.split("\n"):
                self.lines.append(f"{self._prefix()}{self._mark}{part}".rstrip())
                self._mark = " " * len(self._mark)
            self._mark = ""
        if blank and self.lines and self.lines[-1] != "":
            self.lines.append("")

    def _put(self, text: str) -> None:
        if self._cells is not None and self._cells:
            self._cells[-1] += text
        else:
            self._line.append(text)

    def _sign(self, sign: str) -> None:
        if self._markdown and not self._pre:
            self._put(sign)

    # --- what the parser reports ----------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _SKIPPED:
            self._skipped += 1
        elif self._skipped:
            return
        elif tag == "title":
            self._in_title = True
        elif tag in _HEADINGS:
            self._break(blank=True)
            self._mark = "#" * _HEADINGS[tag] + " " if self._markdown else ""
        elif tag == "br":
            self._break()
        elif tag in ("b", "strong"):
            self._sign("**")
        elif tag in ("i", "em"):
            self._sign("*")
        elif tag == "code":
            self._sign("`")
        elif tag == "a":
            self._links.append(given.get("href", ""))
            self._sign("[")
        elif tag == "img":
            alt = given.get("alt", "").strip()
            if alt:
                source = given.get("src", "")
                shown = f"![{alt}]({source})" if len(source) <= 500 else f"![{alt}]"
                self._put(shown if self._markdown else alt)
        else:
            self._start_block(tag)

    def _start_block(self, tag: str) -> None:
        if tag == "pre":
            self._break(blank=True)
            if self._markdown:
                self.lines.append(f"{self._prefix()}```")
            self._pre += 1
        elif tag in ("ul", "ol"):
            self._break(blank=not self._lists)
            self._lists.append(0 if tag == "ol" else -1)
        elif tag == "li":
            self._break()
            depth = max(0, min(len(self._lists), _MAX_DEPTH) - 1)
            number = self._lists[-1] if self._lists else -1
            if number >= 0:
                self._lists[-1] = number = number + 1
            self._mark = "  " * depth + (f"{number}. " if number > 0 else "- ")
        elif tag == "tr":
            self._break()
            self._cells = []
        elif tag in ("td", "th"):
            if self._cells is None:
                self._cells = []
            self._cells.append("")
        elif tag == "table":
            self._break(blank=True)
            self._rows = 0
        elif tag in _BLOCKS:
            self._break(blank=True)
            if tag == "blockquote":
                self._quotes += 1
            elif tag == "hr" and self._markdown:
                self.lines += ["---", ""]

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED:
            self._skipped = max(0, self._skipped - 1)
        elif self._skipped:
            return
        elif tag == "title":
            self._in_title = False
        elif tag in _HEADINGS:
            self._break(blank=True)
        elif tag in ("b", "strong"):
            self._sign("**")
        elif tag in ("i", "em"):
            self._sign("*")
        elif tag == "code":
            self._sign("`")
        elif tag == "a" and self._links:
            target = self._links.pop()
            shown = (
                target and len(target) <= 2_000 and not target.startswith(("javascript:", "data:"))
            )
            self._sign(f"]({target})" if shown else "]")
        else:
            self._end_block(tag)

    def _end_block(self, tag: str) -> None:
        if tag == "pre" and self._pre:
            self._break()
            self._pre -= 1
            if self._markdown:
                self.lines += [f"{self._prefix()}```", ""]
        elif tag in ("ul", "ol"):
            if self._lists:
                self._lists.pop()
            self._break(blank=not self._lists)
        elif tag == "li":
            self._break()
        elif tag == "tr" and self._cells is not None:
            self._row(self._cells)
        elif tag in _BLOCKS:
            self._break(blank=True)
            if tag == "blockquote":
                self._quotes = max(0, self._quotes - 1)

    def _row(self, cells: list[str]) -> None:
        self._cells = None
        texts = [_SPACE.sub(" ", cell).strip() for cell in cells]
        if not any(texts):
            return
        if not self._markdown:
            self.lines.append("\t".join(texts))
            return
        texts = [text.replace("|", "\\|") for text in texts]
        self.lines.append(f"{self._prefix()}| {' | '.join(texts)} |")
        self._rows += 1
        if self._rows == 1:
            self.lines.append(f"{self._prefix()}|{' --- |' * len(texts)}")

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        if self._in_title:
            self.title += data
            return
        self._put(data)

    def text(self) -> str:
        """All of it."""
        if self._cells is not None:
            self._row(self._cells)
        self._break()
        lines: list[str] = []
        for line in self.lines:
            if line or (lines and lines[-1]):
                lines.append(line)
        return "\n".join(lines).strip("\n") + "\n" if lines else ""


def main() -> None:
    """Convert standard input."""
    reader = Reader(markdown=sys.argv[1] == "markdown")
    reader.feed(sys.stdin.buffer.read().decode("utf-8", "replace"))
    reader.close()
    row = {"title": _SPACE.sub(" ", reader.title).strip()[:1_000], "text": reader.text()}
    sys.stdout.write(json.dumps(row))


if __name__ == "__main__":
    main()
