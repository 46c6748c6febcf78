"""One run of one script: compile, execute, run the event loop to completion, report.

`Runtime` is built once in the zygote and inherited by every worker. It keeps nothing between runs:
a worker serves one and exits. An idle worker rehearses first (`warm`, `_rehearsal`).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import marshal  # noqa: TID251  # writes the code of the dummy script, for its own frame
import mmap
import random
import types
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final

from .._dataclass import dataclass
from .._language._compiler import RETURN_PLACE, TOP_LEVEL_VALUE, compile_script
from .._wire._messages import (
    IN_PARTS,
    MAX_PRINT,
    Output,
)
from .._wire._protocol import Kind
from ..errors import ToolError
from . import _values
from ._budget import Budget
from ._clock import Clock
from ._context import Calls, Context
from ._convert import Converter, NonFinite, Note
from ._failures import failure_body, is_success, minimal_failure, script_variables
from ._guards import script_builtins, script_globals
from ._identity import restart_numbers
from ._inspect import answer, waiting_places
from ._internals import code_of
from ._load import load_code
from ._loop import LOOPS, ScriptLoop
from ._modules import build_modules
from ._modules._warnings import script_place, warn_forgotten
from ._packages import Packages
from ._rehearsal import WARM_CALLS, WARM_START, WARM_SYNTAX, Prompter
from ._threads import THREADS
from ._tool_table import SignatureTable, ToolTable
from ._wire import Wire, timer_body
from ._writer import PartWriter, write

__all__ = ["Runtime"]

_FILENAME = "\ud800script"
"""File name of compiled code. A lone surrogate cannot be a path: CPython opens the file of a
SyntaxError to quote from it, which the system call filter would report as an attack."""
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

    def report_place(self, _signal: int, _frame: object) -> None:
        """Send the lines that execute to the host; the handler of its signal.

        A script that computes reads no frame, so the host cannot ask it in any other way.
        """
        try:
            if self._wire is not None:
                self._wire.send(Kind.FRAMES, answer(_FILENAME, b"[1]"))
        except BaseException:  # noqa: BLE001, S110  # must not reach the script; the line is lost
            pass

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
        self._clock.restart()
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
        self._clock.restart(epoch)
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
        self._tools = ToolTable({}, self._request_tools)
        self._exiting: set[object] = set()
        """Loops of which a task exited: their calls and tasks are being finished."""
        self._place: list[Any] | None = None

    def execute(self, body: bytes, begin: Callable[[], None]) -> None:
        """Serve the run that the START frame `body` starts. It always sends a closing frame.

        `begin` is called right before the first line of the script.
        """
        try:
            start = _values.loads(body)
            self._tools = ToolTable(start["tools"], self._request_tools)
            check = start.get("check")
            denied = start.get("denied", {})
            signatures = None if check is None else SignatureTable(self._tools, check, denied)
            code = load_code(self._wire, _FILENAME, signatures, start.get("then", ""))
            if code is None:
                return
            budget = Budget(start["limits"], self._clock)
            non_finite = start.get("non_finite", "null")
            calls = Calls(self._wire, self._clock, _FILENAME, budget, non_finite)
            self._wire.inspect = partial(answer, _FILENAME)
            kit = self._runtime.take_kit()
            self._start_loops(kit.loop, calls)

            def run_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Any:
                return self._run_coroutine(coroutine, calls)

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
            try:
                value = _call(code, kit.namespace, context, start["inputs"], run_coroutine)
            except SystemExit as stop:
                if not is_success(stop):
                    raise
                value = kit.namespace.get(TOP_LEVEL_VALUE)
            finally:
                self._place = _place_of_value(kit.namespace)
            self._finish(kit.loop, calls)
            warn_forgotten(kit.namespace)
            self._send_result(value, calls, non_finite)
        except BaseException as error:  # noqa: BLE001  # the script's: every one is reported
            if isinstance(error, MemoryError):
                self._runtime.drop_ballast()
            self._send_failure(error)

    def _request_tools(self) -> bytes | None:
        return self._wire.request(Kind.REQUEST_TOOLS, Kind.TOOLS)

    def _send_result(self, value: Any, calls: Calls, non_finite: NonFinite) -> None:
        """Send the script's return value, with a warning for each part that was replaced."""
        converter = Converter("result", non_finite=non_finite, attach=calls.byte_values.handle)

        def report(body: bytes) -> bytes:
            line = self._place[0] if self._place is not None else 0
            for note in converter.notes():
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

    def _start_loops(self, main: ScriptLoop, calls: Calls) -> None:
        """Connect the event loop and the threads to this run."""
        most = calls.budget.limit("max_tasks")

        def request_timer(deadline: float) -> None:
            self._wire.queue(Kind.TIMER, timer_body(deadline))

        def connect(loop: ScriptLoop) -> ScriptLoop:
            loop.attach(most)
            # A closure, since a script that reads attributes of its task would find those of a
            # `partial`, and behind `calls` the socket.
            loop.set_exception_handler(lambda _, context: calls.warn(_unhandled_note(context), 0))
            return loop

        def report_readings(number: int) -> None:
            self._wire.send(Kind.POLLED, b"[%d,%d]" % (script_place()[0], number))

        self._clock.report = report_readings
        THREADS.attach(
            self._clock,
            calls.deliver,
            lambda: calls.pending,
            request_timer,
            script_place,
            partial(waiting_places, _FILENAME),
            most,
        )
        LOOPS.start(connect(main), lambda: connect(ScriptLoop(self._clock)))

    def _run_coroutine(self, coroutine: Coroutine[Any, Any, Any], calls: Calls) -> Any:
        loop = LOOPS.get_event_loop()
        try:
            return loop.run_until_complete(self._main(coroutine, calls))
        except SystemExit:
            self._finish_tasks(loop, calls)
            raise

    def _finish(self, loop: ScriptLoop, calls: Calls) -> None:
        """Wait for the threads of a script, and for tasks that a plain `def run` left behind."""
        THREADS.finish()
        if calls.find_unawaited(loop) or asyncio.all_tasks(loop):  # type: ignore[arg-type]  # has what asyncio calls
            self._finish_tasks(loop, calls)

    def _finish_tasks(self, loop: ScriptLoop, calls: Calls) -> None:
        """Finish calls and tasks of a loop that runs no more, for example after a `SystemExit`."""
        self._exiting.add(loop)
        finishing = loop.create_task(self._finish_calls(calls))
        while not finishing.done():
            # A task may exit once more: because it waited for the first one, or is cancelled.
            with contextlib.suppress(SystemExit):
                loop.run_until_complete(finishing)
        self._exiting.discard(loop)

    async def _main(self, coroutine: Coroutine[Any, Any, Any], calls: Calls) -> Any:
        try:
            return await coroutine
        finally:
            if asyncio.get_running_loop() not in self._exiting:
                await self._finish_calls(calls)

    async def _finish_calls(self, calls: Calls) -> None:
        """Wait for calls that were never awaited, then cancel other tasks, as asyncio.run does."""
        loop = asyncio.get_running_loop()
        forgotten = calls.find_unawaited(loop)
        if forgotten:
            calls.warn_unawaited(forgotten)
            await asyncio.wait(forgotten)
        me = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not me]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _send_failure(self, error: BaseException) -> None:
        try:
            for variables in script_variables(error, _FILENAME):
                warn_forgotten(variables)
            body = failure_body(error, _FILENAME, self._tools, self._place)
        except BaseException:  # noqa: BLE001  # no memory for it, or code of the script that fails
            gc.collect()
            body = minimal_failure(error)
        self._wire.close(Kind.FAILED, body)


