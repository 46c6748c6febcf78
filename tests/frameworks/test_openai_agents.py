"""The OpenAI Agents SDK: failures, guardrails and approvals of its tools, and its interruptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Session, ToolError, UsageError, tool, tool_from
from ptc.models import ModelReply, ModelUsage
from ptc.testing import ScriptedModel as ScriptedGenerator
from ptc_bindings._export import Exports
from ptc_bindings.openai_agents import as_tools, tools_from, with_context

pytest.importorskip("agents", reason="pip install 'ptc-host[openai-agents]'")
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ToolGuardrailFunctionOutput,
    Usage,
    WebSearchTool,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import set_trace_processors

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.shared_zygote]

SENT: list[str] = []
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The SDK needs asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


@tool(side_effect=True, idempotent=True, needs_approval=True)
async def send(to: str) -> str:
    """Send a message."""
    SENT.append(to)
    return f"sent to {to}"


@tool
async def price(item: str, currency: str = "EUR") -> str:
    """Look up a price."""
    if item == "gold":
        raise ToolError("gold has no price", code="not_found")
    return f"3.2 {currency}"


def session(root: Path, *tools: Any, **options: Any) -> Session:
    return Session(root, tools=tools, toolsets=(), workers=1, **options)


# --- in -----------------------------------------------------------------------------------------


async def error_of(native: Any, root: Path, **arguments: Any) -> ToolError:
    """Return the error of a call of the SDK's tool."""
    async with session(root, native) as opened:
        with pytest.raises(ToolError) as caught:
            (await opened.tool(tools_from(native).name, arguments)).unwrap()  # type: ignore[union-attr]
    return caught.value


def crash(reason: str) -> str:
    """Fail.

    Args:
        reason: Text of the error.
    """
    raise KeyError(reason)


async def test_failure_function_never_makes_a_failure_a_result(tmp_path: Path) -> None:
    async def words(_: Any, error: Exception) -> str:
        return f"Ask for help: {error}"

    default = await error_of(function_tool(crash), tmp_path, reason="no disk")
    none = await error_of(function_tool(crash, failure_error_function=None), tmp_path, reason="a")
    worded = await error_of(
        function_tool(crash, failure_error_function=words), tmp_path, reason="no disk"
    )
    assert (default.code, none.code, worded.code) == ("internal", "internal", "failed")
    assert "KeyError: 'no disk'" in str(default)
    assert "Ask for help: 'no disk'" in str(worded)


async def test_original_tool_is_not_changed(tmp_path: Path) -> None:
    native = function_tool(crash)
    await error_of(native, tmp_path, reason="a")
    model = ScriptedModel(
        [[function_call("crash", {"reason": "a"}, call_id="1")], [assistant_message("done")]]
    )
    await Runner.run(Agent(name="a", model=model, tools=[native]), "x", run_config=QUIET)
    assert model.last_call is not None
    assert "An error occurred" in model.last_call.input[-1]["output"]


async def test_arguments_that_the_sdk_rejects_are_invalid(tmp_path: Path) -> None:
    def half(even: int) -> int:
        """Halve a number."""
        return even // 2

    native = function_tool(half)
    native.params_json_schema = {"type": "object", "properties": {"even": {}}}
    assert (await error_of(native, tmp_path, even="x")).code == "invalid_arguments"
    native = function_tool(half)
    assert (await error_of(native, tmp_path, even="x")).code == "invalid_arguments"


async def test_default_of_a_parameter_makes_it_optional(tmp_path: Path) -> None:
    def power(base: int, exponent: int = 2) -> dict[str, int]:
        """Raise a number to a power."""
        return {"is": base**exponent}

    async with session(tmp_path, function_tool(power)) as opened:
        assert (await opened.tool("power", {"base": 3})).value == {"is": 9}


