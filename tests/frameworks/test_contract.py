"""Every framework, both directions: the same cases against the framework's real SDK.

`python tests/frameworks/matrix.py` turns the results into a table of `docs/`.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest

from ptc import (
    Attachment,
    Limits,
    Session,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
    tool_from,
)

from .contract import PICTURE, ROWS, SECONDS, TEXT, Observed, Peer, World

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PEERS = sorted(
    path.stem for path in (Path(__file__).parent / "peers").glob("*.py") if path.stem[0] != "_"
)
Direction = Literal["in", "out"]
CASES: dict[tuple[Direction, str], Callable[[Peer, Path], Awaitable[None]]] = {}


@pytest.fixture
def anyio_backend() -> str:
    """The frameworks need asyncio."""
    return "asyncio"


def case(direction: Direction, row: str) -> Callable[..., Any]:
    def add(function: Callable[[Peer, Path], Awaitable[None]]) -> Any:
        CASES[direction, row] = function
        return function

    return add


def load(name: str) -> Peer:
    """Import a peer; skip if its framework is not installed."""
    module = importlib.import_module(f".peers.{name}", __package__)
    peer: Peer = module.Tested()
    try:
        version(peer.distribution)
    except PackageNotFoundError:
        install = f"pip install {peer.distribution}"
        pytest.skip(f"{peer.name} is not installed: {install}")
    return peer


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("direction", ["in", "out"])
@pytest.mark.parametrize("name", PEERS)
async def test_binding_keeps_the_contract(
    name: str,
    direction: Direction,
    row: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    peer = load(name)
    cell = {"framework": peer.name, "version": version(peer.distribution)}
    record_property("matrix", {**cell, "direction": direction, "row": row})
    gap = peer.gaps.get((direction, row)) or peer.gaps.get((direction, "*"))
    if gap is not None:
        pytest.skip(f"gap: {gap}")
    with anyio.fail_after(SECONDS):
        await CASES[direction, row](peer, tmp_path)


# --- in: tools of the framework, called by scripts and applications -----------------------------


async def run(peer: Peer, root: Path, body: str, world: World | None = None, **options: Any) -> Any:
    """Run a script over the framework's tools; return the `RunResult`."""
    native = peer.tools(world or World())
    async with Session(root, tools=list(native.values()), toolsets=(), workers=1) as session:
        source = "async def run(ctx, inputs):\n" + "".join(f"    {s}\n" for s in body.split("\n"))
        names = session.tool_names()
        return await session.program(source=source, allowed_tools=names, **options)


@case("in", "ok")
async def framework_tool_returns_data(peer: Peer, root: Path) -> None:
    result = await run(peer, root, "return (await ctx.add(a=1, b=2))['sum']")
    assert result.unwrap() == 3
    # A tool that does not declare its effects may be called only if it is named.
    async with Session(root, tools=list(peer.tools(World()).values()), toolsets=()) as session:
        assert "send" not in session.select_tools(None)


@case("in", "tool error")
async def failure_is_a_tool_error_with_its_text(peer: Peer, root: Path) -> None:
    body = "try:\n    return await ctx.fail(reason='no such table')\n"
    body += "except ToolError as error:\n    return ['failed', str(error)]"
    kind, text = (await run(peer, root, body)).unwrap()
    assert kind == "failed"
    assert "no such table" in text
    wrong = await run(peer, root, "return await ctx.add(a='x', b=[])")
    assert not wrong.ok, "wrong arguments were accepted"


@case("in", "limit")
async def calls_count_against_the_limits(peer: Peer, root: Path) -> None:
    body = "for n in range(9):\n    await ctx.add(a=n, b=n)"
    result = await run(peer, root, body, limits=Limits(max_tool_calls=3))
    assert (result.status, len([c for c in result.calls if c.status == "succeeded"])) == (
        "limit_exceeded",
        3,
    )


