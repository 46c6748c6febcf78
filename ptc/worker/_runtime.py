"""One run of one script: compile, execute, run the event loop to completion, report.

`Runtime` is built once in the zygote and inherited by every worker. It keeps nothing between runs:
a worker serves one and exits. An idle worker rehearses first (`warm`, `_rehearsal`).
"""

from __future__ import annotations

import ast
import asyncio
import gc
import inspect
import marshal  # noqa: TID251  # reads code that a worker compiled from the same source (`_load`)
import mmap
import opcode
import random
import types
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from .._language._compiler import TOP_LEVEL_VALUE, ScriptRejected, compile_script
from .._language._scopes import Survey
from .._wire._messages import (
    IN_PARTS,
    MAX_FINDINGS,
    MAX_PRINT,
    Finding,
    Output,
)
from .._wire._protocol import MAX_BODY, Kind
from ..errors import ToolError
from . import _values
from ._budget import Budget
from ._clock import Clock
from ._context import Calls, Context
from ._convert import Converter, NonFinite, Note
from ._failures import failure_body, minimal_failure
from ._guards import script_builtins, script_globals
from ._identity import restart_numbers
from ._inspect import frames
from ._internals import code_of
from ._loop import ScriptLoop
from ._modules import build_modules
from ._packages import Packages
from ._preflight import Row, preflight
from ._rehearsal import WARM_CALLS, WARM_START, WARM_SYNTAX, Prompter
from ._values import shorten
from ._wire import Wire
from ._writer import PartWriter, write

__all__ = ["Runtime"]

_FILENAME = "\ud800script"
"""File name of compiled code. A lone surrogate cannot be a path: CPython opens the file of a
SyntaxError to quote from it, which the system call filter would report as an attack."""
_FINDING_CHARS = 800
"""A hundred findings with hints of this length, of characters that JSON escapes, fit a frame."""
_BALLAST_BYTES = 8 << 20
"""Address space released when memory runs out, so that the report can still be written. CPython
allocates 1 MiB at a time for small objects, and orjson does not survive a refused allocation."""
_RUNS = 2
"""Runs of a worker: one rehearsal and one real run."""


@dataclass(frozen=True, slots=True)
class _Kit:
    """Objects that one run consumes, created in the zygote.

    Creating them in a worker would copy 500 KB of pages, only to change reference counts.
    """

    namespace: dict[str, Any]
    loop: ScriptLoop


