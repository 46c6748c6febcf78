"""Adapter to the models of all providers, through pydantic-ai's request layer without its agents.

Only this module and `_history` know pydantic-ai. Both are imported when such a model is opened.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import SecretStr

from .._core._redact import SENT, Redactor, leads_to_secrets
from .._facts import ModelUsage
from ..errors import ModelError, SetupError, UsageError
from ._dialects import GRAMMAR_SERVERS
from ._model import MODES, Delta, Finish, Mode, ModelReply, ModelRequest
from ._publish import LLAMACPP, Published, find_lost_references, publish
from ._reduce import UnpublishableError

try:
    from pydantic_ai import direct, exceptions, messages, models
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

    from ._history import write_history
except ImportError as _error:
    _msg = f"models by name need pydantic-ai ({_error}); run: pip install 'ptc-host[models]'"
    raise SetupError(_msg) from _error

if TYPE_CHECKING:
    from pydantic_ai.models.batch import BatchRequest

    from ._batch import BatchApi

__all__ = ["ProviderAsModel", "model_error"]

_FINISH: Final[dict[str | None, Finish | None]] = {
    "stop": "stop",
    "tool_call": "stop",
    "length": "length",
    "content_filter": "refused",
    "error": None,
    None: None,
}
_TEST_MODELS = frozenset({"function", "test"})
"""pydantic-ai's own test models. They have no connection to lose, and report no finish reason."""
_REJECTION_STATUSES = frozenset({400, 404, 405, 422, 501})
"""Statuses by which a provider rejects a kind of request. Gateways also send 404 and 405, with an
explanation, if none of their providers supports it."""
_ABOUT_SCHEMA = re.compile(r"tool|function|schema|response_format|json|strict|thinking", re.I)
_MAX_ERROR_CHARS = 500
"""Characters of a provider's error in a message."""


