from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import ToolError
from ptc_tools import glob
from ptc_tools.files import _reading
from ptc_tools.search import _glob
from ptc_tools.search._pattern import compile_pattern

pytestmark = pytest.mark.anyio

Call = Callable[..., Awaitable[Any]]


def touch(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", ".a.py", "x/.y/a.py", ".x/a.py"]),
        ("./*.py", ["a.py"], ["x/a.py"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "src/.x/a.py"]),
        ("**/test_*.py", ["test_a.py", "x/test_.py"], ["x/a_test.py"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "a"]),
        ("**", ["a", "x/y"], [".a", "x/.y", ".x/y"]),
        ("**/x/**/y/*", ["x/y/a", "b/x/c/y/a"], ["y/x/a", "x/a"]),
        ("*", ["a", "x/y"], [".a"]),
        ("?.t", ["a.t", "é.t", "x/b.t"], ["ab.t", ".t"]),
        ("[a-c].t", ["b.t"], ["d.t"]),
        ("[!a-c].t", ["d.t"], ["b.t", "..t"]),
        ("[^a].t", ["d.t", "^.t"], ["a.t"]),
        ("[]x].t", ["].t", "x.t"], ["a.t"]),
        ("[a-].t", ["-.t", "a.t"], ["b.t"]),
        ("*.{ts,tsx}", ["a.ts", "x/a.tsx"], ["a.js"]),
        ("{a,b/*}.{c,d{e,f}}", ["a.c", "x/a.df", "b/q.de"], ["b/a/q.c", "a.d"]),
        (".env*", [".env", "x/.env.local"], ["env", ".x/.env"]),
        (".github/**", [".github/a", ".github/w/a.yml"], [".github/.a", ".gitlab/a"]),
        ("**/.config/*", ["x/.config/a", ".config/a"], [".x/.config/a"]),
        ("a*b*c", ["abc", "a-b-b-c", "abcbc"], ["ab", "acb", "abcd"]),
        ("*a", ["a", "aa", "ba"], ["ab"]),
        ("a\\*b", ["a*b"], ["axb"]),
        ("\\[x\\]", ["[x]"], ["x"]),
        ("a+(b).c$", ["a+(b).c$"], ["aab.c"]),
        ("A.py", ["A.py"], ["a.py"]),
    ],
)
def test_pattern_matches_exactly_the_listed_paths(
    pattern: str, yes: list[str], no: list[str]
) -> None:
    compiled = compile_pattern(pattern)
    for path in yes:
        assert compiled.matches(path.split("/")), path
    for path in no:
        assert not compiled.matches(path.split("/")), path


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("", "1 to 1,000 characters"),
        ("a" * 1_001, "1 to 1,000 characters"),
        ("a\0", "none of them NUL"),
        ("/etc/*", "it is absolute"),
        ("../*", "below the folder"),
        ("a/../b", "below the folder"),
        (".", "below the folder"),
        ("src/", 'end it with "/**"'),
        ("[a", 'a "[" is not closed'),
        ("[z-a]", "runs backwards"),
        ("{a,b", 'a "{" is not closed'),
        ("a\\", "nothing to escape"),
        ("{a,b}" * 9, "more than 256 alternatives"),
    ],
)
def test_invalid_pattern_error_states_the_reason(pattern: str, words: str) -> None:
    with pytest.raises(ToolError) as caught:
        compile_pattern(pattern)
    assert caught.value.code == "bad_pattern"
    assert words in caught.value.message


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 100 + "b", "a" * 255),
        ("**/" * 300 + "x", "/".join("a" * 500)),
        ("**/a/" * 190 + "x", "/".join("a" * 500)),
        ("**/*a*/" * 60 + "x", "/".join(["a" * 50] * 80)),
        ("?*" * 100 + "b", "a" * 255),
        ("{" * 499 + "}" * 499 + "a", "a"),
    ],
)
def test_no_pattern_takes_exponential_time(pattern: str, path: str) -> None:
    # An exponential match would not end within the life of the universe.
    assert compile_pattern(pattern).matches(path.split("/")) is (path == "a")


async def test_paths_are_sorted_and_relative_to_the_root(root: Path, call: Call) -> None:
    touch(root, "b.py", "a/z.py", "a.py", "a-b/c.py", "a/b/c.py", "a.txt")
    assert await call(glob, pattern="*.py") == [
        "a/b/c.py",
        "a/z.py",
        "a-b/c.py",
        "a.py",
        "b.py",
    ]
    assert await call(glob, pattern="b/*.py", path="a") == ["a/b/c.py"]
    assert await call(glob, pattern="*.py", path=f"{root}/a/b/") == ["a/b/c.py"]


