from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ptc import ToolError
from ptc_tools import edit
from ptc_tools.files._change import MAX_CONTENT_BYTES

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


def version(path: Path) -> tuple[int, ...]:
    """Return a fingerprint that changes on a write or replacement, but not on a read."""
    status = path.stat()
    return (status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns, status.st_ctime_ns)


async def error_of(call: Call, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await call(edit, **arguments)
    return caught.value


async def test_text_occurring_once_is_replaced(root: Path, call: Call) -> None:
    (root / "a.py").write_text("one\ntwo\nthree\n")
    (root / "a.py").chmod(0o755)
    change = await call(edit, path="a.py", old="two\n", new="2\n2\n")
    assert (root / "a.py").read_text() == "one\n2\n2\nthree\n"
    assert (root / "a.py").stat().st_mode & 0o777 == 0o755
    assert (change.action, change.replacements, change.lines) == ("modified", 1, [2])
    assert (change.size_bytes_before, change.size_bytes) == (14, 14)
    assert change.sha256 != change.sha256_before
    assert os.listdir(root) == ["a.py"]


async def test_replacement_text_may_be_empty(root: Path, call: Call) -> None:
    (root / "a").write_text("abc")
    await call(edit, path="a", old="b", new="")
    assert (root / "a").read_text() == "ac"


async def test_text_occurring_several_times_is_refused_with_the_options(
    root: Path, call: Call
) -> None:
    (root / "a").write_text("x\n\nx x\n" + "x\n" * 20)
    error = await error_of(call, path="a", old="x", new="y")
    assert error.code == "wrong_count"
    assert error.details == {"count": 23}
    assert error.message == (
        "'a' has this text 23 times, not once: at lines 1, 3, 3, 4, 5, 6, 7, 8, 9, 10, ...; add "
        "more of the text around it, or set replace_all=True or expected_count=23"
    )


async def test_replace_all_replaces_every_occurrence(root: Path, call: Call) -> None:
    (root / "a").write_text("x\nx x\n")
    change = await call(edit, path="a", old="x", new="y\n", replace_all=True)
    assert (root / "a").read_text() == "y\n\ny\n y\n\n"
    assert (change.replacements, change.lines) == (3, [1, 3, 4])


@pytest.mark.parametrize(("expected", "code"), [(2, None), (1, "wrong_count"), (3, "wrong_count")])
@pytest.mark.parametrize("replace_all", [True, False])
async def test_expected_count_must_match_the_occurrences(
    root: Path, call: Call, expected: int, code: str | None, replace_all: bool
) -> None:
    (root / "a").write_text("x x")
    arguments = {"path": "a", "old": "x", "new": "y", "replace_all": replace_all}
    if code is None:
        await call(edit, **arguments, expected_count=expected)
        assert (root / "a").read_text() == "y y"
    else:
        assert (await error_of(call, **arguments, expected_count=expected)).code == code
        assert (root / "a").read_text() == "x x"


@pytest.mark.parametrize(
    ("text", "old", "words"),
    [
        ("a\n\tfoo  bar\n", "  foo bar", "line 2 has the same words"),
        ("a\nfoo bar\nx\n", "foo bar\ny", "line 2 has the words of its first line"),
        ("a\r\nb\n", "a\nb", "its line endings may differ"),
        ("a\n", "zzz", "'f' does not have this text; read the file again"),
    ],
)
async def test_missing_text_error_describes_near_matches(
    root: Path, call: Call, text: str, old: str, words: str
) -> None:
    (root / "f").write_bytes(text.encode())
    error = await error_of(call, path="f", old=old, new="new")
    assert error.code == "no_match"
    assert words in error.message
    assert (root / "f").read_bytes() == text.encode()


async def test_edit_errors_never_quote_the_content(root: Path, call: Call) -> None:
    (root / "a").write_text("CANARY1 CANARY1\n")
    diff = "@@ -1 +1 @@\n-CANARY2\n+CANARY3\n"
    for arguments in (
        {"old": "CANARY1", "new": "CANARY3"},
        {"old": "CANARY2", "new": "CANARY3"},
        {"old": "CANARY1", "new": "CANARY1"},
        {"diff": diff},
        {"diff": diff + "CANARY4"},
        {"diff": "CANARY5"},
        {"diff": "--- CANARY6\n"},
        {"diff": "@@ CANARY7 @@\n"},
    ):
        assert "CANARY" not in (await error_of(call, path="a", **arguments)).message


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"old": "a"},
        {"new": "a"},
        {"old": "a", "new": "b", "diff": "@@ -1 +1 @@\n-a\n+b\n"},
        {"old": "a", "diff": "@@ -1 +1 @@\n-a\n+b\n"},
        {"diff": "@@ -1 +1 @@\n-a\n+b\n", "replace_all": True},
        {"diff": "@@ -1 +1 @@\n-a\n+b\n", "expected_count": 1},
        {"old": "", "new": "b"},
        {"old": "a\ud800", "new": "b"},
    ],
)
async def test_conflicting_edit_arguments_are_refused(
    root: Path, call: Call, arguments: dict[str, Any]
) -> None:
    (root / "f").write_text("a")
    assert (await error_of(call, path="f", **arguments)).code == "invalid_arguments"
    assert (root / "f").read_text() == "a"


