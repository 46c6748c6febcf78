"""The same session for people without an event loop: one thread runs it, calls block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, overload

from .._calls._scope import AfterSideEffect
from .._config._session_arguments import ApplicationOptions
from .._facts import Layer
from .._records._limits import Limits
from .._records._result import Finding, RunEvent, RunResult
from .._runs._announce import OnApproval
from .._runs._history import MAX_ATTEMPTS
from .._runs._lazy_journal import JournalSource
from .._runs._program import NonFinite, ProgramOptions, UntypedOptions
from .._runs._program_tool import DefinitionStyle
from .._runs._violation import Violation
from .._runs._webhook import Webhook
from .._telemetry._settings import TelemetryOption
from .._tools._allow import Allow, AllowList
from .._tools._approval import Approver
from .._tools._catalog import Namespace
from .._tools._search import Found
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from .._tools._toolset import ToolSource
from .._tools._untrusted import UntrustedMode
from .._workers._choose import EngineName
from ..errors import SessionClosedError
from ._artifacts import ArtifactSource
from ._blocking_agents import BlockingAgents
from ._blocking_generation import BlockingGeneration
from ._blocking_runs import BlockingRuns
from ._loop_thread import LoopThread
from ._session import Session
from ._tool_session import attribute_names

if TYPE_CHECKING:
    from ..models._open import ModelSource

__all__ = ["BlockingSession"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class BlockingSession(BlockingAgents, BlockingGeneration, BlockingRuns):
    """`Session` with plain methods instead of async ones; a context manager.

    ::

        with BlockingSession(root=".") as session:
            text = session.call(read, path="README.md")
            result = session.program(path="find.py", allowed_tools=["grep"])

    An event loop in a thread of its own runs the session. Methods may be called from any thread.
    """

    _closed = False

    def __init__(
        self,
        root: str | Path = ".",
        *,
        tools: Iterable[ToolSource] = (),
        toolsets: Iterable[str] = ("builtin",),
        limits: Limits | None = None,
        ceiling: Limits | None = None,
        allowed_tools: AllowList | None = None,
        engine: EngineName = "auto",
        isolation: str = "jail",
        packages: Iterable[str] = (),
        non_finite: NonFinite = "null",
        unprotected: Iterable[str] = (),
        protected: Iterable[str | Path] = (),
        workers: int = 4,
        reuse_workers: bool = False,
        max_concurrent_runs: int = 16,
        artifacts: ArtifactSource | None = None,
        approver: Approver | None = None,
        on_approval: OnApproval | None = None,
        env: Mapping[str, Any] | None = None,
        after_side_effect: AfterSideEffect | None = None,
        journal: JournalSource | None = None,
        journal_in_root: bool = False,
        approvals_expire_ms: int | None = None,
        retention_days: int | None = None,
        retention_runs: int | None = None,
        retention_bytes: int | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        store_source: bool = True,
        webhook: Webhook | str | None = None,
        model: ModelSource | None = None,
        models: Mapping[str, ModelSource] | None = None,
        agents: str | Path | Iterable[str | Path] | None = (),
        on_event: Callable[[RunEvent], None] | None = None,
        record_direct_calls: bool = False,
        programs: str | Path | None = None,
        untrusted: UntrustedMode | None = None,
        telemetry: TelemetryOption = None,
    ) -> None:
        """Describe a session, as `Session` does; nothing is started."""
        self._session = Session(
            root,
            tools=tools,
            toolsets=toolsets,
            limits=limits,
            ceiling=ceiling,
            allowed_tools=allowed_tools,
            engine=engine,
            isolation=isolation,
            packages=packages,
            non_finite=non_finite,
            unprotected=unprotected,
            protected=protected,
            workers=workers,
            reuse_workers=reuse_workers,
            max_concurrent_runs=max_concurrent_runs,
            artifacts=artifacts,
            approver=approver,
            on_approval=on_approval,
            env=env,
            after_side_effect=after_side_effect,
            journal=journal,
            journal_in_root=journal_in_root,
            approvals_expire_ms=approvals_expire_ms,
            retention_days=retention_days,
            retention_runs=retention_runs,
            retention_bytes=retention_bytes,
            max_attempts=max_attempts,
            store_source=store_source,
            webhook=webhook,
            model=model,
            models=models,
            agents=agents,
            on_event=on_event,
            record_direct_calls=record_direct_calls,
            programs=programs,
            untrusted=untrusted,
            telemetry=telemetry,
        )
        self._stack = ExitStack()
        self._thread: LoopThread | None = None

    @classmethod
    def from_config(
        cls,
        root: str | Path | None = None,
        *,
        config: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
        tools: Iterable[ToolSource] = (),
        env: Mapping[str, Any] | None = None,
        **options: Unpack[ApplicationOptions],
    ) -> Self:
        """Create a session from the configuration of a folder, as `Session.from_config` does."""
        made = cls.__new__(cls)
        made._session = Session.from_config(
            root, config=config, settings=settings, tools=tools, env=env, **options
        )
        made._stack = ExitStack()
        made._thread = None
        return made

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            thread = stack.enter_context(LoopThread())
            stack.enter_context(thread.enter(self._session, lambda _: None))
            self._thread = thread
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread, self._closed = None, True
        # With the exception, so that an interrupted call that is still running is cancelled.
        self._stack.__exit__(exc_type, exc, traceback)

    def close(self) -> None:
        """Close the session, as `Session.aclose` does. Leaving the block does that, too."""
        self.__exit__(None, None, None)

    # --- without waiting --------------------------------------------------------------------

    @property
    def root(self) -> Path:
        """As `Session.root`."""
        return self._session.root

    @property
    def allowed_tools(self) -> tuple[str | Allow, ...] | None:
        """As `Session.allowed_tools`."""
        return self._session.allowed_tools

    @property
    def limits(self) -> Limits:
        """As `Session.limits`."""
        return self._session.limits

    @property
    def ceiling(self) -> Limits:
        """As `Session.ceiling`."""
        return self._session.ceiling

    @property
    def is_warm(self) -> bool:
        """As `Session.is_warm`."""
        return self._session.is_warm

    @property
    def engine(self) -> str:
        """As `Session.engine`."""
        return self._session.engine

    @property
    def violations(self) -> tuple[Violation, ...]:
        """As `Session.violations`."""
        return self._session.violations

    @property
    def knows_all_tools(self) -> bool:
        """As `Session.knows_all_tools`."""
        return self._session.knows_all_tools

    def tool_names(self) -> list[str]:
        """As `Session.tool_names`."""
        return self._session.tool_names()

    def tool_definitions(self, allowed_tools: AllowList | None = None) -> list[dict[str, Any]]:
        """As `Session.tool_definitions`."""
        return self._session.tool_definitions(allowed_tools)

    def describe_tools(
        self,
        allowed_tools: AllowList | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> str:
        """As `Session.describe_tools`."""
        return self._session.describe_tools(allowed_tools, limits)

    def program_definition(
        self,
        style: DefinitionStyle,
        allowed_tools: AllowList | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """As `Session.program_definition`."""
        return self._session.program_definition(style, allowed_tools, limits)

    def search_tools(
        self, query: str, allowed_tools: AllowList | None = None, limit: int = 10
    ) -> list[Found]:
        """As `Session.search_tools`."""
        return self._session.search_tools(query, allowed_tools, limit)

    def select_tools(self, allowed_tools: AllowList | None = None) -> dict[str, Tool]:
        """As `Session.select_tools`."""
        return self._session.select_tools(allowed_tools)

    # --- calls ------------------------------------------------------------------------------

    def tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        allowed_tools: AllowList | None = None,
    ) -> ToolResult:
        """As `Session.tool`."""
        return self._wait(
            partial(
                self._session.tool,
                name,
                arguments,
                idempotency_key=idempotency_key,
                allowed_tools=allowed_tools,
            )
        )

    @overload
    def call(self, tool: Tool[_P, Awaitable[_T]], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
    @overload
    def call(self, tool: Tool[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
    def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """As `Session.call`."""
        return self._wait(partial(self._session.call, tool, *args, **kwargs))

    def warm_up(self) -> tuple[Layer, ...]:
        """As `Session.warm_up`."""
        return self._wait(self._session.warm_up)

    # --- programs ---------------------------------------------------------------------------

    @overload
    def program(
        self,
        *,
        output_schema: type[_T],
        on_event: Callable[[RunEvent], None] | None = None,
        **options: Unpack[UntypedOptions],
    ) -> RunResult[_T]: ...
    @overload
    def program(
        self,
        *,
        on_event: Callable[[RunEvent], None] | None = None,
        **options: Unpack[ProgramOptions],
    ) -> RunResult: ...
    def program(
        self,
        *,
        source: str | None = None,
        path: str | Path | None = None,
        inputs: Mapping[str, Any] | None = None,
        allowed_tools: AllowList | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        output_schema: Any = None,
        filename: str | None = None,
        env: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult:
        """As `Session.program`; `on_event` is called in the thread of the event loop."""
        return self._wait(
            partial(
                self._session.program,
                source=source,
                path=path,
                inputs=inputs,
                allowed_tools=allowed_tools,
                limits=limits,
                output_schema=output_schema,
                filename=filename,
                env=env,
                run_id=run_id,
                on_event=on_event,
            )
        )

    def stream(
        self,
        tool: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **program: Unpack[ProgramOptions],
    ) -> AbstractContextManager[Iterator[RunEvent]]:
        """As `Session.stream`, with a plain ``with`` and a plain ``for``."""
        events = self._session.stream(tool, arguments, **program)
        return self._open().enter(events, self._iterate)

    def check(
        self,
        *,
        source: str | None = None,
        path: str | Path | None = None,
        allowed_tools: AllowList | None = None,
        filename: str | None = None,
    ) -> tuple[Finding, ...]:
        """As `Session.check`."""
        return self._wait(
            partial(
                self._session.check,
                source=source,
                path=path,
                allowed_tools=allowed_tools,
                filename=filename,
            )
        )

    def __repr__(self) -> str:
        return repr(self._session).replace("Session", type(self).__name__, 1)

    def _repr_html_(self) -> str:
        """Return the display of a notebook: the tools."""
        return self._session._repr_html_()

    if not TYPE_CHECKING:
        # Hidden from type checkers, as in `Session`.
        def __getattr__(self, name: str) -> Callable[..., Any]:
            if name.startswith("_"):
                raise AttributeError(name)
            return self._block(getattr(self._session, name))

        def _block(self, found: Any) -> Any:
            if isinstance(found, Namespace):
                return found.map(self._block)
            return lambda *args, **arguments: self._wait(partial(found, *args, **arguments))

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *attribute_names(self._session)]

    def _iterate(self, events: AsyncIterator[RunEvent]) -> Iterator[RunEvent]:
        while True:
            try:
                event = self._wait(events.__anext__)
            except StopAsyncIteration:
                return
            yield event

    def _wait(self, function: Callable[[], Awaitable[_T]]) -> _T:
        """Call in the session's thread and wait.

        Ctrl-C during the wait is raised only after the call has been cancelled and has finished, so
        that no script continues behind the caller's back.
        """
        return self._open().call(function)

    def _open(self) -> LoopThread:
        if self._thread is None:
            word = "is closed" if self._closed else "is not open: use `with`"
            msg = f"the session {word}"
            raise SessionClosedError(msg)
        return self._thread
