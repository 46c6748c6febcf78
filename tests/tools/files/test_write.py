from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import ToolError
from ptc_tools import Change, read, write
from ptc_tools.files._change import MAX_CONTENT_BYTES, MAX_FILE_BYTES

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def version(path: Path) -> tuple[int, ...]:
    """Return a fingerprint that changes on a write or replacement, but not on a read."""
    status = path.stat()
    return (status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns)


async def error_of(call: Call, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await call(write, **arguments)
    return caught.value


def temporary_files(root: Path) -> list[str]:
    return [name for _, _, names in os.walk(root) for name in names if name.startswith(".ptc-")]


async def test_new_file_is_created_with_its_folders(root: Path, call: Call) -> None:
    change = await call(write, path="a/b/c.txt", content="é\r\n")
    assert (root / "a" / "b" / "c.txt").read_bytes() == "é\r\n".encode()
    assert change == Change(
        path="a/b/c.txt", action="created", size_bytes=4, sha256=sha("é\r\n".encode())
    )
    assert temporary_files(root) == []


async def test_replaced_file_reports_its_previous_size_and_digest(root: Path, call: Call) -> None:
    (root / "a.txt").write_text("before")
    change = await call(write, path="a.txt", content="now")
    assert (root / "a.txt").read_text() == "now"
    assert change == Change(
        path="a.txt",
        action="modified",
        size_bytes=3,
        sha256=sha(b"now"),
        size_bytes_before=6,
        sha256_before=sha(b"before"),
    )
    assert await call(read, path="a.txt") == "now"
    assert temporary_files(root) == []


async def test_identical_content_leaves_the_file_untouched(root: Path, call: Call) -> None:
    (root / "a.txt").write_text("same")
    before = version(root / "a.txt")
    change = await call(write, path="a.txt", content="same")
    assert change.action == "unchanged"
    assert version(root / "a.txt") == before


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664, 0o400 | 0o200])
async def test_a_replaced_file_keeps_its_permissions(root: Path, call: Call, mode: int) -> None:
    (root / "a.sh").touch()
    (root / "a.sh").chmod(mode)
    await call(write, path="a.sh", content="x")
    assert stat.S_IMODE((root / "a.sh").stat().st_mode) == mode


async def test_set_user_id_bit_is_cleared_when_the_content_changes(root: Path, call: Call) -> None:
    (root / "a").touch()
    (root / "a").chmod(0o6755)
    await call(write, path="a", content="x")
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o755


async def test_new_file_has_the_permissions_of_the_umask(root: Path, call: Call) -> None:
    (root / "plain").touch()
    await call(write, path="new", content="x")
    assert (root / "new").stat().st_mode == (root / "plain").stat().st_mode


async def test_read_only_file_is_not_replaced() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o777)
        (folder / "a").write_text("old")
        (folder / "a").chmod(0o444)
        root_user = os.geteuid() == 0
        if root_user:
            os.seteuid(65_534)
        try:
            from ptc import ToolContext

            context = ToolContext(root=folder, tool_name="write", call_id="t.1", run_id=None, seq=1)
            with pytest.raises(ToolError) as caught:
                write.function(ctx=context, path="a", content="new")
        finally:
            if root_user:
                os.seteuid(0)
        assert caught.value.code == "permission_denied"
        assert os.listdir(folder) == ["a"]
        assert (folder / "a").read_text() == "old"
    finally:
        shutil.rmtree(folder)


async def test_link_inside_is_written_through_and_remains_a_link(root: Path, call: Call) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "real.txt").write_text("old")
    (root / "link.txt").symlink_to("sub/real.txt")
    change = await call(write, path="link.txt", content="new")
    assert change.path == "sub/real.txt"
    assert (root / "sub" / "real.txt").read_text() == "new"
    assert os.readlink(root / "link.txt") == "sub/real.txt"


async def test_hard_link_to_an_outside_file_is_not_written_through(
    root: Path, outside: Path, call: Call
) -> None:
    os.link(outside / "secret.txt", root / "hard")
    await call(write, path="hard", content="new")
    assert (outside / "secret.txt").read_text() == "SECRET word\n"


async def test_create_mode_never_replaces_a_file(root: Path, call: Call) -> None:
    change = await call(write, path="a", content="1", mode="create")
    assert change.action == "created"
    error = await error_of(call, path="a", content="2", mode="create")
    assert error.code == "exists"
    assert (root / "a").read_text() == "1"


async def test_only_one_of_many_concurrent_creates_succeeds(root: Path, call: Call) -> None:
    codes: list[str] = []

    async def one(number: int) -> None:
        try:
            await call(write, path="x/y/a", content=str(number), mode="create")
            codes.append("ok")
        except ToolError as error:
            codes.append(error.code)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(one, number)
    assert sorted(codes) == ["exists"] * 19 + ["ok"]
    assert temporary_files(root) == []