async def test_guardrails_of_a_tool_apply(tmp_path: Path) -> None:
    def no_salt(data: Any) -> ToolGuardrailFunctionOutput:
        if "salt" in data.context.tool_arguments:
            return ToolGuardrailFunctionOutput.reject_content("salt is not sold")
        return ToolGuardrailFunctionOutput.allow()

    def no_pin(data: Any) -> ToolGuardrailFunctionOutput:
        if "pin" in str(data.output):
            return ToolGuardrailFunctionOutput.raise_exception()
        return ToolGuardrailFunctionOutput.allow()

    def buy(item: str) -> str:
        """Buy an item."""
        SENT.append(item)
        return item

    native = function_tool(
        buy,
        tool_input_guardrails=[tool_input_guardrail(no_salt)],
        tool_output_guardrails=[tool_output_guardrail(no_pin)],
    )
    refused = await error_of(native, tmp_path, item="salt")
    assert (refused.code, "salt is not sold" in str(refused), SENT) == ("rejected", True, [])
    assert "the guardrail 'no_pin' was triggered" in str(
        await error_of(native, tmp_path, item="pin")
    )
    async with session(tmp_path, native) as opened:
        assert (await opened.tool("buy", {"item": "tea"})).value == "tea"


async def test_approval_of_a_tool_pauses_a_script(tmp_path: Path) -> None:
    async def far(_: Any, arguments: dict[str, Any], __: str) -> bool:
        return bool(arguments["to"] == "rome")

    def travel(to: str) -> str:
        """Travel."""
        SENT.append(to)
        return to

    async with session(tmp_path, function_tool(travel, needs_approval=far)) as opened:
        source = "async def run(ctx, inputs):\n    return await ctx.travel(inputs['to'])"
        near = await opened.program(source=source, inputs={"to": "home"}, allowed_tools=["travel"])
        paused = await opened.program(
            source=source, inputs={"to": "rome"}, allowed_tools=["travel"]
        )
    assert (near.status, paused.status, SENT) == ("completed", "paused", ["home"])


async def test_context_of_a_run_is_passed_explicitly(tmp_path: Path) -> None:
    def whoami(wrapper: RunContextWrapper[dict[str, str]], greeting: str) -> str:
        """Greet the user."""
        return f"{greeting}, {wrapper.context['user']}"

    with pytest.raises(UsageError, match=r"with_context\(\[tool\], context\)"):
        tool_from(function_tool(whoami))
    bound = with_context([function_tool(whoami)], {"user": "ann"})
    async with session(tmp_path, bound) as opened:
        assert (await opened.tool("whoami", {"greeting": "Hello"})).value == "Hello, ann"


async def test_agent_that_is_a_tool_answers_or_fails(tmp_path: Path) -> None:
    model = ScriptedModel(
        [[assistant_message("42")], [function_call("ask", {}, call_id="1")]],
        default_usage=Usage(requests=1, input_tokens=7),
    )

    def ask() -> str:
        """Ask."""
        return "asked"

    expert = Agent(name="expert", model=model, tools=[function_tool(ask, needs_approval=True)])
    native = expert.as_tool("expert", "Ask an expert.", run_config=QUIET)
    async with session(tmp_path, native) as opened:
        answer = await opened.tool("expert", {"input": "How much?"})
        assert (answer.value, answer.metadata["usage"]["input_tokens"]) == ("42", 7)
        with pytest.raises(ToolError, match="awaits approval of ask") as caught:
            (await opened.tool("expert", {"input": "More?"})).unwrap()
    assert caught.value.code == "approval_required"


def test_what_cannot_be_called_is_refused_with_the_reason() -> None:
    def plain() -> str:
        """Do."""
        return ""

    with pytest.raises(UsageError, match=r"pass agent\.as_tool"):
        tool_from(Agent(name="helper"))
    with pytest.raises(UsageError, match="a WebSearchTool: only a FunctionTool"):
        tool_from(WebSearchTool())
    with pytest.raises(UsageError, match="is disabled"):
        tool_from(function_tool(plain, is_enabled=False))


def test_declared_facts_of_a_tool_are_kept() -> None:
    async def run(_: Any, __: str) -> str:
        return ""

    native = FunctionTool(
        "look-up", "Look.", {"type": "object", "properties": {}}, run, timeout_seconds=1.5
    )
    made = tool_from(native)
    assert (made.name, made.timeout_ms, made.side_effect, made.idempotent) == (
        "look_up",
        1_500,
        True,
        False,
    )


