"""Rules by which OpenAI refuses a request, from its documentation and not from the bindings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

__all__ = ["chat_problems", "response_problems", "schema_problems"]

KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "$ref", "$defs", "description", "pattern", "format", "multipleOf", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
}  # fmt: skip
"""Keywords of strict mode."""
CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


def schema_problems(schema: Any, place: str = "") -> Iterator[str]:
    """Yield why a schema is refused as a strict one."""
    kinds = schema.get("type", ())
    rules = {
        "unknown keyword": not schema.keys() <= KEYWORDS,
        "reference with neighbours": "$ref" in schema and len(schema) > 1,
        "anything": not schema.keys() & {"type", "enum", "const", "anyOf", "$ref"},
        "open object": "object" in kinds and schema.get("additionalProperties") is not False,
        "optional property": list(schema.get("properties", ())) != schema.get("required", []),
        "any items": "array" in kinds and "items" not in schema,
        "root": not place and kinds != "object",
    }
    yield from (f"{place}: {name}" for name, found in rules.items() if found)
    parts = [*schema.get("properties", {}).items(), *schema.get("$defs", {}).items()]
    parts += [("|", item) for item in schema.get("anyOf", ())]
    parts += [("[]", schema["items"])] if "items" in schema else []
    for name, item in parts:
        yield from schema_problems(item, f"{place}/{name}")


def response_problems(body: dict[str, Any]) -> Iterator[str]:
    """Yield why a request of the Responses API is refused."""
    tools = body.get("tools", [])
    yield from _tool_problems([tool for tool in tools if "name" in tool])
    hosted = {"type": "programmatic_tool_calling"} in tools
    if not hosted and any("programmatic" in tool.get("allowed_callers", ()) for tool in tools):
        yield "allowed_callers without programmatic_tool_calling"
    items = body["input"] if isinstance(body.get("input"), list) else []
    programs = {item["call_id"] for item in items if item.get("type") == "program"}
    yield from (
        "program without fingerprint"
        for item in items
        if item.get("type") == "program" and not item.get("fingerprint")
    )
    calls = {item["call_id"]: item for item in items if item.get("type") in CALLS}
    outputs = [item for item in items if item.get("type") in CALLS.values()]
    if sorted(calls) != sorted(item["call_id"] for item in outputs):
        yield "calls without exactly one output"
        return
    for output in outputs:
        yield from _output_problems(output, calls[output["call_id"]], programs, tools)
    if "parsed" in json.dumps([item for item in items if item.get("type") != "program"]):
        yield "unknown field"


def _output_problems(
    output: dict[str, Any], call: dict[str, Any], programs: set[str], tools: list[Any]
) -> Iterator[str]:
    if output["type"] != CALLS[call["type"]]:
        yield "output of another type than its call"
    caller = call.get("caller")
    if output.get("caller") != caller:
        yield "output with another caller than its call"
    if caller is None or caller["type"] != "program":
        return
    if caller["caller_id"] not in programs:
        yield "caller that is not in the input"
    schemas = [tool.get("output_schema") for tool in tools if tool.get("name") == call["name"]]
    if schemas[0] is not None:
        jsonschema_rs.validate(schemas[0], json.loads(output["output"]))


def chat_problems(body: dict[str, Any]) -> Iterator[str]:
    """Yield why a request of the Chat Completions API is refused."""
    yield from _tool_problems([tool[tool["type"]] for tool in body.get("tools", [])])
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield "answer without a call"
            else:
                waiting.remove(message["tool_call_id"])
            if not isinstance(message["content"], str):
                yield "content of a tool that is not text"
        elif waiting:
            yield "calls without an answer"
        waiting += [call["id"] for call in message.get("tool_calls", ())]
    if waiting:
        yield "calls without an answer"


def _tool_problems(tools: list[Any]) -> Iterator[str]:
    names = [tool["name"] for tool in tools]
    if len(set(names)) < len(names) or not all(
        re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names
    ):
        yield "name of a tool"
    for tool in tools:
        if tool.get("strict"):
            yield from schema_problems(tool["parameters"])
        if tool.get("output_schema"):
            yield from schema_problems(tool["output_schema"])
        if "parameters" in tool and len(tool.get("description", "")) > 1_024:
            yield "description of a function over 1,024 characters, which Azure refuses"
