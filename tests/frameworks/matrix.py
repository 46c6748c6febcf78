"""Write the table of frameworks from the results of `test_contract.py`.

usage: pytest -m slow tests/frameworks/test_contract.py --junitxml=a.xml
       python tests/frameworks/matrix.py a.xml [b.xml ...] > docs/framework-matrix.md
       python tests/frameworks/matrix.py --check docs/framework-matrix.md a.xml [b.xml ...]

Several files: of several environments, for frameworks that cannot share one. With ``--check``, the
exit status is 1 if a cell of the page differs, or a framework of it was not tested.
"""

from __future__ import annotations

import ast
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROWS = (
    "ok", "tool error", "limit", "approval", "cancel", "binary", "unicode", "big result",
    "concurrent",
)  # fmt: skip
HEAD = """# Frameworks: the contract, as tested

Each cell is a test against the framework's real SDK, without a network: `tests/frameworks`. "yes":
passed. A number: a note below. The page is generated (`python tests/frameworks/matrix.py`); how to
use each binding is in [frameworks.md](frameworks.md).

* **In**: a script calls the framework's tool. **Out**: the framework's agent calls `program` or a
  tool of the session.
* ok: data in, data out. Tool error: text and code arrive as a failure. Limit: calls count, and
  the agent reads the limit. Approval: the call waits for a person. Cancel: reaches the other side.
  Binary: a file handle or an image. Unicode: unchanged. Big result: whole for a script, a preview
  for a model. Concurrent: no mixing.
"""


@dataclass
class Framework:
    """Results of one framework."""

    version: str
    cells: dict[tuple[str, str], str] = field(default_factory=dict)


def read(files: list[Path]) -> dict[str, Framework]:
    """Return the results of all files by framework; a failure in one wins over others."""
    found: dict[str, Framework] = {}
    for file in files:
        for case in ElementTree.parse(file).iter("testcase"):  # noqa: S314  # our own file
            for item in case.iter("property"):
                if item.get("name") == "matrix":
                    facts = ast.literal_eval(item.get("value", ""))
                    row = found.setdefault(facts["framework"], Framework(facts["version"]))
                    place = (facts["direction"], facts["row"])
                    if row.cells.get(place) != "FAILED":
                        row.cells[place] = outcome(case)
    return found


def outcome(case: ElementTree.Element) -> str:
    """Return ``yes``, ``FAILED``, or the reason of a gap."""
    if case.find("failure") is not None or case.find("error") is not None:
        return "FAILED"
    skipped = case.find("skipped")
    if skipped is None:
        return "yes"
    return re.sub(r"^(Skipped: )?gap: ", "", skipped.get("message", "not tested"))


def table(found: dict[str, Framework]) -> str:
    """Format the page."""
    notes: list[str] = []
    lines = [HEAD]
    for direction in ("in", "out"):
        lines.append(f"## {direction.capitalize()}\n")
        lines.append(f"| framework | version | {' | '.join(ROWS)} |")
        lines.append("|---" * (len(ROWS) + 2) + "|")
        for name in sorted(found, key=str.casefold):
            framework = found[name]
            cells = []
            for row in ROWS:
                text = framework.cells.get((direction, row), "not tested")
                if text not in ("yes", "FAILED", "not tested"):
                    if text not in notes:
                        notes.append(text)
                    text = f"{notes.index(text) + 1}"
                cells.append(text)
            lines.append(f"| {name} | {framework.version} | {' | '.join(cells)} |")
        lines.append("")
    lines += [f"{number}. {note}" for number, note in enumerate(notes, 1)]
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    page = None
    if arguments[:1] == ["--check"]:
        page, arguments = Path(arguments[1]), arguments[2:]
    if not arguments or any(name.startswith("-") for name in arguments):
        sys.stderr.write(__doc__ or "")
        return 2
    made = table(read([Path(name) for name in arguments]))
    if page is None:
        sys.stdout.write(made)
        return int("FAILED" in made)
    # New versions of a framework must not fail a build that proves the same.
    versions = re.compile(r"^(\| [^|]+ \|) [^|]+ \|", re.MULTILINE)
    if versions.sub(r"\1", made) == versions.sub(r"\1", page.read_text(encoding="utf-8")):
        return 0
    sys.stderr.write(f"{page} differs from the results; generate it again:\n\n{made}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