# --- out ----------------------------------------------------------------------------------------


async def run(tester: Any, start: Any) -> Any:
    """Run an agent, or continue its run."""
    return await Runner.run(tester, start, run_config=QUIET)


def agent(tools: list[Any], *calls: tuple[str, dict[str, Any]]) -> tuple[Any, Any]:
    requested = [function_call(name, sent, call_id=f"{n}") for n, (name, sent) in enumerate(calls)]
    model = ScriptedModel([requested, [assistant_message("done")]])
    return Agent(name="tester", model=model, tools=tools), model


def program(body: str) -> tuple[str, dict[str, Any]]:
    return "program", {"source": f"import asyncio\nasync def run(ctx, inputs):\n    {body}"}


ASK_ALL = "return await asyncio.gather(*map(ctx.send, ['a', 'b', 'c']), return_exceptions=True)"


async def test_each_call_of_a_script_is_decided_on_its_own(tmp_path: Path) -> None:
    body = (
        "one, two = await asyncio.gather(ctx.send('a'), ctx.send('b'), return_exceptions=True)\n"
        "    return [one, str(two), await ctx.send('c')]"
    )
    async with session(tmp_path, send) as opened:
        tester, model = agent(as_tools(opened, allowed_tools=["send"]), program(body))
        result = await run(tester, "x")
        asked = {json.loads(i.raw_item.arguments)["to"]: i for i in result.interruptions}
        assert {item.name for item in asked.values()} == {"send"}
        assert sorted(asked) == ["a", "b"]
        state = result.to_state()
        state.approve(asked["a"])
        result = await run(tester, state)
        assert [json.loads(i.raw_item.arguments)["to"] for i in result.interruptions] == ["b"]
        assert SENT == [], "the script continues when all its calls are decided"
        state = result.to_state()
        state.reject(result.interruptions[0], rejection_message="b is on holiday")
        result = await run(tester, state)
        [third] = result.interruptions
        assert (json.loads(third.raw_item.arguments), SENT) == ({"to": "c"}, ["a"])
        state = result.to_state()
        state.approve(third)
        result = await run(tester, state)
        output = model.last_call.input[-1]["output"]
        [row] = await opened.history.runs(1)
    assert (result.final_output, SENT) == ("done", ["a", "c"])
    assert "sent to a" in output
    assert "b is on holiday" in output
    assert row.status == "completed"


async def test_interrupted_run_continues_from_its_saved_state(tmp_path: Path) -> None:
    calls = [program("return [await ctx.send('a'), await ctx.send('b')]"), ("send", {"to": "c"})]
    async with session(tmp_path, send) as opened:
        tester, _ = agent(as_tools(opened, allowed_tools=["send"], direct=True), *calls)
        result = await run(tester, "x")
        saved = result.to_state().to_string()
    for left in (2, 1):  # each in a process of its own, as far as ptc and the agent know
        async with session(tmp_path, send) as opened:
            tester, _ = agent(as_tools(opened, allowed_tools=["send"], direct=True))
            tester.model = model = ScriptedModel([[assistant_message("done")]])
            state = await RunState.from_string(tester, saved)
            assert len(state.get_interruptions()) == left
            for item in state.get_interruptions():
                state.approve(item)
            result = await run(tester, state)
            saved = result.to_state().to_string()
    assert (result.final_output, SENT.count("b"), sorted(SENT)) == ("done", 1, ["a", "b", "c"])
    assert model.last_call is not None
    outputs = {item.get("call_id"): item.get("output") for item in model.last_call.input}
    assert "sent to b" in outputs["0"]
    assert "sent to c" in outputs["1"]


