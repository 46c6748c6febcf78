from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ptc import ToolError
from ptc_tools import patch

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


def contents(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


async def error_of(call: Call, diff: str) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await call(patch, diff=diff)
    return caught.value


def changed(path: str) -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-old\n+new\n"


ALL = (
    changed("a")
    + "--- /dev/null\n+++ b/x/y/made\n@@ -0,0 +1 @@\n+made\n"
    + "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
    + "diff --git a/moved b/sub/there\nsimilarity index 50%\nrename from moved\n"
    + "rename to sub/there\n--- a/moved\n+++ b/sub/there\n@@ -1 +1 @@\n-old\n+new\n"
    + "diff --git a/tool b/tool\nold mode 100644\nnew mode 100755\n"
)


def write_files(root: Path) -> None:
    for name in ("a", "gone", "moved", "tool"):
        (root / name).write_text("old\n")
    (root / "moved").chmod(0o600)


async def test_patch_modifies_creates_deletes_and_renames_together(root: Path, call: Call) -> None:
    write_files(root)
    changes = await call(patch, diff=ALL)
    assert contents(root) == {
        "a": "new\n",
        "sub/there": "new\n",
        "tool": "old\n",
        "x/y/made": "made\n",
    }
    assert [(c.path, c.action, c.path_before) for c in changes] == [
        ("a", "modified", None),
        ("x/y/made", "created", None),
        ("gone", "deleted", None),
        ("sub/there", "renamed", "moved"),
        ("tool", "unchanged", None),
    ]
    assert (changes[2].size_bytes, changes[2].size_bytes_before) == (None, 4)
    assert (root / "sub" / "there").stat().st_mode & 0o777 == 0o600
    assert os.access(root / "tool", os.X_OK)
    assert patch.render is not None
    assert patch.render(changes).splitlines()[:4] == [
        "a: modified, 4 -> 4 bytes, 1 changed at line 1",
        "x/y/made: created, 5 bytes, 1 changed at line 1",
        "gone: deleted, 4 bytes",
        "moved -> sub/there: renamed, 4 -> 4 bytes, 1 changed at line 1",
    ]


async def test_patch_dry_run_reports_the_changes_without_making_them(
    root: Path, call: Call
) -> None:
    write_files(root)
    old = contents(root)
    dry = await call(patch, diff=ALL, dry_run=True)
    assert contents(root) == old
    assert not (root / "x").exists()
    done = await call(patch, diff=ALL)
    assert [(c.path, c.action, c.sha256) for c in dry] == [
        (c.path, c.action, c.sha256) for c in done
    ]


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (changed("missing"), "not_found"),
        (changed("other"), "patch_failed"),
        (changed("../outside/secret.txt"), "outside_root"),
        (changed("link"), "outside_root"),
        (changed("sub"), "not_a_file"),
        (changed("a"), "patch_failed"),
        ("--- /dev/null\n+++ b/other\n@@ -0,0 +1 @@\n+x\n", "exists"),
        ("--- a/other\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n", "patch_failed"),
        ("diff --git a/other b/tool\nrename from other\nrename to tool\n", "exists"),
        ("diff --git a/other b/a\nrename from other\nrename to a\n", "patch_failed"),
        ("--- a/other\n+++ b/another\n@@ -1 +1 @@\n-one\n+1\n", "patch_failed"),
        ("@@ -1 +1 @@\n-one\n+1\n", "patch_failed"),
        ("garbage\n", "patch_failed"),
        ("diff --git a/l b/l\nnew file mode 120000\n", "patch_failed"),
        ("diff --git a/l b/l\ncopy from a\ncopy to l\n", "patch_failed"),
        ("diff --git a/l b/l\nindex 1..2\nGIT binary patch\n", "patch_failed"),
        ("diff --git a/l b/l\nindex 1..2\nBinary files a/l and b/l differ\n", "patch_failed"),
    ],
)
async def test_patch_changes_nothing_if_one_part_fails(
    root: Path, outside: Path, call: Call, last: str, code: str
) -> None:
    write_files(root)
    (root / "other").write_text("one\ntwo\n")
    (root / "sub").mkdir()
    (root / "link").symlink_to(outside / "secret.txt")
    old = contents(root)
    error = await error_of(call, changed("a") + last)
    assert error.code == code
    assert contents(root) == old
    assert (outside / "secret.txt").read_text() == "SECRET word\n"


