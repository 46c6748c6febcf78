"""Find the uses of a text, file by file: one script instead of one search and twenty reads.

    ptc run samples/scripts/find_usages.py --input query=Session --allow grep,read

Inputs: `query`, the text to find; `glob`, a pattern for files, such as "*.py" (default: all);
`most_files`, the number of files to report, by number of hits (default: 20, at most 50).
"""

import asyncio
import re
from collections import defaultdict
from typing import Any

MOST_HITS = 10_000
LINES_OF_A_FILE = 5
CHARACTERS_OF_A_LINE = 160

DEFINITION = re.compile(r"\s*(?:async\s+|export\s+|pub\s+)*(?:class|def|fn|func|function)\s+(\w+)")


def place_of(lines: list[str], number: int) -> str:
    """Return the definitions around a line, outermost first: ``Session.program``."""

    def indent(line: str) -> int:
        return len(line) - len(line.lstrip())

    names: list[str] = []
    depth = indent(lines[number - 1])
    for line in reversed(lines[: number - 1]):
        if line.strip() and indent(line) < depth:
            depth = indent(line)
            if definition := DEFINITION.match(line):
                names.append(definition.group(1))
    return ".".join(reversed(names))


def describe(path: str, hits: list[Any], text: Any) -> dict[str, Any]:
    """Describe the hits in one file; `text` is an exception if it could not be read."""
    found: dict[str, Any] = {"path": path, "count": len(hits), "lines": []}
    if isinstance(text, Exception):
        found["unread"] = str(text)
    lines = [] if isinstance(text, Exception) else text.split("\n")
    for hit in hits[:LINES_OF_A_FILE]:
        shown = hit.text.strip()
        if len(shown) > CHARACTERS_OF_A_LINE:
            shown = shown[:CHARACTERS_OF_A_LINE] + " ..."
        line = {"line": hit.line, "text": shown}
        # The file may have changed between the search and the reading.
        if hit.line <= len(lines) and (place := place_of(lines, hit.line)):
            line["in"] = place
        found["lines"].append(line)
    return found


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Search once, then read the files with hits concurrently, each once."""
    query = inputs["query"]
    most_files = max(1, min(50, inputs.get("most_files", 20)))
    hits = await ctx.grep(query, glob=inputs.get("glob"), literal=True, limit=MOST_HITS)

    by_path: dict[str, list[Any]] = defaultdict(list)
    for hit in hits:
        by_path[hit.path].append(hit)
    ranked = sorted(by_path, key=lambda path: (-len(by_path[path]), path))
    chosen = ranked[:most_files]

    texts = await asyncio.gather(*(ctx.read(path) for path in chosen), return_exceptions=True)
    pairs = zip(chosen, texts, strict=True)
    return {
        "query": query,
        "matches": len(hits),
        "all_matches": len(hits) < MOST_HITS,
        "files_with_matches": len(ranked),
        "files": [describe(path, by_path[path], text) for path, text in pairs],
    }
