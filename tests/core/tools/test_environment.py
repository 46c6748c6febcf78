"""Values that tools need: where they come from, what is missing, and that they do not get out."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, Field, SecretBytes, SecretStr, field_validator

from ptc import (
    Attachment,
    AttachmentRef,
    Cache,
    Public,
    RunEvent,
    Session,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    Toolset,
    UsageError,
    define_tool,
    tool,
)
from ptc._core._redact import Redactor

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SECRET = 's3cr3t/+ "key" é&value'


class Keys(BaseModel):
    api_key: str
    region: Annotated[str, Public] = "eu-central"
    retries: int = 3


class More(BaseModel):
    api_key: str
    password: SecretStr


@tool(env=Keys)
async def where(ctx: ToolContext) -> dict[str, Any]:
    """Say where."""
    return {"region": ctx.env.region, "retries": ctx.env.retries, "key": len(ctx.env.api_key)}


@tool(env=More)
async def enter(ctx: ToolContext) -> int:
    """Enter."""
    return len(ctx.env.password.get_secret_value())


# --- layers ---------------------------------------------------------------------------------


async def test_later_layer_overrides_and_none_keeps_the_earlier_value(tmp_path: Path) -> None:
    tools = Toolset("t", (where,)).with_env(api_key="from set", region="set", retries=1)
    async with Session(
        tmp_path, tools=[tools], toolsets=(), env={"region": "session", "retries": None}
    ) as s:
        assert await s.call(where) == {"region": "session", "retries": 1, "key": 8}
        result = await s.program(
            source="def run(ctx, inputs):\n    return ctx.where()\n", env={"retries": 9}
        )
        assert result.unwrap() == {"region": "session", "retries": 9, "key": 8}
        assert (await s.call(where))["retries"] == 1


def test_missing_values_are_reported_together_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        Session(tmp_path, tools=[where, enter], toolsets=())
    assert str(refused.value) == (
        "env: api_key is missing (where, enter); password is missing (enter)"
    )


def test_value_of_wrong_type_is_reported_without_the_value(tmp_path: Path) -> None:
    class Checked(BaseModel):
        count: int
        word: str

        @field_validator("word")
        @classmethod
        def refuse(cls, value: str) -> str:
            raise ValueError(f"bad {value}")

    made = define_tool("t", "T.", {"type": "object"}, lambda a: 1, env=Checked)
    with pytest.raises(UsageError, match="count: Input should be a valid integer") as refused:
        Session(tmp_path, tools=[made], toolsets=(), env={"count": SECRET, "word": SECRET})
    shown = "".join(traceback.format_exception(refused.value))
    assert "word: is rejected by its model" in shown
    assert SECRET not in shown


def test_environment_name_that_no_tool_declares_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no tool declares 'api_kye' \(did you mean `api_key`"):
        Session(tmp_path, tools=[where], toolsets=(), env={"api_kye": "x"})
    with pytest.raises(UsageError, match="toolset 't': no tool declares 'nothing'"):
        Toolset("t", (where,)).with_env(nothing=1)
    with pytest.raises(UsageError, match="env must be a pydantic model class"):
        tool(name="t", description="T.", env={"KEY": str})(lambda: 1)  # type: ignore[call-overload]  # the point


# --- secrets --------------------------------------------------------------------------------


def leaking_tool(how: str) -> Tool:
    """A tool that lets its key out in one of many ways."""

    async def leak(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        key: str = ctx.env.api_key
        if how == "result":
            return {"text": f"it is {key}", "list": [key], key: 1}
        if how == "raise":
            raise RuntimeError(key)
        if how == "tool_error":
            raise ToolError(f"no {key}", details={"key": key, "list": [{"a": key}]})
        if how == "returned":
            return ToolResult.failure(f"no {key}")
        if how == "content":
            return ToolResult.success(
                {"k": key},
                text=key,
                metadata={"k": key},
                attachments=[Attachment(f"{key}.txt", "text/plain", b"1")],
            )
        if how == "unserialisable":
            return {key: object()}
        ctx.log(f"key {key}", key=key)
        ctx.progress(1, message=key)
        return None

    return define_tool("leak", "Leak.", {"type": "object"}, leak, env=Keys)


@pytest.mark.parametrize(
    "how", ["result", "raise", "tool_error", "returned", "content", "unserialisable", "log"]
)
async def test_secret_never_leaves_a_tool(tmp_path: Path, how: str) -> None:
    events: list[RunEvent] = []
    async with Session(
        tmp_path, tools=[leaking_tool(how)], toolsets=(), env={"api_key": SECRET}
    ) as s:
        result = await s.program(
            source="def run(ctx, inputs):\n    try:\n        return ctx.leak()\n"
            "    except ToolError as e:\n        return [str(e), e.details]\n",
            on_event=events.append,
        )
        direct = await s.tool("leak")
        async with s.stream("leak") as stream:
            events += [event async for event in stream]
    cause = "".join(traceback.format_exception(direct.error)) if direct.error else ""
    shown = [result.to_json().decode(), repr(result), direct.text, repr(events), cause]
    shown.append(repr(direct))
    for text in shown:
        assert not any(form in text for form in (SECRET, quote(SECRET), "s3cr3t")), text
    if how != "unserialisable":
        assert any("[secret api_key]" in text for text in shown)


async def test_public_or_very_short_values_are_not_masked(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[where], toolsets=(), env={"api_key": "eu"}) as s:
        assert (await s.call(where))["region"] == "eu-central"


class Nested(BaseModel):
    """Secrets that are not plain text fields."""

    tokens: list[str]
    password: SecretBytes
    accounts: dict[str, More]
    address: AnyUrl
    shown: Annotated[dict[str, str], Public]


async def test_nested_secrets_are_masked(tmp_path: Path) -> None:
    async def leak(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        env: Nested = ctx.env
        account = env.accounts["a"]
        return [
            env.tokens,
            env.password.get_secret_value().decode(),
            account.api_key,
            account.password.get_secret_value(),
            str(env.address),
            env.shown,
        ]

    made = define_tool("leak", "Leak.", {"type": "object"}, leak, env=Nested)
    env = {
        "tokens": ["token-1", "token-2"],
        "password": b"pass-word",
        "accounts": {"a": {"api_key": "key-of-a", "password": "pass-of-a"}},
        "address": "https://me:pass@example.com/x",
        "shown": {"a": "public"},
    }
    async with Session(tmp_path, tools=[made], toolsets=(), env=env) as s:
        assert await s.leak() == [  # type: ignore[attr-defined]  # a tool as a method
            ["[secret tokens.0]", "[secret tokens.1]"],
            "[secret password]",
            "[secret accounts.a.api_key]",
            "[secret accounts.a.password]",
            "[secret address]",
            {"a": "public"},
        ]


async def test_secrets_in_error_and_event_data_of_any_type_are_masked(
    tmp_path: Path,
) -> None:
    async def fail(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        key = ctx.env.api_key
        data = {"set": {key}, "model": Row(name=key), "path": Path(key), "object": Opaque(key)}
        ctx.log("data", **data)
        raise ToolError("no", details={**data, "count": 3})

    made = define_tool("fail", "F.", {"type": "object"}, fail, env=Keys)
    async with Session(tmp_path, tools=[made], toolsets=(), env={"api_key": "sekrit-99"}) as s:
        async with s.stream("fail") as stream:
            events = [event async for event in stream]
        assert "sekrit-99" not in repr([(e.value, e.call) for e in events])
        (log,) = [e.value for e in events if e.kind == "log"]
        hidden = "[secret api_key]"
        assert log["data"] == {
            "set": [hidden],
            "model": {"name": hidden},
            "path": hidden,
            "object": f"opaque {hidden}",
        }
        assert events[-1].value.error.details["count"] == 3


class Opaque:
    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"opaque {self.text}"


async def test_secret_in_an_attachment_name_is_masked(tmp_path: Path) -> None:
    async def attach(arguments: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        ref = ctx.attach(Attachment("a.txt", "text/plain", b"12"))
        named = replace(ref, name=f"{ctx.env.api_key}.txt", size_bytes=999)
        return ToolResult.success(1, attachments=[named])

    made = define_tool("attach", "A.", {"type": "object"}, attach, env=Keys)
    async with Session(tmp_path, tools=[made], toolsets=(), env={"api_key": SECRET}) as s:
        result = await s.tool("attach")
        kept, passed = (r for r in result.attachments if isinstance(r, AttachmentRef))
        assert (kept.name, passed.name) == ("a.txt", "[secret api_key].txt")
        assert passed.size_bytes == kept.size_bytes == 2, "what the file has"


async def test_environment_fields_are_read_only_and_passed_by_name(tmp_path: Path) -> None:
    class Aliased(BaseModel):
        key: str = Field(alias="API_KEY")

    async def change(arguments: Mapping[str, Any], ctx: ToolContext) -> int:
        assert isinstance(ctx.env, Aliased)
        if arguments:
            ctx.env.key = "changed"
        return len(ctx.env.key)

    made = define_tool("change", "C.", {"type": "object"}, change, env=Aliased)
    async with Session(tmp_path, tools=[made], toolsets=(), env={"key": "123"}) as s:
        assert "frozen" in (await s.tool("change", {"now": True})).text
        assert await s.change() == 3  # type: ignore[attr-defined]  # a tool as a method
    with pytest.raises(UsageError, match="env: key is missing"):
        Session(tmp_path, tools=[made], toolsets=())
    with pytest.raises(UsageError, match="env must be a mapping of names to values, not list"):
        Session(tmp_path, tools=[made], toolsets=(), env=["key"])  # type: ignore[arg-type]  # the point


async def test_session_cache_is_separate_for_different_environments(tmp_path: Path) -> None:
    async def who(arguments: Mapping[str, Any], ctx: ToolContext) -> str:
        return str(ctx.env.api_key[:1])

    made = define_tool("who", "W.", {"type": "object"}, who, env=Keys, cache=Cache(scope="session"))
    source = "def run(ctx, inputs):\n    return [ctx.who(), ctx.who()]\n"
    async with Session(tmp_path, tools=[made], toolsets=(), env={"api_key": "session"}) as s:
        runs = [await s.program(source=source, env={"api_key": k}) for k in ("ann", "bob")]
        assert [run.unwrap() for run in runs] == [["a", "a"], ["b", "b"]]
        assert [call.cached for call in runs[1].calls] == [False, True]
        assert await s.who() == "s"  # type: ignore[attr-defined]  # a tool as a method
        assert (await s.program(source=source)).calls[0].cached


secrets = st.text(st.characters(min_codepoint=33, exclude_categories=["Cs"]), min_size=8)


@given(secrets, st.binary(max_size=7), st.binary(max_size=7))
def test_secret_is_found_in_every_encoding(secret: str, before: bytes, after: bytes) -> None:
    redactor = Redactor({"KEY": secret})
    forms = [
        secret,
        quote(secret),
        quote(secret, safe="").lower(),
        quote_plus(secret),
        json.dumps(secret),
        base64.b64encode(secret.encode()).decode(),
        base64.urlsafe_b64encode(secret.encode()).decode(),
    ]
    for form in forms:
        clean = redactor.text(f"<{form}>")
        assert secret not in clean
        assert "[secret KEY]" in clean
    inside = base64.b64encode(before + secret.encode() + after).decode()
    assert "[secret KEY]" in redactor.text(inside)


def test_longest_secret_is_masked_first_and_data_keys_are_searched() -> None:
    redactor = Redactor({"SHORT": "abcdef", "LONG": "abcdef-123", "TINY": "abc"})
    assert redactor.text("abcdef-123 abcdef abc") == "[secret LONG] [secret SHORT] abc"
    assert redactor.data({"abcdef": ["abcdef", 1, None]}) == {
        "[secret SHORT]": ["[secret SHORT]", 1, None]
    }


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("secrets", "a \u017fecret\u017f b"),
        ("\u0130\u0130\u0130\u0130\u0130\u0130", "a \u0130\u0130\u0130\u0130\u0130\u0130 b"),
        ("kelvin", "a \u212aelvin b"),
    ],
)
def test_secret_with_unusual_case_mapping_is_masked(secret: str, text: str) -> None:
    assert Redactor({"KEY": secret}).text(text) == "a [secret KEY] b"


class Row(BaseModel):
    name: str = Field(description="N.")


async def test_value_without_a_secret_is_returned_as_the_same_object(tmp_path: Path) -> None:
    row = Row(name="x")

    async def give(arguments: Mapping[str, Any]) -> Row:
        return row

    made = define_tool("give", "Give.", {"type": "object"}, give)
    async with Session(tmp_path, tools=[made, where], toolsets=(), env={"api_key": SECRET}) as s:
        assert await s.give() is row  # type: ignore[attr-defined]  # a tool as a method