async def test_identical_replacement_is_refused_as_no_change(root: Path, call: Call) -> None:
    (root / "f").write_text("a")
    assert (await error_of(call, path="f", old="a", new="a")).code == "no_change"


async def test_edit_dry_run_reports_the_change_without_making_it(root: Path, call: Call) -> None:
    (root / "a").write_text("one\ntwo\n")
    before = version(root / "a")
    for arguments in ({"old": "two", "new": "2"}, {"diff": "@@ -2 +2 @@\n-two\n+2\n"}):
        dry = await call(edit, path="a", dry_run=True, **arguments)
        assert (dry.action, dry.dry_run, dry.lines, dry.size_bytes) == ("modified", True, [2], 6)
        assert edit.render is not None
        assert edit.render(dry) == "a: would be modified, 8 -> 6 bytes, 1 changed at line 2"
    assert (root / "a").read_text() == "one\ntwo\n"
    assert version(root / "a") == before
    assert os.listdir(root) == ["a"]
    done = await call(edit, path="a", diff="@@ -2 +2 @@\n-two\n+2\n")
    assert done.sha256 == dry.sha256


async def test_edit_preserves_the_line_endings_of_the_file(root: Path, call: Call) -> None:
    (root / "a").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    await call(edit, path="a", old="one\ntwo", new="1\n2\n2.5")
    assert (root / "a").read_bytes() == b"1\r\n2\r\n2.5\r\nthree\r\n"
    await call(edit, path="a", old="1\r\n2\r\n", new="x\r\n")
    assert (root / "a").read_bytes() == b"x\r\n2.5\r\nthree\r\n"
    await call(edit, path="a", diff="@@ -2,2 +2,2 @@\n-2.5\n+y\n three\n")
    assert (root / "a").read_bytes() == b"x\r\ny\r\nthree\r\n"


