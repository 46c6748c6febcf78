"""Execution of a call: cache, limit of executions, breaker, time-outs, attempts.

A place in a limit is reserved before a call starts, so that parallel calls cannot exceed it
together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import anyio

from .._core._call_usage import usage_of_call
from .._schema._check import arguments_mapping
from .._tools._approval import ApprovalNeededError
from .._tools._cache import Cache
from .._tools._context import ambient_call
from .._tools._tool import Tool
from .._tools._tool_result import ToolResult
from ..errors import ToolError
from ..journal._journal import CallEnd
from ._breaker import Circuit
from ._call import OpenCall
from ._execute import run_function
from ._outcome import convert_value
from ._recorder import RunRecorder, SuspendedError
from ._result_cache import CachedResult, ResultCache
from ._reuse import cached_results, record_making
from ._scope import Scope
from ._services import NestedCaller, Services, suspended_error
from ._timeout import CallTimeout

__all__ = ["Execution", "RunMemory"]


class RunMemory:
    """Executions of one run: results that are cached for it, and their number by tool.

    The direct calls of a session count as one run.
    """

    def __init__(self) -> None:
        self.results = ResultCache()
        self.executions: defaultdict[str, int] = defaultdict(int)


class Execution:
    """Execution of the admitted calls of one caller."""

    def __init__(self, scope: Scope, nested: NestedCaller, memory: RunMemory | None = None) -> None:
        """Create the execution stages.

        Args:
            scope: The caller.
            nested: Makes the calls of tools that call tools.
            memory: Earlier executions for the caller. None: there were none.
        """
        self._scope = scope
        self._nested = nested
        memory = memory or RunMemory()
        self._results = memory.results
        self._executions = memory.executions

    def resume(self, recorder: RunRecorder) -> None:
        """Load the results that were cached for a recorded run."""
        own = cached_results(recorder, self._scope.tools, lambda tool: not self._is_shared(tool))
        for digest, left, result in own:
            self._results.store(digest, left, result)

    def count_recorded(self, path: str, tool: str, end: CallEnd, attempt: int) -> None:
        """Count a recorded execution, and the calls below it, which are not repeated."""
        if end.status == "succeeded" and attempt:
            self._executions[tool] += 1
        recorder, budget = self._scope.recorder, self._scope.budget
        for row in recorder.nested.below(path) if recorder is not None else ():
            if budget is not None and (row.end is None or row.end.status != "not_started"):
                budget.charge_recorded(row.tool)
            if row.end is not None and row.end.status == "succeeded" and row.attempt:
                self._executions[row.tool] += 1

    def execute(self, tool: Tool, call: OpenCall) -> Awaitable[ToolResult]:
        """Execute a call, or return its cached result."""
        # Each stage that a tool does not need returns the next, not a coroutine that awaits it.
        cache = tool.cache
        return (
            self._run_limited(tool, call) if cache is None else self._run_cached(tool, call, cache)
        )

    async def _run_cached(self, tool: Tool, call: OpenCall, cache: Cache) -> ToolResult:
        """Return a cached result, or execute a call and cache its result."""
        results = self._scope.shared.results if self._is_shared(tool) else self._results
        call.awaited = cache.digest(tool.name, arguments_mapping(call.copy_arguments()))
        if any(above.awaited == call.awaited for above in call.callers()):
            # It would wait for the result of a call that waits for it.
            msg = f"{tool.name} calls itself with the same arguments, which would never end"
            raise ToolError(msg, code="too_deep")
        reach = tuple(self._scope.tools_for(call).values())

        async def make() -> CachedResult:
            is_maker = results.is_maker(call.awaited, call)
            with record_making(self._scope.recorder, call) if is_maker else nullcontext():
                result = await self._run_limited(tool, call)
            return CachedResult(result, reach if call.children else None)

        found, cached = await results.get(
            call.awaited,
            cache.ttl_ms,
            make,
            call=call,
            wait_graph=self._scope.shared.wait_graph,
            # Results of other tools are for callers that may call them, under the same rules.
            fits=lambda entry: entry.reach is None or entry.reach == reach,
        )
        result = cast("CachedResult", found).result
        if cached:
            call.take_cached(result)
        return result

    def _is_shared(self, tool: Tool) -> bool:
        """True if cached results of a tool belong to the session, not to the run.

        A result that depends on a run's own ``env`` values is not for other runs.
        """
        scope = self._scope
        own = tool.env is not None and scope.environment is not scope.shared.environment
        return tool.cache is not None and tool.cache.scope == "session" and not own

    # --- limits -----------------------------------------------------------------------------

    def check_execution_limit(self, tool: Tool) -> None:
        """Raise `ToolError` ``limit_exceeded`` if the tool may not be executed again."""
        most = tool.max_executions_per_run
        if most is not None and self._executions[tool.name] >= most:
            msg = (
                f"{tool.name}: max_executions_per_run is {most} and the run has executed or is "
                f"executing it {most} times"
            )
            details: dict[str, object] = {"limit": "max_executions_per_run", "most": most}
            raise ToolError(msg, code="limit_exceeded", details=details)

    def _run_limited(self, tool: Tool, call: OpenCall) -> Awaitable[ToolResult]:
        """Execute within the tool's own limit of executions."""
        unlimited = tool.max_executions_per_run is None
        return self._run_guarded(tool, call) if unlimited else self._run_counted(tool, call)

    async def _run_counted(self, tool: Tool, call: OpenCall) -> ToolResult:
        self.check_execution_limit(tool)
        self._executions[tool.name] += 1
        try:
            return await self._run_guarded(tool, call)
        except BaseException as error:
            # A failed call had no effect. One that was interrupted by a time-out or a cancellation
            # may have had it.
            if not isinstance(error, Exception) and call.was_called:
                call.interrupt()
            if not call.interrupted:
                self._executions[tool.name] -= 1
            raise

    def _run_guarded(self, tool: Tool, call: OpenCall) -> Awaitable[ToolResult]:
        """Execute behind the tool's breaker."""
        circuit = self._scope.shared.circuit(tool)
        if circuit is None or any(above.call.name == tool.name for above in call.callers()):
            # A call within one of the same tool: the outer call has the place that it would await.
            return self._run_timed(tool, call)
        return self._run_behind(circuit, tool, call)

    async def _run_behind(self, circuit: Circuit, tool: Tool, call: OpenCall) -> ToolResult:
        if not await circuit.enter(tool.name, call, self._scope.shared.wait_graph):
            return await self._run_timed(tool, call)
        circuit.holders.append(call)
        leave = circuit.leave
        try:
            result = await self._run_timed(tool, call)
            leave = circuit.succeeded
        except (SuspendedError, ApprovalNeededError):
            raise
        except Exception:
            leave = circuit.failed
            raise
        finally:
            circuit.holders.remove(call)
            leave()
        return result

    def _run_timed(self, tool: Tool, call: OpenCall) -> Awaitable[ToolResult]:
        """Make all attempts within the caller's time-out of one call."""
        timeout = self._scope.call_timeout
        if timeout is None:
            return self._run_attempts(tool, call)
        return self._run_until(timeout, tool, call)

    async def _run_until(self, timeout: CallTimeout, tool: Tool, call: OpenCall) -> ToolResult:
        scope, most = timeout.start(), timeout.timeout_ms
        try:
            with scope:
                return await self._run_attempts(tool, call)
        finally:
            timeout.stop(scope)
        assert scope.cancelled_caught  # noqa: S101  # nothing else leaves the block without a value
        msg = (
            f"{tool.name} took longer than {most:,} ms (tool_timeout_ms) and was cancelled; "
            "request less at a time, or raise tool_timeout_ms"
        )
        raise _timeout_error(tool, call, msg, "tool_timeout_ms", most)

    # --- attempts ---------------------------------------------------------------------------

    async def _run_attempts(self, tool: Tool, call: OpenCall) -> ToolResult:
        if self._scope.recorder is not None:
            decided = await self._scope.recorder.record_start(tool, call)
            if decided is not None:
                return decided
        retry, tries = tool.retry, 0
        call.start()
        while True:
            call.attempt += 1
            tries += 1
            try:
                result = await self._run_once(tool, call)
                if call.suspended:
                    raise suspended_error(tool)
                return result
            except Exception as error:
                if call.suspended:
                    # A value or error that a tool derives from a suspended call is not its
                    # outcome: it will have another when that call is made.
                    raise suspended_error(tool) from error
                # Attempts of hosts that died, or before an approval, did not fail.
                wanted = retry is not None and retry.wants(error, tries)
                if retry is None or not wanted or tries > retry.max_retries:
                    raise
                await anyio.sleep(retry.wait_ms(tries) / 1000)

    def _run_once(self, tool: Tool, call: OpenCall) -> Awaitable[ToolResult]:
        most = tool.timeout_ms
        attempt = self._call_function(tool, call)
        return attempt if most is None else self._run_within(most, tool, call, attempt)

    async def _run_within(
        self, most: int, tool: Tool, call: OpenCall, attempt: Awaitable[ToolResult]
    ) -> ToolResult:
        with anyio.move_on_after(most / 1000) as scope:
            return await attempt
        assert scope.cancelled_caught  # noqa: S101  # nothing else leaves the block without a value
        msg = f"{tool.name} took longer than {most:,} ms (its own timeout_ms) and was cancelled"
        raise _timeout_error(tool, call, msg, "Tool.timeout_ms", most)

    async def _call_function(self, tool: Tool, call: OpenCall) -> ToolResult:
        services = Services(self._scope, self._nested, tool, call)
        call.attempt_calls = None
        extra: dict[str, Any] = {}
        if tool.context_parameter is not None:
            extra[tool.context_parameter] = services.context()
        own = call.copy_arguments()
        if tool.spread:
            bound = partial(tool.function, **own, **extra)
        else:
            bound = partial(tool.function, own, **extra)
        token, usage = ambient_call.set(services), usage_of_call.set(call.add_usage)
        try:
            value = await run_function(bound, services, is_async=tool.is_async, name=tool.name)
        finally:
            ambient_call.reset(token)
            usage_of_call.reset(usage)
            services.over = True
            call.function_called = services.function_called
        return convert_value(self._scope, tool, call, value)


def _timeout_error(tool: Tool, call: OpenCall, msg: str, limit: str, most: int) -> ToolError:
    if tool.side_effect and call.was_called:
        call.interrupt()
    # A call without an effect may be repeated.
    retryable = tool.repeatable or not call.was_called
    details: dict[str, object] = {"limit": limit, "most": most}
    return ToolError(msg, code="timeout", retryable=retryable, details=details)
