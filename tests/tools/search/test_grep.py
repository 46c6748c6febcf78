from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import ToolError
from ptc._core._folder import PosixFolder, open_folder
from ptc_tools import Match, MatchCount, glob, grep
from ptc_tools.files import _reading
from ptc_tools.files._paths import Root
from ptc_tools.search import _grep, _lines, _ripgrep, _spawn

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


def write(root: Path, **files: str | bytes) -> None:
    """Create files; the keyword `a__b_txt` is file ``a/b.txt``."""
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


async def error_of(call: Call, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await call(grep, **arguments)
    return caught.value


async def test_matches_are_records_sorted_by_path_and_line(root: Path, call: Call) -> None:
    write(root, b_txt="no\nyes 1\nyes 2\n", a__z_txt="yes", a_txt="yes\n")
    assert await call(grep, pattern="yes") == [
        Match("a/z.txt", 1, "yes"),
        Match("a.txt", 1, "yes"),
        Match("b.txt", 2, "yes 1"),
        Match("b.txt", 3, "yes 2"),
    ]


async def test_no_match_is_an_empty_list(root: Path, call: Call) -> None:
    write(root, a_txt="text")
    assert await call(grep, pattern="absent") == []
    assert await call(grep, pattern="absent", path="a.txt") == []
    assert grep.render is not None
    assert grep.render([]) == "No matches"


async def test_line_with_several_matches_is_returned_once(root: Path, call: Call) -> None:
    write(root, a_txt="x x x\n\nx\n")
    assert [m.line for m in await call(grep, pattern="x")] == [1, 3]


async def test_grep_renders_path_line_and_text(root: Path, call: Call) -> None:
    write(root, sub__a_txt="one\ntwo\n", b_txt="two " + "é" * 996)
    assert grep.render is not None
    assert grep.render(await call(grep, pattern="two", path="sub")) == "sub/a.txt:2:two"
    assert grep.render(await call(grep, pattern="two", path="sub/a.txt")) == "sub/a.txt:2:two"
    shown = grep.render(await call(grep, pattern="two", path="b.txt"))
    assert shown == "b.txt:1:two " + "é" * 496 + " [+500 characters]"
    assert not grep.side_effect


async def test_a_pattern_may_start_with_a_dash(root: Path, call: Call) -> None:
    write(root, a_txt="hello -world\n--help\n")
    assert [m.line for m in await call(grep, pattern="-world")] == [1]
    assert [m.line for m in await call(grep, pattern="--help")] == [2]
    assert [m.line for m in await call(grep, pattern="-e")] == []


async def test_literal_and_ignore_case_options_are_applied(root: Path, call: Call) -> None:
    write(root, a_txt="a.c\nabc\nA.C\nABC\nÉ\n")

    async def lines(**arguments: Any) -> list[int]:
        return [m.line for m in await call(grep, **arguments)]

    assert await lines(pattern="a.c") == [1, 2]
    assert await lines(pattern="a.c", literal=True) == [1]
    assert await lines(pattern="a.c", ignore_case=True) == [1, 2, 3, 4]
    assert await lines(pattern="a.c", literal=True, ignore_case=True) == [1, 3]
    assert await lines(pattern="é", ignore_case=True) == [5]
    assert await lines(pattern="[", literal=True) == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("[", "unclosed character class"),
        ("(a", "unclosed group"),
        ("(?=a)", "look-around"),
        (r"(a)\1", "backreferences are not supported"),
        (r"a\nb", "not allowed in a regex"),
        ("a\nb", "it has a line break"),
        ("a\0", "NUL"),
        ("x" * 70_000, "longer than 65,536 bytes"),
        ("\ud800", "lone surrogate"),
        (r"\w{999}{999}{999}", "size limit"),
    ],
)
async def test_invalid_regex_error_quotes_ripgrep(
    root: Path, call: Call, pattern: str, words: str
) -> None:
    write(root, a_txt="text")
    error = await error_of(call, pattern=pattern)
    assert error.code == "bad_pattern"
    assert words in error.message
    assert "--multiline" not in error.message
    error.message.encode()


