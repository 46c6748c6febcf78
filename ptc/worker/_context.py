"""`ctx`: a script's only access to the outside.

Each tool is a method. In `async def run` a call is a promise: it starts at once and is awaited
for its value. In plain `def run` it blocks and returns the value. Nothing here is secret or
enforces a rule: the host decides.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from .._wire._messages import IN_PARTS, MAX_NAME
from .._wire._protocol import MAX_BODY, Kind
from ..errors import ToolError
from . import _values, _writer
from ._attach import Attacher
from ._budget import Budget
from ._byte_values import ByteValues
from ._classes import open_type
from ._clock import Clock
from ._convert import Converter, NonFinite, Note
from ._internals import frame_back, frame_code, frame_lineno
from ._modules._console import LOG
from ._record import records
from ._threads import THREADS
from ._tool_table import BY_NAME, ToolTable, list_names
from ._types import tool_type
from ._values import shorten
from ._wire import Wire
from ._writer import PartWriter

__all__ = ["Calls", "Context", "PendingCall"]

_LARGE_BYTES = MAX_BODY[Kind.CALL]
"""Size of text in arguments that every limit rejects: it is not even written as JSON."""


_WARNING_CHARS, _PATH_CHARS = 600, 300


class PendingCall(asyncio.Future[Any]):
    """A tool call in progress. Awaiting it returns the value; any other use raises `TypeError`."""

    __module__ = "builtins"  # reprs and errors show it

    # A script holds it, and cannot reach attributes with such names.
    def __init__(self, name: str, line: int | None, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._tool = name
        self._line = line
        self._awaited = False
        self._withdraw: Callable[[], None] | None = None

    def __await__(self) -> Any:
        self._awaited = True
        return super().__await__()

    def add_done_callback(self, *args: Any, **options: Any) -> None:
        """As asyncio's; a callback receives the value, so the call counts as awaited."""
        self._awaited = True
        super().add_done_callback(*args, **options)

    def cancel(self, msg: Any | None = None) -> bool:
        """As asyncio's; the host is requested to cancel the tool."""
        cancelled = super().cancel(msg)
        if cancelled and self._withdraw is not None:
            self._withdraw()
        return cancelled

    def __repr__(self) -> str:
        return f"<call of {self._tool}, not awaited>"

    def _missing_await(self, *_: object) -> NoReturn:
        msg = f"ctx.{self._tool}(...) was not awaited; write `await ctx.{self._tool}(...)`"
        raise TypeError(msg)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        self._missing_await()

    __getitem__ = __iter__ = __len__ = __bool__ = __contains__ = __str__ = _missing_await
    __format__ = __add__ = __radd__ = __lt__ = __gt__ = __le__ = __ge__ = _missing_await