async def test_glob_without_a_match_returns_an_empty_list(root: Path, call: Call) -> None:
    assert await call(glob, pattern="*.py") == []
    assert glob.render is not None
    assert glob.render([]) == "No files match"
    assert glob.render(["a", "b/c"]) == "a\nb/c"


async def test_glob_returns_regular_files_only(root: Path, outside: Path, call: Call) -> None:
    touch(root, "sub/file")
    (root / "link").symlink_to("sub/file")
    (root / "folder").symlink_to("sub")
    (root / "out").symlink_to(outside)
    os.mkfifo(root / "fifo")
    assert await call(glob, pattern="**") == ["sub/file"]


async def test_a_link_to_a_folder_inside_can_be_searched_by_name(root: Path, call: Call) -> None:
    touch(root, "sub/file")
    (root / "folder").symlink_to("sub")
    assert await call(glob, pattern="*", path="folder") == ["sub/file"]


@pytest.mark.parametrize("path", ["..", "out", "/etc", "../outside"])
async def test_glob_refuses_a_folder_outside_the_root(
    root: Path, outside: Path, call: Call, path: str
) -> None:
    (root / "out").symlink_to(outside)
    with pytest.raises(ToolError) as caught:
        await call(glob, pattern="*", path=path)
    assert caught.value.code == "outside_root"


async def test_glob_refuses_a_file_as_its_folder(root: Path, call: Call) -> None:
    touch(root, "a")
    with pytest.raises(ToolError) as caught:
        await call(glob, pattern="*", path="a")
    assert caught.value.code == "not_a_directory"


async def test_hidden_names_match_only_a_pattern_with_the_dot(root: Path, call: Call) -> None:
    touch(root, ".env", ".github/w/ci.yml", ".github/.x", "a/.b/c.yml", "a/d.yml", ".git/config")
    assert await call(glob, pattern="**") == ["a/d.yml"]
    assert await call(glob, pattern="*.yml") == ["a/d.yml"]
    assert await call(glob, pattern=".env") == [".env"]
    assert await call(glob, pattern=".github/**") == [".github/w/ci.yml"]
    assert await call(glob, pattern="**/*.yml", path=".github") == [".github/w/ci.yml"]


async def test_ignored_files_stay_ignored_with_any_pattern(root: Path, call: Call) -> None:
    touch(root, "a.log", "b.txt", "build/c.txt", "sub/d.tmp", "sub/e.txt", "sub/keep.log")
    (root / ".gitignore").write_text("*.log\n/build/\n")
    (root / "sub" / ".gitignore").write_text("*.tmp\n!keep.log\n")
    for pattern in ("**", "*", "**/*", "{*,x}", "*.*"):
        assert await call(glob, pattern=pattern) == ["b.txt", "sub/e.txt", "sub/keep.log"]
    assert await call(glob, pattern="*.log") == ["sub/keep.log"]
    assert await call(glob, pattern="build/*") == []


async def test_negated_ignore_rule_does_not_reveal_a_hidden_file(root: Path, call: Call) -> None:
    touch(root, ".env.example", "a")
    (root / ".gitignore").write_text(".env*\n!.env.example\n")
    assert await call(glob, pattern="**") == ["a"]
    assert await call(glob, pattern=".env*") == [".env.example"]


async def test_an_ignored_folder_can_be_searched_by_name(root: Path, call: Call) -> None:
    touch(root, "build/a/b.txt")
    (root / ".gitignore").write_text("build/\n")
    assert await call(glob, pattern="**", path="build") == ["build/a/b.txt"]
    assert await call(glob, pattern="**", path="build/a") == ["build/a/b.txt"]


@pytest.mark.parametrize("name", [".gitignore", ".ignore", ".rgignore"])
async def test_ignore_files_between_root_and_folder_are_applied(
    root: Path, call: Call, name: str
) -> None:
    touch(root, "p/q/a.log", "p/q/a.txt", "p/q/r/b.tmp", "p/q/r/c.txt", "p/q/c.txt", "p/q/#d")
    (root / name).write_text("# comment\n\n*.log\n/p/q/c.txt\n")
    (root / "p" / name).write_text("*.tmp\n/q/a.txt\nr/c.txt\n\\#d\n")
    expected = ["p/q/r/c.txt"]
    assert await call(glob, pattern="**") == expected
    assert await call(glob, pattern="**", path="p") == expected
    assert await call(glob, pattern="**", path="p/q") == expected
    assert await call(glob, pattern="**", path="p/q/r") == expected


