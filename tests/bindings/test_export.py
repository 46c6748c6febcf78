"""Tools of a session as agent frameworks need them, without a framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptc import Allow, Limits, Session, ToolError, UsageError, tool
from ptc._tools._names import provider_names
from ptc.models import ModelReply, ModelUsage
from ptc.testing import ScriptedModel
from ptc_bindings._export import Exports
from ptc_bindings._reply import Preview

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SENT: list[str] = []


@tool
async def price(item: str) -> int:
    """Look up a price."""
    if item == "gold":
        raise ToolError("gold has no price", code="not_found")
    return {"tea": 3}[item]


@tool
def letters(count: int) -> str:
    """Return many letters."""
    return "x" * count


@tool(side_effect=True, idempotent=True, needs_approval=True)
def send(to: str) -> str:
    """Send a message."""
    SENT.append(to)
    return f"sent to {to}"


def session(root: Path, *more: Any) -> Session:
    return Session(root, tools=[price, letters, send, *more], toolsets=(), workers=1)


ALL = ["price", "letters", "send"]


async def test_program_and_direct_tools_have_definitions(tmp_path: Path) -> None:
    async with session(tmp_path) as opened:
        found = {item.name: item for item in Exports(opened, allowed_tools=ALL, direct=True)}
    assert list(found) == ["program", *ALL]
    assert list(found["program"].parameters["properties"]) == ["source", "inputs"]
    assert found["price"].parameters["required"] == ["item"]
    assert (found["program"].side_effect, found["price"].side_effect) == (True, False)
    assert (found["send"].needs_approval, found["letters"].needs_approval) == (True, False)


async def test_program_returns_its_value(tmp_path: Path) -> None:
    async with session(tmp_path) as opened:
        exports = Exports(opened)
        source = "async def run(ctx, inputs):\n    return 2 * await ctx.price(inputs['item'])"
        reply = await exports.call("program", {"source": source, "inputs": {"item": "tea"}})
    assert (reply.text, reply.data, reply.is_error) == ("6", {"value": 6}, False)


async def test_tool_that_is_not_allowed_is_not_exported(tmp_path: Path) -> None:
    async with session(tmp_path) as opened:
        exports = Exports(opened, allowed_tools=["letters"], direct=True)
        reply = await exports.call("price", {"item": "tea"})
        source = "async def run(ctx, inputs):\n    return await ctx.price('tea')"
        inside = await exports.call("program", {"source": source})
        with pytest.raises(UsageError, match="direct: the tool 'send' is not allowed"):
            Exports(opened, direct=["send"])
        with pytest.raises(UsageError, match="not the string 'price'"):
            Exports(opened, direct="price")
    assert (reply.is_error, reply.code) == (True, "usage")
    assert "no tool 'price' is exported" in reply.text
    assert (inside.is_error, inside.run is not None and inside.run.calls) == (True, ())


async def test_rules_for_arguments_hold_for_direct_calls(tmp_path: Path) -> None:
    async with session(tmp_path) as opened:
        allowed = [Allow("letters", count={1, 2, 3})]
        exports = Exports(opened, allowed_tools=allowed, direct=True)
        assert (await exports.call("letters", {"count": 3})).text == "xxx"
        assert (await exports.call("letters", {"count": 4})).is_error


async def test_failure_of_a_tool_is_an_error_with_text_and_code(tmp_path: Path) -> None:
    async with session(tmp_path) as opened:
        exports = Exports(opened, direct=True)
        failed = await exports.call("price", {"item": "gold"})
        wrong = await exports.call("price", {"thing": "tea"})
        crashed = await exports.call("price", {"item": "iron"})
        script = await exports.call("program", {"source": "1 / 0"})
        unknown = await exports.call("program", {"sources": "1"})
        text: Any = "{}"
        untyped = await exports.call("price", text)
    replies = [failed, wrong, crashed, script, unknown, untyped]
    assert all(reply.is_error for reply in replies)
    assert [reply.code for reply in replies[:2]] == ["not_found", "invalid_arguments"]
    assert "gold has no price" in failed.text
    assert (failed.data, "KeyError" in crashed.text) == (None, True)
    assert "division by zero" in script.text
    assert "did you mean `source`" in unknown.text


async def test_usage_of_models_that_tools_call_is_in_the_reply(tmp_path: Path) -> None:
    usage = ModelUsage(requests=1, input_tokens=10, output_tokens=2)
    wrong, right = ModelReply("{}", usage=usage), ModelReply('{"n": 1}', usage=usage)
    model = ScriptedModel(wrong, right, wrong, right)
    arguments = {"schema": {"type": "object", "required": ["n"]}, "prompt": "A number."}
    async with Session(tmp_path, toolsets=(), model=model, workers=1) as opened:
        exports = Exports(opened, allowed_tools=["generate_object"], direct=True)
        source = "async def run(ctx, inputs):\n    return await ctx.generate_object(**inputs)"
        inside = await exports.call("program", {"source": source, "inputs": arguments})
        direct = await exports.call("generate_object", arguments)
        nothing = await exports.call("program", {"source": "1"})
    assert (inside.is_error, direct.is_error) == (False, False)
    assert inside.model_usage == direct.model_usage == usage + usage
    assert nothing.model_usage == ModelUsage()


async def test_large_value_is_a_preview_and_is_stored(tmp_path: Path) -> None:
    async with session(tmp_path) as opened:
        exports = Exports(opened, direct=True, limits=Limits(max_output_bytes=4_000))
        reply = await exports.call("letters", {"count": 10_000})
        assert isinstance(reply.data, Preview)
        assert (reply.is_error, reply.data.bytes, len(reply.text) <= 4_000) == (False, 10_000, True)
        stored = opened.artifacts.read(reply.stored[0])
    assert stored is not None
    assert b"x" * 10_000 in stored


async def test_direct_call_that_requires_approval_pauses_and_resumes(tmp_path: Path) -> None:
    SENT.clear()
    async with session(tmp_path) as opened:
        exports = Exports(opened, allowed_tools=ALL, direct=["send"])
        reply = await exports.call("send", {"to": "ann"})
        assert reply.run is not None
        assert (reply.is_error, [call.tool for call in reply.pending], SENT) == (
            False,
            ["send"],
            [],
        )
        await exports.decide(reply.pending[0], "approve", by="ben")
        done = await exports.resume(reply.run.run_id)
        again = await exports.resume(reply.run.run_id)
    assert (done.data, done.pending, SENT) == ({"value": "sent to ann"}, (), ["ann"])
    assert again.is_error


async def test_rejected_call_is_a_failure_that_the_model_reads(tmp_path: Path) -> None:
    SENT.clear()
    async with session(tmp_path) as opened:
        exports = Exports(opened, allowed_tools=ALL, direct=["send"])
        reply = await exports.call("send", {"to": "ann"})
        assert reply.run is not None
        await exports.decide(reply.pending[0], "reject", by="ben", comment="not today")
        done = await exports.resume(reply.run.run_id)
    assert (done.is_error, "not today" in done.text, SENT) == (True, True, [])


def test_provider_names_are_accepted_and_distinct() -> None:
    names = ["a.b", "a__b", "größe", "groesse", "n" * 80, "n" * 81, "x.y.z"]
    found = provider_names(names)
    assert list(found) == names
    assert (found["a.b"], found["groesse"], found["x.y.z"]) == ("a__b", "groesse", "x__y__z")
    assert len(set(found.values())) == len(names)
    for name in found.values():
        assert len(name) <= 64
        assert name.isascii()
        assert name.replace("-", "_").isidentifier()


async def test_namespaced_tool_is_called_by_its_provider_name(tmp_path: Path) -> None:
    @tool(name="tracker.create")
    def create(title: str) -> str:
        """Create an issue."""
        return title.upper()

    async with session(tmp_path, create) as opened:
        exports = Exports(opened, allowed_tools=["tracker.create"], direct=True, program=False)
        assert [item.name for item in exports] == ["tracker__create"]
        assert (await exports.call("tracker__create", {"title": "a"})).text == "A"


async def test_usage_of_models_is_part_of_the_reply_and_its_artifact(tmp_path: Path) -> None:
    usage = ModelUsage(requests=1, input_tokens=900, output_tokens=7)
    model = ScriptedModel(ModelReply('{"n": 1}', usage=usage))
    async with Session(tmp_path, toolsets=(), model=model, workers=1) as opened:
        exports = Exports(opened, allowed_tools=["generate_object"], direct=True, program=False)
        arguments = {"schema": {"type": "object", "required": ["n"]}, "prompt": "A number."}
        reply = await exports.call("generate_object", arguments)
    assert reply.model_usage == usage
    found = reply.artifact["model_usage"]
    assert (found["requests"], found["input_tokens"], found["output_tokens"]) == (1, 900, 7)