class Calls:
    """The calls of one run: numbers them, sends them and delivers their results."""

    def __init__(
        self, wire: Wire, clock: Clock, filename: str, budget: Budget, non_finite: NonFinite
    ) -> None:
        self._wire = wire
        self._non_finite: NonFinite = non_finite
        self._clock = clock
        self.budget = budget
        self.files = Attacher(wire, budget)
        self.byte_values = ByteValues(self.files.attach)
        self._filename = filename
        self._numbers = itertools.count(1)
        self._pending: dict[int, PendingCall] = {}
        self._blocking: dict[int, Any] = {}  # answers, or None, of calls that block a thread
        self._made: list[PendingCall] = []

    @property
    def pending(self) -> bool:
        """True while the host owes a result."""
        return bool(self._pending or self._blocking)

    def find_unawaited(self, loop: asyncio.AbstractEventLoop) -> list[PendingCall]:
        """Return the calls of a loop that were never awaited."""
        return [call for call in self._made if not call._awaited and call.get_loop() is loop]

    def warn_unawaited(self, calls: Sequence[PendingCall]) -> None:
        """Add a warning with tools and lines of calls."""
        names = ", ".join(f"ctx.{call._tool} (line {call._line})" for call in calls[:10])
        text = f"{len(calls)} tool call(s) never awaited, but executed: {names}"
        self.warn(Note("not_awaited", text, ""), calls[0]._line or 0)

    def make(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call a tool: return a `PendingCall` if a loop runs, otherwise the value."""
        if len(name) > MAX_NAME:
            # No tool has such a name: the host rejects it as any unknown one.
            name = f"{name[:200]}… ({len(name):,} characters)"
        line = self._line()
        where = b"null" if line is None else b"%d" % line
        values = dict(arguments)
        label = _values.dumps(name, "name")
        number = next(self._numbers)

        def frame(body: bytes) -> bytes:
            return b"[%d,%s,%s,%s]" % (number, label, body, where)

        converter = Converter(name, strict=True)
        body = self._write(values, converter)
        if body is not None:
            self._wire.queue(Kind.CALL, frame(body))
        else:
            most, writer = self.budget.limit("max_argument_bytes"), PartWriter(values, converter)
            self._wire.queue_in_parts(
                Kind.CALL, _parts_up_to(most, writer), lambda: frame(_size_body(most, writer.size))
            )
        self.budget.count_call(name)
        loop = asyncio._get_running_loop()
        if loop is None:
            return self._wait(number, name)
        call = PendingCall(name, line, loop)
        call._withdraw = lambda: self._withdraw(number)
        self._pending[number] = call
        self._made.append(call)
        return call

    def _write(self, arguments: dict[str, Any], converter: Converter) -> bytes | None:
        """Write the arguments for the frame of a call; return None if they are sent in parts.

        Arguments over their limit become their size, by which the host rejects the call.
        """
        body = _writer.write_scalars(arguments)
        if body is None:
            size = sum(len(value) for value in arguments.values() if type(value) is str)
            if size > _LARGE_BYTES:
                return b"%d" % size
            body = _writer.write(arguments, converter)
        most = self.budget.limit("max_argument_bytes")
        return body if body is None or len(body) <= most else b"%d" % len(body)

    def deliver(self) -> None:
        """Read one frame and act on it."""
        kind, body = self._wire.receive()
        row = _values.loads(body)
        if kind is Kind.TICK:
            self._advance(row[0])
            return
        number, elapsed, ok, as_records, value = row
        self._advance(elapsed)
        if number in self._blocking:
            self._blocking[number] = row
            return
        call = self._pending.pop(number, None)
        if call is None:
            return
        if ok:
            if not call.done():
                call.set_result(records(value) if as_records else value)
            return
        error = _tool_error(value)
        self.budget.refund_call(call._tool, error)
        if not call.done():
            call.set_exception(error)

    def emit(self, value: Any) -> None:
        """Send a partial value."""
        converter = Converter("emit", non_finite=self._non_finite, attach=self.byte_values.handle)
        body, size = _writer.write(value, converter), 0
        if body is not None:
            self._wire.queue(Kind.EMIT, body)
            size = len(body)
        else:
            parts = PartWriter(value, converter)
            self._wire.queue_in_parts(Kind.EMIT, parts, lambda: IN_PARTS)
            size = parts.size
        for note in converter.notes():
            self.warn(note, self._line() or 0)
        self._wire.flush()
        self.budget.count_emit(size)

    def warn(self, note: Note, line: int) -> None:
        """Report a problem that does not stop the script.

        Args:
            note: The problem.
            line: Line of the script; 0: unknown.
        """
        message = shorten(note.message, _WARNING_CHARS)
        row = [note.code, message, shorten(note.path, _PATH_CHARS), line]
        self._wire.queue(Kind.WARN, _values.dumps(row, "warning"))

    def sleep(self, seconds: float) -> None:
        """Sleep in a plain `def run`, blocking until the host reports the time."""
        # The argument may be of a script's class with arithmetic of its own.
        wait = float(seconds)
        if wait != wait:
            msg = "Invalid value NaN (not a number)"
            raise ValueError(msg)
        THREADS.sleep(wait)

    def _wait(self, number: int, name: str) -> Any:
        """Block the running thread until a call is answered; return its value."""
        answers = self._blocking
        answers[number] = None
        try:
            if THREADS.alone:
                while answers[number] is None:
                    self.deliver()
            else:
                THREADS.wait(lambda: answers[number] is not None, None, f"ctx.{name}")
        finally:
            row: Any = answers.pop(number)
        _, _, ok, as_records, value = row
        if not ok:
            error = _tool_error(value)
            self.budget.refund_call(name, error)
            raise error
        return records(value) if as_records else value

    def _withdraw(self, number: int) -> None:
        if self._pending.pop(number, None) is not None:
            self._wire.queue(Kind.CANCEL, b"[%d]" % number)

    def _advance(self, elapsed: float) -> None:
        if elapsed > self._clock.elapsed:
            self._clock.elapsed = elapsed

    def _line(self) -> int | None:
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None and frame_code(frame).co_filename != self._filename:
            frame = frame_back(frame)
        return frame_lineno(frame) if frame is not None else None


def _parts_up_to(most: int, writer: PartWriter) -> Iterator[bytes]:
    """Yield the parts of arguments up to `most` bytes in total; further parts are only counted."""
    for part in writer:
        if writer.size <= most:
            yield part
        elif writer.size > _LARGE_BYTES:
            return


def _size_body(most: int, size: int) -> bytes:
    return b"null" if size <= most else b"%d" % size


def _tool_error(row: Mapping[str, Any]) -> ToolError:
    return ToolError(
        row["message"],
        code=row["code"],
        tool=row["tool"],
        retryable=row["retryable"],
        details=row["details"],
    )


class UnknownToolError(ToolError, AttributeError):
    """Raised by ``ctx.name`` if the run has no such tool: ``except ToolError`` catches it, too."""

    __module__ = "builtins"  # reprs and errors show it


_Make: TypeAlias = Callable[[str, Mapping[str, Any]], Any]


@tool_type
class _ToolMethod:
    """``ctx.name``: takes positional and keyword arguments, or one dict of them."""

    __module__ = "builtins"  # reprs and errors show it

    __slots__ = ("_make", "_name", "_parameters")

    def __init__(self, make: _Make, name: str, parameters: tuple[str, ...]) -> None:
        self._make = make
        self._name = name
        self._parameters = parameters

    @property
    def __name__(self) -> str:
        return self._name

    @property
    def __doc__(self) -> str:  # type: ignore[override]  # each tool has its own text
        return f"{self!r}; `await ctx.describe({self._name!r})` returns its description"

    def __call__(self, *args: Any, **arguments: Any) -> Any:
        if args:
            arguments = self._bind(args, arguments)
        return self._make(self._name, arguments)

    def _bind(self, args: tuple[Any, ...], given: dict[str, Any]) -> dict[str, Any]:
        names = self._parameters
        only = args[0] if len(args) == 1 and not given else None
        # Models often pass one dict of arguments: accepted if its keys are parameters.
        if type(only) is dict and only and set(only) <= set(names):
            return dict(only)
        if len(args) > len(names):
            msg = f"{self._name} takes at most {len(names)} arguments: {', '.join(names)}"
            raise TypeError(msg)
        for name, value in zip(names, args, strict=False):
            if name in given:
                msg = f"{self._name} got two values for argument {name!r}"
                raise TypeError(msg)
            given[name] = value
        return given

    def __repr__(self) -> str:
        return f"<tool {self._name}({', '.join(self._parameters)})>"


class _Methods:
    """Tools as methods, each made when it is first used."""

    __slots__ = ("_made", "_make", "table")

    def __init__(self, make: _Make, table: ToolTable) -> None:
        self._make = make
        self._made: dict[str, _ToolMethod] = {}
        self.table = table

    def find(self, name: str) -> Any:
        """Return the tool `name` as a method; None if there is no such tool."""
        method = self._made.get(name)
        if method is None:
            parameters = self.table.parameters(name)
            if parameters is None:
                return None
            method = self._made[name] = _ToolMethod(self._make, name, parameters)
        return method


@open_type
class Context:
    """The script's `ctx`. Tools are its methods; no attribute can be set.

    Its slots hold functions and data alone, so that reading them by other means than their names
    gives a script nothing new (tests/worker/test_reachability.py).
    """

    __module__ = "builtins"  # reprs and errors show it

    __slots__ = ("_attach", "_emit", "_make", "_methods", "_progress", "_remaining")

    def __init__(self, calls: Calls, tools: ToolTable) -> None:
        set_slot = object.__setattr__
        set_slot(self, "_make", calls.make)
        set_slot(self, "_emit", calls.emit)
        set_slot(self, "_attach", calls.files.attach)
        set_slot(self, "_progress", calls.files.report)
        set_slot(self, "_remaining", calls.budget.remaining)
        set_slot(self, "_methods", _Methods(calls.make, tools))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = "ctx cannot be changed"
        raise AttributeError(msg)

    def __getattr__(self, name: str) -> Any:
        methods: _Methods = object.__getattribute__(self, "_methods")
        method = methods.find(name)
        if method is not None:
            return method
        if methods.table.has_namespace(name):
            return _Namespace(name, methods)
        close = methods.table.close_to(name)
        near = f"; did you mean {close}?" if close else ""
        msg = (
            f"no tool {name!r} is allowed in this run (allowed: {list_names(methods.table)}){near}"
        )
        raise UnknownToolError(msg, code="unknown_tool", tool=name)

    @property
    def tools(self) -> Context:
        """The same tools: ``ctx.tools.name(...)``."""
        return self

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, **other: Any) -> Any:
        """Call a tool by name, with its arguments in one dict."""
        if not isinstance(name, str):
            msg = f"ctx.call takes a tool's name, not {type(name).__name__}"
            raise TypeError(msg)
        if other or (arguments is not None and not isinstance(arguments, Mapping)):
            msg = f"ctx.call({name!r}, ...) takes a dict of arguments: {BY_NAME}"
            raise TypeError(msg)
        return self._make(str.__str__(name), arguments or {})

    def search_tools(self, query: str, limit: int = 10) -> Any:
        """Return the tools that match some words: a list of ``{name, summary}``."""
        return self._make("search_tools", {"query": query, "limit": limit})

    def describe(self, name: str) -> Any:
        """Return the typed stub of one tool."""
        return self._make("describe", {"name": name})

    def emit(self, value: Any) -> None:
        """Add a partial value to the result of the run, which has it even if the run fails."""
        self._emit(value)

    def attach(self, name: str, data: Any, media_type: str | None = None) -> Any:
        """Attach a file to the result of the run, which has it even if the run fails.

        Args:
            name: Its name, such as ``"chart.png"``.
            data: Bytes or text.
            media_type: For example ``"image/png"``. Default: by the end of the name.

        Returns:
            Its name, media_type, size_bytes and id, which may be part of the returned value.
        """
        return self._attach(name, data, media_type)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress to the caller: ``ctx.progress(3, 10, "reading")``."""
        self._progress(done, total, message)

    @property
    def budget(self) -> Any:
        """Remaining limits of the run: ``tool_calls``, ``calls_by_tool``, ``time_ms`` ..."""
        return self._remaining()

    def log(self, *parts: Any) -> None:
        """Write a line to the run's log: to `RunResult.stderr`, and at once to its subscribers."""
        LOG.write(" ".join(str(part) for part in parts) + "\n")

    def __repr__(self) -> str:
        return f"<ctx: {', '.join(self._methods.table)}>"

    def __dir__(self) -> list[str]:
        own = ["attach", "budget", "call", "describe", "emit", "log", "progress", "search_tools"]
        own.append("tools")
        tools = dict.fromkeys(name.partition(".")[0] for name in self._methods.table)
        return [*tools, *own]


@open_type
class _Namespace:
    """``ctx.github``: the tools with names that start with ``github.``."""

    __module__ = "builtins"  # reprs and errors show it

    __slots__ = ("_methods", "_name")
    _methods: _Methods
    _name: str

    def __init__(self, name: str, methods: _Methods) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_methods", methods)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = f"ctx.{self._name} cannot be changed"
        raise AttributeError(msg)

    def __getattr__(self, name: str) -> Any:
        method = self._methods.find(f"{self._name}.{name}")
        if method is None:
            listed = ", ".join(self.__dir__())
            full = f"{self._name}.{name}"
            msg = f"no tool {full!r} is allowed in this run (allowed: {listed})"
            raise UnknownToolError(msg, code="unknown_tool", tool=full)
        return method

    def __dir__(self) -> list[str]:
        prefix = f"{self._name}."
        names = self._methods.table
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def __repr__(self) -> str:
        return f"<tools of {self._name}: {', '.join(self.__dir__())}>"
