"""`generate_object` as a tool: for scripts, agents, the command line and MCP."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from .._tools._context import ToolContext
from .._tools._tool import Tool, tool
from ..errors import GenerationError, ModelError, SetupError, ToolError, TruncatedError, UsageError
from ..models._open import OpenModels
from ..structured import Partial
from ._generate import Generated, generate_object

__all__ = ["generate_object_tool", "row_of"]

_MOST_KEPT = 2_000
"""Characters of each answer in the details of an error."""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One answer of the model."""

    violations: list[str]
    """What was wrong with it; empty for the one that was accepted."""
    text: str | None
    """What it wrote, if that was asked for."""


@dataclass(frozen=True, slots=True)
class RepairRow:
    """One edit that an answer took without a model."""

    path: str
    kind: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FallbackRow:
    """A form in which the model could not be asked."""

    mode: str
    reason: str


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What all attempts spent."""

    requests: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int


@dataclass(frozen=True, slots=True)
class GeneratedRow:
    """An answer that conforms, and how it came about."""

    object: Any
    attempts: list[AttemptRow]
    repairs: list[RepairRow]
    mode_used: str
    fallbacks: list[FallbackRow]
    usage: UsageRow


def generate_object_tool(models: OpenModels) -> Tool:
    """The tool `generate_object`, which asks the default of `models`."""

    # Costs tokens, changes nothing: doing it twice is as good as once.
    @tool(name="generate_object", idempotent=True)
    async def ask(
        ctx: ToolContext,
        schema: dict[str, Any],
        prompt: str,
        schema_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,59}$")] = "result",
        schema_description: Annotated[str, Field(max_length=4_096)] | None = None,
        system: Annotated[str, Field(max_length=32_768)] | None = None,
        mode: Literal["auto", "tool", "native", "prompt"] = "auto",
        max_repair_attempts: Annotated[int, Field(ge=0, le=5)] = 2,
        include_raw_text: bool = False,
        timeout_ms: Annotated[int, Field(ge=1_000, le=600_000)] = 120_000,
    ) -> GeneratedRow:
        """Ask a language model for data that conforms to a JSON Schema; what is given does.

        Damaged JSON is mended where it has one meaning only; an answer that breaks the schema goes
        back to the model with what is wrong. Calls may be gathered over many documents.

        Args:
            ctx: Filled in by the host.
            schema: JSON Schema of the object, list or value that is wanted.
            prompt: The task, with all that the model needs to know, such as the document.
            schema_name: What the answer is called.
            schema_description: What the answer is.
            system: Instructions.
            mode: How the model is brought to answer in the form; auto takes what works.
            max_repair_attempts: How often it is asked again.
            include_raw_text: Whether `attempts` have what the model wrote.
            timeout_ms: Time for all of it.
        """
        try:
            found = await generate_object(
                models,
                schema,
                prompt,
                schema_name=schema_name,
                schema_description=schema_description,
                system=system,
                mode=mode,
                max_repair_attempts=max_repair_attempts,
                timeout_ms=timeout_ms,
                on_partial=(lambda p: ctx.output(_event(p))) if ctx.watched else None,
            )
        except UsageError as error:
            raise ToolError(str(error), code="invalid_arguments") from error
        except SetupError as error:
            raise ToolError(str(error), code="setup") from error
        except GenerationError as error:
            details = _details(error.attempts, reason=error.reason)
            raise ToolError(str(error), code="not_conforming", details=details) from error
        except TruncatedError as error:
            raise ToolError(
                str(error), code="truncated", details=_details(error.attempts)
            ) from error
        except ModelError as error:
            details = _details(error.attempts, status=error.status)
            raise ToolError(
                str(error), code="model_failed", retryable=error.retryable, details=details
            ) from error
        return row_of(found, raw_text=include_raw_text)

    return ask


def row_of(found: Generated[Any], *, raw_text: bool) -> GeneratedRow:
    """An answer as JSON data."""
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


def _event(partial: Partial) -> dict[str, Any]:
    return {
        "object": partial.value,
        "attempt": partial.attempt,
        "reset": partial.reset,
        "final": partial.final,
        "pending": partial.pending,
    }


def _details(attempts: Iterable[Any], **more: Any) -> dict[str, object]:
    rows = [
        {"violations": [str(v) for v in a.violations], "text": a.text[:_MOST_KEPT]}
        for a in attempts
    ]
    return {"attempts": rows, **more}
