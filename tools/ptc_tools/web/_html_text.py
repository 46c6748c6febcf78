"""HTML on standard input -> JSON ``{"title", "text"}``. Run as a confined process.

``python -I -S _html_text.py markdown|text FOLDER``, where FOLDER holds the package
html_to_markdown. HTML from strangers can exhaust time, memory or the stack of a parser, and the
library is native code: a process of its own can be stopped and can reach nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from html_to_markdown import ConversionOptions
    from html_to_markdown._html_to_markdown import HtmlVisitor

_TITLE_CHARS = 262_144
"""Characters at the start of a page in which a title is looked for."""
_MAX_TITLE = 1_000
_MAX_TARGET = 2_000
"""Longest target of a link or an image that is shown; longer ones are data, not addresses."""
_TOO_DEEP = "[Some elements are nested too deeply and were left out]"


class Targets:
    """Leaves out targets that cannot be fetched; called by the library for links and images."""

    def visit_link(
        self, _context: object, href: str, text: str, _title: str
    ) -> str | Mapping[str, str]:
        """Write the text of a link alone if its target is a script, data or too long."""
        return "continue" if _is_address(href) else {"custom": f"[{text}]"}

    def visit_image(
        self, _context: object, src: str, alt: str, _title: str
    ) -> str | Mapping[str, str]:
        """Write the alternative text alone if the source is data or too long."""
        return "continue" if _is_address(src) else {"custom": f"![{alt}]" if alt else ""}


def _is_address(target: str) -> bool:
    if len(target) > _MAX_TARGET:
        return False
    return not target.strip().lower().startswith(("javascript:", "data:"))


def _options(form: str) -> ConversionOptions:
    from html_to_markdown import ConversionOptions, PreprocessingOptions

    return ConversionOptions(
        # Navigation and forms are part of the page: a reader may look for a link in a menu.
        preprocessing=PreprocessingOptions(
            enabled=False, remove_navigation=False, remove_forms=False
        ),
        # Otherwise the metadata of the page stands in front of its text.
        extract_metadata=False,
        output_format="plain" if form == "text" else "markdown",
        bullets="-",
        compact_tables=True,
        sup_symbol="^",
        hidden_content="reachable",
        inline_data_media="alt_text_only",
        # Shown as images with their source in base64 otherwise.
        exclude_selectors=["svg"],
        # The complete parser. The default tries a quick scan first and then starts over.
        tier_strategy="tier2",
    )


def convert(html: str, form: str) -> tuple[str, str]:
    """Return the title of a page and its text."""
    import html_to_markdown

    # As the HTML standard reads NUL; the library takes a page with many of them for binary data.
    html = html.replace("\0", "\ufffd")
    # The library calls the methods that a visitor has; its stub asks for all forty.
    visitor = cast("HtmlVisitor", Targets())
    result = html_to_markdown.convert(html, _options(form), visitor)
    text = (result.content or "").strip("\n")
    if any("depth_limit" in str(warning.kind) for warning in result.warnings):
        text = f"{text}\n\n{_TOO_DEEP}".lstrip("\n")
    head = html_to_markdown.convert(
        html[:_TITLE_CHARS], html_to_markdown.ConversionOptions(output_format="plain")
    )
    title = " ".join((head.metadata.document.title or "").split())
    return title[:_MAX_TITLE], f"{text}\n" if text else ""


def main() -> None:
    """Convert standard input."""
    form, folder = sys.argv[1:]
    sys.path.append(folder)
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    title, text = convert(html, form)
    sys.stdout.write(json.dumps({"title": title, "text": text}))


if __name__ == "__main__":
    main()
