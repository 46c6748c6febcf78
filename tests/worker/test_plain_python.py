"""Programs that a worker and plain Python execute: their values are the same.

All programs of `programs/plain` are one script, which one worker and one plain interpreter execute.
Each function `case_NAME` in them is a test.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession

FOLDER = Path(__file__).parent.parent / "programs" / "plain"
PROGRAMS = "".join(path.read_text() for path in sorted(FOLDER.glob("*.py")))
CASES = re.findall(r"^def case_(\w+)\(", PROGRAMS, re.M)
RUN = """

def run(ctx, inputs):
    found = {}
    for name, function in list(globals().items()):
        if name.startswith("case_"):
            try:
                found[name[5:]] = json.loads(json.dumps(function()))
            except Exception as error:
                found[name[5:]] = f"{type(error).__name__}: {error}"
    return found
"""


NEWER = {
    "annotations": "an instance has those of its class, as before 3.14",
    "make_dataclass": "its annotations are text, as before 3.14",
    "wrong_arguments_of_the_library_raise": "the message of an unhashable key, as before 3.14",
    "wrong_lengths_of_a_sleep": "the message for a length without a number, as before 3.14",
}
"""Cases that differ from 3.14 on, and how."""
LATER = {
    "context_of_a_refused_value": "the cause is hidden",
    "docstrings_of_dataclasses_without_init": "a class without a signature is no error",
    "fields_of_another_object_hide_the_cause": "the cause is hidden",
}
"""Cases in which a script has on each 3.11 what a later patch release than 3.11.2 changed."""


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The values of all cases, in a worker and in plain Python."""
    root = tmp_path_factory.mktemp("root")
    source = PROGRAMS + RUN
    with BlockingSession(root, toolsets=(), workers=1) as session:
        result = session.program(source=source)
    assert result.status == "completed", result.error
    (root / "script.py").write_text(f"{source}\nprint(json.dumps(run(None, {{}})))\n")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "script.py"],
        cwd=root, text=True, capture_output=True, timeout=60, check=False, env={"TZ": "UTC0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Plain Python shows the folder of the file in tracebacks.
    return result.value, json.loads(done.stdout.splitlines()[-1].replace(f"{root}/", ""))


def test_case_names_are_unique() -> None:
    assert len(CASES) == len(set(CASES)) > 30


@pytest.mark.parametrize("name", CASES)
def test_value_is_that_of_plain_python(name: str, values: tuple[Any, Any]) -> None:
    ours, plain = values
    if sys.version_info >= (3, 14) and name in NEWER:
        assert ours[name] != plain[name], "it no longer differs"
        return
    if sys.version_info < (3, 11, 7) and name in LATER and ours[name] != plain[name]:
        pytest.skip(f"plain Python is older than 3.11.7: {LATER[name]}")
    assert ours[name] == plain[name]
