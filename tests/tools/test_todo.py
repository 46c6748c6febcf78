"""`manage_todo_list`: operations, invariants, versions, events, repetition, and `ptc todo`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from click.testing import CliRunner, Result

import ptc_tools
from ptc import RunEvent, Session, ToolError
from ptc_tools import manage_todo_list

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

PLAN: list[dict[str, Any]] = [
    {"id": 1, "step": "Read the code", "status": "completed"},
    {"id": 2, "step": "Write a test", "status": "in-progress", "owner": "ann"},
    {"id": 3, "title": "Fix it", "status": "not-started"},
]


def session(root: Path, **options: Any) -> Session:
    options = {"toolsets": ["todo"], "journal": ":memory:", "workers": 1, **options}
    return Session(root, **options)


async def call(session: Session, operation: str, items: Any = None, **more: Any) -> Any:
    arguments = {"operation": operation, **more}
    if items is not None:
        arguments["todo_list"] = items
    result = await session.tool("manage_todo_list", arguments)
    return result.unwrap()


async def test_write_fills_in_the_fields_and_counts_versions(tmp_path: Path) -> None:
    async with session(tmp_path) as opened:
        found = await call(opened, "write", PLAN)
        again = await call(opened, "write", [])
        text = (await opened.tool("manage_todo_list", {"operation": "read"})).text
    assert (found.operation, found.name, found.version, found.count) == ("write", "main", 1, 3)
    assert found.adherence == 0.33
    assert found.todo_list[2] == ptc_tools.TodoItem(
        3, "Fix it", "Fix it", "Fix it", "agent", "Fix it", "not-started"
    )
    assert (found.todo_list[1].owner, found.todo_list[1].status) == ("ann", "in-progress")
    # An empty plan is complete.
    assert (again.version, again.count, again.adherence, again.todo_list) == (2, 0, 1.0, [])
    assert text == "Todo list 'main', version 2: 0 of 0 completed"


async def test_update_changes_the_given_fields_by_id_in_any_order(tmp_path: Path) -> None:
    patches = [
        {"id": 3, "status": "in-progress"},
        {"id": 2, "status": "completed", "evidence": "12 passed"},
    ]
    async with session(tmp_path) as opened:
        await call(opened, "write", PLAN)
        found = await call(opened, "update", patches, expected_version=1)
        read = await call(opened, "read")
        text = (await opened.tool("manage_todo_list", {"operation": "read"})).text
    assert (found.version, found.adherence, [i.id for i in found.todo_list]) == (2, 0.67, [1, 2, 3])
    assert found.todo_list[1].owner == "ann"
    assert (read.version, read.todo_list) == (2, found.todo_list)
    assert text.splitlines() == [
        "Todo list 'main', version 2: 2 of 3 completed",
        "1. [x] Read the code",
        "2. [x] Write a test (12 passed)",
        "3. [>] Fix it",
    ]


async def test_read_returns_version_and_list_and_changes_nothing(tmp_path: Path) -> None:
    async with session(tmp_path) as opened:
        empty = await call(opened, "read", expected_version=9)
        await call(opened, "write", PLAN)
        versions = [(await call(opened, "read")).version for _ in range(3)]
    assert (empty.version, empty.todo_list, versions) == (0, [], [1, 1, 1])


DONE = {"id": 1, "step": "a", "status": "completed"}
BUSY = {"id": 1, "step": "a", "status": "in-progress"}
REFUSED: dict[str, tuple[str, Any, str, str]] = {
    "no list": ("write", None, "todo_list_required", "todo_list is required for write"),
    "no patches": ("update", [], "todo_list_required", "todo_list is required for update"),
    "equal ids": ("write", [DONE, DONE], "duplicate_id", "two items have the id 1"),
    "equal ids of patches": ("update", [DONE, DONE], "duplicate_id", "two items have the id 1"),
    "gap": ("write", [DONE, {**DONE, "id": 3}], "ids_not_sequential", "item 2 has the id 3"),
    "not from 1": ("write", [{**DONE, "id": 2}], "ids_not_sequential", "item 1 has the id 2"),
    "order": (
        "write",
        [{**DONE, "id": 2}, DONE],
        "ids_not_sequential",
        "write numbers the items 1, 2, 3 ...",
    ),
    "two in progress": (
        "write",
        [BUSY, {**BUSY, "id": 2}],
        "several_in_progress",
        "items 1, 2 would be in-progress; at most one may be",
    ),
    "two in progress after the update": (
        "update",
        [{"id": 3, "status": "in-progress"}],
        "several_in_progress",
        "items 2, 3 would be in-progress",
    ),
    "unknown id": (
        "update",
        [{"id": 1, "status": "blocked"}, {"id": 9, "status": "blocked"}],
        "unknown_id",
        "there is no item 9 (ids: 1 to 3); write replaces the list",
    ),
    "no status": ("write", [{"id": 1, "step": "a"}], "missing_field", "item 1 has no status"),
    "no step": ("write", [{"id": 1, "status": "blocked"}], "missing_field", "item 1 has no step"),
    "no id": ("update", [{"status": "blocked"}], "invalid_arguments", "id"),
    "id 0": ("write", [{**DONE, "id": 0}], "invalid_arguments", "todo_list.0.id"),
    "unknown status": ("write", [{**DONE, "status": "done"}], "invalid_arguments", "status"),
    "unknown field": ("write", [{**DONE, "due": "now"}], "invalid_arguments", "due"),
    "empty step": ("write", [{**DONE, "step": ""}], "invalid_arguments", "step"),
    "long evidence": ("update", [{"id": 1, "evidence": "x" * 301}], "invalid_arguments", "300"),
}


@pytest.fixture(scope="module")
async def shared(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    async with session(tmp_path_factory.mktemp("todo")) as opened:
        yield opened


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_operation_says_why_and_changes_nothing(name: str, shared: Session) -> None:
    operation, items, code, words = REFUSED[name]
    before = await call(shared, "write", PLAN)
    with pytest.raises(ToolError) as caught:
        await call(shared, operation, items)
    assert caught.value.code == code
    assert words in caught.value.message
    if code != "invalid_arguments":
        assert caught.value.message.endswith("; nothing was changed")
    after = await call(shared, "read")
    assert (after.version, after.todo_list) == (before.version, before.todo_list)


async def test_update_before_the_first_write_is_refused(shared: Session) -> None:
    with pytest.raises(ToolError, match="there is no list to update; write one first") as caught:
        await call(shared, "update", [{"id": 1, "status": "blocked"}], name="other")
    assert caught.value.code == "no_list"


async def test_stale_version_changes_nothing(shared: Session) -> None:
    version = (await call(shared, "write", PLAN)).version
    await call(shared, "update", [{"id": 2, "status": "blocked"}])
    for operation, items in (("update", [{"id": 3, "status": "completed"}]), ("write", [DONE])):
        with pytest.raises(ToolError) as caught:
            await call(shared, operation, items, expected_version=version)
        assert caught.value.code == "version_mismatch"
        assert "read the latest list and retry" in caught.value.message
        assert caught.value.details == {"version": version + 1, "expected_version": version}
    found = await call(shared, "read")
    assert (found.version, [i.status for i in found.todo_list]) == (
        version + 1,
        ["completed", "blocked", "not-started"],
    )
    # Without a version, the last write counts.
    assert (await call(shared, "write", [DONE])).version == version + 2


async def test_lists_of_other_names_are_independent(tmp_path: Path) -> None:
    child = (
        ptc_tools.todo()
        .with_defaults("manage_todo_list", name="child-1")
        .renamed({"manage_todo_list": "plan"})
    )
    async with session(tmp_path, tools=[child]) as opened:
        await call(opened, "write", PLAN)
        own = await opened.tool("plan", {"operation": "write", "todo_list": [DONE]})
        other = await opened.tool("plan", {"operation": "read", "name": "main"})
        assert (await call(opened, "read")).count == 3
    assert (own.value.name, own.value.version, own.value.count) == ("child-1", 1, 1)
    assert other.error is not None


async def test_each_operation_is_an_event_with_the_list(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    async with session(tmp_path, on_event=events.append) as opened:
        await call(opened, "write", PLAN)
        await call(opened, "read")
        with pytest.raises(ToolError):
            await call(opened, "write")
    logs = [event.value for event in events if event.kind == "log"]
    assert [log["message"] for log in logs] == ["plan", "plan"]
    data = logs[0]["data"]
    assert (data["source"], data["operation"], data["version"], data["count"]) == (
        "manage_todo_list",
        "write",
        1,
        3,
    )
    assert data["adherence"] == 0.33
    assert data["todo_list"][1]["owner"] == "ann"
    assert logs[1]["data"]["operation"] == "read"


async def test_script_plans_only_if_it_is_allowed_to(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    plan = await ctx.manage_todo_list("write", inputs["plan"])
    plan = await ctx.manage_todo_list(
        "update", [{"id": 2, "status": "completed"}], expected_version=plan.version
    )
    return [plan.version, plan.adherence, plan.todo_list[1].status]
"""
    async with session(tmp_path) as opened:
        inputs = {"plan": PLAN}
        done = await opened.program(
            source=source, inputs=inputs, allowed_tools=["manage_todo_list"]
        )
        refused = await opened.program(source=source, inputs=inputs)
    assert done.value == [2, 0.67, "completed"]
    assert refused.error is not None


