"""Walks everything that can be reached from what scripts hold, and prints what must not be.

usage: reachability_child.py [--keep=internals] [--keep=paths] SCRIPT...
It prints JSON: {"reached": [[path, what], ...], "roots": n, "seen": n, "deputies": {name: what}}.
`--keep` leaves something in reach, which the walk must then find.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from tests.fuzz.reach import Walk, deputies, hold, prepare  # the path is set only now


def main() -> None:
    """Run the scripts and walk."""
    keep = [word.removeprefix("--keep=") for word in sys.argv[1:] if word.startswith("--")]
    paths = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    scripts = {path.name: path.read_text() for path in paths}
    runtime = prepare(keep)
    walk = Walk()
    for name, source in scripts.items():
        hold(runtime, source, name, walk)
    roots = len(walk.seen)
    gc.disable()
    walk.run(1_000_000)
    found = {"reached": walk.reached, "roots": roots, "seen": len(walk.seen)}
    print(json.dumps({**found, "deputies": deputies(walk)}))  # noqa: T201


if __name__ == "__main__":
    main()
