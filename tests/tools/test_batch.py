from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from ptc import Allow, Limits, Session, Tool, ToolError, UsageError, tool
from ptc_bindings.functions import as_functions
from ptc_tools import BatchCall, BatchResult, _batch, batch

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


class World:
    """Tools that record their start and end."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.now = 0
        self.most = 0
        self.gate = anyio.Event()
        self.waiting = 0

    async def _work(self, kind: str, n: int) -> int:
        self.events.append(f"{kind}{n}+")
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(100):  # Let other calls start.
            await anyio.lowlevel.checkpoint()
        self.now -= 1
        self.events.append(f"{kind}{n}-")
        if n < 0:
            raise ToolError("below zero", code="negative", retryable=True)
        return n

    @property
    def tools(self) -> list[Tool]:
        @tool
        async def look(n: int) -> int:
            """Look."""
            return await self._work("look", n)

        @tool
        async def meet(n: int) -> int:
            """Come back when three have come."""
            self.waiting += 1
            if self.waiting == 3:
                self.gate.set()
            await self.gate.wait()
            return n

        @tool(side_effect=True, idempotent=True)
        async def put(n: int) -> int:
            """Put."""
            return await self._work("put", n)

        @tool
        def big(size: int) -> str:
            """Give much."""
            return "x" * size

        return [look, meet, put, big]

    def session(self, root: Path) -> Session:
        return Session(root=root, tools=self.tools)


def calls(*rows: tuple[Any, ...]) -> dict[str, Any]:
    keys = ("tool", "arguments", "id")
    return {"calls": [dict(zip(keys, row, strict=False)) for row in rows]}


async def results(session: Session, *rows: tuple[Any, ...], **options: Any) -> list[BatchResult]:
    found: list[BatchResult] = (await session.tool("batch", {**calls(*rows), **options})).unwrap()
    return found


async def test_batch_results_are_in_order_with_ids_and_values(root: Path) -> None:
    (root / "a.txt").write_text("one\ntwo\n")
    async with Session(root=root) as session:
        found = await results(
            session,
            ("read", {"path": "a.txt"}),
            ("grep", {"pattern": "two"}, "hits"),
            ("glob", {"pattern": "*.none"}),
        )
    assert [(r.id, r.tool, r.ok) for r in found] == [
        ("1", "read", True),
        ("hits", "grep", True),
        ("3", "glob", True),
    ]
    assert found[0].value == "one\ntwo\n"
    assert found[1].value[0]["line"] == 2
    assert found[2].value == []


async def test_references_resolve_to_values_and_their_parts(root: Path) -> None:
    (root / "a.txt").write_text("x\n")
    async with Session(root=root) as session:
        found = await results(
            session,
            ("grep", {"pattern": "x"}, "hits"),
            ("read", {"path": {"$ref": "hits.0.path"}}, "text"),
            ("write", {"path": "b.txt", "content": {"$ref": "text"}}),
            ("read_files", {"paths": [{"$ref": "hits.0.path"}, "b.txt"]}),
        )
    assert all(result.ok for result in found)
    assert (root / "b.txt").read_text() == "x\n"
    assert [file["text"] for file in found[3].value] == ["x\n", "x\n"]


async def test_read_only_calls_of_a_batch_run_concurrently(root: Path) -> None:
    world = World()
    async with world.session(root) as session:
        with anyio.fail_after(20):
            found = await results(session, *(("meet", {"n": n}) for n in range(3)))
    assert [result.value for result in found] == [0, 1, 2]


@pytest.mark.parametrize("most", [1, 2, 16])
async def test_batch_never_exceeds_max_concurrency(root: Path, most: int) -> None:
    world = World()
    async with world.session(root) as session:
        rows = [("look", {"n": n}) for n in range(20)]
        await results(session, *rows, max_concurrency=most)
    assert world.most == most


async def test_side_effects_in_a_batch_run_in_order_and_alone(root: Path) -> None:
    world = World()
    names = ["look", "look", "put", "put", "look", "look", "put", "look"]
    async with world.session(root) as session:
        await results(session, *((name, {"n": n}) for n, name in enumerate(names)))
    events = world.events
    for n, name in enumerate(names):
        if name == "put":
            at = events.index(f"put{n}+")
            assert events[at + 1] == f"put{n}-", "nothing runs beside an effect"
            before = {event[:-1].removeprefix("look").removeprefix("put") for event in events[:at]}
            assert before == {str(m) for m in range(n)}, "all before it, none after it"


async def test_failure_in_a_batch_affects_only_dependent_calls(root: Path) -> None:
    world = World()
    async with world.session(root) as session:
        found = await results(
            session,
            ("look", {"n": -1}, "bad"),
            ("look", {"n": {"$ref": "bad"}}),
            ("look", {"n": 2}, "good"),
            ("look", {"n": {"$ref": "good.0"}}),
            ("put", {"n": {"$ref": "good"}}),
            ("look", {"m": 2}),
            ("missing", {}),
        )
    assert [(r.ok, r.error.code if r.error else r.value) for r in found] == [
        (False, "negative"),
        (False, "dependency_failed"),
        (True, 2),
        (False, "bad_reference"),
        (True, 2),
        (False, "invalid_arguments"),
        (False, "unknown_tool"),
    ]
    assert found[0].error is not None
    assert found[0].error.retryable


async def test_stop_on_error_starts_no_call_after_a_failure(root: Path) -> None:
    world = World()
    async with world.session(root) as session:
        rows = [("put", {"n": 1}), ("put", {"n": -2}), ("put", {"n": 3}), ("look", {"n": 4})]
        found = await results(session, *rows, stop_on_error=True)
        assert [r.error.code if r.error else None for r in found] == [
            *(None, "negative", "not_started", "not_started")
        ]
    assert world.events == ["put1+", "put1-", "put-2+", "put-2-"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("look", {"n": {"$ref": "later"}}), ("look", {"n": 1}, "later")], "refers to 'later'"),
        ([("look", {"n": {"$ref": "1"}})], "earlier calls: none"),
        ([("look", {}, "a"), ("look", {}, "a")], "two calls have the id 'a'"),
        ([("look", {}, "2"), ("look", {})], "two calls have the id '2'"),
        ([("put", {"n": 1}), ("batch", {"calls": []})], "a batch in a batch"),
        ([("look", {"n": {"$ref": 1}})], 'the value of "$ref" must be a string'),
    ],
)
async def test_invalid_batch_makes_no_calls(
    root: Path, rows: list[tuple[Any, ...]], words: str
) -> None:
    world = World()
    async with world.session(root) as session:
        result = await session.tool("batch", calls(*rows))
    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert words in result.error.message
    assert world.events == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"calls": []},
        {"calls": [{"tool": "read"}] * 33},
        {"calls": [{"tool": "read", "id": "a.b"}]},
        {"calls": [{"tool": "read", "argument": {}}]},
        {"calls": [{"tool": "read"}], "max_concurrency": 17},
        {"calls": [{"tool": "read"}], "max_concurrency": 0},
    ],
)
def test_batch_refuses_invalid_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        batch.validate(arguments)
    assert caught.value.code == "invalid_arguments"


async def test_a_batch_never_widens_the_allow_list(root: Path) -> None:
    source = """