async def test_compat_takes_camel_case(tmp_path: Path) -> None:
    plan = [{"id": 1, "title": "a", "status": "blocked", "exitCriteria": "b"}]
    async with session(tmp_path, toolsets=["compat"]) as opened:
        found = await opened.tool(
            "manage_todo_list", {"operation": "write", "todoList": plan, "expectedVersion": 0}
        )
        stale = await opened.tool(
            "manage_todo_list", {"operation": "write", "todoList": plan, "expectedVersion": 0}
        )
    assert found.value.todo_list[0].exit_criteria == "b"
    assert stale.error is not None
    assert stale.error.code == "version_mismatch"
    async with session(tmp_path) as opened:
        refused = await opened.tool("manage_todo_list", {"operation": "write", "todoList": plan})
    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"


def test_builtin_has_no_todo_list() -> None:
    assert "manage_todo_list" not in [item.name for item in ptc_tools.builtin()]
    assert manage_todo_list.side_effect
    assert manage_todo_list.repeatable


HOST = """
import os, signal, sys
from ptc import BlockingSession
from ptc.journal._documents import SqliteDocuments

change = SqliteDocuments.change

def change_and_die(self, *args, **options):
    change(self, *args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

SqliteDocuments.change = change_and_die
with BlockingSession(sys.argv[1], toolsets=["todo"], journal=sys.argv[2], workers=1) as session:
    session.program(source=sys.argv[3], allowed_tools=["manage_todo_list"], run_id="killed")
"""