async def test_grep_glob_selects_the_same_files_as_the_glob_tool(root: Path, call: Call) -> None:
    write(root, a_py="x", s__b_py="x", s__c_txt="x", s__t__d_py="x", _env="x", _h__e_py="x")
    for pattern in ("*.py", "s/*.py", "s/**", "{a,b}.py", "./*", ".env", "**", "[ab].py", ".h/*"):
        found = [m.path for m in await call(grep, pattern="x", glob=pattern)]
        assert found == await call(glob, pattern=pattern), pattern
        assert found
    assert [m.path for m in await call(grep, pattern="x", path="s", glob="t/*")] == ["s/t/d.py"]
    assert [m.path for m in await call(grep, pattern="x", path="a.py", glob="*.txt")] == []
    assert (await error_of(call, pattern="x", glob="[")).code == "bad_pattern"


async def test_hidden_and_ignored_files_are_skipped_unless_named(root: Path, call: Call) -> None:
    write(root, a_txt="x", _env="x", a_log="x", _git__config="x", build__b_txt="x")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    for arguments in ({}, {"glob": "**"}, {"glob": "*"}, {"glob": "**/*"}):
        assert [m.path for m in await call(grep, pattern="x", **arguments)] == ["a.txt"]
    for path in (".env", "a.log"):
        assert [m.path for m in await call(grep, pattern="x", path=path)] == [path]
    assert [m.path for m in await call(grep, pattern="x", path="build")] == ["build/b.txt"]


async def test_line_endings_are_excluded_from_lines(root: Path, call: Call) -> None:
    write(root, a_txt="foo\r\nfoo bar\r\nfoo")
    assert await call(grep, pattern="foo$") == [Match("a.txt", 1, "foo"), Match("a.txt", 3, "foo")]


async def test_byte_order_mark_is_excluded_from_the_first_line(root: Path, call: Call) -> None:
    write(root, a_txt=b"\xef\xbb\xbffoo\n")
    assert await call(grep, pattern="foo") == [Match("a.txt", 1, "foo")]


async def test_bytes_that_are_not_utf_8_are_replaced(root: Path, call: Call) -> None:
    write(root, a_txt=b"caf\xe9 one\n")
    assert await call(grep, pattern="one") == [Match("a.txt", 1, "caf\ufffd one")]


async def test_binary_files_are_skipped_and_refused_if_named(root: Path, call: Call) -> None:
    write(root, a_bin=b"foo\0", b_txt="foo\n", u_txt="foo".encode("utf-16"))
    # The NUL follows a match that ripgrep has already reported.
    write(root, late=b"foo\n" + b"x" * 300_000 + b"\nfoo\0\nfoo\n", z_txt="foo\n")
    expected = [Match("b.txt", 1, "foo"), Match("z.txt", 1, "foo")]
    assert await call(grep, pattern="foo") == expected
    assert await call(grep, pattern="foo", limit=9) == expected
    for path in ("a.bin", "late"):
        error = await error_of(call, pattern="foo", path=path)
        assert error.code == "not_text"
        assert "it has a NUL byte" in error.message


