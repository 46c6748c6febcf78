"""Scripts of a session: run, check and stream them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from .._records._limits import Limits
from .._records._result import Finding, RunEvent, RunResult
from .._runs._program import ProgramOptions, UntypedOptions
from .._runs._stream import stream_events
from .._tools._allow import AllowList
from ..errors import UsageError
from ._saved_session import SavedSession

__all__ = ["ProgramSession"]

_T = TypeVar("_T")


class ProgramSession(SavedSession):
    """The part of `Session` that runs scripts."""

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
        limits: Limits | Mapping[str, Any] | None = None,
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
            limits: Limits of the run, also as data: ``{"timeout_ms": 5000}``. Values above the
                session's ceiling are lowered, with a warning.
            output_schema: Schema of the return value: a JSON Schema, a pydantic model or a type. A
                value that does not conform has status ``failed`` and is still in the result.
            filename: Name of the script in tracebacks. Default: the name of its file, or
                ``script.py``.
            env: Values for the tools of this run; they override the session's.
            run_id: Name of the run, 1-64 letters, digits, _ and -. A repeated request with the same
                name and script returns the recorded result, or resumes a run that was interrupted
                or that waited for a decision. Default: a new name.
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
            return await self._direct.stream(tool, arguments, tell)

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

        Finds code that is refused (syntax, language, imports), unknown tools, wrong or missing
        arguments, and missing awaits. `program` makes the same check: a finding that is `advisory`
        becomes a warning of the run, any other rejects the script.

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