def _unhandled_note(context: dict[str, Any]) -> Note:
    error = context.get("exception")
    detail = f": {type(error).__name__}: {error}" if error is not None else ""
    return Note("task_failed", f"{context.get('message', 'unhandled error')}{detail}", "")


def _call(
    code: types.CodeType,
    namespace: dict[str, Any],
    context: Context,
    inputs: dict[str, Any],
    run_coroutine: Callable[[Coroutine[Any, Any, Any]], Any],
) -> Any:
    """Execute the script, its `run` or its top-level code, and return its value."""
    # Found like builtins, so that `globals()` has the script's own names only.
    namespace["__builtins__"] |= {"ctx": context, "inputs": inputs}
    value = eval(code, namespace)  # noqa: S307  # the policy's own code object: this is the job
    if isinstance(value, types.CoroutineType):
        # A top-level script with `await`.
        return run_coroutine(_await_value(value, lambda: namespace[TOP_LEVEL_VALUE]))
    if TOP_LEVEL_VALUE in namespace:
        value = namespace[TOP_LEVEL_VALUE]
    else:
        function = namespace["run"]
        positional, named = _arguments(function, context, inputs)
        value = function(*positional, **named)
    return run_coroutine(_await_value(value)) if _is_awaitable(value) else value


async def _await_value(awaitable: Awaitable[Any], read: Callable[[], Any] | None = None) -> Any:
    """Await a script, and the future or coroutine that it returned without an `await`.

    Args:
        awaitable: The script, or its value.
        read: Returns the value after that. None: it is the result of `awaitable`.
    """
    value = await awaitable
    if read is not None:
        value = read()
    return await value if _is_awaitable(value) else value


def _is_awaitable(value: object) -> bool:
    """True for a coroutine, and for a future of the run's own event loop."""
    # By type: the ABC inspects each type once, 40 us and eight pages in a worker.
    kind = type(value)
    if issubclass(kind, asyncio.Future):
        loop: object = _loop_of(value)
        return loop is LOOPS.main
    return kind is types.CoroutineType


_loop_of: Final = asyncio.Future.__dict__["get_loop"]
"""Of a future; a script may have overridden its method."""


def _place_of_value(namespace: dict[str, Any]) -> list[Any] | None:
    """Return the position of the value as a row of `Failure` frames."""
    place = namespace.get(RETURN_PLACE)
    if place is None:
        return None
    return [*place, "<module>" if TOP_LEVEL_VALUE in namespace else "run"]


def _arguments(
    function: object, context: Context, inputs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that the script's `run` takes: `ctx`, `inputs`, both or none."""
    both = (context, inputs)
    if not isinstance(function, types.FunctionType):
        return both, {}
    code = code_of(function)
    if code.co_flags & inspect.CO_VARARGS:
        return both, {}
    count = code.co_argcount
    # `def run(inputs)` reads the global `ctx`.
    ordered = both[::-1] if count and code.co_varnames[0] == "inputs" else both
    only = code.co_varnames[count : count + code.co_kwonlyargcount]
    values = {"ctx": context, "inputs": inputs}
    return ordered[:count], {name: values[name] for name in only if name in values}