async def test_decision_made_elsewhere_counts(tmp_path: Path) -> None:
    async with session(tmp_path, send) as opened:
        tester, model = agent(as_tools(opened, allowed_tools=["send"]), program(ASK_ALL))
        result = await run(tester, "x")
        run_id = result.interruptions[0].raw_item.call_id.partition(".")[0]
        calls = {pending.arguments["to"]: pending.call for pending in await opened.pending(run_id)}
        await opened.history.reject(run_id, calls["a"], by="ann")
        await opened.history.approve(run_id, calls["b"], by="ann")
        state = result.to_state()
        for item in result.interruptions:
            approved = json.loads(item.raw_item.arguments)["to"] != "b"
            state.approve(item) if approved else state.reject(item, rejection_message="approved")
        result = await run(tester, state)
    assert (result.interruptions, sorted(SENT)) == ([], ["b", "c"])
    assert "sent to b" in model.last_call.input[-1]["output"]


async def test_call_that_stays_pending_ends_the_tool_instead_of_asking_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def decide_nothing(*_: Any, **__: Any) -> None: ...

    async with session(tmp_path, send) as opened:
        tester, model = agent(as_tools(opened, allowed_tools=["send"]), program(ASK_ALL))
        result = await run(tester, "x")
        monkeypatch.setattr(Exports, "decide", decide_nothing)
        state = result.to_state()
        for item in result.interruptions:
            state.approve(item)
        result = await run(tester, state)
    assert (result.final_output, SENT) == ("done", [])
    assert "Do not run the script again" in model.last_call.input[-1]["output"]


@pytest.mark.parametrize("sent", ['{"source": ', "[1]", '{"source": NaN}', "  ", '{"sources": 1}'])
async def test_wrong_arguments_of_a_pausing_tool_do_not_end_the_run(
    tmp_path: Path, sent: str
) -> None:
    async with session(tmp_path, send) as opened:
        tester, model = agent(as_tools(opened, allowed_tools=["send"]))
        call: Any = function_call("program", {}, call_id="1")
        call.arguments = sent
        tester.model = model = ScriptedModel([[call], [assistant_message("done")]])
        result = await run(tester, "x")
    [item] = [item for item in result.new_items if item.type == "tool_call_output_item"]
    assert result.final_output == "done"
    assert item.custom_data["ptc"]["is_error"]
    assert model.last_call is not None
    assert "program" in item.output or "script" in item.output


async def test_tools_whose_names_collide_are_asked_by_their_own(tmp_path: Path) -> None:
    made = [tool(name=name, needs_approval=True)(send.function) for name in ("a.b", "a__b")]
    async with session(tmp_path, *made) as opened:
        body = "return await asyncio.gather(ctx.a.b('x'), ctx.a__b('y'))"
        tester, _ = agent(as_tools(opened, allowed_tools=["a.b", "a__b"]), program(body))
        result = await run(tester, "x")
    names = {json.loads(i.raw_item.arguments)["to"]: i.name for i in result.interruptions}
    assert names["x"] == "a__b"
    assert names["y"].startswith("a__b_")


async def test_streamed_run_is_interrupted_and_cancelled_too(tmp_path: Path) -> None:
    async with session(tmp_path, send) as opened:
        tester, _ = agent(as_tools(opened, allowed_tools=["send"]), program(ASK_ALL))
        streamed = Runner.run_streamed(tester, "x", run_config=QUIET)
        async for _event in streamed.stream_events():
            pass
        assert len(streamed.interruptions) == 3
        state = streamed.to_state()
        for item in streamed.interruptions:
            state.approve(item)
        streamed = Runner.run_streamed(tester, state, run_config=QUIET)
        async for _event in streamed.stream_events():
            pass
    assert (streamed.final_output, sorted(SENT)) == ("done", ["a", "b", "c"])


async def test_run_that_is_cancelled_from_a_stream_stops_the_script(tmp_path: Path) -> None:
    started, stopped = anyio.Event(), anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await anyio.sleep(30)
        finally:
            stopped.set()
        return ""

    async with session(tmp_path, wait) as opened:
        tester, _ = agent(as_tools(opened), program("return await ctx.wait()"))
        streamed = Runner.run_streamed(tester, "x", run_config=QUIET)

        async def read() -> None:
            async for _event in streamed.stream_events():
                pass

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            with anyio.fail_after(20):
                await started.wait()
                streamed.cancel()
                await stopped.wait()


