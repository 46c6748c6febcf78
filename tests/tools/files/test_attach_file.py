"""`attach_file`: what a script can send to a model, and what it cannot."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ptc import Allow, AttachmentRef, Session, ToolError, tool
from ptc.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

PNG = b"\x89PNG\r\n\x1a\n-pixels-"
PDF = b"%PDF-1.7\n-pages-"
SCHEMA: dict[str, Any] = {"type": "object", "required": ["total"]}


async def test_attached_file_has_the_media_type_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "scan.txt").write_bytes(PDF)
    async with Session(tmp_path) as session:
        result = await session.tool("attach_file", {"path": "scan.txt"})
    value = result.unwrap()
    assert (value.name, value.media_type, value.size_bytes) == ("scan.txt", "application/pdf", 16)
    assert value.id == hashlib.sha256(PDF).hexdigest()
    (stored,) = result.attachments
    assert isinstance(stored, AttachmentRef)
    assert Path(stored.path).read_bytes() == PDF


async def test_secret_files_cannot_be_attached(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("root/.ssh", "root/docs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside.png").write_bytes(PNG)
    for name in (".ssh/photo.png", "keys.png"):
        (root / name).write_bytes(PNG)
    (root / ".env").write_text("TOKEN=secret\n")
    (root / "blob.png").write_bytes(b"\x7fELF\0\0")
    (root / "link.png").symlink_to("../outside.png")
    (root / "docs/inner.png").symlink_to("../.ssh/photo.png")
    refused = {
        "../outside.png": "outside_root",
        str(tmp_path / "outside.png"): "outside_root",
        "link.png": "outside_root",
        ".ssh/photo.png": "protected_path",
        ".SSH/photo.png": "protected_path",
        "docs/inner.png": "protected_path",
        "docs/../.ssh/photo.png": "protected_path",
        "keys.png": "protected_path",
        "./keys.png": "protected_path",
        ".env": "not_media",
        "blob.png": "not_media",
        "docs": "not_a_file",
        "missing.png": "not_found",
        "/dev/zero": "outside_root",
    }
    async with Session(root, protected=["keys.png"]) as session:
        for path, code in refused.items():
            result = await session.tool("attach_file", {"path": path})
            assert isinstance(result.error, ToolError), path
            assert (path, result.error.code) == (path, code)
            assert result.attachments == ()
    assert not (root / ".ptc/artifacts").exists()


SCRIPT = """
async def run(ctx, inputs):
    parts = []
    for path in inputs["paths"]:
        try:
            parts.append(await ctx.attach_file(path=path))
        except Exception as error:
            parts.append(f"{path}: {error.code}")
    found = await ctx.generate_object(inputs["schema"], ["Read.", *parts])
    return {"object": found.object, "parts": [p if isinstance(p, str) else p.id for p in parts]}
"""


async def test_rule_on_the_path_limits_the_files_that_a_script_sends(tmp_path: Path) -> None:
    (tmp_path / "scans").mkdir()
    (tmp_path / "scans/a.png").write_bytes(PNG)
    (tmp_path / "b.png").write_bytes(PNG + b"b")
    model = ScriptedModel({"total": 1})
    async with Session(tmp_path, model=model) as session:
        result = await session.program(
            source=SCRIPT,
            inputs={"schema": SCHEMA, "paths": ["scans/a.png", "b.png", "scans/../b.png"]},
            allowed_tools=[Allow("attach_file", path="scans/*"), "generate_object"],
        )
    assert result.unwrap()["parts"][0] == hashlib.sha256(PNG).hexdigest()
    assert "not_allowed" in str(result.unwrap()["parts"][1])
    (turn,) = model.requests[0].turns
    assert [file.data for file in turn.files] == [PNG]


@tool(side_effect=True, idempotent=True, needs_approval=True)
def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


PAUSED = """
async def run(ctx, inputs):
    scan = await ctx.attach_file(path="scan.pdf")
    found = await ctx.generate_object(inputs["schema"], ["Read.", scan])
    await ctx.send(text=str(found.object["total"]))
    again = await ctx.generate_object(inputs["schema"], ["Read again.", scan])
    return [found.object["total"], again.object["total"]]
"""


async def test_resumed_run_does_not_ask_again_and_sends_the_stored_content(tmp_path: Path) -> None:
    (tmp_path / "scan.pdf").write_bytes(PDF)
    model = ScriptedModel({"total": 1}, {"total": 2})
    async with Session(tmp_path, tools=[send], model=model) as session:
        paused = await session.program(
            source=PAUSED,
            inputs={"schema": SCHEMA},
            allowed_tools=["attach_file", "generate_object", "send"],
        )
        assert paused.status == "paused", paused.error
        (tmp_path / "scan.pdf").write_bytes(b"%PDF-1.7\n-other-")
        result = await session.approve(paused.run_id, by="ann", resume=True)
    assert result.unwrap() == [1, 2]
    # The first answer is replayed; the second request has the file as it was.
    assert [request.turns[0].text for request in model.requests] == ["Read.", "Read again."]
    assert [request.turns[0].files[0].data for request in model.requests] == [PDF, PDF]
    assert hashlib.sha256(PDF).hexdigest()[:60] in str(result.calls[1].arguments)
