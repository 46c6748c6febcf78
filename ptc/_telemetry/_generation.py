"""Span of one request to a model."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Self

from . import _text
from ._context import Place, place
from ._names import Attribute, Operation

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.trace import Span

    from .._facts import ModelUsage

__all__ = ["GenerationSpan", "usage_attributes"]

_log = logging.getLogger("ptc")
_PROVIDERS: Final = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "groq": "groq",
    "mistral": "mistral_ai",
    "cohere": "cohere",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "deepseek": "deepseek",
}
"""Prefix of a model's name, and the convention's name of the provider."""


class GenerationSpan:
    """Context of one request. Outside of a recorded run it does nothing."""

    __slots__ = ("_attach", "_name", "_span")

    def __init__(self, model: str) -> None:
        """Prepare the span of a request to the model of this name."""
        self._name = model
        self._span: Span | None = None
        self._attach: Any = None

    def __enter__(self) -> Self:
        found = place.get()
        if found is not None:
            try:
                self._start(found)
            except Exception:  # noqa: BLE001  # a faulty provider fails no generation
                _log.exception("the span of a generation failed")
        return self

    def _start(self, found: Place) -> None:
        from opentelemetry.trace import SpanKind, use_span  # optional

        prefix, _, short = self._name.partition(":")
        model = _text.name(short or prefix)
        self._span = found.tracer.start_span(
            f"{Operation.GENERATION} {model}",
            kind=SpanKind.CLIENT,
            attributes={
                Attribute.OPERATION: Operation.GENERATION,
                Attribute.PROVIDER: _PROVIDERS.get(prefix, _text.name(prefix)),
                Attribute.MODEL: model,
                Attribute.RUN_ID: found.run_id,
            },
        )
        self._attach = use_span(self._span, record_exception=False, set_status_on_exception=False)
        self._attach.__enter__()

    def note(self, usage: ModelUsage, finish: str | None) -> None:
        """Add what the reply reports."""
        if self._span is None:
            return
        self._span.set_attributes(usage_attributes(usage))
        if finish is not None:
            self._span.set_attribute(Attribute.FINISH_REASONS, [finish])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._span is None:
            return
        try:
            if kind is not None:
                from opentelemetry.trace import StatusCode  # optional

                self._span.set_attribute(Attribute.ERROR, kind.__qualname__)
                self._span.set_status(StatusCode.ERROR)
            if self._attach is not None:
                self._attach.__exit__(None, None, None)
            self._span.end()
        except Exception:  # noqa: BLE001  # a faulty processor fails no generation
            _log.exception("the span of a generation failed")


def usage_attributes(usage: ModelUsage) -> dict[str, int]:
    """Return the tokens as attributes."""
    found = {
        Attribute.INPUT_TOKENS: usage.input_tokens,
        Attribute.OUTPUT_TOKENS: usage.output_tokens,
    }
    if usage.cache_read_tokens:
        found[Attribute.CACHE_READ_TOKENS] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        found[Attribute.CACHE_WRITE_TOKENS] = usage.cache_write_tokens
    return found
