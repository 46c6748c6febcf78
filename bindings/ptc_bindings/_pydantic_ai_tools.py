"""Tools of pydantic-ai as tools of a session. Imports pydantic-ai: import it in functions only.

Rule 1: a call has `tool_call_approved` only if ptc has obtained its approval. `ApprovalRequired` of
    a tool, or of a toolset around it, requests the approval.
    tests/frameworks/test_pydantic_ai.py::test_approval_of_a_wrapper_pauses_before_the_call
Rule 2: `ModelRetry`, `ToolFailed` and every other failure raise `ToolError`.
    tests/frameworks/test_pydantic_ai.py::test_failures_are_tool_errors
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import fields, replace
from itertools import count
from types import SimpleNamespace
from typing import Any

from pydantic import ValidationError
from pydantic_ai import BinaryContent, RunContext, Tool, ToolReturn
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, ToolsetTool
from pydantic_ai.usage import RunUsage
from pydantic_core import to_jsonable_python

import ptc
from ptc import ToolContext
from ptc._tools._foreign import declared_effects
from ptc._tools._provider import ToolProvider
from ptc.models import ModelUsage
from ptc.models._usage import report_usage

from ._foreign import data_of, foreign_tool, invalid_arguments, store_file
from ._mcp_specs import identifier

__all__ = ["AgentTools", "MissingDependencies", "convert_tool", "live_context"]

_live: ContextVar[RunContext[Any] | None] = ContextVar("ptc_pydantic_ai_run", default=None)


@contextmanager
def live_context(ctx: RunContext[Any]) -> Iterator[None]:
    """Pass the context of an agent's run to the tools of pydantic-ai that are called meanwhile."""
    token = _live.set(ctx)
    try:
        yield
    finally:
        _live.reset(token)


class MissingDependencies:
    """Dependencies of a tool that is called outside of an agent, without `bind(..., deps=...)`."""

    def __getattr__(self, name: str) -> Any:
        msg = (
            f"the tool reads ctx.deps.{name}, and no agent is running: pass "
            "ptc_bindings.pydantic_ai.bind(tools, deps=...) to the session, or call the script "
            "through the agent with ptc_bindings.pydantic_ai.as_tools"
        )
        raise ptc.ToolError(msg, code="no_deps")


class AgentTools(ToolProvider):
    """The tools of one toolset, which is entered while the session is open."""

    def __init__(self, toolset: AbstractToolset[Any], *, deps: Any, namespace: str) -> None:
        """Prepare to enter the toolset. The arguments are those of `bind`."""
        self._toolset = toolset
        self._deps = deps
        self._prefix = f"{namespace}." if namespace else ""
        self._stack: AsyncExitStack | None = None

    @property
    def name(self) -> str:
        """Label of the toolset."""
        return f"pydantic-ai {self._toolset.label}"

    async def open(self) -> Sequence[ptc.Toolset]:
        """Enter the toolset and list its tools.

        Raises:
            SetupError: If that fails.
            UsageError: If it is open already, or has a tool that no script can call.
        """
        if self._stack is not None:
            raise ptc.UsageError(f"{self.name} belongs to another session; create it again")
        ctx = _standalone_context(self._deps)
        async with AsyncExitStack() as stack:
            try:
                own = await stack.enter_async_context(await self._toolset.for_run(ctx))
                entered = await own.for_run_step(ctx)
                listed = await entered.get_tools(ctx)
            except Exception as error:
                msg = f"{self.name} cannot be opened: {type(error).__name__}: {error}"
                raise ptc.SetupError(msg) from error
            calls = _Calls(entered, self._deps)
            tools = [calls.convert(item, self._prefix) for item in listed.values()]
            toolset = ptc.Toolset(identifier(self._toolset.id or "pydantic_ai"), tuple(tools))
            self._stack = stack.pop_all()
        return [toolset]

    async def aclose(self) -> None:
        """Exit the toolset."""
        stack, self._stack = self._stack, None
        if stack is not None:
            await stack.aclose()


def convert_tool(tool: Tool[Any], *, deps: Any, namespace: str) -> ptc.Tool:
    """Convert a single tool, which needs not be entered."""
    toolset: FunctionToolset[Any] = FunctionToolset([tool])
    item: ToolsetTool[Any] = ToolsetTool(
        toolset=toolset,
        tool_def=tool.tool_def,
        max_retries=tool.max_retries or 0,
        args_validator=tool.function_schema.validator,
    )
    prefix = f"{namespace}." if namespace else ""
    return _Calls(toolset, deps).convert(item, prefix)