found = await ctx.batch(calls=[
    {"tool": "write", "arguments": {"path": "a", "content": "x"}},
    {"tool": "bash", "arguments": {"cmd": "touch", "args": ["b"]}},
    {"tool": "read", "arguments": {"path": "secret.txt"}},
    {"tool": "read", "arguments": {"path": "open.txt"}},
])
[r.error.code if r.error else r.value for r in found]
"""
    (root / "open.txt").write_text("open")
    (root / "secret.txt").write_text("secret")
    async with Session(root=root) as session:
        rule = Allow("read", path="open*")
        result = await session.program(source=source, allowed_tools=["batch", rule])
        codes = result.unwrap()
        assert codes[:2] == ["not_allowed", "not_allowed"]
        assert codes[2] not in ("secret", "open")
        assert codes[3] == "open"
        without = await session.program(source=source, allowed_tools=["read"])
        assert without.error is not None
        assert (without.status, without.error.code) == ("rejected", "not_allowed")
    assert sorted(p.name for p in root.iterdir() if p.name != ".ptc") == ["open.txt", "secret.txt"]


async def test_direct_call_can_be_restricted_by_an_allow_list(root: Path) -> None:
    (root / "open.txt").write_text("open")
    rows = calls(("write", {"path": "a", "content": "x"}), ("read", {"path": "open.txt"}))
    async with Session(root=root) as session:
        held = await session.tool("batch", rows, allowed_tools=["batch", "read"])
        assert [r.ok for r in held.unwrap()] == [False, True]
        refused = await session.tool("write", {"path": "a"}, allowed_tools=["read"])
        assert refused.error is not None
        assert refused.error.code == "not_allowed"
        with pytest.raises(UsageError):
            await session.tool("read", {"path": "a"}, allowed_tools=["raed"])
    assert not (root / "a").exists()


async def test_exported_functions_keep_their_allow_list_rules(root: Path) -> None:
    (root / "open.txt").write_text("open")
    (root / "secret.txt").write_text("secret")
    async with Session(root=root) as session:
        functions = as_functions(session, ["batch", Allow("read", path="open*")])
        assert await functions["read"](path="open.txt") == "open"
        with pytest.raises(ToolError):
            await functions["read"](path="secret.txt")
        found = await functions["batch"](
            calls=[
                {"tool": "read", "arguments": {"path": "secret.txt"}},
                {"tool": "write", "arguments": {"path": "a", "content": "x"}},
            ]
        )
        assert [result.ok for result in found] == [False, False]


async def test_calls_of_a_batch_are_counted_and_recorded(root: Path) -> None:
    world = World()
    source = """
