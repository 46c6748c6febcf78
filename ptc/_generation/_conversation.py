"""The conversation of a generation: instructions, examples and prompt, in the form of a mode."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..models._model import Mode, ModelReply, ModelRequest, Turn
from ..structured import Contract, Partial, Violation
from ..structured._loop import write_feedback
from ._partial_reporter import Collector, Listener
from ._prompt import files_of
from ._question import Question

__all__ = ["Conversation"]


class Conversation:
    """Writes the requests of one question, and reads the values of its answers.

    Attributes:
        contract: The contract of the model's answers: that of the question, or one with nulls.
        files: The media types of the files, without duplicates.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        nulls = question.null_for_missing
        self.contract: Contract = question.contract.with_nulls() if nulls else question.contract
        prompts = [*(turns for turns, _ in question.examples), question.turns]
        files = [file for turns in prompts for file in files_of(turns)]
        self.files = tuple(dict.fromkeys(file.media_type for file in files))

    def schema(self, mode: Mode) -> Mapping[str, Any]:
        """Return the schema to request; providers require an object, a prompt does not."""
        contract = self.contract
        schema = contract.schema if mode == "prompt" else contract.object_schema()
        return schema if isinstance(schema, Mapping) else {}

    def first_request(self, mode: Mode) -> ModelRequest:
        """Return the first request, with the answer that is to be corrected if there is one."""
        question = self._question
        if not question.objections:
            return self.request(mode)
        feedback = write_feedback([Violation("", "validator", o) for o in question.objections])
        return self.request(mode, self._answer(mode, question.previous), Turn("error", feedback))

    def request(self, mode: Mode, *later: Turn) -> ModelRequest:
        """Return a request: instructions, examples, the prompt, and the turns after it."""
        question, contract = self._question, self.contract
        instructions = [question.system] if question.system else []
        if mode == "prompt":
            description = f" ({question.description})" if question.description else ""
            instructions.append(
                f"Answer with the {contract.name}{description} as one JSON value and nothing else: "
                "no prose, no code block. The value must conform to this JSON Schema:\n"
                + json.dumps(contract.schema, ensure_ascii=False)
            )
        if question.null_for_missing:
            instructions.append("Write null for each property that has no value.")
        turns: list[Turn] = []
        for prompt, value in question.examples:
            turns += [*prompt, self._answer(mode, value)]
        return ModelRequest(
            mode=mode,
            name=contract.name,
            description=question.description or "The answer, as required by the schema.",
            schema=self.schema(mode),
            turns=(*turns, *question.turns, *later),
            system="\n\n".join(instructions),
            settings=question.settings,
        )

    def _answer(self, mode: Mode, value: Any) -> Turn:
        """Return a conforming value as the model would have answered it in `mode`."""
        if self._question.null_for_missing:
            filled = self._question.contract.filled(value)
            value = filled if self.contract.conforms(filled) else value
        key = self.contract.wrapper
        if mode != "prompt" and key is not None:
            value = {key: value}
        text = json.dumps(value, ensure_ascii=False)
        reply = ModelReply(arguments=(text,)) if mode == "tool" else ModelReply(text)
        return Turn("model", text, reply)

    def value_of(self, answer: Any) -> Any:
        """Return the value of an answer, without the nulls of missing properties."""
        question = self._question
        return question.contract.without_nulls(answer) if question.null_for_missing else answer

    def listener(self, listener: Listener | None) -> Listener | None:
        """Return receivers of the same answers without the nulls of missing properties."""
        if listener is None or not self._question.null_for_missing:
            return listener
        report, collector = listener.on_partial, listener.collector

        def convert(partial: Partial) -> None:
            if report is not None:
                report(replace(partial, value=self.value_of(partial.value)))

        return Listener(
            None if report is None else convert,
            None if collector is None else _WithoutNulls(collector, self.value_of),
        )


class _WithoutNulls:
    """A collector that receives elements without the nulls of missing properties."""

    def __init__(self, collector: Collector, value_of: Callable[[Any], Any]) -> None:
        self._collector, self._value_of = collector, value_of

    def start_answer(self) -> None:
        self._collector.start_answer()

    def add(self, elements: list[object]) -> None:
        self._collector.add(self._value_of(elements))

    def finish(self, elements: list[object]) -> None:
        self._collector.finish(self._value_of(elements))
