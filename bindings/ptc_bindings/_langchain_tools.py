"""Tools of a session as LangChain tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import ptc

from ._export import ExportedTool, Exports
from ._langgraph_approvals import Steps, call_once, current_task, decide
from ._previews import PREVIEW_CHARS
from ._reply import Reply
from ._session_calls import SessionCalls

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["as_tools"]


def as_tools(
    session: ptc.Session | ptc.BlockingSession,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Collection[str] | bool = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
) -> list[BaseTool]:
    """Return tools of a session as LangChain tools, for ``create_agent`` and ``ToolNode``.

    A message of such a tool has the text for the model, and as ``artifact`` the data for the
    application: ``data``, and ``run_id``, ``code`` and ``files`` if there are any. A failure has
    the status ``error``; without a tool call, as in ``tool.invoke({"source": ...})``, it raises
    ``ToolException``.

    In a LangGraph graph with a checkpointer, a call that requires approval interrupts the graph.
    Resume it with ``Command(resume={"decisions": [{"type": "approve"}]})``, or ``"reject"`` with a
    ``"message"``, or ``"edit"`` with an ``"edited_action"``. A node that is executed again, also
    after a crash, does not repeat the run.

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
    """Make the class, when LangChain is there."""
    from langchain_core.tools import BaseTool
    from pydantic import PrivateAttr

    base: Any = BaseTool

    class SessionTool(base):  # type: ignore[misc]  # Any: LangChain need not be installed
        """A tool of a session."""

        _exports: Any = PrivateAttr()
        _calls: Any = PrivateAttr()

        def __init__(self, item: ExportedTool, exports: Exports, calls: SessionCalls) -> None:
            super().__init__(
                name=item.name,
                description=item.description,
                args_schema={"properties": {}, **item.parameters},
                response_format="content_and_artifact",
                metadata={"readOnlyHint": not item.side_effect},
            )
            self._exports, self._calls = exports, calls

        def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> Any:
            # As one value: `config`, `callbacks` and `run_manager` may be names of arguments.
            _, arguments = super()._to_args_and_kwargs(tool_input, tool_call_id)
            return (arguments, tool_call_id), {}

        def _run(self, arguments: dict[str, Any], call_id: str | None) -> Any:
            steps = _steps(self._exports, self.name, arguments, call_id)
            return _answer(self.name, _finish(steps, self._calls), call_id)

        async def _arun(self, arguments: dict[str, Any], call_id: str | None) -> Any:
            steps = _steps(self._exports, self.name, arguments, call_id)
            return _answer(self.name, await _finish_async(steps, self._calls), call_id)

    return SessionTool


def _finish(steps: Steps[Reply], calls: SessionCalls) -> Reply:
    try:
        step = next(steps)
        while True:
            step = steps.send(calls.wait(step))
    except StopIteration as end:
        return cast(Reply, end.value)


async def _finish_async(steps: Steps[Reply], calls: SessionCalls) -> Reply:
    try:
        step = next(steps)
        while True:
            step = steps.send(await calls.call(step))
    except StopIteration as end:
        return cast(Reply, end.value)


def _steps(
    exports: Exports, name: str, arguments: dict[str, Any], call_id: str | None
) -> Steps[Reply]:
    """Yield the calls to make for one call of a model; return the reply."""
    task = current_task() if call_id is not None else None
    if task is None:
        reply: Reply = yield partial(exports.call, name, arguments)
        return reply
    run_id = task.run_id(call_id, name, arguments)
    started_now = (yield partial(exports.session.history.find, run_id)) is None
    reply = yield partial(call_once, exports, name, arguments, run_id)
    return (yield from decide(exports, task, reply, started_now=started_now))


def _answer(name: str, reply: Reply, call_id: str | None) -> tuple[Any, Any]:
    """Return the content of a message and its artifact, or a message that has both."""
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import ToolException

    content, artifact = _content(reply), reply.artifact
    if not reply.is_error:
        return content, artifact
    if call_id is None:
        raise ToolException(reply.text)
    # Not ToolException: it would end the agent, or lose the artifact.
    message = ToolMessage(
        content, artifact=artifact, tool_call_id=call_id, name=name, status="error"
    )
    return message, None


def _content(reply: Reply) -> str | list[str | dict[str, Any]]:
    if not reply.images:
        return reply.text
    images = [
        {"type": "image", "base64": image.data, "mime_type": image.media_type}
        for image in reply.images
    ]
    return [{"type": "text", "text": reply.text}, *images]
