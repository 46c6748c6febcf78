"""Generate one structured answer: request, validate, repair, and stop.

This module chooses the mode and drives the loop. `ptc.structured` validates answers, and
`ptc.models` talks to providers.

Rule 1: the returned value conforms (test_what_is_returned_conforms_...).
Rule 2: truncated answers and lost connections do not use up repair attempts
(test_cut_answer_gets_more_room_..., test_lost_connection_...).
Rule 3: only ``auto`` falls back from a rejected mode to the next, reports it, and remembers it for
the session (test_refused_mode_...).
Rule 4: every failure carries the attempts and usage so far (test_every_failure_keeps_...).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, TypeVar

import anyio
import anyio.to_thread

from .._core._arguments import mapping_of, parts_of, require_function
from .._dataclass import dataclass
from .._telemetry._generation import GenerationSpan
from ..errors import (
    ElementsChangedError,
    GenerationError,
    ModelError,
    TruncatedError,
    UsageError,
)
from ..models._model import MODES, Mode, Model, ModelReply, ModelRequest, ModelUsage, Turn
from ..models._open import ModelSource, OpenModels
from ..models._refusals import Refusals
from ..models._usage import report_usage
from ..structured import Accepted, Attempt, Contract, GaveUp, Repair, RepairLoop, Violation
from ._conversation import Conversation
from ._interruptions import Interruptions
from ._partial_reporter import Collector, Listener, PartialReporter
from ._prompt import OpenStored, Prompt, read_prompt, require_files
from ._question import Examples, OnPartial, Question, Validator, read_examples

__all__ = ["Fallback", "Generated", "generate_object", "require_answer"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fallback:
    """A mode that could not be used, and the reason."""

    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True)
class Generated(Generic[T]):
    """An answer that conforms, with its history and usage."""

    object: T
    """The answer: an instance of the requested type, or plain JSON data for a JSON Schema."""
    value: Any
    """The answer as plain JSON data."""
    attempts: tuple[Attempt, ...]
    """Every answer in order, with its violations; the last is this answer."""
    repairs: tuple[Repair, ...]
    """Edits made to this answer without a model."""
    mode_used: Mode
    """The mode that produced the answer."""
    fallbacks: tuple[Fallback, ...]
    """Modes that could not be used, and why; only in mode ``auto``."""
    usage: ModelUsage
    """Usage of all attempts together."""

    @property
    def raw_texts(self) -> tuple[str, ...]:
        """The text of every attempt as the model wrote it."""
        return tuple(attempt.text for attempt in self.attempts)


async def generate_object(
    models: OpenModels,
    schema: Any,
    prompt: Prompt,
    *,
    schema_name: str = "result",
    schema_description: str | None = None,
    system: str | None = None,
    examples: Examples = (),
    context: Any = None,
    null_for_missing: bool = False,
    previous: Any = None,
    objections: Sequence[str] = (),
    mode: Literal["auto", "tool", "native", "prompt"] = "auto",
    max_repair_attempts: int = 2,
    validators: Sequence[Validator] = (),
    model: ModelSource | None = None,
    settings: Mapping[str, Any] | None = None,
    timeout_ms: int = 120_000,
    on_partial: OnPartial | None = None,
    collector: Collector | None = None,
    open_stored: OpenStored | None = None,
) -> Generated[Any]:
    """Ask a model until its answer conforms: `Session.generate_object` without a session.

    See `GenerateOptions` for the options. `collector` receives the elements of an answer that is a
    list while the model streams. `open_stored` opens the stored files that the prompt names by
    their handles; None: there are none.
    """
    require_function("on_partial", on_partial)
    pairs = parts_of("examples", examples, "a list of pairs")

    def read(prompt: Any, where: str) -> tuple[Turn, ...]:
        return read_prompt(prompt, open_stored=open_stored, where=where)

    def make_question() -> Question:
        contract = schema if isinstance(schema, Contract) else Contract(schema, name=schema_name)
        if context is not None:
            contract = contract.with_context(context)
        return Question(
            contract=contract,
            turns=read(prompt, "prompt"),
            examples=read_examples(pairs, contract, read),
            null_for_missing=null_for_missing,
            previous=contract.plain(previous),
            objections=parts_of("objections", objections, "a list of texts"),
            description=schema_description,
            system=system,
            mode=mode,
            max_repair_attempts=max_repair_attempts,
            validators=parts_of("validators", validators, "a list of functions"),
            settings=mapping_of("settings", settings, "a dict by name"),
            timeout_ms=timeout_ms,
        )

    # To compile a large schema or to read files takes time that other tasks can use.
    quick = isinstance(prompt, str) and not pairs and not isinstance(schema, Mapping)
    question = make_question() if quick else await anyio.to_thread.run_sync(make_question)
    listener = Listener(on_partial, collector) if on_partial or collector else None
    return await _generate(question, models.get(model), listener, models.refusals)


async def _generate(
    question: Question, model: Model, listener: Listener | None, refusals: Refusals
) -> Generated[Any]:
    generation = _Generation(question, model, listener, refusals)
    try:
        with anyio.move_on_after(question.timeout_ms / 1000):
            return await generation.run()
    except (TruncatedError, ModelError, ElementsChangedError) as error:
        error.attempts, error.usage = generation.attempts, generation.usage
        raise
    msg = f"{model.name} did not finish within timeout_ms={question.timeout_ms:,}"
    timeout = ModelError(msg, retryable=True)
    timeout.attempts, timeout.usage = generation.attempts, generation.usage
    raise timeout


class _Generation:
    """State of one `Question` while the model is asked."""

    def __init__(
        self, question: Question, model: Model, listener: Listener | None, refusals: Refusals
    ) -> None:
        self._question = question
        self._conversation = Conversation(question)
        self._refusals = refusals
        self._model = model
        self._listener = self._conversation.listener(listener)
        self._fallbacks: list[Fallback] = []
        self._loop: RepairLoop | None = None
        self.usage = ModelUsage()

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts so far."""
        return tuple(self._loop.attempts) if self._loop is not None else ()

    async def run(self) -> Generated[Any]:
        """Generate the answer in the first mode that works."""
        require_files(self._model, self._conversation.files)
        modes = self._modes()
        rejected: list[tuple[ModelRequest, str]] = []
        for mode in modes:
            try:
                found = await self._run_in_mode(mode)
            except ModelError as error:
                # After an answer, the rejection cannot be about the mode.
                if not error.refused or self.attempts or mode == modes[-1]:
                    raise
                if self._is_about_files(error):
                    error.refused = False
                    raise
                rejected.append((self._conversation.request(mode), str(error)))
                if not self._conversation.files:
                    self._refusals.add(*rejected.pop(), self._model.name)
                self._fallbacks.append(Fallback(mode, str(error)))
            else:
                # With files, only the success of another mode shows that the mode was refused.
                for request, reason in rejected:
                    self._refusals.add(request, reason, self._model.name)
                return found
        raise AssertionError  # pragma: no cover  # the last mode returns or raises

    def _is_about_files(self, error: ModelError) -> bool:
        """True if a provider rejects a file of the prompt, not the mode."""
        text = str(error).partition(": ")[2]
        return bool(self._conversation.files) and _ABOUT_FILES.search(text) is not None

    def _modes(self) -> list[Mode]:
        requested = self._question.mode
        if requested != "auto":
            if (why := self._why_not(requested)) is not None:
                msg = f"mode={requested!r} cannot be used: {why}; mode='auto' selects one that can"
                raise UsageError(msg)
            return [requested]
        usable: list[Mode] = []
        for mode in getattr(self._model, "modes", MODES):
            why = self._why_not(mode)
            if why is None:
                request = self._conversation.request(mode)
                why = self._refusals.find(request, self._model.name)
            if why is None:
                usable.append(mode)
            elif not usable:
                self._fallbacks.append(Fallback(mode, why))
        if not usable:
            reasons = "; ".join(f"{f.mode}: {f.reason}" for f in self._fallbacks)
            msg = f"{self._model.name} supports no mode of structured output: {reasons}"
            raise UsageError(msg)
        return usable

    def _why_not(self, mode: Mode) -> str | None:
        return self._model.why_not(mode, self._conversation.schema(mode))

    async def _run_in_mode(self, mode: Mode) -> Generated[Any]:
        question, conversation = self._question, self._conversation
        contract, wrapped = conversation.contract, mode != "prompt"
        loop = RepairLoop(
            contract, max_repair_attempts=question.max_repair_attempts, wrapped=wrapped
        )
        self._loop = loop
        reporter = (
            None if self._listener is None else PartialReporter(contract, self._listener, mode=mode)
        )
        request = conversation.first_request(mode)
        interruptions = Interruptions()
        while True:
            reply: ModelReply | None = None
            try:
                if reporter is not None and not interruptions.continuing:
                    reporter.start_attempt()
                reply = await self._ask(request, reporter)
                answer = interruptions.join(reply)
                action = loop.take(answer, ended=reply.finish == "stop")
                interruptions.check(action, answer)
            except (TruncatedError, ModelError) as error:
                fixed = "max_tokens" in question.settings
                request = interruptions.next_request(request, reply, error, fixed=fixed)
                continue
            if isinstance(action, Accepted):
                value = conversation.value_of(action.value)
                # Without its nulls, an answer may violate the original schema.
                nulls = question.null_for_missing
                objections = question.contract.violations(value) if nulls else []
                typed = None if objections else question.contract.typed(value)
                objections = objections or await self._objections(typed)
                if not objections:
                    if reporter is not None:
                        reporter.finish(action)
                    return self._to_result(mode, typed, replace(action, value=value))
                action = loop.refuse(objections)
            if isinstance(action, GaveUp):
                raise self._generation_error(action)
            # Only the prompt and the last answer, so that the conversation does not grow.
            error_turn = Turn("error", action.feedback)
            model_turn = Turn("model", answer, reply)
            request = interruptions.widen(conversation.request(mode, model_turn, error_turn))

    async def _ask(self, request: ModelRequest, reporter: PartialReporter | None) -> ModelReply:
        with GenerationSpan(self._model.name) as span:
            if reporter is None:
                reply = await self._model.complete(request)
            else:
                reply = await self._model.stream(request, reporter.feed_delta)
            span.note(reply.usage, reply.finish)
        self.usage += reply.usage
        report_usage(reply.usage, model=self._model.name)
        require_answer(self._model, reply)
        return reply

    async def _objections(self, value: Any) -> list[Violation]:
        found: list[Violation] = []
        for validator in self._question.validators:
            try:
                objection = validator(value)
                if inspect.isawaitable(objection):
                    objection = await objection
            except ValueError as error:
                objection = str(error) or type(error).__name__
            found.extend(_violation(item, validator) for item in _as_objections(objection))
        return found

    def _to_result(self, mode: Mode, value: Any, accepted: Accepted) -> Generated[Any]:
        return Generated(
            object=value,
            value=accepted.value,
            attempts=self.attempts,
            repairs=accepted.repairs,
            mode_used=mode,
            fallbacks=tuple(self._fallbacks),
            usage=self.usage,
        )

    def _generation_error(self, action: GaveUp) -> GenerationError:
        attempts = self.attempts
        last = "; ".join(str(violation) for violation in attempts[-1].violations[:5])
        count = f"{len(attempts)} answers" if len(attempts) > 1 else "the answer"
        again = " (the last two have the same violations)" if action.reason == "no_progress" else ""
        verb = "do" if len(attempts) > 1 else "does"
        msg = f"{count} of {self._model.name} {verb} not conform to the schema{again}: {last}"
        return GenerationError(msg, reason=action.reason, attempts=attempts, usage=self.usage)


_ABOUT_FILES = re.compile(
    r"\b(images?|vision|files?|documents?|pdf|media|attachments?|multi-?modal|base64|"
    r"(input|image)_(image|file|url))\b",
    re.I,
)
"""Words of a provider that rejects a file."""


def require_answer(model: Model, reply: ModelReply) -> None:
    """Check that a reply is an answer.

    Raises:
        ModelError: If the model refused to answer.
    """
    if reply.finish == "refused":
        reason = f": {reply.text[:200]}" if reply.text else ""
        msg = f"{model.name} refused to answer, or a content filter blocked it{reason}"
        raise ModelError(msg)


def _as_objections(returned: Any) -> Iterable[Any]:
    """Return the items of a validator's result, which may be one objection or several."""
    if returned is None:
        return ()
    if isinstance(returned, str | Violation) or not isinstance(returned, Iterable):
        return (returned,)
    return returned


def _violation(objection: Any, validator: Validator) -> Violation:
    if isinstance(objection, Violation):
        return objection
    if isinstance(objection, str) and objection:
        return Violation("", "validator", objection)
    name = getattr(validator, "__name__", repr(validator))
    msg = f"validator {name} returned {objection!r:.80}; return None, or text with the objection"
    raise UsageError(msg)
