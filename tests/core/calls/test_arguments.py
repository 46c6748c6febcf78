"""Code that receives the arguments of a call changes neither its record nor other attempts."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

import anyio
import pytest
from pydantic import BaseModel, BeforeValidator, PrivateAttr

from ptc import (
    Allow,
    ApprovalRequest,
    Cache,
    CallRecord,
    Decision,
    Retry,
    Session,
    Tool,
    ToolContext,
    ToolError,
    define_tool,
    tool,
)
from ptc._core import _json
from ptc._schema._copy import copy_data

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

RETRY = Retry(max_retries=1, backoff_ms=0)
ITEM = {"x": {"y": 1}}
RAW = {"type": "object", "properties": {"data": {"type": "object"}}}


class Model(BaseModel):
    data: dict[str, Any]


@dataclasses.dataclass
class Record:
    data: dict[str, Any]


@tool(needs_approval=True)
async def gate() -> int:
    """Wait for an approval."""
    return 1


def spoil(data: Any) -> None:
    """Modify arguments at each depth."""
    data["x"]["y"] = "modified"
    data["more"] = 1


# --- the function -----------------------------------------------------------------------------


async def take(data: Any, ctx: ToolContext) -> Any:
    found = _json.data_of(data)
    spoil(data)
    if ctx.attempt == 1:
        raise ToolError("again", code="busy", retryable=True)
    return found


async def of_model(data: Model, ctx: ToolContext) -> Any:
    """Take a model."""
    return await take(data.data, ctx)


async def of_models(data: list[Model], ctx: ToolContext) -> Any:
    """Take models in a list."""
    return await take(data[0].data, ctx)


async def of_dataclass(data: Record, ctx: ToolContext) -> Any:
    """Take a dataclass."""
    return await take(data.data, ctx)


async def of_tuple(data: tuple[dict[str, Any], ...], ctx: ToolContext) -> Any:
    """Take objects in a tuple."""
    return await take(data[0], ctx)


async def of_deque(data: deque[dict[str, Any]], ctx: ToolContext) -> Any:
    """Take objects in a deque."""
    return await take(data[0], ctx)


async def of_dict(data: dict[str, Any], ctx: ToolContext) -> Any:
    """Take an object."""
    return await take(data, ctx)


async def whole_model(arguments: Model, ctx: ToolContext) -> Any:
    return await take(arguments.data, ctx)


async def raw(arguments: dict[str, Any], ctx: ToolContext) -> Any:
    found = await take(arguments["data"], ctx)
    arguments.clear()
    return found


@pytest.mark.parametrize(
    ("taker", "sent"),
    [
        (tool(retry=RETRY)(of_model), {"data": ITEM}),
        (tool(retry=RETRY)(of_models), [{"data": ITEM}]),
        (tool(retry=RETRY)(of_dataclass), {"data": ITEM}),
        (tool(retry=RETRY)(of_tuple), [ITEM]),
        (tool(retry=RETRY)(of_deque), [ITEM]),
        (tool(retry=RETRY)(of_dict), ITEM),
        (define_tool("whole_model", "Take all.", Model, whole_model, retry=RETRY), ITEM),
        (define_tool("raw", "Take all.", RAW, raw, retry=RETRY), ITEM),
    ],
    ids=lambda value: value.name if isinstance(value, Tool) else "",
)
async def test_function_that_modifies_arguments_of_any_kind_changes_neither_retry_nor_record(
    tmp_path: Path, taker: Tool, sent: Any
) -> None:
    await expect_resumable(tmp_path, taker, sent, ITEM)


async def expect_resumable(root: Path, called: Tool, sent: Any, value: Any, **options: Any) -> None:
    """Call a tool, pause the run, and resume it: the record has the call as it was made."""
    source = f"""
async def run(ctx, inputs):
    found = await ctx.{called.name}(data=inputs['data'])
    await ctx.gate()
    return found
