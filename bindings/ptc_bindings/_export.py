"""Tools of a session for other frameworks: definitions and calls that no framework has a part in.

A binding converts each `ExportedTool` to its framework's tool, and each `Reply` to its framework's
result.

Rule 1: each call passes the allow-list, so that it also restricts the calls that a tool makes.
    tests/bindings/test_export.py::test_tool_that_is_not_allowed_is_not_exported
Rule 2: a call that requires approval pauses, and is executed once when a person has approved it.
    tests/bindings/test_export.py::test_direct_call_that_requires_approval_pauses_and_resumes
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import ptc
from ptc._core._arguments import nearest
from ptc._records._result import PendingCall
from ptc._runs._program_tool import PROGRAM
from ptc._tools._names import provider_names
from ptc.models._usage import measure_usage

from ._allowed import allow_list
from ._outcome import OUTCOME_SCHEMA
from ._previews import PREVIEW_CHARS, RECALL, plan_previews
from ._reply import Reply, reply_of_error, reply_of_run, reply_of_tool

__all__ = ["PAUSED", "ExportedTool", "Exports", "script_of_call"]

Direct: TypeAlias = Collection[str] | bool
OnEvent: TypeAlias = Callable[[ptc.RunEvent], None]

PAUSED = (
    "A person approves or rejects the pending calls, and the application resumes the run. "
    "Do not run the script again: that would repeat its calls."
)
"""Next step of a paused run for a model, if the framework has no approvals of its own."""


@dataclass(frozen=True, slots=True)
class ExportedTool:
    """One tool as an agent framework needs it."""

    name: str
    """Name that providers accept: letters, digits, ``_`` and ``-``, at most 64 characters."""
    source_name: str
    """Name in the session, such as ``github.create_issue``; ``program`` for scripts."""
    description: str
    """Description for a model."""
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments: an object."""
    result_schema: Mapping[str, Any] | None
    """JSON Schema of `Reply.data`; None if unknown."""
    side_effect: bool
    """True if a call changes anything outside the run."""
    needs_approval: bool
    """True if a call may pause until a person decides."""


