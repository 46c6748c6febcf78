"""``ptc docs``: list and print the pages of the documentation, which the wheel contains."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import SetupError, UsageError
from ._status import COMPLETED

if TYPE_CHECKING:
    from ._terminal import Stream

__all__ = ["command", "find_pages"]

_HELP = """Print the documentation page TOPIC, or list the pages.

The pages are those of this version; nothing is downloaded. On a terminal they are formatted,
elsewhere they are plain Markdown. A heading after # prints that section alone.

\b
Examples:
  ptc docs
  ptc docs tutorial
  ptc docs limits | less
  ptc docs durability#leases
  ptc docs skill                  instructions for agents that write scripts
"""
_PACKAGE = Path(__file__).parents[1]
_ELSEWHERE = {"readme": "README.md", "tools-reference": "tools/README.md"} | {
    "bindings": "bindings/README.md",
    "changelog": "CHANGELOG.md",
}
"""Topics of pages outside of docs/, and their names in the repository."""
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_SKILL = "skills/write-ptc-scripts/SKILL.md"


@click.command("docs", short_help="Print the documentation.", help=_HELP)
@click.argument("topic", metavar="[TOPIC]", required=False)
def command(*, topic: str | None) -> int:
    """Run the command; `_HELP` is its help text."""
    from ._table import write_table
    from ._terminal import standard_output

    pages, output = find_pages(), standard_output()
    if topic is None:
        rows = [(name, _title(page)) for name, page in pages.items()]
        write_table(output, (("topic", ""), ("page", "wrap")), rows)
        return COMPLETED
    name, mark, heading = topic.partition("#")
    name = name.removesuffix(".md").removeprefix("docs/").lower()
    if name not in pages:
        close = difflib.get_close_matches(name, pages, n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise UsageError(f"there is no page {name!r}.{hint} `ptc docs` lists the pages")
    text = pages[name].read_text(encoding="utf-8")
    _print_page(output, _section(text, heading, name) if mark else text)
    return COMPLETED


def find_pages() -> dict[str, Path]:
    """Return the topics and their files: in the wheel, or in the checkout that it is built from."""
    folder = _PACKAGE / "_docs"
    others = {topic: folder / "elsewhere" / f"{topic}.md" for topic in _ELSEWHERE}
    if not folder.is_dir():
        folder = _PACKAGE.parent / "docs"
        others = {topic: _PACKAGE.parent / name for topic, name in _ELSEWHERE.items()}
    pages = {page.stem: page for page in folder.glob("*.md")} | others
    pages |= {"skill": folder / _SKILL, "llms": folder / "llms.txt"}
    found = {topic: page for topic, page in sorted(pages.items()) if page.is_file()}
    if not found:
        raise SetupError("this installation has no documentation pages; install the wheel of ptc")
    return found


def _title(page: Path) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else page.stem


def _section(text: str, wanted: str, name: str) -> str:
    """Return the section of a page under the heading whose anchor is `wanted`."""
    plain = _FENCE.sub(lambda block: block[0].replace("#", " "), text)
    found = list(re.finditer(r"^(#+) (.+)$", plain, re.MULTILINE))
    anchors = {
        re.sub(r"[^\w\- ]", "", heading[2]).strip().lower().replace(" ", "-"): heading
        for heading in found
    }
    if wanted not in anchors:
        close = difflib.get_close_matches(wanted, anchors, n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]!r}?" if close else f" It has {', '.join(anchors)}."
        raise UsageError(f"the page {name!r} has no section {wanted!r}.{hint}")
    start = anchors[wanted]
    later = (h.start() for h in found if h.start() > start.start() and len(h[1]) <= len(start[1]))
    return text[start.start() : next(later, len(text))]


def _print_page(output: Stream, text: str) -> None:
    """Write a page, formatted if the output is a terminal."""
    text = re.sub(r"^ *<!--.*?-->\n", "", text, flags=re.MULTILINE)
    if output.is_terminal:
        from rich.markdown import Markdown

        # The links of a page lead to files that a terminal cannot open: show their names.
        output.console.print(Markdown(text, hyperlinks=False))
    else:
        output.line(text.rstrip("\n"))