class ProviderAsModel:
    """A model object of pydantic-ai as a `Model`."""

    def __init__(self, model: models.Model) -> None:
        self._model = model
        for name, value in _find_keys(model):
            SENT.remember(name, value)
        self._entered = False
        self._owned = False
        self._published: tuple[Mode, Mapping[str, Any], Published] | None = None

    @classmethod
    def from_source(cls, source: str | models.Model) -> ProviderAsModel:
        """Open a model by name, to be closed by `aclose`, or adapt an object of the caller.

        Raises:
            UsageError: If no provider or model has that name.
            SetupError: If the provider's package or key is missing.
        """
        if not isinstance(source, str):
            return cls(source)
        try:
            made = cls(_open_llamacpp(source) or models.infer_model(source))
        except exceptions.UserError as error:
            if str(error).startswith("Unknown model"):
                msg = (
                    f"there is no model {source!r:.80}; write provider:name as in pydantic-ai, "
                    'for example "openai:gpt-5" or "anthropic:claude-sonnet-4-5"'
                )
                raise UsageError(msg) from None
            # pydantic-ai's own text is for its users: it names classes of its providers.
            key = re.search(r"Set the `(\w+)` environment variable", str(error))
            if key is not None:
                msg = f"model {source!r} needs a key: set {key[1]} in the environment"
                raise SetupError(msg) from None
            msg = f"model {source!r} cannot be used here: {error}"
            raise SetupError(msg) from None
        except ImportError as error:
            # pydantic-ai names the extra that installs the provider's package.
            msg = f"model {source!r} cannot be used here: {error}"
            raise SetupError(msg) from None
        made._owned = True
        return made

    @property
    def name(self) -> str:
        """``provider:name``."""
        return f"{self._model.system}:{self._model.model_name}"

    @property
    def modes(self) -> tuple[Mode, ...]:
        """Modes in the order in which ``auto`` tries them."""
        return ("native", "tool", "prompt") if self._system in GRAMMAR_SERVERS else MODES

    @property
    def _system(self) -> str:
        return self._model.system

    def _publish(self, mode: Mode, schema: Mapping[str, Any]) -> Published:
        """Return `schema` as the provider accepts it; the last one is cached."""
        last = self._published
        if last is not None and last[0] == mode and last[1] is schema:
            return last[2]
        made = publish(self._system, mode, schema)
        self._published = (mode, schema, made)
        return made

    def why_not(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        """Check the model's profile, and whether the schema can be published."""
        try:
            profile = self._model.profile
        except NotImplementedError:
            # A model that delegates to other models has no profile in advance.
            return None
        if mode == "tool":
            if not profile.get("supports_tools", True):
                return f"{self.name} does not support tools"
            if not profile.get("supports_forced_tool_choice", True):
                return f"{self.name} cannot be forced to call a tool"
        if (
            mode == "native"
            and self._system != LLAMACPP
            and not profile.get("supports_json_schema_output", False)
        ):
            return f"{self.name} does not support structured output by JSON Schema"
        return self._schema_problem(mode, schema)

    def why_not_file(self, media_type: str) -> str | None:
        """Check whether the model takes files of a media type, as far as its profile says."""
        try:
            profile = self._model.profile
        except NotImplementedError:
            return None
        if media_type.startswith("image/"):
            takes = profile.get("supports_image_input", True)
        else:
            known = profile.get("supported_document_media_types", {media_type})
            takes = profile.get("supports_document_input", True) and media_type in known
        return None if takes else f"{self.name} does not take files of type {media_type}"

    def _file_error(self, request: ModelRequest, error: Exception) -> ModelError | None:
        """Convert an error of pydantic-ai about a file that it cannot write for the provider."""
        types = sorted({file.media_type for turn in request.turns for file in turn.files})
        if not types or not isinstance(error, NotImplementedError | RuntimeError):
            return None
        text = f"{self.name} does not take the files of the prompt ({', '.join(types)})"
        return ModelError(f"{text}: {_error_text(error)}")

    def _schema_problem(self, mode: Mode, schema: Mapping[str, Any]) -> str | None:
        request = ModelRequest(mode, "answer", "", schema, ())
        try:
            published = self._publish(mode, schema)
            _, prepared = self._model.prepare_request(
                self._settings(request), _parameters(request, published)
            )
        except NotImplementedError:
            return None
        except UnpublishableError as error:
            return f"{mode} structured output of {self.name} does not support {error}"
        except Exception as error:  # noqa: BLE001  # converters of schemas raise errors of any kind
            reason = f"{type(error).__name__}: {_error_text(error)}"
            return f"{self.name} does not support the schema: {reason}"
        sent = [tool.parameters_json_schema for tool in prepared.output_tools]
        sent += [prepared.output_object.json_schema] if prepared.output_object else []
        if lost := [reference for part in sent for reference in find_lost_references(part)]:
            # Some of pydantic-ai's converters inline definitions, but not everywhere.
            return f"{self.name} does not support the schema: it loses {lost[0]}"
        return None

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request and return the whole reply."""
        await self._enter()
        try:
            response = await direct.model_request(
                self._model,
                write_history(request, self._instructions(request)),
                model_settings=self._settings(request),
                model_request_parameters=self._parameters(request),
            )
        except Exception as error:
            failure = model_error(self.name, error) or self._file_error(request, error)
            if failure is None:
                raise
        else:
            return self._to_reply(response, request, streamed=False)
        raise failure

    async def stream(self, request: ModelRequest, tell: Callable[[Delta], None]) -> ModelReply:
        """Send a request, call `tell` with each delta, and return the whole reply."""
        await self._enter()
        reader = _DeltaReader(tell)
        try:
            async with self._open_stream(request) as stream:
                async for event in stream:
                    reader.take(event)
                response = stream.get()
        except Exception as error:
            failure = model_error(self.name, error) or self._file_error(request, error)
            if failure is None:
                raise
        else:
            return self._to_reply(response, request, streamed=True)
        raise failure

    async def agent_model(self) -> models.Model:
        """Return the model object of pydantic-ai, connected."""
        await self._enter()
        return self._model

    async def open_batches(self) -> BatchApi | None:
        """Open the provider's batch API; None if it has none.

        Raises:
            SetupError: If the installed pydantic-ai knows no batches.
        """
        try:
            from ._batch_providers import open_batches
        except ImportError as error:
            upgrade = "pip install -U 'ptc-host[models]'"
            msg = f"batches need a newer pydantic-ai ({error}); run: {upgrade}"
            raise SetupError(msg) from None
        await self._enter()
        return open_batches(self, self._model)

    def to_batch_request(self, request: ModelRequest, custom_id: str) -> BatchRequest:
        """Convert a request to one of a batch, with what `complete` would send."""
        from pydantic_ai.models.batch import BatchRequest

        return BatchRequest(
            custom_id=custom_id,
            messages=write_history(request, self._instructions(request)),
            model_settings=self._settings(request),
            model_request_parameters=self._parameters(request),
        )

    def to_reply(self, response: messages.ModelResponse, request: ModelRequest) -> ModelReply:
        """Convert an answer that came in a batch."""
        return self._to_reply(response, request, streamed=False)

    async def aclose(self) -> None:
        """Close the connections of a model that was opened by name."""
        if self._entered:
            self._entered = False
            await self._model.__aexit__(None, None, None)

    @asynccontextmanager
    async def _open_stream(self, request: ModelRequest) -> AsyncIterator[models.StreamedResponse]:
        async with direct.model_request_stream(
            self._model,
            write_history(request, self._instructions(request)),
            model_settings=self._settings(request),
            model_request_parameters=self._parameters(request),
        ) as stream:
            yield stream

    # -- what is sent ------------------------------------------------------------------------

    def _parameters(self, request: ModelRequest) -> models.ModelRequestParameters:
        return _parameters(request, self._publish(request.mode, request.schema))

    def _settings(self, request: ModelRequest) -> ModelSettings:
        settings: dict[str, Any] = dict(request.settings)
        extra: dict[str, Any] = {}
        if request.max_retries is not None:
            settings["max_retries"] = request.max_retries
        if request.idempotency_key is not None:
            # draft-ietf-httpapi-idempotency-key-header: the value is a string in quotes.
            headers = {"Idempotency-Key": f'"{request.idempotency_key}"'}
            settings["extra_headers"] = {**headers, **settings.get("extra_headers", {})}
        if request.mode == "tool":
            settings.setdefault("parallel_tool_calls", False)
        if self._system == LLAMACPP and request.mode == "native":
            # The form that the servers of llama.cpp and of its Python package both take.
            schema = self._publish(request.mode, request.schema).schema
            extra["response_format"] = {"type": "json_object", "schema": schema}
        if self._system in ("ollama", LLAMACPP) and "max_tokens" in settings:
            # They ignore `max_completion_tokens`, which pydantic-ai sends.
            extra["max_tokens"] = settings["max_tokens"]
        if extra:
            settings["extra_body"] = {**extra, **settings.get("extra_body", {})}
        return cast("ModelSettings", settings)

    def _instructions(self, request: ModelRequest) -> str:
        """Return the system instructions, with the schema if the server hides it."""
        if request.mode != "native" or self._system not in ("ollama", LLAMACPP):
            return request.system
        schema = json.dumps(self._publish(request.mode, request.schema).schema, ensure_ascii=False)
        text = (
            f"Answer with the {request.name} as JSON that conforms to this JSON Schema:\n{schema}"
        )
        return f"{request.system}\n\n{text}" if request.system else text

    async def _enter(self) -> None:
        if self._owned and not self._entered:
            self._entered = True
            await self._model.__aenter__()

    def _to_reply(
        self, response: messages.ModelResponse, request: ModelRequest, *, streamed: bool
    ) -> ModelReply:
        usage = response.usage
        calls = [part for part in response.parts if isinstance(part, messages.ToolCallPart)]
        return ModelReply(
            text=_REDACTOR.text(response.text or ""),
            arguments=tuple(_REDACTOR.text(_arguments_text(call.args)) for call in calls),
            finish=self._finish(response, streamed=streamed),
            usage=ModelUsage(
                requests=1,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
            ),
            raw=response,
        )

    def _finish(self, response: messages.ModelResponse, *, streamed: bool) -> Finish | None:
        finish = _FINISH.get(response.finish_reason)
        if response.finish_reason is None and self._model.system in _TEST_MODELS:
            return "stop"
        said = (response.provider_details or {}).get("finish_reason")
        if streamed and finish == "stop" and said is None:
            # pydantic-ai reports "stop" for a stream that ended without a reason, for example
            # after a lost connection: only the provider's own report counts.
            return None if self._model.system not in _TEST_MODELS else "stop"
        return finish


_KEY = re.compile(r"(^|_)(api_?key|access_?key|auth_?token|token|secret|password)$", re.I)
_CLIENT = re.compile(r"client|provider|models?$|wrapped|credentials|session", re.I)
_MAX_OBJECTS = 40


def _find_keys(model: object) -> Iterator[tuple[str, str]]:
    """Yield the keys that a model's client sends, if they are attributes of it."""
    todo, seen = [model], 0
    while todo and seen < _MAX_OBJECTS:
        thing, seen = todo.pop(0), seen + 1
        names = vars(thing) if hasattr(thing, "__dict__") else {}
        for name, value in list(names.items()):
            if isinstance(value, SecretStr):
                value = value.get_secret_value()
            if isinstance(value, str) and _KEY.search(name):
                yield f"{name.strip('_')} of {type(model).__name__}", value
            elif _CLIENT.search(name):
                todo += value if isinstance(value, list | tuple) else [value]


class _DeltaReader:
    """Extracts the text and the arguments of the first call from pydantic-ai's events."""

    def __init__(self, tell: Callable[[Delta], None]) -> None:
        self._tell = tell
        self._call: int | None = None

    def take(self, event: Any) -> None:
        if isinstance(event, messages.PartStartEvent):
            if isinstance(event.part, messages.TextPart):
                self._report(event.part.content)
            elif isinstance(event.part, messages.ToolCallPart):
                if self._call is None:
                    self._call = event.index
                if self._call == event.index and event.part.args:
                    self._report(_arguments_text(event.part.args), in_call=True)
        elif isinstance(event, messages.PartDeltaEvent):
            delta = event.delta
            if isinstance(delta, messages.TextPartDelta):
                self._report(delta.content_delta)
            elif (
                isinstance(delta, messages.ToolCallPartDelta)
                and event.index == self._call
                and isinstance(delta.args_delta, str)
            ):
                self._report(delta.args_delta, in_call=True)

    def _report(self, text: str, *, in_call: bool = False) -> None:
        if text:
            self._tell(Delta(text, in_call))


def _open_llamacpp(source: str) -> models.Model | None:
    """Open ``llamacpp:NAME``, a server of llama.cpp; None for any other name.

    Raises:
        ImportError: If the package of OpenAI's API is missing.
    """
    kind, _, name = source.partition(":")
    if kind != LLAMACPP:
        return None
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    url = os.environ.get("LLAMACPP_BASE_URL", "http://127.0.0.1:8080/v1")
    key = os.environ.get("LLAMACPP_API_KEY")
    return OpenAIChatModel(name, provider=OpenAICompatibleProvider(kind, base_url=url, api_key=key))


def _parameters(request: ModelRequest, published: Published) -> models.ModelRequestParameters:
    if request.mode == "tool":
        tool = ToolDefinition(
            name=request.name,
            parameters_json_schema=published.schema,
            description=request.description,
            strict=published.strict,
            kind="output",
        )
        return models.ModelRequestParameters(
            output_mode="tool", output_tools=[tool], allow_text_output=False
        )
    if request.mode == "native" and not published.as_text:
        form = OutputObjectDefinition(
            json_schema=published.schema,
            name=request.name,
            description=request.description,
            strict=published.strict,
        )
        return models.ModelRequestParameters(output_mode="native", output_object=form)
    return models.ModelRequestParameters()


def _arguments_text(arguments: str | Mapping[str, Any] | None) -> str:
    """Return arguments as text; some providers return them parsed."""
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments if arguments is not None else {}, ensure_ascii=False)


