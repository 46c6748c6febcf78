"""One run of one script: compile, execute, drive to the end, report.

`Runtime` is built once in the zygote and inherited by every worker. It keeps nothing between runs:
a worker serves one and dies. A worker with time rehearses first: dummies on the real path (`warm`)
take its copy-on-write faults before a user waits for them.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import marshal  # noqa: TID251  # reads code that a worker made of the same source; see `_program`
import mmap
import random
import types
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Any

from .._language._compiler import TOP_LEVEL_VALUE, ScriptRejected, compile_script
from .._records._limits import Limits
from .._wire._messages import (
    IN_PARTS,
    MAX_FINDINGS,
    MAX_FRAMES,
    MAX_MESSAGE,
    MAX_NAME,
    MAX_PRINT,
    Finding,
    Output,
)
from .._wire._protocol import MAX_BODY, Kind, encode
from ..errors import ToolError
from . import _values
from ._budget import Budget, LimitError
from ._clock import Clock
from ._context import Calls, Context
from ._guards import script_builtins, script_globals
from ._identity import restart_numbers
from ._inspect import frames
from ._internals import code_of, frame_code, traceback_frame
from ._loop import ScriptLoop
from ._modules import build_modules
from ._packages import Packages
from ._preflight import Signature, preflight
from ._values import shown
from ._wire import Wire
from ._writer import PartWriter, write

__all__ = ["Runtime"]

_FILENAME = "\ud800script"
"""What compiled code calls its file. A lone surrogate has no form as a path: CPython opens the
file of a SyntaxError to quote from it, which the filter would take for an attack."""
_WARNING_CHARS = 600
_FINDING_CHARS = 800
"""A hundred findings with hints of that length, of characters that JSON escapes, fit a frame."""
_GROUPS = 4
"""Groups in groups whose members are told."""
_BARE_FAILURE = (
    b'{"type":"","message":"the script failed, and how cannot be told","frames":[],"code":"%b",'
    b'"tool":"","hint":""}'
)
_BALLAST_BYTES = 8 << 20
"""Address space let go when memory has run out, so that the report can still be made. CPython takes
1 MiB at a time for small objects, and orjson does not survive a refused allocation."""
_RUNS = 2
"""Runs of a worker: one dummy and one that counts."""


@dataclass(frozen=True, slots=True)
class _Kit:
    """What one run uses up, made in the zygote.

    Making it in a worker would copy 500 KB of pages, for the sake of reference counts alone.
    """

    namespace: dict[str, Any]
    loop: ScriptLoop


class Runtime:
    """All that a script's run needs and that no run changes."""

    def __init__(self, packages: Iterable[str] = ()) -> None:
        """Import all that scripts may.

        Raises:
            PackageError: If one of `packages` cannot be imported.
        """
        self._clock = Clock()
        self._random = random.Random(0)  # noqa: S311  # a script's, seeded for every run
        modules = build_modules(self._clock, self._random)
        self._packages = Packages(packages, self._random)
        self._modules = {**modules, **self._packages.modules}
        self._wire: Wire | None = None
        self._budget: Budget | None = None
        self._builtins = script_builtins(extra={"ToolError": ToolError}, write=self._print)
        # Untouched, so it takes no memory. It is part of the zygote's own address space, which a
        # script's limit comes on top of.
        self._ballast = mmap.mmap(-1, _BALLAST_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._kits: list[_Kit] = []
        self._warm_calls = b""

    def prepare(self, times: int = 1) -> None:
        """Called in the zygote: compile the dummies, run them, make what workers will use up."""
        code = compile_script(_WARM_CALLS.decode(), _FILENAME).code
        self._warm_calls = marshal.dumps(code)
        for _ in range(times):
            self._dummy(Kind.SOURCE, _WARM_SYNTAX)
            self.warm()
        self._kits = [self._make_kit() for _ in range(_RUNS)]

    def warm(self) -> None:
        """Called in a worker: run the dummies on the real path."""
        self._dummy(Kind.CODE, self._warm_calls)

    def _dummy(self, kind: Kind, program: bytes) -> None:
        wire = Wire(
            _Prompter(
                (Kind.START, _WARM_START),
                (kind, program),
                (Kind.RESULT, b'[1,0.5,true,true,[{"a":1}]]'),
            )
        )
        self._run(wire, wire.receive(spin=False)[1], _begin_counting_anew)

    def take_kit(self) -> _Kit:
        """What one run uses up."""
        return self._kits.pop() if self._kits else self._make_kit()

    def _make_kit(self) -> _Kit:
        namespace: dict[str, Any] = script_globals(dict(self._builtins), self._modules)
        return _Kit(namespace, ScriptLoop(self._clock))

    def drop_ballast(self) -> None:
        """Memory has run out: make room for the report."""
        self._ballast.close()

    def serve(self, wire: Wire) -> None:
        """Serve one run on `wire`: read START and the program, answer DONE, FAILED or REJECTED."""
        try:
            kind, body = wire.receive(spin=False)
            while kind is Kind.REHEARSE:
                self.warm()
                kind, body = wire.receive(spin=False)
        except MemoryError:  # the inputs, as they came
            self.drop_ballast()
            wire.send(Kind.FAILED, _BARE_FAILURE % b"memory")
            return
        self._run(wire, body, _begin_anew)

    def _run(self, wire: Wire, start: bytes, begin: Callable[[], None]) -> None:
        self._wire = wire
        self._clock.elapsed = 0.0
        _Run(self, wire, self._clock).execute(start, begin)

    def reset(
        self,
        epoch: float,
        seed: int,
        sleep: Callable[[float], None],
        drive: Callable[[Coroutine[Any, Any, Any]], Any],
        budget: Budget,
    ) -> None:
        """Set the logical clock, the random numbers and the counts for a run."""
        self._budget = budget
        self._clock.epoch = epoch
        self._clock.elapsed = 0.0
        self._clock.sleep = sleep
        self._clock.drive = drive
        self._random.seed(seed)
        self._packages.seed(seed)

    def _print(self, text: str, output: Output) -> None:
        """What scripts print, in messages to the host."""
        wire, budget = self._wire, self._budget
        assert wire is not None and budget is not None  # noqa: S101, PT018  # inside `serve` only
        for start in range(0, len(text), MAX_PRINT):
            part = text[start : start + MAX_PRINT]
            if len(part) > _SHORT_CHARS:
                _values.require_room(8 * MAX_PRINT)
            wire.send(Kind.PRINT, _values.dumps([part, int(output)], "print"))
            budget.printed(part)


_SHORT_CHARS = 1_024
"""Text that is written without asking whether there is memory."""
_WARM_START = b'{"inputs":{},"tools":{"t":["x"]},"limits":%b,"epoch":0,"seed":0}' % (
    _values.dumps(asdict(Limits()), "limits")
)
_WARM_CALLS = b"""
import asyncio, json
async def run(ctx, inputs):
    a = ctx.t(x=1)
    (b,) = await asyncio.gather(a)
    print(len(b))
    return {"n": [r.a for r in b], "i": inputs}
"""
_WARM_SYNTAX = b"""
import json
from collections import Counter

class Row:
    def __init__(self, name, size=0):
        self.name, self._size = name, size

    @property
    def size(self):
        return self._size

def heavy(rows, *, least=1):
    for row in rows:
        if row.size >= least and not row.name.startswith("."):
            yield row

def run(ctx, inputs):
    total, names = 0, {}
    try:
        for n, r in enumerate(ctx.t(1)):
            row = Row(f"row {n:>3}", -r["a"] + 2)
            total += row.size
            names[row.name] = names.get(row.name, 0) + 1
    except (KeyError, ValueError) as error:
        print("no", error)
    while total > 10:
        total -= 1
    ranked = sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))
    kinds = Counter(name[:3] for name, _ in ranked)
    with_all = [*ranked, (None, 1)] if total is not None else []
    return {"n": with_all[:3], "kinds": {k: v for k, v in kinds.items()}, "text": json.dumps(names)}
"""


def _begin_anew() -> None:
    """Leave no trace of a rehearsal or a compilation in what a script can see."""
    restart_numbers()
    _begin_counting_anew()


def _begin_counting_anew() -> None:
    """Make when the collector comes a matter of what the script does from here on.

    Frozen objects do not count for that; a collection, with nothing left to look at, empties the
    lists of objects that CPython keeps for the next of their kind, which are made without being
    counted. 80 us where no rehearsal did it before.
    """
    gc.freeze()
    gc.collect()


class _Prompter:
    """The socket of a rehearsal: a host that says its part and hears nothing.

    A real one could not be made any more: the filter is on.
    """

    def __init__(self, *frames: tuple[Kind, bytes]) -> None:
        self._frames = [encode(*frame) for frame in reversed(frames)]

    def recv(self, _size: int, _flags: int = 0, /) -> bytes:
        """The next frame; ``b""`` when all has been said."""
        return self._frames.pop() if self._frames else b""

    def sendall(self, data: bytes, /) -> None:
        """Hear nothing."""


class _Run:
    """One script from START to its last frame."""

    def __init__(self, runtime: Runtime, wire: Wire, clock: Clock) -> None:
        self._runtime = runtime
        self._wire = wire
        self._clock = clock
        self._tools: Mapping[str, Any] = {}
        self._check: Mapping[str, Any] | None = None

    def execute(self, body: bytes, begin: Callable[[], None]) -> None:
        """Serve the run that the START frame `body` begins. It always ends with a closing frame.

        `begin` is called when all is ready for the first line of the script.
        """
        try:
            start = _values.loads(body)
            self._tools, self._check = start["tools"], start.get("check")
            code = self._program()
            if code is None:
                return
            budget = Budget(start["limits"], self._clock)
            calls = Calls(self._wire, self._clock, _FILENAME, budget)
            self._wire.inspect = partial(frames, _FILENAME)
            kit = self._runtime.take_kit()

            def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
                return self._drive(coroutine, kit.loop, calls)

            self._runtime.reset(start["epoch"], start["seed"], calls.sleep, drive, budget)
            context = Context(calls, self._tools)
            begin()
            value = _call(code, kit.namespace, context, start["inputs"], drive)
            self._answer(value)
        except BaseException as error:  # noqa: BLE001  # the script's: every one is reported
            if isinstance(error, MemoryError):
                self._runtime.drop_ballast()
            self._fail(error)

    def _answer(self, value: Any) -> None:
        """Send what the script returned."""
        try:
            body = write(value, "result")
        except MemoryError:
            # Nothing but the result needs memory now.
            self._runtime.drop_ballast()
            body = write(value, "result")
        if body is not None:
            self._wire.close(Kind.DONE, body)
            return
        self._runtime.drop_ballast()
        self._wire.queue_in_parts(Kind.DONE, PartWriter(value, "result"), lambda: IN_PARTS)

    def _program(self) -> types.CodeType | None:
        """Code of the script; None if it was refused and that has been said.

        Compiled code comes back from the host only for the very source it was made of, and was
        sent there before the first line of that source ran, so a run cannot change what another
        script executes.
        """
        code: types.CodeType
        kind, body = self._wire.receive()
        if kind is Kind.CODE:
            code = marshal.loads(body)  # noqa: S302  # see above
            return code
        source = body.decode()
        try:
            # The host has measured the source already, against a limit of the caller's.
            compiled = compile_script(source, _FILENAME, max_bytes=MAX_BODY[Kind.SOURCE])
        except ScriptRejected as rejected:
            self._wire.close(Kind.REJECTED, _rows(rejected.findings))
            return None
        if self._check is not None:
            signatures = {
                name: Signature(tuple(row[0]), frozenset(row[1]), bool(row[2]))
                for name, row in self._check.items()
            }
            self._wire.close(Kind.CHECKED, _rows(preflight(source, signatures)))
            return None
        code = compiled.code
        data = marshal.dumps(code)
        if len(data) > MAX_BODY[Kind.COMPILED]:
            message = f"compiled, the script has {len(data):,} bytes: more than can be sent"
            finding = Finding("too_complex", message, 0, 0, 0, 0, "pass data as inputs")
            self._wire.close(Kind.REJECTED, _rows([finding]))
            return None
        self._wire.send(Kind.COMPILED, data)
        return code

    def _drive(self, coroutine: Coroutine[Any, Any, Any], loop: ScriptLoop, calls: Calls) -> Any:
        most = calls.budget.limit("max_tasks")
        loop.attach(self._wire, calls.deliver, lambda: calls.pending, most)
        loop.set_exception_handler(self._unhandled)
        return loop.run_until_complete(self._main(coroutine, calls))

    async def _main(self, coroutine: Coroutine[Any, Any, Any], calls: Calls) -> Any:
        try:
            return await coroutine
        finally:
            await self._settle(calls)

    async def _settle(self, calls: Calls) -> None:
        """Wait for calls nobody awaited, then cancel the tasks that are left, as asyncio.run."""
        forgotten = calls.unobserved()
        if forgotten:
            names = ", ".join(f"ctx.{c.tool} (line {c.line})" for c in forgotten[:10])
            text = f"{len(forgotten)} tool call(s) never awaited, executed all the same: {names}"
            self._warn(text)
            await asyncio.wait(forgotten)
        me = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not me]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _unhandled(self, _loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        detail = f": {type(error).__name__}: {error}" if error is not None else ""
        self._warn(f"{context.get('message', 'unhandled error')}{detail}")

    def _warn(self, text: str) -> None:
        self._wire.queue(Kind.WARN, _values.dumps([shown(text, _WARNING_CHARS)], "warning"))

    def _fail(self, error: BaseException) -> None:
        try:
            body = self._failure(error)
        except BaseException:  # noqa: BLE001  # no memory for it, or code of the script that fails
            gc.collect()
            body = _BARE_FAILURE % _kind_of(error).encode()
        self._wire.close(Kind.FAILED, body)

    def _failure(self, error: BaseException) -> bytes:
        leaf = _leaf(error)
        row = {
            "type": shown(type(leaf).__name__, MAX_NAME),
            "message": shown(_text_of(leaf), MAX_MESSAGE),
            "frames": self._frames(error) or self._frames(leaf),
            "code": _code_of(leaf),
            "tool": shown(leaf.tool, MAX_NAME) if isinstance(leaf, ToolError) else "",
            "hint": shown(self._hint(leaf), MAX_MESSAGE),
        }
        return _values.dumps(row, "error")

    def _frames(self, error: BaseException) -> list[list[Any]]:
        rows: list[list[Any]] = []
        trace = error.__traceback__
        while trace is not None:
            code = frame_code(traceback_frame(trace))
            if code.co_filename == _FILENAME:
                rows.append(_position(trace, code))
                if len(rows) > 2 * MAX_FRAMES:
                    del rows[MAX_FRAMES]
            trace = trace.tb_next
        return (
            rows if len(rows) <= MAX_FRAMES else rows[: MAX_FRAMES // 2] + rows[-MAX_FRAMES // 2 :]
        )

    def _hint(self, error: BaseException) -> str:
        if isinstance(error, NameError) and error.name in self._tools:
            return f"tools are methods of ctx: ctx.{error.name}(...)"
        if isinstance(error, ToolError) and error.code == "limit_exceeded":
            return "catch ToolError and return what the script has, or ask for a higher limit"
        if isinstance(error, LimitError):
            return f"do less at a time, or ask for a higher {error.limit}"
        if isinstance(error, MemoryError):
            return "hold less data at a time, or ask for a higher limits.max_memory_bytes"
        return ""


def _call(
    code: types.CodeType,
    namespace: dict[str, Any],
    context: Context,
    inputs: dict[str, Any],
    drive: Callable[[Coroutine[Any, Any, Any]], Any],
) -> Any:
    """Execute the script: its `run`, or, of a bare script, its lines; give the value."""
    namespace["ctx"], namespace["inputs"] = context, inputs
    value = eval(code, namespace)  # noqa: S307  # the policy's own code object: this is the job
    if isinstance(value, types.CoroutineType):
        # A bare script with `await` at the top level.
        drive(value)
    if TOP_LEVEL_VALUE in namespace:
        value = namespace[TOP_LEVEL_VALUE]
    else:
        function = namespace["run"]
        given = (context, inputs)
        if isinstance(function, types.FunctionType):
            given = given[: _positional(function)]  # type: ignore[assignment]  # 0 to 2 of them
        value = function(*given)
    # The type itself: the abstract class asks every type once, 40 us and eight pages in a worker.
    return drive(value) if isinstance(value, types.CoroutineType) else value


def _rows(findings: Iterable[Finding]) -> bytes:
    rows = [
        {
            "code": f.code,
            "message": shown(f.message, _FINDING_CHARS),
            "line": max(0, f.line),
            "column": max(0, f.column),
            "end_line": max(0, f.end_line),
            "end_column": max(0, f.end_column),
            "hint": shown(f.hint, _FINDING_CHARS),
            "advisory": f.advisory,
        }
        for f in islice(findings, MAX_FINDINGS)
    ]
    return _values.dumps(rows, "findings")


def _positional(function: types.FunctionType) -> int:
    code = code_of(function)
    return 2 if code.co_flags & inspect.CO_VARARGS else min(2, code.co_argcount)


def _position(trace: types.TracebackType, code: types.CodeType) -> list[Any]:
    positions = list(code.co_positions())
    index = trace.tb_lasti // 2
    line, end_line, column, end_column = (
        positions[index] if 0 <= index < len(positions) else (None, None, None, None)
    )
    line = trace.tb_lineno or line or 0
    name = shown(code.co_qualname, 200)
    return [
        line,
        end_line or line,
        0 if column is None else column + 1,
        0 if end_column is None else end_column + 1,
        name,
    ]


def _leaf(error: BaseException) -> BaseException:
    """The error inside a group of one, which is what a TaskGroup makes of a single failure."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _text_of(error: BaseException, level: int = 0) -> str:
    if isinstance(error, BaseExceptionGroup) and level < _GROUPS:
        inner = "; ".join(
            f"{type(e).__name__}: {_text_of(e, level + 1)}"[:500] for e in error.exceptions[:5]
        )
        return f"{error.message}: {inner}"
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # a __str__ of the script that raises
        return "(its message cannot be shown)"


_LIMITS = {
    "max_tool_calls",
    "max_calls_by_tool",
    "max_executions_per_run",
    "max_tasks",
    "max_output_bytes",
    "max_emit_bytes",
}
_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (ToolError, "tool_error"),
    (MemoryError, "memory"),
    (RecursionError, "recursion"),
    (_values.ValueRefused, "not_json"),
)


def _code_of(error: BaseException) -> str:
    limit: object = error.limit if isinstance(error, LimitError) else None
    # A script raises these, too, with whatever it likes in them.
    if isinstance(error, ToolError) and isinstance(error.details, dict):
        limit = error.details.get("limit") if error.code == "limit_exceeded" else None
    if isinstance(limit, str) and limit in _LIMITS:
        return f"limit_{limit}"
    return _kind_of(error)


def _kind_of(error: BaseException) -> str:
    for kind, code in _CODES:
        if issubclass(type(error), kind):
            return code
    return "exception"
