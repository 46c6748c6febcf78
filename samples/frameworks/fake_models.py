"""Models of the frameworks without a network: each sends the program, and repeats its result."""

import json
from typing import Any

from shop import PROGRAM

CALL = {"source": PROGRAM}


def google_adk_model() -> Any:
    from google.adk.models import BaseLlm, LlmResponse
    from google.genai.types import Content, Part

    class Fake(BaseLlm):  # type: ignore[misc]  # Any for mypy
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            result = llm_request.contents[-1].parts[-1].function_response
            part = Part.from_function_call(name="program", args=CALL)
            if result is not None:
                part = Part.from_text(text=str(result.response["value"]))
            yield LlmResponse(content=Content(role="model", parts=[part]))

    return Fake(model="fake")


def smolagents_model() -> Any:
    from smolagents.models import (
        ChatMessage,
        ChatMessageToolCall,
        ChatMessageToolCallFunction,
        MessageRole,
        Model,
    )

    class Fake(Model):  # type: ignore[misc]  # Any for mypy
        def generate(self, messages: Any, **_: Any) -> Any:
            call = ChatMessageToolCallFunction(name="program", arguments=CALL)
            if messages[-1].role == MessageRole.TOOL_RESPONSE:
                answer = messages[-1].content[0]["text"]
                call = ChatMessageToolCallFunction(
                    name="final_answer", arguments={"answer": answer}
                )
            calls = [ChatMessageToolCall(id=call.name, type="function", function=call)]
            return ChatMessage(role=MessageRole.ASSISTANT, tool_calls=calls)

    return Fake()


def autogen_model() -> Any:
    from autogen_core import FunctionCall
    from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage
    from autogen_ext.models.replay import ReplayChatCompletionClient

    call = FunctionCall(id="1", name="program", arguments=json.dumps(CALL))
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    answer = CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)
    info = ModelInfo(
        vision=False,
        function_calling=True,
        json_output=False,
        family=ModelFamily.UNKNOWN,
        structured_output=False,
    )
    return ReplayChatCompletionClient([answer], model_info=info)


def crewai_model() -> Any:
    from crewai import BaseLLM
    from crewai.events.utils.console_formatter import set_suppress_console_output

    set_suppress_console_output(True)

    class Fake(BaseLLM):  # type: ignore[misc]  # Any for mypy
        def call(self, messages: Any, *_: Any, **__: Any) -> Any:
            results = [row["content"] for row in messages if row["role"] == "tool"]
            if results:
                return f"Final Answer: {results[-1]}"
            call = {"name": "program", "arguments": json.dumps(CALL)}
            return [{"id": "1", "type": "function", "function": call}]

        def supports_function_calling(self) -> bool:
            return True

    return Fake(model="fake")
