"""Results of other standards: a failure in any of their formats is a failure of the call."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from typing_extensions import TypedDict

from ptc import AttachmentRef, Session, Tool, tool
from ptc._tools._result_formats import result_of

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

TEXT = [{"type": "text", "text": "no disk"}]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"status": "error", "error": "no disk"}, "no disk"),
        ({"status": "error", "error": "no disk", "stack": "at line 1"}, "no disk"),
        ({"status": "error", "result": "no disk"}, "no disk"),
        ({"status": "error", "error": {"code": 5}}, '{"code":5}'),
        ({"status": "error"}, "the tool failed without an error message"),
        ({"status": "error", "content": [{"text": "no disk"}], "toolUseId": "1"}, "no disk"),
        ({"isError": True}, "the tool failed without an error message"),
        ({"isError": True, "content": TEXT}, "no disk"),
        ({"is_error": True, "content": "no disk", "type": "tool_result"}, "no disk"),
        ({"isError": True, "content": [{"type": "audio"}], "more": 1}, "the tool failed without"),
        ({"isError": True, "error": "no disk"}, "no disk"),
        (SimpleNamespace(isError=True, content=None), "the tool failed without"),
        (SimpleNamespace(is_error=True, content=(SimpleNamespace(text="no disk"),)), "no disk"),
        (SimpleNamespace(status="error", content="no disk"), "no disk"),
    ],
)
def test_failure_in_the_format_of_another_standard_is_a_failure(value: Any, message: str) -> None:
    found = result_of(value)
    assert found is not None
    assert found.error is not None
    assert found.error.message.startswith(message)


@pytest.mark.parametrize(
    "value",
    [
        {"status": "error", "error": "no disk", "host": "a"},
        {"status": "errors", "error": "no disk"},
        {"status": "success"},
        {"status": "done", "result": 1},
        {"isError": "true"},
        {"isError": False, "rows": 3},
        {"error": "no disk"},
        SimpleNamespace(status="error"),
        SimpleNamespace(isError=False, content=None),
    ],
)
def test_data_resembling_a_failure_remains_data(value: Any) -> None:
    assert result_of(value) is None


class Job(TypedDict):
    status: Literal["done", "error"]
    error: str | None


@dataclass
class Message:
    status: str
    content: str


async def test_declared_fields_of_a_result_are_data(tmp_path: Path) -> None:
    @tool
    async def job() -> Job | None:
        """Report on a job."""
        return {"status": "error", "error": "no disk"}

    @tool
    async def message() -> Message:
        """Return a message."""
        return Message("error", "no disk")

    async with Session(tmp_path, tools=[job, message], toolsets=()) as session:
        assert (await session.tool("job")).value == {"status": "error", "error": "no disk"}
        assert (await session.tool("message")).value == Message("error", "no disk")


def make_tool(value: Any) -> Tool:
    @tool
    async def standard() -> Any:
        """Return a result in the format of a standard."""
        return value

    return standard


async def test_results_of_the_agents_specification_are_recognized(tmp_path: Path) -> None:
    png = base64.b64encode(b"\x89PNG").decode()
    drawn = {
        "status": "success",
        "result": "drawn",
        "attachments": [{"name": "a.png", "mimeType": "image/png", "data": png, "width": 4}],
    }
    async with Session(tmp_path, tools=[make_tool(drawn)], toolsets=()) as session:
        result = await session.tool("standard")
    assert result.value == "drawn"
    (ref,) = result.attachments
    assert isinstance(ref, AttachmentRef)
    assert (ref.size_bytes, ref.width) == (4, 4)
    passed_on = {
        "id": ref.id,
        "type": "file",
        "path": ref.path,
        "name": "b.png",
        "mimeType": "image/png",
        "size": 4,
    }
    value = {"status": "success", "result": "again", "attachments": [passed_on]}
    async with Session(tmp_path, tools=[make_tool(value)], toolsets=()) as session:
        (again,) = (await session.tool("standard")).attachments
    assert isinstance(again, AttachmentRef)
    assert (again.id, again.name) == (ref.id, "b.png")
    failed = make_tool({"status": "error", "error": "no disk", "stack": "at line 1"})
    async with Session(tmp_path, tools=[failed], toolsets=()) as session:
        result = await session.tool("standard")
    assert (result.text, result.metadata) == ("Error [failed]: no disk", {"stack": "at line 1"})


@pytest.mark.parametrize("attachment", [3, {}, {"name": "a", "mimeType": "a/b", "path": "/x"}])
async def test_invalid_attachment_of_the_specification_is_refused(
    tmp_path: Path, attachment: Any
) -> None:
    value = {"status": "success", "result": "x", "attachments": [attachment]}
    async with Session(tmp_path, tools=[make_tool(value)], toolsets=()) as session:
        result = await session.tool("standard")
    assert result.error is not None
    assert result.error.code == "bad_attachment"


async def test_script_cannot_take_a_returned_failure_for_data(tmp_path: Path) -> None:
    failing = make_tool({"status": "error", "error": "no disk"})
    source = (
        "def run(ctx, inputs):\n"
        "    try:\n        return ['data', ctx.standard()]\n"
        "    except Exception as e:\n        return ['error', str(e)]"
    )
    async with Session(tmp_path, tools=[failing], toolsets=()) as session:
        run = await session.program(source=source)
    assert run.unwrap()[0] == "error"
    assert "no disk" in run.unwrap()[1]
    assert [call.status for call in run.calls] == ["failed"]
