"""OpenAI SDK: tools of a session for the Responses and Chat Completions APIs, and their calls.

::

    tools = as_tools(session, allowed_tools=["price", "stock"])
    items = [{"role": "user", "content": question}]
    while True:
        response = await client.responses.create(model=model, input=items, tools=tools)
        more = await tools.run_calls(response)
        if not more:
            break
        items += more

With ``api="chat"``, the same works on ``client.chat.completions.create(messages=items, ...)``.

Rule 1: each call of a response has one output; a failed call has its text and code in it.
    tests/frameworks/test_openai.py::test_each_call_has_one_output_and_failures_have_their_code
Rule 2: a hosted program receives ``{"result", "error"}``, so that no failure looks like a value.
    tests/frameworks/test_openai.py::test_hosted_program_reads_results_and_errors_apart
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio

import ptc
from ptc._core import _json
from ptc._runs._program_tool import PROGRAM

from ._export import Direct, Exports, OnEvent
from ._foreign import foreign_tool
from ._mcp_specs import identifier
from ._openai_calls import Call, chat_calls, chat_items, echo, response_calls, response_item
from ._openai_offers import Offer, offers
from ._openai_results import read_output
from ._openai_schema import relaxed, strict_schema
from ._previews import PREVIEW_CHARS
from ._reply import Preview, Reply, reply_of_error

__all__ = ["Tools", "as_tools", "tools_from"]

Api: TypeAlias = Literal["responses", "chat"]


class Tools(list[Any]):
    """Definitions for the parameter ``tools`` of a request, and the calls of its response.

    Append the application's own definitions as you like; pass their names as `run_calls`'s
    ``skip``.
    """

    def __init__(self, exports: Exports, api: Api, found: Iterable[Offer], hosted: Exports | None):
        self.exports = exports
        self._api = api
        self._offers = {offer.tool.name: offer for offer in found}
        self._hosted = hosted
        super().__init__(self._define(offer) for offer in self._offers.values())
        if hosted is not None:
            self.append({"type": "programmatic_tool_calling"})

    async def run_calls(
        self,
        response: Any,
        *,
        skip: Collection[str] = (),
        echo_response: bool = True,
        once: bool = False,
        on_event: OnEvent | None = None,
    ) -> list[Any]:
        """Run the calls of a response concurrently; return items to append to the next request.

        Without a call of these tools, the list is empty. Cancelling it cancels the calls.

        Args:
            response: A ``Response`` or ``ChatCompletion`` of the SDK, or its JSON data.
            skip: Tools that the application calls itself; a call of any other unknown tool is
                answered with an error.
            echo_response: True: the list starts with the items of the response, among them the
                program of a hosted run. Pass False with ``previous_response_id`` or a
                conversation: the server has the items then.
            once: True: a script runs once, even if this is repeated for the same response after a
                crash. Requires a server whose ids are unique, as OpenAI's are.
            on_event: Receives the events of the runs.
        """
        chat = self._api == "chat"
        calls = [
            call
            for call in (chat_calls(response) if chat else response_calls(response))
            if call.name not in skip
        ]
        replies: dict[int, Reply] = {}

        async def run(number: int, call: Call) -> None:
            run_id = _run_id(call) if once else None
            replies[number] = await self._run(call, run_id, on_event)

        async with anyio.create_task_group() as group:
            for number, call in enumerate(calls):
                group.start_soon(run, number, call)
        if not calls:
            return []
        items = echo(response) if echo_response else []
        if chat:
            return [*items, *chat_items([(call, replies[n]) for n, call in enumerate(calls)])]
        for number, call in enumerate(calls):
            text = _envelope(replies[number]) if call.by_program else None
            items.append(response_item(call, replies[number], text))
        return items

    async def _run(self, call: Call, run_id: str | None, on_event: OnEvent | None) -> Reply:
        offer = self._offers.get(call.name)
        exports: Exports | None = self.exports
        if call.by_program:
            exports = self._hosted if offer is not None and _programmatic(offer) else None
        if exports is None:
            msg = f"{call.name}: a hosted program may not call this tool; call it directly"
            return reply_of_error(ptc.UsageError(msg))
        try:
            arguments = {} if offer is None else offer.read(call.arguments)
        except ptc.UsageError as error:
            return reply_of_error(error)
        return await exports.call(call.name, arguments, run_id=run_id, on_event=on_event)

    def _define(self, offer: Offer) -> dict[str, Any]:
        about = {"name": offer.tool.name, "description": offer.description}
        if offer.parameters is None:
            custom = {**about, "format": {"type": "text"}}
            return {"type": "custom", **({"custom": custom} if self._api == "chat" else custom)}
        function = {**about, "parameters": dict(offer.parameters), "strict": offer.strict}
        if self._api == "chat":
            return {"type": "function", "function": function}
        if self._hosted is not None and _programmatic(offer):
            function["allowed_callers"] = ["programmatic"]
            schema = _envelope_schema(offer.tool.result_schema)
            if schema is not None:
                function["output_schema"] = schema
            else:
                function["description"] = f"{offer.description}\n\n{_ENVELOPE}"
        return {"type": "function", **function}


def as_tools(
    session: ptc.Session,
    *,
    allowed_tools: Iterable[str | ptc.Allow] | None = None,
    direct: Direct = False,
    program: bool = True,
    limits: ptc.Limits | None = None,
    preview_chars: int | None = PREVIEW_CHARS,
    api: Api = "responses",
    strict: bool = False,
    text: bool = False,
    hosted: bool = False,
) -> Tools:
    """Return tools of an open session as definitions for a request.

    Args:
        session: Makes the calls; must be open while the tools are in use.
        allowed_tools: Tools that scripts and direct calls may use. None: the session's default.
        direct: Tools that are also offered one by one: their names, or True for all allowed.
        program: True: offer scripts.
        limits: Limits of each run. None: the session's.
        preview_chars: Characters of a result that the model reads whole; `get_tool_response`, if
            allowed, reads the rest. None: previews only over ``limits.max_output_bytes``.
        api: API of the request.
        strict: True: definitions in OpenAI's strict form, so that the API guarantees the form of
            the arguments. ``inputs`` of a script is JSON text then. A tool that has no such form,
            such as one that takes any object, stays as it is.
        text: True: `program` is a custom tool: the script arrives as plain text, which needs no
            JSON escapes. It has no inputs, and older models do not support it.
        hosted: True: JavaScript that the model writes and OpenAI runs calls the direct tools that
            need no approval, instead of the model. Responses only.

    Raises:
        UsageError: If a name is unknown, a direct tool is not allowed, or the API lacks an option.
    """
    if api not in ("responses", "chat"):
        raise ptc.UsageError(f"api must be 'responses' or 'chat', not {api!r:.80}")
    if hosted and api == "chat":
        raise ptc.UsageError("hosted=True needs the Responses API; pass api='responses'")
    exports = Exports(
        session,
        allowed_tools=allowed_tools,
        direct=direct,
        program=program,
        limits=limits,
        preview_chars=preview_chars,
    )
    found = list(offers(exports, strict=strict, text=text))
    inner = None
    if hosted:
        if not any(_programmatic(offer) for offer in found):
            msg = "hosted=True has no tool for a program to call; pass direct=True, or names"
            raise ptc.UsageError(msg)
        # A program reads a whole value: only its own result goes through the model.
        size = exports.limits.max_tool_result_bytes
        whole = replace(exports.limits, max_output_bytes=size)
        inner = Exports(
            session,
            allowed_tools=allowed_tools,
            direct=direct,
            program=False,
            limits=whole,
            preview_chars=None,
        )
    return Tools(exports, api, found, inner)


def tools_from(thing: Any) -> ptc.Tool | None:
    """Convert a function that is registered with the SDK's runner of tools.

    Args:
        thing: A ``RegisteredFunction`` or ``AsyncRegisteredFunction``; None for another object.
    """
    definition, execute = getattr(thing, "tool", None), getattr(thing, "execute", None)
    if not isinstance(definition, Mapping) or not callable(execute):
        return None
    model = getattr(definition, "model", None)  # of `from_tool`: the function takes an instance
    try:
        takes_check = "cancelled" in inspect.signature(execute).parameters
    except (TypeError, ValueError):  # written in C
        takes_check = False

    async def run(arguments: dict[str, Any], ctx: ptc.ToolContext) -> Any:
        sent = arguments if model is None else model.model_validate(arguments)
        options = {"cancelled": lambda: ctx.cancelled} if takes_check else {}
        if inspect.iscoroutinefunction(execute):
            found = await execute(sent, **options)
        else:
            found = await anyio.to_thread.run_sync(partial(execute, sent, **options))
            found = await found if inspect.isawaitable(found) else found
        return read_output(found, ctx)

    return foreign_tool(
        identifier(definition["name"]),
        definition.get("description") or "",
        relaxed(definition.get("parameters") or {}),
        run,
        result_schema=definition.get("output_schema"),
    )


# --- hosted programs ----------------------------------------------------------------------------

_ENVELOPE = (
    'It returns JSON text: {"result": ..., "error": null}, or if the call failed '
    '{"result": null, "error": {"code": "...", "message": "..."}}.'
)
_ERROR = {
    "type": "object",
    "description": "Why the call failed.",
    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
    "required": ["code", "message"],
    "additionalProperties": False,
}


def _programmatic(offer: Offer) -> bool:
    """True if a hosted program may call the tool: a call that pauses cannot wait in there."""
    return offer.tool.source_name != PROGRAM and not offer.tool.needs_approval


def _envelope_schema(result: Mapping[str, Any] | None) -> dict[str, Any] | None:
    # Inside the envelope, a reference to the root would mean another schema.
    if result is None or b'"$ref":"#"' in _json.dumps(result):
        return None
    inner = {key: value for key, value in result.items() if key not in ("$defs", "$schema")}
    fields = {"result": inner, "error": _ERROR}
    schema = {"type": "object", "properties": fields, "additionalProperties": False}
    return strict_schema(schema | ({"$defs": result["$defs"]} if "$defs" in result else {}))


def _envelope(reply: Reply) -> str:
    error, data = None, reply.data
    if reply.is_error or reply.pending:
        error = {"code": reply.code or "paused", "message": reply.text}
    elif isinstance(data, Preview):
        error = {"code": "result_too_large", "message": reply.text}
    return _json.dumps({"result": None if error else data, "error": error}).decode()


def _run_id(call: Call) -> str:
    digest = hashlib.sha256(f"{call.response_id}\n{call.call_id}".encode()).hexdigest()
    return f"openai-{digest[:32]}"
