"""Handlers of the frames that a worker sends.

Each frame was parsed and is legal in the worker's state (`_protocol`). The handlers enforce the
rules of the run: limits, and that an answer was requested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from .._calls._recorder import DivergenceError
from .._records._result import Failure, RunWarning, Variables
from .._wire import _protocol
from .._wire._protocol import Kind, Output, ProtocolError
from ._clocks import Clocks
from ._code_cache import CachedCode, CodeCache
from ._intake import OverLimitError, ReturnValue
from ._opening import opening_frames_of_code, opening_frames_of_source
from ._outcome import Outcome
from ._program import Program
from ._report import build_rejection, check_schema, convert_failure, convert_finding
from ._script_calls import ScriptCalls
from ._signatures import encode_parameters, encode_signatures

__all__ = ["FrameHandler"]


class FrameHandler:
    """Applies the frames of a worker to its run."""

    def __init__(
        self,
        program: Program,
        outcome: Outcome,
        calls: ScriptCalls,
        clocks: Clocks,
        cache: CodeCache,
    ) -> None:
        """Handle the frames of one run; `cache` receives the compiled script."""
        self._program = program
        self._outcome = outcome
        self._calls = calls
        self._clocks = clocks
        self._cache = cache
        self._advice: tuple[_protocol.Finding, ...] = ()
        self._named = b""
        self._has_requested_tools = False
        self.polled: tuple[int, float] | None = None
        """Line at which the script was last seen to read its clock, and the seconds since the
        start."""
        self.on_places: Callable[[int], None] | None = None
        """Receives the line at which the script waits, after it was requested."""

    def open(self) -> tuple[tuple[Kind, bytes], ...]:
        """Return the first frames of the run; a script in the cache has been checked."""
        # The program may be sent again, to another worker.
        self._has_requested_tools = False
        cached = None
        if not self._program.only_check:
            cached = self._cache.get(self._program.source, self._program.table.digest)
        if cached is not None:
            self._warn(cached.advice)
            return opening_frames_of_code(self._program, cached)
        tools = self._program.table.named_in(self._program.source)
        self._named = encode_parameters(tools)
        return opening_frames_of_source(self._program, self._named, encode_signatures(tools))

    def _warn(self, advice: tuple[_protocol.Finding, ...]) -> None:
        for finding in advice:
            message = f"{finding.message}; {finding.hint}" if finding.hint else finding.message
            self._outcome.add_warning(RunWarning(finding.code, message, line=finding.line))

    def handle(self, kind: Kind, message: Any, size: int) -> None:
        """Handle a frame; frames that arrive after the run has finished are ignored.

        Raises:
            ProtocolError: If the frame violates the protocol.
        """
        if self._outcome.status is not None:
            return
        try:
            HANDLERS[kind](self, message, size)
        except OverLimitError as error:
            self._outcome.exceed(error.limit, error.used)
        except DivergenceError as error:
            hint = (
                "resume with the script and the tools that the run was made with, or run its "
                "script again (`ptc run`, or `Session.retry`)"
            )
            failure = Failure(code="divergence", message=str(error), hint=hint)
            self._outcome.finish("failed", failure)

    def handle_oversized(self, kind: Kind, size: int) -> None:
        """Finish the run: a value came in one frame that was too large to read."""
        error = self._outcome.intake.limit_error(kind, size)
        self._outcome.exceed(error.limit, error.used)

    def _on_compiled(self, code: bytes, _size: int) -> None:
        _require_request(Kind.COMPILED, not self._program.only_check)
        program = self._program
        cached = CachedCode(code, self._advice, self._named)
        self._cache.put(program.source, cached, program.table.digest)

    def _on_advised(self, advice: tuple[_protocol.Finding, ...], _size: int) -> None:
        _require_request(Kind.ADVISED, not self._program.only_check)
        self._advice = tuple(replace(finding, advisory=True) for finding in advice)
        self._warn(self._advice)

    def _on_rejected(self, findings: tuple[_protocol.Finding, ...], _size: int) -> None:
        self._outcome.finish("rejected", build_rejection(findings, self._program.source))

    def _on_checked(self, findings: tuple[_protocol.Finding, ...], _size: int) -> None:
        _require_request(Kind.CHECKED, self._program.only_check)
        rows = tuple(convert_finding(f, self._program.source) for f in findings)
        self._outcome.finish("completed", value=ReturnValue(0, rows))

    def _on_call(self, call: _protocol.Call | bytes, size: int) -> None:
        if isinstance(call, bytes):
            raise self._outcome.intake.limit_error(Kind.CALL, size)
        self._calls.add(call, size)

    def _on_cancel(self, number: int, _size: int) -> None:
        self._calls.cancel(number)

    def _on_part(self, part: bytes, _size: int) -> None:
        self._outcome.intake.take_part(part)

    def _on_printed(self, message: tuple[str, Output], _size: int) -> None:
        self._outcome.add_output(*message)

    def _on_emitted(self, body: Any, size: int) -> None:
        value = self._outcome.intake.take_emitted(body, size)
        self._outcome.events.emit("emitted", value=value)

    def _on_piece(self, piece: bytes, _size: int) -> None:
        self._outcome.files.take_piece(piece)

    def _on_attach(self, file: tuple[str, str], _size: int) -> None:
        self._outcome.files.finish_file(*file)

    def _on_progress(self, report: tuple[float, float | None, str], _size: int) -> None:
        self._outcome.report_progress(*report)

    def _on_warned(self, warning: _protocol.Warned, _size: int) -> None:
        found = RunWarning(warning.code, warning.message, warning.path, warning.line)
        self._outcome.add_warning(found)

    def _on_tools_requested(self, _message: object, _size: int) -> None:
        _require_request(Kind.REQUEST_TOOLS, not self._has_requested_tools)
        self._has_requested_tools = True
        if self._calls.worker is not None:
            self._calls.worker.send((Kind.TOOLS, self._program.table.parameters))

    def _on_timer(self, deadline: float, _size: int) -> None:
        if self._calls.replay is not None:
            self._calls.replay.timer = deadline
            self._calls.advance_replay()
            return
        self._clocks.wait_for(deadline)

    def _on_polled(self, message: tuple[int, int], _size: int) -> None:
        self.polled = message[0], self._clocks.elapsed

    def _on_pong(self, _message: object, _size: int) -> None:
        _require_request(Kind.PONG, self._calls.pinged)
        self._calls.receive_pong()

    def _on_variables(self, rows: Any, _size: int) -> None:
        if self.on_places is not None:
            receive, self.on_places = self.on_places, None
            receive(rows[-1][1] if rows else 0)
            return
        replay = self._calls.replay
        _require_request(Kind.FRAMES, replay is not None and replay.stopped)
        self._outcome.finish("paused", frames=tuple(Variables(*row) for row in rows))

    def _on_done(self, body: Any, size: int) -> None:
        if self._calls.replay is not None:
            self._calls.replay.require_end("returned")
        value = self._outcome.intake.take_return(body, size)
        failure = self._calls.find_unmatched() or check_schema(self._program, value)
        self._outcome.finish("failed" if failure else "completed", failure, value=value)

    def _on_failed(self, failure: _protocol.Failure, _size: int) -> None:
        if self._calls.replay is not None:
            self._calls.replay.require_end("failed")
        self._outcome.finish(*convert_failure(failure, self._program))


def _require_request(kind: Kind, requested: bool) -> None:
    """Reject an unsolicited answer: it would be an outcome of the worker's own choosing."""
    if not requested:
        msg = f"{kind.name} was not requested"
        raise ProtocolError(msg)


