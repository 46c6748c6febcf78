"""Calls that require approval, over MCP: forms, pauses, decisions elsewhere, and resumption."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest

from ptc import Allow, Limits, Session, ToolContext, tool
from ptc_bindings.mcp import serve

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import mcp
from mcp_types import CallToolResult, ElicitRequestFormParams, ElicitResult, TextContent

from .mcp_client import SECONDS, script, texts

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

MODES: tuple[Literal["auto", "legacy"], ...] = ("auto", "legacy")
both_protocols = pytest.mark.parametrize("mode", MODES)
"""A form is a result of the request in the protocol of 2026, and a request before it."""


class Shop:
    """A tool with an effect to count."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self, **options: Any) -> Any:
        @tool(
            side_effect=True,
            needs_approval=lambda arguments: arguments["cents"] > 100,
            approval_prompt=lambda arguments: f"Pay {arguments['cents']} cents?",
            **options,
        )
        async def pay(ctx: ToolContext, cents: int, to: list[str] | None = None) -> int:
            """Pay."""
            self.paid.append(cents)
            return cents

        return pay


class User:
    """Answers forms, and notes what they show."""

    def __init__(self, *answers: ElicitResult) -> None:
        self.forms: list[ElicitRequestFormParams] = []
        self._answers = list(answers)

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.forms.append(params)
        return self._answers.pop(0)


def accept(**content: Any) -> ElicitResult:
    return ElicitResult(action="accept", content=content)


DECLINE = ElicitResult(action="decline")
DISMISS = ElicitResult(action="cancel")

PAY = script("return await ctx.pay(inputs['cents']) + 1")


def pay(cents: int) -> dict[str, Any]:
    return PAY | {"inputs": {"cents": cents}}


@asynccontextmanager
async def shop_client(
    root: Path,
    user: User | None = None,
    *,
    mode: Literal["auto", "legacy"] = "auto",
    defaults: dict[str, Any] | None = None,
    session_options: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[mcp.Client, Session, Shop]]:
    shop = Shop()
    tools = [shop.tool(approval_defaults=defaults or {})]
    arguments = {"tools": tools, "toolsets": (), "workers": 1, **(session_options or {})}
    options = {"allowed_tools": ["pay"], **options}
    with anyio.fail_after(SECONDS):
        async with Session(root, **arguments) as session:
            server = serve(session, **options)
            async with mcp.Client(server, elicitation_callback=user, mode=mode) as client:
                yield client, session, shop


@both_protocols
async def test_user_of_a_client_with_forms_approves_within_the_request(
    root: Path, mode: Literal["auto", "legacy"]
) -> None:
    user = User(accept(cents=500))
    async with shop_client(root, user, mode=mode) as (client, session, shop):
        result = await client.call_tool("program", pay(500))
        assert (result.is_error, result.structured_content) == (False, {"value": 501})
        assert shop.paid == [500]
        run_id = (await session.history.runs())[0].run_id
        (decision,) = (await session.history.recorded(run_id)).decisions
    (form,) = user.forms
    assert form.message.startswith("Approve the call of pay?\nPay 500 cents?\nArguments: ")
    assert '"cents":500' in form.message
    assert f"(line 4 of the script, run {run_id}, call 1)" in form.message
    assert form.requested_schema["properties"]["cents"] == {"type": "integer", "default": 500}
    assert decision.action == "approve"
    assert decision.by.startswith("user of MCP client ")


@both_protocols
async def test_edited_arguments_are_validated_and_used(
    root: Path, mode: Literal["auto", "legacy"]
) -> None:
    user = User(accept(to="[1"), accept(to="[1]"), accept(cents=40, to='["ann"]'))
    async with shop_client(root, user, mode=mode) as (client, _, shop):
        result = await client.call_tool("program", pay(500))
        assert result.structured_content == {"value": 41}
        assert shop.paid == [40]
        (log,) = (await client.call_tool("program_log", {})).content
        assert isinstance(log, TextContent)
        requested = '(decided by the approver; the script requested {"cents":500})'
        assert f'pay {{"cents":40,"to":["ann"]}} {requested}: succeeded' in log.text
    first, second, third = user.forms
    assert first.requested_schema["properties"]["to"]["description"] == "JSON"
    assert second.message.startswith("Your last answer was not valid: to is not JSON")
    assert third.message.startswith("Your last answer was not valid: ")
    assert "to" in third.message.split("\n")[0]


@both_protocols
async def test_declined_call_is_an_error_in_the_script(
    root: Path, mode: Literal["auto", "legacy"]
) -> None:
    async with shop_client(root, User(DECLINE), mode=mode) as (client, _, shop):
        result = await client.call_tool("program", pay(500))
        assert result.is_error
        assert "the call of pay was rejected by user of MCP client" in texts(result)[0]
        assert result.structured_content["error"]["tool"] == "pay"
        assert shop.paid == []


