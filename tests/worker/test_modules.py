"""The modules of a script: complete, frozen, leading nowhere, and equal to CPython's."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PROGRAMS = HERE.parent / "programs"
CHILD = HERE / "script_child.py"
ENVIRONMENT = {
    "PYTHONPATH": str(HERE.parent.parent),
    "PATH": os.defpath,
    "TZ": "UTC0",
    "PYTHONHASHSEED": "0",
}


def run_scripts(cases: list[dict[str, Any]], folder: Path) -> dict[str, dict[str, Any]]:
    """Run scripts behind the language policy; answers by id."""
    (folder / "cases.json").write_text(json.dumps(cases))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", CHILD, folder / "cases.json", folder / "out.jsonl"],
        input="token\n", text=True, capture_output=True, timeout=120, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    lines = (folder / "out.jsonl").read_text().splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


PRELUDE = """
import json, random, sys
import ptc.errors
from ptc._language._compiler import compile_script
from ptc.worker._clock import Clock
from ptc.worker._seal import seal
from ptc.worker._guards import attribute, script_builtins, script_globals
from ptc.worker._modules import build_modules
from ptc._language import _policy as policy
clock, rng = Clock(), random.Random(3)
modules = build_modules(clock, rng)
seal()
builtins = script_builtins(extra={})
def run(source):
    namespace = script_globals(dict(builtins), modules)
    exec(compile_script(source, require_run=False).code, namespace)
    return namespace.get("result")
"""


def in_worker(program: str, script: str = "") -> Any:
    """Run `program` in a process that is set up like a worker; what it prints is JSON."""
    text = f"{PRELUDE}\nscript = {script!r}\n{textwrap.dedent(program)}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        text=True, capture_output=True, timeout=120, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def plain_result(source: str) -> Any:
    """Return the result of a script in CPython."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        code = compile(source, "script.py", "exec", dont_inherit=True)
        exec(code, namespace)  # noqa: S102  # programs of this repository
        result = namespace["run"](None, {})
        if inspect.isawaitable(result):

            async def wait() -> Any:
                return await result

            result = asyncio.run(wait())
    return json.loads(json.dumps(result, default=repr))


# ---------------------------------------------------------------------------------------------
# Agreement with CPython