"""
    allowed = options.pop("allowed_tools", [called.name, "gate"])
    async with Session(
        root, tools=[called, gate], toolsets=(), journal=":memory:", **options
    ) as session:
        result = await session.program(source=source, inputs={"data": sent}, allowed_tools=allowed)
        while result.status == "paused":
            await session.approve(result.run_id, by="ann")
            result = await session.resume(result.run_id, allowed_tools=allowed)
        assert result.unwrap() == value
        recorded = await session.history.recorded(result.run_id)
    assert _json.loads(recorded.calls[0].arguments) == {"data": sent}
    for row in recorded.pending:
        expected = {} if row.tool == "gate" else {"data": sent}
        assert _json.loads(row.details)["arguments"] == expected


# --- other code of an application -----------------------------------------------------------


def spoil_all(arguments: Mapping[str, Any]) -> str:
    spoil(arguments["data"])
    if isinstance(arguments, dict):
        arguments.clear()
    return "modified"


async def spoil_later(arguments: Mapping[str, Any]) -> bool:
    spoil_all(arguments)
    await anyio.lowlevel.checkpoint()
    return False


def spoil_sent(value: Any) -> Any:
    spoil(value)
    return ITEM


def spoil_allowed(value: Any) -> bool:
    spoil(value)
    return True


async def echo(data: dict[str, Any]) -> Any:
    """Return the data."""
    return data


async def echo_validated(data: Annotated[dict[str, Any], BeforeValidator(spoil_sent)]) -> Any:
    """Return the data."""
    return data


def never(arguments: Mapping[str, Any]) -> bool:
    return spoil_all(arguments) == ""


@pytest.mark.parametrize(
    ("called", "options"),
    [
        pytest.param(tool(needs_approval=never)(echo), {}, id="predicate"),
        pytest.param(tool(needs_approval=spoil_later)(echo), {}, id="async predicate"),
        pytest.param(tool(cache=Cache(key=spoil_all))(echo), {}, id="cache key"),
        pytest.param(
            tool(needs_approval=True, approval_prompt=spoil_all)(echo), {}, id="approval prompt"
        ),
        pytest.param(tool(echo_validated), {}, id="validator"),
        pytest.param(
            tool(echo), {"allowed_tools": [Allow("echo", data=spoil_allowed), "gate"]}, id="rule"
        ),
    ],
)
@pytest.mark.parametrize("side_effect", [False, True])
async def test_callback_that_modifies_arguments_changes_neither_call_nor_record(
    tmp_path: Path, called: Tool, options: dict[str, Any], side_effect: bool
) -> None:
    if not side_effect or called.cache is None:
        called = dataclasses.replace(called, side_effect=side_effect)
    await expect_resumable(tmp_path, called, ITEM, ITEM, **options)


async def test_approver_that_modifies_its_request_changes_neither_call_nor_record(
    tmp_path: Path,
) -> None:
    defaults = {"data": {"x": {"y": 2}}}

    async def approver(request: ApprovalRequest) -> Decision:
        if request.tool == "echo":
            assert request.arguments == {"data": ITEM}
            spoil_all(request.arguments)
            spoil_all(request.defaults)
        return Decision(True, by="ann")

    called = tool(
        needs_approval=True, approval_defaults=defaults, side_effect=True, idempotent=True
    )(echo)
    await expect_resumable(tmp_path, called, ITEM, ITEM, approver=approver)
    assert defaults == {"data": {"x": {"y": 2}}}


@pytest.mark.parametrize("schema", ["hints", "raw"])
async def test_approver_cannot_modify_the_arguments_of_its_decision_afterwards(
    tmp_path: Path, schema: str
) -> None:
    edited = {"data": {"x": {"y": 2}}}

    async def approver(request: ApprovalRequest) -> Decision:
        return Decision(True, edited, by="ann")

    async def take_edited(data: Any, ctx: ToolContext) -> Any:
        spoil(edited["data"])  # as an approver might, in a task of its own
        return await take(data, ctx)

    async def by_name(data: dict[str, Any], ctx: ToolContext) -> Any:
        """Take an object."""
        return await take_edited(data, ctx)

    async def as_dict(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return await take_edited(arguments["data"], ctx)

    called = tool(retry=RETRY, needs_approval=True)(by_name)
    if schema == "raw":
        called = define_tool("as_dict", "Take.", RAW, as_dict, retry=RETRY, needs_approval=True)
    async with Session(tmp_path, tools=[called], toolsets=(), approver=approver) as session:
        result = await session.tool(called.name, {"data": ITEM})
    assert result.unwrap() == {"x": {"y": 2}}


# --- the caller -------------------------------------------------------------------------------


async def test_tool_that_modifies_the_arguments_of_a_call_it_makes_does_not_change_the_call(
    tmp_path: Path,
) -> None:
    started, cleared = anyio.Event(), anyio.Event()

    @tool
    async def read(ids: list[int], within: Model) -> Any:
        """Read some rows."""
        started.set()
        await cleared.wait()
        return [len(ids), within.data]

    @tool
    async def outer(ctx: ToolContext) -> Any:
        """Read rows in a task."""
        ids, within, found = [1, 2, 3], Model(data={"x": 1}), list[Any]()

        async def read_rows() -> None:
            found.append(await ctx.call_tool("read", ids=ids, within=within))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_rows)
            await started.wait()
            ids.clear()
            within.data.clear()
            cleared.set()
        return found[0]

    async with Session(tmp_path, tools=[outer, read], toolsets=(), journal=":memory:") as session:
        with anyio.fail_after(20):
            result = await session.program(
                source="async def run(ctx, inputs):\n    return await ctx.outer()",
                allowed_tools=["outer", "read"],
            )
        assert result.unwrap() == [3, {"x": 1}]
        expected = '{"ids":[1,2,3],"within":{"data":{"x":1}}}'
        assert [call.arguments for call in result.calls] == ["{}", expected]
        recorded = await session.history.recorded(result.run_id)
    assert [row.arguments.decode() for row in recorded.calls] == ["{}", expected]


@pytest.mark.parametrize("recorded", [False, True])
async def test_application_that_modifies_the_arguments_of_its_call_does_not_change_the_call(
    tmp_path: Path, recorded: bool
) -> None:
    arguments: dict[str, Any] = {"ids": [1, 2, 3], "more": {"x": {"y": 1}}}
    expected = '{"ids":[1,2,3],"more":{"x":{"y":1}}}'
    shown = list[str]()

    async def approver(request: ApprovalRequest) -> Decision:
        assert request.arguments == {"ids": [1, 2, 3], "more": ITEM}
        arguments["ids"].clear()
        spoil(arguments["more"])
        return Decision(True, by="ann")

    @tool(needs_approval=True, side_effect=True, idempotent=True)
    async def write(ids: list[int], more: dict[str, Any]) -> Any:
        """Write some rows."""
        return [ids, more]

    async def after(call: CallRecord) -> None:
        shown.append(call.arguments)

    async with Session(
        tmp_path,
        tools=[write],
        toolsets=(),
        journal=":memory:",
        approver=approver,
        record_direct_calls=recorded,
        after_side_effect=after,
    ) as session:
        result = await session.tool("write", arguments)
        assert result.unwrap() == [[1, 2, 3], ITEM]
        rows = [
            row.arguments.decode()
            for run in await session.history.runs()
            for row in (await session.history.recorded(run.run_id)).calls
        ]
    assert (shown, rows) == ([expected], [expected] * recorded)


# --- copies -----------------------------------------------------------------------------------


class Locked(BaseModel):
    """A model that cannot be copied."""

    data: dict[str, Any]
    _lock: Any = PrivateAttr(default_factory=Lock)


class Handle:
    """An object of an application, without a JSON form."""


async def test_object_that_cannot_be_copied_is_passed_as_it_is_and_keeps_the_identity(
    tmp_path: Path,
) -> None:
    keys = list[Any]()

    async def locked(data: Locked, ctx: ToolContext) -> Any:
        """Take a model with a lock."""
        spoil(data.data)
        keys.append(ctx.idempotency_key)
        return 1

    called = tool(side_effect=True, uses_key=True)(locked)
    await expect_resumable(tmp_path, called, {"data": ITEM}, 1)
    assert len(keys) == 1


def test_objects_without_a_json_form_are_shared_and_data_is_copied() -> None:
    handle, kept = Handle(), {"list": [1], "tuple": ([1],), "set": {1}, "model": Model(data=ITEM)}
    arguments = {"handle": handle, "kept": [kept]}
    copied = copy_data(arguments)
    assert copied == arguments
    assert copied["handle"] is handle
    (own,) = copied["kept"]
    assert not [name for name in kept if own[name] is kept[name]]
    assert own["tuple"][0] is not kept["tuple"][0]  # type: ignore[index]  # a tuple


def test_arguments_that_contain_themselves_are_passed_as_they_are() -> None:
    endless = dict[str, Any]()
    endless["self"] = endless
    assert copy_data(endless) is endless