@case("in", "approval")
async def call_pauses_for_an_approval(peer: Peer, root: Path) -> None:
    world = World()
    native = dict(peer.tools(world))
    if tool_from(native["send"]).needs_approval is False:
        native["send"] = tool_from(native["send"], needs_approval=True)
    async with Session(root, tools=list(native.values()), toolsets=(), workers=1) as session:
        source = "async def run(ctx, inputs):\n    return await ctx.send(to='ann')"
        paused = await session.program(source=source, allowed_tools=["send"])
        assert (paused.status, world.sent) == ("paused", [])
        await session.approve(paused.run_id, by="ben")
        done = await session.resume(paused.run_id, allowed_tools=["send"])
    assert (done.status, world.sent) == ("completed", ["ann"])
    assert "sent to ann" in str(done.value)


@case("in", "cancel")
async def cancellation_reaches_the_framework(peer: Peer, root: Path) -> None:
    world = World()
    async with anyio.create_task_group() as group:
        group.start_soon(partial(run, peer, root, "await ctx.wait()", world))
        assert await anyio.to_thread.run_sync(world.started.wait, SECONDS)
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(world.cancelled.wait, SECONDS)


@case("in", "binary")
async def image_is_a_handle(peer: Peer, root: Path) -> None:
    async with Session(
        root, tools=list(peer.tools(World()).values()), toolsets=(), workers=1
    ) as session:
        source = "async def run(ctx, inputs):\n    return await ctx.picture()"
        result = await session.program(source=source, allowed_tools=["picture"])
        assert result.ok, result
        [file] = [ref for call in result.calls for ref in call.attachments]
        assert file.media_type == "image/png"
        assert peer.is_picture(Path(file.path).read_bytes())
    assert len(str(result.value)) < 1_000, "the data of the image is in the value"


@case("in", "unicode")
async def text_arrives_unchanged(peer: Peer, root: Path) -> None:
    result = await run(peer, root, f"return await ctx.echo(text={TEXT!r})")
    assert result.unwrap() == TEXT


@case("in", "big result")
async def big_value_reaches_the_script_whole(peer: Peer, root: Path) -> None:
    assert (
        await run(peer, root, "return len(await ctx.big(size=1_000_000))")
    ).unwrap() == 1_000_000


@case("in", "concurrent")
async def concurrent_calls_return_their_own_results(peer: Peer, root: Path) -> None:
    body = "import asyncio\nfound = await asyncio.gather(*(ctx.add(a=n, b=n) for n in range(30)))\n"
    body += "return [row['sum'] for row in found]"
    assert (await run(peer, root, body)).unwrap() == [2 * n for n in range(30)]


# --- out: `program` and single tools, called by an agent of the framework ------------------------


@tool
async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@tool
async def fail(reason: str) -> str:
    """Fail."""
    raise ToolError(reason, code="out_of_stock")


@tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@tool
async def big(size: int) -> str:
    """Return a text of many letters."""
    return "x" * size


@tool
async def picture(ctx: ToolContext) -> ToolResult:
    """Draw a picture."""
    return ToolResult.success(
        {"drawn": True}, attachments=[Attachment("dot.png", "image/png", PICTURE)]
    )


def tools_of(world: World) -> list[Tool]:
    send = tool(side_effect=True, idempotent=True, needs_approval=True)(world.send)
    wait = tool(world.wait)
    return [add, fail, echo, big, picture, send, wait]


NAMES = ["add", "fail", "echo", "big", "picture", "send", "wait"]


async def ask(
    peer: Peer, root: Path, name: str, arguments: dict[str, Any], **options: Any
) -> Observed:
    world = options.pop("world", None) or World()
    async with Session(root, tools=tools_of(world), toolsets=(), workers=1) as session:
        return await peer.ask(session, name, arguments, allowed_tools=NAMES, **options)


def script(body: str) -> dict[str, Any]:
    rows = "".join(f"    {row}\n" for row in body.split("\n"))
    return {"source": f"async def run(ctx, inputs):\n{rows}"}


