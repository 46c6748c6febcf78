"""Child agents of a session: tasks that an application delegates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from .._core._arguments import parts_of, require
from .._tools._allow import AllowList
from ..errors import UsageError
from ._tool_session import ToolSession

if TYPE_CHECKING:
    from .._agents._handles import BackgroundTasks, TaskHandle
    from .._agents._kinds import AgentKinds
    from .._agents._outcome import TaskResult
    from .._agents._task_tools import TaskRequest

__all__ = ["AgentSession", "TaskOptions"]


class TaskOptions(TypedDict, total=False):
    """Options of `Session.task`."""

    description: str
    """A few words for people who watch."""
    output_schema: Any
    """JSON Schema, pydantic model or type of a structured answer, which is `TaskResult.object`.
    Default: that of the kind, or none."""
    max_steps: int
    """Most requests to the model. Limits only lower those of the kind."""
    max_tokens: int
    """Most input and output tokens."""
    max_cost_usd: float
    """Most US dollars, if the price of the model is known."""
    max_tool_calls: int
    """Most tool calls."""
    timeout_ms: int
    """Time in milliseconds."""


class AgentSession(ToolSession):
    """The part of `Session` for child agents."""

    _kinds: AgentKinds
    _background: BackgroundTasks

    def _check_tools(self) -> None:
        super()._check_tools()
        self._kinds.check_tools(self._catalog.tools)

    def agent_kinds(self) -> dict[str, str]:
        """Return the kinds of child agents: their descriptions by name."""
        return {kind.name: kind.description for kind in self._kinds}

    @overload
    async def task(
        self,
        agent: str,
        prompt: str,
        *,
        allowed_tools: AllowList | None = None,
        background: Literal[False] = False,
        **options: Unpack[TaskOptions],
    ) -> TaskResult: ...
    @overload
    async def task(
        self,
        agent: str,
        prompt: str,
        *,
        allowed_tools: AllowList | None = None,
        background: Literal[True],
        **options: Unpack[TaskOptions],
    ) -> TaskHandle: ...
    async def task(
        self,
        agent: str,
        prompt: str,
        *,
        allowed_tools: AllowList | None = None,
        background: bool = False,
        **options: Unpack[TaskOptions],
    ) -> TaskResult | TaskHandle:
        """Delegate a task to a child agent, and return its answer.

        ::

            found = await session.task("explore", "Which modules read the configuration?")
            print(found.answer)

        Args:
            agent: Kind of the agent, see `agent_kinds`.
            prompt: The task, with everything that the agent needs to know.
            allowed_tools: Tools of the agent, which its kind restricts further; names, patterns
                and rules, as for `program`. None: the session's default, which is all tools
                without a side effect unless ``Session(allowed_tools=...)`` says otherwise.
            background: True: return a `TaskHandle` at once. Await it for the result.
            **options: See `TaskOptions`.

        Raises:
            ToolError: If the agent does not complete its task. ``details["task"]`` has its result:
                the last text, the usage and the transcript.
            UsageError: If the session has no model, or an argument is wrong.
        """
        require("background", background, bool, "True or False")
        arguments = {"agent": agent, "prompt": prompt, **options}
        schema = _contract(arguments)
        call = partial(self._call_task, arguments, schema, self._allowed(allowed_tools, ["task"]))
        if not background:
            return await call()
        self._lifetime.check_open()
        return self._background.start(call)

    async def tasks(
        self,
        tasks: Iterable[TaskRequest | Mapping[str, Any]],
        *,
        allowed_tools: AllowList | None = None,
        max_concurrency: int = 4,
    ) -> list[TaskResult]:
        """Delegate several tasks at once, and return one result for each, in order.

        ::

            results = await session.tasks([
                {"agent": "explore", "prompt": "Find the tests of the parser."},
                {"agent": "review", "prompt": "Review src/parser.py.", "max_steps": 10},
            ])
            failed = [result for result in results if not result.ok]

        Args:
            tasks: The tasks, as `TaskRequest` or as dicts with its fields.
            allowed_tools: As for `task`.
            max_concurrency: Tasks at once, up to 16; further ones wait.

        Raises:
            UsageError: If the session has no model, or an argument is wrong.
            ToolError: If the arguments are wrong. A task that fails is part of the result.
        """
        from .._agents._outcome import read_result
        from .._agents._task_tools import TaskRequest, request_arguments

        rows = [
            request_arguments(task) if isinstance(task, TaskRequest) else task
            for task in parts_of("tasks", tasks, "a list of tasks")
        ]
        allowed = self._allowed(allowed_tools, ["tasks", "task"])
        arguments = {"tasks": rows, "max_concurrency": max_concurrency}
        found = await self.tool("tasks", arguments, allowed_tools=allowed)
        return [read_result(item) for item in found.unwrap()]

    async def _call_task(
        self, arguments: dict[str, Any], schema: Any, allowed: AllowList
    ) -> TaskResult:
        from .._agents._outcome import read_result

        result = read_result((await self.tool("task", arguments, allowed_tools=allowed)).unwrap())
        return result if schema is None else replace(result, object=schema.typed(result.object))

    def _allowed(self, allowed: AllowList | None, own: list[str]) -> AllowList:
        self._lifetime.check_open()
        for name in own:
            if name not in self._catalog.tools:
                msg = (
                    "this session has no child agents: they need a model; pass model= to the "
                    "session, and do not pass agents=None"
                )
                raise UsageError(msg)
        if allowed is None:
            entries = self._catalog.default
            if entries is None:
                entries = tuple(self._catalog.select(None))
        else:
            entries = parts_of("allowed_tools", allowed, "a list of names of tools")
        return [*entries, *(name for name in own if name not in entries)]


def _contract(arguments: dict[str, Any]) -> Any:
    """Replace a type in the arguments by its JSON Schema; return its contract, or None."""
    schema = arguments.get("output_schema")
    if schema is None or isinstance(schema, Mapping):
        return None
    from ..structured import Contract

    contract = schema if isinstance(schema, Contract) else Contract(schema)
    arguments["output_schema"] = contract.schema
    return contract
