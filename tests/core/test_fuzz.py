"""The fuzzer runs, its seed repeats, and its judge sees what it is there to see."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ptc import RunResult

ROOT = Path(__file__).parent.parent.parent
COMMAND = ROOT / "tests" / "fuzz" / "run.py"


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the fuzzer, whatever folder the tests are started from."""
    monkeypatch.syspath_prepend(str(ROOT))
    return lambda name: importlib.import_module(f"tests.fuzz.{name}")


@pytest.mark.slow
def test_short_fuzzer_run_finds_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(COMMAND), "--scripts", "20", "--seed", "7", "--out", tmp_path / "f"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 runs" in done.stdout
    assert "generated completed" in done.stdout
    assert not (tmp_path / "f").exists()


def compare_with_plain(folder: Path, programs: int, seed: int, only: str) -> str:
    command = [sys.executable, str(ROOT / "tests" / "fuzz" / "plain.py"), "--out", str(folder)]
    done = subprocess.run(
        [*command, "--programs", str(programs), "--seed", str(seed), "--only", only],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_random_programs_behave_as_in_plain_python(tmp_path: Path) -> None:
    said = compare_with_plain(tmp_path / "f", 20, 2, "language")
    assert "20 programs" in said
    assert not (tmp_path / "f").exists()


@pytest.mark.slow
def test_random_calls_of_modules_behave_as_in_plain_python(tmp_path: Path) -> None:
    assert "20 programs" in compare_with_plain(tmp_path / "f", 20, 1, "calls")


def test_plain_fuzzer_detects_another_value(fuzz: Any) -> None:
    compare = fuzz("plain").compare
    plain = {"end": "done", "out": "0 ['int', '1']\n", "err": ""}
    other = {"end": "done", "out": "0 ['int', '2']\n", "err": ""}
    failed = {"end": "done", "out": "0 raises ['TypeError', 'no']\n", "err": ""}
    refused = {"end": "done", "out": "0 raises ['TypeError', 'a script may not']\n", "err": ""}
    assert compare(plain, plain).outcome() == "equal"
    assert compare(plain, other).outcome() == "silent"
    assert compare(failed, plain).outcome() == "silent"
    assert compare(plain, failed).outcome() == "stricter"
    assert compare(plain, refused).outcome() == "refused"
    assert compare(plain, {**plain, "out": ""}).outcome() == "silent"
    returned = {**failed, "out": failed["out"].replace("raises ", "")}
    assert compare(failed, returned).outcome() == "silent"


def test_plain_fuzzer_accepts_deletions_from_frozen_classes_only(fuzz: Any) -> None:
    def outcome(kind: str, plain: str, ours: str) -> str:
        lines = [
            f"0 raises {[error, text]!r}\n" for error, text in ((kind, plain), ("TypeError", ours))
        ]
        found = fuzz("plain").compare(*({"end": "done", "out": each, "err": ""} for each in lines))
        return str(found.outcome())

    missing = "type object 'ABC' has no attribute 'a'"
    frozen = "cannot set 'a' attribute of immutable type 'ABC'"
    assert outcome("AttributeError", missing, frozen) == "refused"
    assert outcome("AttributeError", missing, frozen.replace("'a'", "'b'")) == "silent"
    assert outcome("AttributeError", missing, frozen.replace("ABC", "Enum")) == "silent"
    assert outcome("AttributeError", missing, "another text") == "silent"
    assert outcome("KeyError", missing, frozen) == "silent"


def test_plain_fuzzer_compares_what_ptc_does_not_refuse(fuzz: Any) -> None:
    def outcome(ours: str) -> str:
        error = ["TypeError", "a script may not", [["str", "'a'"]], ["NoneType", "None"]]
        plain = f"0 {['list', '[1, 2]', [['int', '1'], ['int', '2']]]!r}\n"
        text = f"0 {['list', f'[TypeError(), {ours}]', [error, ['int', ours]]]!r}\n"
        found = fuzz("plain").compare(
            *({"end": "done", "out": each, "err": ""} for each in (plain, text))
        )
        return str(found.outcome())

    assert outcome("2") == "refused"
    assert outcome("3") == "silent"


@pytest.mark.parametrize(
    ("plain", "ours", "outcome"),
    [
        (
            "['builtin_function_or_method', '<built-in function allocate_lock>']",
            "['class', \"<class 'threading.Lock'>\", 'Lock', 'Lock']",
            "equal",
        ),
        (
            "['builtin_function_or_method', '<built-in function len>']",
            "['class', \"<class 'threading.Lock'>\", 'Lock', 'Lock']",
            "silent",
        ),
        ("['str', \"'<a.B...x7fb8d26c27a0>'\"]", "['str', \"'<a.B...x7f0000100010>'\"]", "equal"),
        ("['str', \"'<a.B...50 [locked]>'\"]", "['str', \"'<a.B...10 [unlocked]>'\"]", "silent"),
        ("['str', \"'text...ab>'\"]", "['str', \"'text...cd>'\"]", "silent"),
    ],
)
def test_plain_fuzzer_recognises_documented_differences(
    fuzz: Any, plain: str, ours: str, outcome: str
) -> None:
    ends = [{"end": "done", "out": f"0 {line}\n", "err": ""} for line in (plain, ours)]
    assert fuzz("plain").compare(*ends).outcome() == outcome


def hooks(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", ROOT / "tests" / "fuzz" / "hooks.py", *options],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_no_hook_receives_an_object_with_power(tmp_path: Path, count: int) -> None:
    done = hooks("--scripts", str(count), "--seed", "7", "--out", str(tmp_path / "f"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{{'DONE': {count}}}" in done.stdout
    assert not (tmp_path / "f").exists()


@pytest.mark.slow
def test_hook_fuzzer_detects_objects_left_reachable(tmp_path: Path) -> None:
    done = hooks("--scripts", "5", "--keep", "internals", "--out", str(tmp_path / "f"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert any((tmp_path / "f").iterdir())


def test_seed_reproduces_the_same_scripts(fuzz: Any) -> None:
    def some() -> list[str]:
        chance = Random(5)
        grammar, mutants = fuzz("grammar").Grammar(chance), fuzz("mutants").Mutants(chance)
        return [grammar.script(probes=3), mutants.spliced(), mutants.damaged(mutants.sources)]

    assert some() == some()


def test_generated_scripts_are_accepted_by_the_policy(fuzz: Any) -> None:
    grammar = fuzz("grammar")
    source = grammar.Grammar(Random(11)).script(probes=8)
    assert grammar.accepted(source)
    assert source.count("def probe_") >= 4
    assert not grammar.accepted("x.__globals__")


@pytest.mark.parametrize(
    "entry",
    [
        "frame|<frame at 0x1>",
        "module|<module 'os' from '/usr/lib/os.py'>",
        "module|<module 'sys' (built-in)>",
        "builtin_function_or_method|<built-in function eval>",
        "builtin_function_or_method|<built-in method __subclasses__ of type object at 0x1>",
        "getset_descriptor|<attribute 'gi_frame' of 'generator' objects>",
        "keys|__name__,__builtins__,@getattr,@import,run",
        "keys|abs,len,isinstance,print",
    ],
)
def test_fuzz_judge_reports_a_powerful_object(fuzz: Any, entry: str) -> None:
    assert fuzz("judge").suspicious(entry)


@pytest.mark.parametrize(
    "entry",
    [
        "module|<module 'json'>",
        "function|<function run at 0x1>",
        "builtin_function_or_method|<built-in function len>",
        "getset_descriptor|<attribute 'args' of 'BaseException' objects>",
        "keys|a,@import",
    ],
)
def test_fuzz_judge_accepts_permitted_objects(fuzz: Any, entry: str) -> None:
    assert fuzz("judge").suspicious(entry) == ""


def test_fuzz_judge_reports_leaked_token_violation_and_opened_file(fuzz: Any) -> None:
    findings = fuzz("judge").findings
    assert findings(RunResult(run_id="x", status="completed", value=["TKN1"]), "TKN1", "jail")
    assert findings(RunResult(run_id="x", status="violation"), "TKN1", "jail")
    assert findings(RunResult(run_id="x", status="crashed"), "TKN1", "jail")
    said = {"found": [], "said": ["[Errno 24] Too many open files: 'canary.txt'"]}
    assert findings(RunResult(run_id="x", status="completed", value=said), "TKN1", "language")
    assert not findings(RunResult(run_id="x", status="failed", value=[1]), "TKN1", "language")
