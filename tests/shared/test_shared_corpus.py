"""Scripts that others wrote, through real workers: what models write must run, and alike.

The data is fetched and may not be part of this project. It is looked for beside the repository, in
``../shared``, or where ``PTC_SHARED`` says; without it these tests are skipped.

How a row becomes a script: its tools become plain functions written in front of it, so that the
very same text runs in plain CPython and here. A row with `await` or `return` at its top level
becomes the body of a function. Anything else is a bare script.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ptc import Limits, RunResult, Session, ToolError, tool
from ptc.testing import NO_KERNEL_LAYER

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("PTC_SHARED", HERE.parents[2] / "shared"))
CHILD = HERE / "plain_child.py"
SNIPPETS = SHARED / "data" / "scripts" / "snippets.jsonl"
IDIOMS = SHARED / "data" / "scripts" / "idioms_dev.jsonl"
ESCAPES = SHARED / "data" / "escapes" / "language_dev"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not SNIPPETS.exists(), reason=f"no corpus at {SHARED}; set PTC_SHARED to its folder"
    ),
]
LIMITS = Limits(timeout_ms=20_000)
# Rows that ask for what the language now has, with the only value that a script may see: its own
# things (docs/limitations.md, "Introspection"), and functions of the façade in place of builtins.
GRANTED = {
    "atm-006": r"attribute __kwdefaults__ of function read: None",
    "atm-009": r"attribute __annotations__ of function read: {}",
    "atm-058": r"attribute __traceback__ of exception read: <traceback object at 0x[0-9a-f]+>",
    "atm-059": r"attribute __context__ of exception read: None",
    "atm-060": r"attribute __cause__ of exception read: None",
    "atm-180": r"builtin exit reachable: <function exit at 0x[0-9a-f]+>",
    "atm-181": r"builtin quit reachable: <function quit at 0x[0-9a-f]+>",
}
# Idioms that are refused, each with its section in docs/limitations.md. None today.
REFUSED_IDIOMS: frozenset[str] = frozenset()


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: the programs are what is tested here."""
    return "asyncio"