async def test_long_line_is_whole_and_a_longer_one_is_marked_truncated(
    root: Path, call: Call
) -> None:
    size = _lines.MAX_LINE_BYTES
    write(root, a_txt="x" * size + "\r\n" + "y" + "é" * (size // 2) + "z\nend\n")
    whole, cut = await call(grep, pattern="^[xy]")
    assert (whole.text, whole.cut) == ("x" * size, False)
    assert (cut.text, cut.cut) == ("y" + "é" * (size // 2 - 1), True)
    assert grep.render is not None
    assert grep.render([cut]).endswith("characters and more]")


async def test_grep_limit_returns_the_first_matches(root: Path, call: Call) -> None:
    write(root, a_txt="x\n" * 3, b__c_txt="x\n" * 2, b_txt="x\n", late=b"x\n" + b"\0" * 9)
    everything = await call(grep, pattern="x")
    assert len(everything) == 6
    for limit in range(1, 8):
        assert await call(grep, pattern="x", limit=limit) == everything[:limit]


async def test_grep_over_its_default_limit_is_an_error(root: Path, call: Call) -> None:
    most = _grep.DEFAULT_LIMIT
    write(root, a_txt="x\n" * most)
    assert len(await call(grep, pattern="x")) == most
    write(root, b_txt="x\n")
    error = await error_of(call, pattern="x")
    assert error.code == "too_many"
    assert error.details == {"limit": most}
    assert "pass limit=N" in error.message
    assert len(await call(grep, pattern="x", limit=most + 1)) == most + 1


async def test_total_text_of_matches_is_bounded(root: Path, call: Call) -> None:
    write(root, a_txt=("x" * 60_000 + "\n") * 100)
    error = await error_of(call, pattern="x", limit=100)
    assert error.code == "too_large"
    assert len(await call(grep, pattern="x", limit=60)) == 60


async def test_an_empty_pattern_matches_every_line(root: Path, call: Call) -> None:
    write(root, a_txt="a\n\nb\n")
    assert [m.text for m in await call(grep, pattern="")] == ["a", "", "b"]


async def test_unusual_file_names_are_parsed_unambiguously(root: Path, call: Call) -> None:
    note = 'x: binary file matches (found "\\0" byte around offset 1)\n\n./a'
    names = ["new\nline", "a:1:2:b", "-e", "{x}", "b.txt"]
    for name in names:
        (root / name).write_text(f"hit in {name!r}\n")
    (root / os.fsdecode(b"caf\xe9")).write_text("hit\n")
    found = {m.path: m.text for m in await call(grep, pattern="hit")}
    assert found == {name: f"hit in {name!r}" for name in names} | {"caf\ufffd": "hit"}
    (root / os.fsdecode(b"caf\xe9")).unlink()
    # A name that imitates ripgrep's messages may hide itself, but must not reveal anything.
    folder = root / note.rpartition("/")[0]
    folder.mkdir()
    (folder / "a").write_text("hit elsewhere\n")
    (root / "a").write_text("hit here\n")
    for match in await call(grep, pattern="hit"):
        assert (root / match.path).read_text() == f"{match.text}\n"


@pytest.mark.parametrize("path", ["..", "../outside", "/etc/passwd", "out", "file", "out/../x"])
async def test_grep_refuses_a_path_outside_the_root(
    root: Path, outside: Path, call: Call, path: str
) -> None:
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret.txt")
    assert (await error_of(call, pattern="SECRET", path=path)).code == "outside_root"


async def test_links_are_searched_only_if_named(root: Path, outside: Path, call: Call) -> None:
    write(root, sub__a_txt="x\n")
    (root / "inside").symlink_to("sub")
    (root / "out").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret.txt")
    assert await call(grep, pattern="x|SECRET") == [Match("sub/a.txt", 1, "x")]
    assert await call(grep, pattern="x", path="inside") == [Match("sub/a.txt", 1, "x")]
    assert await call(grep, pattern="x", path="inside/a.txt") == [Match("sub/a.txt", 1, "x")]


async def test_grep_refuses_a_fifo_without_blocking(root: Path, call: Call) -> None:
    os.mkfifo(root / "fifo")
    assert await call(grep, pattern="x") == []
    assert (await error_of(call, pattern="x", path="fifo")).code == "not_a_file"


@pytest.mark.parametrize("landlock", [True, False])
async def test_swapped_folder_never_yields_content_from_outside(
    root: Path, outside: Path, call: Call, landlock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not landlock:
        monkeypatch.setattr(_reading, "landlock_version", lambda: 0)
    for folder in (root / "d", outside):
        folder.mkdir(exist_ok=True)
        for number in range(20):
            (folder / f"f{number}").write_text(f"word {folder.name}\n")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "d").rename(root / "aside")
            (root / "d").symlink_to(outside)
            (root / "d").unlink()
            (root / "aside").rename(root / "d")

    swapper = threading.Thread(target=swap)
    swapper.start()
    texts: set[str] = set()
    try:
        for _ in range(40):
            texts |= {m.text for m in await call(grep, pattern="word")}
    finally:
        stop.set()
        swapper.join()
    texts |= {m.text for m in await call(grep, pattern="word")}
    assert texts == {"word d"}


async def test_ripgrep_itself_cannot_open_a_file_outside(
    root: Path, outside: Path, call: Call
) -> None:
    if _reading.landlock_version() <= 0:
        pytest.skip("this kernel has no Landlock")
    write(root, a_txt="one\n")
    # The one way to make ripgrep read a file by its name: a list of patterns.
    with Root(root) as opened:
        for name, allowed in ((root / "a.txt", True), (outside / "secret.txt", False)):
            ripgrep = _ripgrep.Ripgrep()
            place = opened.locate(".")
            try:
                if allowed:
                    found = list(ripgrep.lines(opened, place, [f"--file={name}"]))
                    assert found == [("a.txt", _ripgrep.Hit(1, 0))]
                else:
                    with pytest.raises(ToolError, match="Permission denied"):
                        list(ripgrep.lines(opened, place, [f"--file={name}"]))
            finally:
                ripgrep.end()


def openat2_truncating(path: Path) -> None:
    at_cwd, number = -100, 437
    how = struct.pack("=QQQ", os.O_RDONLY | os.O_TRUNC, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_int(at_cwd), os.fsencode(path), how, ctypes.c_size_t(len(how)))
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        raise OSError(ctypes.get_errno(), "openat2")


@pytest.mark.parametrize("filtered", [True, False])
def test_reading_thread_cannot_change_files(
    root: Path, filtered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if _reading.landlock_version() < 3:
        pytest.skip("this kernel's Landlock does not know truncation")
    if not filtered:
        monkeypatch.setattr(_reading, "_refuse_truncation", lambda: False)
    (root / "a").write_text("text")
    ways: list[Callable[[], object]] = [
        lambda: os.truncate(root / "a", 0),
        lambda: os.open(root / "a", os.O_WRONLY),
        lambda: os.open(root / "a", os.O_RDONLY | os.O_TRUNC),
        lambda: os.open(root / "b", os.O_WRONLY | os.O_CREAT),
        lambda: os.unlink(root / "a"),
        lambda: os.rename(root / "a", root / "b"),
        lambda: os.symlink("a", root / "b"),
        lambda: os.mkdir(root / "b"),
        lambda: os.execv("/bin/true", ["true"]),  # noqa: S606  # must not start
        lambda: openat2_truncating(root / "a"),
    ]
    with open_folder(root) as folder:
        assert isinstance(folder, PosixFolder)
        for way in ways:
            with pytest.raises(PermissionError):
                _reading.in_reading_thread(way, folder.fd, "/bin/cat")
        assert _reading.in_reading_thread((root / "a").read_text, folder.fd, "/bin/cat") == "text"
    assert os.listdir(root) == ["a"]


async def test_missing_ripgrep_error_says_how_to_install_it(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(root / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(root))
    monkeypatch.setenv("PATH", str(root))
    _ripgrep._binary.cache_clear()
    try:
        assert 'pip install "ripgrep' in (await error_of(call, pattern="x")).message
        (root / "rg").write_text("#!/bin/sh\n")
        (root / "rg").chmod(0o755)
        assert _ripgrep._binary() == str(root / "rg")
        # An rg in the folder in which the host was started is never used.
        _ripgrep._binary.cache_clear()
        monkeypatch.setattr("sys.executable", "")
        monkeypatch.setattr("sysconfig.get_path", lambda name: "scripts")
        monkeypatch.setenv("PATH", ".::")
        monkeypatch.chdir(root)
        assert "is not installed" in (await error_of(call, pattern="x")).message
    finally:
        _ripgrep._binary.cache_clear()


def process_names() -> list[str]:
    """Names of all child processes, including zombies."""
    names = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if rest.split()[1] == str(os.getpid()):
            names.append(name)
    return names


async def until_running() -> None:
    while "rg" not in process_names():
        await anyio.sleep(0.01)


def slow_workspace(root: Path) -> dict[str, Any]:
    """Files and arguments that keep ripgrep busy for minutes."""
    (root / "f0").write_text(("abcdefghij" * 20 + "\n") * 20_000)
    for number in range(1, 400):
        (root / f"f{number}").hardlink_to(root / "f0")
    return {"pattern": r"(?i)[a-z]{60,90}.{90,120}[0-9]$"}


async def test_a_cancelled_search_leaves_no_process(root: Path, call: Call) -> None:
    arguments = slow_workspace(root)
    before = len(os.listdir("/proc/self/fd"))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:

            async def search() -> None:
                await call(grep, **arguments)

            group.start_soon(search)
            await until_running()
            group.cancel_scope.cancel()
        assert "rg" not in process_names()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_search_whose_asyncio_task_is_cancelled_leaves_no_process(
    root: Path, call: Call, anyio_backend: str
) -> None:
    arguments = slow_workspace(root)
    with anyio.fail_after(20):
        task = asyncio.ensure_future(call(grep, **arguments))
        await until_running()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert "rg" not in process_names()


async def test_a_search_that_stops_at_its_limit_leaves_no_process(root: Path, call: Call) -> None:
    arguments = slow_workspace(root) | {"pattern": "abc", "limit": 1}
    with anyio.fail_after(20):
        assert len(await call(grep, **arguments)) == 1
        assert "rg" not in process_names()


async def test_huge_line_cannot_exhaust_the_memory(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_spawn, "MAX_MEMORY_BYTES", 50_000_000)
    write(root, a_txt=b"x" * 10_000_000, b_txt=b"hit\n")
    assert len(await call(grep, pattern="hit", limit=9)) == 1
    write(root, a_txt=b"x" * 100_000_000)
    error = await error_of(call, pattern="hit", limit=9)
    assert error.code == "failed"
    assert "out of memory" in error.message


async def test_a_file_that_cannot_be_opened_is_skipped(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Landlock denies ripgrep the folder `closed`, as missing permissions would (root has all).
    write(root, open__a_txt="x\n", closed__b_txt="x\n")
    allow = _reading._allow

    def only_open(rules: int, fd: int, rights: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}") == str(root):
            fd = os.open(root / "open", os.O_PATH)
            allow(rules, fd, rights)
            os.close(fd)
        else:
            allow(rules, fd, rights)

    if _reading.landlock_version() <= 0:
        pytest.skip("this kernel has no Landlock")
    monkeypatch.setattr(_reading, "_allow", only_open)
    assert await call(grep, pattern="x") == []
    assert await call(grep, pattern="x", path="open") == [Match("open/a.txt", 1, "x")]


def test_builtin_toolset_has_its_tools_in_order() -> None:
    import ptc_tools

    toolset = ptc_tools.builtin()
    assert toolset.name == "builtin"
    assert [tool.name for tool in toolset][:9] == [
        *("read", "read_files", "attach_file", "ls", "glob", "grep", "write", "edit", "patch")
    ]
    assert [getattr(ptc_tools, tool.name) for tool in list(toolset)[:9]] == list(toolset)[:9]
    with pytest.raises(AttributeError, match="has no attribute 'wirte'"):
        _ = ptc_tools.wirte


# --- context, files, counts ---------------------------------------------------------------------


async def test_context_is_returned_as_lists_of_lines(root: Path, call: Call) -> None:
    write(root, a_txt="\ufeffone\r\ntwo\r\nthree\nfour\nfive")
    [match] = await call(grep, pattern="three", context=1)
    assert match == Match("a.txt", 3, "three", False, ["two"], ["four"])
    [match] = await call(grep, pattern="three", context=20)
    assert (match.before, match.after) == (["one", "two"], ["four", "five"])
    [first] = await call(grep, pattern="one", context=2)
    assert (first.text, first.before, first.after) == ("one", [], ["two", "three"])
    [last] = await call(grep, pattern="five", context=2)
    assert (last.before, last.after) == (["three", "four"], [])
    assert (await call(grep, pattern="five"))[0].before == []


async def test_context_ends_at_the_file_boundaries(root: Path, call: Call) -> None:
    write(root, a_txt="x\n\n\n", b_txt="\n\nx")
    first, second = await call(grep, pattern="x", context=3)
    assert (first.before, first.after) == ([], ["", ""])
    assert (second.before, second.after) == (["", ""], [])


async def test_too_distant_context_line_is_omitted_entirely(root: Path, call: Call) -> None:
    write(root, a_txt="a" * 70_000 + "\nnear\nx\nnear\n" + "a" * 70_000 + "\n")
    [match] = await call(grep, pattern="x", context=3)
    assert (match.before, match.after) == (["near"], ["near"])
    edge = "b" * 65_535
    write(root, a_txt=f"{edge}\nx\n{edge}\n")
    [match] = await call(grep, pattern="x", context=1)
    assert match.after == [edge]
    assert match.before in ([], [edge])


async def test_grep_renders_context_in_grep_format(root: Path, call: Call) -> None:
    write(root, a_txt="1\nx 2\n3\nx 4\n5\n6\n7\n8\nx 9\n", b_txt="x 1\n2\n")
    assert grep.render is not None
    assert grep.render(await call(grep, pattern="x", context=1)).splitlines() == [
        "a.txt-1-1",
        "a.txt:2:x 2",
        "a.txt-3-3",
        "a.txt:4:x 4",
        "a.txt-5-5",
        "--",
        "a.txt-8-8",
        "a.txt:9:x 9",
        "--",
        "b.txt:1:x 1",
        "b.txt-2-2",
    ]
    assert "--" not in grep.render(await call(grep, pattern="x"))


async def test_context_counts_towards_the_text_limit(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_grep, "MAX_TEXT_BYTES", 1_000)
    write(root, a_txt=("y" * 200 + "\nx\n") * 3)
    assert len(await call(grep, pattern="x")) == 3
    assert (await error_of(call, pattern="x", context=5)).code == "too_large"


@pytest.mark.parametrize(
    "arguments", [{"context": 1, "output": "files"}, {"context": 1, "output": "count"}]
)
async def test_context_is_refused_without_lines_output(
    root: Path, call: Call, arguments: dict[str, Any]
) -> None:
    assert (await error_of(call, pattern="x", **arguments)).code == "invalid_arguments"


@pytest.mark.parametrize(
    "arguments", [{"context": -1}, {"context": 21}, {"output": "json"}, {"limit": 0}]
)
def test_grep_refuses_invalid_arguments(arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        grep.validate({"pattern": "x", **arguments})
    assert caught.value.code == "invalid_arguments"


async def test_file_and_count_outputs_agree_with_the_matches(root: Path, call: Call) -> None:
    write(root, b_txt="x\nx x\n", a__z_txt="x\n", a_txt="x\n" * 3, no_txt="y", bin="x\n\0")
    matches = await call(grep, pattern="x")
    files = await call(grep, pattern="x", output="files")
    counts = await call(grep, pattern="x", output="count")
    assert files == ["a/z.txt", "a.txt", "b.txt"]
    assert counts == [MatchCount("a/z.txt", 1), MatchCount("a.txt", 3), MatchCount("b.txt", 2)]
    assert sum(count.count for count in counts) == len(matches)
    assert grep.render is not None
    assert grep.render(files) == "a/z.txt\na.txt\nb.txt"
    assert grep.render(counts) == "a/z.txt:1\na.txt:3\nb.txt:2"
    assert await call(grep, pattern="x", output="count", path="b.txt") == [MatchCount("b.txt", 2)]
    assert await call(grep, pattern="z", output="files") == []
    for limit in (1, 2, 3):
        assert await call(grep, pattern="x", output="files", limit=limit) == files[:limit]
        assert await call(grep, pattern="x", output="count", limit=limit) == counts[:limit]


async def test_count_output_is_limited_by_files_and_not_by_lines(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_grep, "DEFAULT_LIMIT", 2)
    write(root, a="x\n" * 100, b="x\n")
    assert (await error_of(call, pattern="x")).code == "too_many"
    assert await call(grep, pattern="x", output="count") == [
        MatchCount("a", 100),
        MatchCount("b", 1),
    ]
    write(root, c="x")
    assert (await error_of(call, pattern="x", output="files")).code == "too_many"


async def test_several_globs_are_alternatives(root: Path, call: Call) -> None:
    write(root, a_py="x", s__b_py="x", s__c_txt="x", d_md="x", _env="x")
    for patterns, found in (
        (["*.py", "*.md"], ["a.py", "d.md", "s/b.py"]),
        (["s/*", "./*.md"], ["d.md", "s/b.py", "s/c.txt"]),
        ([".env"], [".env"]),
        ([".env", "*.md"], [".env", "d.md"]),
    ):
        assert await call(grep, pattern="x", glob=patterns, output="files") == found
    for wrong in ([], ["*.py", "["], ["a"] * 33):
        assert (await error_of(call, pattern="x", glob=wrong)).code == "bad_pattern"
