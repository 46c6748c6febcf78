"""The tool `generate_object`, for scripts, agents, the command line and MCP.

Rule 1: a prompt from a script names no path, and no model that the session does not offer
(test_script_cannot_send_a_file_by_its_path, test_script_chooses_among_the_offered_models).
"""

# Annotations are evaluated here, not later: the names of the models are part of the schema.
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from .._dataclass import dataclass
from .._tools._context import ToolContext
from .._tools._tool import Tool, tool
from ..errors import (
    GenerationError,
    ModelError,
    PtcError,
    SetupError,
    ToolError,
    TruncatedError,
    UsageError,
)
from ..models._open import OpenModels
from ..structured import Partial
from ._generate import Generated, generate_object

__all__ = ["FAILURES", "generate_object_tool", "to_event", "to_row", "to_tool_error"]

_MAX_TEXT_CHARS = 2_000
"""Characters of each answer in the details of an error."""
FAILURES = (UsageError, SetupError, GenerationError, TruncatedError, ModelError)
"""Failures of a generation, for `to_tool_error`."""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One answer of the model."""

    violations: list[str]
    """Violations of the schema; empty for the accepted answer."""
    text: str | None
    """The answer as the model wrote it, if requested."""


@dataclass(frozen=True, slots=True)
class RepairRow:
    """One edit made to an answer without a model."""

    path: str
    kind: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FallbackRow:
    """A mode that could not be used."""

    mode: str
    reason: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Usage of all attempts together."""

    requests: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


@dataclass(frozen=True, slots=True)
class GeneratedRow:
    """An answer that conforms, with its history and usage."""

    object: Any
    attempts: list[AttemptRow]
    repairs: list[RepairRow]
    mode_used: str
    fallbacks: list[FallbackRow]
    usage: UsageRow


def generate_object_tool(models: OpenModels) -> Tool:
    """Create the tool `generate_object`, which uses the default model of `models`."""
    offered = Field(max_length=200)
    if models.offered:
        offered = Field(max_length=200, json_schema_extra={"enum": [*models.offered]})

    # Costs tokens but changes nothing, so repeating it is safe.
    @tool(name="generate_object", idempotent=True)
    async def ask(
        ctx: ToolContext,
        schema: dict[str, Any],
        prompt: str | list[str | dict[str, Any]],
        schema_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,59}$")] = "result",
        schema_description: Annotated[str, Field(max_length=4_096)] | None = None,
        system: Annotated[str, Field(max_length=32_768)] | None = None,
        examples: list[dict[str, Any]] | None = None,
        previous: dict[str, Any] | list[Any] | str | int | float | bool | None = None,
        objections: Annotated[list[Annotated[str, Field(max_length=2_000)]], Field(max_length=20)]
        | None = None,
        null_for_missing: bool = False,
        model: Annotated[str, offered] | None = None,
        max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None,
        temperature: Annotated[float, Field(ge=0, le=2)] | None = None,
        mode: Literal["auto", "tool", "native", "prompt"] = "auto",
        max_repair_attempts: Annotated[int, Field(ge=0, le=5)] = 2,
        include_raw_text: bool = False,
        timeout_ms: Annotated[int, Field(ge=1_000, le=600_000)] = 120_000,
    ) -> GeneratedRow:
        """Ask a language model for data; the returned object always conforms to the JSON Schema.

        Unambiguous damage to the JSON is repaired. An answer that violates the schema goes back to
        the model with its errors. To process many documents, gather the calls.

        Args:
            ctx: Filled in by the host.
            schema: JSON Schema of the object, list or value to generate.
            prompt: The task, with everything the model needs, such as the document. For images and
                PDFs, a list of texts and files: {"id": ...} of an attachment, as attach_file
                returns it, or {"type": "file", "data": BASE64}. For a conversation, a list of
                messages {"role": "user" or "model", "content": ...}.
            schema_name: Name of the answer.
            schema_description: Description of the answer.
            system: System instructions.
            examples: Prompts with their right answers: {"input": ..., "output": ...}.
            previous: Object of an earlier call that you reject; pass the same prompt.
            objections: What is wrong with `previous`. The model corrects it.
            null_for_missing: Whether the model writes null for an optional property. The object
                lacks it, unless the schema allows null.
            model: Another model of the session, by its name there.
            max_tokens: Maximum tokens of each answer.
            temperature: Sampling temperature, if the model has one.
            mode: Method of requesting structured output; auto selects one that works.
            max_repair_attempts: Times the model is asked again after an invalid answer.
            include_raw_text: Whether to include the text of each answer in `attempts`.
            timeout_ms: Time limit for all attempts together, in milliseconds.
        """
        settings = {"max_tokens": max_tokens, "temperature": temperature}
        try:
            found = await generate_object(
                models,
                schema,
                prompt,
                schema_name=schema_name,
                schema_description=schema_description,
                system=system,
                examples=examples or (),
                previous=previous,
                objections=objections or (),
                null_for_missing=null_for_missing,
                model=None if model is None else models.offer(model),
                settings={name: value for name, value in settings.items() if value is not None},
                mode=mode,
                max_repair_attempts=max_repair_attempts,
                timeout_ms=timeout_ms,
                open_stored=ctx.open_stored,
                on_partial=(lambda p: ctx.output(to_event(p))) if await ctx.is_watched() else None,
            )
        except FAILURES as error:
            raise to_tool_error(error) from error
        return to_row(found, raw_text=include_raw_text)

    return ask


def to_row(found: Generated[Any], *, raw_text: bool) -> GeneratedRow:
    """Convert an answer to JSON data."""
    return GeneratedRow(
        object=found.value,
        attempts=[
            AttemptRow(
                violations=[str(violation) for violation in attempt.violations],
                text=attempt.text if raw_text else None,
            )
            for attempt in found.attempts
        ],
        repairs=[RepairRow(r.path, r.kind, r.before, r.after) for r in found.repairs],
        mode_used=found.mode_used,
        fallbacks=[FallbackRow(f.mode, f.reason) for f in found.fallbacks],
        usage=UsageRow(**asdict(found.usage)),
    )


def to_event(partial: Partial) -> dict[str, Any]:
    """Convert a partial answer to an event for subscribers."""
    return {
        "object": partial.value,
        "attempt": partial.attempt,
        "reset": partial.reset,
        "final": partial.final,
        "pending": partial.pending,
    }


def to_tool_error(error: PtcError) -> ToolError:
    """Convert a failure to an error that a script can catch by its code."""
    message = str(error)
    if isinstance(error, UsageError):
        return ToolError(message, code="invalid_arguments")
    if isinstance(error, GenerationError):
        details = _details(error.attempts, reason=error.reason)
        return ToolError(message, code="not_conforming", details=details)
    if isinstance(error, TruncatedError):
        return ToolError(message, code="truncated", details=_details(error.attempts))
    if isinstance(error, ModelError):
        details = _details(error.attempts, status=error.status)
        retryable = error.retryable
        return ToolError(message, code="model_failed", retryable=retryable, details=details)
    return ToolError(message, code="setup")


def _details(attempts: Iterable[Any], **more: Any) -> dict[str, object]:
    rows = [
        {"violations": [str(v) for v in a.violations], "text": a.text[:_MAX_TEXT_CHARS]}
        for a in attempts
    ]
    return {"attempts": rows, **more}