def load(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def plain(programs: dict[str, str], folder: Path, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Run each program in CPython; return the outcomes by id."""
    given = folder / f"programs-{seed}.json"
    answers = folder / f"outcomes-{seed}.jsonl"
    given.write_text(json.dumps([{"id": id_, "source": text} for id_, text in programs.items()]))
    subprocess.run(
        [sys.executable, "-W", "ignore", CHILD, given, answers],
        check=True, timeout=300, env={"PATH": os.defpath, "PYTHONHASHSEED": str(seed)},
    )  # fmt: skip
    return {row["id"]: row for row in load(answers)}


async def run_all(
    session: Session, programs: dict[str, str], **options: Any
) -> dict[str, RunResult]:
    """Every program in the session, as many at once as it lets."""

    async def one(source: str) -> RunResult:
        return await session.program(source=source, limits=LIMITS, **options)

    results = await asyncio.gather(*map(one, programs.values()))
    return dict(zip(programs, results, strict=True))


def report(text: str) -> None:
    """Say what was measured: shown with `pytest -s`."""
    sys.stdout.write(f"{text}\n")


# ---------------------------------------------------------------------------------------------
# Scripts that models wrote

_HOUSE = [
    "put", "goto", "take_from", "open_receptacle", "toggle", "close_receptacle", "clean", "heat",
    "cool", "use", "look", "examine",
]  # fmt: skip
_ANSWERS = {
    **{name: f"f'You {name} ' + ' '.join(map(str, args))" for name in _HOUSE},
    "goto": "f'At {args[0] if args else 0} there are: an apple 1, a mug 2 and a cellphone 1.'",
    "wikipedia_search": "f'Page: {args}\\nSummary: born in 1950, released in 1999, 12 items.'",
    "final_answer": "args[0] if args else None",
}
_ENVELOPE = (
    "{'ok': True, 'name': name, 'items': [{'id': 1, 'name': 'a', 'status': 'up', 'count': 3}], "
    "'results': [{'id': 1, 'name': 'a', 'status': 'up'}], 'data': [{'id': 1}], 'total': 1}"
)
_CALL_TOOL = f"async def call_tool(name=None, params=None, **more):\n    return {_ENVELOPE}\n"


def stub(name: str) -> str:
    answer = _ANSWERS.get(name, f"'{name}: 42 items; price 10.5; date 2024-01-02'")
    return f"def {name}(*args, **more):\n    return {answer}\n"


def stubs_for(row: dict[str, Any]) -> str:
    tree = ast.parse(row["code"])
    bound = {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
    names = set(_ANSWERS) | {name for name in row["calls"] if name.isidentifier()}
    return "".join(stub(name) for name in sorted(names - bound - set(dir(builtins))))


def as_programs(row: dict[str, Any]) -> tuple[str, str]:
    """A row as a program for CPython and as a script; but for who calls `run`, the same text."""
    if row["style"].startswith("fastmcp"):
        body = _CALL_TOOL + "async def run(ctx, inputs):\n" + textwrap.indent(row["code"], "    ")
        start = "\nimport asyncio\nasyncio.run(run(None, {}))\n"
        return body + "\n    pass" + start, body + "\n    pass\n"
    source = stubs_for(row) + row["code"]
    if row["code"].startswith("from __future__"):
        source = row["code"]
    # The trailing expression makes it a bare script also if it only defines.
    return source, source + "\n0\n"


async def test_model_written_scripts_behave_as_in_cpython(tmp_path: Path) -> None:
    rows = {row["id"]: row for row in load(SNIPPETS)}
    programs = {id_: as_programs(row) for id_, row in rows.items()}
    expected = plain({id_: pair[0] for id_, pair in programs.items()}, tmp_path)
    finished = [id_ for id_, answer in expected.items() if answer["error"] is None]
    assert len(finished) > len(rows) / 2, "CPython itself finishes too little: stubs are broken"

    told = [id_ for id_, answer in expected.items() if answer["error"] not in _ENVIRONMENT]
    async with Session(tmp_path, toolsets=(), workers=4) as session:
        results = await run_all(session, {id_: programs[id_][1] for id_ in told})
    refused = [id_ for id_ in finished if not results[id_].ok]
    other = [
        id_
        for id_ in finished
        if results[id_].ok and results[id_].stdout != expected[id_]["output"][-65_536:]
    ]
    wild = not_reproducible({id_: programs[id_][0] for id_ in [*other, *refused]}, tmp_path)
    refused = [id_ for id_ in refused if id_ not in wild]
    silent = [id_ for id_ in other if id_ not in wild]
    counted = len(finished) - len(wild)
    same = counted - len(refused) - len(silent)
    report(f"{same}/{counted} = {same / counted:.2%}, {len(silent)} silent, wild: {sorted(wild)}")
    assert not silent, {
        id_: (expected[id_]["output"][-300:], results[id_].stdout[-300:]) for id_ in silent
    }
    why = {id_: str(results[id_].error)[:300] for id_ in refused}
    assert same / counted >= 0.995, why
    # A program that fails in CPython fails with the same error here, if it was not refused.
    assert not {
        id_: (expected[id_]["error"], str(results[id_].error)[:300])
        for id_ in told
        if expected[id_]["error"]
        and results[id_].status != "rejected"
        and expected[id_]["error"] != _kind(results[id_])
    }


def _kind(result: RunResult) -> str:
    return result.error.type if result.error is not None else ""


# Errors that say what CPython was not given here, not what the program did.
_ENVIRONMENT = {"Late", "ModuleNotFoundError", "died", "SystemExit"}


def not_reproducible(programs: dict[str, str], folder: Path) -> set[str]:
    """Programs that CPython itself answers differently from one run to the next."""
    first = plain(programs, folder, 1)
    wild: set[str] = set()
    for seed in range(2, 14):
        left = {id_: text for id_, text in programs.items() if id_ not in wild}
        if not left:
            break
        again = plain(left, folder, seed)
        wild |= {id_ for id_ in left if again[id_] != first[id_]}
    return wild


# ---------------------------------------------------------------------------------------------
# Idioms


def _last(text: str) -> str:
    return text.splitlines()[-1]


_TOOL = "async def tool(x=0):\n    return x * 10\n"
# On a line of its own: what is logged is printed here, and goes to another stream there.
_SHOW = "print('\\n' + repr(result))\n"


async def test_every_idiom_has_the_same_result_as_in_cpython(tmp_path: Path) -> None:
    rows = {row["name"]: row for row in load(IDIOMS)}
    here: dict[str, str] = {}
    there: dict[str, str] = {}
    for name, row in rows.items():
        if row["kind"] == "async":
            body = textwrap.indent(row["code"] + "\n" + _SHOW, "    ")
            there[name] = f"{_TOOL}async def run():\n{body}\nimport asyncio\nasyncio.run(run())\n"
            code = re.sub(r"\btool\(", "ctx.tool(", row["code"])
            here[name] = f"{code}\n{_SHOW}"
        else:
            there[name] = here[name] = f"{row['code']}\n{_SHOW}"
    expected = plain(there, tmp_path)
    unknown = {name for name, answer in expected.items() if answer["error"]}
    assert unknown <= {"type_alias_312"}  # newer than the oldest Python that is supported

    @tool(name="tool")
    async def times_ten(x: int = 0) -> int:
        """Multiply by ten."""
        return x * 10

    async with Session(tmp_path, tools=[times_ten], toolsets=(), workers=4) as session:
        results = await run_all(session, here)
    told = {name: (result.status, result.stdout, result.error) for name, result in results.items()}
    different = [
        name
        for name, answer in expected.items()
        if name not in unknown | REFUSED_IDIOMS
        and (not results[name].ok or _last(results[name].stdout) != _last(answer["output"]))
    ]
    assert not different, [(name, told[name], expected[name]) for name in different]
    assert all(results[name].status in {"rejected", "failed"} for name in REFUSED_IDIOMS)
    report(f"{len(rows) - len(unknown)} idioms alike, {sorted(unknown)} not in this Python")


# ---------------------------------------------------------------------------------------------
# Escapes, with the kernel layer off


Json: TypeAlias = dict[str, Any] | list[Any] | str | float | bool | None


@tool
async def echo(x: Json = None) -> Any:
    """Give `x` back."""
    return x


@tool
async def fail() -> None:
    """Fail."""
    try:
        raise KeyError("inner")
    except KeyError as error:
        raise ToolError("tool failed") from error


@tool
async def apply(fn: Json) -> Any:
    """Take a function, which data cannot be."""
    return fn


@tool
async def render(template: str = "") -> str:
    """Format a template."""
    return "ok"


def has_escaped(case: dict[str, Any], result: RunResult, token: str, drop: Path) -> bool:
    """True if the secret got out, or the script says it held a forbidden object."""
    told = result.to_json().decode()
    if token in told or drop.exists():
        return True
    value = result.value
    marked = type(value) is str and value.startswith("ESCAPED:")
    return marked and case["expect"] != "no-canary"


async def attack(
    cases: Iterable[dict[str, Any]], folder: Path, judge: Callable[..., bool] = has_escaped
) -> list[tuple[str, RunResult]]:
    token = "TKN" + secrets.token_hex(8)
    os.environ["SBX_ENV_SECRET"] = token
    secret = folder / "secret"
    secret.mkdir()
    # A worker of root's is nobody: what it cannot reach, no escape would be seen to reach.
    folder.chmod(0o755)
    secret.chmod(0o777)
    (secret / "canary.txt").write_text(f"canary {token}\n")
    (secret / "canary.ini").write_text(f"[s]\nk = {token}\n")

    async with Session(
        folder,
        tools=[echo, fail, apply, render],
        toolsets=(),
        workers=4,
        isolation=NO_KERNEL_LAYER,
    ) as session:

        async def one(case: dict[str, Any]) -> tuple[str, RunResult, bool]:
            drop = secret / f"drop-{case['id']}"
            inputs = {
                "canary": str(secret / "canary.txt"),
                "canary_ini": str(secret / "canary.ini"),
                "drop": str(drop),
                "tmpdir": str(secret),
            }
            result = await session.program(
                source=case["script"], inputs=inputs, limits=LIMITS,
                allowed_tools=["echo", "fail", "apply", "render"],
            )  # fmt: skip
            return case["id"], result, judge(case, result, token, drop)

        rows = await asyncio.gather(*map(one, cases))
    del os.environ["SBX_ENV_SECRET"]
    return [(id_, result) for id_, result, out in rows if out]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which those of `tmp_path` are not."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


async def test_known_escapes_fail_in_a_worker_without_the_kernel_layer(open_folder: Path) -> None:
    cases = [case for path in sorted(ESCAPES.glob("*.jsonl")) for case in load(path)]
    assert len(cases) > 200
    values = {id_: result.value for id_, result in await attack(cases, open_folder)}
    others = {
        id_: value
        for id_, value in values.items()
        if not re.fullmatch(f"ESCAPED:{GRANTED.get(id_, '(?!)')}", str(value))
    }
    assert others == {}
    assert set(values) == set(GRANTED), "a row of GRANTED is refused again"


async def test_escape_check_of_real_workers_detects_an_escape(open_folder: Path) -> None:
    scripts = {
        "marker": "def run(ctx, inputs):\n    return 'ESCAPED:x'",
        "output": "def run(ctx, inputs):\n    print(inputs['canary'])",
    }
    cases = [{"id": id_, "script": text, "expect": "denied"} for id_, text in scripts.items()]

    def judge(case: dict[str, Any], result: RunResult, token: str, drop: Path) -> bool:
        # The script cannot have the token, so what it did print stands for it.
        return has_escaped(case, result, "canary.txt", drop)

    assert [id_ for id_, _ in await attack(cases, open_folder, judge)] == ["marker", "output"]
