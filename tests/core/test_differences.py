"""The examples of ``docs/differences.md`` run, and names on the pages for migration exist."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import ptc
import ptc_tools

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "differences.md"
TEXT = PAGE.read_text(encoding="utf-8")
MIGRATION = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")


SECTIONS: list[tuple[str, str]] = re.findall(
    r"^### ([^\n]+)\n+```python\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE
)
"""Heading and code of each example."""


@pytest.mark.parametrize(("heading", "source"), SECTIONS, ids=[name for name, _ in SECTIONS])
async def test_example_of_the_differences_page_runs(
    heading: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "assert " in source, heading
    monkeypatch.chdir(tmp_path)
    code = compile(source, heading, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    done = eval(code, {"__name__": "page"})  # noqa: S307  # the code of a page is our own
    assert inspect.isawaitable(done)
    await done


def test_error_codes_of_the_migration_page_exist() -> None:
    table = MIGRATION.partition("## Error codes")[2]
    codes = {
        code
        for row in re.findall(r"^\|[^|]+\|([^|]+)\|$", table, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", row)
        if code != "ToolError"
    }
    assert len(codes) > 10
    files = [
        file for folder in ("ptc", "tools", "bindings") for file in (ROOT / folder).rglob("*.py")
    ]
    source = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [code for code in sorted(codes) if f'"{code}"' not in source] == []


def test_names_of_the_differences_page_exist() -> None:
    names = set(re.findall(r"`(\w+)\.(\w+)`", TEXT))
    known: dict[str, Any] = {
        name: getattr(ptc, name) for name in ("ToolResult", "CallRecord", "RunResult")
    }
    missing = [f"{k}.{m}" for k, m in names if k in known and not hasattr(known[k], m)]
    fields = {f"{k}.{name}" for k, value in known.items() for name in value.__dataclass_fields__}
    assert [name for name in missing if name not in fields] == []
    called = set(re.findall(r"(?<![.\w])(builtin|Limits|Retry|Session)\((\w+)=", TEXT))
    assert {"builtin", "Limits", "Session"} <= {name for name, _ in called}
    for name, parameter in called:
        home: Any = ptc_tools if name == "builtin" else ptc
        assert parameter in inspect.signature(getattr(home, name)).parameters
