"""Arguments, results, attachments, environment, as a written standard asks for them (SA rows)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from pydantic import BaseModel

from ptc import (
    Attachment,
    AttachmentRef,
    ImageContent,
    Session,
    TextContent,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    define_tool,
    tool,
)
from ptc.journal._location import journal_of

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ANY = {"type": "object"}


@pytest.mark.parametrize(
    ("sent", "code"), [({}, None), (None, None), ({"more": 1}, "invalid_arguments")]
)
async def test_tool_without_parameters_rejects_arguments(
    tmp_path: Path, sent: Any, code: str | None
) -> None:
    @tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    assert ping.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    async with Session(tmp_path, tools=[ping], toolsets=()) as session:
        result = await session.tool("ping", sent)
    assert (result.error.code if result.error else None) == code


async def test_returned_and_raised_errors_have_the_same_text(tmp_path: Path) -> None:
    @tool
    async def fail(how: str) -> Any:
        """Fail."""
        if how == "raised":
            raise ToolError("no such table; see list_tables", code="not_found")
        return ToolResult.failure("no such table; see list_tables", code="not_found")

    async with Session(tmp_path, tools=[fail], toolsets=()) as session:
        results = [await session.tool("fail", {"how": how}) for how in ("raised", "returned")]
    assert {r.text for r in results} == {"Error [not_found]: no such table; see list_tables"}
    assert {r.status for r in results} == {"error"}


async def test_host_traceback_never_reaches_script_or_model(tmp_path: Path) -> None:
    @tool
    async def broken() -> None:
        """Break."""
        raise ValueError("the words of the error")

    async with Session(tmp_path, tools=[broken], toolsets=()) as session:
        direct = await session.tool("broken")
        run = await session.program(
            source="def run(ctx, inputs):\n    try:\n        ctx.broken()\n"
            "    except ToolError as e:\n        return [str(e), repr(e), str(e.details)]\n"
        )
    for text in (direct.text, *run.unwrap()[:1]):
        assert "broken failed: ValueError: the words of the error" in text
    for text in (direct.text, *run.unwrap(), run.to_json().decode()):
        assert __file__ not in text
        assert "Traceback" not in text


def stored_files(one: Path) -> list[Path]:
    """Return the values in the folder of artifacts that has the file `one`."""
    return [path for path in one.parent.parent.glob("*/*") if path.is_file()]


def test_content_parts_are_parsed_by_their_type() -> None:
    image = base64.b64encode(b"1").decode()
    result = ToolResult.success(
        content=[
            {"type": "text", "text": "a"},
            {"type": "image", "data": image, "mimeType": "image/png"},
            TextContent("b"),
            ImageContent(image, "image/gif"),
        ]
    )
    assert result.content == (
        TextContent("a"),
        ImageContent(image, "image/png"),
        TextContent("b"),
        ImageContent(image, "image/gif"),
    )
    for part in ({"type": "video"}, {"type": "text"}, {"type": "image", "data": 3}, {}, "text"):
        with pytest.raises(ToolError, match="content must be text or an image"):
            ToolResult.success(content=[part])


class Keys(BaseModel):
    api_key: str


SECRET = "hunter2/+hunter2"


async def test_secret_is_in_no_file_written_by_a_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither as a value nor as an argument, an error, a log line, a cache key or a file's name."""

    async def leak(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        key = ctx.env.api_key
        ctx.log(key)
        if arguments.get("fail"):
            raise RuntimeError(f"{key} {quote(key, safe='')}")
        ctx.attach(Attachment(f"{key}.txt", "text/plain", b"1"))
        return [key, base64.b64encode(key.encode()).decode()]

    async def after(record: Any) -> None:
        raise RuntimeError("the hook is logged")

    made = define_tool(
        "leak",
        "L.",
        {"type": "object", "properties": {"word": {}, "fail": {"type": "boolean"}}},
        leak,
        env=Keys,
        cache=True,
    )
    source = (
        "def run(ctx, inputs):\n    try:\n        ctx.leak(word=inputs['word'], fail=True)\n"
        "    except ToolError as e:\n        print(e)\n"
        "    return ctx.leak(word=inputs['word'])\n"
    )
    async with Session(
        tmp_path, tools=[made], toolsets=(), env={"api_key": SECRET}, after_side_effect=after
    ) as session:
        run = await session.program(source=source, inputs={"word": "w"})
        assert run.ok
        assert (await session.tool("leak", {"word": SECRET})).ok
    forms = [SECRET.encode(), quote(SECRET, safe="").encode(), base64.b64encode(SECRET.encode())]
    place = journal_of(tmp_path)
    recorded = [path for path in place.parent.iterdir() if path.name.startswith(place.name)]
    files = [*recorded, *(path for path in tmp_path.rglob("*") if path.is_file())]
    assert place in files
    for path in files:
        data = path.read_bytes() + str(path).encode()
        assert not any(form in data for form in forms), path
    assert SECRET not in caplog.text
    assert SECRET not in run.to_json().decode()


async def test_attachments_keep_the_order_of_the_result(tmp_path: Path) -> None:
    kept: list[AttachmentRef] = []

    async def first(arguments: dict[str, Any], ctx: ToolContext) -> None:
        kept.append(ctx.attach(Attachment("one.txt", "text/plain", b"1")))

    async def second(arguments: dict[str, Any]) -> ToolResult:
        new = Attachment("two.txt", "text/plain", b"2")
        return ToolResult.success(attachments=[new, kept[0]])

    tools = [define_tool("first", "F.", ANY, first), define_tool("second", "S.", ANY, second)]
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        await session.first()  # type: ignore[attr-defined]  # a tool as a method
        result = await session.tool("second")
    assert [ref.name for ref in result.attachments] == ["two.txt", "one.txt"]
    assert result.attachments[1] == kept[0]
    files = stored_files(Path(kept[0].path))
    assert len(files) == 2


async def test_attachments_of_nested_calls_belong_to_the_run(tmp_path: Path) -> None:
    async def draw(arguments: dict[str, Any], ctx: ToolContext) -> str:
        return ctx.attach(Attachment("a.txt", "text/plain", b"1")).id

    async def ask(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return await ctx.call_tool("draw")

    tools = [define_tool("draw", "D.", ANY, draw), define_tool("ask", "A.", ANY, ask)]
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        run = await session.program(source="def run(ctx, inputs):\n    return ctx.ask()\n")
    assert [ref.id for ref in run.attachments] == [run.unwrap()]


async def test_cancelled_tool_starts_no_further_nested_calls(tmp_path: Path) -> None:
    """Before a call, during it, and between two: no later call begins."""
    begun: list[int] = []
    reached = anyio.Event()

    async def work(arguments: dict[str, Any]) -> None:
        begun.append(arguments["n"])
        if arguments["n"] == 2:
            reached.set()
            await anyio.sleep_forever()

    async def ask(arguments: dict[str, Any], ctx: ToolContext) -> None:
        for number in range(5):
            await ctx.call_tool("work", n=number)

    tools = [define_tool("work", "W.", ANY, work), define_tool("ask", "A.", ANY, ask)]
    async with Session(tmp_path, tools=tools, toolsets=()) as session:
        async with anyio.create_task_group() as group:
            group.start_soon(session.tool, "ask")
            await reached.wait()
            group.cancel_scope.cancel()
        assert begun == [0, 1, 2]
        with anyio.CancelScope() as scope:
            scope.cancel()
            await session.tool("ask")
        assert begun == [0, 1, 2]


async def test_tool_with_unusual_name_is_callable_by_that_name(tmp_path: Path) -> None:
    async def say(arguments: Mapping[str, Any], ctx: ToolContext) -> str:
        return ctx.tool_name

    odd = ["sendEmail", "a-b", "1a", "x" * 65, "wholefoods.place.order"]
    fine = ["a_", "a__b", "x" * 64, "wholefoods.place_order"]
    tools = [define_tool(name, "D.", ANY, say) for name in fine]
    for name in odd:
        with pytest.warns(UserWarning, match=r"cannot be a method|not snake_case"):
            tools.append(define_tool(name, "D.", ANY, say))
    names = fine + odd
    source = "def run(ctx, inputs):\n    return [ctx.call(name, {}) for name in inputs['names']]\n"
    async with Session(tmp_path, tools=tools, toolsets=(), journal=None) as session:
        direct = [(await session.tool(name)).value for name in names]
        result = await session.program(source=source, inputs={"names": names})
    assert direct == result.unwrap() == names


@dataclass
class Row:
    path: str
    size: int = 0


class Found(BaseModel):
    rows: list[str]


GIVEN: list[tuple[Any, Any, str]] = [
    ("as it is", "as it is", "as it is"),
    (None, None, "null"),
    (0, 0, "0"),
    (False, False, "false"),
    ("", "", ""),
    ([1, {"a": None}], [1, {"a": None}], '[1,{"a":null}]'),
    (Row("a", 3), {"path": "a", "size": 3}, '{"path":"a","size":3}'),
    (Found(rows=["a"]), {"rows": ["a"]}, '{"rows":["a"]}'),
    (ToolResult.success(0), 0, "0"),
    (ToolResult.success(text="only words"), None, "only words"),
    (ToolResult.success([1], content=[TextContent("a"), TextContent("b")]), [1], "a\nb"),
    ({"content": [{"type": "text", "text": "a"}], "structuredContent": 0}, 0, "a"),
]
"""Return value of a function, value in the script, text for the model."""


async def test_a_result_of_any_kind_is_data_for_a_script_and_text_for_a_model(
    tmp_path: Path,
) -> None:
    def giving(number: int) -> Tool:
        return define_tool(f"give_{number}", "Give.", ANY, lambda arguments: GIVEN[number][0])

    names = [f"give_{number}" for number in range(len(GIVEN))]
    source = "def run(ctx, inputs):\n    return [ctx.call(name, {}) for name in inputs['names']]\n"
    tools = [giving(number) for number in range(len(GIVEN))]
    async with Session(tmp_path, tools=tools, toolsets=(), journal=None) as session:
        direct = [await session.tool(name) for name in names]
        result = await session.program(source=source, inputs={"names": names})
    assert {r.status for r in direct} == {"success"}
    assert [r.text for r in direct] == [text for _, _, text in GIVEN]
    assert result.unwrap() == [data for _, data, _ in GIVEN]


async def test_attachment_that_cannot_be_stored_is_an_error(
    tmp_path: Path,
) -> None:
    (tmp_path / ".ptc").mkdir()
    (tmp_path / ".ptc" / "artifacts").write_text("in the way")
    said = ToolResult.success("done", attachments=[Attachment("a.txt", "text/plain", b"1")])
    made = define_tool("give", "G.", ANY, lambda arguments: said)
    async with Session(tmp_path, tools=[made], toolsets=(), journal=None) as session:
        result = await session.tool("give")
    assert result.error is not None
    assert result.error.code == "attachment_failed"
    assert not result.attachments


async def test_attachments_of_equal_name_are_stored_as_separate_files(tmp_path: Path) -> None:
    both = [Attachment("a.txt", "text/plain", data) for data in (b"1", b"2")]
    made = define_tool("give", "G.", ANY, lambda arguments: ToolResult.success(attachments=both))
    async with Session(tmp_path, tools=[made], toolsets=(), journal=None) as session:
        result = await session.tool("give")
    paths = [Path(ref.path) for ref in result.attachments]  # type: ignore[union-attr]  # kept: references
    assert [path.read_bytes() for path in paths] == [b"1", b"2"]
    assert {path.parent.parent for path in paths} == {tmp_path.resolve() / ".ptc/artifacts"}


async def test_tool_forwards_attachments_of_a_nested_call_in_order(
    tmp_path: Path,
) -> None:
    async def draw(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        ref = ctx.attach(Attachment("chart.png", "image/png", b"chart", description="Sales."))
        return asdict(ref)

    async def report(arguments: Mapping[str, Any], ctx: ToolContext) -> ToolResult:
        ref = AttachmentRef(**await ctx.call_tool("draw"))
        new = Attachment("report.txt", "text/plain", b"report")
        return ToolResult.success("done", attachments=[ref, new])

    tools = [define_tool("draw", "D.", ANY, draw), define_tool("report", "R.", ANY, report)]
    async with Session(tmp_path, tools=tools, toolsets=(), journal=None) as session:
        result = await session.program(source="def run(ctx, inputs):\n    return ctx.report()\n")
    rows = {call.tool: [ref.name for ref in call.attachments] for call in result.calls}
    assert rows == {"draw": ["chart.png"], "report": ["chart.png", "report.txt"]}
    chart, *_ = result.attachments
    assert (chart.description, chart.size_bytes) == ("Sales.", 5)
    folder = Path(chart.path)
    assert len(stored_files(folder)) == 2
