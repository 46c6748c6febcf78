"""Direct calls have the limits, approvals, events and redaction of calls of scripts."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from ptc import (
    ApprovalRequest,
    BlockingSession,
    Decision,
    Limits,
    Retry,
    RunEvent,
    Session,
    ToolContext,
    ToolError,
    ToolResult,
    UsageError,
    tool,
)
from ptc._core._redact import SentCredentials

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


class Keys(BaseModel):
    api_key: str


class Opaque:
    """A value without a JSON form."""


@tool
async def sleep() -> None:
    """Never return."""
    await anyio.sleep_forever()


@tool
async def repeat(word: str, times: int) -> list[str]:
    """Repeat a word."""
    return [word] * times


@tool
async def opaque() -> Any:
    """Return an object."""
    return Opaque()


@tool(env=Keys)
async def leak(ctx: ToolContext, word: str) -> str:
    """Report a secret."""
    ctx.progress(1, 2, ctx.env.api_key)
    ctx.log(ctx.env.api_key)
    return f"{word}: {ctx.env.api_key}"


@tool(side_effect=True, idempotent=True, needs_approval=True)
async def pay(cents: int) -> int:
    """Pay."""
    return cents


SECRET = "s3cr3t-value"


class Opened:
    """One session for all tests of this module, and its events."""

    def __init__(self, session: Session, events: list[RunEvent]) -> None:
        self.session = session
        self.events = events


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opened]:
    events: list[RunEvent] = []

    async def approver(request: ApprovalRequest) -> Decision:
        return Decision(request.arguments["cents"] < 100, by="ann")

    async with Session(
        tmp_path,
        tools=[repeat, leak, pay],
        toolsets=(),
        limits=Limits(max_tool_result_bytes=200),
        env={"api_key": SECRET},
        approver=approver,
        on_event=events.append,
    ) as session:
        yield Opened(session, events)


async def test_direct_call_is_stopped_after_tool_timeout_ms(tmp_path: Path) -> None:
    limits = Limits(tool_timeout_ms=30)
    async with Session(tmp_path, tools=[sleep], toolsets=(), limits=limits) as session:
        with anyio.fail_after(60):
            result = await session.tool("sleep")
    assert result.error is not None
    assert (result.error.code, result.error.details["limit"]) == ("timeout", "tool_timeout_ms")


async def test_direct_result_over_its_limit_is_an_error_as_in_a_script(opened: Opened) -> None:
    fits = await opened.session.tool("repeat", {"word": "a", "times": 49})
    assert fits.value == ["a"] * 49
    result = await opened.session.tool("repeat", {"word": "a", "times": 50})
    script = "def run(ctx, inputs):\n    return ctx.repeat('a', 50)"
    run = await opened.session.program(source=script)
    assert result.error is not None
    assert result.error.code == run.calls[0].error_code == "result_too_large"
    assert result.error.message == run.calls[0].error
    assert result.value is None
    assert opened.events[3].call is not None
    assert opened.events[3].call.error_code == "result_too_large"


async def test_direct_value_without_a_json_form_is_returned_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that has sent a credential refuses a value that cannot be searched for it.
    monkeypatch.setattr("ptc._core._redact.SENT", SentCredentials())
    async with Session(tmp_path, tools=[opaque], toolsets=()) as session:
        result = await session.tool("opaque")
    assert isinstance(result.value, Opaque)
    assert json.loads(result.to_json())["value"] is None


async def test_approver_decides_on_direct_calls_as_on_those_of_scripts(opened: Opened) -> None:
    source = "def run(ctx, inputs):\n    return ctx.pay(inputs['cents'])"
    for cents, code in ((5, None), (500, "rejected")):
        opened.events.clear()
        result = await opened.session.tool("pay", {"cents": cents})
        direct = [event.kind for event in opened.events]
        opened.events.clear()
        run = await opened.session.program(
            source=source, inputs={"cents": cents}, allowed_tools=["pay"]
        )
        own = {"started", "finished"}
        assert direct == [event.kind for event in opened.events if event.kind not in own]
        assert direct == ["tool_started", "approval_pending", "approval_decided", "tool_finished"]
        assert code == run.calls[0].error_code == (result.error.code if result.error else None)


async def test_session_subscriber_receives_events_of_runs_and_calls_without_secrets(
    opened: Opened,
) -> None:
    await opened.session.tool("leak", {"word": f"key {SECRET}"})
    source = "def run(ctx, inputs):\n    print(ctx.leak('key'))"
    own: list[RunEvent] = []
    run = await opened.session.program(source=source, on_event=own.append)
    async with opened.session.stream("repeat", {"word": "a", "times": 1}) as events:
        streamed = [event.kind async for event in events]
    kinds = [(event.kind, event.run_id is not None) for event in opened.events]
    call = ["tool_started", "progress", "log", "tool_finished"]
    assert kinds[:4] == [(kind, False) for kind in call]
    assert [kind for kind, in_run in kinds if in_run] == ["started", *call, "stdout", "finished"]
    assert own == [event for event in opened.events if event.run_id and event.kind != "finished"]
    assert streamed == ["tool_started", "tool_finished", "finished"]
    assert [kind for kind, in_run in kinds[-2:]] == ["tool_started", "tool_finished"]
    finished = next(event for event in opened.events if event.kind == "finished")
    assert finished.value == run
    text = b"\n".join(event.to_json() for event in opened.events)
    assert SECRET.encode() not in text
    rows = [json.loads(line) for line in text.splitlines()]
    assert rows[1]["value"] == {"done": 1, "total": 2, "message": "[secret api_key]"}
    assert rows[1]["call"]["tool"] == "leak"


async def test_failing_session_subscriber_is_disconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def fail(event: RunEvent) -> None:
        seen.append(event.kind)
        raise ValueError("no")

    async with Session(tmp_path, tools=[repeat], toolsets=(), on_event=fail) as session:
        with caplog.at_level(logging.ERROR, "ptc"):
            assert (await session.tool("repeat", {"word": "a", "times": 1})).ok
            assert (await session.tool("repeat", {"word": "a", "times": 1})).ok
    assert seen == ["tool_started"]
    assert "on_event of the session failed" in caplog.text


async def test_streamed_calls_count_as_calls_of_the_session(tmp_path: Path) -> None:
    @tool(max_executions_per_run=1)
    async def once() -> int:
        """Run once."""
        return 1

    async with Session(tmp_path, tools=[once], toolsets=()) as session:
        async with session.stream("once") as events:
            results = [event.value async for event in events]
        assert results[-1].value == 1
        second = await session.tool("once")
    assert second.error is not None
    assert second.error.code == "limit_exceeded"


def test_subscriber_of_a_blocking_session_receives_events(tmp_path: Path) -> None:
    kinds: list[str] = []
    with BlockingSession(
        tmp_path, tools=[repeat], toolsets=(), on_event=lambda event: kinds.append(event.kind)
    ) as session:
        session.tool("repeat", {"word": "a", "times": 1})
    assert kinds == ["tool_started", "tool_finished"]


async def test_should_retry_may_take_the_error_alone(tmp_path: Path) -> None:
    seen: list[str] = []

    @tool(
        retry=Retry(max_retries=2, backoff_ms=0, should_retry=lambda error: "again" in str(error))
    )
    async def flaky() -> int:
        """Fail twice."""
        seen.append("x")
        if len(seen) < 3:
            raise ToolError("try again")
        return len(seen)

    async with Session(tmp_path, tools=[flaky], toolsets=()) as session:
        assert (await session.tool("flaky")).value == 3


@pytest.mark.parametrize("predicate", [lambda: True, lambda a, b, c: True, lambda *, error: True])
def test_should_retry_with_other_parameters_is_refused_at_definition(predicate: Any) -> None:
    with pytest.raises(UsageError, match="should_retry must take the error, and optionally"):
        Retry(should_retry=predicate)
    assert Retry(should_retry=lambda error, attempt=1: attempt == 1).wants(ValueError(), 1)
    assert not Retry(should_retry=lambda *args: len(args) == 1).wants(ValueError(), 1)


def test_results_have_a_json_form() -> None:
    @dataclass
    class Row:
        path: str

    done = ToolResult.success([Row("a")], text="one", metadata={"ms": 3}, exit_code=0)
    assert json.loads(done.to_json()) == {
        "tool": "",
        "status": "success",
        "value": [{"path": "a"}],
        "error": None,
        "text": "one",
        "content": [{"text": "one", "type": "text"}],
        "attachments": [],
        "metadata": {"ms": 3},
        "exit_code": 0,
    }
    failed = ToolResult.failure("no disk", code="io", details={"at": Opaque()}).to_dict()
    assert failed["status"] == "error"
    assert failed["error"] == {
        "message": "no disk",
        "code": "io",
        "tool": "",
        "retryable": False,
        "details": None,
    }
