"""`manage_todo_list`: the plan of an agent, with versions, in the journal of the session.

Rule 1: an update of a stale version changes nothing, if the caller says which version it read.
    tests/tools/test_todo.py::test_stale_version_changes_nothing
Rule 2: a call that is repeated after a crash changes the list once, and returns the same version.
    tests/tools/test_todo.py::test_call_repeated_after_a_kill_changes_the_list_once
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias

from typing_extensions import TypedDict

from ptc import ToolContext, ToolError, Toolset, tool
from ptc._core._pydantic import pydantic
from ptc._schema._bounds import Bounds

if TYPE_CHECKING:
    from ptc.journal._documents import Document

__all__ = [
    "DOCUMENTS",
    "TodoItem",
    "TodoList",
    "TodoPatch",
    "manage_todo_list",
    "read_list",
    "render_list",
    "todo",
]

DOCUMENTS = "todo/"
"""Prefix of the names of the lists among the documents of the journal."""
_MAX_ITEMS = 200
_MAX_CHARS = 2_000
_EVIDENCE_CHARS = 300

Status: TypeAlias = Literal["not-started", "in-progress", "completed", "blocked"]
_Text: TypeAlias = Annotated[str, Bounds(min_length=1, max_length=_MAX_CHARS)]


@pydantic.with_config(pydantic.ConfigDict(extra="forbid"))
class TodoPatch(TypedDict, total=False):
    """An item to write, or the fields of an item to update."""

    id: Required[Annotated[int, Bounds(ge=1)]]
    """Number of the item; write: 1, 2, 3 ... in order."""
    step: _Text
    """Short title. Write requires it, or a title or description instead."""
    status: Status
    """Required by write."""
    title: _Text
    """Default: the step."""
    description: _Text
    """Default: the step."""
    owner: _Text
    """Default: agent."""
    exit_criteria: _Text
    """Default: the description."""
    evidence: Annotated[str, Bounds(max_length=_EVIDENCE_CHARS)]
    """Proof that it is completed, or the reason that it is blocked."""


@dataclass(frozen=True, slots=True)
class TodoItem:
    """An item of a list."""

    id: int
    step: str
    title: str
    description: str
    owner: str
    exit_criteria: str
    status: Status
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class TodoList:
    """A list after the operation."""

    operation: str
    name: str
    version: int
    """Counts the changes; 0: the list was never written. Pass it as expected_version."""
    count: int
    adherence: float
    """Completed items / all items, rounded to 2 digits; 1 for an empty list."""
    todo_list: list[TodoItem]


_BOXES = {"not-started": " ", "in-progress": ">", "completed": "x", "blocked": "!"}


def render_list(found: TodoList) -> str:
    """Format a list as text."""
    done = sum(item.status == "completed" for item in found.todo_list)
    rows = [f"Todo list {found.name!r}, version {found.version}: {done} of {found.count} completed"]
    for item in found.todo_list:
        evidence = f" ({item.evidence})" if item.evidence else ""
        rows.append(f"{item.id}. [{_BOXES[item.status]}] {item.step}{evidence}")
    return "\n".join(rows)


@tool(side_effect=True, idempotent=False, uses_key=True, render=render_list, tags=["planning"])
def manage_todo_list(
    ctx: ToolContext,
    operation: Literal["write", "update", "read"],
    todo_list: Annotated[list[TodoPatch], Bounds(max_length=_MAX_ITEMS)] | None = None,
    expected_version: Annotated[int, Bounds(ge=0)] | None = None,
    name: Annotated[str, Bounds(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$")] = "main",
) -> TodoList:
    """Write, update or read the todo list. Returns {version, count, adherence, todo_list}.

    `write` replaces the list, `update` changes the given fields of items by id, `read` changes
    nothing. At most one item is in-progress. An error changes nothing and names the reason.

    Args:
        ctx: The call.
        operation: write, update or read.
        todo_list: Items for write and update: [{"id": 1, "step": "Run the tests", "status":
            "in-progress"}].
        expected_version: Version that you read; if the list has changed since, the operation fails.
        name: Name of the list.
    """
    document: Document | None
    if operation == "read":
        document = ctx.documents.read(DOCUMENTS + name)
    else:
        items = _require_items(operation, todo_list)

        def change(current: Document | None) -> list[dict[str, Any]]:
            _check_version(current, expected_version)
            if operation == "write":
                _check_sequence(items)
                made = [_created(item) for item in items]
            else:
                made = _updated(current, items)
            _check_in_progress(made)
            return [asdict(item) for item in made]

        document = ctx.documents.change(DOCUMENTS + name, change)
    found = TodoList(operation, name, 0, 0, 1.0, [])
    if document is not None:
        found = read_list(operation, document)
    ctx.log("plan", source=ctx.tool_name, **asdict(found))
    return found


def read_list(operation: str, document: Document) -> TodoList:
    """Return the list that a document holds."""
    items = _items_of(document)
    done = sum(item.status == "completed" for item in items)
    adherence = round(done / len(items), 2) if items else 1.0
    name = document.name.removeprefix(DOCUMENTS)
    return TodoList(operation, name, document.version, len(items), adherence, items)


def _items_of(document: Document) -> list[TodoItem]:
    return [TodoItem(**row) for row in document.data]


def _require_items(operation: str, items: Sequence[TodoPatch] | None) -> Sequence[TodoPatch]:
    # An empty list is a plan with nothing to do; an update without items is a mistake.
    if items is None or (operation == "update" and not items):
        raise _refusal(f"todo_list is required for {operation}", code="todo_list_required")
    ids = [item["id"] for item in items]
    if len(set(ids)) < len(ids):
        again = next(number for number in ids if ids.count(number) > 1)
        raise _refusal(f"two items have the id {again}; ids must be unique", code="duplicate_id")
    return items


def _check_version(current: Document | None, expected: int | None) -> None:
    version = 0 if current is None else current.version
    if expected is not None and expected != version:
        msg = f"the list has version {version}, not {expected}: read the latest list and retry"
        details: dict[str, object] = {"version": version, "expected_version": expected}
        raise ToolError(f"{msg}; nothing was changed", code="version_mismatch", details=details)


def _created(item: TodoPatch) -> TodoItem:
    text = item.get("step") or item.get("title") or item.get("description")
    if text is None or "status" not in item:
        lacks = "step" if text is None else "status"
        raise _refusal(
            f"item {item['id']} has no {lacks}, which write requires", code="missing_field"
        )
    description = item.get("description", text)
    return TodoItem(
        id=item["id"],
        step=text,
        title=item.get("title", text),
        description=description,
        owner=item.get("owner", "agent"),
        exit_criteria=item.get("exit_criteria", description),
        status=item["status"],
        evidence=item.get("evidence", ""),
    )


def _check_sequence(items: Sequence[TodoPatch]) -> None:
    for number, item in enumerate(items, 1):
        if item["id"] != number:
            msg = f"item {number} has the id {item['id']}; write numbers the items 1, 2, 3 ..."
            raise _refusal(msg, code="ids_not_sequential")


def _updated(current: Document | None, patches: Sequence[TodoPatch]) -> list[TodoItem]:
    if current is None:
        raise _refusal("there is no list to update; write one first", code="no_list")
    items = {item.id: item for item in _items_of(current)}
    for patch in patches:
        number = patch["id"]
        if number not in items:
            known = f"1 to {len(items)}" if items else "none"
            msg = f"there is no item {number} (ids: {known}); write replaces the list"
            raise _refusal(msg, code="unknown_id")
        items[number] = replace(items[number], **patch)
    return list(items.values())


def _check_in_progress(items: Sequence[TodoItem]) -> None:
    active = [str(item.id) for item in items if item.status == "in-progress"]
    if len(active) > 1:
        msg = f"items {', '.join(active)} would be in-progress; at most one may be"
        raise _refusal(msg, code="several_in_progress")


def _refusal(why: str, *, code: str) -> ToolError:
    return ToolError(f"{why}; nothing was changed", code=code)


def todo() -> Toolset:
    """Create the toolset ``todo``: `manage_todo_list`.

    It is not part of `builtin`: a list outlives its run, so writing it is a side effect, and only
    an agent that works in several turns has a use for one.
    """
    return Toolset("todo", (manage_todo_list,))
