"""The examples of docs/delegation.md."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

from ptc._agents._kinds import AgentKind, AgentKinds, read_kind
from ptc._agents._limits import TaskLimits
from ptc._agents._outcome import TaskResult

PAGE = (Path(__file__).parents[3] / "docs" / "delegation.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_examples_of_the_page_run(
    anyio_backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks("python"))
    code = compile(text, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    model = FunctionModel(lambda messages, info: ModelResponse([TextPart("An answer.")]))
    names: dict[str, Any] = {"model": model}
    await eval(code, names)  # noqa: S307  # our own page
    run, review = names["run"], names["review"]
    assert run.value == {"README.md": "An answer.", "CHANGELOG.md": "An answer."}, run.error
    assert review.answer == "An answer."


def test_kind_of_the_page_is_valid(tmp_path: Path) -> None:
    (text,) = blocks("markdown")
    path = tmp_path / "migrator.md"
    path.write_text(text)
    assert read_kind(path).limits.max_steps == 30


def test_tables_of_the_page_are_complete() -> None:
    first = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    for names in (
        [kind.name for kind in AgentKinds()],
        [item.name for item in fields(AgentKind) if item.name != "instructions"],
        [item.name for item in fields(TaskLimits)],
        [item.name for item in fields(TaskResult)],
    ):
        assert set(names) - {"agent", "description", "call"} <= set(first)
    for name, value in ((item.name, item.default) for item in fields(TaskLimits)):
        assert f"| `{name}` | {'none' if value is None else f'{value:,}'} |" in PAGE