async def test_call_repeated_under_its_key_returns_its_own_version(shared: Session) -> None:
    arguments = {"operation": "write", "todo_list": PLAN, "name": "keyed", "expected_version": 0}
    own = await shared.tool("manage_todo_list", arguments, idempotency_key="k")
    await call(shared, "write", [DONE], name="keyed")
    again = await shared.tool("manage_todo_list", arguments, idempotency_key="k")
    assert own.value == again.value
    assert (own.value.version, own.value.count) == (1, 3)
    assert (await call(shared, "read", name="keyed")).version == 2


@pytest.mark.slow
async def test_call_repeated_after_a_kill_changes_the_list_once(tmp_path: Path) -> None:
    root, journal = tmp_path / "root", tmp_path / "journal.sqlite3"
    root.mkdir()
    source = (
        "item = {'id': 1, 'step': 'a', 'status': 'blocked'}\\n"
        "plan = await ctx.manage_todo_list('write', [item], expected_version=0)\\n"
        "[plan.version, plan.todo_list[0].step]"
    ).replace("\\n", "\n")
    with anyio.fail_after(60):
        host = await anyio.run_process(
            [sys.executable, "-c", HOST, str(root), str(journal), source], check=False
        )
    assert host.returncode == -9
    async with session(root, journal=journal) as opened:
        assert (await call(opened, "read")).version == 1
        # Another agent goes on, before the run is resumed.
        await call(opened, "write", [{"id": 1, "step": "b", "status": "completed"}])
        result = await opened.resume("killed")
        found = await call(opened, "read")
        (recorded,) = (await opened.history.recorded("killed")).calls
    assert result.value == [1, "a"]
    assert (found.version, found.todo_list[0].step) == (2, "b")
    assert recorded.tool == "manage_todo_list"


async def test_command_shows_the_lists(tmp_path: Path) -> None:
    from ptc_tools._todo_command import command

    options = ["--root", str(tmp_path), "--journal", str(tmp_path / "journal.sqlite3")]
    async with session(tmp_path, journal=options[-1], journal_in_root=True) as opened:
        await call(opened, "write", PLAN)
        await call(opened, "write", [DONE], name="child")

    async def run(*arguments: str) -> Result:
        # In a thread: the command starts an event loop.
        shown = [*arguments, *options]
        return await anyio.to_thread.run_sync(CliRunner().invoke, command, shown)

    lines = (await run()).output.splitlines()
    assert lines[0].startswith("Todo list 'child', version 1: 1 of 1 completed, changed 20")
    assert lines[1] == "1. [x] a"
    assert lines[2].startswith("Todo list 'main', version 1: 1 of 3 completed")
    [row] = json.loads((await run("main", "--json")).output)
    assert (row["version"], row["todo_list"][2]["step"]) == (1, "Fix it")
    unknown = await run("mian")
    assert "did you mean `main`?" in str(unknown.exception)
