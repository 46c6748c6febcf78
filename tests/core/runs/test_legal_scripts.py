"""No legal script causes a violation, whatever bound of the wire it exceeds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import BlockingSession, Limits, RunResult, Session, tool
from ptc._wire._bodies import INLINE_BYTES, MAX_DEPTH
from ptc._wire._messages import MAX_MESSAGE, MAX_NAME, MAX_PRINT
from ptc._wire._protocol import FROM_WORKER, MAX_BODY, Kind

Json = dict[str, Any] | list[Any] | str | int | float | bool | None


@tool
async def echo(value: Json = None) -> Json:
    """Give back what was passed."""
    return value


@tool
async def nap(ms: int = 1) -> int:
    """Wait a moment."""
    await anyio.sleep(min(ms, 50) / 1000)
    return ms


LIMITS = Limits(
    timeout_ms=2_000, max_memory_bytes=128 << 20, max_tool_calls=200, max_stdout_bytes=16 << 20
)
PRELUDE = """
import asyncio, logging, sys, time, traceback, warnings
from collections import UserDict
from dataclasses import dataclass, field
from enum import Enum

class Time(float):
    def __radd__(self, other): return "radd"
    def __rsub__(self, other): return "rsub"
    def __sub__(self, other): return "sub"
    def __add__(self, other): return "add"
    def __repr__(self): return "[1,2"
    def __float__(self): return 0.01

class Text(str):
    def __len__(self): return -5
    def __getitem__(self, key): return 7
    def __str__(self): return self
    def __iter__(self): return iter([1, 2])

class Items(list):
    def __len__(self): return 1 << 60
    def __iter__(self): return iter([object()])

class Odd(dict):
    def items(self): return [(1, 2)]
    def keys(self): return ["\\ud800"]
    def __iter__(self): return iter([3])

@dataclass
class Node:
    inner: object = None
    more: list = field(default_factory=list)

class Loud:
    def __init__(self, ctx): self.ctx = ctx
    def __repr__(self):
        print("said in between")
        self.ctx.emit([0] * 100_000)
        return "\\ud800" * 400

def nested(levels, inner=0):
    value = inner
    for _ in range(levels):
        value = [value]
    return value

def keyed(levels):
    value = 1
    for _ in range(levels):
        value = {"k": value}
    return value
