"""The public API: a session of tools, limits and workers, which runs scripts and calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from ._calls._attachments import AttachmentStore
from ._calls._scope import AfterSideEffect, Shared, validate_unprotected
from ._core._arguments import folder_of, path_of, require_function, require_range
from ._facts import Layer
from ._policy_modules import MODULES
from ._records._artifacts import ATTACHMENTS, ArtifactStore
from ._records._limits import Limits
from ._records._result import Finding, RunEvent, RunResult
from ._run_session import RunSession
from ._runs._ceiling import LimitPolicy
from ._runs._history import History
from ._runs._packages import validate_packages
from ._runs._program import ProgramOptions, UntypedOptions
from ._runs._programs import ProgramBuilder
from ._runs._runner import OnApproval, ProgramRunner
from ._runs._runs import Executor
from ._runs._stream import stream_events
from ._runs._violation import Violation
from ._tool_session import collect_tools
from ._tools._allow import AllowList
from ._tools._approval import Approver
from ._tools._environment import environment_of
from ._tools._instructions import describe_program
from ._tools._toolset import ToolSource
from ._workers._pool import Pool
from ._workers._zygote import validate_isolation
from .errors import UsageError

if TYPE_CHECKING:
    from .models._open import ModelSource

__all__ = ["Session"]

_T = TypeVar("_T")


class Session(RunSession):
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
        isolation: str = "jail",
        packages: Iterable[str] = (),
        unprotected: Iterable[str] = (),
        workers: int = 4,
        max_concurrent_runs: int = 16,
        artifacts: str | Path | None = None,
        approver: Approver | None = None,
        on_approval: OnApproval | None = None,
        env: Mapping[str, Any] | None = None,
        after_side_effect: AfterSideEffect | None = None,
        journal: str | Path | None = None,
        journal_in_root: bool = False,
        approvals_expire_ms: int | None = None,
        model: ModelSource | None = None,
    ) -> None:
        """Configure a session; nothing is started.

        Args:
            root: Folder that confines the tools.
            tools: Your own tools, toolsets or plain functions.
            toolsets: Names of installed toolsets; ``()`` for none.
            limits: Default limits of a run. Default: `Limits()`.
            ceiling: Highest limits that a run may request. Default: ten minutes, 10,000 calls, 2
                GiB of memory, or `limits` where those are higher.
            isolation: ``"jail"`` requires every kernel layer, or refuses to run scripts.
                ``"process"`` uses the layers that the kernel has; where seccomp or Landlock is
                missing, one bug in the language layer gives a script your own user's rights.
            packages: Installed packages that scripts may import, such as ``["numpy"]``, by module
                name. Default: none. Packages are not audited (numpy opens files and reads memory),
                so with one of them only the kernel layer confines a script. Each also costs its
                memory once for each session, and a slower start; see docs/limitations.md.
            unprotected: Protected paths that tools may change nevertheless, such as
                ``[".vscode", "git"]``: names of files, folders or rules in the table of
                docs/security.md. Your editor, shell or git may execute content written there with
                your rights, so a script that may write is then no longer confined.
            workers: Worker processes kept ready, 1 to 64. Each costs about 1.5 MB.
            max_concurrent_runs: Runs at once, 1 to 256; further runs wait in order.
            artifacts: Folder for values over `Limits.max_output_bytes`. Default:
                ``.ptc/artifacts`` below `root`, created on first use.
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
                logged and never fails the call.
            journal: File that runs are recorded in, so that they can be inspected and resumed.
                Default: a file for this root in the user's state directory, or memory if that
                cannot be written. ``":memory:"``: memory. A file inside `root` is refused if the
                session has a tool with side effects, since a script could change it.
            journal_in_root: Allow a journal inside `root` all the same. The price: a script can
                then record approvals that nobody gave, and read the inputs and results of all runs.
            approvals_expire_ms: Age at which a pending approval expires and counts as rejected.
                None: never.
            model: Model for `generate_object`: ``"provider:name"``, a model object of pydantic-ai,
                an async function, or a `ptc.models.Model`. A session with a model also has the tool
                `generate_object`. Nothing is imported or connected before the first request.

        Raises:
            UsageError: If an argument is wrong, two tools share a name, a toolset is unknown, or
                values that tools need are missing; the message lists them all.
        """
        folder = folder_of("root", root)
        require_function("approver", approver)
        require_function("on_approval", on_approval)
        require_function("after_side_effect", after_side_effect)
        catalog, models = collect_tools(tools, toolsets, model)
        self._limit_policy = LimitPolicy(limits, ceiling, catalog.tools)
        validate_isolation(isolation)
        self._packages = validate_packages(packages)
        lifted = validate_unprotected(unprotected)
        require_range("workers", workers, 64)
        require_range("max_concurrent_runs", max_concurrent_runs, 256)
        store = ArtifactStore(
            path_of("artifacts", artifacts)
            if artifacts is not None
            else folder / ".ptc" / "artifacts",
            folder,
        )
        shared = Shared(
            root=folder,
            known=catalog.tools,
            attachments=AttachmentStore(ArtifactStore(store.folder / ATTACHMENTS, folder)),
            unprotected=lifted,
            environment=environment_of(catalog.tools.values(), env),
            after_side_effect=after_side_effect,
            approver=approver,
        )
        default = self._limit_policy.limits
        super().__init__(catalog, shared, models, default.max_tool_result_bytes)
        self.artifacts = store
        self.history = History.of_session(
            folder,
            journal,
            in_root=journal_in_root,
            tools=catalog.tools,
            approvals_expire_ms=approvals_expire_ms,
        )
        self._pool = Pool(
            isolation=isolation,
            size=workers,
            memory_bytes=default.max_memory_bytes,
            cpu_ms=self._limit_policy.ceiling.max_cpu_ms,
            packages=self._packages,
        )
        self._runs = Executor(
            max_concurrent_runs,
            pool=self._pool,
            shared=shared,
            history=self.history,
            artifacts=store,
        )
        programs = ProgramBuilder(folder, catalog, self._limit_policy, self.history)
        self._runner = ProgramRunner(
            programs,
            self._runs,
            self.history,
            tools=catalog.tools,
            env=env,
            on_approval=on_approval,
        )

    # --- life -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._runs.open()
        return self

    async def aclose(self) -> None:
        """End every run with status ``cancelled``, and wait until no process is left."""
        await self._lifetime.close(self._release)

    async def _release(self) -> None:
        try:
            await self._runs.close()
            await self._close_models()
            await self._runs.wait_idle()
        finally:
            self.history.close()

    async def warm_up(self) -> tuple[Layer, ...]:
        """Start the workers now rather than with the first program; give the jail's layers.

        Raises:
            SetupError: If a required layer is missing or no worker can be started.
        """
        self._lifetime.check_open()
        return (await self._pool.hello()).layers

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The latest 100 violations: the kernel layer stopped a script, or it broke the protocol.

        Each is an alarm: an ordinary script cannot cause one by mistake. Each is also logged with
        level ``ERROR`` to ``logging.getLogger("ptc")``, an event ``violation`` of its run, and the
        status of the run unless that had finished.
        """
        return self._runs.violations.latest

    @property
    def limits(self) -> Limits:
        """Limits of a run that gives none."""
        return self._limit_policy.limits

    @property
    def ceiling(self) -> Limits:
        """Highest limits that a run may request."""
        return self._limit_policy.ceiling

    def describe_tools(
        self, allowed_tools: AllowList | None = None, limits: Limits | None = None
    ) -> str:
        """Return the instructions for a model that writes a script: rules, and tools as stubs.

        Args:
            allowed_tools: Allow-list of the script, as for `program`.
            limits: Limits of the script. None: the session's.

        Raises:
            UsageError: If the session lacks a tool of `allowed_tools`.
        """
        tools = self.select_tools(allowed_tools).values()
        effective, _ = self._limit_policy.apply(limits)
        return describe_program(tools, effective, sorted({*MODULES, *self._packages}))

    # --- programs ---------------------------------------------------------------------------

    @overload
    async def program(
        self,
        *,
        output_schema: type[_T],
        on_event: Callable[[RunEvent], None] | None = None,
        **options: Unpack[UntypedOptions],
    ) -> RunResult[_T]: ...
    @overload
    async def program(
        self,
        *,
        on_event: Callable[[RunEvent], None] | None = None,
        **options: Unpack[ProgramOptions],
    ) -> RunResult: ...
    async def program(
        self,
        *,
        source: str | None = None,
        path: str | Path | None = None,
        inputs: Mapping[str, Any] | None = None,
        allowed_tools: AllowList | None = None,
        limits: Limits | None = None,
        output_schema: Any = None,
        filename: str | None = None,
        env: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult:
        """Run a script, ``async def run(ctx, inputs)`` or ``def run(ctx, inputs)``.

        Args:
            source: The script. Give this or `path`.
            path: File of the script, inside the session's root.
            inputs: JSON-able data for the script.
            allowed_tools: Tools that it may call: names of tools, patterns such as ``git_*``, names
                of toolsets, and rules (`Allow`). None: all tools without a side effect.
            limits: Limits of the run; values above the session's ceiling are lowered, with a
                warning.
            output_schema: Schema of the return value: a JSON Schema, a pydantic model or a type. A
                value that does not conform has status ``failed`` and is still in the result.
            filename: Name of the script in tracebacks. Default: the name of its file, or
                ``script.py``.
            env: Values for the tools of this run; they override the session's.
            run_id: Name of the run, 1-64 letters, digits, _ and -. A repeated request with the same
                name and script returns the recorded result, or resumes an interrupted run.
                Default: a new name.
            on_event: Receives each event as it happens; must return at once and not raise.

        Returns:
            The result, for every outcome: an error of the script is a status, not an exception.

        Raises:
            UsageError: If the call itself is wrong, before anything runs.
            SetupError: If no jailed worker can be had on this machine.
            SessionClosedError: If the session is not open.
        """
        self._lifetime.check_open()
        return await self._runner.run(
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

    def stream(
        self,
        tool: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **program: Unpack[ProgramOptions],
    ) -> AbstractAsyncContextManager[AsyncIterator[RunEvent]]:
        """Run a script, or call a tool, and stream its events.

        ::

            async with session.stream(source=text) as events:
                async for event in events:
                    print(event.kind, event.text)

        The last event is ``finished``; its `value` is the `RunResult`, or the `ToolResult` of a
        tool. Leaving the block early cancels the run.

        Args:
            tool: Name of a tool to call; None: run a script.
            arguments: Of the tool.
            **program: As for `program`.

        Raises:
            UsageError: On entering, as `program` or `tool` does.
        """
        if tool is not None and program:
            msg = f"stream takes a tool or a script, not both: {tool!r} and {', '.join(program)}"
            raise UsageError(msg)

        async def work(tell: Callable[[RunEvent], None]) -> RunEvent:
            if tool is None:
                result = await self.program(**program, on_event=tell)
                return RunEvent("finished", result.run_id, value=result)
            self._lifetime.check_open()
            return await self._direct.run_watched(self._direct.call(tool, arguments), tell)

        return stream_events(work)

    async def check(
        self,
        *,
        source: str | None = None,
        path: str | Path | None = None,
        allowed_tools: AllowList | None = None,
        filename: str | None = None,
    ) -> tuple[Finding, ...]:
        """Check a script without running it.

        Finds code that would be refused (syntax, language, imports), unknown tools, wrong or
        missing arguments, and missing awaits. A finding that may be wrong is `advisory`.

        Args:
            source: The script. Give this or `path`.
            path: File of the script, inside the session's root.
            allowed_tools: The allow-list it will have, as for `program`.
            filename: Name of the script in findings.

        Returns:
            All findings in source order; ``()`` if there are none.

        Raises:
            UsageError: If the call itself is wrong.
            SetupError: If no jailed worker can be had on this machine.
        """
        self._lifetime.check_open()
        return await self._runner.check(source, path, allowed_tools, filename)
