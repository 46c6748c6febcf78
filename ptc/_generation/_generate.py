"""One structured answer of a model: asked, judged, asked again with what is wrong, or given up.

It decides who is asked how and when it ends; what conforms is `ptc.structured`'s to say, and how a
provider is spoken to is `ptc.models`'.

Rule 1: what is returned conforms (test_what_is_returned_conforms_...).
Rule 2: a cut answer and a lost connection cost no repair (test_a_cut_answer_..., test_a_lost_...).
Rule 3: a form that is refused is left for the next by ``auto`` only, and that is told
(test_a_form_that_is_refused_..., test_a_form_that_was_asked_for_...).
Rule 4: no failure loses what was answered and spent (test_every_failure_keeps_...).
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar

import anyio

from .._arguments import mapping_of, parts_of, require_function
from .._model_usage import ModelUsage
from ..errors import GenerationError, ModelError, TruncatedError, UsageError
from ..models._model import MODES, Delta, Mode, Model, ModelReply, ModelRequest, Turn
from ..models._open import ModelSource, OpenModels
from ..structured import (
    Accepted,
    Attempt,
    Contract,
    GaveUp,
    Partial,
    Repair,
    RepairLoop,
    StreamParser,
    Violation,
)
from ..structured._stream import extends

__all__ = ["Fallback", "GenerateOptions", "Generated", "Question", "Validator", "generate_object"]

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9_-]{1,59}")
"""What may name an answer. Names of tools have 64 characters at OpenAI and Anthropic."""
RESENDS = 2
"""How often a request is sent again whose answer was lost on the way. Requests that were answered
by an error are repeated by the provider's own package, which knows how long to wait."""
MOST_TIMEOUT_MS = 86_400_000

Validator: TypeAlias = Callable[[Any], Any]
"""Gets the object. It objects by raising `ValueError` or by returning text or a list of texts, and
returns None if all is well. May be async. The model is told its words."""
OnPartial: TypeAlias = Callable[[Partial], None]


class GenerateOptions(TypedDict, total=False):
    """The options of `Session.generate_object`."""

    schema_name: str
    """What the answer is called, 1 to 59 letters, digits, ``_`` and ``-``. Default: ``result``."""
    schema_description: str | None
    """What the answer is, for the model."""
    system: str | None
    """Instructions."""
    mode: Literal["auto", "tool", "native", "prompt"]
    """How the model is brought to answer in the form, see `ptc.models.Mode`. ``auto``, the default,
    takes the first that works; another that does not work is an error."""
    max_repair_attempts: int
    """How often it is asked again after an answer that does not conform, 0 to 5. Default: 2."""
    validators: Sequence[Validator]
    """Asked about an object that conforms; an objection is a violation like any other."""
    model: ModelSource | None
    """Who is asked. Default: the session's."""
    settings: Mapping[str, Any] | None
    """``max_tokens``, ``temperature`` and what else the provider takes."""
    timeout_ms: int
    """Time for all of it. Default: 120,000."""
    on_partial: OnPartial | None
    """Told the answer as it comes: then the model is streamed. Must return at once, not raise."""


@dataclass(frozen=True, slots=True)
class Fallback:
    """A form in which the model could not be asked."""

    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True)
