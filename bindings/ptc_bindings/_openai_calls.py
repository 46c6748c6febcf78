"""Calls in responses of OpenAI's APIs, and the items that answer them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._reply import Reply

__all__ = [
    "Call",
    "chat_calls",
    "chat_items",
    "data_url",
    "echo",
    "response_calls",
    "response_item",
]

_RESPONSE_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_LOCAL_FIELDS = ("parsed_arguments", "parsed")
"""Fields that helpers of the SDK add, and that the API refuses."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a response."""

    response_id: str
    call_id: str
    name: str
    arguments: str
    """JSON text, or the plain text for a custom tool."""
    kind: str
    """``type`` of the item."""
    caller: Mapping[str, Any] | None = None
    """Program or model that made the call; the output has to repeat it."""

    @property
    def by_program(self) -> bool:
        """True if a hosted program made the call."""
        return self.caller is not None and self.caller.get("type") == "program"


def echo(response: Any) -> list[dict[str, Any]]:
    """Return the items of a response as items of the next request."""
    data = _data(response)
    if "output" in data:
        return [_as_sent(item) for item in data["output"]]
    message = data["choices"][0]["message"]
    # Servers that imitate the API refuse fields without a value.
    return [_as_sent({name: value for name, value in message.items() if value not in (None, [])})]


# --- Responses ----------------------------------------------------------------------------------


def response_calls(response: Any) -> Iterator[Call]:
    """Yield the calls of a ``Response``."""
    data = _data(response)
    for item in data["output"]:
        field = _RESPONSE_CALLS.get(item.get("type", ""))
        if field is not None:
            yield Call(
                str(data.get("id", "")),
                item["call_id"],
                item["name"],
                item.get(field) or "",
                item["type"],
                item.get("caller"),
            )


def response_item(call: Call, reply: Reply, text: str | None = None) -> dict[str, Any]:
    """Make the output of a call.

    Args:
        call: The call.
        reply: Its reply.
        text: Output in place of the text of the reply.
    """
    output: Any = _utf8(reply.text) if text is None else text
    if reply.images and text is None:
        images = [{"type": "input_image", "image_url": data_url(image)} for image in reply.images]
        output = [{"type": "input_text", "text": output}, *images]
    item = {"type": f"{call.kind}_output", "call_id": call.call_id, "output": output}
    return item if call.caller is None else {**item, "caller": dict(call.caller)}


# --- Chat Completions ---------------------------------------------------------------------------


def chat_calls(completion: Any) -> Iterator[Call]:
    """Yield the calls of the first choice of a ``ChatCompletion``."""
    data = _data(completion)
    for item in data["choices"][0]["message"].get("tool_calls") or ():
        kind = item.get("type", "function")
        body = item[kind]
        sent = body.get("input" if kind == "custom" else "arguments") or ""
        yield Call(str(data.get("id", "")), item["id"], body["name"], sent, kind)


def chat_items(answers: Sequence[tuple[Call, Reply]]) -> Iterator[dict[str, Any]]:
    """Yield the messages that answer calls, then one with their images, if there are any."""
    for call, reply in answers:
        yield {"role": "tool", "tool_call_id": call.call_id, "content": _utf8(reply.text)}
    # The content of a tool's message is text only.
    parts: list[dict[str, Any]] = []
    for call, reply in answers:
        if reply.images:
            parts.append({"type": "text", "text": f"Images of the call {call.call_id}:"})
        for image in reply.images:
            parts.append({"type": "image_url", "image_url": {"url": data_url(image)}})
    if parts:
        yield {"role": "user", "content": parts}


def data_url(image: Any) -> str:
    """Return an image as a URL that holds it."""
    return f"data:{image.media_type};base64,{image.data}"


def _utf8(text: str) -> str:
    # A lone surrogate cannot be sent: the request would fail, not only this call.
    return text.encode(errors="replace").decode()


def _data(response: Any) -> Mapping[str, Any]:
    """Return a response as JSON data, without fields that the server did not send."""
    if isinstance(response, Mapping):
        return response
    data: Mapping[str, Any] = response.to_dict(mode="json")
    return data


def _as_sent(item: Mapping[str, Any]) -> dict[str, Any]:
    made = {name: value for name, value in item.items() if name not in _LOCAL_FIELDS}
    for name in ("content", "tool_calls"):
        if isinstance(made.get(name), list):
            made[name] = [_as_sent(part) for part in made[name]]
    if isinstance(made.get("function"), Mapping):
        made["function"] = _as_sent(made["function"])
    return made
