"""Generate a text: one request, repeated or continued if its answer is lost or cut."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from .._telemetry._generation import GenerationSpan
from ..errors import ModelError, TruncatedError
from ..models._model import Model, ModelReply, ModelRequest
from ..models._open import ModelSource, OpenModels
from ..models._usage import report_usage
from ._generate import require_answer
from ._interruptions import Interruptions
from ._prompt import OpenStored, Prompt, files_of, read_prompt, require_files

__all__ = ["generate_text"]


async def generate_text(
    models: OpenModels,
    prompt: Prompt,
    *,
    system: str = "",
    model: ModelSource | None = None,
    settings: Mapping[str, Any] | None = None,
    timeout_ms: int = 120_000,
    open_stored: OpenStored | None = None,
) -> str:
    """Ask a model for a text.

    Args:
        models: Opens `model`.
        prompt: The user's message, or a conversation.
        system: System instructions.
        model: Model to use. None: the default model.
        settings: ``max_tokens``, ``temperature`` and other settings of the provider.
        timeout_ms: Time limit for all requests together.
        open_stored: Opens the stored files that the prompt names. None: there are none.

    Raises:
        UsageError: If there is no such model, or it does not take the files of the prompt.
        SetupError: If the model's package or key is missing.
        ModelError: If it was not reached, refused or did not finish in time.
        TruncatedError: If the text was truncated.
    """
    opened = models.get(model)
    read = partial(read_prompt, prompt, open_stored=open_stored)
    turns = read() if isinstance(prompt, str) else await anyio.to_thread.run_sync(read)
    require_files(opened, {file.media_type for file in files_of(turns)})
    request = ModelRequest(
        mode="prompt",
        name="answer",
        description="The answer.",
        schema={},
        turns=turns,
        system=system,
        settings=dict(settings or {}),
    )
    with anyio.move_on_after(timeout_ms / 1000):
        return await _ask(opened, request)
    msg = f"{opened.name} did not finish within timeout_ms={timeout_ms:,}"
    raise ModelError(msg, retryable=True)


async def _ask(model: Model, request: ModelRequest) -> str:
    interruptions = Interruptions()
    fixed = "max_tokens" in request.settings
    while True:
        reply: ModelReply | None = None
        try:
            with GenerationSpan(model.name) as span:
                reply = await model.complete(request)
                span.note(reply.usage, reply.finish)
            report_usage(reply.usage, model=model.name)
            text = interruptions.join(reply)
            _require_whole(model, reply, text)
            return text
        except (TruncatedError, ModelError) as error:
            request = interruptions.next_request(request, reply, error, fixed=fixed)


def _require_whole(model: Model, reply: ModelReply, text: str) -> None:
    require_answer(model, reply)
    if reply.finish == "length":
        msg = (
            f"the answer was truncated after {len(text)} characters; ask again with a "
            "higher token limit"
        )
        raise TruncatedError(msg, text=text)
    if reply.finish is None:
        raise ModelError(f"the connection to {model.name} broke during its answer", lost=True)
