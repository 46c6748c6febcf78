"""Records of calls that change files have sizes and digests, never the content."""

from __future__ import annotations

import hashlib
from pathlib import Path

import anyio
import pytest

from ptc import RunEvent, Session, ToolContext, ToolError, UsageError, tool
from ptc.journal._location import journal_of

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

CANARY = "CANARY-5f0c"

SCRIPT = f"""
async def run(ctx, inputs):
    async def attempt(call):
        try:
            await call
        except ToolError as error:
            return error.code
    text = "{CANARY}"
    return [
        await attempt(ctx.write(path="a", content=text + "\\n")),
        await attempt(ctx.write("b", text)),
        await attempt(ctx.write(path="../a", content=text)),
        await attempt(ctx.write(path="a", content=[text])),
        await attempt(ctx.write(path="a", contents=text)),
        await attempt(ctx.edit(path="a", old=text + "\\n", new=text + "2\\n")),
        await attempt(ctx.edit(path="a", old=text + "3", new=text)),
        await attempt(ctx.edit(path="a", diff="@@ -1 +1 @@\\n-" + text + "\\n+x\\n")),
        await attempt(ctx.edit(path="a", diff=text)),
        await attempt(ctx.patch(diff="--- a/a\\n+++ b/a\\n@@ -1 +1 @@\\n-" + text + "2\\n+x\\n")),
        await attempt(ctx.patch(diff=text)),
        await attempt(ctx.call("write", {{"path": "c", "content": text}})),
    ]
"""


async def test_content_is_in_no_record_and_no_event(root: Path) -> None:
    events: list[RunEvent] = []
    async with Session(root=root) as session:
        result = await session.program(
            source=SCRIPT, allowed_tools=["write", "edit", "patch"], on_event=events.append
        )
    assert result.unwrap() == [
        None,
        None,
        "outside_root",
        "invalid_arguments",
        "invalid_arguments",
        None,
        "no_match",
        "patch_failed",
        "patch_failed",
        None,
        "patch_failed",
        None,
    ]
    assert len(result.calls) == 12
    assert CANARY not in repr(result.calls)
    assert len([event for event in events if event.call is not None]) == 24
    assert CANARY not in repr([event.call for event in events])
    digest = hashlib.sha256(f"{CANARY}\n".encode()).hexdigest()
    size = len(CANARY) + 1
    assert result.calls[0].arguments == (
        f'{{"path":"a","content":{{"bytes":{size},"sha256":"{digest}"}}}}'
    )


async def test_disallowed_call_is_recorded_without_content(root: Path) -> None:
    async with Session(root=root) as session:
        source = f'await ctx.call(inputs["tool"], {{"path": "a", "content": "{CANARY}"}})'
        result = await session.program(source=source, inputs={"tool": "write"})
    assert [call.error_code for call in result.calls] == ["not_allowed"]
    assert CANARY not in repr(result.calls)


async def test_streamed_direct_call_emits_no_content(root: Path) -> None:
    async with Session(root=root) as session:
        arguments = {"path": "a", "content": CANARY}
        async with session.stream("write", arguments) as events:
            seen = [event async for event in events]
    assert [event.kind for event in seen] == ["tool_started", "tool_finished", "finished"]
    assert CANARY not in repr(seen)
    assert (root / "a").read_text() == CANARY


async def test_custom_tool_can_exclude_arguments_from_records(root: Path) -> None:
    @tool(unrecorded=["body"])
    def send(to: str, body: dict[str, str] | None = None) -> str:
        """Send."""
        return to

    async with Session(root=root, tools=[send]) as session:
        source = f'await ctx.send("x", {{"a": "{CANARY}"}}); await ctx.send("y", None)'
        result = await session.program(source=source, allowed_tools=["send"])
    assert result.status == "completed"
    data = f'{{"a":"{CANARY}"}}'.encode()
    digest = hashlib.sha256(data).hexdigest()
    assert [call.arguments for call in result.calls] == [
        f'{{"to":"x","body":{{"bytes":{len(data)},"sha256":"{digest}"}}}}',
        '{"to":"y","body":null}',
    ]


async def test_run_resumes_without_its_content_in_the_journal(root: Path) -> None:
    at_work = anyio.Event()

    @tool
    async def wait() -> None:
        """Wait for ever, the first time."""
        if not at_work.is_set():
            at_work.set()
            await anyio.sleep_forever()

    # Assembled in the script, because the source of the script is recorded.
    source = f"""
async def run(ctx, inputs):
    text = "".join(reversed("{CANARY[::-1]}"))
    made = await ctx.write(path="a", content=text)
    await ctx.edit(path="a", old=text, new=text + "2")
    await ctx.wait()
    return [made.action, await ctx.read("a") == text + "2"]
"""
    allowed = ["write", "edit", "read", "wait"]
    async with Session(root=root, tools=[wait]) as session, anyio.create_task_group() as group:

        async def run() -> None:
            await session.program(source=source, allowed_tools=allowed, run_id="r")

        group.start_soon(run)
        with anyio.fail_after(20):
            await at_work.wait()
        group.cancel_scope.cancel()
    place = journal_of(root)
    recorded = [path for path in place.parent.iterdir() if path.name.startswith(place.name)]
    stored = b"".join(path.read_bytes() for path in recorded)
    assert b'"path":"a"' in stored
    assert CANARY.encode() not in stored
    async with Session(root=root, tools=[wait]) as session:
        result = await session.resume("r")
    assert result.unwrap() == ["created", True]
    assert [call.status for call in result.calls] == ["succeeded"] * 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["bdy"], "unknown parameter 'bdy' (did you mean `body`?)"),
        ("body", "must be a list of words, not 'body'"),
    ],
)
def test_invalid_unrecorded_parameter_is_rejected(given: list[str], words: str) -> None:
    def send(ctx: ToolContext, body: str) -> None:
        """Send."""

    with pytest.raises(UsageError) as caught:
        tool(unrecorded=given)(send)
    assert words in str(caught.value)


async def test_validation_error_does_not_quote_an_unrecorded_argument(root: Path) -> None:
    async with Session(root=root) as session:
        with pytest.raises(ToolError) as caught:
            await session.write(path="a", content=[CANARY])  # type: ignore[attr-defined]  # a tool as a method
    assert caught.value.code == "invalid_arguments"
    assert caught.value.message == "write: `content`: Input should be a valid string"
