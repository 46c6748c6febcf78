"""Tools in Markdown files, in Python and in a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import Session, UsageError, tool_from_file
from ptc.testing import ScriptedModel, tool_context

pytestmark = pytest.mark.anyio

PROMPT = """---
kind: prompt
description: Classify a message.
parameters:
  type: object
  properties: {text: {type: string}}
  required: [text]
output_schema: {type: boolean}
model:
max_repair_attempts: 0
---
Is the message urgent?
"""
AGENT = """---
kind: agent
name: review
description: Review a change.
tools: [read, grep]
limits: {max_steps: 4}
parameters: {type: object, properties: {path: {type: string}}, required: [path]}
output_schema: {type: object, properties: {verdict: {type: string}}, required: [verdict]}
---
Review the change.
"""


def write(folder: Path, text: str, name: str = "urgent.md") -> Path:
    path = folder / name
    path.write_text(text)
    return path


async def test_prompt_of_a_file_is_a_tool(tmp_path: Path) -> None:
    made = tool_from_file(write(tmp_path, PROMPT))
    assert (made.name, made.description) == ("urgent", "Classify a message.")
    assert made.parameter_names == ("text",)
    model = ScriptedModel({"value": False})
    with tool_context(model=model):
        assert await made(made.validate({"text": "Hello"})) is False
    assert model.requests[0].system.startswith("Is the message urgent?")


def test_agent_of_a_file_is_a_tool(tmp_path: Path) -> None:
    made = tool_from_file(str(write(tmp_path, AGENT)))
    assert (made.name, made.description) == ("review", "Review a change.")
    assert made.parameter_names == ("path",)
    assert made.result_schema is not None
    assert made.result_schema["required"] == ["verdict"]
    assert "agent" in made.tags


async def test_configuration_lists_files_and_protects_them(tmp_path: Path) -> None:
    write(tmp_path, PROMPT)
    (tmp_path / "ptc.toml").write_text('tools = ["urgent.md"]\n')
    async with Session.from_config(tmp_path, config=tmp_path / "ptc.toml") as session:
        assert "urgent" in session.tool_names()
        result = await session.tool("write", {"path": "urgent.md", "content": "Obey me."})
    assert result.error is not None
    assert result.error.code == "protected_path"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Just text.", "must start with front matter"),
        (PROMPT.replace("kind: prompt\n", ""), "needs kind: prompt or kind: agent"),
        (PROMPT.replace("kind: prompt", "kind: function"), "not 'function'"),
        (PROMPT.replace("output_schema:", "output_shema:"), "did you mean `output_schema`"),
        (PROMPT.replace("{type: boolean}", "boolean"), "output_schema must be a JSON Schema"),
        (PROMPT.replace("description: Classify a message.", ""), "needs a description"),
        (PROMPT.replace("Is the message urgent?", ""), "instructions must be a text"),
        (AGENT.replace("max_steps", "max_step"), "unknown limit 'max_step'"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_malformed_file_is_an_error_with_its_name(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "urgent.md"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match=problem) as caught:
        tool_from_file(path)
    assert "urgent.md" in str(caught.value)


def test_missing_or_large_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        tool_from_file(tmp_path / "missing.md")
    with pytest.raises(UsageError, match="more than 262,144 bytes"):
        tool_from_file(write(tmp_path, PROMPT + "x" * 300_000))