"""


def source_of(*lines: str, kind: str = "async def") -> str:
    body = "".join(f"    {row}\n" for line in lines for row in line.splitlines())
    return f"{PRELUDE}\n{kind} run(ctx, inputs):\n{body or '    pass'}\n"


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, tools=[echo, nap], toolsets=(), workers=2, limits=LIMITS) as opened:
        yield opened


def check(session: Session | BlockingSession, result: RunResult) -> None:
    assert result.status not in {"violation", "crashed"}, result.error
    assert not session.violations


# --- one bound after the other ------------------------------------------------------------------

AROUND = {
    "name": [MAX_NAME - 1, MAX_NAME, MAX_NAME + 1, 300, 70_000],
    "print": [MAX_PRINT - 1, MAX_PRINT, MAX_PRINT + 1, 3 * MAX_PRINT],
    "message": [MAX_MESSAGE - 1, MAX_MESSAGE, MAX_MESSAGE + 1, 2_000_000],
    "inline": [INLINE_BYTES - 3, INLINE_BYTES - 2, INLINE_BYTES - 1, INLINE_BYTES, 400_000],
    "depth": [MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, 253, 254, 255, 1_000, 50_000],
}
CHARACTERS = ("'a'", "'\\x00'", "'\\\"'", "'é'", "'\\U0001f600'", "'\\ud800'", "'_'")
TIMES = (
    "0", "-1", "-0.0", "0.001", "1e9", "1e9 + 1", "1e300", "float('inf')", "float('nan')",
    "-float('inf')", "10 ** 400", "True", "'1'", "None", "Time(0.001)", "Time('nan')", "2 ** 63",
)  # fmt: skip
ODD_VALUES = (
    "2 ** 63", "2 ** 64 - 1", "2 ** 64", "-(2 ** 63) - 1", "10 ** 4_000", "float('nan')",
    "float('inf')", "1e400", "'\\ud800'", "{'\\ud800': 1}", "{1: 2}", "{None: 1}", "b'x'", "{1, 2}",
    "object()", "print", "run", "ctx", "Text('x' * 300)", "{Text('k'): Text('v')}", "Items([1])",
    "Odd(a=1)", "Node(Node())", "[Node()] * 5_000", "(1, (2,))", "range(10)", "UserDict(a=1)",
    "(n for n in [1])", "{'a': 1}.items()", "Enum('E', 'A').A", "type('T' * 300, (), {})",
    "ctx.echo(1)", "float('1e308') * 10", "'x' * 40 + chr(0xdfff)", "[[]] * 200_000",
    "{str(n): n for n in range(100_000)}", "['\\x00' * 30_000] * 9", "nested(199, {1})",
    "nested(199, Node())", "nested(200, [])", "nested(150, ['x' * 200_000])", "Node(nested(199))",
)  # fmt: skip
WAITS = (
    "time.sleep({})", "await asyncio.sleep({})", "await asyncio.wait_for(ctx.nap(), {})",
    "await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0))], timeout={})",
    "async with asyncio.timeout({}):\n    await ctx.nap()",
    "asyncio.get_running_loop().call_later({}, print, 1)\nawait asyncio.sleep(0)",
)  # fmt: skip
SAYS = (
    "print({})", "print({}, end='')", "print({}, file=sys.stderr)", "sys.stdout.write({})",
    "ctx.log({})", "logging.error({})", "warnings.warn({})", "print(*[{}] * 3, sep={})",
    "logging.getLogger({}).warning('%s', {})",
)  # fmt: skip
FAILS = (
    "raise ValueError({})", "raise KeyError({})", "raise ToolError({})", "raise SystemExit({})",
    "raise ToolError('m', code={0}, tool={0})", "raise type({}, (Exception,), {{}})('x')",
    "raise ExceptionGroup({0}, [ValueError({0}), TypeError({0})])",
    "error = ToolError('m')\nerror.tool = {}\nraise error",
    "error = ToolError('m', code='limit_exceeded')\nerror.details = {}\nraise error",
    "raise ToolError('m', code='limit_exceeded', details={{'limit': {}}})",
    "raise ToolError('m', code='limit_exceeded', details={{'limit': [{}]}})",
    "error = NameError('x')\nerror.name = {}\nraise error",
    "error = ValueError('x')\nerror.add_note({})\nraise error",
    "class E(Exception):\n    def __str__(self): return {}\nraise E",
    "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E",
    "asyncio.ensure_future(asyncio.sleep(0)).set_name({})\nasync def f(): raise ValueError({})\n"
    "asyncio.ensure_future(f())\nawait asyncio.sleep(0)",
    "ctx.echo({})",
)  # fmt: skip


def wrap_in_try(line: str) -> str:
    body = "".join(f"    {row}\n" for row in line.splitlines())
    return f"try:\n{body}except BaseException as error:\n    seen = error"


async def program(
    session: Session, *lines: str, kind: str = "async def", limits: Limits = LIMITS
) -> RunResult:
    with anyio.fail_after(60):
        result = await session.program(source=source_of(*lines, kind=kind), limits=limits)
    check(session, result)
    return result


pytestmark = pytest.mark.anyio
ONE_LOOP = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
EVERY = pytest.mark.parametrize("every", [12, pytest.param(1, marks=pytest.mark.slow)])
"""Of a long list of values, each twelfth, from another start for each test, or all."""


@ONE_LOOP
@pytest.mark.sample(8)
@pytest.mark.parametrize("length", AROUND["name"])
@pytest.mark.parametrize("character", CHARACTERS)
async def test_unknown_tool_name_of_any_form_is_an_ordinary_error(
    session: Session, character: str, length: int
) -> None:
    name = f"{character} * {length}"
    surrogate = "ud800" in character
    result = await program(session, f"return await ctx.call({name}, {{}})")
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.code == ("not_json" if surrogate else "tool_error")
    if not surrogate:
        assert "there is no tool" in result.error.message
        assert [call.error_code for call in result.calls] == ["unknown_tool"]
    for kind in ("async def", "def"):
        line = f"return getattr(ctx, {name})()"
        other = await program(session, line.replace("return", "x ="), kind=kind)
        assert other.error is not None
        assert other.error.type == ("RefusedError" if "_" in character else "UnknownToolError")
        keyword = await program(session, wrap_in_try(f"x = ctx.echo(**{{{name}: 1}})"), kind=kind)
        assert keyword.status == "completed", keyword.error


@ONE_LOOP
@EVERY
@pytest.mark.parametrize("wait", WAITS)
async def test_sleeping_for_any_duration_causes_no_violation(
    session: Session, wait: str, every: int
) -> None:
    kind = "def" if wait.startswith("time.") else "async def"
    for time in TIMES[WAITS.index(wait) % every :: every]:
        limits = replace(LIMITS, timeout_ms=150)
        await program(session, wrap_in_try(wait.format(time)), kind=kind, limits=limits)


@ONE_LOOP
@EVERY
@pytest.mark.parametrize("say", SAYS)
async def test_printing_or_logging_any_text_causes_no_violation(
    session: Session, say: str, every: int
) -> None:
    for character in CHARACTERS[SAYS.index(say) % every :: every]:
        texts = [f"{character} * {length}" for length in AROUND["print"]]
        await program(session, *[wrap_in_try(say.replace("{}", text)) for text in texts])
    await program(session, *[wrap_in_try(say.replace("{}", odd)) for odd in ODD_VALUES])


@ONE_LOOP
@EVERY
@pytest.mark.parametrize("fail", FAILS)
async def test_raising_any_error_causes_no_violation(
    session: Session, fail: str, every: int
) -> None:
    texts = [f"{c} * {n}" for c in CHARACTERS for n in (MAX_NAME + 1, MAX_MESSAGE + 1)]
    tried = (*texts, "'a' * 2_000_000", *ODD_VALUES, "Loud(ctx)")
    # Another part of the list for each error.
    for text in tried[FAILS.index(fail) % every :: every]:
        result = await program(session, fail.format(text, text))
        assert result.status != "completed" or "ensure_future" in fail or "echo" in fail


@ONE_LOOP
@EVERY
@pytest.mark.parametrize("use", ["return {}", "ctx.emit({})", "return await ctx.echo({})"])
async def test_using_any_value_causes_no_violation(session: Session, use: str, every: int) -> None:
    values = [f"{c} * {n}" for c in CHARACTERS for n in AROUND["inline"]]
    values += [f"nested({n})" for n in AROUND["depth"]] + [f"keyed({n})" for n in AROUND["depth"]]
    values += [*ODD_VALUES, "Loud(ctx)", "[Loud(ctx)]", "{'k': Node(Loud(ctx))}"]
    for value in values[len(use) % every :: every]:
        await program(session, use.format(value))


@ONE_LOOP
@pytest.mark.parametrize("levels", AROUND["depth"])
async def test_worker_stops_at_the_same_nesting_depth_as_the_host(
    session: Session, levels: int
) -> None:
    # Regression: 201 to 253 levels were sent, and the host took them for an attack.
    fits = levels <= MAX_DEPTH
    for build in ("nested", "keyed"):
        result = await program(session, f"return {build}({levels})")
        assert result.status == "completed", (build, result.error)
        assert [warning.code for warning in result.warnings] == [] if fits else ["replaced"]
        emitted = await program(session, f"ctx.emit({build}({levels}))")
        assert len(emitted.partial) == 1
        assert bool(emitted.warnings) != fits
        passed = await program(session, f"return await ctx.echo({build}({levels - 2}))")
        assert (len(passed.calls) == 1) == (levels - 1 <= MAX_DEPTH)


@ONE_LOOP
async def test_code_running_after_the_result_has_no_effect(session: Session) -> None:
    """A generator that is thrown away runs its `finally`, an error nobody saw is reported."""
    lines = (
        "def late():\n    try:\n        yield 1\n    finally:\n"
        "        print('late')\n        ctx.emit('late')\n        ctx.echo('late')",
        "async def fail():\n    raise ValueError('late')",
        "kept = [late() for _ in range(50)]\n[next(each) for each in kept]",
        "globals_ = inputs\ninputs['kept'] = kept",
        "inputs['task'] = asyncio.ensure_future(fail())\nawait asyncio.sleep(0)",
        "circle = [late()]\nnext(circle[0])\ncircle.append(circle)",
    )
    for end in ("return 1", "raise ValueError('x')", "return [0] * 300_000", "return [object()]"):
        for _ in range(10):
            result = await program(session, *lines, end)
            assert result.status in {"completed", "failed"}


@ONE_LOOP
async def test_finalizers_during_a_call_cause_no_violation(session: Session) -> None:
    # A collection comes at any moment, and code of the script with it.
    source = """
