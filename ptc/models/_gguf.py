"""Models in GGUF files: ``gguf:PATH``, run on this machine by llama.cpp without a server.

`_gguf_process` runs the file. This module asks it as the adapter of providers asks a server of
llama.cpp, over a Unix socket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from ..errors import ModelError, TruncatedError
from ._gguf_file import parse_source
from ._gguf_process import LlamaProcess, acquire, release

if TYPE_CHECKING:
    from pydantic_ai import models

    from ._model import Delta, ModelReply, ModelRequest

import httpx2
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from ._providers import ProviderAsModel
from ._publish import LLAMACPP

__all__ = ["GgufAsModel"]


class GgufAsModel(ProviderAsModel):
    """A GGUF file as a `Model`, loaded on first use and freed by `aclose`."""

    def __init__(self, source: str) -> None:
        """Check the file, without loading it.

        Raises:
            UsageError: As in `parse_source`.
        """
        self._source = source
        self._load = parse_source(source)
        self._process: LlamaProcess | None = None
        # The caller's time-out ends a request.
        self._client = httpx2.AsyncClient(transport=_Transport(self._socket), timeout=None)
        provider = OpenAICompatibleProvider(
            LLAMACPP, base_url="http://localhost/v1", http_client=self._client
        )
        super().__init__(OpenAIChatModel(Path(self._load.path).stem, provider=provider))

    @property
    def name(self) -> str:
        """The name with which it was opened."""
        return self._source

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request and return the whole reply."""
        # As a stream: llama.cpp notices only while it writes that nobody reads the answer.
        return await self.stream(request, lambda _: None)

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Send a request, call `tell` with each delta, and return the whole reply.

        Raises:
            SetupError: If llama.cpp cannot load the file.
            ModelError: If the prompt does not fit into the context, or llama.cpp fails.
            TruncatedError: If the answer does not fit.
        """
        process = await self._start()
        extra = {"return_progress": True, **request.settings.get("extra_body", {})}
        # Without chance, unless the caller wants it: the answer to a document repeats.
        settings = {"temperature": 0, **request.settings, "extra_body": extra}
        request = replace(request, max_retries=0, settings=settings)
        try:
            reply = await super().stream(request, tell)
        except ModelError as error:
            failure = await self._explain(error, process)
        else:
            used = reply.usage.input_tokens + reply.usage.output_tokens
            if reply.finish == "length" and used >= self._load.n_ctx:
                msg = (
                    f"{self.name}: the answer was truncated, because the context is full: "
                    f"n_ctx is {self._load.n_ctx:,} and the prompt takes "
                    f"{reply.usage.input_tokens:,} tokens. {self._remedy(2 * self._load.n_ctx)}"
                )
                raise TruncatedError(msg, text=reply.answer)
            return reply
        raise failure

    async def agent_model(self) -> models.Model:
        """Return the model object of pydantic-ai, with the file loaded."""
        await self._start()
        return await super().agent_model()

    async def aclose(self) -> None:
        """Close the connections, and free the model if no other session of this process uses it."""
        await super().aclose()
        await self._client.aclose()
        if self._process is not None:
            await _give_back(self._process)
            self._process = None

    async def _start(self) -> LlamaProcess:
        if self._process is not None and not self._process.running:
            ended, self._process = self._process, None
            await _give_back(ended)
        if self._process is None:
            self._process = acquire(self._load)
        process = self._process
        await process.wait_until_loaded()
        return process

    def _socket(self) -> str:
        if self._process is None:
            msg = f"{self.name} is not loaded, or closed"
            raise httpx2.ConnectError(msg)
        return self._process.socket

    async def _explain(self, error: ModelError, process: LlamaProcess) -> ModelError:
        """Return the error for the user of this file; the one of the HTTP API is about a server."""
        body = getattr(error.__cause__, "body", None)
        inner = body.get("error", body) if isinstance(body, dict) else None
        if isinstance(inner, dict) and inner.get("type") == "exceed_context_size_error":
            needed, room = inner.get("n_prompt_tokens", 0), inner.get("n_ctx", self._load.n_ctx)
            made = ModelError(
                f"{self.name}: the prompt has {needed:,} tokens and the context {room:,} "
                f"(n_ctx). {self._remedy(needed + 1_024)}",
                status=error.status,
            )
        elif error.status is None and await process.has_ended():
            made = ModelError(
                f"{self.name}: llama.cpp failed during the request: {process.describe_end()}. "
                "The next request loads the model again",
                retryable=True,
            )
        else:
            return error
        made.__cause__ = error
        return made

    def _remedy(self, tokens: int) -> str:
        more = -(-tokens // 1_024) * 1_024
        return (
            f"Shorten the prompt, or open the model with ?n_ctx={more} if it was trained for "
            "as many"
        )


class _Transport(httpx2.AsyncBaseTransport):
    """Transport to a Unix socket whose path may change."""

    def __init__(self, find_path: Callable[[], str]) -> None:
        self._find_path = find_path
        self._opened: tuple[str, httpx2.AsyncHTTPTransport] | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        path = self._find_path()
        if self._opened is None or self._opened[0] != path:
            await self.aclose()
            self._opened = path, httpx2.AsyncHTTPTransport(uds=path)
        return await self._opened[1].handle_async_request(request)

    async def aclose(self) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened[1], None
            await opened.aclose()


async def _give_back(process: LlamaProcess) -> None:
    kill = release(process)
    if kill is not None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(kill)
