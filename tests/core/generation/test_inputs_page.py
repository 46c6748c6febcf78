"""The examples of docs/structured.md about inputs are executed as they are."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import Session
from ptc.models import ModelReply, ModelRequest
from ptc.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

PAGE = Path(__file__).parents[3] / "docs/structured.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## Inputs\n")[2].partition("\n## ")[0]
APPLICATION, SCRIPT = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


class Invoice(BaseModel):
    number: str
    total: float


class Letter(BaseModel):
    signed_by: str


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scan.pdf").write_bytes(b"%PDF-1.7\n")
    for name in ("stamp.png", "letter.png"):
        (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\n")
    return tmp_path


async def test_example_of_an_application_runs(root: Path) -> None:
    model = ScriptedModel({"number": "8", "total": 1.5}, {"signed_by": "Ann Lee"})
    scripted = {"openai:gpt-5": model}
    names: dict[str, Any] = {
        "Session": lambda model: Session(root, model=scripted[model]),
        "Invoice": Invoice,
        "Letter": Letter,
    }
    body = textwrap.indent(APPLICATION, "    ")
    code = f"async def example():\n{body}    return found.object, letter.object"
    exec(code, names)  # noqa: S102  # the page of this repository
    assert await names["example"]() == (Invoice(number="8", total=1.5), Letter(signed_by="Ann Lee"))
    first, second = model.requests
    assert [turn.role for turn in first.turns] == ["user", "model", "user"]
    assert [file.media_type for file in first.turns[2].files] == ["application/pdf", "image/png"]
    assert [turn.role for turn in second.turns] == ["user", "model", "user"]


async def test_example_of_a_script_runs(root: Path) -> None:
    def answer(request: ModelRequest) -> ModelReply:
        total = -1 if len(request.turns) == 1 else 2.5
        return ModelReply(arguments=(f'{{"number": "8", "total": {total}}}',))

    small = ScriptedModel.of(answer)
    async with Session(root, model=ScriptedModel(), models={"small": small}) as session:
        result = await session.program(
            source=SCRIPT,
            inputs={"schema": Invoice.model_json_schema()},
            allowed_tools=["attach_file", "generate_object"],
        )
    assert result.unwrap() == {"number": "8", "total": 2.5}
    assert [len(request.turns[0].files) for request in small.requests] == [1, 1]
    assert "must be above zero" in small.requests[1].turns[2].text
