"""`generate_object` as a tool for the agents of every framework."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptc import Session
from ptc.testing import ScriptedModel

from .test_contract import PEERS, anyio_backend, load

__all__ = ["anyio_backend"]

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("name", [name for name in PEERS if name != "functions"])
async def test_agent_generates_an_object(name: str, tmp_path: Path) -> None:
    peer = load(name)
    model = ScriptedModel('{"total": "12"}', {"total": 12})
    async with Session(tmp_path, model=model, toolsets=(), workers=1) as session:
        found = await peer.ask(
            session,
            "generate_object",
            {"schema": SCHEMA, "prompt": "Read it."},
            allowed_tools=["generate_object"],
            direct=True,
        )
    assert '"total": 12' in found.text or "'total': 12" in found.text or '"total":12' in found.text
    assert not found.is_error
