"""Approvals of a run inside a LangGraph graph: ``interrupt(...)`` and ``Command(resume=...)``.

LangGraph executes a node again when its interrupt is answered, and returns the answers in the order
of the interrupts. So the run has an id that is the same in each execution, and each request for an
approval in its record is one interrupt, in order, also if it was decided meanwhile.

Rule 1: an answer decides only the call that its interrupt showed. A run whose record was lost, or a
    second run with approvals in the same graph task, is not decided by answers.
    tests/frameworks/test_langgraph.py::test_answer_is_not_used_for_a_run_without_its_record
    tests/frameworks/test_langgraph.py::test_parallel_runs_of_one_task_are_not_mixed
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

import anyio

import ptc
from ptc._calls._rows import pending_call
from ptc._core import _json

from ._export import Exports
from ._mcp_text import clean_text
from ._reply import Reply

__all__ = ["GraphTask", "Steps", "call_once", "current_task", "decide"]

_T = TypeVar("_T")
Steps: TypeAlias = Generator[Callable[[], Coroutine[Any, Any, Any]], Any, _T]
"""Yields functions of a session, receives their results, and returns something."""

_BUSY = "is being executed by"
"""Part of the message of a `JournalError` for a run that another task executes."""
_BUSY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class GraphTask:
    """One execution of a node of a graph with a checkpointer; the same when it is repeated."""

    thread: str
    """Thread of the graph."""
    prefix: str
    """Start of the ids of its runs."""

    def run_id(self, *parts: Any) -> str:
        """Return the id of the run for a call."""
        return f"{self.prefix}{_digest(*parts)}"


def current_task() -> GraphTask | None:
    """Return the task of the running node; None outside of a graph that can be resumed."""
    if "langgraph" not in sys.modules:
        return None
    from langchain_core.runnables.config import ensure_config

    found = ensure_config().get("configurable") or {}
    if found.get("__pregel_checkpointer") is None:
        return None
    thread = str(found.get("thread_id"))
    return GraphTask(thread, f"langgraph-{_digest(thread, found.get('checkpoint_ns'))}-")


def _digest(*parts: Any) -> str:
    return hashlib.sha256(_json.dumps(parts, sort_keys=True)).hexdigest()[:24]


async def call_once(
    exports: Exports, name: str, arguments: Mapping[str, Any], run_id: str
) -> Reply:
    """Make a call, or wait for the run that an earlier execution of the node left.

    LangGraph leaves the other calls of a task running when one interrupts it.
    """
    reply = await exports.call(name, arguments, run_id=run_id)
    while reply.run is None and _BUSY in reply.text:
        await anyio.sleep(_BUSY_SECONDS)
        reply = await exports.call(name, arguments, run_id=run_id)
    return reply


def decide(exports: Exports, task: GraphTask, reply: Reply, *, started_now: bool) -> Steps[Reply]:
    """Let the graph decide the pending calls of a run; yield each step that continues it.

    Args:
        exports: Provides the run.
        task: Task of the graph.
        reply: Reply to the call that started the run, or found it.
        started_now: True if the run did not exist before this execution of the node.

    Raises:
        GraphInterrupt: If nobody has decided yet.
    """
    answered = 0
    while reply.run is not None:
        run_id = reply.run.run_id
        requests = yield partial(_requests, exports, run_id)
        if len(requests) == answered or (yield partial(_has_rivals, exports, task, run_id)):
            break
        undecided = {call.call for call in (yield partial(exports.session.pending, run_id))}
        for request in requests[answered:]:
            answer = _ask(exports, request)
            if request.call in undecided:
                decided = _STALE if started_now else answer
                yield partial(_record, exports, request, decided, task)
        answered = len(requests)
        if reply.pending:
            reply = yield partial(exports.resume, run_id)
    return reply


async def _requests(exports: Exports, run_id: str) -> list[ptc.PendingCall]:
    """Return all requests of a run for an approval, decided or not, in an order that never changes.

    A request that an approver of this process decided at once never was pending.
    """
    recorded = await exports.session.history.recorded(run_id)
    at_once = {(row.path, row.at_ms) for row in recorded.decisions}
    rows = [
        row
        for row in recorded.pending
        if row.kind == "approval" and (row.path, row.at_ms) not in at_once
    ]
    rows.sort(key=lambda row: (row.at_ms, [int(part) for part in row.path.split(".")]))
    return [pending_call(row, run_id) for row in rows]


async def _has_rivals(exports: Exports, task: GraphTask, run_id: str) -> bool:
    """True if another run of the task has requests: answers would not tell the two apart."""
    for other in await exports.session.history.find_ids(task.prefix):
        if other != run_id and await _requests(exports, other):
            return True
    return False


# --- questions and answers ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Answer:
    action: Literal["approve", "reject"]
    arguments: Mapping[str, Any] | None = None
    comment: str = ""


_STALE = _Answer("reject", comment="the answer was made for a run whose record is lost")


def _ask(exports: Exports, request: ptc.PendingCall) -> _Answer:
    """Interrupt the graph until a valid answer exists, and return it."""
    from langgraph.types import interrupt

    problem = ""
    while True:
        answer = interrupt(_question(request, problem))
        try:
            return _read_answer(exports, request, answer)
        except (ptc.UsageError, ptc.ToolError) as error:
            problem = str(error)


def _question(request: ptc.PendingCall, problem: str) -> dict[str, Any]:
    """Return the value of an interrupt, in the form of LangChain's human-in-the-loop middleware."""
    description = request.prompt or f"The call {request.call} of a script requires approval."
    question = {
        "action_requests": [
            {"name": request.tool, "args": request.arguments, "description": description}
        ],
        "review_configs": [
            {"action_name": request.tool, "allowed_decisions": ["approve", "edit", "reject"]}
        ],
        "run_id": request.run_id,
        "call": request.call,
    }
    return {**question, "problem": problem} if problem else question


