"""The OpenAI SDK: calls of its two APIs, hosted programs, and the forms of definitions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import ImageContent, Limits, Session, ToolError, ToolResult, UsageError, tool
from ptc.testing import ScriptedModel
from ptc_bindings.openai import Tools, as_tools

from .contract import PICTURE
from .openai_server import called, chat_called, completion, response, said, serve

pytest.importorskip("openai", reason="pip install 'ptc-host[openai]'")
pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.shared_zygote]

SENT: list[str] = []


@tool(name="shop.price")
def price(item: str) -> float:
    """Look up a price."""
    if item == "gold":
        raise ToolError("gold has no price", code="not_found")
    return {"tea": 3.2}[item]


@tool(side_effect=True, idempotent=True)
def send(to: str, copies: int = 1) -> str:
    """Send a message."""
    SENT.append(to)
    return f"sent to {to}, {copies}"


@tool(side_effect=True, idempotent=True, needs_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool
def look(at: str) -> ToolResult:
    """Look at something."""
    import base64

    image = ImageContent(base64.b64encode(PICTURE).decode(), "image/png")
    return ToolResult.success({"at": at}, content=[image])


@tool
def letters(count: int) -> str:
    """Return letters."""
    return "x" * count


class Box(BaseModel):
    """A box with boxes in it."""

    label: str
    inside: list[Box] = []


@tool
def boxes(label: str) -> Box:
    """Return boxes."""
    return Box(label=label, inside=[Box(label="small")])


NAMES = ["shop.price", "send", "pay", "look", "letters", "boxes"]


@pytest.fixture(scope="module")
async def session(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("openai")
    tools = [price, send, pay, look, letters, boxes]
    model = ScriptedModel({"n": 1})
    async with Session(root, tools=tools, toolsets=(), workers=1, model=model) as opened:
        yield opened


async def outputs(tools: Tools, *items: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """Run the calls of a response of the SDK; return what is appended."""
    with serve(response(*items)) as server:
        async with server.client() as client:
            answer = await client.responses.create(model="m", input="x", tools=list(tools))
    return await tools.run_calls(answer, **options)


def script(body: str) -> str:
    return f"async def run(ctx, inputs):\n    {body}"


async def test_each_call_has_one_output_and_failures_have_their_code(session: Session) -> None:
    tools = as_tools(session, allowed_tools=NAMES, direct=True)
    items = [
        called("shop__price", {"item": "tea"}, "1"),
        called("shop__price", {"item": "gold"}, "2"),
        called("shop__price", '{"item": ', "3"),
        called("shop_price", {"item": "tea"}, "4"),
        called("program", {"source": script("return 1 / 0")}, "5"),
        called("program", {"source": script("return inputs['n'] * 7"), "inputs": {"n": 6}}, "6"),
    ]
    found = await outputs(tools, said("First, I look."), *items)
    assert found[: len(items) + 1] == [said("First, I look."), *items]
    answers = found[len(items) + 1 :]
    assert [item["call_id"] for item in answers] == ["1", "2", "3", "4", "5", "6"]
    assert {item["type"] for item in answers} == {"function_call_output"}
    texts = [item["output"] for item in answers]
    assert texts[0] == "3.2"
    assert "not_found" in texts[1]
    assert "gold has no price" in texts[1]
    assert "the arguments must be valid JSON" in texts[2]
    assert "did you mean `shop__price`" in texts[3]
    assert "division by zero" in texts[4]
    assert texts[5] == "42"


async def test_response_without_calls_appends_nothing(session: Session) -> None:
    tools = as_tools(session)
    assert await outputs(tools, said()) == []
    with serve(completion(text="done")) as server:
        async with server.client() as client:
            answer = await client.chat.completions.create(model="m", messages=[])
    assert await as_tools(session, api="chat").run_calls(answer) == []


async def test_calls_of_the_application_are_left_to_it(session: Session) -> None:
    tools = as_tools(session, direct=["shop.price"], program=False)
    tools.append({"type": "function", "name": "mine", "parameters": {}, "strict": False})
    items = [called("mine", {}, "1"), called("shop__price", {"item": "tea"}, "2")]
    found = await outputs(tools, *items, skip=["mine"], echo_response=False)
    assert [item["call_id"] for item in found] == ["2"]


async def test_custom_tool_receives_the_source_as_it_is(session: Session) -> None:
    source = script('return "a\\"b" + \'\\n\'')
    tools = as_tools(session, text=True)
    assert tools[0]["type"] == "custom"
    assert tools[0]["format"] == {"type": "text"}
    assert "shop.price" in tools[0]["description"]
    call = {"type": "custom_tool_call", "call_id": "1", "name": "program", "input": source}
    [_, answer] = await outputs(tools, call)
    assert answer["type"] == "custom_tool_call_output"
    assert answer["output"] == 'a"b\n'
    chat = as_tools(session, text=True, api="chat")
    assert chat[0]["custom"]["format"] == {"type": "text"}
    body = {"id": "1", "type": "custom", "custom": {"name": "program", "input": source}}
    with serve(completion(body)) as server:
        async with server.client() as client:
            reply = await client.chat.completions.create(model="m", messages=[], tools=chat)
    [message, result] = await chat.run_calls(reply)
    assert message == {"role": "assistant", "tool_calls": [body]}
    assert result == {"role": "tool", "tool_call_id": "1", "content": 'a"b\n'}


async def test_strict_arguments_are_read_by_their_form(session: Session) -> None:
    tools = as_tools(session, allowed_tools=NAMES, direct=["send"], strict=True)
    assert [item["strict"] for item in tools] == [True, True]
    items = [
        called("send", {"to": "ann", "copies": None}, "1"),
        called("program", {"source": script("return inputs"), "inputs": '{"n": [1]}'}, "2"),
        called("program", {"source": script("return 1"), "inputs": "n=1"}, "3"),
    ]
    texts = [item["output"] for item in (await outputs(tools, *items))[3:]]
    assert texts[0] == "sent to ann, 1"
    assert json.loads(texts[1]) == {"n": [1]}
    assert "`inputs` must be valid JSON" in texts[2]


async def test_hosted_program_reads_results_and_errors_apart(session: Session) -> None:
    limits = Limits(max_output_bytes=2_000)
    tools = as_tools(session, allowed_tools=NAMES, direct=True, hosted=True, limits=limits)
    defined = {item.get("name", item["type"]): item for item in tools}
    assert defined["programmatic_tool_calling"] == {"type": "programmatic_tool_calling"}
    assert defined["shop__price"]["allowed_callers"] == ["programmatic"]
    assert defined["shop__price"]["output_schema"]["required"] == ["result", "error"]
    # `look` does not declare its result, so its description has the form.
    assert '"error": {"code"' in defined["look"]["description"]
    assert not any("allowed_callers" in defined[name] for name in ("pay", "program"))
    program = {
        "type": "program",
        "id": "prog_1",
        "call_id": "call_p",
        "code": "const r = await tools.shop__price({item: 'tea'})",
        "fingerprint": "opaque==",
    }
    caller = {"type": "program", "caller_id": "call_p"}
    items = [
        program,
        called("shop__price", {"item": "tea"}, "1", caller=caller),
        called("shop__price", {"item": "gold"}, "2", caller=caller),
        called("letters", {"count": 10_000}, "3", caller=caller),
        called("pay", {"cents": 1}, "4", caller=caller),
        called("letters", {"count": 10_000}, "5", caller={"type": "direct"}),
    ]
    found = await outputs(tools, *items)
    assert found[:6] == items, "the program is repeated with its fingerprint"
    answers = found[6:]
    assert [item["caller"] for item in answers] == [caller] * 4 + [{"type": "direct"}]
    read = [json.loads(item["output"]) for item in answers[:4]]
    assert read[0] == {"result": 3.2, "error": None}
    assert read[1]["result"] is None
    assert read[1]["error"]["code"] == "not_found"
    assert "gold has no price" in read[1]["error"]["message"]
    assert read[2] == {"result": "x" * 10_000, "error": None}
    assert "a hosted program may not call this tool" in read[3]["error"]["message"]
    assert "500 of 10,000 characters" in answers[4]["output"], "a model reads the start only"


async def test_loop_of_a_hosted_program_sends_what_the_service_accepts(session: Session) -> None:
    tools = as_tools(session, allowed_tools=NAMES, direct=True, hosted=True, strict=True)
    program = {"type": "program", "id": "p", "call_id": "p1", "code": "", "fingerprint": "f"}
    caller = {"type": "program", "caller_id": "p1"}
    ended = {"type": "program_output", "id": "o", "call_id": "p1", "result": "3.2"}
    answers = [
        response(program, called("shop__price", {"item": "tea"}, "1", caller=caller)),
        response(
            called("shop__price", {"item": "gold"}, "2", caller=caller),
            called("boxes", {"label": "big"}, "3", caller=caller),
        ),
        response({**ended, "status": "completed"}, said()),
    ]
    items: list[Any] = [{"role": "user", "content": "How much?"}]
    with serve(*answers) as server:
        async with server.client() as client:
            while True:
                answer = await client.responses.create(model="m", input=items, tools=tools)
                more = await tools.run_calls(answer)
                if not more:
                    break
                items += more
    assert len(server.requests) == 3
    sent = server.requests[-1]["input"]
    kinds = ["program", "function_call", "function_call_output"]
    assert [item.get("type") for item in sent] == [None, *kinds, *kinds[1:2] * 2, *kinds[2:] * 2]
    box = json.loads(sent[-1]["output"])["result"]
    assert box == {"label": "big", "inside": [{"label": "small", "inside": []}]}
    [schema] = [tool["output_schema"] for tool in tools if tool.get("name") == "boxes"]
    assert "Box" in schema["$defs"]


async def test_server_of_these_tests_refuses_what_openai_refuses(session: Session) -> None:
    from openai import BadRequestError

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"input": [called("a", {})]}, "exactly one output"),
        ({"tools": [{"type": "function", "name": "a.b", "description": ""}]}, "name of a tool"),
    ]
    with serve() as server:
        async with server.client() as client:
            for body, problem in wrong:
                with pytest.raises(BadRequestError, match=problem):
                    await client.responses.create(model="m", **body)


def test_module_does_not_import_the_framework() -> None:
    code = "import sys, ptc_bindings.openai, ptc_bindings.openai_agents as a; "
    code += "assert not {'openai', 'agents'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_hosted_programs_need_tools_and_the_responses_api(session: Session) -> None:
    with pytest.raises(UsageError, match="needs the Responses API"):
        as_tools(session, direct=True, hosted=True, api="chat")
    with pytest.raises(UsageError, match="no tool for a program to call"):
        as_tools(session, hosted=True)
    with pytest.raises(UsageError, match="'responses' or 'chat', not 'assistants'"):
        as_tools(session, api="assistants")  # type: ignore[arg-type]  # wrong on purpose


async def test_images_are_content_of_the_api(session: Session) -> None:
    tools = as_tools(session, direct=["look"])
    [_, answer] = await outputs(tools, called("look", {"at": "it"}))
    assert [part["type"] for part in answer["output"]] == ["input_text", "input_image"]
    assert answer["output"][1]["image_url"].startswith("data:image/png;base64,iVBOR")
    chat = as_tools(session, direct=["look"], api="chat")
    with serve(completion(chat_called("look", {"at": "it"}))) as server:
        async with server.client() as client:
            reply = await client.chat.completions.create(model="m", messages=[], tools=chat)
    [_, text, images] = await chat.run_calls(reply)
    assert (text["role"], json.loads(text["content"])) == ("tool", {"at": "it"})
    assert [part["type"] for part in images["content"]] == ["text", "image_url"]


async def test_paused_call_says_how_it_continues(session: Session) -> None:
    tools = as_tools(session, allowed_tools=NAMES, direct=["pay"])
    [_, answer] = await outputs(tools, called("pay", {"cents": 250}))
    assert "paused" in answer["output"]
    assert "Do not run the script again" in answer["output"]
    [pending] = [call for call in await session.pending() if call.run_id in answer["output"]]
    assert (pending.tool, pending.arguments) == ("pay", {"cents": 250})
    await session.approve(pending.run_id, by="ann")
    done = await tools.exports.resume(pending.run_id)
    assert done.data == {"value": "paid 250"}


async def test_repeated_response_runs_a_script_once(session: Session) -> None:
    SENT.clear()
    call_id = f"call_{session.root.name}"
    tools = as_tools(session, allowed_tools=NAMES)
    call = called("program", {"source": script("return await ctx.send('eve')")}, call_id)
    first = await outputs(tools, call, once=True)
    again = await outputs(tools, call, once=True)
    assert (first, SENT) == (again, ["eve"])


async def test_fields_that_the_sdk_adds_are_not_sent_back(session: Session) -> None:
    tools = as_tools(session, direct=["shop.price"], strict=True)
    call = called("shop__price", {"item": "tea"})
    with serve(response(said(), call)) as server:
        async with server.client() as client:
            answer = await client.responses.parse(model="m", input="x", tools=list(tools))
    assert hasattr(answer.output[1], "parsed_arguments")
    [message, sent, _] = await tools.run_calls(answer)
    assert "parsed" not in message["content"][0]
    assert sent == call


async def test_generate_object_is_a_tool_like_others(session: Session) -> None:
    tools = as_tools(session, direct=["generate_object"], program=False)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    arguments = {"schema": schema, "prompt": "One."}
    [_, answer] = await outputs(tools, called("generate_object", arguments))
    assert json.loads(answer["output"])["object"] == {"n": 1}


async def test_function_registered_with_a_model_class_receives_an_instance(tmp_path: Path) -> None:
    from openai.lib._tools import pydantic_responses_function_tool
    from openai.lib.responses_tool_runner import AsyncRegisteredFunction, RegisteredFunction

    class Order(BaseModel):
        """Order an item."""

        item: str
        count: int

    async def execute(order: Order) -> str:
        return json.dumps([order.item, order.count])

    def blocking(sent: dict[str, object], *, cancelled: Any) -> str:
        return f"{sent['item']} {cancelled()}"

    definition = pydantic_responses_function_tool(Order, name="order")
    with_check: Any = blocking
    tools = [
        AsyncRegisteredFunction.from_tool(definition, execute=execute),
        RegisteredFunction({**definition, "name": "order-again"}, with_check),
    ]
    async with Session(tmp_path, tools=tools, toolsets=(), workers=1) as opened:
        assert (await opened.tool("order", {"item": "tea", "count": 2})).value == ["tea", 2]
        again = await opened.tool("order_again", {"item": "tea", "count": 2})
    assert again.value == "tea False"