@case("out", "ok")
async def agent_runs_a_script(peer: Peer, root: Path) -> None:
    found = await ask(peer, root, "program", script("return (await ctx.add(1, 2))['sum'] * 7"))
    assert "21" in found.text
    assert not found.is_error
    single = await ask(peer, root, "add", {"a": 20, "b": 21}, direct=True)
    assert "41" in single.text
    assert not single.is_error


@case("out", "tool error")
async def agent_reads_text_code_and_hint_of_an_error(peer: Peer, root: Path) -> None:
    for name, arguments in (
        ("program", script("return await ctx.fail('no tea left')")),
        ("fail", {"reason": "no tea left"}),
    ):
        found = await ask(peer, root, name, arguments, direct=name != "program")
        assert "no tea left" in found.text
        assert "out_of_stock" in found.text
        assert found.is_error in (True, None)
    unknown = await ask(peer, root, "program", script("return await ctx.ad(1, 2)"))
    assert "did you mean" in unknown.text


@case("out", "limit")
async def agent_reads_that_a_limit_was_exceeded(peer: Peer, root: Path) -> None:
    body = "for n in range(9):\n    await ctx.add(n, n)"
    found = await ask(peer, root, "program", script(body), limits=Limits(max_tool_calls=3))
    assert "max_tool_calls" in found.text
    assert found.is_error in (True, None)


@case("out", "approval")
async def approval_of_the_framework_decides(peer: Peer, root: Path) -> None:
    world = World()
    sending = script("return await ctx.send('ann')")
    found = await ask(peer, root, "program", sending, world=world, decision="reject")
    assert world.sent == []
    found = await ask(peer, root, "program", sending, world=world, decision="approve")
    if peer.own_approvals:
        assert "sent to ann" in found.text
        assert world.sent == ["ann"]
    else:
        assert "paused" in found.text
        assert "approv" in found.text
        assert (world.sent, found.is_error in (False, None)) == ([], True)


@case("out", "cancel")
async def cancelling_the_agent_cancels_the_run(peer: Peer, root: Path) -> None:
    world = World()
    waiting = script("return await ctx.wait()")
    async with anyio.create_task_group() as group:
        group.start_soon(partial(ask, peer, root, "program", waiting, world=world))
        assert await anyio.to_thread.run_sync(world.started.wait, SECONDS)
        group.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(world.cancelled.wait, SECONDS)


@case("out", "binary")
async def agent_gets_a_handle_or_the_image(peer: Peer, root: Path) -> None:
    found = await ask(peer, root, "program", script("await ctx.picture()\nreturn 'drawn'"))
    assert "drawn" in found.text
    assert "dot.png" in found.text or found.images == 1


@case("out", "unicode")
async def agent_reads_text_unchanged(peer: Peer, root: Path) -> None:
    found = await ask(peer, root, "echo", {"text": TEXT}, direct=True)
    assert TEXT in found.text


@case("out", "big result")
async def agent_reads_the_start_of_a_big_result(peer: Peer, root: Path) -> None:
    found = await ask(peer, root, "big", {"size": 1_000_000}, direct=True)
    assert 1_000 < len(found.text) < 20_000
    assert "of 1,000,000 characters" in found.text
    assert not found.is_error


@case("out", "concurrent")
async def concurrent_agents_get_their_own_results(peer: Peer, root: Path) -> None:
    answers: dict[int, str] = {}

    async def one(session: Session, number: int) -> None:
        source = script(f"return (await ctx.add({number}, 1000))['sum']")
        found = await peer.ask(session, "program", source, allowed_tools=NAMES)
        answers[number] = found.text

    async with (
        Session(root, tools=tools_of(World()), toolsets=(), workers=2) as session,
        anyio.create_task_group() as group,
    ):
        for number in range(10):
            group.start_soon(one, session, number)
    assert all(str(1000 + number) in answers[number] for number in range(10))


def test_every_row_has_a_case_in_both_directions() -> None:
    assert set(CASES) == {(direction, row) for direction in ("in", "out") for row in ROWS}