async def test_nearer_ignore_file_takes_precedence(root: Path, call: Call) -> None:
    touch(root, "p[1]/q/a.log", "p[1]/q/b.tmp")
    (root / ".gitignore").write_text("*.log\n*.tmp\n")
    (root / "p[1]" / ".gitignore").write_text("!*.log\n")
    (root / "p[1]" / "q" / ".gitignore").write_text("!b.tmp\n")
    for path in (".", "p[1]", "p[1]/q"):
        assert await call(glob, pattern="**", path=path) == ["p[1]/q/a.log", "p[1]/q/b.tmp"]


async def test_ignore_file_applies_with_and_without_a_repository(root: Path, call: Call) -> None:
    touch(root, "inner/.git/HEAD", "inner/a.log", "inner/sub/b.log", "inner/sub/c.txt")
    (root / ".gitignore").write_text("*.log\n")
    for path in (".", "inner", "inner/sub"):
        assert await call(glob, pattern="**", path=path) == ["inner/sub/c.txt"]


@pytest.mark.parametrize("landlock", [True, False])
async def test_ignore_file_above_the_root_is_not_applied(
    root: Path, call: Call, landlock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not landlock:
        monkeypatch.setattr(_reading, "landlock_version", lambda: 0)
    touch(root, "a.txt", "sub/b.txt")
    for name in (".gitignore", ".ignore", ".rgignore"):
        (root.parent / name).write_text("*\n")
    home = root.parent / "home"
    touch(home, ".config/git/ignore")
    (home / ".config" / "git" / "ignore").write_text("*\n")
    (home / "rc").write_text("--glob=!*\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(home / "rc"))
    assert await call(glob, pattern="**") == ["a.txt", "sub/b.txt"]
    assert await call(glob, pattern="**", path="sub") == ["sub/b.txt"]


async def test_an_ignore_file_that_links_outside_is_not_read(
    root: Path, outside: Path, call: Call
) -> None:
    touch(root, "SECRET", "sub/SECRET", "sub/deep/SECRET")
    if _reading.landlock_version() <= 0:
        pytest.skip("this kernel has no Landlock")
    (outside / "rules").write_text("SECRET\n")
    (root / ".gitignore").symlink_to(outside / "rules")
    (root / "sub" / ".ignore").symlink_to("../../outside/rules")
    found = ["SECRET", "sub/SECRET", "sub/deep/SECRET"]
    for path in (".", "sub", "sub/deep"):
        expected = [f for f in found if path == "." or f.startswith(f"{path}/")]
        assert sorted(await call(glob, pattern="**", path=path)) == sorted(expected)


async def test_glob_limit_returns_the_first_paths(root: Path, call: Call) -> None:
    touch(root, "b", "a/z", "a.x", "c", "a-/q")
    everything = await call(glob, pattern="**")
    for limit in range(1, 7):
        assert await call(glob, pattern="**", limit=limit) == everything[:limit]


async def test_glob_over_its_default_limit_is_an_error(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_glob, "DEFAULT_LIMIT", 3)
    touch(root, "a", "b", "c")
    assert len(await call(glob, pattern="**")) == 3
    touch(root, "d")
    with pytest.raises(ToolError, match="pass limit=N") as caught:
        await call(glob, pattern="**")
    assert caught.value.code == "too_many"
    assert caught.value.details == {"limit": 3}


async def test_files_with_unusual_names_are_found(root: Path, call: Call) -> None:
    names = ["-e", "--help", "a b", "new\nline", "x: WARNING", "tab\t", "{a}", "[b]", "é🙂", "~"]
    touch(root, *names)
    (root / os.fsdecode(b"caf\xe9.x")).touch()
    assert await call(glob, pattern="**") == sorted([*names, "caf\ufffd.x"])
    touch(root, "-d/-f")
    assert await call(glob, pattern="*", path="-d") == ["-d/-f"]


async def test_concurrent_searches_are_independent(root: Path, call: Call) -> None:
    for number in range(12):
        touch(root, f"d{number}/f{number}")
    found: dict[int, list[str]] = {}

    async def one(number: int) -> None:
        found[number] = await call(glob, pattern="*", path=f"d{number}")

    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(one, number)
    assert found == {number: [f"d{number}/f{number}"] for number in range(12)}


async def test_glob_pages_are_contiguous(root: Path, call: Call) -> None:
    touch(root, "b", "a/z", "a.x", "c", "a-/q", "a/b/c", "a/b.c", "é", "Z")
    everything = await call(glob, pattern="**")
    for limit in (1, 2, 3, 8, 100):
        found: list[str] = []
        after = None
        while page := await call(glob, pattern="**", limit=limit, after=after):
            assert len(page) <= limit
            found += page
            after = page[-1]
        assert found == everything
    assert await call(glob, pattern="**", after="a.x") == everything[everything.index("a.x") + 1 :]
    assert await call(glob, pattern="**", after="a/zz") == everything[everything.index("a/z") + 1 :]
