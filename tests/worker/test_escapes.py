"""The language policy alone: no jail, a host full of secrets, and scripts that want them.

Each case was shown to succeed under plain CPython, so one that fails here was stopped by the
policy. A case escapes if the host's token turns up anywhere, or if the script returns a marker
that it can only build while it holds a forbidden object.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
CASES = HERE.parent / "programs" / "escapes"
CHILD = HERE / "script_child.py"
# Errors that may end a script here. Any other would be our defect, and would hide the case. A name
# in the text of an annotation is looked up, never run.
STOPPED_BY = {
    "AttributeError", "EOFError", "FileNotFoundError", "ImportError", "IndexError", "KeyError",
    "ModuleNotFoundError", "NameError", "OSError", "PermissionError", "RefusedError",
    "RuntimeError", "ScriptRejected", "TypeError", "ValueError",
    "ExceptionGroup",  # early 3.11: `except*` wraps the error of its block
}  # fmt: skip


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run_cases(cases: list[dict[str, Any]], folder: Path) -> tuple[str, list[dict[str, Any]]]:
    token = "TKN" + secrets.token_hex(8)
    (folder / "cases.json").write_text(json.dumps(cases))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", CHILD, folder / "cases.json", folder / "out.jsonl"],
        input=f"{token}\n" * 3, text=True, capture_output=True, timeout=300, check=False,
        env={"PYTHONPATH": str(HERE.parent.parent), "PATH": os.defpath},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert token not in done.stdout + done.stderr
    return token, [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def has_escaped(case: dict[str, Any], answer: dict[str, Any], token: str) -> bool:
    result = answer.get("result") or ""
    told = result + (answer.get("error") or "") + answer.get("output", "") + answer["dropped"]
    if token in told or answer["dropped"]:
        return True
    # `no-canary` marks policy decisions (a script may define __repr__): only the token counts.
    return case["expect"] != "no-canary" and re.match(r'"?ESCAPED:', result) is not None


@pytest.mark.parametrize("path", sorted(CASES.glob("lang_*.jsonl")), ids=lambda path: path.stem)
def test_known_escapes_fail_against_the_language_policy(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)


def test_escapes_written_for_this_policy_fail(tmp_path: Path) -> None:
    check(CASES / "own.jsonl", tmp_path)


# They get at the token through attributes of the `ctx` that is played here, which a real one has
# not, or hold what is no power: their own builtins, and an object of their own with another class.
_ABOUT_THE_PLAYED_HOST = {
    "dun-041", "fmt-003", "fmt-013", "fmt-022", "fmt-024", "hst-020", "syn-130", "syn-182",
}  # fmt: skip


@pytest.mark.parametrize(
    "path",
    # Each case of `lang_atomic` reads one attribute, most of which are harmless by themselves.
    [path for path in sorted(CASES.glob("lang_*.jsonl")) if path.stem != "lang_atomic"],
    ids=lambda path: path.stem,
)
def test_guarded_objects_alone_stop_escapes_of_uncompiled_scripts(
    path: Path, tmp_path: Path
) -> None:
    cases = [{**case, "plain": True} for case in load(path)]
    token, answers = run_cases(cases, tmp_path)
    out = {
        case["id"]
        for case, answer in zip(cases, answers, strict=True)
        if has_escaped(case, answer, token)
    }
    assert out <= _ABOUT_THE_PLAYED_HOST
    assert any(answer["phase"] in ("run", "done") for answer in answers), "nothing ran"


def check(path: Path, folder: Path) -> None:
    cases = load(path)
    token, answers = run_cases(cases, folder)
    assert [case["id"] for case in cases] == [answer["id"] for answer in answers]
    for case, answer in zip(cases, answers, strict=True):
        assert not has_escaped(case, answer, token), (case["id"], answer)
        if "findings" in answer:
            continue
        error = answer.get("error")
        kind = error.partition(":")[0] if error else ""
        assert not kind or kind in STOPPED_BY, (case["id"], error)


def test_escape_check_of_the_language_layer_detects_an_escape(tmp_path: Path) -> None:
    bodies = {
        "token in the result": "return [ctx.call('reveal')]",
        "marker": "return 'ESCAPED:x'",
        "token in an error": "raise ValueError(ctx.call('reveal'))",
        "token in the output": "print(ctx.call('reveal'))",
    }
    scripts = {name: f"def run(ctx, inputs):\n    {body}" for name, body in bodies.items()}
    cases = [{"id": name, "script": text, "expect": "denied"} for name, text in scripts.items()]
    token, answers = run_cases(cases, tmp_path)
    assert [
        case["id"]
        for case, answer in zip(cases, answers, strict=True)
        if not has_escaped(case, answer, token)
    ] == []