async def test_edit_preserves_a_byte_order_mark(root: Path, call: Call) -> None:
    (root / "a").write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    await call(edit, path="a", diff="@@ -1,2 +1,2 @@\n-one\n+1\n two\n")
    assert (root / "a").read_bytes() == b"\xef\xbb\xbf1\ntwo\n"
    await call(edit, path="a", old="1\n", new="")
    assert (root / "a").read_bytes() == b"\xef\xbb\xbftwo\n"


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        ("", "empty"),
        (" \n\n", "empty"),
        ("garbage", "malformed at its line 1"),
        ("```diff\n@@ -1 +1 @@\n-a\n+b\n```", "malformed at its line 1"),
        ("@@ -1 +1 @@\n-a\n+b\ngarbage", "malformed at its line 4"),
        ("@@ -1,2 +1 @@\n-a\n+b\n", "says 2 old and 1 new lines, but it has fewer"),
        ("@@ -1 +1,2 @@\n-a\n+b\n", "says 1 old and 2 new lines, but it has fewer"),
        ("@@ -1 +1 @@\n-a\n+b\n+c\n", "says 1 old and 1 new lines, but it has more"),
        ("@@ -1 +1 @@\n-a\n-b\n+c\n", "says 1 old and 1 new lines, but it has more"),
        ("@@ -1,1 +1,1 @@\n a\n", "changes nothing"),
        ("@@ -1 +1 @@\n-a\n+a\n", "changes nothing"),
        ("@@ ... @@\n-a\n+b\n", "a hunk's header is"),
        ("--- a/f\n@@ -1 +1 @@\n-a\n+b\n", "must follow"),
        ("--- a/f\n+++ b/f\n", "no hunk follows"),
        ("@@ -2 +2 @@\n-b\n+c\n@@ -1 +1 @@\n-a\n+b\n", "hunk 2 is not after the one before"),
        (
            "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n",
            "for 2 files",
        ),
        ("--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n", "use patch for that"),
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n", "use patch for that"),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "use patch for that"),
        ("@@ -1 +1 @@\n-x\n+b\n", "line 1 of the file is not old line 1 of the hunk"),
        ("@@ -9 +9 @@\n-x\n+b\n", "the file has 2 lines"),
        ("@@ -1 +1 @@\n-a \n+b\n", "the white space differs"),
        ("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "the line endings differ"),
        ("@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "ends without a newline"),
        ("@@ -3,0 +3 @@\n+c\n", "the file has 2 lines"),
        ("@@ -1,2 +1,1 @@\n-a\n\\ No newline at end of file\n b\n", "not under the last line"),
        ("GIT binary patch\n", "malformed"),
    ],
)
async def test_diff_that_does_not_apply_leaves_the_file_unchanged(
    root: Path, call: Call, diff: str, words: str
) -> None:
    (root / "f").write_text("a\nb\n")
    before = version(root / "f")
    error = await error_of(call, path="f", diff=diff)
    assert error.code == "patch_failed"
    assert words in error.message
    assert error.details["reason"] in ("empty", "malformed", "mismatch", "no_change")
    assert version(root / "f") == before
    assert os.listdir(root) == ["f"]


async def test_edit_size_is_checked_in_bytes_before_the_path(root: Path, call: Call) -> None:
    error = await error_of(call, path="../f", diff="é" * (MAX_CONTENT_BYTES // 2) + "x")
    assert error.code == "too_large"
    assert error.details["diff_bytes"] == MAX_CONTENT_BYTES + 1
    assert len(str(error.details["diff_sha256"])) == 64


async def test_edit_refuses_files_and_results_over_the_size_limit(root: Path, call: Call) -> None:
    (root / "f").write_bytes(b"x" * (MAX_CONTENT_BYTES + 1))
    assert (await error_of(call, path="f", old="x", new="y")).code == "too_large"
    (root / "f").write_bytes(b"x" * MAX_CONTENT_BYTES)
    error = await error_of(call, path="f", old="x", new="y" * 1_000_000, replace_all=True)
    assert error.code == "too_large"
    change = await call(edit, path="f", old="x", new="y", replace_all=True)
    assert change.replacements == MAX_CONTENT_BYTES
    assert len(change.lines) == 1_000
    grow = f"@@ -1 +1,2 @@\n+new\n {'y' * MAX_CONTENT_BYTES}\n"[: MAX_CONTENT_BYTES - 1]
    assert (await error_of(call, path="f", diff=grow)).code == "patch_failed"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", "not_found"),
        ("sub", "not_a_file"),
        ("../outside/secret.txt", "outside_root"),
        ("link", "outside_root"),
        ("binary", "not_text"),
        ("latin1", "not_text"),
    ],
)
async def test_uneditable_files_are_refused(
    root: Path, outside: Path, call: Call, path: str, code: str
) -> None:
    (root / "sub").mkdir()
    (root / "link").symlink_to(outside / "secret.txt")
    (root / "binary").write_bytes(b"a\0b")
    (root / "latin1").write_bytes(b"caf\xe9")
    assert (await error_of(call, path=path, old="a", new="b")).code == code
    assert (outside / "secret.txt").read_text() == "SECRET word\n"


def test_edit_is_a_non_idempotent_side_effect() -> None:
    assert (edit.side_effect, edit.idempotent) == (True, False)