class Runtime:
    """Everything that runs need and do not change."""

    def __init__(self, packages: Iterable[str] = ()) -> None:
        """Import every module that scripts may import.

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
        # Untouched, so it takes no memory. It counts as the zygote's own address space, to which
        # a script's limit is added.
        self._ballast = mmap.mmap(-1, _BALLAST_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._kits: list[_Kit] = []
        self._warm_calls = b""

    def prepare(self, times: int = 1) -> None:
        """Compile and run the dummy scripts, and create the workers' kits; called in the zygote."""
        code = compile_script(WARM_CALLS.decode(), _FILENAME).code
        self._warm_calls = marshal.dumps(code)
        for _ in range(times):
            self._run_dummy(Kind.SOURCE, WARM_SYNTAX)
            self.warm()
        self._kits = [self._make_kit() for _ in range(_RUNS)]

    def warm(self) -> None:
        """Run a dummy script on the real path; called in a worker."""
        self._run_dummy(Kind.CODE, self._warm_calls)

    def _run_dummy(self, kind: Kind, program: bytes) -> None:
        wire = Wire(
            Prompter(
                (Kind.START, WARM_START),
                (kind, program),
                (Kind.RESULT, b'[1,0.5,true,true,[{"a":1}]]'),
            )
        )
        self._run(wire, wire.receive(spin=False)[1], _restart_collector)

    def take_kit(self) -> _Kit:
        """Take the objects for one run."""
        return self._kits.pop() if self._kits else self._make_kit()

    def _make_kit(self) -> _Kit:
        namespace: dict[str, Any] = script_globals(dict(self._builtins), self._modules)
        return _Kit(namespace, ScriptLoop(self._clock))

    def drop_ballast(self) -> None:
        """Release address space for the report when memory has run out."""
        self._ballast.close()

    def serve(self, wire: Wire) -> None:
        """Serve one run on `wire`: read START and the script, answer DONE, FAILED or REJECTED."""
        try:
            kind, body = wire.receive(spin=False)
            while kind is Kind.REHEARSE:
                self.warm()
                kind, body = wire.receive(spin=False)
        except MemoryError:  # while receiving the inputs
            self.drop_ballast()
            wire.send(Kind.FAILED, minimal_failure(MemoryError()))
            return
        self._run(wire, body, _reset_visible_state)

    def _run(self, wire: Wire, start: bytes, begin: Callable[[], None]) -> None:
        self._wire = wire
        self._clock.elapsed = 0.0
        _Run(self, wire, self._clock).execute(start, begin)

    def reset(
        self,
        epoch: float,
        seed: int,
        sleep: Callable[[float], None],
        run_coroutine: Callable[[Coroutine[Any, Any, Any]], Any],
        budget: Budget,
        attach: Callable[[str, bytes], object],
    ) -> None:
        """Set the logical clock, the random seed, the budget and the attachments for a run."""
        self._budget = budget
        self._clock.epoch = epoch
        self._clock.elapsed = 0.0
        self._clock.sleep = sleep
        self._clock.run_coroutine = run_coroutine
        self._random.seed(seed)
        self._packages.seed(seed)
        if self._packages.charts is not None:
            self._packages.charts.attach = attach

    def _print(self, text: str, output: Output) -> None:
        """Send printed text to the host."""
        wire, budget = self._wire, self._budget
        assert wire is not None and budget is not None  # noqa: S101, PT018  # inside `serve` only
        for start in range(0, len(text), MAX_PRINT):
            part = text[start : start + MAX_PRINT]
            if len(part) > _SHORT_CHARS:
                _values.require_room(8 * MAX_PRINT)
            wire.send(Kind.PRINT, _values.dumps([part, int(output)], "print"))
            budget.count_text(part)


_SHORT_CHARS = 1_024
"""Characters of text that is written without checking for free memory."""


def _reset_visible_state() -> None:
    """Remove the traces of a rehearsal or a compilation that a script could see."""
    restart_numbers()
    _restart_collector()


def _restart_collector() -> None:
    """Make the times of garbage collections depend on the script alone.

    Frozen objects do not count towards the next collection. A collection, with nothing to visit,
    also empties CPython's free lists, from which objects are created without being counted. 80 us
    without a rehearsal before it.
    """
    gc.freeze()
    gc.collect()