def model_error(name: str, error: Exception) -> ModelError | None:
    """Convert an error of pydantic-ai or a provider's package; None for any other error.

    Raise the result outside `except`: the answer of a provider may contain the key.
    """
    SENT.failed(error)
    if isinstance(error, exceptions.ModelHTTPError):
        status = error.status_code
        context = isinstance(error, exceptions.ModelContextWindowExceededError)
        about_schema = status in (400, 422) or _ABOUT_SCHEMA.search(str(error.body)) is not None
        made = ModelError(
            f"{name}: HTTP {status}: {_error_text(error.body)}",
            status=status,
            # Money that is used up comes back as 429, too.
            retryable=not isinstance(error, exceptions.ModelQuotaExceededError)
            and (status in (408, 409, 429) or status >= 500),
            refused=status in _REJECTION_STATUSES and about_schema and not context,
            retry_after=error.retry_after,
        )
    elif isinstance(error, exceptions.ModelConnectionError):
        msg = f"{name} is unreachable, or the connection was lost: {_error_text(error)}"
        lost = error.phase == "read" and not isinstance(error, exceptions.ModelTimeoutError)
        made = ModelError(msg, retryable=True, lost=lost)
    elif isinstance(error, exceptions.ModelRequestRejectedError | exceptions.UserError):
        # The provider, or the library itself, rejects such a request.
        made = ModelError(f"{name}: {_error_text(error)}", refused=True)
    elif isinstance(error, exceptions.ModelAPIError):
        made = ModelError(f"{name}: {_error_text(error)}", retryable=True)
    elif isinstance(error, exceptions.AgentRunError):
        made = ModelError(f"{name}: {_error_text(error)}")
    else:
        return None
    if not leads_to_secrets(error, _REDACTOR):
        made.__cause__ = error
    return made


_REDACTOR: Final = Redactor({})
"""Redacts the credentials that this process sent."""


def _error_text(thing: Any) -> str:
    if isinstance(thing, dict):
        inner = thing.get("error", thing)
        thing = inner.get("message", thing) if isinstance(inner, dict) else thing
    text = " ".join(_REDACTOR.error_text(str(thing)).split())
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}..."
