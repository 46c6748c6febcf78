"""The final answer of a conversation with an agent: a tool that accepts one answer by schema.

It knows no framework of agents and no model: the owner of the conversation passes the calls and
the texts in, and passes the feedback on.

Rule 1: one answer is accepted; a second call is an error and changes nothing
(test_second_call_is_an_error_and_the_first_answer_stays).
Rule 2: the answer conforms, and every value that conforms is an answer, also ``0``, ``""`` and
null (test_falsy_answer_survives).
Rule 3: a model is asked again a bounded number of times (test_reminders_are_bounded_...).
Rule 4: no answer is final while a call awaits approval
(test_answer_is_not_final_while_a_call_awaits_approval).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from .._generation._tool import FAILURES, to_tool_error
from .._tools._names import validate_name
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ..errors import GenerationError, PtcError, ToolError, TruncatedError, UsageError
from ..structured import Accepted, Again, Attempt, Contract, GaveUp, Repair, RepairLoop, Violation
from ..structured._loop import contains_value
from ..structured._recover import recover_wrapped

__all__ = ["Accepted", "Again", "FinalAnswer"]

_DESCRIPTION = (
    "Finish with the final answer as the arguments. Call it exactly once, when nothing is left to "
    "do; after an error, call it again with a corrected answer."
)


class FinalAnswer:
    """The one answer of a conversation that must conform to a schema.

    For a loop of your own around a model::

        final = FinalAnswer(Report)
        while not final.done:
            turn = await ask(messages, tools=[*tools, final.tool])
            for call in turn.calls:
                if call.name == final.tool.name:
                    match final.take_call(call.arguments):
                        case Again(feedback):        # the result of the call
                            messages.append(feedback)
        report = final.typed

    Each method is synchronous and depends on the earlier ones only, so that a conversation that is
    resumed passes its recorded calls and texts in again.

    Attributes:
        attempts: Every answer in order, with its violations; the accepted one is the last.
        tool: The tool for the model. Calling it through a session calls `take_call`.
    """

    def __init__(
        self,
        schema: Any,
        *,
        max_repair_attempts: int = 2,
        max_reminders: int = 2,
        name: str = "response",
        description: str | None = None,
    ) -> None:
        """Expect an answer that conforms to `schema`.

        Args:
            schema: A JSON Schema, a pydantic model, any type, or a `ptc.structured.Contract`.
            max_repair_attempts: Times that an answer with violations is returned, 0 to 5.
            max_reminders: Times that a text without a value is returned, 0 to 5.
            name: Name of the tool.
            description: Description of the tool. Default: to call it once, with the answer.

        Raises:
            UsageError: If an argument is invalid, or no value conforms to `schema`.
        """
        self._name = validate_name(name)
        self._contract = schema if isinstance(schema, Contract) else Contract(schema, name=name)
        if (why := self._contract.why_impossible()) is not None:
            raise UsageError(why)
        if type(max_reminders) is not int or not 0 <= max_reminders <= 5:
            msg = f"max_reminders must be an integer from 0 to 5, not {max_reminders!r:.80}"
            raise UsageError(msg)
        self._contracts = self._contract, self._contract.outer()
        self._loop = RepairLoop(
            self._contract,
            max_repair_attempts=max_repair_attempts,
            wrapped=True,
            request=f"Call `{self._name}` again, with the complete corrected answer.",
        )
        self._reminders_left = max_reminders
        self._accepted: Accepted | None = None
        self._failure: PtcError | None = None
        self._held: set[str] = set()
        self.attempts: list[Attempt] = []
        self.tool: Tool = self._make_tool(_DESCRIPTION if description is None else description)

    @property
    def instructions(self) -> str:
        """Sentences for the system prompt of the model."""
        return (
            f"Finish by calling the tool `{self._name}` exactly once, with the final answer as its "
            "arguments. Do not write the answer as text."
        )

    @property
    def done(self) -> bool:
        """True if an answer was accepted and no call awaits approval: the conversation ends."""
        return self._accepted is not None and not self._held

    @property
    def value(self) -> Any:
        """The answer as plain JSON data.

        Raises:
            UsageError: If there is none yet, see `done`.
        """
        return self._final().value

    @property
    def typed(self) -> Any:
        """The answer as an instance of the requested type; plain data for a JSON Schema.

        Raises:
            UsageError: If there is none yet, see `done`.
        """
        return self._contract.typed(self._final().value)

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """Edits made to the answer without a model.

        Raises:
            UsageError: If there is none yet, see `done`.
        """
        return self._final().repairs

    def take_call(
        self, arguments: str | Mapping[str, Any], *, ended: bool = True
    ) -> Accepted | Again:
        """Take a call of the tool.

        Args:
            arguments: The arguments as the model wrote them, or parsed.
            ended: False if the model was stopped by its token limit.

        Returns:
            `Accepted`, or `Again` with the result of the call: an error, as text for the model.

        Raises:
            ToolError: ``already_finished`` for a call after the accepted one; text for the model.
            GenerationError: If the model may not be asked again. It has all attempts.
            TruncatedError: If the arguments are truncated and `ended` is False.
        """
        self._require_open()
        if isinstance(arguments, str):
            return self._take(arguments.strip() or "{}", ended)
        try:
            text = json.dumps(arguments, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"arguments of {self._name} must be JSON data: {error}"
            raise UsageError(msg) from None
        return self._take(text, ended)

    def take_text(self, text: str, *, ended: bool = True) -> Accepted | Again:
        """Take a last turn of the model that calls no tool: the answer may be in its text.

        Args:
            text: The text of the turn.
            ended: False if the model was stopped by its token limit.

        Returns:
            `Accepted`, or `Again` with the next message to the model.

        Raises:
            ToolError: As for `take_call`.
            GenerationError: As for `take_call`.
            TruncatedError: As for `take_call`.
        """
        self._require_open()
        if ended and not contains_value(text) and recover_wrapped(text, *self._contracts) is None:
            return self._remind(text, "the text contains no complete answer as JSON")
        return self._take(text, ended)

    def hold(self, call_id: str) -> None:
        """Note that a call awaits approval: no answer is final until it is released."""
        self._held.add(call_id)

    def release(self, call_id: str) -> None:
        """Note that the approval of a call was decided. An accepted answer stays."""
        self._held.discard(call_id)

    def _take(self, text: str, ended: bool) -> Accepted | Again:
        try:
            action = self._loop.take(text, ended=ended)
        except TruncatedError as error:
            error.attempts = tuple(self.attempts)
            self._failure = error
            raise
        self.attempts.append(self._loop.attempts[-1])
        if isinstance(action, Accepted):
            self._accepted = action
        if isinstance(action, GaveUp):
            self._give_up(action.reason)
        return action

    def _remind(self, text: str, problem: str) -> Again:
        self.attempts.append(Attempt(text, None, (), (Violation("", "json", problem),)))
        if not self._reminders_left:
            self._give_up("attempts")
        self._reminders_left -= 1
        return Again(
            f"There is no final answer yet: {problem}. Call the tool `{self._name}` now, exactly "
            "once, with the whole answer as its arguments."
        )

    def _require_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._accepted is not None:
            msg = "an answer was already accepted, and it stays the final one"
            raise ToolError(msg, code="already_finished", tool=self._name)

    def _give_up(self, reason: str) -> NoReturn:
        last = "; ".join(str(violation) for violation in self.attempts[-1].violations[:5])
        count = len(self.attempts)
        answers = "the answer does" if count == 1 else f"{count} answers do"
        again = " (the last two have the same violations)" if reason == "no_progress" else ""
        msg = f"{answers} not conform to the schema of {self._name}{again}: {last}"
        self._failure = GenerationError(msg, reason=reason, attempts=tuple(self.attempts))
        raise self._failure

    def _final(self) -> Accepted:
        if self._accepted is None:
            msg = f"there is no final answer: {self._name} was not called with one that conforms"
            raise UsageError(msg)
        if self._held:
            calls = ", ".join(sorted(self._held))
            msg = f"the answer is not final: {calls} awaits approval; release it once decided"
            raise UsageError(msg)
        return self._accepted

    def _make_tool(self, description: str) -> Tool:
        async def respond(arguments: dict[str, Any]) -> ToolResult:
            try:
                action = self.take_call(arguments)
            except FAILURES as error:
                raise to_tool_error(error) from error
            if isinstance(action, Again):
                raise ToolError(action.feedback, code="not_conforming", tool=self._name)
            return ToolResult.success(action.value, text="The answer was accepted.")

        schema = self._contract.schema
        return Tool(
            name=self._name,
            description=description,
            parameters=self._contract.object_schema(),
            function=respond,
            # `take_call` validates, so that a wrong call is repaired or gets feedback.
            validate=dict,
            result_schema=schema if isinstance(schema, dict) else None,
            spread=False,
        )
