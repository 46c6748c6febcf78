"""A call's way through the host, the same for a script, an application and another tool.

Stages, in this order, one function each::

    look up and allow -> validate -> budget -> approve -> cache -> limit of the tool -> breaker
    -> execute with retry -> convert -> bound

Arguments are validated once: what was validated is what is approved, cached, recorded and
executed. What a stage refuses is a result with an error, never an exception. A place in a limit is
reserved before a call starts, so that parallel calls cannot pass it together.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import anyio

from . import _json
from ._approval import ApprovalRequest, Approver, Decision, is_gated, prompt_text
from ._attachments import AttachmentStore
from ._budget import Budget
from ._cache import Kept, ResultCache
from ._call import Occurrences, OpenCall, plain_arguments
from ._content import Attachment, AttachmentRef
from ._context import ambient_call
from ._environment import Environment
from ._execute import run_function, words_of
from ._journal import CallEnd, CallRow
from ._result import CallRecord, EventKind
from ._retry import Circuit
from ._schema import Arguments, nearest
from ._services import Services, parked
from ._tool import Tool, ToolCall
from ._tool_result import ToolResult, result_of, without_secrets
from ._track import ParkedError, Track, error_of, error_row, shown_decision, shown_request
from ._waits import Waits
from .errors import ToolError

__all__ = ["AfterSideEffect", "Dispatch", "OnEvent", "Shared"]

_log = logging.getLogger("ptc")

AfterSideEffect: TypeAlias = Callable[[CallRecord], Awaitable[None]]
"""Called with the record of a call."""
OnEvent: TypeAlias = Callable[[EventKind, OpenCall, Any], None]
"""Told the kind of a `RunEvent`, the call, and data."""


@dataclass(slots=True)
class Shared:
    """What all calls of a session share."""

    root: Path
    """Folder the tools are confined to."""
    known: Mapping[str, Tool]
    """All tools of the session, for a message that tells refused from unknown."""
    attachments: AttachmentStore
    """Where files that tools make are kept."""
    unprotected: frozenset[str] = frozenset()
    """Protected paths that the owner of the session has lifted."""
    environment: Environment = field(default_factory=Environment)
    """Values the tools asked for, and what keeps them in."""
    after_side_effect: AfterSideEffect | None = None
    """Called, and awaited, when a call with a side effect has succeeded."""
    approver: Approver | None = None
    """Decides of calls that need approval; None: they are refused."""
    results: ResultCache = field(default_factory=ResultCache)
    """Results kept for the session."""
    circuits: dict[str, Circuit] = field(default_factory=dict)
    """Breakers by tool."""
    waits: Waits = field(default_factory=Waits)
    """Calls that wait for results or places of others."""

    def circuit(self, tool: Tool) -> Circuit | None:
        """The breaker of a tool; None if it has none."""
        if tool.retry is None or tool.retry.breaker_threshold is None:
            return None
        return self.circuits.setdefault(tool.name, Circuit(tool.retry))


class Dispatch:
    """The way of a call for one caller: its tools, its limits, its results."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        shared: Shared,
        *,
        max_result_bytes: int,
        budget: Budget | None = None,
        call_timeout_ms: int | None = None,
        environment: Environment | None = None,
        discovery: Callable[[], Mapping[str, Tool]] | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        """Make the way.

        Args:
            tools: The tools the caller may use: its allow-list.
            shared: What all calls of the session share.
            max_result_bytes: JSON bytes of one result.
            budget: Calls the caller may make; None: an application's direct calls are not counted.
            call_timeout_ms: Time of one call, with all its tries; None: only the tool's own limit.
            environment: Values the tools asked for. Default: the session's.
            discovery: Makes the tools that `ctx` has for itself, whatever the allow-list. Called
                when one is first wanted: most runs want none.
            on_event: Told what happens on the way: the kind of a `RunEvent`, the call, and data.
                Called in the event loop.
        """
        self.tools = tools
        self.shared = shared
        self._max_result_bytes = max_result_bytes
        self.budget = budget
        self._call_timeout_ms = call_timeout_ms
        self.environment = environment or shared.environment
        self._discovery = discovery
        self._discovered: Mapping[str, Tool] | None = None
        self.on_event = on_event
        self.track: Track | None = None
        """The run's line in the journal; None: nothing is recorded."""
        self._results = ResultCache()
        self._executions: defaultdict[str, int] = defaultdict(int)
        self._occurrences = Occurrences()
        self.nested: list[OpenCall] = []
        """Calls of a run that its tools made, in the order they were made."""

    async def run(self, open_call: OpenCall) -> ToolResult:
        """Run a call to its end. Its failure is in the result.

        If the task is cancelled, the call's status is ``unknown`` and the cancellation goes on.

        Raises:
            ParkedError: If it waits for a decision.
        """
        call = open_call.call
        self.mark(open_call)
        try:
            if open_call.refusal is not None:
                raise open_call.refusal
            tool = self._look_up(call.name, open_call.allowed)
            open_call.side_effect, open_call.repeatable = tool.side_effect, tool.repeatable
            open_call.arguments = tool.validate(call.arguments)
            if call.run_id is not None:
                # Direct calls have no key of their own making, and there is no end to them.
                if open_call.siblings is None:
                    open_call.siblings = self._occurrences
                open_call.siblings.add(open_call)
                if self.track is not None and open_call.parent is not None:
                    self.track.put_back(open_call)
            if self.budget is not None:
                self.budget.reserve(call.name)
            before = self.track.outcome(call.name, open_call) if self.track else None
            result = before or await self._approved(tool, open_call)
            open_call.status = "succeeded"
            hook = self.shared.after_side_effect
            # What was recorded or decided before has no effect now.
            if tool.side_effect and hook is not None and not open_call.known:
                open_call.ended = time.perf_counter()
                await self._told(hook, open_call)
        except ParkedError:
            raise
        except ToolError as error:
            error.tool = call.name
            said = open_call.said
            known = said is not None and said.error is error
            safe = self._without_secrets(error)
            result = ToolResult(call.name, error=safe)
            if known and said is not None:
                result = replace(said, error=safe)
            self._failed(open_call, safe)
        except Exception as error:  # noqa: BLE001  # a tool's own: it becomes a result
            wrapped = ToolError(
                f"{call.name} failed: {words_of(error)}",
                code="internal",
                tool=call.name,
            )
            wrapped.__cause__ = error
            safe = self._without_secrets(wrapped)
            result = ToolResult(call.name, error=safe)
            self._failed(open_call, safe)
        finally:
            if open_call.started and not open_call.ended:
                open_call.ended = time.perf_counter()
        return result

    def to_json(self, open_call: OpenCall, result: ToolResult) -> tuple[ToolResult, bytes]:
        """The value as JSON for a script, bounded; an error in its place if it has none."""
        if result.error is not None:
            return result, b"null"
        try:
            data = _json.dumps(result.value, what=result.tool)
        except _json.JsonError as refused:
            why = self.environment.redactor.text(str(refused))
            msg = f"the result of {result.tool} cannot be handed over: {why}"
            error = ToolError(msg, code="result_not_json", tool=result.tool)
            open_call.error = error
            return ToolResult(result.tool, error=error), b"null"
        most = self._max_result_bytes
        if len(data) > most:
            msg = (
                f"the result of {result.tool} has {len(data):,} bytes, over the limit of "
                f"{most:,} (max_tool_result_bytes); ask for less at a time"
            )
            details: dict[str, object] = {
                "limit": "max_tool_result_bytes",
                "most": most,
                "used": len(data),
            }
            error = ToolError(msg, code="result_too_large", tool=result.tool, details=details)
            open_call.error = error
            return ToolResult(result.tool, error=error), b"null"
        open_call.result_bytes = len(data)
        return result, data

    async def _told(self, hook: AfterSideEffect, call: OpenCall) -> None:
        try:
            await hook(call.record())
        except Exception:  # noqa: BLE001  # the effect has happened: a hook cannot undo that
            _log.exception("after_side_effect failed for %s", call.id)

    def recall(self, call: OpenCall, row: CallRow) -> None:
        """Count a call that was made before as it was counted then; it is not made again."""
        tool = self.tools.get(call.call.name)
        end = row.end
        assert end is not None  # noqa: S101  # only calls that have ended are recalled
        call.side_effect = row.start.side_effect
        call.status, call.attempt = end.status, row.start.attempt
        if not end.ok:
            call.error = error_of(_json.loads(end.body)[2], call.call.name)
        if tool is None or end.status == "not_started":
            return
        with suppress(ToolError):
            call.arguments = tool.validate(call.call.arguments)
            call.siblings = self._occurrences
            self._occurrences.add(call)
        if self.budget is not None:
            self.budget.recall(tool.name)
        if end.status == "succeeded" and row.start.attempt:
            self._executions[tool.name] += 1
            self._keep_again(tool, call, end)
        if self.track is not None and call.parent is None:
            self._recall_below(self.track, call)

    def _keep_again(self, tool: Tool, call: OpenCall, end: CallEnd) -> None:
        """Have a recorded result serve the same call for the rest of the run, as it did before."""
        cache = tool.cache
        # Arguments that an approver changed are not those of the call.
        if cache is None or not end.ok or call.arguments is None or tool.needs_approval:
            return
        own = tool.env is not None and self.environment is not self.shared.environment
        if cache.scope == "session" and not own:
            return
        left = None
        if cache.ttl_ms is not None:
            left = cache.ttl_ms - (time.time() * 1000 - end.at_ms)
        with suppress(ToolError):
            digest = cache.digest(tool.name, plain_arguments(call.arguments))
            said = ToolResult(tool.name, value=_json.loads(end.body)[2], _render=tool.render)
            self._results.keep(digest, left, Kept(said, tuple(self.tools.values())))

    def _recall_below(self, track: Track, call: OpenCall) -> None:
        """The same for the calls that its tool made."""
        made = {call.path: call}
        for row in track.below(call.path):
            above, _, seq = row.start.path.rpartition(".")
            parent = made.get(above)
            if parent is None:
                continue
            arguments = _json.loads(row.start.arguments)
            name, run_id = row.start.tool, call.call.run_id
            child = OpenCall(ToolCall(name, arguments, seq=int(seq), run_id=run_id), parent=parent)
            child.side_effect, child.attempt = row.start.side_effect, row.start.attempt
            child.status = "unknown" if row.end is None else row.end.status
            if row.end is not None and not row.end.ok:
                child.error = error_of(_json.loads(row.end.body)[2], name)
            made[child.path] = child
            self.nested.append(child)
            if child.status != "not_started" and self.budget is not None:
                self.budget.recall(name)
            if child.status == "succeeded" and child.attempt:
                self._executions[name] += 1

    def answer(self, call: OpenCall, result: ToolResult) -> tuple[bool, bytes]:
        """What came of a call as the script is given it: whether it is a value, and its body."""
        result, data = self.to_json(call, result)
        if result.error is not None:
            return False, b"[false,false,%b]" % _json.dumps(error_row(result.error))
        tool = self.tools.get(result.tool)
        records = b"true" if tool is None or tool.returns_records else b"false"
        return True, b"[true,%b,%b]" % (records, data)

    def record(self, call: OpenCall, ok: bool, body: bytes, elapsed: float | None) -> None:
        """Write down what came of a call, and when the script was given it; None: it was not."""
        if self.track is not None:
            self.track.ended(call, call.status, ok, body, elapsed)

    def cut_off(self, call: OpenCall) -> None:
        """Note that a call was cancelled: if it had an effect, nobody knows whether it was done."""
        if self.track is not None and call.side_effect and call.started:
            msg = f"{call.call.name} was cut off; what it does may have been done"
            row = error_row(ToolError(msg, code="cancelled", tool=call.call.name))
            body = b"[false,false,%b]" % _json.dumps(row)
            self.track.ended(call, "unknown", False, body, None)

    def tell(self, kind: EventKind, call: OpenCall, data: Any = None) -> None:
        """Tell whoever watches."""
        if self.on_event is not None:
            self.mark(call)
            self.on_event(kind, call, data)

    def mark(self, call: OpenCall) -> None:
        """Say what must not be in records of a call, before the first one is made."""
        call.redactor = self.environment.redactor
        # Of any tool of the session: what is refused is recorded too.
        tool = self.shared.known.get(call.call.name)
        if tool is not None and tool.unrecorded:
            call.recorded = frozenset(tool.parameter_names) - tool.unrecorded

    # --- stages -----------------------------------------------------------------------------

    def _look_up(self, name: str, own: Mapping[str, Tool] | None) -> Tool:
        tools = self.tools if own is None else own
        tool = tools.get(name)
        if tool is None and self._discovery is not None:
            if self._discovered is None:
                self._discovered = self._discovery()
            tool = self._discovered.get(name)
        if tool is not None:
            return tool
        allowed = ", ".join(tools) or "none"
        if name in self.shared.known:
            msg = f"tool {name!r} is not allowed in this run; allowed: {allowed}"
            raise ToolError(msg, code="not_allowed", tool=name)
        msg = f"there is no tool {name!r}{nearest(name, tools)}; allowed: {allowed}"
        raise ToolError(msg, code="unknown_tool", tool=name)

    async def _approved(self, tool: Tool, call: OpenCall) -> ToolResult:
        if tool.cache is None:
            # Nobody is asked about a call that could not be made.
            self._refuse_spent(tool)
        if tool.needs_approval is not False and await is_gated(
            tool.needs_approval, plain_arguments(call.arguments)
        ):
            decision = await self._decide(tool, call)
            if not decision.approved:
                by = f" by {decision.by}" if decision.by else ""
                why = f": {decision.comment}" if decision.comment else ""
                raise ToolError(f"the call of {tool.name} was rejected{by}{why}", code="rejected")
            if decision.arguments is not None:
                # What was decided is a caller's input like any other.
                call.arguments, call.digest = tool.validate(decision.arguments), ""
        return await self._cached(tool, call)

    async def _decide(self, tool: Tool, call: OpenCall) -> Decision:
        approver = self.shared.approver
        if approver is None and (self.track is None or not call.may_park):
            msg = (
                f"{tool.name} needs an approval and nobody is there to give it; "
                "open the session with approver="
            )
            raise ToolError(msg, code="approval_required")
        arguments = plain_arguments(call.arguments)
        request = ApprovalRequest(
            call_id=call.id,
            run_id=call.call.run_id,
            tool=tool.name,
            arguments=_json.loads(_json.dumps(arguments, what="arguments")),
            fingerprint=call.fingerprint(),
            prompt=prompt_text(tool.approval_prompt, arguments),
            defaults=tool.approval_defaults,
        )
        track = self.track if call.may_park else None
        if track is not None and (approver is None or track.verdict(call, "approval") is not None):
            try:
                decision = track.approval(call, request)
            except ParkedError:
                self.tell("approval_pending", call, shown_request(call, request))
                raise
            self.tell("approval_decided", call, shown_decision(call, decision))
            return decision
        assert approver is not None  # noqa: S101  # one of the two was there
        self.tell("approval_pending", call, shown_request(call, request))
        try:
            decision = await approver(request)
        except Exception as error:  # fail closed: who cannot decide has not approved
            msg = f"the call of {tool.name} was not approved: {words_of(error)}"
            raise ToolError(msg, code="rejected") from error
        if not isinstance(decision, Decision):
            msg = f"the approver of {tool.name} gave {decision!r:.80}, not a Decision"
            raise ToolError(msg, code="rejected")
        if self.track is not None:
            self.track.decided(call, request, decision)
        self.tell("approval_decided", call, shown_decision(call, decision))
        return decision

    async def _cached(self, tool: Tool, call: OpenCall) -> ToolResult:
        cache = tool.cache
        if cache is None:
            return await self._limited(tool, call)
        # What a run's own keys gave is not for others: its values are not those of the session.
        own = tool.env is not None and self.environment is not self.shared.environment
        shared = cache.scope == "session" and not own
        results = self.shared.results if shared else self._results
        call.awaited = cache.digest(tool.name, plain_arguments(call.arguments))
        if any(above.awaited == call.awaited for above in call.above()):
            # It would wait for the result of a call that waits for it.
            msg = f"{tool.name}: it calls itself with the same arguments; that is a circle"
            raise ToolError(msg, code="too_deep")
        reach = tuple((self.tools if call.allowed is None else call.allowed).values())

        async def make() -> Kept:
            result = await self._limited(tool, call)
            return Kept(result, reach if call.children else None)

        found, call.cached = await results.get(
            call.awaited,
            cache.ttl_ms,
            make,
            call=call,
            waits=self.shared.waits,
            # What other tools gave is for those who may call them, under the same rules.
            fits=lambda kept: kept.reach is None or kept.reach == reach,
        )
        result = cast("Kept", found).result
        if call.cached and result.tool:
            call.said = result
        return result

    async def _limited(self, tool: Tool, call: OpenCall) -> ToolResult:
        """The rest of the way, inside the tool's own limit of executions."""
        if tool.max_executions_per_run is None:
            return await self._guarded(tool, call)
        self._refuse_spent(tool)
        self._executions[tool.name] += 1
        try:
            return await self._guarded(tool, call)
        except BaseException as error:
            # What failed was not done; what was cut off, by its time or from outside, may be.
            call.cut_off = call.cut_off or (not isinstance(error, Exception) and call.started > 0)
            if not call.cut_off:
                self._executions[tool.name] -= 1
            raise

    def _refuse_spent(self, tool: Tool) -> None:
        most = tool.max_executions_per_run
        if most is not None and self._executions[tool.name] >= most:
            msg = f"{tool.name}: a run may have this done {most} times, and it was or is being done"
            details: dict[str, object] = {"limit": "max_executions_per_run", "most": most}
            raise ToolError(msg, code="limit_exceeded", details=details)

    async def _guarded(self, tool: Tool, call: OpenCall) -> ToolResult:
        circuit = self.shared.circuit(tool)
        if circuit is None or any(above.call.name == tool.name for above in call.above()):
            # A call within one of the same tool: that one has its place, and would wait for it.
            return await self._timed(tool, call)
        if not await circuit.enter(tool.name, call, self.shared.waits):
            return await self._timed(tool, call)
        circuit.holders.append(call)
        settle = circuit.leave
        try:
            result = await self._timed(tool, call)
            settle = circuit.succeeded
        except ParkedError:
            raise
        except Exception:
            settle = circuit.failed
            raise
        finally:
            circuit.holders.remove(call)
            settle()
        return result

    async def _timed(self, tool: Tool, call: OpenCall) -> ToolResult:
        """All tries of a call, inside the time that the caller gives one."""
        most = self._call_timeout_ms
        if most is None:
            return await self._tried(tool, call)
        with anyio.move_on_after(most / 1000) as scope:
            return await self._tried(tool, call)
        assert scope.cancelled_caught  # noqa: S101  # nothing else leaves the block without a value
        call.cut_off = tool.side_effect
        msg = (
            f"{tool.name} took longer than {most:,} ms (tool_timeout_ms) and was cancelled; "
            "ask it for less at a time, or ask for more tool_timeout_ms"
        )
        details: dict[str, object] = {"limit": "tool_timeout_ms", "most": most}
        raise ToolError(msg, code="timeout", retryable=tool.repeatable, details=details)

    async def _tried(self, tool: Tool, call: OpenCall) -> ToolResult:
        if self.track is not None:
            known = await self.track.begin(tool, call)
            if known is not None:
                call.status = "succeeded"
                return known
        retry = tool.retry
        call.status, call.started = "unknown", time.perf_counter()
        while True:
            call.attempt += 1
            try:
                result = await self._once(tool, call)
                if call.parked:
                    raise parked(tool)
                return result
            except Exception as error:
                if call.parked:
                    # What a tool makes of a call that waits, an error of its own or a value, is
                    # not what it will say when that call is made.
                    raise parked(tool) from error
                wanted = retry is not None and retry.wants(error, call.attempt)
                if retry is None or not wanted or call.attempt > retry.max_retries:
                    raise
                await anyio.sleep(retry.wait_ms(call.attempt) / 1000)

    async def _once(self, tool: Tool, call: OpenCall) -> ToolResult:
        if tool.timeout_ms is None:
            return self._converted(tool, call, await self._execute(tool, call.arguments, call))
        with anyio.move_on_after(tool.timeout_ms / 1000) as scope:
            return self._converted(tool, call, await self._execute(tool, call.arguments, call))
        assert scope.cancelled_caught  # noqa: S101  # nothing else leaves the block without a value
        call.cut_off = tool.side_effect
        msg = f"{tool.name} took longer than {tool.timeout_ms:,} ms, which is what it allows itself"
        details: dict[str, object] = {"limit": "Tool.timeout_ms", "most": tool.timeout_ms}
        raise ToolError(msg, code="timeout", retryable=tool.repeatable, details=details)

    def _converted(self, tool: Tool, call: OpenCall, value: Any) -> ToolResult:
        """What the function returned, as a result; a failure it returned is raised."""
        said = result_of(value)
        if said is None and not call.attached and not self.environment.redactor:
            return ToolResult(tool.name, value=value, _render=tool.render)
        try:
            said = without_secrets(said or ToolResult(value=value), self.environment.redactor)
        except _json.JsonError as refused:
            msg = f"the result of {tool.name} has no JSON form: {refused}"
            raise ToolError(msg, code="result_not_json") from None
        kept = tuple(self.kept(item) for item in said.attachments)
        call.said = replace(
            said, tool=tool.name, attachments=(*call.attached, *kept), _render=tool.render
        )
        if said.error is not None:
            raise said.error
        return call.said

    def kept(self, item: Attachment | AttachmentRef) -> AttachmentRef:
        """Keep an attachment, or check a reference to one."""
        store = self.shared.attachments
        if isinstance(item, AttachmentRef):
            item = store.checked(item)
        elif not isinstance(item, Attachment):
            msg = f"attachments are Attachment or AttachmentRef, not {item!r:.80}"
            raise ToolError(msg, code="bad_attachment")
        text = self.environment.redactor.text
        safe = replace(item, name=text(item.name)[:255], description=text(item.description))
        return safe if isinstance(safe, AttachmentRef) else store.keep(safe)

    def _without_secrets(self, error: ToolError) -> ToolError:
        """`error`, or one like it that says no secret and leads to none that does."""
        redactor = self.environment.redactor
        if not redactor:
            return error
        return ToolError(
            redactor.text(error.message),
            code=error.code,
            tool=error.tool,
            retryable=error.retryable,
            details=redactor.data(error.details),
        )

    async def _execute(self, tool: Tool, arguments: Arguments, call: OpenCall) -> Any:
        services = Services(self, tool, call)
        extra: dict[str, Any] = {}
        if tool.context_parameter is not None:
            extra[tool.context_parameter] = services.context()
        if tool.spread:
            bound = partial(tool.function, **arguments, **extra)
        else:
            bound = partial(tool.function, arguments, **extra)
        token = ambient_call.set(services)
        try:
            return await run_function(bound, services, is_async=tool.is_async)
        finally:
            ambient_call.reset(token)
            services.over = True

    @staticmethod
    def _failed(open_call: OpenCall, error: ToolError) -> None:
        open_call.error = error
        if open_call.known:
            open_call.status = "failed" if open_call.status == "not_started" else open_call.status
        elif not open_call.cut_off:
            open_call.status = "failed" if open_call.started else "not_started"