async def test_append_requires_the_current_size(root: Path, call: Call) -> None:
    first = await call(write, path="log", content="one\n", mode="append", expected_offset=0)
    assert first.action == "created"
    second = await call(write, path="log", content="two\n", mode="append", expected_offset=4)
    assert second.size_bytes == 8
    assert (root / "log").read_text() == "one\ntwo\n"
    error = await error_of(call, path="log", content="three\n", mode="append", expected_offset=4)
    assert error.code == "conflict"
    assert error.details == {"size_bytes": 8}
    assert (root / "log").read_text() == "one\ntwo\n"


async def test_repeated_append_changes_nothing(root: Path, call: Call) -> None:
    for action in ("created", "unchanged", "unchanged"):
        change = await call(write, path="log", content="one\n", mode="append", expected_offset=0)
        assert change.action == action
    assert (root / "log").read_text() == "one\n"


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "append"},
        {"expected_offset": 0},
        {"mode": "create", "expected_offset": 0},
    ],
)
async def test_offset_is_required_by_append_and_refused_otherwise(
    root: Path, call: Call, arguments: dict[str, Any]
) -> None:
    error = await error_of(call, path="a", content="x", **arguments)
    assert error.code == "invalid_arguments"
    assert os.listdir(root) == []


async def test_write_with_a_stale_digest_is_refused(root: Path, call: Call) -> None:
    (root / "a").write_text("one")
    await call(write, path="a", content="two", expected_sha256=sha(b"one"))
    error = await error_of(call, path="a", content="three", expected_sha256=sha(b"one"))
    assert error.code == "conflict"
    assert error.details == {"sha256": sha(b"two")}
    gone = await error_of(call, path="b", content="x", expected_sha256=sha(b"one"))
    assert gone.code == "conflict"
    assert "does not exist" in gone.message
    assert os.listdir(root) == ["a"]


async def test_write_size_is_checked_in_bytes_before_the_path(root: Path, call: Call) -> None:
    fits = "é" * (MAX_CONTENT_BYTES // 2)
    assert (await call(write, path="a", content=fits)).size_bytes == MAX_CONTENT_BYTES
    error = await error_of(call, path="../a", content=fits + "x")
    assert error.code == "too_large"
    assert error.details == {
        "content_bytes": MAX_CONTENT_BYTES + 1,
        "content_sha256": sha((fits + "x").encode()),
        "max_bytes": MAX_CONTENT_BYTES,
    }
    assert "é" not in error.message


async def test_a_file_over_the_limit_is_neither_replaced_nor_appended_to(
    root: Path, call: Call
) -> None:
    with open(root / "big", "wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)
    assert (await error_of(call, path="big", content="x")).code == "too_large"
    with open(root / "big", "r+b") as file:
        file.truncate(MAX_FILE_BYTES)
    error = await error_of(
        call, path="big", content="x", mode="append", expected_offset=MAX_FILE_BYTES
    )
    assert error.code == "too_large"
    assert (root / "big").stat().st_size == MAX_FILE_BYTES
    change = await call(write, path="big", content="x")
    assert (change.size_bytes_before, change.size_bytes) == (MAX_FILE_BYTES, 1)


async def test_text_that_utf8_cannot_encode_is_refused(root: Path, call: Call) -> None:
    error = await error_of(call, path="a", content="ab\ud800")
    assert error.code == "invalid_arguments"
    assert "character 2 is a lone surrogate" in error.message


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../a", "outside_root"),
        ("/etc/ptc-test", "outside_root"),
        ("out/a", "outside_root"),
        ("dangling", "outside_root"),
        ("nowhere", "not_found"),
        ("sub", "not_a_file"),
        ("file/a", "not_a_directory"),
        ("", "invalid_path"),
        ("a/" + "b" * 256, "invalid_path"),
    ],
)
async def test_unwritable_paths_are_refused_and_nothing_remains(
    root: Path, outside: Path, call: Call, path: str, code: str
) -> None:
    (root / "out").symlink_to(outside)
    (root / "dangling").symlink_to(outside / "new")
    (root / "nowhere").symlink_to("nothing")
    (root / "sub").mkdir()
    (root / "file").touch()
    before = sorted(os.listdir(root))
    assert (await error_of(call, path=path, content="x")).code == code
    assert sorted(os.listdir(root)) == before
    assert os.listdir(outside) == ["secret.txt"]


async def test_write_renders_one_line_without_the_content(root: Path, call: Call) -> None:
    assert write.render is not None
    change = await call(write, path="a", content="SECRET")
    assert write.render(change) == "a: created, 6 bytes"
    assert write.render(await call(write, path="a", content="x")) == "a: modified, 6 -> 1 bytes"
    assert (write.side_effect, write.idempotent) == (True, False)
