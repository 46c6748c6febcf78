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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import anyio

from .. import _json
from .._arguments import nearest, words_of
from .._journal._journal import CallEnd, CallRow
from .._records._content import Attachment, AttachmentRef
from .._records._result import CallRecord, CallStatus, EventKind
from .._redact import SENT, Redactor, leads_to_secrets
from .._schema._check import Arguments, arguments_mapping
from .._tools._approval import ApprovalRequest, Approver, Decision, is_gated, prompt_text
from .._tools._context import ambient_call
from .._tools._environment import Environment
from .._tools._tool import Tool
from .._tools._tool_result import Render, ToolResult, result_of, without_secrets
from ..errors import ToolError
from ._attachments import AttachmentStore
from ._breaker import Circuit
from ._budget import Budget
from ._call import Occurrences, OpenCall
from ._deadlock import Waits
from ._execute import cancellation_in, run_function
from ._recorder import (
    ParkedError,
    Track,
    error_of,
    error_row,
    read_outcome,
    shown_decision,
    shown_request,
)
from ._result_cache import Kept, ResultCache
from ._reuse import cached_results, is_over_budget, make_once, read_call, track_making
from ._services import Services, parked

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
        self.nested: dict[str, OpenCall] = {}
        """Calls of a run that its tools made, by path."""

    async def run(self, open_call: OpenCall) -> ToolResult:
        """Run a call to its end. Its failure is in the result.

        If the task is cancelled, the call's status is ``unknown`` and the cancellation goes on.

        Raises:
            ParkedError: If it waits for a decision.
        """
        self.admit(open_call)
        call, tool = open_call.call, open_call.tool
        try:
            if tool is None or open_call.refusal is not None:
                raise open_call.refusal or _internal(call.name, "it was not looked up")
            if self.budget is not None:
                self.budget.reserve(call.name)
            result = await self._known_or_made(tool, open_call)
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
            safe = self._without_secrets(_internal(call.name, error))
            result = ToolResult(call.name, error=safe)
            self._failed(open_call, safe)
        except BaseExceptionGroup as group:
            # An approver, a gate or a hook that was cancelled and failed on its way out.
            raise cancellation_in(group) or group from None
        finally:
            if open_call.started and not open_call.ended:
                open_call.ended = time.perf_counter()
        return result

    def admit(self, call: OpenCall) -> None:
        """Look up, validate and identify a call. Does nothing the second time.

        Calls of a script are admitted in the order in which the script made them, on resume too: it
        tells equal ones apart. An error becomes the call's `refusal`, which `run` raises.
        """
        if call.admitted:
            return
        call.admitted = True
        self.mark(call)
        try:
            if call.refusal is None:
                call.tool = tool = self._look_up(call.call.name, call.allowed)
                call.side_effect, call.repeatable = tool.side_effect, tool.repeatable
                call.arguments = tool.validate(call.call.arguments)
        except ToolError as error:
            call.refusal = error
        except Exception as error:  # noqa: BLE001  # a validator is its author's code
            call.refusal = _internal(call.call.name, error)
        if call.siblings is None and call.call.run_id is not None:
            # Direct calls have no key of their own making, and there is no end to them.
            call.siblings = self._occurrences
        if call.siblings is not None:
            call.siblings.add(call)
        if call.parent is not None:
            call.parent.children += 1
            if self.track is not None:
                call.path = self.track.nested.place(call.key(), call.parent.path)
            else:
                call.path = f"{call.parent.path}.{call.parent.children}"

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

    def resume(self, track: Track) -> None:
        """Continue a recorded run, with the results that were cached for it."""
        self.track = track
        own = cached_results(track, self.tools, lambda tool: not self._is_shared(tool))
        for digest, left, result in own:
            self._results.keep(digest, left, result)

    def recall(self, call: OpenCall, row: CallRow) -> None:
        """Count a call whose outcome was delivered before; it is not made again."""
        end = row.end
        assert end is not None  # noqa: S101  # only calls that have ended are recalled
        self.admit(call)
        call.side_effect = row.start.side_effect
        call.status, call.attempt = end.status, row.start.attempt
        if not end.ok:
            call.error = error_of(_json.loads(end.body)[2], call.call.name)
        if self.budget is not None and call.refusal is None and not is_over_budget(call.error):
            self.budget.recall(call.call.name)
        self._count_recorded(call.path, call.call.name, end, row.start.attempt)

    def _count_recorded(self, path: str, tool: str, end: CallEnd, attempt: int) -> None:
        """Count a recorded execution, and the calls below it, which are not made again."""
        if end.status == "succeeded" and attempt:
            self._executions[tool] += 1
        for row in self.track.nested.below(path) if self.track is not None else ():
            if self.budget is not None and (row.end is None or row.end.status != "not_started"):
                self.budget.recall(row.start.tool)
            if row.end is not None and row.end.status == "succeeded" and row.start.attempt:
                self._executions[row.start.tool] += 1

    def calls_below(self, calls: Sequence[OpenCall]) -> list[OpenCall]:
        """List the calls that tools made for these calls of the script, under any host."""
        found = dict(self.nested)
        recorded = self.track.nested.recorded if self.track is not None else {}
        for path, row in recorded.items():
            if path not in found and int(path.partition(".")[0]) <= len(calls):
                found[path] = read_call(row, calls[0].call.run_id)
        return list(found.values())

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
        if self.track is not None and call.noted:
            status: CallStatus = "unknown"
            msg = f"{call.call.name} was cut off; what it does may have been done"
            if not call.was_called:
                status = call.status = "not_started"
                msg = f"{call.call.name} was cancelled before its function was called"
            row = error_row(ToolError(msg, code="cancelled", tool=call.call.name))
            body = b"[false,false,%b]" % _json.dumps(row)
            self.track.ended(call, status, False, body, None)

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

    async def _known_or_made(self, tool: Tool, call: OpenCall) -> ToolResult:
        """Return the recorded outcome of a call, or make it."""
        if self.track is None:
            if tool.side_effect and not tool.repeatable and call.parent is not None:
                return await make_once(call, partial(self._approved, tool, call))
            return await self._approved(tool, call)
        end = self.track.known(call)
        if end is None:
            return await self._approved(tool, call)
        self._count_recorded(call.path, tool.name, end, call.attempt)
        return read_outcome(tool.name, end)

    async def _approved(self, tool: Tool, call: OpenCall) -> ToolResult:
        if tool.cache is None:
            # Nobody is asked about a call that could not be made.
            self._refuse_spent(tool)
        if tool.needs_approval is not False and await is_gated(
            tool.needs_approval, arguments_mapping(call.arguments)
        ):
            decision = await self._decide(tool, call)
            if not decision.approved:
                by = f" by {decision.by}" if decision.by else ""
                why = f": {decision.comment}" if decision.comment else ""
                raise ToolError(f"the call of {tool.name} was rejected{by}{why}", code="rejected")
            if decision.arguments is not None:
                # What was decided is a caller's input like any other. It is the same call still.
                call.identity()
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
        arguments = arguments_mapping(call.arguments)
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
        results = self.shared.results if self._is_shared(tool) else self._results
        call.awaited = cache.digest(tool.name, arguments_mapping(call.arguments))
        if any(above.awaited == call.awaited for above in call.above()):
            # It would wait for the result of a call that waits for it.
            msg = f"{tool.name}: it calls itself with the same arguments; that is a circle"
            raise ToolError(msg, code="too_deep")
        reach = tuple((self.tools if call.allowed is None else call.allowed).values())

        async def make() -> Kept:
            with (
                track_making(self.track, call)
                if results.is_maker(call.awaited, call)
                else nullcontext()
            ):
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

    def _is_shared(self, tool: Tool) -> bool:
        """True if cached results of a tool are the session's, not the run's.

        What a run's own keys gave is not for others: its values are not those of the session.
        """
        own = tool.env is not None and self.environment is not self.shared.environment
        return tool.cache is not None and tool.cache.scope == "session" and not own

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
            stopped = not isinstance(error, Exception) and call.was_called
            call.cut_off = call.cut_off or stopped
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
        call.cut_off = tool.side_effect and call.was_called
        msg = (
            f"{tool.name} took longer than {most:,} ms (tool_timeout_ms) and was cancelled; "
            "ask it for less at a time, or ask for more tool_timeout_ms"
        )
        details: dict[str, object] = {"limit": "tool_timeout_ms", "most": most}
        raise ToolError(msg, code="timeout", retryable=_may_retry(tool, call), details=details)

    async def _tried(self, tool: Tool, call: OpenCall) -> ToolResult:
        if self.track is not None:
            known = await self.track.begin(tool, call)
            if known is not None:
                call.status = "succeeded"
                return known
            if tool.context_parameter is not None:
                # A function may change the arguments that it gets.
                call.identity()
        retry, tries = tool.retry, 0
        call.status, call.started = "unknown", time.perf_counter()
        while True:
            call.attempt += 1
            tries += 1
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
                # Tries of hosts that died, or before an approval, did not fail.
                wanted = retry is not None and retry.wants(error, tries)
                if retry is None or not wanted or tries > retry.max_retries:
                    raise
                await anyio.sleep(retry.wait_ms(tries) / 1000)

    async def _once(self, tool: Tool, call: OpenCall) -> ToolResult:
        if tool.timeout_ms is None:
            return self._converted(tool, call, await self._execute(tool, call.arguments, call))
        with anyio.move_on_after(tool.timeout_ms / 1000) as scope:
            return self._converted(tool, call, await self._execute(tool, call.arguments, call))
        assert scope.cancelled_caught  # noqa: S101  # nothing else leaves the block without a value
        call.cut_off = tool.side_effect and call.was_called
        msg = f"{tool.name} took longer than {tool.timeout_ms:,} ms, which is what it allows itself"
        details: dict[str, object] = {"limit": "Tool.timeout_ms", "most": tool.timeout_ms}
        raise ToolError(msg, code="timeout", retryable=_may_retry(tool, call), details=details)

    def _converted(self, tool: Tool, call: OpenCall, value: Any) -> ToolResult:
        """What the function returned, as a result; a failure it returned is raised."""
        said = result_of(value)
        if said is None and not call.attached and not self.environment.redactor:
            return ToolResult(tool.name, value=value, _render=tool.render)
        redactor, render = self.environment.redactor, tool.render
        said = said or ToolResult(value=value)
        original = said.value
        try:
            said = without_secrets(said, redactor)
        except _json.JsonError as refused:
            msg = f"the result of {tool.name} has no JSON form: {refused}"
            raise ToolError(msg, code="result_not_json") from None
        if tool.render is not None and said.value is not original:
            # What is left is plain data; the tool renders what it made, and that is searched.
            render = partial(_rendered, tool.render, original, redactor)
        kept = tuple(self.kept(item) for item in said.attachments)
        call.said = replace(
            said, tool=tool.name, attachments=(*call.attached, *kept), _render=render
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
        beside = (error.__cause__, error.__context__, getattr(error, "__notes__", None))
        alone = not any(beside)
        if not alone:
            SENT.failed(error)
        redactor = self.environment.redactor
        message = redactor.error_text(error.message)
        details = redactor.error_data(error.details) if error.details else {}
        same = not redactor and (message, details) == (error.message, error.details)
        if same and (alone or not leads_to_secrets(error, redactor)):
            return error
        return ToolError(
            message,
            code=error.code,
            tool=error.tool,
            retryable=error.retryable,
            details=details,
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
            call.begun = services.begun

    @staticmethod
    def _failed(open_call: OpenCall, error: ToolError) -> None:
        open_call.error = error
        if open_call.known:
            open_call.status = "failed" if open_call.status == "not_started" else open_call.status
        elif not open_call.cut_off:
            open_call.status = "failed" if open_call.started else "not_started"


def _may_retry(tool: Tool, call: OpenCall) -> bool:
    """True if a call that took too long may be made again by itself."""
    return tool.repeatable or not call.was_called


def _internal(tool: str, why: Exception | str) -> ToolError:
    """A failure of a tool, or of its author's code, that is no `ToolError`."""
    words = why if isinstance(why, str) else words_of(why)
    error = ToolError(f"{tool} failed: {words}", code="internal", tool=tool)
    error.__cause__ = why if isinstance(why, Exception) else None
    return error


def _rendered(render: Render, value: Any, redactor: Redactor, _: Any) -> str:
    """A tool's text of a value, without the secrets that are no longer in the value."""
    return redactor.text(render(value))