async def test_patch_of_one_file_under_two_names_is_refused(root: Path, call: Call) -> None:
    write_files(root)
    (root / "alias").symlink_to("a")
    error = await error_of(call, changed("a") + changed("alias"))
    assert "'a' twice" in error.message
    assert contents(root)["a"] == "old\n"


async def test_patch_creates_and_deletes_empty_files(root: Path, call: Call) -> None:
    (root / "old").touch()
    diff = (
        "diff --git a/new b/new\nnew file mode 100755\nindex 0000000..e69de29\n"
        "diff --git a/old b/old\ndeleted file mode 100644\nindex e69de29..0000000\n"
    )
    changes = await call(patch, diff=diff)
    assert [c.action for c in changes] == ["created", "deleted"]
    assert os.listdir(root) == ["new"]
    assert os.access(root / "new", os.X_OK)
    (root / "old").write_text("not empty")
    assert (
        await error_of(
            call, diff.partition("diff --git a/old")[1] + " b/old\ndeleted file mode 100644\n"
        )
    ).code == "patch_failed"


async def test_patch_of_too_many_files_is_refused(root: Path, call: Call) -> None:
    diff = "".join(changed(f"f{number}") for number in range(201))
    assert (await error_of(call, diff)).code == "too_large"


async def test_plain_and_quoted_file_names_of_a_diff_are_parsed(root: Path, call: Call) -> None:
    for name in ("a b", "a/x", "b/x", "tab\t", "é", 'q"'):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("old\n")
    hunk = "@@ -1 +1 @@\n-old\n+new\n"
    diff = (
        f"--- a b\t2026-01-01 00:00:00\n+++ a b\t2026-01-02 00:00:00\n{hunk}"
        f"--- a/a/x\n+++ b/a/x\n{hunk}"
        f"--- b/x\n+++ b/x\n{hunk}"
        f'--- "a/tab\\t"\n+++ "b/tab\\t"\n{hunk}'
        f'--- "a/\\303\\251"\n+++ "b/\\303\\251"\n{hunk}'
        f'--- "a/q\\""\n+++ "b/q\\""\n{hunk}'
    )
    await call(patch, diff=diff)
    assert set(contents(root).values()) == {"new\n"}


async def test_patch_applies_a_diff_written_by_git(root: Path, tmp_path: Path, call: Call) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    work = tmp_path / "work"
    work.mkdir()

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [git, "-c", "user.name=x", "-c", "user.email=x@x", *arguments],
            cwd=work,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    run("init", "-q")
    old = {
        "keep.txt": "same\n",
        "edit.txt": "".join(f"line {n}\n" for n in range(40)),
        "gone.txt": "gone\n",
        "move me.txt": "".join(f"row {n}\n" for n in range(30)),
        "pure.txt": "".join(f"pure {n}\n" for n in range(30)),
        "é.txt": "accent",
        "empty.txt": "",
    }
    for name, text in old.items():
        (work / name).write_text(text)
        (root / name).write_text(text)
    run("add", "-A")
    run("commit", "-qm", "1")
    (work / "edit.txt").write_text(old["edit.txt"].replace("line 3\n", "3\n") + "tail")
    (work / "gone.txt").unlink()
    (work / "empty.txt").unlink()
    (work / "sub").mkdir()
    (work / "move me.txt").unlink()
    (work / "sub" / "moved.txt").write_text(old["move me.txt"].replace("row 7\n", "7\n"))
    (work / "pure.txt").rename(work / "sub" / "pure.txt")
    (work / "é.txt").write_text("accent\n")
    (work / "new.sh").write_text("#!/bin/sh\n")
    (work / "new.sh").chmod(0o755)
    (work / "none").touch()
    run("add", "-A")
    diff = run("diff", "--cached", "-M")
    await call(patch, diff=diff)
    shutil.rmtree(work / ".git")
    assert contents(root) == contents(work)
    assert os.access(root / "new.sh", os.X_OK)


def test_patch_is_a_non_idempotent_side_effect() -> None:
    assert (patch.side_effect, patch.idempotent) == (True, False)