class _Run:
    """One script from START to its last frame."""

    def __init__(self, runtime: Runtime, wire: Wire, clock: Clock) -> None:
        self._runtime = runtime
        self._wire = wire
        self._clock = clock
        self._tools: Mapping[str, Any] = {}
        self._check: Mapping[str, Row] | None = None
        self._then = ""

    def execute(self, body: bytes, begin: Callable[[], None]) -> None:
        """Serve the run that the START frame `body` starts. It always sends a closing frame.

        `begin` is called right before the first line of the script.
        """
        try:
            start = _values.loads(body)
            self._tools = start["tools"]
            self._check, self._then = start.get("check"), start.get("then", "")
            code = self._load()
            if code is None:
                return
            budget = Budget(start["limits"], self._clock)
            non_finite = start.get("non_finite", "null")
            calls = Calls(self._wire, self._clock, _FILENAME, budget, non_finite)
            self._wire.inspect = partial(frames, _FILENAME)
            kit = self._runtime.take_kit()

            def run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
                return self._run_coroutine(coroutine, kit.loop, calls)

            self._runtime.reset(
                start["epoch"],
                start["seed"],
                calls.sleep,
                run_coroutine,
                budget,
                calls.files.attach,
            )
            context = Context(calls, self._tools)
            begin()
            value = _call(code, kit.namespace, context, start["inputs"], run_coroutine)
            self._send_result(value, calls, non_finite, partial(_return_line, code, kit.namespace))
        except BaseException as error:  # noqa: BLE001  # the script's: every one is reported
            if isinstance(error, MemoryError):
                self._runtime.drop_ballast()
            self._send_failure(error)

    def _send_result(
        self, value: Any, calls: Calls, non_finite: NonFinite, find_line: Callable[[], int]
    ) -> None:
        """Send the script's return value; `find_line` returns the line that returned it."""
        converter = Converter("result", non_finite=non_finite, attach=calls.byte_values.handle)

        def report(body: bytes) -> bytes:
            if notes := converter.notes():
                line = find_line()
                for note in notes:
                    calls.warn(note, line)
            return body

        try:
            body = write(value, converter)
        except MemoryError:
            # Only the result needs memory now.
            self._runtime.drop_ballast()
            body = write(value, converter)
        if body is not None:
            self._wire.close(Kind.DONE, report(body))
            return
        self._runtime.drop_ballast()
        self._wire.queue_in_parts(Kind.DONE, PartWriter(value, converter), lambda: report(IN_PARTS))

    def _load(self) -> types.CodeType | None:
        """Return the code of the script; None if it was rejected or only checked, and reported.

        The host returns compiled code only for the same source, and received it before the first
        line of that source ran, so a run cannot change the code of another script.
        """
        code: types.CodeType
        kind, body = self._wire.receive()
        if kind is Kind.CODE:
            code = marshal.loads(body)  # noqa: S302  # see above
            return code
        source = body.decode()
        advice: list[Finding] = []
        inspector = partial(self._inspect, source, advice)
        try:
            # The host has already checked the source against the caller's limit.
            compiled = compile_script(
                source, _FILENAME, max_bytes=MAX_BODY[Kind.SOURCE], inspector=inspector
            )
        except ScriptRejected as rejected:
            findings = [*rejected.findings, *(advice if self._then == "report" else ())]
            findings.sort(key=lambda finding: (finding.line, finding.column))
            self._wire.close(Kind.REJECTED, _rows(findings))
            return None
        if self._then == "report":
            self._wire.close(Kind.CHECKED, _rows(advice))
            return None
        if advice:
            self._wire.queue(Kind.ADVISED, _rows(advice))
        code = compiled.code
        data = marshal.dumps(code)
        if len(data) > MAX_BODY[Kind.COMPILED]:
            most = MAX_BODY[Kind.COMPILED]
            message = f"the compiled script has {len(data):,} bytes; at most {most:,} can be sent"
            finding = Finding("too_complex", message, 0, 0, 0, 0, "pass data as inputs")
            self._wire.close(Kind.REJECTED, _rows([finding]))
            return None
        self._wire.send(Kind.COMPILED, data)
        return code

    def _inspect(
        self, source: str, advice: list[Finding], tree: ast.Module, survey: Survey
    ) -> list[Finding]:
        """Check the calls of tools: return the certain errors, and add the rest to `advice`."""
        if self._check is None:
            return []
        findings = preflight(tree, source, self._check, survey.read)
        if self._then != "report":
            # The run itself reports calls that were not awaited.
            findings = [finding for finding in findings if finding.code != "not_awaited"]
        if self._then == "warn":
            findings = [replace(finding, advisory=True) for finding in findings]
        advice += [finding for finding in findings if finding.advisory]
        return [finding for finding in findings if not finding.advisory]

    def _run_coroutine(
        self, coroutine: Coroutine[Any, Any, Any], loop: ScriptLoop, calls: Calls
    ) -> Any:
        most = calls.budget.limit("max_tasks")
        loop.attach(self._wire, calls.deliver, lambda: calls.pending, most)
        loop.set_exception_handler(partial(_report_unhandled, calls))
        return loop.run_until_complete(self._main(coroutine, calls))

    async def _main(self, coroutine: Coroutine[Any, Any, Any], calls: Calls) -> Any:
        try:
            return await coroutine
        finally:
            await self._finish_calls(calls)

    async def _finish_calls(self, calls: Calls) -> None:
        """Wait for calls that were never awaited, then cancel other tasks, as asyncio.run does."""
        forgotten = calls.find_unawaited()
        if forgotten:
            names = ", ".join(f"ctx.{c.tool} (line {c.line})" for c in forgotten[:10])
            text = f"{len(forgotten)} tool call(s) never awaited, but executed: {names}"
            calls.warn(Note("not_awaited", text, ""), forgotten[0].line or 0)
            await asyncio.wait(forgotten)
        me = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not me]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _send_failure(self, error: BaseException) -> None:
        try:
            body = failure_body(error, _FILENAME, self._tools)
        except BaseException:  # noqa: BLE001  # no memory for it, or code of the script that fails
            gc.collect()
            body = minimal_failure(error)
        self._wire.close(Kind.FAILED, body)


