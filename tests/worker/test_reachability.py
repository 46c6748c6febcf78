"""The definition of the language layer: what a script can hold leads nowhere.

`reachability_child.py` runs scripts on a sealed runtime, notes each object that their frames hold
and walks on from there through every attribute that CPython reads, without a guard. No frame, code
object, module, importer, file, socket or namespace of the worker may be found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "programs"
SCRIPTS = [
    PROGRAMS / "reach" / "everything.py",
    PROGRAMS / "reach" / "introspection.py",
    *sorted((PROGRAMS / "allowed").glob("*.py")),
]


def walk(*options: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "reachability_child.py", *options, *SCRIPTS],
        text=True, capture_output=True, timeout=240, check=False,
        env={"PYTHONPATH": str(HERE.parent.parent), "PATH": os.defpath, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def full_walk() -> dict[str, Any]:
    """Findings of a walk when nothing is left in reach."""
    return walk()


def test_no_powerful_object_is_reachable_from_script_objects(full_walk: dict[str, Any]) -> None:
    found = full_walk
    assert found["reached"] == []
    assert found["roots"] > 1_000, "the scripts held almost nothing"
    assert found["seen"] > 20_000, "the walk saw almost nothing"


# Text that the first three evaluate is made of checked names (`test_dataclasses.py`); the last
# passes absolute paths, for which the library asks for no current folder.
REVIEWED = {
    "collections.namedtuple", "ptc.worker._modules._own.NamedTuple",
    "ptc.worker._modules._own.namedtuple", "ptc.worker._modules._text.relpath",
    # Reads annotations by `annotationlib.get_annotations` (3.14), which evaluates text for others.
    "typing._ProtocolMeta.__init__",
}  # fmt: skip


def test_no_reachable_function_opens_files_or_makes_system_calls(full_walk: dict[str, Any]) -> None:
    found = full_walk["deputies"]
    assert {
        name: why
        for name, why in found.items()
        # The `replace` of `ntpath` is the method of `str`.
        if name not in REVIEWED and not (name.startswith("ntpath.") and why == "posix.replace")
    } == {}


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("internals", {"frame", "code", "cell", "module"}),
        pytest.param("paths", {"module"}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_reachability_walk_detects_objects_left_reachable(kept: str, expected: set[str]) -> None:
    found = walk(f"--keep={kept}")
    assert expected <= {what.partition(":")[0] for _, what in found["reached"]}
