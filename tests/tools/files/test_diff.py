from __future__ import annotations

import difflib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import ToolError
from ptc_tools.files._diff import parse_diff
from ptc_tools.files._hunks import apply_hunks, is_crlf


def apply_diff(data: bytes, diff: bytes) -> bytes:
    [item] = parse_diff(diff)
    return apply_hunks(data, item.hunks)[0]


def reason(data: bytes, diff: bytes) -> object:
    with pytest.raises(ToolError) as caught:
        apply_diff(data, diff)
    assert caught.value.code == "patch_failed"
    return caught.value.details["reason"]


LINES = b"".join(b"line %d\n" % number for number in range(1, 21))


def test_hunk_with_wrong_line_numbers_is_applied_at_its_context() -> None:
    for stated in (1, 3, 7, 12, 500):
        diff = b"@@ -%d,3 +%d,3 @@\n line 7\n-line 8\n+new\n line 9\n" % (stated, stated)
        [item] = parse_diff(diff)
        result, lines = apply_hunks(LINES, item.hunks)
        assert result == LINES.replace(b"line 8\n", b"new\n")
        assert lines == [8]


def test_line_offset_of_a_hunk_carries_over_to_later_hunks() -> None:
    # The file has three more lines at the top than the diff expects: hunk 1 matches 3 lines further
    # down, so hunk 2 is tried there first. Elsewhere it would be ambiguous.
    data = b"new\n" * 3 + b"q\n" + (b"x\ny\n" + b"z\n" * 5) * 3
    [item] = parse_diff(b"@@ -1,2 +1,2 @@\n q\n-x\n+X\n@@ -9,2 +9,2 @@\n-x\n+X\n y\n")
    result, lines = apply_hunks(data, item.hunks)
    assert lines == [5, 12]
    assert result.splitlines()[4] == result.splitlines()[11] == b"X"
    assert reason(data, b"@@ -9,2 +9,2 @@\n-x\n+X\n y\n") == "ambiguous"


def test_hunk_matching_two_other_places_is_ambiguous() -> None:
    data = b"a\nb\nc\na\nb\n"
    diff = b"@@ -%d,2 +%d,2 @@\n a\n-b\n+B\n"
    assert apply_diff(data, diff % (4, 4)) == b"a\nb\nc\na\nB\n"
    assert apply_diff(data, diff % (1, 1)) == b"a\nB\nc\na\nb\n"
    with pytest.raises(ToolError, match="but at lines 1 and 4") as caught:
        apply_diff(data, diff % (2, 2))
    assert caught.value.details["lines"] == [1, 4]


def test_context_is_matched_exactly() -> None:
    base = b"@@ -1,3 +1,3 @@\n %s\n-line 2\n+new\n line 3\n"
    assert apply_diff(LINES, base % b"line 1").startswith(b"line 1\nnew\n")
    for context in (b"line 1 ", b" line 1", b"Line 1", b"line  1", b"line 10"):
        assert reason(LINES, base % context) == "mismatch"


def test_hunk_lines_match_whole_lines_only() -> None:
    assert reason(b"xa\na \nab\n", b"@@ -1 +1 @@\n-a\n+b\n") == "mismatch"
    end = b"\n\\ No newline at end of file\n"
    assert reason(b"a\nxb", b"@@ -2 +2 @@\n-b" + end + b"+c" + end) == "mismatch"
    assert reason(b"b\nc", b"@@ -1 +1 @@\n-b" + end + b"+c" + end) == "mismatch"


