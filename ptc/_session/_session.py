"""The public API: a session of tools, limits and workers, which runs scripts and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from .._agents._handles import BackgroundTasks
from .._agents._kinds import AgentKinds
from .._calls._attachments import AttachmentStore
from .._calls._direct import DirectCalls
from .._calls._scope import AfterSideEffect, Shared, validate_protected, validate_unprotected
from .._calls._subscribers import SessionSubscriber
from .._config._session_arguments import ApplicationOptions, configured_arguments
from .._config._tool_files import named_files
from .._core._arguments import (
    folder_of,
    mapping_of,
    parts_of,
    require,
    require_function,
    require_range,
)
from .._core._interpreter import require_reviewed_interpreter
from .._facts import Layer
from .._programs._programs import SavedPrograms
from .._records._limits import Limits
from .._records._result import RunEvent
from .._runs._announce import OnApproval
from .._runs._ceiling import LimitPolicy
from .._runs._direct_journal import DirectJournal
from .._runs._history import MAX_ATTEMPTS, History
from .._runs._lazy_journal import JournalSource
from .._runs._nested_programs import NestedPrograms
from .._runs._packages import validate_packages
from .._runs._program import NonFinite, validate_non_finite
from .._runs._program_tool import PROGRAM, program_tool
from .._runs._programs import ProgramBuilder
from .._runs._retention import Retention
from .._runs._runner import ProgramRunner
from .._runs._runs import Executor
from .._runs._submissions import QueuedRuns
from .._runs._violation import Violation
from .._runs._webhook import Webhook
from .._telemetry._names import Attribute, Metric
from .._telemetry._run_span import GaugeSource
from .._telemetry._settings import TelemetryOption, validate_telemetry
from .._tools._allow import AllowList
from .._tools._approval import Approver
from .._tools._environment import environment_of
from .._tools._toolset import ToolSource
from .._tools._untrusted import UntrustedMode, validate_mode
from .._workers._choose import (
    EngineName,
    EngineOptions,
    Engines,
    possible_engine,
    validate_engine,
    validate_reuse,
)
from .._workers._engine import Engine
from .._workers._isolation import validate_isolation
from ..errors import UsageError
from ._agent_session import AgentSession
from ._artifacts import ArtifactSource, artifacts_of
from ._queue_session import QueueSession
from ._tool_session import collect_tools

if TYPE_CHECKING:
    from ..models._open import ModelSource

__all__ = ["Session", "report_gauges"]

_T = TypeVar("_T")


class Session(AgentSession, QueueSession):
    """Runs scripts and calls tools. An async context manager, for asyncio and trio.

    ::

        async with Session(root=".") as session:
            result = await session.program(source=text, allowed_tools=["grep", "read"])
            readme = await session.call(read, path="README.md")

    `call` is typed by the tool. Each tool is also a method, for use at a prompt:
    ``await session.read(path=...)``. Type checkers do not see these methods, so that a misspelt
    method of the session is an error.
    """

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
        """Configure a session; nothing is started.

        Args:
            root: Folder that confines the tools.
            tools: Your own tools, toolsets or plain functions; and servers of tools
                (`ptc_bindings.mcp_tools`), which are started when the session opens.
            toolsets: Names of installed toolsets; ``()`` for none.
            limits: Default limits of a run. Default: `Limits()`.
            ceiling: Highest limits that a run may request. Default: ten minutes, 10,000 calls, 2
                GiB of memory, or `limits` where those are higher.
            allowed_tools: Allow-list of a script whose caller passes none, as for `program`. None:
                all tools without a side effect.
            isolation: ``"jail"`` requires every kernel layer, or refuses to run scripts.
                ``"process"`` uses the layers that the kernel has; where seccomp or Landlock is
                missing, one bug in the language layer gives a script your own user's rights.
            engine: ``"process"``: scripts run in processes that the kernel confines, on Linux.
                ``"wasm"``: in WebAssembly (extra ``ptc-host[wasm]``), on every system. ``"auto"``:
                in processes if this machine has every kernel layer, otherwise in WebAssembly if it
                is installed. See docs/engines.md.
            packages: Installed packages that scripts may import, such as ``["numpy"]``, by module
                name; ``"data"`` stands for numpy, pandas and matplotlib. Default: none. Packages
                are not audited (numpy opens files and reads memory), so with one of them only the
                kernel layer confines a script. Each also costs its memory once for each session,
                and a slower start; see docs/limitations.md.
            non_finite: Form of NaN and the infinities in the values of scripts, which JSON lacks:
                ``"null"`` with a warning, ``"text"`` (``"NaN"``, ``"Infinity"``, ``"-Infinity"``),
                or ``"error"``, which fails the run.
            unprotected: Protected paths that tools may change nevertheless, such as
                ``[".vscode", "git"]``: names of files, folders or rules in the table of
                docs/security.md. Your editor, shell or git may execute content written there with
                your rights, so a script that may write is then no longer confined.
            protected: Further files and folders in the root that no tool may change, relative to
                it. The files of tools that the configuration of the root names are among them.
            workers: Worker processes kept ready, 1 to 64. Open sessions of an event loop that need
                equal sandboxes divide them. Each costs about 1.5 MB.
            reuse_workers: True: after a run that completed or failed, its process is restored to
                what it was before, byte for byte, and serves another run of this session. That
                takes less than half of the CPU time of a new process, and the kernel no longer
                separates one run from the next: see docs/security.md. Linux 6.7 on x86-64; where
                it is unavailable, which is logged, each run gets a process of its own. Not
                together with `packages`.
            max_concurrent_runs: Runs at once, 1 to 256; further runs wait in order.
            artifacts: Folder for values over `Limits.max_output_bytes`, and attachments. Default:
                ``.ptc/artifacts`` below `root`, created on first use. An address such as
                ``s3://bucket/prefix`` (extra ``ptc-host[s3]``), or a `ptc.artifacts.ArtifactStore`,
                shares them among machines; the default folder is then its cache. If the journal is
                in PostgreSQL, that database is the default.
            approver: Decides about calls that require approval while they wait, in this process.
                None: such calls pause their run until `approve` or `reject`; a direct call, which
                has no run, is refused with code ``approval_required``.
            on_approval: Called with each call that a run paused for, an async function or not, once
                the request is durable: for example to send a message. It is awaited before the run
                returns, called again if the run pauses for the same call again, and its failure is
                logged. It may decide with ``session.approve(...)``.
            env: Values that tools declare with ``env=``; no caller sees them.
            after_side_effect: Called with the record of each call that had a side effect, and
                awaited before its caller continues, for example to take a snapshot. Its failure is
                logged and never fails the call. If the caller is cancelled meanwhile, the call is
                recorded as succeeded, and a resumed run does not call the hook again.
            journal: File that runs are recorded in, so that they can be inspected and resumed.
                Default: a file for this root in the user's state directory, or memory if that
                cannot be written. ``":memory:"``: memory. A file inside `root` is refused if the
                session has a tool with side effects, since a script could change it. An address
                such as ``postgresql://user@host/database`` (extra ``ptc-host[postgres]``) shares
                the runs among machines. A `ptc.journal.Journal` is used as it is, and stays open.
            journal_in_root: Allow a journal inside `root` all the same. The price: a script can
                then record approvals that nobody gave, and read the inputs and results of all runs.
            approvals_expire_ms: Age at which a pending approval expires and counts as rejected.
                None: never.
            retention_days: Days for which runs that have ended stay in the journal. The session
                deletes older ones in the background, in small batches; never a run that is paused
                or under way. None: all stay.
            retention_runs: Number of runs that have ended that stay in the journal, the last ones.
            retention_bytes: Size of the records of runs that have ended that stay, the last ones.
            max_attempts: Times that a run may be started without reaching its end or a pause,
                because its host or worker died or a limit stopped it; after that it is not resumed.
            store_source: False: the journal stores the SHA-256 of a script instead of its text,
                and errors without the lines that they quote. Such a run can be listed, shown and
                exported; to resume it, pass the script (``resume(run_id, source=...)``).
            webhook: Address that is notified when a run pauses for a decision, and when `approve`,
                `reject` or `settle` decides: a URL with ``https``, or a `Webhook`. Notifications
                are signed with the key in the environment variable ``PTC_WEBHOOK_SECRET``, and sent
                in the background; closing the session waits for them a few seconds. None: nothing
                is sent.
            model: Model for `generate_object`: ``"provider:name"``, a model object of pydantic-ai,
                an async function, or a `ptc.models.Model`. A session with a model also has the tool
                `generate_object`, and `task` and `tasks` for child agents. Nothing is imported or
                connected before the first request.
            models: Further models by name, of which scripts and agents may choose one in a call of
                `generate_object`. None: they use `model`.
            agents: Folder, or folders, with kinds of child agents as Markdown files, which no tool
                may change; see docs/delegation.md. None: no child agents, and so no tools `task`
                and `tasks`.
            on_event: Receives the events of all runs and direct calls; must return at once. If it
                raises, it is logged and receives no further events.
            record_direct_calls: True: each direct call is recorded as a run of its own, which can
                be paused, resumed and rolled back.
            programs: Folder of saved programs, which are tools of the session (`save_program`).
                Default: ``.ptc/programs`` below `root`, which no tool can change.
            untrusted: ``"mark"`` or ``"strip"`` the texts that a model reads of all scripts, and of
                the tools that do not set this option of `ptc.tool` themselves. None: only of those
                that do, and of scripts that called one.
            telemetry: Spans and metrics of the runs, by OpenTelemetry (extra ``ptc-host[otel]``).
                None: if the application has configured a provider. ``True``: in any case.
                ``False``: none. A `Telemetry` selects providers and content. See
                docs/observability.md.

        Raises:
            SetupError: If this Python is not CPython, or a free-threaded build.
            UsageError: If an argument is wrong, two tools share a name, a toolset is unknown, or
                values that tools need are missing; the message lists them all.
        """
        require_reviewed_interpreter()
        folder = folder_of("root", root)
        require_function("approver", approver)
        require_function("on_approval", on_approval)
        require_function("after_side_effect", after_side_effect)
        require_function("on_event", on_event)
        validate_telemetry(telemetry)
        kinds = AgentKinds(() if agents is None else agents)
        own = None if agents is None else kinds
        catalog, open_models = collect_tools(tools, toolsets, model, own, models=models)
        self._saved: SavedPrograms = SavedPrograms.of_session(folder, programs, catalog)
        if allowed_tools is not None:
            catalog.default = parts_of("allowed_tools", allowed_tools, "a list of names of tools")
            catalog.check_default()
        limit_policy = LimitPolicy(limits, ceiling, catalog.tools)
        if catalog.is_complete:
            limit_policy.check_tools()
        validate_isolation(isolation)
        validate_engine(engine)
        # To find out which engine is possible takes 10 ms.
        modules = validate_packages(packages, possible_engine(engine) if packages else engine)
        validate_non_finite(non_finite)
        require("store_source", store_source, bool, "True or False")
        validate_reuse(reuse_workers, engine, modules)
        lifted = validate_unprotected(unprotected)
        named = parts_of("protected", protected, "a list of paths")
        made_from = [file for provider in catalog.providers for file in provider.files]
        made_from += [file for item in catalog.tools.values() for file in item.files]
        made_from += [*kinds.paths(), *self._saved.protected, *named_files(folder)]
        require_range("workers", workers, 64)
        require_range("max_concurrent_runs", max_concurrent_runs, 256)
        store = artifacts_of(folder, artifacts, journal, lambda: self.history.open())
        shared = Shared(
            root=folder,
            known=catalog.tools,
            attachments=AttachmentStore(store),
            artifacts=store,
            unprotected=lifted,
            protected=validate_protected(folder, (*named, *made_from)),
            environment=environment_of(catalog.tools.values(), env),
            after_side_effect=after_side_effect,
            approver=approver,
            open_models=self._open_models,
            untrusted=validate_mode(untrusted),
        )
        self.untrusted: UntrustedMode | None = untrusted
        if webhook is not None:
            require("webhook", webhook, (str, Webhook), "a URL or a Webhook")
        default = limit_policy.limits
        subscriber = None if on_event is None else SessionSubscriber(on_event)
        self._subscriber = subscriber
        self.artifacts = store
        self.history: History = History.of_session(
            folder,
            journal,
            in_root=journal_in_root,
            tools=catalog.tools,
            providers=[provider.name for provider in catalog.providers],
            approvals_expire_ms=approvals_expire_ms,
            retention=Retention.of_session(retention_days, retention_runs, retention_bytes),
            max_attempts=max_attempts,
            webhook=Webhook(webhook) if isinstance(webhook, str) else webhook,
        )
        self.history.retention.after_deletion = store.delete_with_runs
        shared.documents = lambda: self.history.documents
        shared.viewers = self.history.viewers
        require("record_direct_calls", record_direct_calls, bool, "True or False")
        direct = DirectCalls(
            catalog,
            shared,
            default,
            on_event=subscriber,
            host_tools={PROGRAM: lambda *call: program_tool(self._runner, catalog, *call)},
            journal=DirectJournal(self.history, default, on_approval)
            if record_direct_calls
            else None,
        )
        self._kinds = kinds
        self._background = BackgroundTasks()
        super().__init__(
            catalog, open_models, folder, direct, limit_policy=limit_policy, packages=modules
        )
        self._open_documents = self.history.open_documents
        options = EngineOptions(
            isolation,
            workers,
            default.max_memory_bytes,
            limit_policy.ceiling.max_cpu_ms,
            modules,
            reuse_workers,
        )
        self._workers = workers
        self._engines = Engines(engine, options)
        self._runs = Executor(
            max_concurrent_runs,
            engines=self._engines,
            shared=shared,
            history=self.history,
            artifacts=store,
        )
        builder = ProgramBuilder(
            folder, catalog, limit_policy, self.history, non_finite, store_source
        )
        shared.run_script = NestedPrograms(builder, self._runs).run
        self._runner = ProgramRunner(
            builder,
            self._runs,
            self.history,
            tools=catalog.tools,
            env=env,
            on_event=subscriber,
            on_approval=on_approval,
            telemetry=telemetry,
        )
        self._queued_runs: QueuedRuns = QueuedRuns(
            builder, self._runner, self.history, self._runs, catalog.tools
        )

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
        """Create a session from the configuration of a folder, as the command ``ptc`` does.

        That is ``ptc.toml``, or ``[tool.ptc]`` in ``pyproject.toml``, in the root or the nearest
        folder above it, and the environment variables ``PTC_...``; see docs/configuration.md. This
        executes the tools files that they name.

        Args:
            root: Folder that confines the tools. None: the configured one, or the current folder.
            config: Configuration file to use instead of the nearest.
            settings: Values that override file and environment, by name of key:
                ``{"limits.timeout_ms": 5_000}``.
            tools: Further tools, as for `Session`.
            env: Values for tools, over those that the configuration names.
            **options: See `ApplicationOptions`.

        Raises:
            UsageError: If a value, the file, or a tools file is wrong; the message has its place.
            SetupError: If an installed toolset cannot be loaded.
        """
        arguments, explain = configured_arguments(root, config, settings)
        arguments["tools"] += parts_of("tools", tools, "a list of tools")
        arguments["env"] = {**(arguments["env"] or {}), **mapping_of("env", env, "a dict")}
        try:
            session = cls(**{**arguments, **options})
        except UsageError as error:
            raise explain(error) from None
        session.explain = explain
        return session

    # --- life -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._runs.open()
        self._runner.observe(self._read_pool)
        self.history.retention.start()
        if self.history.webhook is not None and self._subscriber is not None:
            self.history.webhook.report_to(self._subscriber)
        return self

    async def aclose(self) -> None:
        """End every run with status ``cancelled``, and wait until no process is left."""
        await self._lifetime.close(self._release)

    async def _release(self) -> None:
        try:
            await self._background.close()
            await self._runs.close()
            await self._direct.close()
            await self._close_connections()
            await self._runs.wait_idle()
            await self.artifacts.close()
        finally:
            await self.history.close()

    async def warm_up(self) -> tuple[Layer, ...]:
        """Start the workers now rather than with the first program; give the jail's layers.

        Raises:
            SetupError: If a required layer is missing or no worker can be started.
        """
        self._lifetime.check_open()
        return (await self._engines.hello()).layers

    @property
    def is_warm(self) -> bool:
        """True if the process that forks the workers is ready, as after `warm_up`."""
        return self._pool.is_warm

    @property
    def engine(self) -> str:
        """Name and version of the engine of its scripts, as runs record it."""
        return self._pool.name

    @property
    def _pool(self) -> Engine:
        return self._engines.current

    def _read_pool(self) -> Iterator[tuple[str, float, Mapping[str, str]]]:
        """Read the gauges of the pool."""
        if not self._lifetime.is_open:
            return
        state = self._pool.describe()
        idle = state["ready"]
        yield Metric.POOL_SIZE, self._workers, {}
        yield Metric.POOL_WORKERS, idle, {Attribute.POOL_STATE: "idle"}
        yield Metric.POOL_WORKERS, max(0, state["live"] - idle), {Attribute.POOL_STATE: "busy"}

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The latest 100 violations: the kernel layer stopped a script, or it broke the protocol.

        Each is an alarm: an ordinary script cannot cause one by mistake. Each is also logged with
        level ``ERROR`` to ``logging.getLogger("ptc")``, an event ``violation`` of its run, and the
        status of the run unless that had finished.
        """
        return self._runs.violations.latest


def report_gauges(session: Session, source: GaugeSource) -> bool:
    """Export readings of a bound method by OpenTelemetry, for as long as its object exists.

    Args:
        session: Session whose telemetry is used.
        source: Returns names of gauges of ptc, values and attributes. It is called in any thread,
            and must return at once.

    Returns:
        False if telemetry is off.
    """
    return session._runner.observe(source)
