"""`get_tool_response` over values that are much larger than the memory it may use."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from ptc import Session
from ptc_tools import get_tool_response
from ptc_tools.recall import _json_scan

ROW = json.dumps({"id": 123_456, "name": "alpha beta", "note": "x" * 60, "tags": ["a", "b"]})


@pytest.mark.anyio
async def test_reading_a_large_value_needs_the_memory_of_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_json_scan, "CHUNK_BYTES", 16_384)
    monkeypatch.setattr("ptc._records._stored_file._CHUNK_BYTES", 16_384)
    whole = (b"[" + f"{ROW},".encode() * 10_000)[:-1] + b"]"  # 1.3 MB
    async with Session(tmp_path, toolsets=(), tools=[get_tool_response]) as session:
        handle = session.artifacts.keep(whole).sha256
        size = len(whole)
        del whole
        await session.call(get_tool_response, handle=handle)
        tracemalloc.start()
        try:
            last = await session.call(get_tool_response, handle=handle, offset=9_990)
            await session.call(get_tool_response, handle=handle, pointer="/9999/note")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert last.value == [json.loads(ROW)] * 10
    assert peak < size / 4


_PROGRAM = """
import asyncio, json, sys, time
from pathlib import Path
from ptc import Session
from ptc_tools import get_tool_response

row = sys.argv[2].encode()
rows = 8_000_000

def pieces():
    yield b"["
    for _ in range(rows // 1_000):
        yield (row + b",") * 1_000
    yield b'{"id": "the last one"}]'

async def main():
    async with Session(sys.argv[1], toolsets=(), tools=[get_tool_response]) as session:
        stored = session.artifacts.keep_pieces(pieces)
        assert stored.bytes > 10**9, stored.bytes
        part = await session.call(get_tool_response, handle=stored.sha256)
        assert part.value[0] == json.loads(row), part
        for _ in range(5):
            part = await session.call(
                get_tool_response, handle=stored.sha256, offset=part.next, limit=1_000
            )
            assert len(part.value) == part.next - part.offset, part.offset
        last = await session.call(get_tool_response, handle=stored.sha256, offset=rows - 1)
        assert last.value == [json.loads(row), {"id": "the last one"}], last
        assert (last.next, last.total) == (None, rows + 1)
        end = await session.call(
            get_tool_response, handle=stored.sha256, unit="bytes", offset=stored.bytes - 15
        )
        assert end.value == 'the last one"}]', end
        # Not `ru_maxrss`, which a process takes over from the one that started it.
        status = Path("/proc/self/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
        # Mapped by ripgrep, so its pages are those of the file.
        found = await session.call(get_tool_response, handle=stored.sha256, search="the last")
        assert [match.offset for match in found.value] == [stored.bytes - 15], found
        print(peak)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_large_artifact_is_paged_within_bounded_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path), ROW],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 250, "MiB"
