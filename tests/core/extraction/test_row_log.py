"""The output file of an extraction is durable, exclusive, and never a file of somebody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import SetupError, UsageError
from ptc._extraction._row_log import RowLog

pytestmark = pytest.mark.anyio


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "status": "done", "digest": "d", "settings": "s", "model": "m", **more}


async def test_rows_survive_a_kill_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    log = RowLog(path)
    for number in range(3):
        await log.append(row(str(number), object={"text": "ä\n"}))
    log.close()
    whole = path.read_bytes()
    line = len(whole) // 3
    for size in (0, 1, 5, 6, 7, line - 2, line - 1, line, line + 1, line + 20, 3 * line):
        path.write_bytes(whole[:size])
        log = RowLog(path)
        # A row without its end of line is complete.
        assert list(log.entries) == [str(n) for n in range((size + 1) // line)]
        await log.append(row("new"))
        log.close()
        lines = path.read_text().splitlines()
        assert [json.loads(line)["id"] for line in lines] == [*log.entries]


async def test_torn_row_of_several_writes_does_not_hide_the_next(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    log = RowLog(path)
    await log.append(row("a"))
    log.close()
    path.write_bytes(path.read_bytes() + b'{"id":"b","status":"done","obj')
    log = RowLog(path)
    await log.append(row("c"))
    log.close()
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["a", "c"]


async def test_concurrent_rows_are_all_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    log = RowLog(path)
    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(log.append, row(str(number)))
    assert {r["id"] for r in log.read_all()} == {str(n) for n in range(50)}
    assert log.read("7")["id"] == "7"
    log.close()


async def test_compaction_leaves_the_last_row_of_each_id(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    log = RowLog(path)
    for name, status in [("a", "failed"), ("b", "done")]:
        await log.append(row(name) | {"status": status})
    log.close()
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])  # a crash between the row and its end of line
    log = RowLog(path)
    await log.append(row("a"))
    log.compact()
    assert [(r["id"], r["status"]) for r in log.read_all()] == [("b", "done"), ("a", "done")]
    assert path.stat().st_mode & 0o777 == 0o600
    # The lock moves to the new file, and rows are appended to it.
    with pytest.raises(UsageError, match="another process"):
        RowLog(path)
    await log.append(row("c"))
    log.close()
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["b", "a", "c"]
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


def test_second_writer_is_refused(tmp_path: Path) -> None:
    first = RowLog(tmp_path / "rows.jsonl")
    with pytest.raises(UsageError, match="being written by another process"):
        RowLog(tmp_path / "rows.jsonl")
    first.close()
    RowLog(tmp_path / "rows.jsonl").close()


@pytest.mark.parametrize(
    "data",
    [b"my notes", b'{"id": 1}\n', b'{"id":"7","mine":true}', b"[]\n", b"\xff\xfe\n", b"\n\n"],
)
def test_file_of_another_kind_is_refused_and_left_alone(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"holds other data .*line 1"):
        RowLog(path)
    assert path.read_bytes() == data


async def test_row_is_not_acknowledged_if_the_disk_fails(tmp_path: Path) -> None:
    log = RowLog(tmp_path / "rows.jsonl")
    await log.append(row("a"))
    full = Path("/dev/full").open("wb")  # noqa: SIM115  # stands in for a full disk
    fd, log._fd = log._fd, full.fileno()
    for _ in range(2):
        with pytest.raises(SetupError, match=r"cannot be written: No space left"):
            await log.append(row("b"))
    log._fd = fd
    full.close()
    assert list(log.entries) == ["a"]
    log.close()
