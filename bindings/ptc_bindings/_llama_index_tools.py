"""Tools of a session as LlamaIndex tools, with approvals as events of a workflow.

A workflow executes a step again when an event arrives that the step waits for. The id of the run
comes from the event that the step processes, so that the same call finds its run.

Rule 1: an answer decides only the call that it names.
    tests/frameworks/test_llama_index.py::test_answer_for_another_call_decides_nothing
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import ptc
from ptc._core import _json

from ._export import ExportedTool, Exports
from ._mcp_text import clean_text
from ._previews import PREVIEW_CHARS
from ._reply import Reply
from ._session_calls import SessionCalls

if TYPE_CHECKING:
    from llama_index.core.tools import FunctionTool

__all__ = ["as_tools"]

_CONTEXT = "workflow context"
"""Parameter for the context: not an identifier, so that no tool has one of that name."""
_TOKEN = "ptc_token"  # noqa: S105  # a key of the state


def as_tools(
    session: ptc.Session | ptc.BlockingSession,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Collection[str] | bool = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
) -> list[FunctionTool]:
    """Return tools of a session as LlamaIndex tools.

    A ``ToolOutput`` has the text for the model, images as blocks, ``is_error``, and as
    ``raw_output`` the data for the application: ``data``, and ``run_id``, ``code`` and ``files`` if
    there are any.

    In an agent, a call that requires approval writes an ``InputRequiredEvent`` with ``run_id``,
    ``call``, ``tool``, ``arguments`` and ``prefix`` (a question) to the stream, and waits for a
    ``HumanResponseEvent`` with the same ``run_id`` and ``call``, and ``response`` "approve" or
    "reject"; ``comment``, ``arguments`` (edited ones) and ``user_name`` are optional.

    Args:
        session: Makes the calls; must be open while the tools are in use. With a `BlockingSession`,
            or from another thread, the plain methods work too.
        allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
        direct: Tools that are also offered one by one: their names, or True for all allowed.
        program: True: offer ``program``, which runs scripts.
        limits: Limits of each run. None: the session's.
        preview_chars: Characters of a result that the model reads whole; `get_tool_response`, if
            allowed, reads the rest. None: previews only over ``limits.max_output_bytes``.

    Raises:
        UsageError: If a name is unknown, or a direct tool is not allowed.
    """
    calls = SessionCalls(session)
    exports = Exports(
        calls.session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    make = _session_tool()
    return [make(item, exports, calls) for item in exports]


@cache
def _session_tool() -> Any:
    """Make the class, when LlamaIndex is there."""
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput

    base: Any = FunctionTool

    class SessionTool(base):  # type: ignore[misc]  # Any: LlamaIndex need not be installed
        """A tool of a session."""

        def __init__(self, item: ExportedTool, exports: Exports, calls: SessionCalls) -> None:
            metadata = ToolMetadata(item.description, item.name, _model_of(item.parameters))
            super().__init__(fn=_any_arguments, metadata=metadata)
            self.requires_context, self.ctx_param_name = item.needs_approval, _CONTEXT
            self._call = partial(exports.call, item.name)
            self._calls, self._approvals = calls, _Approvals(exports, calls, item.name)

        def call(self, *_: Any, **arguments: Any) -> ToolOutput:
            arguments.pop(_CONTEXT, None)
            return self._output(self._calls.wait(partial(self._call, arguments)), arguments)

        async def acall(self, *_: Any, **arguments: Any) -> ToolOutput:
            context = arguments.pop(_CONTEXT, None)
            if context is None:
                reply = await self._calls.call(partial(self._call, arguments))
            else:
                reply = await self._approvals.call(context, arguments)
            return self._output(reply, arguments)

        def _output(self, reply: Reply, arguments: dict[str, Any]) -> ToolOutput:
            return ToolOutput(
                blocks=_blocks(reply),
                tool_name=self.metadata.get_name(),
                raw_input={"kwargs": arguments},
                raw_output=reply.artifact,
                is_error=reply.is_error,
            )

    return SessionTool


def _any_arguments(**_: Any) -> None:
    """Tell LlamaIndex that the tool takes keywords. Only its conversions call this."""
    raise NotImplementedError("the tool has no function of its own: call the tool")


def _model_of(schema: Mapping[str, Any]) -> Any:
    """Return a model whose JSON Schema is `schema`: LlamaIndex reads parameters from models."""
    from pydantic import BaseModel, ConfigDict

    def model_json_schema(*_: Any, **__: Any) -> dict[str, Any]:
        return {"properties": {}, **schema}

    namespace = {
        "__module__": __name__,
        "model_config": ConfigDict(extra="allow"),
        "model_json_schema": staticmethod(model_json_schema),
    }
    return type("Arguments", (BaseModel,), namespace)


def _blocks(reply: Reply) -> list[Any]:
    from llama_index.core.base.llms.types import ImageBlock, TextBlock

    images = [
        ImageBlock(image=base64.b64decode(image.data), image_mimetype=image.media_type)
        for image in reply.images
    ]
    return [TextBlock(text=reply.text), *images]


# --- approvals ------------------------------------------------------------------------------------


class _Approvals:
    """Calls of one tool that may pause, in workflows."""

    def __init__(self, exports: Exports, calls: SessionCalls, name: str) -> None:
        self._exports, self._calls, self._name = exports, calls, name

    async def call(self, context: Any, arguments: dict[str, Any]) -> Reply:
        """Make a call, or continue one for which the step waited."""
        run_id = await self._run_id(context, arguments)
        start = partial(self._exports.call, self._name, arguments, run_id=run_id)
        reply = await self._calls.call(start)
        while run_id is not None and reply.pending:
            # The record of a run that was found has its requests, also those decided meanwhile.
            for request in await self._exports.session.pending(run_id):
                if request.kind != "approval":
                    return reply
                await self._ask(context, request)
            reply = await self._calls.call(partial(self._exports.resume, run_id))
        return reply

    async def _run_id(self, context: Any, arguments: dict[str, Any]) -> str | None:
        """Return the same id when the step is executed again; None if it cannot wait."""
        item = _work_item()
        if item is None:
            return None
        async with context.store.edit_state() as state:
            token = state.get(_TOKEN) or uuid.uuid4().hex
            state[_TOKEN] = token
        identity = _json.dumps([token, item, self._name, arguments], sort_keys=True)
        return f"llama-index-{hashlib.sha256(identity).hexdigest()[:40]}"

    async def _ask(self, context: Any, request: ptc.PendingCall) -> None:
        """Wait for a person's decision, and record it."""
        from llama_index.core.workflow import HumanResponseEvent, InputRequiredEvent

        names = {"run_id": request.run_id, "call": request.call}
        question = request.prompt or f"Approve the call {request.call}, {request.tool}?"
        key = f"ptc_{request.run_id}_{request.call.replace('.', '_')}"
        asked, problem = await context.store.get(key, default=(0, ""))
        shown: dict[str, Any] = {"tool": request.tool, "arguments": request.arguments, **names}
        shown["prefix"] = f"{problem}\n{question}" if problem else question
        answer = await context.wait_for_event(
            HumanResponseEvent,
            waiter_event=InputRequiredEvent(**shown),
            waiter_id=f"{request.run_id}.{request.call}.{asked}",
            requirements=names,
            timeout=None,
        )
        problem = await self._record(request, answer)
        if problem:
            await context.store.set(key, (asked + 1, problem))
            await self._ask(context, request)

    async def _record(self, request: ptc.PendingCall, answer: Any) -> str:
        """Record a decision. Return the problem of one that cannot be read."""
        decision, arguments = answer.get("response", None), answer.get("arguments", None)
        if decision not in ("approve", "reject"):
            return 'The response must be "approve" or "reject".'
        tool = self._exports.session.select_tools([request.tool])[request.tool]
        try:
            if arguments is not None:
                tool.validate(arguments)
        except ptc.ToolError as error:
            return error.message
        by = clean_text(str(answer.get("user_name", None) or "user of a LlamaIndex workflow"), 200)
        comment = clean_text(str(answer.get("comment", None) or ""), 1_000)
        with contextlib.suppress(ptc.UsageError):  # decided elsewhere meanwhile, or expired
            await self._exports.decide(
                request, decision, by=by.replace("\n", " "), arguments=arguments, comment=comment
            )
        return ""


def _work_item() -> str | None:
    """Return the id of the event that the running step processes; None outside of a workflow."""
    try:
        from workflows.runtime.types.results import StepWorkerStateContextVar

        found: str | None = StepWorkerStateContextVar.get().state.work_item_id
    except (ImportError, LookupError, AttributeError):
        return None
    return found