found = await ctx.batch(calls=[{"tool": "look", "arguments": {"n": n}} for n in range(5)])
[r.error.code if r.error else r.value for r in found]
"""
    async with world.session(root) as session:
        result = await session.program(
            source=source, allowed_tools=["batch", "look"], limits=Limits(max_tool_calls=4)
        )
    assert sorted(map(str, result.unwrap())) == ["0", "1", "2", "limit_exceeded", "limit_exceeded"]
    nested = [call for call in result.calls if call.parent is not None]
    assert {call.tool for call in nested} == {"look"}
    assert {call.parent for call in nested} == {"1"}


async def test_content_in_a_batch_is_not_recorded(root: Path) -> None:
    source = """
await ctx.batch(calls=[{"tool": "write", "arguments": {"path": "a", "content": "CAN" + "ARY"}}])
"""
    async with Session(root=root) as session:
        result = await session.program(source=source, allowed_tools=["batch", "write"])
    assert result.ok
    assert (root / "a").read_text() == "CANARY"
    assert "CANARY" not in repr(result.calls)
    assert [call.tool for call in result.calls if call.parent is not None] == ["write"]


async def test_batch_values_too_large_together_are_omitted_and_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_batch, "MAX_TOTAL_BYTES", 1_000)
    async with World().session(root) as session:
        rows = [("big", {"size": 600}), ("big", {"size": 600}), ("big", {"size": 300})]
        result = await session.tool(
            "batch", calls(*rows, ("look", {"n": 1})) | {"max_concurrency": 1}
        )
    found = result.unwrap()
    assert [(r.ok, len(r.value or ""), r.omitted_bytes) for r in found[:3]] == [
        (True, 600, 0),
        (True, 0, 602),
        (True, 300, 0),
    ]
    assert "[value of 602 bytes omitted; call the tool alone]" in result.text


async def test_batch_renders_each_result_as_its_tool_does(root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    async with Session(root=root) as session:
        result = await session.tool(
            "batch",
            calls(("grep", {"pattern": "one"}, "hits"), ("read", {"path": "b"}), ("ls", {})),
        )
    assert result.text.splitlines()[:4] == [
        "2 of 3 calls succeeded",
        "=== hits (grep)",
        "a.txt:1:one",
        "=== 2 (read)",
    ]
    assert "Error [not_found]: 'b' does not exist" in result.text
    assert "a.txt  4 bytes" in result.text


async def test_typed_call_of_batch_accepts_batch_calls(root: Path) -> None:
    (root / "a.txt").write_text("one\n")
    async with Session(root=root) as session:
        [found] = await session.call(batch, [BatchCall("read", {"path": "a.txt"})])
    assert found == BatchResult("1", "read", True, "one\n")
    assert (batch.side_effect, batch.idempotent) == (True, False)