@both_protocols
async def test_dismissed_form_leaves_the_run_paused(
    root: Path, mode: Literal["auto", "legacy"]
) -> None:
    user = User(DISMISS)
    async with shop_client(root, user, mode=mode) as (client, session, shop):
        result = await client.call_tool("program", pay(500))
        assert not result.is_error
        assert result.structured_content["status"] == "paused"
        assert len(await session.pending()) == 1
        assert shop.paid == []
    assert len(user.forms) == 1


async def test_all_calls_that_wait_are_asked_about_in_one_round(root: Path) -> None:
    user = User(accept(), DISMISS, accept())
    both = script("return await asyncio.gather(ctx.pay(200), ctx.pay(300), ctx.pay(400))")
    async with shop_client(root, user) as (client, session, shop):
        paused = await client.call_tool("program", both)
        assert paused.structured_content["status"] == "paused"
        assert len(user.forms) == 3, "the dismissed form is not shown again"
        (left,) = await session.pending()
        assert sorted([*shop.paid, left.arguments["cents"]]) == [200, 300, 400]
        await session.history.approve(left.run_id, by="ann")
        result = await client.call_tool("program_resume", {"run_id": left.run_id})
        assert result.structured_content == {"value": [200, 300, 400]}
        assert sorted(shop.paid) == [200, 300, 400]


async def test_proposed_values_fill_the_form_and_others_become_the_comment(root: Path) -> None:
    user = User(accept(cents=450, reason="late"))
    defaults = {"cents": 450, "reason": "goodwill"}
    async with shop_client(root, user, defaults=defaults) as (client, session, shop):
        await client.call_tool("program", pay(500))
        assert shop.paid == [450]
        (row,) = await session.history.runs(1)
        (decision,) = (await session.history.recorded(row.run_id)).decisions
    (form,) = user.forms
    properties = form.requested_schema["properties"]
    assert (properties["cents"]["default"], properties["reason"]["default"]) == (450, "goodwill")
    assert decision.comment == "reason: late"


async def test_unrecorded_argument_is_not_a_field(root: Path) -> None:
    saved: list[str] = []

    @tool(side_effect=True, idempotent=True, needs_approval=True, unrecorded=["text"])
    async def save(name: str, text: str) -> None:
        """Save."""
        saved.append(text)

    user = User(accept(name="other"))
    async with shop_client(
        root, user, session_options={"tools": [save]}, allowed_tools=["save"]
    ) as (client, _, _shop):
        result = await client.call_tool("program", script("await ctx.save('n', 'body')"))
        assert result.structured_content == {"value": None}
    assert user.forms[0].requested_schema["properties"] == {}
    assert saved == ["body"], "the call is made with the arguments that were requested"


def next_step(result: CallToolResult) -> str:
    step = result.structured_content["next"]
    assert step in texts(result)[0]
    return str(step)


@pytest.mark.usefixtures("nothing_left")
async def test_client_without_forms_learns_what_waits_and_how_to_continue(root: Path) -> None:
    async with shop_client(root) as (client, session, shop):
        paused = await client.call_tool("program", pay(500))
        assert not paused.is_error
        data = paused.structured_content
        (waiting,) = data["pending"]
        assert (data["status"], waiting["tool"], waiting["kind"]) == ("paused", "pay", "approval")
        assert (waiting["line"], waiting["prompt"]) == (4, "Pay 500 cents?")
        run_id = data["run_id"]
        assert f"`ptc approve {run_id} CALL`" in next_step(paused)
        assert f'program_resume with {{"run_id": "{run_id}"}}' in next_step(paused)
        status = await client.call_tool("program_status", {"run_id": run_id})
        assert "requires approval and has not started: Pay 500 cents?" in "".join(texts(status))
        await session.approve(run_id, by="ann")
        decided = await client.call_tool("program_status", {"run_id": run_id})
        assert "Every call is decided" in "".join(texts(decided))
        result = await client.call_tool("program_resume", {"run_id": run_id})
        assert (result.structured_content, shop.paid) == ({"value": 501}, [500])
        again = await client.call_tool("program_resume", {"run_id": run_id})
        assert (again.structured_content, shop.paid) == ({"value": 501}, [500])
        finished = await client.call_tool("program_status", {"run_id": run_id})
        assert finished.structured_content == {"value": 501}


async def test_resuming_before_the_decision_pauses_again(root: Path) -> None:
    async with shop_client(root) as (client, _, shop):
        paused = await client.call_tool("program", pay(500))
        run_id = paused.structured_content["run_id"]
        again = await client.call_tool("program_resume", {"run_id": run_id})
        assert again.structured_content == paused.structured_content
        assert shop.paid == []
        for extra in ({"approve": True}, {"by": "me"}):
            refused = await client.call_tool("program_resume", {"run_id": run_id} | extra)
            assert refused.is_error
            assert "unknown argument" in texts(refused)[0]