def _main_result(path: Path) -> Any:
    program = (
        "import sys, json, asyncio, inspect, io, contextlib\n"
        "space = sys.modules['__main__'].__dict__\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    text = open(sys.argv[1]).read()\n"
        "    exec(compile(text, 'script.py', 'exec', dont_inherit=True), space)\n"
        "    value = space['run'](None, {})\n"
        "    if inspect.isawaitable(value):\n"
        "        value = asyncio.run(value)\n"
        "print(json.dumps(value, default=repr))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, path],
        text=True, capture_output=True, timeout=60, env=ENVIRONMENT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_allowed_programs_match_cpython(tmp_path: Path) -> None:
    paths = sorted((PROGRAMS / "allowed").glob("*.py"))
    cases = [{"id": path.name, "script": path.read_text(), "trace": True} for path in paths]
    answers = run_scripts(cases, tmp_path)
    assert len(answers) == len(paths) >= 5
    for path in paths:
        answer = answers[path.name]
        assert "result" in answer, (path.name, answer.get("error"), answer.get("trace"))
        for ours, plain in zip(json.loads(answer["result"]), _main_result(path), strict=True):
            assert ours == plain, path.name


def _as_run(row: dict[str, Any]) -> str:
    if row["kind"] == "sync":
        return f"{row['code']}\ndef run(ctx, inputs):\n    return result\n"
    body = textwrap.indent(row["code"], "    ")
    tool = "    async def tool(x=None): return x\n"
    return f"async def run(ctx, inputs):\n{tool}{body}\n    return result\n"


def test_idioms_match_cpython(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (PROGRAMS / "idioms.jsonl").read_text().splitlines()]
    answers = run_scripts([{"id": r["name"], "script": _as_run(r)} for r in rows], tmp_path)
    assert len(rows) > 60
    for row in rows:
        answer = answers[row["name"]]
        try:
            expected = plain_result(_as_run(row))
        except SyntaxError:  # newer than this Python
            assert answer["findings"] == ["syntax_error"]
            continue
        assert "result" in answer, (row["name"], answer["error"])
        assert json.loads(answer["result"]) == expected, row["name"]


# ---------------------------------------------------------------------------------------------
# Facades


def test_every_facade_has_the_names_of_the_policy_table() -> None:
    missing = in_worker("""
        import importlib
        missing = []
        for name, wanted in policy.MODULES.items():
            for each in sorted(wanted):
                found = hasattr(modules[name], each) or f"{name}.{each}" in modules
                real = importlib.import_module(name)
                if not found and hasattr(real, each):
                    missing.append(f"{name}.{each}")
        print(json.dumps(missing))
    """)
    assert missing == []


def test_facade_has_no_names_outside_the_policy_table() -> None:
    surplus = in_worker("""
        surplus = []
        for name, module in modules.items():
            shown = {each for each in dir(module) if not each.startswith("__")}
            surplus += sorted(shown - policy.MODULES[name])
            if hasattr(module, "__dict__"):
                surplus.append(f"{name}.__dict__")
        print(json.dumps(surplus))
    """)
    assert surplus == []


def test_nothing_dangerous_can_be_reached_from_a_facade() -> None:
    """Walk every attribute that a script can read, from everything a script starts with."""
    found = in_worker("""
        import asyncio, builtins as real, io, types
        bad = {id(each): name for name, each in vars(real).items() if name in {
            "open", "eval", "exec", "compile", "__import__", "getattr", "setattr", "delattr",
            "vars", "dir", "globals", "locals", "input", "memoryview", "breakpoint", "type",
            "__build_class__",
        }}
        bad |= {id(io.FileIO): "FileIO", id(types.FunctionType): "FunctionType",
                id(types.CodeType): "CodeType", id(asyncio.Task): "Task"}
        kinds = (types.ModuleType, types.CodeType, types.FrameType, types.CellType,
                 asyncio.AbstractEventLoop)
        todo = [(each, name) for name, each in builtins.items() if not name.startswith("__")]
        todo += [(each, name) for name, each in modules.items()]
        seen, keep, reached = set(), [], []
        while todo:
            obj, path = todo.pop()
            for name in dir(obj):
                kind = policy.kind_of(name)
                try:
                    if kind == "ordinary":
                        value = getattr(obj, name)
                    elif kind == "power" or name in policy.READABLE:
                        value = attribute(obj, name)
                    else:
                        continue
                except Exception:
                    continue
                metaclass = isinstance(value, type) and issubclass(value, type)
                if id(value) in bad or isinstance(value, kinds) or metaclass:
                    reached.append(f"{path}.{name}")
                    continue
                named = isinstance(value, (type, types.FunctionType))
                named = named or type(value).__name__ == "module"
                key = id(value) if named else type(value)
                if key not in seen and path.count(".") < 6:
                    seen.add(key)
                    keep.append(value)
                    todo.append((value, f"{path}.{name}"))
        print(json.dumps([reached, len(seen)]))
    """)
    reached, seen = found
    assert reached == []
    assert seen > 500, "the walk saw almost nothing"


def test_a_facade_cannot_be_changed() -> None:
    answer = in_worker("""
        failed = []
        for name, module in modules.items():
            for each in sorted(policy.MODULES[name])[:2]:
                for change in (lambda: setattr(module, each, 1), lambda: delattr(module, each),
                               lambda: setattr(module, "new", 1)):
                    try:
                        change()
                    except AttributeError:
                        continue
                    failed.append(name)
        print(json.dumps(failed))
    """)
    assert answer == []


def test_facade_slots_cannot_be_written_through_object_methods() -> None:
    answer = in_worker("""
        failed = []
        for name, module in modules.items():
            for each in sorted(policy.MODULES[name])[:3]:
                slot = vars(type(module)).get(each)
                if not hasattr(module, each) or slot is None or isinstance(slot, property):
                    continue
                for change in (lambda: object.__setattr__(module, each, 1),
                               lambda: object.__delattr__(module, each),
                               lambda: slot.__set__(module, 1)):
                    try:
                        change()
                    except AttributeError:
                        continue
                    failed.append(f"{name}.{each}")
        print(json.dumps(failed))
    """)
    assert answer == []


COPIED = """
import copy, json
class Evil:
    made = 0
    def __new__(cls):
        Evil.made += 1
        return object.__new__(cls) if Evil.made == 1 else json
evil = Evil()
evil.loads = 1
result = []
for function in (copy.copy, copy.deepcopy):
    try:
        result.append(repr(function(evil)))
    except TypeError as error:
        result.append(str(error))
"""


def test_copy_that_is_not_an_instance_of_its_class_is_refused() -> None:
    answer = in_worker("print(json.dumps(run(script)))", COPIED)
    assert answer == ["__new__ of 'Evil' must return an instance of it"] * 2


def test_library_classes_reject_attribute_assignment() -> None:
    answer = in_worker("""
        import collections, fractions, ptc.worker._attributes as attributes
        kinds = {each for module in modules.values() for name in dir(module)
                 if isinstance(each := getattr(module, name), type)}
        kinds |= {type(modules["json"]), attributes.Attributes, ptc.errors.ToolError}
        failed = []
        for kind in kinds:
            try:
                kind.evil = 1
            except TypeError:
                continue
            failed.append(kind.__name__)
        class Own: pass
        Own.fine = 1
        print(json.dumps([failed, len(kinds) > 150]))
    """)
    assert answer == [[], True]


def test_freeze_check_fails_if_type_flags_are_at_another_offset() -> None:
    from ptc.worker import _freeze

    def elsewhere(kind: type) -> Any:
        import ctypes

        return ctypes.c_ulong.from_address(id(kind) + 24)

    with pytest.raises(_freeze.FreezeError):
        _freeze._check_offset(elsewhere)
    _freeze._check_offset(_freeze._flags)


@pytest.mark.parametrize("slot", ["_TP_REPR", "_TP_HASH"])
def test_identity_check_fails_if_a_type_slot_is_at_another_offset(
    slot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ptc.worker import _freeze, _identity

    _identity._check_offsets()
    other = {"_TP_REPR": _identity._TP_HASH, "_TP_HASH": _identity._TP_REPR}[slot]
    monkeypatch.setattr(_identity, slot, other)
    with pytest.raises(
        _freeze.FreezeError, match="the slots of a type are not at the expected offsets"
    ):
        _identity._check_offsets()


# ---------------------------------------------------------------------------------------------
# Time and chance


def test_every_clock_is_the_logical_clock() -> None:
    script = """
import time, datetime
result = [time.time(), time.time_ns(), time.monotonic(), time.perf_counter(),
    time.perf_counter_ns(),
    time.strftime("%H:%M:%S"), time.localtime().tm_year, time.ctime(),
    datetime.datetime.now().isoformat(), datetime.datetime.utcnow().isoformat(),
    datetime.datetime.today().isoformat(), datetime.date.today().isoformat(),
    datetime.datetime.now(datetime.timezone.utc).isoformat(),
    datetime.datetime.now(datetime.timezone(datetime.timedelta(hours=2))).isoformat(),
    type(datetime.datetime.now()) is datetime.datetime,
    type(datetime.date.today()) is datetime.date,
    datetime.datetime.now().timestamp(), datetime.datetime.now().astimezone().isoformat()]
"""
    program = """
        clock.epoch, clock.elapsed = 1_700_000_000.0, 1.5
        print(json.dumps(run(script)))
    """
    answer = in_worker(program, script)

    def moment(readings: int) -> str:
        return f"2023-11-14T22:13:21.{5_000 + readings:04}00"

    # Each reading advances the clock by 0.1 ms.
    assert answer == [
        1_700_000_001.5001, 1_700_000_001_500_199_936, 1.5003, 1.5004, 1_500_500_000,
        "22:13:21", 2023, "Tue Nov 14 22:13:21 2023",
        moment(9), moment(10), moment(11), "2023-11-14",
        f"{moment(13)}+00:00", f"2023-11-15T{moment(14)[11:]}+02:00".replace("T22:", "T00:"),
        True, True, 1_700_000_001.5017, f"{moment(18)}+00:00",
    ]  # fmt: skip


def test_time_sleep_uses_the_runtime_clock_or_suggests_asyncio_sleep() -> None:
    answer = in_worker("""
        slept = []
        clock.sleep = slept.append
        run("import time\\ntime.sleep(2)")
        clock.sleep = None
        try:
            run("import time\\ntime.sleep(2)")
        except RuntimeError as error:
            slept.append(str(error))
        print(json.dumps(slept))
    """)
    assert answer == [2, "time.sleep() would stop every task; write `await asyncio.sleep(s)`"]


def test_random_sources_use_the_seed_of_the_run() -> None:
    script = """
import random, uuid, secrets, statistics
def draw():
    return [random.random(), random.randint(1, 10**9), str(uuid.uuid4()), secrets.token_hex(4),
        random.Random().random(), random.sample(range(99), 3), statistics.NormalDist().samples(1)]
result = draw()
"""
    program = """
        got = []
        for seed in (5, 5, 6):
            rng.seed(seed)
            got.append(run(script))
        print(json.dumps(got))
    """
    answer = in_worker(program, script)
    assert answer[0] == answer[1]
    assert not [a for a, b in zip(answer[0], answer[2], strict=True) if a == b]


def test_seeded_random_numbers_match_cpython() -> None:
    import random

    source = "import random\nrandom.seed(5)\nresult = [random.random(), random.Random(5).random()]"
    answer = in_worker(f"print(json.dumps(run({source!r})))")
    assert answer == [random.Random(5).random()] * 2  # compared, not used


# ---------------------------------------------------------------------------------------------
# Written here instead of in the library


def test_deepcopy_does_not_walk_into_foreign_objects(tmp_path: Path) -> None:
    script = """
import asyncio, copy
class P:
    def __init__(self): self.items, self._next = [1, {"a": (2, [3])}], None
async def run(ctx, inputs):
    out = []
    task, lock = asyncio.current_task(), asyncio.Lock()
    for host in (ctx, lock, task, (x for x in ()), [ctx], {"a": {1: ctx}}):
        memo = {}
        try:
            copy.deepcopy(host, memo)
            out.append("copied")
        except TypeError:
            kinds = [type(v).__name__ for v in memo.values()]
            out.append([kind for kind in kinds if kind not in ("list", "dict")])
    a = P()
    a._next = a
    b = copy.deepcopy(a)
    b.items[1]["a"][1].append(4)
    args = copy.deepcopy(ValueError("x")).args
    out.append([a.items, b.items, b._next is b, args, copy.deepcopy(len) is len])
    return out
"""
    answer = run_scripts([{"id": "1", "script": script}], tmp_path)["1"]
    assert "result" in answer, answer
    *hosts, own = json.loads(answer["result"])
    assert hosts == [[]] * 6
    assert own == [[1, {"a": [2, [3]]}], [1, {"a": [2, [3, 4]]}], True, ["x"], True]


def test_formatted_traceback_contains_only_script_frames(tmp_path: Path) -> None:
    script = """
import json, traceback
class _Bad(Exception): pass
def _inner():
    json.loads("{")
def run(ctx, inputs):
    try:
        try:
            _inner()
        except ValueError as error:
            raise _Bad("outer") from error
    except _Bad:
        return traceback.format_exc()
"""
    answer = run_scripts([{"id": "1", "script": script}], tmp_path)["1"]
    newest = sys.version_info >= (3, 13)  # it underlines a call that is the whole line
    carets, call = ("    ~~~~~~^^\n", "    ~~~~~~~~~~^^^^^\n") if newest else ("", "")
    assert json.loads(answer["result"]) == (
        "Traceback (most recent call last):\n"
        '  File "script.py", line 9, in run\n    _inner()\n'
        f"{carets}"
        '  File "script.py", line 5, in _inner\n    json.loads("{")\n'
        f"{call}"
        "json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "script.py", line 11, in run\n    raise _Bad("outer") from error\n'
        "_Bad: outer\n"
    )


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("pathlib.Path('x').read_text()", "`await ctx.read(path)`"),
        ("pathlib.Path('x').exists()", "`await ctx.glob(pattern)`"),
        ("asyncio.run(None)", "a coroutine"),
        ("json.dumps = 1", "cannot be changed"),
    ],
)
def test_unsupported_operation_error_suggests_a_fix(line: str, says: str, tmp_path: Path) -> None:
    script = f"import asyncio, json, pathlib\ndef run(ctx, inputs):\n    {line}\n"
    answer = run_scripts([{"id": "1", "script": script}], tmp_path)["1"]
    assert says in answer["error"]


