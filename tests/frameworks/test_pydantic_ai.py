"""pydantic-ai: dependencies, deferred approvals, usage, and failures of each kind."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ptc import (
    ImageContent,
    Session,
    SetupError,
    ToolContext,
    ToolError,
    ToolResult,
    UsageError,
    tool,
)
from ptc.testing import ScriptedModel
from ptc_bindings.pydantic_ai import as_tools, as_toolset, bind

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")

from pydantic_ai import (  # noqa: E402  # after the check that it is installed
    Agent,
    ApprovalRequired,
    CallDeferred,
    DeferredToolRequests,
    FunctionToolset,
    ModelRetry,
    RunContext,
    Tool,
    ToolFailed,
)
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402
from pydantic_ai.tools import ToolDefinition  # noqa: E402
from pydantic_ai.toolsets import ExternalToolset  # noqa: E402
from pydantic_ai.usage import RunUsage  # noqa: E402

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.shared_zygote]

SENT: list[str] = []


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """pydantic-ai needs asyncio."""
    return "asyncio"


@tool(side_effect=True, idempotent=True, needs_approval=True)
def send(to: str, urgent: bool = False) -> str:
    """Send a message."""
    SENT.append(f"{to}!" if urgent else to)
    return f"sent to {to}"


@tool
async def price(item: str) -> int:
    """Look up a price."""
    if item == "gold":
        raise ToolError("gold has no price", code="not_found")
    return 3


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


def session(root: Path, *tools: Any, **options: Any) -> Session:
    return Session(root, tools=tools, toolsets=(), workers=1, **options)


def script(*lines: str) -> dict[str, Any]:
    body = "".join(f"    {line}\n" for line in lines)
    return {"source": f"async def run(ctx, inputs):\n{body}"}


class Asker:
    """A model that makes one call, and then returns the text that it read."""

    def __init__(self, name: str, arguments: Any) -> None:
        self.part = ToolCallPart(name, arguments)
        self.outcomes: list[str] = []

    def __call__(self, messages: list[Any], info: Any) -> ModelResponse:
        found = [part for part in messages[-1].parts if part.part_kind == "tool-return"]
        if not found:
            return ModelResponse([self.part])
        self.outcomes.append(found[0].outcome)
        return ModelResponse([TextPart(str(found[0].content))])


def agent_of(asker: Asker, tools: list[Any], **options: Any) -> Any:
    outputs = [str, DeferredToolRequests]
    return Agent(FunctionModel(asker), tools=tools, output_type=outputs, **options)


async def resume(agent: Any, result: Any, **answers: Any) -> Any:
    """Continue the agent with the answers to all requests."""
    return await agent.run(
        message_history=result.all_messages(),
        deferred_tool_results=result.output.build_results(**answers),
    )


# --- in -----------------------------------------------------------------------------------------


async def call(root: Path, thing: Any, name: str, **arguments: Any) -> Any:
    async with session(root, thing) as opened:
        return (await opened.tool(name, arguments)).unwrap()


def fail_by_retry() -> None:
    """Fail."""
    raise ModelRetry("use another date")


def fail_for_good() -> None:
    """Fail."""
    raise ToolFailed("there is no such order")


def fail_by_approval() -> None:
    """Fail."""
    raise ApprovalRequired


def fail_by_deferral() -> None:
    """Fail."""
    raise CallDeferred


def crash() -> None:
    """Fail."""
    raise LookupError("no row")


@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        (fail_by_retry, "retry", "use another date"),
        (fail_for_good, "failed", "there is no such order"),
        (fail_by_approval, "approval_required", "has no approver"),
        (fail_by_deferral, "deferred", "cannot wait"),
        (crash, "internal", "LookupError: no row"),
    ],
)
async def test_failures_are_tool_errors(
    tmp_path: Path, function: Callable[[], None], code: str, text: str
) -> None:
    with pytest.raises(ToolError, match=text) as caught:
        await call(tmp_path, FunctionToolset([function]), function.__name__)
    assert caught.value.code == code


async def test_dependencies_are_bound_or_their_use_is_an_error(tmp_path: Path) -> None:
    def user(ctx: RunContext[dict[str, str]]) -> str:
        """Return the user."""
        return ctx.deps.get("user", "")

    toolset = FunctionToolset([user])
    assert await call(tmp_path, bind(toolset, deps={"user": "ann"}), "user") == "ann"
    assert await call(tmp_path, bind(Tool(user), deps={"user": "ben"}), "user") == "ben"
    with pytest.raises(ToolError, match=r"ctx\.deps\.get.* pass .*bind\(tools, deps=") as caught:
        await call(tmp_path, toolset, "user")
    assert caught.value.code == "no_deps"


async def test_toolset_is_entered_while_the_session_is_open(tmp_path: Path) -> None:
    class Tracked(FunctionToolset[Any]):
        entered: bool | None = None

        async def __aenter__(self) -> Any:
            self.entered = True
            return await super().__aenter__()

        async def __aexit__(self, *args: Any) -> None:
            self.entered = False

    tracked = Tracked([fail_for_good])
    async with session(tmp_path, bind(tracked, namespace="orders")) as opened:
        assert (tracked.entered, opened.tool_names()) == (True, ["orders.fail_for_good"])
    assert tracked.entered is False


async def test_tools_that_no_script_can_call_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'later' is produced outside .* toolset\.filtered"):
        await call(tmp_path, ExternalToolset([ToolDefinition(name="later")]), "later")
    with pytest.raises(UsageError, match="Agent of pydantic-ai is not a tool"):
        session(tmp_path, Agent())

    def broken(ctx: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
        return ctx.deps.choose(definition)  # type: ignore[no-any-return]  # deps are Any

    with pytest.raises(SetupError, match=r"cannot be opened: ToolError: .*ctx\.deps\.choose"):
        await call(tmp_path, FunctionToolset([Tool(crash, prepare=broken)]), "crash")


async def test_approval_of_a_wrapper_pauses_before_the_call(tmp_path: Path) -> None:
    made: list[int] = []

    def pay(euros: int) -> str:
        """Pay."""
        made.append(euros)
        return f"paid {euros}"

    def is_large(ctx: Any, definition: Any, arguments: dict[str, Any]) -> bool:
        return bool(arguments["euros"] > 10)

    toolset = FunctionToolset([pay]).approval_required(is_large).prefixed("bank")
    async with session(tmp_path, toolset) as opened:
        source = script("return [await ctx.bank_pay(5), await ctx.bank_pay(50)]")["source"]
        paused = await opened.program(source=source, allowed_tools=["bank_pay"])
        assert (paused.status, made) == ("paused", [5])
        done = await opened.approve(paused.run_id, by="ann", resume=True)
    assert (done.error, done.value, made) == (None, ["paid 5", "paid 50"], [5, 50])


async def test_approval_of_a_tool_that_asks_while_it_runs(tmp_path: Path) -> None:
    written: list[str] = []

    def write(ctx: RunContext[None], path: str) -> str:
        """Write a file."""
        if path == ".env" and not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"reason": "protected"})
        written.append(path)
        return f"wrote {path}"

    def check(ctx: RunContext[None], path: str) -> None:
        if path == "/etc/passwd":
            raise ApprovalRequired

    async with session(tmp_path, Tool(write, args_validator=check)) as opened:
        lines = script("return [await ctx.write(path) for path in ('a', '.env', '/etc/passwd')]")
        tools = as_tools(opened, allowed_tools=["write"])
        agent = agent_of(Asker("program", lines), tools)
        first = await agent.run("go")
        assert (isinstance(first.output, DeferredToolRequests), written) == (True, ["a"])
        second = await resume(agent, first, approve_all=True)
        assert written == ["a", ".env"]
        done = await resume(agent, second, approve_all=True)
    # The validator of the last call does not accept any approval.
    assert "although it was approved" in done.output
    assert written == ["a", ".env"]


async def test_cancellation_does_not_wait_for_a_plain_function(tmp_path: Path) -> None:
    started, ended = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        started.set()
        ended.wait(30)
        return ""

    async with session(tmp_path, Tool(wait)) as opened:
        source = script("await ctx.wait()")["source"]
        task = asyncio.create_task(opened.program(source=source, allowed_tools=["wait"]))
        assert await asyncio.to_thread(started.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)
        assert not ended.is_set()
        ended.set()


async def test_annotations_of_a_server_declare_the_effects(tmp_path: Path) -> None:
    annotations = {"annotations": {"readOnlyHint": True}}
    toolset = FunctionToolset([Tool(crash, metadata=annotations), fail_for_good])
    async with session(tmp_path, toolset) as opened:
        assert list(opened.select_tools(None)) == ["crash"]


# --- out: dependencies and usage ------------------------------------------------------------------


async def test_script_of_an_agent_uses_its_dependencies_and_usage(tmp_path: Path) -> None:
    async def user(ctx: RunContext[str]) -> str:
        """Return the user."""
        ctx.usage.incr(RunUsage(input_tokens=100))
        return ctx.deps

    def only_for_ann(ctx: RunContext[str], definition: ToolDefinition) -> ToolDefinition | None:
        return definition if ctx.deps in ("ann", "") else None

    toolset = FunctionToolset([Tool(user, prepare=only_for_ann)])
    async with session(tmp_path, bind(toolset, deps="")) as opened:
        asker = Asker("program", script("return await ctx.user()"))
        agent = agent_of(asker, as_tools(opened, allowed_tools=["user"]), deps_type=str)
        found = await agent.run("go", deps="ann")
        hidden = await agent.run("go", deps="ben")
    assert found.output == "ann"
    assert found.usage.input_tokens >= hidden.usage.input_tokens + 50
    assert "the agent does not offer user" in hidden.output
    assert asker.outcomes == ["success", "failed"]


async def test_usage_of_models_that_scripts_call_is_counted(tmp_path: Path) -> None:
    from ptc.models import ModelReply, ModelUsage

    def reply(text: str) -> ModelReply:
        return ModelReply(text, usage=ModelUsage(requests=1, input_tokens=1_000, output_tokens=7))

    arguments = {"schema": {"type": "object", "required": ["n"]}, "prompt": "A number."}
    wrong, right = reply("{}"), reply('{"n": 1}')
    model = ScriptedModel(wrong, right, right)
    async with session(tmp_path, model=model) as opened:
        lines = f"return (await ctx.generate_object(**{arguments!r})).object"
        tools = as_tools(opened, allowed_tools=["generate_object"], direct=True)
        asked = await agent_of(Asker("program", script(lines)), tools).run("go")
        direct = await agent_of(Asker("generate_object", arguments), tools).run("go")
    assert asked.output == '{"n":1}'
    assert '"object":{"n":1}' in direct.output
    # Two requests of the agent, and those of the tool.
    assert (asked.usage.requests, asked.usage.input_tokens >= 2_000) == (4, True)
    assert (direct.usage.requests, direct.usage.output_tokens >= 7) == (3, True)


# --- out: failures --------------------------------------------------------------------------------


async def test_failed_script_does_not_end_the_agent(tmp_path: Path) -> None:
    async with session(tmp_path, price) as opened:
        for arguments in (script("return await ctx.price('gold')"), {"sauce": 1}, {}):
            asker = Asker("program", arguments)
            found = await agent_of(asker, as_tools(opened)).run("go")
            assert asker.outcomes == ["failed"], found.output


async def test_arguments_that_are_no_object_are_asked_for_again(tmp_path: Path) -> None:
    async with session(tmp_path, price) as opened:
        asker = Asker("program", "[1]")
        await agent_of(asker, [], toolsets=[as_toolset(opened, id="ptc")]).run("go")
    assert asker.outcomes == ["retried"]


async def test_image_of_a_tool_is_an_image_for_the_model(tmp_path: Path) -> None:
    from pydantic_ai import BinaryContent

    @tool
    def draw() -> ToolResult:
        """Draw."""
        image = ImageContent(base64.b64encode(b"png").decode(), "image/png")
        return ToolResult.success("drawn", content=[image])

    async with session(tmp_path, draw) as opened:
        found = await agent_of(Asker("draw", {}), as_tools(opened, direct=True)).run("go")
    [part] = [p for m in found.all_messages() for p in m.parts if p.part_kind == "tool-return"]
    [text, image] = part.content
    assert (image.data, image.media_type) == (b"png", "image/png")
    assert isinstance(image, BinaryContent)
    assert "drawn" in text


# --- out: approvals -------------------------------------------------------------------------------


async def test_second_gated_call_asks_again(tmp_path: Path) -> None:
    async with session(tmp_path, send) as opened:
        lines = script("first = await ctx.send('ann')", "return [first, await ctx.send('ben')]")
        agent = agent_of(Asker("program", lines), as_tools(opened, allowed_tools=["send"]))
        first = await agent.run("go")
        [request] = first.output.metadata.values()
        assert [(row["tool"], row["arguments"]["to"]) for row in request["calls"]] == [
            ("send", "ann")
        ]
        second = await resume(agent, first, approve_all=True)
        assert (isinstance(second.output, DeferredToolRequests), SENT) == (True, ["ann"])
        done = await resume(agent, second, approve_all=True)
    assert (done.output, SENT) == ('["sent to ann","sent to ben"]', ["ann", "ben"])


async def test_metadata_decides_each_call(tmp_path: Path) -> None:
    lines = script(
        "import asyncio",
        "calls = [ctx.send(to) for to in ('ann', 'ben', 'eve')]",
        "found = await asyncio.gather(*calls, return_exceptions=True)",
        "return [str(row) for row in found]",
    )
    async with session(tmp_path, send) as opened:
        agent = agent_of(Asker("program", lines), as_tools(opened, allowed_tools=["send"]))
        first = await agent.run("go")
        metadata = first.output.metadata
        [request] = metadata.values()
        request["by"] = "carol"
        _, ben, eve = request["calls"]
        ben |= {"decision": "reject", "comment": "not today"}
        eve["arguments"]["urgent"] = True
        done = await resume(agent, first, approve_all=True, metadata=metadata)
        assert not await opened.pending()
        decisions = (await opened.history.recorded(request["run_id"])).decisions
    assert "rejected by carol: not today" in done.output
    assert (sorted(SENT), {row.by for row in decisions}) == (["ann", "eve!"], {"carol"})


async def test_call_that_the_metadata_does_not_list_still_waits(tmp_path: Path) -> None:
    async with session(tmp_path, send) as opened:
        lines = script("return await ctx.send('ann')")
        agent = agent_of(Asker("program", lines), as_tools(opened, allowed_tools=["send"]))
        first = await agent.run("go")
        for calls in ([], "1", [{"decision": "approve"}]):
            metadata = {key: {"calls": calls} for key in first.output.metadata}
            again = await resume(agent, first, approve_all=True, metadata=metadata)
            assert (isinstance(again.output, DeferredToolRequests), SENT) == (True, [])
        wrong = {key: {"calls": [{"call": "1", "decision": "yes"}]} for key in metadata}
        refused = await resume(agent, first, approve_all=True, metadata=wrong)
    assert ("must be 'approve' or 'reject'" in refused.output, SENT) == (True, [])


async def test_approval_does_not_edit_the_calls_of_the_tool(tmp_path: Path) -> None:
    @tool(side_effect=True, idempotent=True, needs_approval=True)
    async def greet(ctx: ToolContext, to: str, urgent: bool) -> str:
        """Send a greeting."""
        text: str = await ctx.call_tool("send", to=f"{to}'s cat")
        return text

    async with session(tmp_path, send, greet) as opened:
        tools = as_tools(opened, allowed_tools=["send", "greet"], direct=["greet"])
        agent = agent_of(Asker("greet", {"to": "ann", "urgent": True}), tools)
        first = await agent.run("go")
        second = await resume(agent, first, approve_all=True)
        done = await resume(agent, second, approve_all=True)
    assert (done.output, SENT) == ("sent to ann's cat", ["ann's cat"])


async def test_denied_call_is_not_made(tmp_path: Path) -> None:
    async with session(tmp_path, send) as opened:
        asker = Asker("send", {"to": "ann"})
        agent = agent_of(asker, as_tools(opened, allowed_tools=["send"], direct=True))
        first = await agent.run("go")
        [request] = first.output.approvals
        await resume(agent, first, approvals={request.tool_call_id: False})
        assert [call.tool for call in await opened.pending()] == ["send"]
    assert (SENT, asker.outcomes) == ([], ["denied"])


async def test_approver_edits_arguments_but_no_script(tmp_path: Path) -> None:
    from pydantic_ai import ToolApproved

    async with session(tmp_path, send) as opened:
        tools = as_tools(opened, allowed_tools=["send"], direct=True)
        asker = Asker("send", {"to": "ann"})
        agent = agent_of(asker, tools)
        first = await agent.run("go")
        [request] = first.output.approvals
        edited = ToolApproved(override_args={"to": "eve"})
        done = await resume(agent, first, approvals={request.tool_call_id: edited})
        assert (done.output, SENT) == ("sent to eve", ["eve"])
        agent = agent_of(Asker("program", script("return await ctx.send('ann')")), tools)
        first = await agent.run("go")
        [request] = first.output.approvals
        edited = ToolApproved(override_args=script("return await ctx.send('mallory')"))
        refused = await resume(agent, first, approvals={request.tool_call_id: edited})
    assert ("cannot be changed" in refused.output, SENT) == (True, ["eve"])


async def test_approval_resumes_the_run_in_another_process(tmp_path: Path) -> None:
    journal = tmp_path / "runs.db"
    lines = script("return [await ctx.price('tea'), await ctx.send('ann')]")

    def open_session() -> Session:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        return session(root, send, price, journal=journal)

    async with open_session() as opened:
        tools = as_tools(opened, allowed_tools=["send", "price"])
        first = await agent_of(Asker("program", lines), tools).run("go")
    assert isinstance(first.output, DeferredToolRequests)
    async with open_session() as opened:
        tools = as_tools(opened, allowed_tools=["send", "price"])
        done = await resume(agent_of(Asker("program", lines), tools), first, approve_all=True)
    assert (done.output, SENT) == ('[3,"sent to ann"]', ["ann"])


async def test_approval_of_a_toolset_around_the_tools_does_not_approve_their_calls(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, send) as opened:
        toolset = as_toolset(opened, allowed_tools=["send"]).approval_required()
        agent = agent_of(
            Asker("program", script("return await ctx.send('ann')")), [], toolsets=[toolset]
        )
        first = await agent.run("go")
        second = await resume(agent, first, approve_all=True)
        assert (isinstance(second.output, DeferredToolRequests), SENT) == (True, [])
        done = await resume(agent, second, approve_all=True)
    assert (done.output, SENT) == ("sent to ann", ["ann"])