def _report_unhandled(calls: Calls, _loop: object, context: dict[str, Any]) -> None:
    error = context.get("exception")
    detail = f": {type(error).__name__}: {error}" if error is not None else ""
    message = f"{context.get('message', 'unhandled error')}{detail}"
    calls.warn(Note("task_failed", message, ""), 0)


def _return_line(code: types.CodeType, namespace: Mapping[str, Any]) -> int:
    """Return the line of the statement that returns the result; 0 if there are several."""
    if TOP_LEVEL_VALUE in namespace:
        lines = _lines_of(code, "STORE_NAME", TOP_LEVEL_VALUE)
    else:
        function = namespace.get("run")
        if type(function) is not types.FunctionType:
            return 0
        lines = _lines_of(code_of(function), "RETURN_VALUE")
    return lines.pop() if len(lines) == 1 else 0


def _lines_of(code: types.CodeType, operation: str, name: str | None = None) -> set[int]:
    """Return the lines of the instructions of one kind, with the argument `name` if it is given."""
    number, names = opcode.opmap[operation], code.co_names
    lines = set()
    for at, (start, *_) in enumerate(code.co_positions()):
        wanted = code.co_code[2 * at] == number
        if wanted and (name is None or names[code.co_code[2 * at + 1]] == name):
            lines.add(start or 0)
    return lines


def _call(
    code: types.CodeType,
    namespace: dict[str, Any],
    context: Context,
    inputs: dict[str, Any],
    run_coroutine: Callable[[Coroutine[Any, Any, Any]], Any],
) -> Any:
    """Execute the script, its `run` or its top-level code, and return its value."""
    namespace["ctx"], namespace["inputs"] = context, inputs
    value = eval(code, namespace)  # noqa: S307  # the policy's own code object: this is the job
    if isinstance(value, types.CoroutineType):
        # A top-level script with `await`.
        run_coroutine(value)
    if TOP_LEVEL_VALUE in namespace:
        value = namespace[TOP_LEVEL_VALUE]
    else:
        function = namespace["run"]
        given = (context, inputs)
        if isinstance(function, types.FunctionType):
            given = given[: _positional(function)]  # type: ignore[assignment]  # 0 to 2 of them
        value = function(*given)
    # The exact type: the ABC inspects each type once, 40 us and eight pages in a worker.
    return run_coroutine(value) if isinstance(value, types.CoroutineType) else value


def _rows(findings: Iterable[Finding]) -> bytes:
    rows = [
        {
            "code": f.code,
            "message": shorten(f.message, _FINDING_CHARS),
            "line": max(0, f.line),
            "column": max(0, f.column),
            "end_line": max(0, f.end_line),
            "end_column": max(0, f.end_column),
            "hint": shorten(f.hint, _FINDING_CHARS),
            "advisory": f.advisory,
        }
        for f in islice(findings, MAX_FINDINGS)
    ]
    return _values.dumps(rows, "findings")


def _positional(function: types.FunctionType) -> int:
    code = code_of(function)
    return 2 if code.co_flags & inspect.CO_VARARGS else min(2, code.co_argcount)