class Exports:
    """The tools that one framework gets of a session; iteration yields them, ``program`` first."""

    def __init__(
        self,
        session: ptc.Session,
        *,
        allowed_tools: Iterable[str | ptc.Allow] | None = None,
        direct: Direct = False,
        program: bool = True,
        limits: ptc.Limits | None = None,
        preview_chars: int | None = PREVIEW_CHARS,
        next_step: str = PAUSED,
    ) -> None:
        """Select tools of an open session.

        Args:
            session: Makes the calls; must be open while the tools are in use.
            allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
            direct: Tools that are also offered one by one: their names, or True for all allowed.
            program: True: offer scripts.
            limits: Limits of each run. None: the session's.
            preview_chars: Characters of a result that the model reads whole. Of a longer one it
                reads the start, and `get_tool_response`, if allowed, is offered for the rest. None:
                previews only over ``limits.max_output_bytes``.
            next_step: Text for a model that reads that a run is paused.

        Raises:
            UsageError: If a name is unknown, or a direct tool is not allowed.
        """
        self.session: ptc.Session = session
        self.allowed_tools: list[str | ptc.Allow] = allow_list(session, allowed_tools)
        self.limits: ptc.Limits = limits or session.limits
        self._next_step = next_step
        self._tools = session.select_tools(self.allowed_tools)
        names = _direct_names(direct, self._tools)
        self._previews = plan_previews(self._tools, self.limits, preview_chars, names)
        if self._previews.offers_tool and RECALL not in names:
            names.append(RECALL)
        shown = provider_names([PROGRAM, *names] if program else names)
        self._exported = {
            public: self._program(public) if source == PROGRAM else self._direct(public, source)
            for source, public in shown.items()
        }

    def __iter__(self) -> Iterator[ExportedTool]:
        return iter(self._exported.values())

    def __getitem__(self, name: str) -> ExportedTool:
        """Return a tool by the name that the model uses.

        Raises:
            UsageError: If there is none; the message has the nearest name.
        """
        found = self._exported.get(name)
        if found is None:
            msg = f"no tool {name!r:.80} is exported{nearest(name, self._exported)}"
            raise ptc.UsageError(f"{msg}; exported: {', '.join(self._exported) or 'none'}")
        return found

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        run_id: str | None = None,
        on_event: OnEvent | None = None,
    ) -> Reply:
        """Make a call of a model. Cancelling it cancels the run and the tool.

        A call that pauses is resumed with `resume`.

        Args:
            name: Name of the exported tool.
            arguments: As the model sent them.
            run_id: Id of the run, for a framework that repeats a call after a crash: the run of an
                id happens once. Ignored by a tool that is called directly. None: a new id.
            on_event: Receives the events of the run, such as finished tool calls.
        """
        with measure_usage() as meter:
            reply = await self._call(name, arguments, run_id, on_event)
        return replace(reply, model_usage=meter.total)

    async def _call(
        self, name: str, arguments: Mapping[str, Any], run_id: str | None, on_event: OnEvent | None
    ) -> Reply:
        try:
            exported = self[name]
        except ptc.UsageError as error:
            return reply_of_error(error)
        if not isinstance(arguments, Mapping):
            kind = type(arguments).__name__
            error = ptc.UsageError(f"{name}: the arguments must be an object, not {kind}")
            return reply_of_error(error)
        if exported.source_name == PROGRAM:
            unknown = arguments.keys() - exported.parameters["properties"].keys()
            if unknown:
                return reply_of_error(_unknown_argument(min(unknown)))
            source, inputs = arguments.get("source", ""), arguments.get("inputs")
        elif exported.needs_approval:
            # A direct call cannot wait for days: a run can.
            source = script_of_call(exported.source_name)
            inputs = dict(arguments)
        else:
            tool = self._tools[exported.source_name]
            return await reply_of_tool(
                self.session, tool, arguments, self.allowed_tools, self._previews
            )
        try:
            result = await self.session.program(
                source=source,
                inputs=inputs,
                allowed_tools=self.allowed_tools,
                limits=self._previews.limits,
                run_id=run_id,
                on_event=on_event,
            )
        except ptc.PtcError as error:
            return reply_of_error(error)
        return self._reply(result)

    async def resume(self, run_id: str, *, on_event: OnEvent | None = None) -> Reply:
        """Resume a paused run; calls that ended are not repeated."""
        with measure_usage() as meter:
            try:
                result = await self.session.resume(
                    run_id, allowed_tools=self.allowed_tools, on_event=on_event
                )
            except ptc.PtcError as error:
                return reply_of_error(error)
        return replace(self._reply(result), model_usage=meter.total)

    def _reply(self, result: ptc.RunResult) -> Reply:
        untrusted = self.session.untrusted_in(call.tool for call in result.calls)
        return reply_of_run(
            result,
            next_step=self._next_step if result.status == "paused" else "",
            reader=self._previews.reader,
            untrusted=untrusted,
        )

    async def decide(
        self,
        call: PendingCall,
        decision: Literal["approve", "reject"],
        *,
        by: str,
        arguments: Mapping[str, Any] | None = None,
        comment: str = "",
    ) -> None:
        """Record the decision of a person about a pending call. It is durable and final.

        Args:
            call: The call.
            decision: The decision.
            by: Name of the approver, for the record.
            arguments: Edited arguments. None: as requested.
            comment: Reason, for the record.

        Raises:
            UsageError: If it was decided before, the request expired, or an argument is invalid.
        """
        history = self.session.history
        if decision == "approve":
            await history.approve(
                call.run_id, call.call, by=by, arguments=arguments, comment=comment
            )
        else:
            await history.reject(call.run_id, call.call, by=by, comment=comment)

    # --- definitions ------------------------------------------------------------------------

    def _program(self, public: str) -> ExportedTool:
        row = self.session.program_definition("mcp", self.allowed_tools, self._previews.limits)
        schema = row["inputSchema"]
        # A model may neither widen nor see the allow-list and the limits that are fixed here.
        properties = {name: schema["properties"][name] for name in ("source", "inputs")}
        tools = self._tools.values()
        return ExportedTool(
            public,
            PROGRAM,
            row["description"],
            {**schema, "properties": properties, "required": ["source"]},
            OUTCOME_SCHEMA,
            side_effect=any(tool.side_effect for tool in tools),
            needs_approval=any(tool.needs_approval is not False for tool in tools),
        )

    def _direct(self, public: str, source: str) -> ExportedTool:
        tool = self._tools[source]
        paused = tool.needs_approval is not False
        return ExportedTool(
            public,
            source,
            tool.description,
            tool.parameters,
            OUTCOME_SCHEMA if paused else tool.result_schema,
            side_effect=tool.side_effect,
            needs_approval=paused,
        )


def script_of_call(name: str) -> str:
    """Return a script that calls one tool with its inputs, so that the call can pause."""
    return f"async def run(ctx, inputs):\n    return await ctx.{name}(**inputs)"


def _direct_names(direct: Direct, tools: Mapping[str, ptc.Tool]) -> list[str]:
    if isinstance(direct, bool):
        return list(tools) if direct else []
    if isinstance(direct, str):
        raise ptc.UsageError(f"direct must be a collection of names, not the string {direct!r}")
    for name in direct:
        if name not in tools:
            msg = f"direct: the tool {name!r:.80} is not allowed{nearest(name, tools)}"
            raise ptc.UsageError(f"{msg}; allowed: {', '.join(tools) or 'none'}")
    return list(direct)


def _unknown_argument(name: str) -> ptc.UsageError:
    near = nearest(name, ["source", "inputs"])
    return ptc.UsageError(f"program: unknown argument {name!r:.80}{near}; it takes source, inputs")