async def test_client_continues_a_failed_run_with_a_corrected_script(root: Path) -> None:
    wrong = script("await ctx.pay(inputs['cents'])\nreturn inputs['missing']")
    fixed = script("first = await ctx.pay(inputs['cents'])\nreturn first + await ctx.pay(8)")
    async with shop_client(root) as (client, _, shop):
        failed = await client.call_tool("program", wrong | {"inputs": {"cents": 7}})
        assert failed.is_error
        run_id = failed.structured_content["run_id"]
        assert f'program_resume with {{"run_id": "{run_id}", "source"' in next_step(failed)
        result = await client.call_tool("program_resume", {"run_id": run_id, **fixed})
        assert (result.structured_content, shop.paid) == ({"value": 15}, [7, 8])
        changed = {"run_id": run_id, "reads": "refresh"}
        refused = await client.call_tool("program_resume", changed)
        assert "pass source as well" in texts(refused)[0]


async def test_server_can_leave_approvals_to_the_operator(root: Path) -> None:
    user = User()
    async with shop_client(root, user, ask_client=False) as (client, _, _shop):
        paused = await client.call_tool("program", pay(500))
        assert paused.structured_content["status"] == "paused"
    assert user.forms == []


async def test_client_cannot_reach_runs_that_others_started(root: Path) -> None:
    @tool
    async def peek() -> str:
        """Peek."""
        return "private"

    options = {"tools": [Shop().tool(), peek]}
    async with shop_client(root, session_options=options) as (client, session, _shop):
        own = await client.call_tool("program", pay(1))
        assert own.meta is not None
        await session.program(source="1", run_id="mcp-0123456789abcdef", allowed_tools=["peek"])
        await session.program(source="1", run_id="report", allowed_tools=["pay"])
        for run_id, message in (
            ("report", "there is no run 'report' of an MCP client"),
            ("mcp-0000000000000000", "there is no run"),
            ("../x", "there is no run"),
            ("mcp-0123456789abcdef", "used tools that this server does not allow: peek"),
        ):
            for name in ("program_log", "program_status", "program_resume"):
                result = await client.call_tool(name, {"run_id": run_id})
                assert result.is_error
                assert message in texts(result)[0]
                assert texts(result)[0].startswith("The call was rejected: ")
            with pytest.raises(mcp.MCPError, match=message):
                await client.read_resource(f"ptc://runs/{run_id}")
        mine = await client.call_tool("program_log", {"run_id": own.meta["ptc/run_id"]})
        assert "1. pay" in texts(mine)[0]


@pytest.mark.parametrize("name", ["pay", "shop.pay"])
async def test_directly_offered_tool_with_approval_can_pause_and_be_approved(
    root: Path, name: str
) -> None:
    user, shop = User(accept(), DISMISS), Shop()
    given = {"tools": [shop.tool(name=name)]}
    async with shop_client(
        root, user, session_options=given, allowed_tools=[name], direct_tools=True
    ) as (client, *_):
        result = await client.call_tool(name, {"cents": 500})
        assert (result.structured_content, shop.paid) == ({"value": 500}, [500])
        paused = await client.call_tool(name, {"cents": 700})
        assert paused.structured_content["status"] == "paused"


async def test_rules_on_arguments_hold_after_a_form(root: Path) -> None:
    user = User(accept(cents=900), accept(cents=600))
    rule = Allow("pay", cents=lambda cents: cents <= 600)
    async with shop_client(root, user, allowed_tools=[rule]) as (client, _, shop):
        result = await client.call_tool("program", pay(500))
        assert (result.structured_content, shop.paid) == ({"value": 601}, [600])
    assert "Your last answer was not valid" in user.forms[1].message


async def test_forged_or_foreign_state_of_a_form_is_refused(root: Path) -> None:
    async with shop_client(root, User(DISMISS)) as (client, session, shop):
        await client.call_tool("program", pay(500))
        (waiting,) = await session.pending()
        state = json.dumps({"run": waiting.run_id, "later": [], "rounds": 0})
        with pytest.raises(mcp.MCPError, match="Invalid or expired requestState"):
            await client.session.call_tool(
                "program",
                pay(500),
                input_responses={waiting.call: accept()},
                request_state=state,
                allow_input_required=True,
            )
        assert shop.paid == []


async def test_pause_is_bounded_whatever_waits(root: Path) -> None:
    body = "return await asyncio.gather(*(ctx.pay(200 + n, ['x' * 900]) for n in range(40)))"
    limits = Limits(max_tool_calls=100)
    async with shop_client(root, limits=limits) as (client, _, _shop):
        paused = await client.call_tool("program", script(body))
        data = paused.structured_content
        assert len(json.dumps(data)) <= 1_500
        assert sum(map(len, texts(paused))) <= 1_500
        assert data["pending_omitted"] == 40 - len(data["pending"])
        assert data["pending"]
        assert "program_resume" in data["next"]
