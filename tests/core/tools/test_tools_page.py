"""Every example of ``docs/tools.md`` runs as it is written."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc._tools._tool import ToolOptions

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[3] / "docs" / "tools.md"
TEXT = PAGE.read_text(encoding="utf-8")
STANDARD = "## More examples"


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


async def run(source: str) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    # On the lines they have in the page, for whoever reads a traceback.
    code = compile(
        "\n" * TEXT[: TEXT.index(source)].count("\n") + source,
        str(PAGE),
        "exec",
        flags=flags,
        dont_inherit=True,
    )
    names: dict[str, Any] = {"__name__": "page"}
    # The code of a page is our own.
    done = eval(code, names)  # noqa: S307  # as above
    if inspect.isawaitable(done):
        await done


@pytest.mark.parametrize("source", blocks(TEXT.partition(STANDARD)[0]))
async def test_example_of_the_tools_page_runs(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "assert " in source, "it shows nothing"
    monkeypatch.chdir(tmp_path)
    await run(source)


@pytest.mark.parametrize("number", range(5))
async def test_the_five_examples_of_the_standard_run(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = blocks(TEXT.partition(STANDARD)[2])
    assert len(sources) == 5
    monkeypatch.chdir(tmp_path)
    await run(sources[number])


def test_tools_page_shows_every_tool_option() -> None:
    shown = "".join(blocks(TEXT))
    missing = [name for name in ToolOptions.__annotations__ if f"{name}=" not in shown]
    assert missing == []
    assert [name for name in ("Retry", "Cache", "Allow", "Toolset") if not hasattr(ptc, name)] == []