def test_date_parsing_does_not_need_the_script_importer() -> None:
    source = (
        "import datetime, time\n"
        "result = [str(datetime.datetime.strptime('2024-02-03', '%Y-%m-%d')),\n"
        "    time.strptime('5', '%d').tm_mday]"
    )
    assert in_worker(f"print(json.dumps(run({source!r})))") == ["2024-02-03 00:00:00", 5]


def test_time_zones_are_available_without_opening_files() -> None:
    script = """
import zoneinfo, datetime
names = zoneinfo.available_timezones()
if "Europe/Berlin" in names:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    result = str(datetime.datetime(2024, 7, 1, tzinfo=zone).utcoffset())
else:
    result = "2:00:00"
try:
    zoneinfo.ZoneInfo("No/Where")
except zoneinfo.ZoneInfoNotFoundError:
    result += " unknown"
"""
    program = """
        import builtins as real, io, os
        def closed(*args, **kwargs):
            raise AssertionError(f"opened {args}")
        real.open = io.open = os.open = closed
        print(json.dumps(run(script)))
    """
    answer = in_worker(program, script)
    assert answer == "2:00:00 unknown"


@pytest.mark.parametrize(
    "call",
    [
        "inspect.signature(len)",
        "inspect.signature(ctx)",
        "inspect.signature(json.loads)",
        "inspect.signature(print)",
        "inspect.signature(inspect.signature)",
        "inspect.signature(int)",
        "inspect.signature(type(ctx))",
        "typing.get_type_hints(json.loads)",
        "typing.get_type_hints(ctx)",
        "typing.get_type_hints(inspect.Signature)",
        "inspect.Signature.from_callable",
    ],
)
def test_signature_of_foreign_callable_is_refused(call: str, tmp_path: Path) -> None:
    script = (
        "import inspect, json, typing\ndef run(ctx, inputs):\n"
        f"    try:\n        {call}\n"
        "    except (ValueError, TypeError, AttributeError) as error:\n        return str(error)\n"
    )
    answer = run_scripts([{"id": "1", "script": script}], tmp_path)["1"]
    assert json.loads(answer["result"]), answer