@pytest.mark.parametrize(
    ("before", "diff", "after"),
    [
        (b"a", b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", b"a\n"),
        (b"a\n", b"@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n", b"a"),
        (
            b"a",
            b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
            b"b",
        ),
        (b"a\nb", b"@@ -1,2 +1,2 @@\n-a\n+A\n b\n\\ No newline at end of file\n", b"A\nb"),
        (b"a\nb", b"@@ -1,2 +1,1 @@\n-a\n b\n\\ No newline at end of file", b"b"),
        (b"", b"@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n", b"a\nb"),
        (b"a", b"@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n", b""),
        (b"a\n", b"@@ -0,0 +1 @@\n+x\n", b"x\na\n"),
        (b"a\nb\n", b"@@ -1,0 +2 @@\n+x\n", b"a\nx\nb\n"),
        (b"a\nb\n", b"@@ -2,0 +3 @@\n+x\n", b"a\nb\nx\n"),
        (b"a\nb\n", b"@@ -2,0 +3 @@\n+x\n\\ No newline at end of file\n", b"a\nb\nx"),
        (b"a\r\nb\n", b"@@ -1,2 +1,2 @@\n-a\r\n+A\r\n b\n", b"A\r\nb\n"),
        (b"a\r\nb\r\n", b"@@ -1,2 +1,2 @@\n-a\n+A\n b\n", b"A\r\nb\r\n"),
        (b"a\nb\n", b"@@ -1,2 +1,2 @@\r\n-a\r\n+A\r\n b\r\n", b"A\nb\n"),
        (b"a\r\nb\r\n", b"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\r\n+A\n b\r\n", b"A\nb\r\n"),
        (b"a\rb\n", b"@@ -1 +1 @@\n-a\rb\n+c\rd\n", b"c\rd\n"),
        (b"a\n\nb\n", b"@@ -1,3 +1,3 @@\n-a\n+A\n\n b\n", b"A\n\nb\n"),
        (b"-- x\n", b"@@ -1 +0,0 @@\n--- x\n", b""),
        (b"a\n", b"@@ -1 +1 @@ def f(x): @@\n-a\n+b", b"b\n"),
    ],
)
def test_line_endings_of_hunks_are_handled_exactly(
    before: bytes, diff: bytes, after: bytes
) -> None:
    assert apply_diff(before, diff) == after


def test_mixed_line_endings_refuse_hunks_of_the_other_kind() -> None:
    assert reason(b"a\r\nb\n", b"@@ -1,2 +1,2 @@\n-a\n+A\n b\n") == "mismatch"
    assert reason(b"a\r\n", b"@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n") == "mismatch"
    assert reason(b"a", b"@@ -1,0 +2 @@\n+x\n") == "mismatch"


def test_many_equal_lines_take_no_quadratic_time() -> None:
    data = b"a\n" * 500_000
    block = b" a\n" * 250_000
    diff = b"@@ -900000,250001 +900000,250001 @@\n" + block + b"-b\n+c\n"
    assert reason(data, diff) == "mismatch"
    diff = b"@@ -900000,250001 +900000,250001 @@\n" + block + b"-a\n+c\n"
    assert reason(data, diff) == "ambiguous"


_TEXT = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "- x\n", "+y\n", "@@\n", "é\n"]))


@given(before=_TEXT, after=_TEXT, tail=st.sampled_from(["", "end"]), context=st.integers(0, 3))
@settings(deadline=None)
def test_diff_written_by_difflib_is_applied(
    before: list[str], after: list[str], tail: str, context: int
) -> None:
    old, new = [*before, tail] if tail else before, [*after, tail] if tail else after
    if old == new:
        return
    lines: list[str] = []
    for line in difflib.unified_diff(old, new, "a/f", "b/f", n=context):
        lines.append(line)
        if not line.endswith("\n"):
            lines.append("\n\\ No newline at end of file\n")
    diff = "".join(lines).encode()
    if is_crlf("".join(old).encode()) and b"\r" not in diff:
        return  # added lines then get the line endings of the file
    assert apply_diff("".join(old).encode(), diff) == "".join(new).encode()


@given(st.text(alphabet="@-+ 01,\n\\abN\r/", max_size=60), st.binary(max_size=30))
@settings(deadline=None)
def test_any_diff_is_applied_or_refused_with_patch_failed(diff: str, data: bytes) -> None:
    codes = {"patch_failed"}
    try:
        for item in parse_diff(diff.encode()):
            apply_hunks(data, item.hunks)
    except ToolError as error:
        codes.add(error.code)
    assert codes == {"patch_failed"}


@pytest.mark.parametrize("context", [0, 1, 3])
def test_hunks_written_by_git_are_applied(tmp_path: Path, context: int) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    old = LINES + b"last"
    new = LINES.replace(b"line 3\n", b"").replace(b"line 17\n", b"17\r\n17b\n") + b"last\n"
    (tmp_path / "old").write_bytes(old)
    (tmp_path / "new").write_bytes(new)
    command = [git, "diff", "--no-index", f"-U{context}", "old", "new"]
    diff = subprocess.run(command, cwd=tmp_path, capture_output=True).stdout
    diff = diff.replace(b"new", b"old")
    assert apply_diff(old, diff) == new
