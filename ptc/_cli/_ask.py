"""The question about a call that requires approval, asked on the terminal of the run.

The run is paused before the question is asked, so its request is durable: nothing is lost if the
answer never comes, and somebody else can decide meanwhile.

Rule 1: only an explicit answer decides. Enter, Ctrl-C, Ctrl-D and a closed terminal do not.
    tests/cli/test_ask.py::test_run_pauses_if_the_question_is_left
Rule 2: keys that were pressed before the question appeared are no answer.
    tests/cli/test_ask.py::test_keys_pressed_before_the_question_do_not_answer_it
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from .._core._clock import now_ms
from .._dataclass import dataclass
from ..errors import ToolError, UsageError
from ._pending_call import ARGUMENT_CHARS, describe_call

if TYPE_CHECKING:
    import anyio

    from .._records._result import PendingCall, RunResult
    from .._session._session import Session
    from ._terminal import Stream

__all__ = ["ApprovalDialog", "can_ask"]

_POLL_SECONDS = 1.0
"""Interval at which a question looks whether somebody else has decided."""

_Choice = Literal["approve", "edit", "reject", "later", "view"]
_CHOICES: dict[str, _Choice] = {
    "a": "approve",
    "e": "edit",
    "r": "reject",
    "l": "later",
    "v": "view",
}


class _LeftError(Exception):
    """Raised when the user leaves the question: Ctrl-C, Ctrl-D, or a closed terminal."""


class _DecidedError(Exception):
    """Raised when somebody else decides while the question is on the screen."""


@dataclass(slots=True)
class _Draft:
    """Arguments in the course of the dialog."""

    arguments: dict[str, Any] | None = None
    """Edited arguments; None: those requested."""


def can_ask() -> bool:
    """True if a person can read a question on standard error and answer on standard input."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