def test_type_hints_evaluate_no_code(tmp_path: Path) -> None:
    script = """
import typing
done = []
def mark(): done.append(1)
def run(ctx, inputs):
    found = []
    for text in ["mark()", "[mark() for x in y]", "(lambda: 1)()", "__builtins__", "__import__",
                 "run.__globals__", "int.__subclasses__", "x := 1", "'" * 3000, "1 +",
                 "int if mark() else str", "f'{mark()}'"]:
        def f(x: 1): ...
        made = type("A", (), {"__annotations__": {"x": text}})
        try:
            found.append(repr(typing.get_type_hints(made)))
        except (NameError, TypeError, AttributeError, SyntaxError) as error:
            found.append(type(error).__name__)
    return [found, done]
"""
    answer = run_scripts([{"id": "1", "script": script}], tmp_path)["1"]
    found, done = json.loads(answer["result"])
    assert done == []
    assert set(found) <= {"NameError", "TypeError", "AttributeError", "SyntaxError", "RefusedError"}


EARLY_PATHS = """
import ntpath, pathlib
kind = type(pathlib.PureWindowsPath._flavour)
kind.ntpath = ntpath  # as in the class of CPython 3.11.2
from ptc.worker._modules._text import confine_paths
confine_paths()
print([name for name in vars(kind) if getattr(kind, name) is ntpath], kind.ntpath.sep)
"""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later releases have no such class")
def test_classes_of_paths_keep_no_module_under_any_name() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EARLY_PATHS],
        env=ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "[] \\\n", done.stderr
