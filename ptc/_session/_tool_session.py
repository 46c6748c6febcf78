"""Tools of a session, and direct calls of them: all that needs no script."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, overload

from .._calls._direct import DirectCalls
from .._core._arguments import mapping_of, parts_of, require, require_range
from .._core._lifetime import Lifetime
from .._records._display import session_html
from .._tools._allow import AllowList
from .._tools._catalog import Catalog, Method, Namespace
from .._tools._search import Found
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from .._tools._toolset import ToolSource, installed_toolset
from ..errors import UsageError

if TYPE_CHECKING:
    from .._agents._kinds import AgentKinds
    from .._extraction._documents import DocumentSource
    from .._extraction._extraction import Extraction
    from .._extraction._options import ExtractOptions
    from .._extraction._record import OpenDocuments
    from .._generation._elements import ElementStream
    from .._generation._generate import Generated
    from .._generation._prompt import Prompt
    from .._generation._question import GenerateOptions
    from ..models._open import ModelSource, OpenModels

__all__ = ["ToolSession", "attribute_names", "collect_tools"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ToolSession:
    """Describes tools and calls them. An async context manager, for asyncio and trio.

    It runs no scripts, and so has no workers and no journal: `Session` adds them.
    """

    def __init__(
        self, catalog: Catalog, models: OpenModels | None, root: Path, direct: DirectCalls
    ) -> None:
        """Configure a session; nothing is started.

        Args:
            catalog: The tools.
            models: Models of the session; None: it has no default model.
            root: The folder the tools are confined to, resolved.
            direct: Makes the calls.
        """
        self._catalog = catalog
        self._root = root
        self._models = models
        self._direct = direct
        self._lifetime = Lifetime()
        self._open_documents: OpenDocuments | None = None
        self.explain: Callable[[UsageError], UsageError] | None = None
        """Names the source of a configured value in an error of opening the session."""

    async def __aenter__(self) -> Self:
        self._lifetime.open()
        try:
            await self._catalog.open()
            self._check_tools()
        except UsageError as error:
            await self.aclose()
            raise (error if self.explain is None else self.explain(error)) from None
        except BaseException:
            await self.aclose()
            raise
        return self

    def _check_tools(self) -> None:
        """Check options that name tools, once all tools are known."""

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to models and to servers of tools."""
        await self._lifetime.close(self._close_connections)

    async def _close_connections(self) -> None:
        try:
            if self._models is not None:
                await self._models.aclose()
        finally:
            await self._catalog.aclose()

    def _open_models(self) -> OpenModels:
        if self._models is None:
            from ..models._open import OpenModels

            self._models = OpenModels()
        return self._models

    # --- tools ------------------------------------------------------------------------------

    @property
    def root(self) -> Path:
        """The folder the tools are confined to, resolved."""
        return self._root

    @property
    def knows_all_tools(self) -> bool:
        """True if all tools are known; False until a session with tools of servers is open."""
        return self._catalog.is_complete

    def tool_names(self) -> list[str]:
        """Names of the tools, in the order they were given; see `knows_all_tools`."""
        return list(self._catalog.tools)

    def tool_definitions(self, allowed_tools: AllowList | None = None) -> list[dict[str, Any]]:
        """Return each tool as a model reads it: ``{"name", "description", "parameters"}``.

        Args:
            allowed_tools: Names, patterns and rules, as for `program`. None: all tools.

        Raises:
            UsageError: If the session lacks a tool of `allowed_tools`.
        """
        chosen = self._catalog.tools if allowed_tools is None else self.select_tools(allowed_tools)
        return [tool.definition for tool in chosen.values()]

    def search_tools(
        self, query: str, allowed_tools: AllowList | None = None, limit: int = 10
    ) -> list[Found]:
        """Return the tools that match the words of `query`, best first, as ``ctx`` does.

        Args:
            query: Words that describe the task of the tool.
            allowed_tools: Tools to search, as for `program`.
            limit: Tools to return at most, 1 to 100.

        Raises:
            UsageError: If the session lacks a tool of `allowed_tools`.
        """
        require("query", query, str, "text")
        require_range("limit", limit, 100)
        return self._catalog.table(allowed_tools).index.find(query, limit)

    def select_tools(self, allowed_tools: AllowList | None = None) -> dict[str, Tool]:
        """Return the tools of an allow-list by name. None: all without a side effect.

        Raises:
            UsageError: If a name is unknown; the message suggests the nearest ones.
        """
        return self._catalog.select(allowed_tools)

    # --- calls ------------------------------------------------------------------------------

    @overload
    async def call(
        self, tool: Tool[_P, Awaitable[_T]], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...
    @overload
    async def call(self, tool: Tool[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
    async def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool of the session with its own parameters, and return its value.

        ::

            text = await session.call(read, path="README.md")

        Type checkers know the parameters and the type of the value from the tool.

        Raises:
            ToolError: If the call fails.
            UsageError: If the session lacks the tool, or has another one of its name.
            TypeError: If the tool does not take these arguments.
        """
        return await self._catalog.method_of(tool, self.tool)(*args, **kwargs)

    async def tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        allowed_tools: AllowList | None = None,
    ) -> ToolResult:
        """Call a tool by name. A failure is part of the result, not an exception.

        Args:
            name: Name of the tool.
            arguments: Arguments, as its schema requires.
            idempotency_key: Value of `ToolContext.idempotency_key` for the tool. Pass the same key
                for the same logical call.
            allowed_tools: Allow-list for this call and for the calls that its tool makes, as for
                `program`. None: any tool.

        Raises:
            UsageError: If the session lacks the tool, or the key is not text.
        """
        self._lifetime.check_open()
        return await self._direct.run(name, arguments, idempotency_key, allowed_tools)

    @overload
    async def generate_object(
        self, schema: type[_T], prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> Generated[_T]: ...
    @overload
    async def generate_object(
        self, schema: Any, prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> Generated[Any]: ...
    async def generate_object(
        self, schema: Any, prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> Generated[Any]:
        """Generate an object that conforms to a schema; send violations back to the model.

        ::

            invoice = (await session.generate_object(Invoice, text)).object

        Unambiguous damage is repaired without the model (`ptc.structured.recover`). Any number of
        requests may be in flight.

        Args:
            schema: A JSON Schema, a pydantic model or any type; the root may be a list or a scalar.
            prompt: The task, with all that the model needs to know: a text; a list of texts and
                files (`pathlib.Path`, `Attachment`, `AttachmentRef`, `ImageContent`); or a list of
                messages ``{"role": "user", "content": ...}``, of which the last is the user's.
            **options: See `GenerateOptions`.

        Raises:
            UsageError: If an argument is wrong, the session has no model, the model lacks the
                requested mode, or no value can conform to `schema`; raised before any request.
            SetupError: If the package or the key of a provider is missing.
            GenerationError: If no answer conforms.
            TruncatedError: If an answer was truncated.
            ModelError: If the request failed, or took longer than `timeout_ms`.
            SessionClosedError: If the session is not open.
        """
        self._lifetime.check_open()
        from .._generation._generate import generate_object

        return await generate_object(self._open_models(), schema, prompt, **options)

    @overload
    def stream_elements(
        self, schema: type[_T], prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> AbstractAsyncContextManager[ElementStream[_T]]: ...
    @overload
    def stream_elements(
        self, schema: Any, prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> AbstractAsyncContextManager[ElementStream[Any]]: ...
    def stream_elements(
        self, schema: Any, prompt: Prompt, **options: Unpack[GenerateOptions]
    ) -> AbstractAsyncContextManager[ElementStream[Any]]:
        """Generate a list of objects and yield each as soon as it is complete.

        ::

            async with session.stream_elements(Invoice, text) as invoices:
                async for invoice in invoices:
                    print(invoice)
            print(invoices.result.usage)

        Each object conforms, and is yielded once and in order. Leaving the block early cancels the
        request. Objects stay valid if the model is asked again, after a repair or a lost
        connection: its new answer must start with them, and the iteration continues behind them.

        Args:
            schema: Schema of one object, as for `generate_object`.
            prompt: As for `generate_object`.
            **options: See `GenerateOptions`. Validators and `on_partial` receive the whole list.

        Raises:
            ElementsChangedError: If the accepted answer does not start with the yielded objects.
                Like all other errors of `generate_object`, it is raised by the iteration, after
                the objects that were complete before.
            UsageError: If `schema` is invalid.
            SessionClosedError: If the session is not open.
        """
        self._lifetime.check_open()
        from .._generation._elements import open_elements

        return open_elements(self._open_models(), schema, prompt, dict(options))

    @overload
    def extract_many(
        self, documents: DocumentSource, schema: type[_T], **options: Unpack[ExtractOptions]
    ) -> AbstractAsyncContextManager[Extraction[_T]]: ...
    @overload
    def extract_many(
        self, documents: DocumentSource, schema: Any, **options: Unpack[ExtractOptions]
    ) -> AbstractAsyncContextManager[Extraction[Any]]: ...
    def extract_many(
        self, documents: DocumentSource, schema: Any, **options: Unpack[ExtractOptions]
    ) -> AbstractAsyncContextManager[Extraction[Any]]:
        """Extract an object from each of many documents.

        ::

            async with session.extract_many("invoices/", Invoice, output="rows.jsonl") as rows:
                async for row in rows:
                    print(row.id, row.status, row.object)
            print(rows.report)

        All requests share the limits on concurrency and rates, and wait together while the provider
        asks to. Each row is written to `output` before it is yielded; a document with a row there
        is not sent again. Leaving the block early cancels the requests in flight; `Extraction.stop`
        finishes them.
        The journal of the session records the progress, which `ptc ui` shows.

        Args:
            documents: A folder, file, glob or JSONL file with the texts ``id`` and ``text`` in each
                line, or an iterable or async iterable of `Document`, `pathlib.Path` and
                ``{"id": ..., "text": ...}``.
            schema: As for `generate_object`.
            **options: See `ExtractOptions`.

        Raises:
            UsageError: If an argument is wrong, no document is found, two have the same id, or the
                output holds other data.
            SetupError: If the package or the key of a provider is missing, or the output cannot be
                written.
            ModelError: If the provider refuses every request; raised by the iteration, after the
                rows that were finished.
            SessionClosedError: If the session is not open.
        """
        self._lifetime.check_open()
        from .._extraction._extraction import open_extraction

        models = self._open_models()
        return open_extraction(models, documents, schema, dict(options), self._open_documents)

    def __repr__(self) -> str:
        catalog: Catalog | None = self.__dict__.get("_catalog")
        tools = 0 if catalog is None else len(catalog.tools)
        name, root = type(self).__name__, self.__dict__.get("_root", "")
        return f"<{name} root={str(root)!r:.200} tools={tools}>"

    def _repr_html_(self) -> str:
        """Return the display of a notebook: the tools."""
        return session_html(
            repr(self).strip("<>"),
            [
                (tool.name, "side effect" if tool.side_effect else "", tool.description)
                for tool in self._catalog.tools.values()
            ],
        )

    if not TYPE_CHECKING:
        # Hidden from type checkers: to them a misspelt method of the session is an error.
        def __getattr__(self, name: str) -> Method | Namespace:
            catalog: Catalog = self.__dict__.get("_catalog") or Catalog(())
            return catalog.attribute(name, self.tool)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *attribute_names(self)]


def attribute_names(session: ToolSession) -> list[str]:
    """List the tools and namespaces that are attributes of a session."""
    catalog: Catalog | None = session.__dict__.get("_catalog")
    return [] if catalog is None else catalog.attribute_names()


def collect_tools(
    tools: Iterable[ToolSource],
    toolsets: Iterable[str],
    model: ModelSource | None,
    kinds: AgentKinds | None = None,
    *,
    models: Mapping[str, ModelSource] | None = None,
) -> tuple[Catalog, OpenModels | None]:
    """Collect the tools of a session; with a model, those that need one are among them.

    Raises:
        UsageError: If an argument is wrong, two tools share a name, or a toolset is unknown.
    """
    named = parts_of("toolsets", toolsets, "a list of names")
    given = parts_of("tools", tools, "a list of tools")
    sources = [*(installed_toolset(name) for name in named), *given]
    offered = mapping_of("models", models, "a dict by name")
    opened = None
    if model is None and offered:
        msg = "models needs model: the model of calls that name none"
        raise UsageError(msg)
    if model is not None:
        from .._generation._tool import generate_object_tool
        from ..models._open import OpenModels

        opened = OpenModels(model, offered)
        sources.append(generate_object_tool(opened))
        if kinds is not None:
            from .._agents._task_tools import task_tools

            sources += task_tools(kinds)
    return Catalog(sources), opened