HANDLERS: Final[dict[Kind, Callable[[FrameHandler, Any, int], None]]] = {
    Kind.COMPILED: FrameHandler._on_compiled,
    Kind.ADVISED: FrameHandler._on_advised,
    Kind.REJECTED: FrameHandler._on_rejected,
    Kind.CHECKED: FrameHandler._on_checked,
    Kind.CALL: FrameHandler._on_call,
    Kind.CANCEL: FrameHandler._on_cancel,
    Kind.PART: FrameHandler._on_part,
    Kind.PRINT: FrameHandler._on_printed,
    Kind.EMIT: FrameHandler._on_emitted,
    Kind.WARN: FrameHandler._on_warned,
    Kind.PIECE: FrameHandler._on_piece,
    Kind.ATTACH: FrameHandler._on_attach,
    Kind.PROGRESS: FrameHandler._on_progress,
    Kind.TIMER: FrameHandler._on_timer,
    Kind.POLLED: FrameHandler._on_polled,
    Kind.PONG: FrameHandler._on_pong,
    Kind.REQUEST_TOOLS: FrameHandler._on_tools_requested,
    Kind.FRAMES: FrameHandler._on_variables,
    Kind.DONE: FrameHandler._on_done,
    Kind.FAILED: FrameHandler._on_failed,
}
"""Handler of each frame that a worker may send to a run."""