class _Calls:
    """Calls of the tools of one toolset."""

    def __init__(self, toolset: AbstractToolset[Any], deps: Any) -> None:
        self._toolset = toolset
        self._deps = deps

    def convert(self, item: ToolsetTool[Any], prefix: str) -> ptc.Tool:
        """Convert a tool of the toolset.

        Raises:
            UsageError: If its calls are executed outside of the agent.
        """
        definition = item.tool_def
        name = definition.name
        if definition.kind == "external":
            msg = f"the result of the tool {name!r} is produced outside of pydantic-ai, so no "
            msg += "script can wait for it; leave it out with toolset.filtered(...)"
            raise ptc.UsageError(msg)

        async def run(arguments: dict[str, Any], ctx: ToolContext) -> ptc.ToolResult:
            value = await self._call(name, arguments, ctx)
            # Not the value itself: one with a field `isError` or `status` is data here.
            return ptc.ToolResult.success(_data(value, ctx))

        side_effect, idempotent = _effects(definition)
        made = foreign_tool(
            f"{prefix}{identifier(name)}",
            definition.description or "",
            definition.parameters_json_schema,
            run,
            side_effect=side_effect,
            idempotent=idempotent,
            result_schema=definition.return_schema or None,
            tags=("pydantic_ai",),
        )
        return replace(made, needs_approval=True) if definition.kind == "unapproved" else made

    # --- calls ------------------------------------------------------------------------------

    async def _call(self, name: str, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        live = _live.get()
        base = _standalone_context(self._deps) if live is None else live
        try:
            return await self._call_in(base, name, arguments, ctx)
        except ModelRetry as error:
            raise ptc.ToolError(error.message, code="retry") from error
        except ToolFailed as error:
            raise ptc.ToolError(error.message) from error
        except ApprovalRequired as error:
            ctx.require_approval()
            msg = f"{name} requires approval of this call, although it was approved"
            raise ptc.ToolError(msg, code="approval_required") from error
        except CallDeferred as error:
            msg = f"{name} deferred its call, and a script cannot wait for the result"
            raise ptc.ToolError(msg, code="deferred") from error
        finally:
            if live is None:
                # An agent counts the usage of its own tools.
                _report(base.usage)

    async def _call_in(
        self, base: RunContext[Any], name: str, arguments: dict[str, Any], call: ToolContext
    ) -> Any:
        # Listed for each call: `prepare` functions depend on the context.
        tool = (await self._toolset.get_tools(base)).get(name)
        if tool is None:
            msg = f"the agent does not offer {name} at this step"
            raise ptc.ToolError(msg, code="not_available")
        ctx = replace(
            base,
            tool_name=name,
            tool_call_id=call.call_id,
            tool_call_approved=call.approved,
            tool_call_metadata=None,
            retry=0,
            max_retries=tool.max_retries,
        )
        context = ctx.validation_context
        try:
            validated = tool.args_validator.validate_python(arguments, context=context)
        except ValidationError as error:
            raise invalid_arguments(error) from None
        if tool.args_validator_func is not None:
            checked = tool.args_validator_func(ctx, **validated)
            if checked is not None:
                await checked
        with _abandoned_threads():
            return await self._toolset.call_tool(name, validated, ctx, tool)


# --- contexts -----------------------------------------------------------------------------------


def _standalone_context(deps: Any) -> RunContext[Any]:
    """Create the context of a call outside of an agent."""
    return RunContext(deps=deps, model=TestModel(), usage=RunUsage())


def _abandoned_threads() -> AbstractContextManager[None]:
    """Let a cancelled call abandon the thread of a plain function, instead of waiting for it."""
    try:
        from pydantic_ai._utils import abandon_threads_on_cancel
    except ImportError:  # private: pydantic-ai uses it for calls with a time-out
        return nullcontext()
    return abandon_threads_on_cancel()


def _report(usage: RunUsage) -> None:
    names = [field.name for field in fields(ModelUsage)]
    report_usage(ModelUsage(**{name: getattr(usage, name) for name in names}))


# --- definitions, values and errors ---------------------------------------------------------------


def _effects(definition: ToolDefinition) -> tuple[bool, bool]:
    """Return whether a tool has a side effect, and whether its calls may be repeated."""
    metadata = definition.metadata or {}
    # pydantic-ai puts the annotations of the tools of MCP servers here.
    hints = SimpleNamespace(annotations=metadata.get("annotations"), metadata=metadata)
    return declared_effects(hints, {})


def _data(value: Any, ctx: ToolContext) -> Any:
    """Convert a result to data. Text that is JSON is parsed; images and other files are stored."""
    numbers = count(1)

    def convert(item: Any) -> Any:
        if isinstance(item, ToolReturn):
            returned = convert(item.return_value)
            if item.content is None:
                return returned
            return {"return_value": returned, "content": convert(item.content)}
        if isinstance(item, BinaryContent):
            return store_file(item.data, item.media_type, ctx, number=next(numbers))
        if isinstance(item, Mapping):
            return {key: convert(part) for key, part in item.items()}
        if isinstance(item, list | tuple):
            return [convert(part) for part in item]
        return to_jsonable_python(item)

    data = convert(value)
    return data_of(data) if isinstance(data, str) else data