def _read_answer(exports: Exports, request: ptc.PendingCall, answer: Any) -> _Answer:
    """Read ``{"decisions": [{"type": ...}]}``, one such decision, or its type alone."""
    if isinstance(answer, Mapping) and "decisions" in answer:
        decisions = answer["decisions"]
        answer = decisions[0] if isinstance(decisions, list) and len(decisions) == 1 else None
    if isinstance(answer, str):
        answer = {"type": answer}
    kind = answer.get("type") if isinstance(answer, Mapping) else None
    if kind not in ("approve", "edit", "reject"):
        example = '{"decisions": [{"type": "approve"}]}'
        msg = f"the answer must be one decision of type approve, edit or reject, such as {example}"
        raise ptc.UsageError(msg)
    if kind != "edit":
        comment = clean_text(str(answer.get("message") or ""), 1_000)
        return _Answer("approve" if kind == "approve" else "reject", comment=comment)
    edited = answer.get("edited_action")
    action: Mapping[str, Any] = edited if isinstance(edited, Mapping) else {}
    arguments = action.get("args")
    if not isinstance(arguments, Mapping) or action.get("name", request.tool) != request.tool:
        example = f'"edited_action": {{"name": {request.tool!r}, "args": {{...}}}}'
        raise ptc.UsageError(f"an edit needs {example}; the tool cannot be changed")
    exports.session.select_tools([request.tool])[request.tool].validate(arguments)
    return _Answer("approve", arguments)


async def _record(
    exports: Exports, request: ptc.PendingCall, answer: _Answer, task: GraphTask
) -> None:
    by = clean_text(f"user of LangGraph thread {task.thread}", 200).replace("\n", " ")
    try:
        await exports.decide(
            request, answer.action, by=by, arguments=answer.arguments, comment=answer.comment
        )
    except ptc.UsageError:
        # Decided elsewhere meanwhile, or expired: the resumed run applies that.
        return
