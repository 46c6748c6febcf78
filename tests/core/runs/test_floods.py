"""The host's memory grows by a bounded amount under any flood of a hostile worker.

Stalls of the event loop are measured by the same program: ``python tests/core/runs/floods.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .floods import FLOODS

COMMAND = Path(__file__).with_name("floods.py")
MIB = 1 << 20
MOST_BYTES = {
    # A value over its limit is stored, up to 16 MiB; a thread decodes one part at a time.
    "15 MB of [] in parts": 40 * MIB,
    "15 MB of wide text in parts": 40 * MIB,
    "objects of one key in parts": 40 * MIB,
    "2,000,000 numbers in parts": 40 * MIB,
    "64 MB of text in parts": 40 * MIB,
    "what is no JSON in parts": 40 * MIB,
    # Their JSON, or the rest of their memory, up to 16 MiB.
    "pieces of one character": 40 * MIB,
    "empty texts": 40 * MIB,
    # 250,000 lists of 72 bytes, and their JSON.
    "values emitted": 40 * MIB,
    "values emitted in parts": 40 * MIB,
    "calls with 1 MB of []": 40 * MIB,
    "calls with 200,000 lists": 60 * MIB,
    # 32 MiB of arguments at a time.
    "calls with 1 MB of text": 60 * MIB,
    # 2,101 calls and their records.
    "calls": 40 * MIB,
    "calls of no tool": 40 * MIB,
    "calls that wait": 40 * MIB,
    # 32 MiB of arguments at a time.
    "calls with 100 KB of text": 60 * MIB,
    # 16 MiB, which `max_attachment_bytes` allows, and the buffer's spare room.
    "attachments": 40 * MIB,
    "attachments in pieces of two bytes": 40 * MIB,
}
"""By flood; of the others no more than a few frames are in memory."""
ENDS = {
    "15 MB of [] in one frame": "limit_max_output_bytes",
    "15 MB of [] in parts": "completed",
    "15 MB of wide text in parts": "completed",
    "2,000,000 numbers in parts": "completed",
    "64 MB of text in one frame": "limit_max_output_bytes",
    "64 MB of text in parts": "limit_max_output_bytes",
    "objects of one key in parts": "completed",
    "what is no JSON in parts": "protocol",
    "lists of lists in parts": "completed",
    "values emitted": "limit_max_containers",
    "values emitted in parts": "limit_max_containers",
    "calls": "limit_max_tool_calls",
    "calls of no tool": "limit_max_tool_calls",
    "calls that wait": "limit_max_tool_calls",
    "calls with 100 KB of text": "limit_max_tool_calls",
    "attachments": "limit_max_attachment_bytes",
    "empty attachments": "protocol",
    "a failure of many lines": "exception",
    "100 findings": "x",
}
"""By flood; the others are without end."""


FAST = {
    "15 MB of [] in one frame",
    "64 MB of text in parts",
    "what is no JSON in parts",
    "values emitted in parts",
    "calls of no tool",
    "empty parts",
    "empty pieces of a text",
}
"""One of each kind: a frame, parts, damage, values, calls, frames without end."""


@pytest.mark.parametrize(
    "flood", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in FLOODS]
)
def test_host_memory_grows_by_a_bounded_amount_under_floods(flood: str) -> None:
    done = subprocess.run(
        [sys.executable, str(COMMAND), "--one", flood],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["grown_bytes"] <= MOST_BYTES.get(flood, 8 * MIB), row
    end = row["code"] or row["status"]
    if flood in ENDS:
        assert end == ENDS[flood], row
    else:
        assert end in {"timeout", "limit_max_messages"}, row
