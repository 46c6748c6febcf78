"""Results beside plain values: content, attachments, exit codes, the form of MCP."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ptc import (
    Attachment,
    AttachmentRef,
    ImageContent,
    Retry,
    Session,
    TextContent,
    Tool,
    ToolContext,
    ToolError,
    ToolResult,
    define_tool,
)

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


def tool_returning(value: Any, **options: Any) -> Tool:
    async def give(arguments: dict[str, Any]) -> Any:
        return value() if callable(value) else value

    return define_tool("give", "Give.", {"type": "object"}, give, **options)


async def call(root: Path, value: Any, **options: Any) -> ToolResult:
    async with Session(root, tools=[tool_returning(value, **options)], toolsets=()) as session:
        return await session.tool("give")


async def test_tool_result_has_data_for_a_script_and_text_for_a_model(tmp_path: Path) -> None:
    said = ToolResult.success({"rows": 3}, text="3 rows", metadata={"took": 1}, exit_code=0)
    result = await call(tmp_path, said)
    assert (result.tool, result.status, result.value) == ("give", "success", {"rows": 3})
    assert (result.text, result.metadata, result.exit_code) == ("3 rows", {"took": 1}, 0)
    async with Session(tmp_path, tools=[tool_returning(said)], toolsets=()) as session:
        run = await session.program(source="def run(ctx, inputs):\n    return ctx.give()\n")
        assert run.unwrap() == {"rows": 3}
        assert run.calls[0].exit_code == 0


async def test_returned_failure_behaves_like_a_raised_error(
    tmp_path: Path,
) -> None:
    said = ToolResult.failure("no such table", code="not_found", exit_code=3)
    result = await call(tmp_path, lambda: said)
    assert result.error is not None
    assert (result.error.code, result.error.tool, result.exit_code) == ("not_found", "give", 3)
    assert result.text == "Error [not_found]: no such table"
    with pytest.raises(ToolError, match="no such table"):
        result.unwrap()


async def test_returned_failure_is_retried(tmp_path: Path) -> None:
    made: list[int] = []

    def value() -> Any:
        made.append(1)
        return (
            ToolResult.success(len(made))
            if len(made) > 2
            else ToolResult.failure("busy", retryable=True)
        )

    result = await call(tmp_path, value, retry=Retry(max_retries=5, backoff_ms=0))
    assert result.unwrap() == 3


async def test_attachments_are_stored_byte_for_byte_and_named_in_record_and_text(
    tmp_path: Path,
) -> None:
    chart = Attachment("chart.png", "image/png", PNG, width=4, height=2)

    async def draw(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        early = ctx.attach(Attachment("log.txt", "text/plain", b"begun"))
        assert Path(early.path).read_bytes() == b"begun"
        return ToolResult.success("drawn", attachments=[chart, early])

    made = define_tool("draw", "Draw.", {"type": "object"}, draw)
    async with Session(tmp_path, tools=[made], toolsets=()) as session:
        run = await session.program(source="def run(ctx, inputs):\n    return ctx.draw()\n")
        result = await session.tool("draw")
    log, kept, _ = run.attachments
    assert (kept.name, kept.size_bytes, kept.width) == ("chart.png", len(PNG), 4)
    assert kept.id == hashlib.sha256(PNG).hexdigest()
    assert Path(kept.path).read_bytes() == PNG
    assert Path(kept.path).suffix == ".png"
    assert Path(log.path).suffix == ".txt"
    assert f"Attachment 'chart.png': {kept.path}" in result.text
    folder = tmp_path.resolve() / ".ptc/artifacts"
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != ".gitignore"]
    assert len(files) == 2, "the same bytes are kept once"


@pytest.mark.parametrize(
    "name",
    ["a./../../etc/passwd", "..", "/etc/passwd", "a/b.png", "CON", "x" * 255, ".hidden", "a.b/c"],
)
async def test_hostile_attachment_name_never_leaves_the_folder(tmp_path: Path, name: str) -> None:
    result = await call(
        tmp_path, ToolResult.success(attachments=[Attachment(name, "application/x-own", b"1")])
    )
    (ref,) = result.attachments
    assert isinstance(ref, AttachmentRef)
    assert ref.name == name
    assert Path(ref.path).parent == tmp_path.resolve() / ".ptc/artifacts" / ref.id[:2]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Attachment("", "image/png", b""), "printable characters"),
        (lambda: Attachment("a\0b", "image/png", b""), "printable characters"),
        (lambda: Attachment("x" * 256, "image/png", b""), "printable characters"),
        (lambda: Attachment("a", "png", b""), "like 'image/png'"),
        (lambda: Attachment("a", "image/png", "no base64!"), "not base64"),
        (lambda: ImageContent("no base64!", "image/png"), "not base64"),
        (lambda: ToolResult.success(content=[{"type": "audio"}]), "not 'audio'"),
    ],
)
async def test_unusable_attachment_or_content_part_is_an_error_of_the_call(
    tmp_path: Path, make: Any, why: str
) -> None:
    result = await call(tmp_path, make)
    assert result.error is not None
    assert result.error.code in ("bad_attachment", "bad_content")
    assert why in result.error.message


async def test_attachment_reference_is_forwarded_without_a_second_copy(tmp_path: Path) -> None:
    first = await call(tmp_path, ToolResult.success(attachments=[Attachment("a", "a/b", b"1")]))
    (ref,) = first.attachments
    second = await call(tmp_path, ToolResult.success(attachments=[ref]))
    assert second.attachments == (ref,)


async def test_path_of_a_reference_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s")
    first = await call(tmp_path, ToolResult.success(attachments=[Attachment("a", "a/b", b"1")]))
    (ref,) = first.attachments
    assert isinstance(ref, AttachmentRef)
    foreign = replace(ref, path=str(tmp_path / "secret"))
    result = await call(tmp_path, ToolResult.success(attachments=[foreign]))
    assert result.attachments == (ref,)


async def test_reference_to_anything_but_an_attachment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s")
    first = await call(tmp_path, ToolResult.success(attachments=[Attachment("a", "a/b", b"1")]))
    (ref,) = first.attachments
    assert isinstance(ref, AttachmentRef)
    folder = Path(ref.path).parent
    digest = hashlib.sha256(b"s").hexdigest()
    (folder / f"{digest}.bin").symlink_to(tmp_path / "secret")
    (folder / f"{'0' * 64}.bin").write_bytes(b"other")
    for bad in (
        replace(ref, id=f"../{ref.id[:2]}/{ref.id}"),
        replace(ref, id=""),
        replace(ref, id=ref.id[:16]),
        replace(ref, id=digest, path=str(folder / f"{digest}.bin")),
        replace(ref, id="0" * 64, path=str(folder / f"{'0' * 64}.bin")),
        replace(ref, id="1" * 64, path=str(folder / f"{'1' * 64}.bin")),
    ):
        result = await call(tmp_path, ToolResult.success(attachments=[bad]))
        assert result.error is not None
        assert result.error.code == "bad_attachment"


@pytest.mark.parametrize("as_object", [False, True])
async def test_results_in_mcp_form_are_recognized(tmp_path: Path, as_object: bool) -> None:
    image = base64.b64encode(PNG).decode()
    row: dict[str, Any] = {
        "content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": image, "mimeType": "image/png"},
            {"type": "text", "text": "two"},
        ],
        "isError": False,
    }

    def shaped(**more: Any) -> Any:
        return SimpleNamespace(**{**row, **more}) if as_object else {**row, **more}

    result = await call(tmp_path, shaped())
    assert (result.value, result.text) == ("one\ntwo", "one\ntwo")
    assert result.content[1] == ImageContent(image, "image/png")
    with_data = await call(tmp_path, shaped(structuredContent={"n": 0}))
    assert with_data.value == {"n": 0}
    failed = await call(tmp_path, shaped(isError=True))
    assert failed.error is not None
    assert failed.error.message == "one\ntwo"


@pytest.mark.parametrize(
    "value", [{"content": [1]}, {"content": [], "more": 1}, {"content": "text"}, 0, "", False, []]
)
async def test_data_resembling_an_mcp_result_remains_data(tmp_path: Path, value: Any) -> None:
    result = await call(tmp_path, [value])
    assert result.value == [value]
    assert (await call(tmp_path, lambda: value)).value == value


def test_text_content_is_part_of_the_result_text() -> None:
    assert ToolResult.success(1, content=[TextContent("a")], text="b").text == "a\nb"