class ApprovalDialog:
    """Asks about the pending calls of one run of a session."""

    def __init__(self, session: Session, stream: Stream, by: str) -> None:
        """Prepare to ask.

        Args:
            session: Session of the run.
            stream: Terminal that shows the questions.
            by: Name of the decider, for the record.

        Raises:
            UsageError: If `by` is not a name.
        """
        from .._runs._decided import validate_decider

        self._session = session
        self._stream = stream
        self._by = validate_decider(by)
        self._tools = session.select_tools(session.tool_names())
        self._later: set[str] = set()
        self._left = False
        self._scope: anyio.CancelScope | None = None
        self._editing = False

    def interrupt(self) -> bool:
        """Leave the question, as on Ctrl-C. False if there is none."""
        if self._editing:
            return True  # the editor has the terminal, and handles its keys
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    async def ask(self, result: RunResult) -> bool:
        """Ask about the pending calls of a paused run.

        Returns:
            True if a call was decided, so that the run can be resumed.
        """
        decided = False
        for call in result.pending:
            if self._left or call.kind != "approval" or call.call in self._later:
                continue
            if call.tool in self._tools and await self._ask_about(call):
                decided = True
        return decided and not self._left

    async def _ask_about(self, call: PendingCall) -> bool:
        """Return True if the call is decided."""
        import anyio

        run = await self._session.history.run(call.run_id)
        self._stream.line()
        self._stream.line("Approval required:", "bold yellow")
        for line in describe_call(call, run.filename, run.source, now_ms()):
            self._stream.line(line)
        self._show_proposed(call)
        _drop_typed_ahead()
        answered = False
        try:
            with anyio.CancelScope() as scope:
                self._scope = scope
                answered = await self._converse(call)
            if scope.cancelled_caught:
                raise _LeftError
        except _DecidedError:
            self._stream.line("\nSomebody else has decided on this call.")
            return True
        except _LeftError:
            self._left = True
            self._stream.line("\nLater: nothing was decided about this call.")
        finally:
            self._scope = None
        if not answered:
            self._later.add(call.call)
        return answered

    async def _converse(self, call: PendingCall) -> bool:
        """Ask until the answer is a decision (True) or ``later`` (False)."""
        draft = _Draft()
        is_editable = self._is_editable(call)
        while True:
            choice = await self._choose(call, is_editable=is_editable)
            if choice == "later":
                return False
            if choice == "view":
                for line in describe_call(call, "", "", now_ms(), sys.maxsize)[2:]:
                    self._stream.line(line)
            elif choice == "edit":
                await self._edit(call, draft)
            elif choice == "approve":
                return await self._decide(call, draft.arguments)
            else:
                reason = await self._read(call, "Reason (the script receives it): ")
                return await self._reject(call, reason)

    async def _choose(self, call: PendingCall, *, is_editable: bool) -> _Choice:
        long = len(str(call.arguments)) > ARGUMENT_CHARS // 2
        names = ["[a]pprove", "[e]dit", "[r]eject", "[l]ater", "[v]iew all arguments"]
        if not is_editable:
            names.remove("[e]dit")
        if not long:
            names.pop()
        while True:
            answer = (await self._read(call, f"{', '.join(names)}? ")).strip().lower()
            for key, choice in _CHOICES.items():
                if answer in (key, choice) and (choice != "edit" or is_editable):
                    return choice
            if answer:
                self._stream.line(f"{answer[:40]!r} is not one of the choices.")

    def _is_editable(self, call: PendingCall) -> bool:
        from .._runs._whole_arguments import are_arguments_whole

        return are_arguments_whole(call, self._tools[call.tool])

    # --- edited arguments -------------------------------------------------------------------

    def _proposed(self, call: PendingCall) -> dict[str, Any]:
        """Return the values that the tool's author proposes for parameters."""
        names = self._tools[call.tool].parameter_names
        defaults = call.defaults if isinstance(call.defaults, dict) else {}
        return {name: value for name, value in defaults.items() if name in names}

    def _show_proposed(self, call: PendingCall) -> None:
        from ._pending_call import visible
        from ._terminal import pretty_json

        if proposed := self._proposed(call):
            self._stream.line("  values that the tool proposes, for [e]dit:")
            for line in visible(pretty_json(proposed)).splitlines():
                self._stream.line(f"    {line}")

    async def _edit(self, call: PendingCall, draft: _Draft) -> None:
        """Let the user edit the arguments, and show the valid result; they decide afterwards."""
        from ._inputs import parse_object
        from ._pending_call import visible
        from ._terminal import pretty_json

        start = draft.arguments or {**call.arguments, **self._proposed(call)}
        text = pretty_json(start) + "\n"
        while True:
            edited = await self._edit_text(call, text)
            if not edited.strip():
                self._stream.line("The arguments are unchanged.")
                return
            try:
                arguments = parse_object(edited, "the text")
                self._tools[call.tool].validate(arguments)
            except (UsageError, ToolError) as error:
                problem = error.message if isinstance(error, ToolError) else str(error)
                self._stream.line(f"The arguments are not valid: {problem}", "red")
                again = await self._read(call, "Press Enter to edit again, or k to keep the old: ")
                if again.strip().lower().startswith("k"):
                    return
                text = edited
                continue
            break
        draft.arguments = None if arguments == call.arguments else arguments
        self._stream.line("  arguments:")
        for line in visible(pretty_json(arguments)).splitlines():
            self._stream.line(f"    {line}")

    async def _edit_text(self, call: PendingCall, text: str) -> str:
        """Return the text as the user edited it: in their editor, or as one line."""
        from ._editor import edit_text, editor_command

        command = editor_command()
        if command is None:
            question = "Arguments as JSON in one line (Enter keeps them): "
            return await self._read(call, question)
        self._editing = True
        try:
            return await edit_text(command, text)
        except UsageError as error:
            self._stream.line(f"{error}", "red")
            return ""
        finally:
            self._editing = False

    # --- decisions --------------------------------------------------------------------------

    async def _decide(self, call: PendingCall, arguments: dict[str, Any] | None) -> bool:
        try:
            await self._session.history.approve(
                call.run_id, call.call, by=self._by, arguments=arguments
            )
        except UsageError as error:
            self._stream.line(str(error), "yellow")
        else:
            self._stream.line(f"Approved by {self._by}.", "green")
        return True

    async def _reject(self, call: PendingCall, reason: str) -> bool:
        try:
            await self._session.history.reject(call.run_id, call.call, by=self._by, comment=reason)
        except UsageError as error:
            self._stream.line(str(error), "yellow")
        else:
            self._stream.line(f"Rejected by {self._by}.", "yellow")
        return True

    # --- keyboard ---------------------------------------------------------------------------

    async def _read(self, call: PendingCall, question: str) -> str:
        """Return one line without its end.

        Raises:
            _LeftError: If the user ends the input, or the terminal is closed.
            _DecidedError: If somebody else decides on the call.
        """
        import anyio

        self._stream.write(question)
        # The terminal hands out whole lines. A thread in `readline` could not be interrupted.
        descriptor = sys.stdin.fileno()
        while True:
            with anyio.move_on_after(_POLL_SECONDS):
                await anyio.wait_readable(descriptor)
                break
            if not await self._is_pending(call):
                raise _DecidedError
        try:
            data = os.read(descriptor, 65_536)
        except OSError:  # the terminal is closed
            raise _LeftError from None
        if not data:
            raise _LeftError
        return data.decode(errors="replace").rstrip("\r\n")

    async def _is_pending(self, call: PendingCall) -> bool:
        name = (call.run_id, call.call)
        pending = await self._session.history.pending()
        return any((each.run_id, each.call) == name for each in pending)


def _drop_typed_ahead() -> None:
    try:
        import termios
    except ImportError:
        import msvcrt

        while msvcrt.kbhit():  # type: ignore[attr-defined]  # Windows
            msvcrt.getwch()  # type: ignore[attr-defined]  # Windows
        return
    with suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