class Generated(Generic[T]):
    """An answer that conforms, and how it came about."""

    object: T
    """The answer: an instance of the type that was given, plain JSON data for a schema."""
    value: Any
    """The same as plain JSON data."""
    attempts: tuple[Attempt, ...]
    """Every answer in order; the last is this one. Those before say what was wrong with them."""
    repairs: tuple[Repair, ...]
    """Edits that the answer took without a model."""
    mode_used: Mode
    """The form in which the model was asked."""
    fallbacks: tuple[Fallback, ...]
    """Forms before it that could not be used, and why; only in mode ``auto``."""
    usage: ModelUsage
    """What all attempts spent."""

    @property
    def raw_texts(self) -> tuple[str, ...]:
        """What the model wrote, attempt by attempt."""
        return tuple(attempt.text for attempt in self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, checked before anything is paid.

    Raises:
        UsageError: If a part of it means nothing, or no answer could conform.
    """

    contract: Contract
    prompt: str
    description: str | None = None
    system: str | None = None
    mode: Literal["auto", "tool", "native", "prompt"] = "auto"
    max_repair_attempts: int = 2
    validators: tuple[Validator, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    timeout_ms: int = 120_000

    def __post_init__(self) -> None:
        name: Any = self.contract.name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            msg = f"schema_name {name!r:.80}: use 1 to 59 letters, digits, _ and -"
            raise UsageError(msg)
        if not isinstance(self.prompt, str) or not self.prompt.strip():
            msg = "prompt is text that is not blank"
            raise UsageError(msg)
        for name in ("description", "system"):
            if not isinstance(getattr(self, name), str | None):
                msg = f"{name} is text, not {getattr(self, name)!r:.80}"
                raise UsageError(msg)
        if self.mode not in ("auto", *MODES):
            msg = f"mode {self.mode!r:.80} is unknown; modes: auto, {', '.join(MODES)}"
            raise UsageError(msg)
        _in_range("max_repair_attempts", self.max_repair_attempts, 0, 5)
        _in_range("timeout_ms", self.timeout_ms, 1, MOST_TIMEOUT_MS)
        if refused := [v for v in self.validators if not callable(v)]:
            msg = f"validators are functions of the object, and {refused[0]!r:.80} is none"
            raise UsageError(msg)
        if (why := self.contract.why_impossible()) is not None:
            raise UsageError(why)


def _in_range(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        msg = f"{name} is an integer from {least} to {most:,}, not {value!r:.80}"
        raise UsageError(msg)


async def generate_object(
    models: OpenModels,
    schema: Any,
    prompt: str,
    *,
    schema_name: str = "result",
    schema_description: str | None = None,
    system: str | None = None,
    mode: Literal["auto", "tool", "native", "prompt"] = "auto",
    max_repair_attempts: int = 2,
    validators: Sequence[Validator] = (),
    model: ModelSource | None = None,
    settings: Mapping[str, Any] | None = None,
    timeout_ms: int = 120_000,
    on_partial: OnPartial | None = None,
) -> Generated[Any]:
    """Ask one of `models` until its answer conforms: `Session.generate_object`, without a session.

    The options are those of `GenerateOptions`.
    """
    require_function("on_partial", on_partial)
    question = Question(
        contract=Contract(schema, name=schema_name),
        prompt=prompt,
        description=schema_description,
        system=system,
        mode=mode,
        max_repair_attempts=max_repair_attempts,
        validators=parts_of("validators", validators, "a list of functions"),
        settings=mapping_of("settings", settings, "a dict by name"),
        timeout_ms=timeout_ms,
    )
    return await _generate(question, models.get(model), on_partial)


async def _generate(
    question: Question, model: Model, on_partial: OnPartial | None
) -> Generated[Any]:
    work = _Generation(question, model, on_partial)
    try:
        with anyio.move_on_after(question.timeout_ms / 1000):
            return await work.run()
    except (TruncatedError, ModelError) as error:
        error.attempts, error.usage = work.attempts, work.usage
        raise
    msg = f"{model.name} took longer than timeout_ms={question.timeout_ms:,}"
    late = ModelError(msg, retryable=True)
    late.attempts, late.usage = work.attempts, work.usage
    raise late


class _Generation:
    """One question on its way to an answer."""

    def __init__(self, question: Question, model: Model, on_partial: OnPartial | None) -> None:
        self._question = question
        self._model = model
        self._on_partial = on_partial
        self._fallbacks: list[Fallback] = []
        self._loop: RepairLoop | None = None
        self.usage = ModelUsage()

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All answers so far."""
        return tuple(self._loop.attempts) if self._loop is not None else ()

    async def run(self) -> Generated[Any]:
        """Ask in the first form that works."""
        modes = self._modes()
        for mode in modes:
            try:
                return await self._in_mode(mode)
            except ModelError as error:
                # After an answer it is not the form that is refused.
                if not error.refused or self.attempts or mode == modes[-1]:
                    raise
                self._fallbacks.append(Fallback(mode, str(error)))
        raise AssertionError  # pragma: no cover  # the last mode returns or raises

    def _modes(self) -> list[Mode]:
        asked = self._question.mode
        if asked != "auto":
            if (why := self._why_not(asked)) is not None:
                msg = f"mode={asked!r} cannot be used: {why}; mode='auto' finds one that can"
                raise UsageError(msg)
            return [asked]
        usable: list[Mode] = []
        for mode in MODES:
            why = self._why_not(mode)
            if why is None:
                usable.append(mode)
            elif not usable:
                self._fallbacks.append(Fallback(mode, why))
        if not usable:
            msg = f"{self._model.name} can be asked in no form: {self._fallbacks}"
            raise UsageError(msg)
        return usable

    def _why_not(self, mode: Mode) -> str | None:
        return self._model.why_not(mode, self._schema(mode))

    def _schema(self, mode: Mode) -> Mapping[str, Any]:
        """What is asked for: an object, but where there is no provider that wants one."""
        contract = self._question.contract
        schema = contract.schema if mode == "prompt" else contract.object_schema()
        return schema if isinstance(schema, Mapping) else {}

    async def _in_mode(self, mode: Mode) -> Generated[Any]:
        question = self._question
        contract, wrapped = question.contract, mode != "prompt"
        loop = RepairLoop(
            contract, max_repair_attempts=question.max_repair_attempts, wrapped=wrapped
        )
        self._loop = loop
        told = _Told(contract, self._on_partial, wrapped=wrapped) if self._on_partial else None
        asked = Turn("user", question.prompt)
        request = self._request(mode, asked)
        resends = RESENDS
        while True:
            reply: ModelReply | None = None
            try:
                if told is not None:
                    told.begin()
                reply = await self._ask(request, told)
                verdict = loop.take(reply.answer, ended=reply.finish == "stop")
            except (TruncatedError, ModelError) as error:
                if isinstance(error, ModelError):
                    lost = error.lost
                else:
                    lost = reply is not None and reply.finish is None
                if not lost or not resends:
                    raise
                resends -= 1
                continue
            if isinstance(verdict, Accepted):
                value = contract.typed(verdict.value)
                objections = await self._objections(value)
                if not objections:
                    if told is not None:
                        told.end(verdict)
                    return self._generated(mode, value, verdict)
                verdict = loop.refuse(objections)
            if isinstance(verdict, GaveUp):
                raise self._failed(verdict)
            # The question and the last answer, not all of them: the prompt does not grow.
            error_turn = Turn("error", verdict.feedback)
            request = self._request(mode, asked, Turn("model", reply.answer, reply), error_turn)

    async def _ask(self, request: ModelRequest, told: _Told | None) -> ModelReply:
        if told is None:
            reply = await self._model.complete(request)
        else:
            reply = await self._model.stream(request, told.hear)
        self.usage += reply.usage
        if reply.finish == "refused":
            said = f": {reply.text[:200]}" if reply.text else ""
            msg = f"{self._model.name} will not answer this, or a filter does not let it{said}"
            raise ModelError(msg)
        return reply

    def _request(self, mode: Mode, *turns: Turn) -> ModelRequest:
        question = self._question
        contract = question.contract
        instructions = [question.system] if question.system else []
        if mode == "prompt":
            what = f" ({question.description})" if question.description else ""
            instructions.append(
                f"Answer with the {contract.name}{what} as one JSON value, and nothing else: no "
                "prose, no code fence. It conforms to this JSON Schema:\n"
                + json.dumps(contract.schema, ensure_ascii=False)
            )
        return ModelRequest(
            mode=mode,
            name=contract.name,
            description=question.description or "The answer, in the form that is asked for.",
            schema=self._schema(mode),
            turns=turns,
            system="\n\n".join(instructions),
            settings=question.settings,
        )

    async def _objections(self, value: Any) -> list[Violation]:
        found: list[Violation] = []
        for validator in self._question.validators:
            try:
                said = validator(value)
                if inspect.isawaitable(said):
                    said = await said
            except ValueError as error:
                said = str(error) or type(error).__name__
            found.extend(_violation(item, validator) for item in _listed(said))
        return found

    def _generated(self, mode: Mode, value: Any, accepted: Accepted) -> Generated[Any]:
        return Generated(
            object=value,
            value=accepted.value,
            attempts=self.attempts,
            repairs=accepted.repairs,
            mode_used=mode,
            fallbacks=tuple(self._fallbacks),
            usage=self.usage,
        )

    def _failed(self, verdict: GaveUp) -> GenerationError:
        attempts = self.attempts
        last = "; ".join(str(violation) for violation in attempts[-1].violations[:5])
        times = f"{len(attempts)} answers" if len(attempts) > 1 else "the answer"
        again = " (the last two were wrong alike)" if verdict.reason == "no_progress" else ""
        verb = "do" if len(attempts) > 1 else "does"
        msg = f"{times} of {self._model.name} {verb} not conform{again}: {last}"
        return GenerationError(msg, reason=verdict.reason, attempts=attempts, usage=self.usage)


class _Told:
    """Turns what is heard of a model into what is told of the answer."""

    def __init__(self, contract: Contract, on_partial: OnPartial, *, wrapped: bool) -> None:
        self._parser = StreamParser(contract, wrapped=wrapped)
        self._on_partial = on_partial
        self._attempt = 0
        self._in_call = False
        self._last: Partial | None = None

    def begin(self) -> None:
        """Another request is sent: what comes now continues nothing."""
        if self._attempt:
            self._parser.restart()
        self._attempt += 1
        self._in_call = False

    def hear(self, delta: Delta) -> None:
        """Take the next characters."""
        if delta.in_call and not self._in_call:
            # What was said before the call was no answer.
            self._in_call = True
            self._parser.restart()
        elif self._in_call and not delta.in_call:
            return
        partial = self._parser.feed(delta.text)
        if partial is not None:
            self._tell(replace(partial, attempt=self._attempt))

    def end(self, accepted: Accepted) -> None:
        """The last: what was accepted."""
        self._tell(Partial(accepted.value, self._attempt, False, True, None, accepted.repairs))

    def _tell(self, partial: Partial) -> None:
        before = self._last
        reset = before is not None and (
            before.attempt != partial.attempt or not extends(before.value, partial.value)
        )
        self._last = replace(partial, reset=reset)
        self._on_partial(self._last)


def _listed(said: Any) -> Iterable[Any]:
    if said is None:
        return ()
    return (said,) if isinstance(said, str | Violation) or not isinstance(said, Iterable) else said


def _violation(said: Any, validator: Validator) -> Violation:
    if isinstance(said, Violation):
        return said
    if isinstance(said, str) and said:
        return Violation("", "validator", said)
    name = getattr(validator, "__name__", repr(validator))
    msg = f"validator {name} returned {said!r:.80}: return None, or text that says what is wrong"
    raise UsageError(msg)
