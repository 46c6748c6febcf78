"""The public API: a session holds a root, tools, limits and workers; it runs scripts and calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, overload

import anyio

from ._calls._attachments import AttachmentStore
from ._calls._direct import DirectCalls
from ._calls._scope import AfterSideEffect, Shared
from ._core._arguments import nearest, parts_of, path_of, require, require_function
from ._core._reactor import running_loop
from ._facts import Layer
from ._journal._location import check_journal, default_journal
from ._policy_modules import MODULES
from ._protected import liftable
from ._records._artifacts import ArtifactStore
from ._records._limits import Limits
from ._records._result import Finding, RunEvent, RunResult
from ._runs._ceiling import LimitPolicy
from ._runs._history import History
from ._runs._packages import validate_packages
from ._runs._program import (
    NON_FINITE,
    NonFinite,
    ProgramOptions,
    UntypedOptions,
    reject_unsendable,
)
from ._runs._programs import ProgramBuilder, typed_result
from ._runs._rollback import Rollback
from ._runs._runs import Executor
from ._runs._stream import stream_events
from ._runs._violation import Violation
from ._tools._allow import AllowList
from ._tools._approval import Approver
from ._tools._catalog import Catalog, Method
from ._tools._discovery import Found, search
from ._tools._environment import environment_of
from ._tools._instructions import describe_program
from ._tools._tool import Tool
from ._tools._tool_result import ToolResult
from ._tools._toolset import ToolSource, installed_toolset
from ._workers._pool import Pool
from ._workers._zygote import ISOLATION_LEVELS, UnprotectedLevel
from .errors import SessionClosedError, UsageError

if TYPE_CHECKING:
    from ._generation._generate import Generated, GenerateOptions
    from .models._open import ModelSource, OpenModels

__all__ = ["Session"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Session:
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
        non_finite: NonFinite = "null",
        unprotected: Iterable[str] = (),
        workers: int = 4,
        max_concurrent_runs: int = 16,
        artifacts: str | Path | None = None,
        approver: Approver | None = None,
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
            non_finite: Form of NaN and the infinities in the values of scripts, which JSON lacks:
                ``"null"`` with a warning, ``"text"`` (``"NaN"``, ``"Infinity"``, ``"-Infinity"``),
                or ``"error"``, which fails the run.
            unprotected: Protected paths that tools may change nevertheless, such as
                ``[".vscode", "git"]``: names of files, folders or rules in the table of
                docs/security.md. Your editor, shell or git may execute content written there with
                your rights, so a script that may write is then no longer confined.
            workers: Worker processes kept ready, 1 to 64. Each costs about 1.5 MB.
            max_concurrent_runs: Runs at once, 1 to 256; further runs wait in order.
            artifacts: Folder for values over `Limits.max_output_bytes`. Default:
                ``.ptc/artifacts`` below `root`, created on first use.
            approver: Decides about calls that require approval while they wait, in this process.
                None: such calls are refused with code ``approval_required``.
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
        self._root = _folder(root)
        named = parts_of("toolsets", toolsets, "a list of names")
        given = parts_of("tools", tools, "a list of tools")
        sources = [*(installed_toolset(name) for name in named), *given]
        require_function("approver", approver)
        require_function("after_side_effect", after_side_effect)
        self._models: OpenModels | None = None
        if model is not None:
            from ._generation._tool import generate_object_tool
            from .models._open import OpenModels

            self._models = OpenModels(model)
            sources.append(generate_object_tool(self._models))
        self._catalog = Catalog(sources)
        tools_of = self._catalog.tools
        self._limit_policy = LimitPolicy(limits, ceiling, tools_of)
        if isolation not in ISOLATION_LEVELS and not isinstance(isolation, UnprotectedLevel):
            known = ", ".join(ISOLATION_LEVELS)
            msg = f"isolation={isolation!r} is unknown{nearest(isolation, ISOLATION_LEVELS)}"
            raise UsageError(f"{msg}; levels: {known}")
        self._packages = validate_packages(packages)
        if non_finite not in NON_FINITE:
            known = ", ".join(NON_FINITE)
            msg = f"non_finite={non_finite!r} is unknown{nearest(str(non_finite), NON_FINITE)}"
            raise UsageError(f"{msg}; forms: {known}")
        lifted = frozenset(parts_of("unprotected", unprotected, "a list of names"))
        for name in lifted:
            if name not in (known_names := liftable()):
                msg = f"unprotected: {name!r} is not a protected path{nearest(name, known_names)}"
                raise UsageError(f"{msg}; docs/security.md lists them")
        _in_range("workers", workers, 64)
        _in_range("max_concurrent_runs", max_concurrent_runs, 256)
        self._pool = Pool(
            isolation=isolation,
            size=workers,
            memory_bytes=self._limit_policy.limits.max_memory_bytes,
            cpu_ms=self._limit_policy.ceiling.max_cpu_ms,
            packages=self._packages,
        )
        kept = ArtifactStore(
            path_of("artifacts", artifacts)
            if artifacts is not None
            else self._root / ".ptc" / "artifacts",
            self._root,
        )
        shared = Shared(
            root=self._root,
            known=tools_of,
            attachments=AttachmentStore(ArtifactStore(kept.folder / "attachments", self._root)),
            unprotected=lifted,
            environment=environment_of(tools_of.values(), env),
            after_side_effect=after_side_effect,
            approver=approver,
        )
        self._env = dict(env or {})
        require("journal_in_root", journal_in_root, bool, "True or False")
        writers = [name for name, item in tools_of.items() if item.side_effect]
        place: Path | Callable[[], Path] | None = None
        if journal is None:
            place = partial(default_journal, self._root, () if journal_in_root else writers)
        elif journal != ":memory:":
            place = path_of("journal", journal)
            check_journal(self._root, place, () if journal_in_root else writers)
        if approvals_expire_ms is not None:
            _in_range("approvals_expire_ms", approvals_expire_ms, 100 * 365 * 86_400_000)
        self.history: History = History(
            place,
            required=journal is not None,
            tools=tools_of,
            approvals_expire_ms=approvals_expire_ms,
        )
        """Recorded runs: outcomes and pending approvals."""
        self._programs = ProgramBuilder(
            self._root, self._catalog, self._limit_policy, self.history, non_finite
        )
        most_bytes = self._limit_policy.limits.max_tool_result_bytes
        self._direct = DirectCalls(self._catalog, shared, most_bytes)
        self._runs = Executor(
            max_concurrent_runs,
            pool=self._pool,
            shared=shared,
            history=self.history,
            artifacts=kept,
        )
        self._state = "new"
        self._loop: object = None
        self._closing: anyio.Event | None = None

    # --- life -------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._state != "new":
            msg = "a Session is opened once; make another"
            raise SessionClosedError(msg)
        self._state = "open"
        self._loop = running_loop()
        self._runs.open()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End every run with status ``cancelled``, and wait until no process is left."""
        if self._state == "closed":
            if self._closing is not None:
                await self._closing.wait()
            return
        self._state = "closed"
        self._closing = anyio.Event()
        try:
            with anyio.CancelScope(shield=True):
                await self._runs.close()
                if self._models is not None:
                    await self._models.aclose()
                await self._runs.wait_idle()
        finally:
            self.history.close()
            self._closing.set()

    async def warm_up(self) -> tuple[Layer, ...]:
        """Start the workers now rather than with the first program; give the jail's layers.

        Raises:
            SetupError: If a required layer is missing or no worker can be started.
        """
        self._check_open()
        return (await self._pool.hello()).layers

    # --- tools ------------------------------------------------------------------------------

    @property
    def root(self) -> Path:
        """The folder the tools are confined to, resolved."""
        return self._root

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

    def tool_names(self) -> list[str]:
        """Names of the tools, in the order they were given."""
        return list(self._catalog.tools)

    def tool_definitions(self, allowed_tools: AllowList | None = None) -> list[dict[str, Any]]:
        """Return each tool as a model reads it: ``{"name", "description", "parameters"}``.

        Args:
            allowed_tools: As for `program`.

        Raises:
            UsageError: If the session lacks a tool of `allowed_tools`.
        """
        return [tool.definition for tool in self.select_tools(allowed_tools).values()]

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
        _in_range("limit", limit, 100)
        return search(query, self.select_tools(allowed_tools).values(), limit)

    def select_tools(self, allowed_tools: AllowList | None = None) -> dict[str, Tool]:
        """Return the tools of an allow-list by name. None: all without a side effect.

        Raises:
            UsageError: If a name is unknown; the message suggests the nearest ones.
        """
        return self._catalog.select(allowed_tools)

    @overload
    async def call(
        self, tool: Tool[_P, Awaitable[_T]], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...
    @overload
    async def call(self, tool: Tool[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
    async def call(self, tool: Tool[..., Any], /, *args: Any, **kwargs: Any) -> Any:
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
        self._check_open()
        call = self._direct.call(name, arguments, idempotency_key, allowed_tools)
        return await self._direct.run(call)

    @overload
    async def generate_object(
        self, schema: type[_T], prompt: str, **options: Unpack[GenerateOptions]
    ) -> Generated[_T]: ...
    @overload
    async def generate_object(
        self, schema: Any, prompt: str, **options: Unpack[GenerateOptions]
    ) -> Generated[Any]: ...
    async def generate_object(
        self, schema: Any, prompt: str, **options: Unpack[GenerateOptions]
    ) -> Generated[Any]:
        """Generate an object that conforms to a schema; send violations back to the model.

        ::

            invoice = (await session.generate_object(Invoice, text)).object

        Unambiguous damage is repaired without the model (`ptc.structured.recover`). Any number of
        requests may be in flight.

        Args:
            schema: A JSON Schema, a pydantic model or any type; the root may be a list or a scalar.
            prompt: The task, with all that the model needs to know.
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
        self._check_open()
        from ._generation._generate import generate_object
        from .models._open import OpenModels

        if self._models is None:
            self._models = OpenModels()
        return await generate_object(self._models, schema, prompt, **options)

    if not TYPE_CHECKING:
        # Hidden from type checkers: to them a misspelt method of the session is an error.
        def __getattr__(self, name: str) -> Method:
            catalog: Catalog = self.__dict__.get("_catalog") or Catalog(())
            return catalog.method(name, self.tool)

    def __dir__(self) -> list[str]:
        catalog = self.__dict__.get("_catalog")
        tools = () if catalog is None else catalog.tools
        return [*object.__dir__(self), *(name for name in tools if name.isidentifier())]

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
        self._check_open()
        program = self._programs.from_request(
            source=source,
            path=path,
            inputs=inputs,
            allowed_tools=allowed_tools,
            limits=limits,
            output_schema=output_schema,
            filename=filename,
            run_id=run_id,
        )
        environment = None
        if env is not None:
            environment = environment_of(self._catalog.tools.values(), self._env, env)
        early = reject_unsendable(program)
        if early is not None:
            return early
        if run_id is not None:
            known = self._programs.find_result(program)
            if known is not None:
                return typed_result(known, output_schema)
            if self.history.journal.find(run_id) is not None:
                return await self.resume(
                    run_id,
                    allowed_tools=allowed_tools,
                    output_schema=output_schema,
                    on_event=on_event,
                )
        result = await self._runs.execute(program, on_event, environment)
        return typed_result(result, output_schema)

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
            self._check_open()
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
        self._check_open()
        program = self._programs.from_request(
            source=source, path=path, allowed_tools=allowed_tools, filename=filename
        )
        program = replace(program, only_check=True)
        result = reject_unsendable(program) or await self._runs.execute(program)
        if result.status == "completed":
            findings: tuple[Finding, ...] = result.value
            return findings
        if result.status == "rejected" and result.error is not None:
            return result.error.findings
        reason = result.error.message if result.error is not None else result.status
        return (Finding("check", reason, 0, 0, "", ""),)

    # --- runs that were ---------------------------------------------------------------------

    @overload
    async def resume(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        output_schema: type[_T],
        until: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult[_T]: ...
    @overload
    async def resume(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        output_schema: Any = None,
        until: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult: ...
    async def resume(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        output_schema: Any = None,
        until: str | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult:
        """Resume a run that is paused or was interrupted, in this process or another one.

        The script is executed again with its recorded results, without calling a tool, and then
        continues. A call that still awaits a decision pauses it again.

        Args:
            run_id: The run.
            allowed_tools: Required again if the run's allow-list had rules (`Allow`), or a tool was
                renamed. Default: the recorded list.
            output_schema: Required again if it was a type. Default: the recorded schema.
            until: Stop when the script receives the recorded outcome of this call, as ``"3"``: the
                result is ``paused`` and has the script's variables in `RunResult.frames`.
            on_event: As for `program`; recorded events are not repeated.

        Returns:
            The result of the whole run. Status ``failed`` with code ``divergence`` if the script
            diverges from its record.

        Raises:
            JournalError: If there is no such run, it has ended, was rolled back, or somebody drives
                it.
            UsageError: If a tool or a rule of the run is missing.
        """
        self._check_open()
        program = self._programs.from_journal(run_id, allowed_tools, output_schema, until)
        result = await self._runs.execute(program, on_event, resume=True)
        return typed_result(result, output_schema)

    async def retry(
        self,
        run_id: str,
        *,
        allowed_tools: AllowList | None = None,
        on_event: Callable[[RunEvent], None] | None = None,
    ) -> RunResult:
        """Run the script of a recorded run again, from its beginning, as a new run.

        If the earlier run had side effects, the result's `warnings` start with a list of them; show
        it to the model that requested the retry.

        Raises:
            JournalError: If there is no such run.
            UsageError: If a tool or a rule of the run is missing.
        """
        self._check_open()
        program = self._programs.for_retry(run_id, allowed_tools)
        return await self._runs.execute(program, on_event)

    async def rollback(
        self, run_id: str, *, skip: Iterable[str] = (), dry_run: bool = False
    ) -> Rollback:
        """Undo the effects of a run with the `revert` functions of its tools, newest call first.

        Successful calls with a side effect are undone. Calls without a `revert` or with an unknown
        outcome are listed and left. Each step is recorded before it starts and after it finishes. A
        revert that fails stops the rollback, since newer effects may need older ones; a repeated
        rollback starts with it and never repeats a successful revert. From the first step on, the
        run cannot be resumed.

        Args:
            run_id: The run, with any status, if no process is executing it.
            skip: Calls to skip, as ``"3"``, because you have dealt with them. This is recorded.
            dry_run: True: change nothing, return the steps that would be taken.

        Returns:
            Each effect and its status. After a complete rollback: the recorded steps.

        Raises:
            JournalError: If the run is missing, another process executes it, or the journal cannot
                be written.
            UsageError: If the session lacks a required tool, or `skip` names an unknown effect.
            SessionClosedError: If the session is not open, or is closed before the last step.
        """
        self._check_open()
        return await self._runs.roll_back(
            run_id, set(parts_of("skip", skip, "a list of calls")), dry_run=dry_run
        )

    def _check_open(self) -> None:
        if self._state != "open":
            word = "is closed" if self._state == "closed" else "is not open: use `async with`"
            msg = f"the session {word}"
            raise SessionClosedError(msg)
        if running_loop() is not self._loop:
            msg = (
                "the session belongs to the event loop it was opened in; open one in each "
                "asyncio.run(), or use a BlockingSession from any thread"
            )
            raise SessionClosedError(msg)


def _folder(root: str | Path) -> Path:
    path = path_of("root", root)
    try:
        resolved = path.resolve(strict=True)
    except OSError as error:
        msg = f"root {str(root)!r}: {error.strerror or error}"
        raise UsageError(msg) from None
    if not resolved.is_dir():
        msg = f"root {str(root)!r} is not a folder"
        raise UsageError(msg)
    return resolved


def _in_range(name: str, value: int, most: int) -> None:
    if type(value) is not int or not 1 <= value <= most:
        msg = f"{name} must be an integer from 1 to {most}, not {value!r}"
        raise UsageError(msg)