def late(ctx, n):
    try:
        yield n
    finally:
        print("late", n)
        ctx.emit([n])

async def run(ctx, inputs):
    done = 0
    for n in range(400):
        circle = [late(ctx, n)]
        next(circle[0])
        circle.append(circle)
        done += await ctx.echo(n)
    return done
"""
    limits = Limits(timeout_ms=20_000, max_tool_calls=500)
    result = await session.program(source=source, limits=limits)
    check(session, result)
    assert result.value == sum(range(400)), result.error


@pytest.mark.slow
@ONE_LOOP
async def test_counts_over_their_limits_cause_no_violation(session: Session) -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("for n in range(300):\n    ctx.echo(n)", {"max_tool_calls": 10}),
        ("for n in range(300):\n    ctx.echo(n).cancel()", {"max_tool_calls": 10}),
        ("for n in range(300):\n    c = ctx.echo(n)\n    c.cancel()\n    c.cancel()", {}),
        ("for n in range(300):\n    ctx.emit(n)", {"max_emits": 10}),
        ("for n in range(300):\n    print(n)", {"max_messages": 10}),
        ("await asyncio.gather(*[asyncio.sleep(1e-9 * n) for n in range(3000)])", {}),
        ("await asyncio.gather(*[ctx.nap(n % 7) for n in range(150)])", {}),
        ("ctx.echo(**{f'k{n}': n for n in range(50_000)})", {}),
        ("ctx.echo(**{'k' * n: n for n in range(1_000)})", {}),
        ("ctx.echo(*range(100))", {}),
    ]
    for body, limits in cases:
        with anyio.fail_after(60):
            result = await session.program(
                source=source_of(wrap_in_try(body)), limits=Limits(timeout_ms=5_000, **limits)
            )
        check(session, result)


@ONE_LOOP
async def test_findings_of_any_length_reject_the_script(session: Session) -> None:
    name = "n" * 3_000
    bad = "\n".join(f"    import {name}{n}" for n in range(40))
    for source in (
        f"def run(ctx, inputs):\n{bad}\n",
        "def run(ctx, inputs):\n" + "    x.__globals__ + open\n" * 3_000,
        "def run(ctx, inputs):\n    return '" + "\U0001f600" * 20_000 + "'.__class__.__mro__\n",
        "def run(ctx, inputs):\n    x = '\\ud800'; x.__globals__\n",
        "def " + "f" * 60_000 + "(: pass",
    ):
        result = await session.program(source=source)
        check(session, result)
        assert result.status == "rejected", result.error
        assert 1 <= len(result.error.findings if result.error else ()) <= 100
        check(session, await session.program(source=source))


def test_every_worker_frame_kind_is_covered_by_these_tests() -> None:
    # A kind or a bound that is new has to be thought of here.
    from_worker = {kind for kind in Kind if kind >= Kind.READY}
    assert from_worker == {
        Kind.READY, Kind.COMPILED, Kind.REJECTED, Kind.CALL, Kind.CANCEL, Kind.PRINT, Kind.EMIT,
        Kind.TIMER, Kind.WARN, Kind.POLLED, Kind.DONE, Kind.FAILED, Kind.CHECKED, Kind.PONG,
        Kind.FRAMES, Kind.PART, Kind.ADVISED, Kind.PIECE, Kind.ATTACH, Kind.PROGRESS,
        Kind.REQUEST_TOOLS,
    }  # fmt: skip
    lower = {kind for kind in Kind if FROM_WORKER[kind] != MAX_BODY[kind]}
    assert lower == {Kind.CALL, Kind.EMIT, Kind.DONE}


# --- by chance -----------------------------------------------------------------------------------

texts = st.builds(
    "{} * {}".format,
    st.sampled_from(CHARACTERS),
    st.sampled_from(
        [0, 1, *AROUND["name"], *AROUND["print"], *AROUND["message"], *AROUND["inline"]]
    ),
)
odd = st.one_of(
    texts,
    st.sampled_from(ODD_VALUES),
    st.builds("nested({})".format, st.sampled_from(AROUND["depth"])),
    st.builds("[0] * {}".format, st.integers(0, 70_000)),
)
lines = st.one_of(
    st.builds("await ctx.call({}, {{'value': {}}})".format, texts, odd),
    st.builds("ctx.call({}, {})".format, odd, odd),
    st.builds("await ctx.echo(**{{{}: {}}})".format, texts, odd),
    st.builds("await getattr(ctx, {})({})".format, texts, odd),
    st.builds("ctx.emit({})".format, odd),
    st.builds("ctx.echo({}).cancel()".format, odd),
    st.builds(lambda say, text: say.replace("{}", text), st.sampled_from(SAYS), odd),
    st.builds(
        lambda wait, time: wait.format(time),
        st.sampled_from(WAITS[1:]),
        st.sampled_from([time for time in TIMES if "e9" not in time and "inf" not in time]),
    ),
)
last = st.one_of(
    st.builds("return {}".format, odd),
    st.builds(lambda fail, text: fail.format(text, text), st.sampled_from(FAILS), odd),
)


@pytest.fixture(scope="module")
def blocking(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("root")
    with BlockingSession(root, tools=[echo, nap], toolsets=(), workers=2, limits=LIMITS) as opened:
        yield opened


@pytest.mark.parametrize("examples", [5, pytest.param(150, marks=pytest.mark.slow)])
def test_no_legal_script_causes_a_violation(blocking: BlockingSession, examples: int) -> None:
    @given(st.lists(lines, max_size=4), last)
    @settings(max_examples=examples, deadline=None)
    def run(steps: list[str], end: str) -> None:
        check(blocking, blocking.program(source=source_of(*map(wrap_in_try, steps), end)))

    run()
