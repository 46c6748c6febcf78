"""Tools of a tool call's caller as a toolset of pydantic-ai.

Imports pydantic-ai: import it in functions only.

Rule 1: a child calls tools through the context of its call only, and so within the allow-list, the
    rules, the budget and the approvals of its caller.
    tests/core/agents/test_delegate.py::test_child_has_no_tool_that_its_caller_lacks
Rule 2: an effect runs alone: no other call of the same turn overlaps it.
    tests/core/agents/test_delegate.py::test_calls_with_an_effect_run_in_order_and_alone
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from .._tools._context import ToolContext
from .._tools._names import provider_names
from ._limits import Account
from ._outcome import TaskResult, result_in_error, results_in

__all__ = ["CallerTools"]

_OBJECT = SchemaValidator(core_schema.dict_schema(keys_schema=core_schema.str_schema()))
"""Validator of the arguments. The host validates each of them when the tool is called."""
_MOST_CHARS = 50_000
"""Characters of one result. A model whose context is full cannot finish its task."""
_MAX_RETRIES = 5
"""Times that a model may write arguments that are not a JSON object, for each tool."""


class CallerTools(AbstractToolset[Any]):
    """The tools that a child may call. A failure of a tool is text for its model."""

    def __init__(self, ctx: ToolContext, account: Account) -> None:
        """Offer ``ctx.tools``.

        Args:
            ctx: Makes the calls.
            account: Account of the child.
        """
        self._ctx = ctx
        self._account = account
        self._names = {public: name for name, public in provider_names(ctx.tools).items()}

    @property
    def id(self) -> str | None:
        """Id for durable execution: none, since the host records the calls."""
        return None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools by the names that providers accept."""
        return {public: self._definition(public, name) for public, name in self._names.items()}

    def _definition(self, public: str, name: str) -> ToolsetTool[Any]:
        tool = self._ctx.tools[name]
        definition = ToolDefinition(
            name=public,
            description=tool.description,
            parameters_json_schema=dict(tool.parameters),
            sequential=tool.side_effect,
        )
        return ToolsetTool(
            toolset=self, tool_def=definition, max_retries=_MAX_RETRIES, args_validator=_OBJECT
        )

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> str:
        """Call a tool.

        Raises:
            ToolFailed: With the error as text. Suspension and cancellation end the agent's run.
        """
        own = self._names[name]
        self._account.tool_calls += 1
        result = await self._ctx.result_of(own, **tool_args)
        text = await self._ctx.text_for_model(result, max_chars=_MOST_CHARS)
        if result.error is not None:
            failed = result_in_error(result.error)
            self._charge([] if failed is None else [failed])
            raise ToolFailed(text) from result.error
        self._charge(results_in(own, result.value))
        return text

    def _charge(self, results: list[TaskResult]) -> None:
        """Charge the children that were answered from the record, and so did not run."""
        for result in results:
            if result.call not in self._account.children:
                self._account.charge_recorded(result.usage)