async def test_model_of_the_run_does_not_replace_that_of_a_pausing_tool(tmp_path: Path) -> None:
    async with session(tmp_path, send) as opened:
        tester, model = agent(as_tools(opened, allowed_tools=["send"]), program("return 6 * 7"))
        tester.model = None
        config = RunConfig(model=model, tracing_disabled=True)
        result = await Runner.run(tester, "x", run_config=config)
    assert (result.final_output, model.last_call.input[-1]["output"]) == ("done", "42")


async def test_strict_tools_are_accepted_by_the_sdk_and_take_nulls(tmp_path: Path) -> None:
    async with session(tmp_path, send, price) as opened:
        for allowed in (["price"], ["price", "send"]):
            tools: list[Any] = as_tools(
                opened, allowed_tools=allowed, direct=["price"], strict=True
            )
            assert all(item.strict_json_schema for item in tools)
            source = "async def run(ctx, inputs):\n    return inputs"
            calls: list[tuple[str, dict[str, Any]]] = [
                ("price", {"item": "tea", "currency": None}),
                ("program", {"source": source, "inputs": '{"n": 1}'}),
                ("program", {"source": source, "inputs": "{n"}),
            ]
            tester, model = agent(tools, *calls)
            await run(tester, "x")
            texts = [item["output"] for item in model.last_call.input[-3:]]
            assert texts[:2] == ["3.2 EUR", '{"n":1}']
            assert "`inputs` must be valid JSON" in texts[2]


class Spans:
    """Records the spans of tools: a processor of traces."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def on_span_end(self, span: Any) -> None:
        if span.span_data.type == "function":
            self.found.append(span)

    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


async def test_failure_is_marked_in_the_item_and_in_the_trace(tmp_path: Path) -> None:
    spans: Any = Spans()
    set_trace_processors([spans])
    try:
        async with session(tmp_path, price, send) as opened:
            for names in (["price"], ["price", "send"]):
                tools = as_tools(opened, allowed_tools=names, direct=["price"])
                calls = [("price", {"item": "gold"}), program("return await ctx.price('gold')")]
                tester, _ = agent(tools, *calls, ("price", {"item": "tea"}))
                result = await Runner.run(tester, "x")
                items: list[Any] = [
                    item for item in result.new_items if item.type == "tool_call_output_item"
                ]
                about = [item.custom_data["ptc"] for item in items]
                assert [facts["is_error"] for facts in about] == [True, True, False]
                assert [facts["code"] for facts in about] == ["not_found", "tool_error", ""]
                assert (await opened.history.run(about[1]["run_id"])).status == "failed"
                assert all("gold has no price" in item.output for item in items[:2])
    finally:
        set_trace_processors([])
    failed = [span for span in spans.found if span.error]
    assert [span.span_data.name for span in failed] == ["price", "program"] * 2


async def test_generate_object_is_a_tool_like_others(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    async with session(tmp_path, model=ScriptedGenerator({"n": 1})) as opened:
        tools = as_tools(opened, direct=["generate_object"], program=False)
        tester, model = agent(tools, ("generate_object", {"schema": schema, "prompt": "One."}))
        await run(tester, "x")
    assert json.loads(model.last_call.input[-1]["output"])["object"] == {"n": 1}


@pytest.mark.parametrize("gated", [False, True])
async def test_usage_of_models_that_scripts_call_is_counted(tmp_path: Path, gated: bool) -> None:
    usage = ModelUsage(requests=1, input_tokens=900, output_tokens=7)
    model = ScriptedGenerator(ModelReply('{"n": 1}', usage=usage))
    call = "await ctx.generate_object(schema={'type': 'object'}, prompt='A number.')"
    source = f"async def run(ctx, inputs):\n    return ({call}).object"
    names = ["generate_object", *(["send"] if gated else [])]
    async with session(tmp_path, send, model=model) as opened:
        turns = [
            [function_call("program", {"source": source}, call_id="1")],
            [assistant_message("ok")],
        ]
        agent = Agent("a", model=ScriptedModel(turns), tools=as_tools(opened, allowed_tools=names))
        result = await Runner.run(agent, "go", run_config=QUIET)
    spent = result.context_wrapper.usage
    assert (spent.input_tokens >= 900, spent.output_tokens >= 7) == (True, True)
