"""Content of spans: absent by default, and redacted and bounded where it was opted in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import Session, ToolError, define_tool, tool

from .recorded import Recorded

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


class Keys(BaseModel):
    """Values of the tool."""

    key: str


SECRET = "hunter2-hunter2-hunter2"


def session(root: Path, recorded: Recorded, *tools: Any, **options: Any) -> Session:
    return Session(
        root, tools=tools, toolsets=(), workers=1, telemetry=recorded.telemetry, **options
    )


async def test_no_content_by_default(tmp_path: Path) -> None:
    @tool
    async def echo(text: str) -> str:
        """Return the text."""
        return text

    recorded = Recorded()
    source = """
def run(ctx, inputs):
    print("needle")
    ctx.echo(text="needle")
    raise ValueError("needle")
"""
    async with session(tmp_path, recorded, echo) as made:
        await made.program(source=source, inputs={"needle": "needle"})
    assert recorded.spans("execute_tool")
    assert "needle" not in recorded.text()


async def test_opted_in_content_is_redacted_and_bounded(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    async def fail(arguments: Any) -> None:
        raise ToolError(f"refused {arguments['text']}", code="refused")

    sent = define_tool("send", "Send.", schema, fail, env=Keys)
    recorded = Recorded(content=True)
    source = (
        f"def run(ctx, inputs):\n    print('{SECRET}')\n    ctx.send(text='{SECRET}')\n#"
        + "\U0001f600<script>" * 5_000
    )
    async with session(tmp_path, recorded, sent, env={"key": SECRET}) as made:
        result = await made.program(source=source, inputs={"a": [SECRET] * 3_000})
    text = recorded.text()
    assert result.status == "failed"
    assert "refused [secret" in text
    assert SECRET not in text
    assert len(text) < 300_000


async def test_tool_name_of_a_script_is_bounded(tmp_path: Path) -> None:
    recorded = Recorded()
    source = "def run(ctx): getattr(ctx, 'x' * 100_000)()"
    async with session(tmp_path, recorded) as made:
        await made.program(source=source)
    assert len(recorded.text()) < 20_000
