"""The table of protected paths: names, spellings, git folders; without any file system."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ptc._protected import RULES, Protection, explain, liftable


def judge(
    path: str,
    *,
    there: str = "",
    protection: Protection | None = None,
    by_program: bool = True,
    replaces: bool = False,
) -> str | None:
    """The rule that refuses a change of `path`, where the entries in `there` exist."""
    entries = set(there.split())
    # An entry brings the folders above it.
    folders = {entry[:at] for entry in entries for at, c in enumerate(entry) if c == "/"}

    def exists(parts: Sequence[str]) -> bool:
        return not parts or "/".join(parts) in entries | folders

    found = (protection or Protection()).refusal(
        path.split("/"), exists, by_program=by_program, replaces=replaces
    )
    return None if found is None else found.rule


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        (".ptc", "state"),
        (".ptc/artifacts/x.json", "state"),
        (".local/state/ptc/ptc-journals/x.sqlite3-wal", "state"),
        ("a/b/.ptc/x", "state"),
        (".git", "git"),
        (".git/config", "git"),
        ("sub/dir/.git/hooks/pre-commit", "git"),
        (".husky/pre-commit", "hooks"),
        (".pre-commit-config.yaml", "hooks"),
        (".lefthook-local.yml", "hooks"),
        ("packages/web/.envrc", "shell"),
        (".bashrc", "shell"),
        (".vscode/tasks.json", "editor"),
        (".idea/workspace.xml", "editor"),
        ("ours.code-workspace", "editor"),
        ("ptc.toml", "ptc"),
        ("PTC.TOML", "ptc"),
        (".local/state/ptc/ptc-trusted/x", "state"),
        (".mcp.json", "agent"),
        (".claude/settings.local.json", "agent"),
    ],
)
def test_protected_name_is_refused_at_any_depth_with_everything_beneath(
    path: str, rule: str
) -> None:
    assert judge(path) == rule
    assert judge(f"deep/er/{path}") == rule
    assert judge(f"{path}/beneath") == rule


@pytest.mark.parametrize(
    "path",
    [
        "src/main.py", ".gitignore", ".gitattributes", ".gitmodules", ".github/workflows/ci.yml",
        "git", "gitconfig", "x.git", "ptc", ".ptc-0123456789abcdef.tmp", "vscode/a", "envrc",
        "config", "hooks/pre-commit", "src/objects/a.py", "refs", "head", "src/head.py", ".env",
        "Makefile", "package.json", "profile", "~", "a~1", "CLAUDE.md", "a:b", "...",
    ],
)  # fmt: skip
def test_unprotected_names_may_change(path: str) -> None:
    assert judge(path) is None


@pytest.mark.parametrize(
    "name",
    [
        ".GIT", ".Git", ".gIt", ".git.", ".git ", ".git. .", ".git::$INDEX_ALLOCATION", ".git:x",
        "GIT~1", "git~2", ".g\u200dit", "\ufeff.git", ".gi\u2060t", ".g\ufe0fit", "\uff0egit",
        ".\uff47\uff49\uff54",
        ".VSCODE", ".v\u017fcode", "VSCODE~1", ".\u200cenvrc", ".ENVRC", "ENVRC~1", ".MCP.json",
        "MCP~1.JSO", ".PTC", "PTC~1", ".ptc.", "X.CODE-WORKSPACE",
    ],
)  # fmt: skip
def test_every_spelling_of_a_protected_name_is_recognized(name: str) -> None:
    assert judge(name) is not None
    assert judge(f"a/{name}/config") is not None


DATA = [
    "index", "index.lock", "index.stash.123", "next-index-77.lock", "HEAD", "HEAD.lock",
    "ORIG_HEAD", "FETCH_HEAD", "CHERRY_PICK_HEAD.lock", "COMMIT_EDITMSG", "MERGE_MSG",
    "packed-refs", "packed-refs.lock", "packed-refs.new", "logs", "logs/HEAD",
    "logs/refs/heads/main", "refs/heads/config", "refs/heads/hooks/x", "refs/remotes/origin/HEAD",
    "objects/ab/cdef", "objects/info/commit-graph", "objects/pack/tmp_pack_x", "info/exclude",
    "info/sparse-checkout.lock", "shallow", "shallow.lock", "gc.pid", "BISECT_LOG",
    "objects/tmp_objdir-incoming-x/pack/p", "reftable/tables.list",
]  # fmt: skip
POWER = [
    "", "config", "config.lock", "config.worktree", "hooks", "hooks/pre-commit", "info",
    "info/attributes", "info/grafts", "commondir", "gitdir", "branches/x", "remotes/x", "modules",
    "modules/x", "worktrees", "worktrees/x", "rebase-merge/git-rebase-todo", "rebase-apply/patch",
    "HEAD/x", "index/x", "COMMIT_EDITMSG/x", "logs/objects", "logs/config", "logs/HEAD/x", "Config",
    "newly-invented", "fsmonitor--daemon", "lfs/x", "description", "rr-cache/1/postimage",
    "MERGE_RR", "sequencer/opts", "sharedindex.12", "objects/info/alternates",
    "objects/info/http-alternates",
]  # fmt: skip


@pytest.mark.parametrize("prefix", [".git", "a/b/.git", ".GIT"])
def test_only_data_files_of_a_git_folder_may_change(prefix: str) -> None:
    for name in DATA:
        assert judge(f"{prefix}/{name}") is None, name
    for name in POWER:
        assert judge(f"{prefix}/{name}".rstrip("/")) == "git", name


@pytest.mark.parametrize("inner", ["modules/lib", "modules/libs/deep/x", "worktrees/w"])
def test_submodule_and_work_tree_folders_are_git_folders(inner: str) -> None:
    for name in DATA:
        assert judge(f".git/{inner}/{name}") is None, name
    for name in POWER:
        assert judge(f".git/{inner}/{name}".rstrip("/")) == "git", name


def test_only_commands_may_change_git_data() -> None:
    for name in (*DATA, *POWER[1:]):
        assert judge(f".git/{name}".rstrip("/"), by_program=False) == "git", name
        assert judge(f"b/{name}".rstrip("/"), there="b/HEAD b/objects b/refs", by_program=False)


@pytest.mark.parametrize("folder", [".git", ".git/modules/x", "b"])
def test_existing_git_objects_cannot_be_replaced(folder: str) -> None:
    there = "b/HEAD b/objects b/refs"
    for name in (
        "objects",
        "objects/ab",
        "objects/ab/cd",
        "objects/pack",
        "objects/pack/pack-1.idx",
    ):
        assert judge(f"{folder}/{name}", there=there, replaces=True) == "git"
        assert judge(f"{folder}/{name}", there=there) is None
    for name in (
        *("objects/ab/tmp_obj_1", "objects/pack/tmp_idx_2", "objects/pack/.tmp-9-pack-2.idx"),
        *("objects/maintenance.lock", "objects/info/commit-graph", "refs"),
    ):
        assert judge(f"{folder}/{name}", there=there, replaces=True) is None


def test_git_folder_is_recognized_by_its_contents() -> None:
    there = "x.git/HEAD x.git/objects x.git/refs a/w/HEAD a/w/commondir HEAD"
    for folder in ("x.git", "a/w"):
        for name in DATA:
            assert judge(f"{folder}/{name}", there=there) is None, name
        for name in POWER[1:]:
            assert judge(f"{folder}/{name}", there=there) == "git", name
    assert judge("x.git/refs/heads/main", there=there) is None
    assert judge("a/config", there=there) is None
    # The root itself may be one.
    assert judge("config", there="HEAD objects refs") == "git"
    assert judge("config", there="HEAD objects") is None


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("b/HEAD", ""),
        ("b/HEAD", "b/objects b/refs"),
        ("b/head", "b/objects"),
        ("b/Head", "b/commondir"),
        ("b/objects", "b/HEAD"),
        ("b/objects/aa/b", "b/HEAD"),
        ("b/refs", "b/HEAD"),
        ("b/REFS", "b/HEAD b/objects"),
        ("b/commondir", "b/HEAD"),
        ("HEAD", ""),
        ("objects", "HEAD"),
        (".git/refs/x/HEAD", ".git/refs/x/objects"),
        (".git/refs/x/objects", ".git/refs/x/HEAD"),
        (".git/objects/y/commondir", ".git/objects/y/HEAD"),
    ],
)
def test_folder_cannot_be_turned_into_a_git_folder(path: str, there: str) -> None:
    assert judge(path, there=there) == "git"


def test_single_git_like_name_outside_a_git_folder_may_change() -> None:
    assert judge("docs/HEAD", there="docs/HEAD") is None
    assert judge("src/objects/a", there="src/refs") is None
    assert judge("src/head", there="src/main.c") is None


def test_every_top_level_dot_name_of_a_home_is_protected() -> None:
    protection = Protection(home=("home", "ann"))
    for path in (
        "home/ann/.config/fish/conf.d/x.fish",
        "home/ann/.local/bin/ls",
        "home/ann/bin/ls",
    ):
        assert judge(path, protection=protection) == "home"
    # Moved away, another could take its place.
    assert judge("home", protection=protection) == "home"
    assert judge("home/ann", protection=protection) == "home"
    assert judge("home/ann/src/.hidden", protection=protection) is None
    assert judge("home/bob/.hidden", protection=protection) is None
    assert judge("home/ann/src/a", protection=protection) is None
    assert judge(".hidden", protection=Protection(home=())) == "home"
    assert judge(".hidden", protection=Protection(["home"], home=())) is None


@pytest.mark.parametrize(
    ("lifted", "free", "closed"),
    [
        ("git", ".git/config", ".vscode/x"),
        (".git", ".git/hooks/x", ".vscode/x"),
        ("editor", ".vscode/x", ".git/config"),
        (".vscode", ".vscode/x", ".idea/x"),
        ("*.code-workspace", "a.code-workspace", ".vscode/x"),
        ("shell", ".envrc", ".mcp.json"),
    ],
)
def test_unprotecting_a_rule_or_name_unprotects_nothing_else(
    lifted: str, free: str, closed: str
) -> None:
    protection = Protection([lifted])
    assert judge(free, protection=protection) is None
    assert judge(closed, protection=protection) is not None
    assert lifted in liftable()


def test_unprotecting_git_includes_git_folders_of_any_name() -> None:
    assert judge("b/HEAD", protection=Protection(["git"])) is None
    assert (
        judge("b/config", there="b/HEAD b/refs b/objects", protection=Protection([".git"])) is None
    )


def test_state_of_ptc_cannot_be_unprotected() -> None:
    assert not {"state", ".ptc"} & set(liftable())
    assert judge(".ptc/x", protection=Protection(["state", ".ptc"])) == "state"


def test_refusal_names_the_rule_and_how_to_unprotect_the_path() -> None:
    text = explain("a/.envrc", "shell", ".envrc")
    assert "'a/.envrc' is protected by the rule 'shell': shells run it" in text
    assert "Session(unprotected=['.envrc'])" in text
    assert "--unprotect '.envrc'" in text
    assert "cannot be lifted" in explain(".ptc/x", "state", ".ptc")
    assert len(explain("x" * 10_000, "git", "git")) < 600
    for rule in RULES:
        assert rule.reason in explain("x", rule.name, rule.name)


def test_named_file_and_the_folders_above_it_are_protected() -> None:
    protection = Protection(files=["tools.py", "ours/shop/prices.py"])
    for path in (
        *("tools.py", "TOOLS.PY", "tools.py.", "tools.py/x", "TOOLS~1.PY"),
        *("ours", "ours/shop", "Ours/Shop", "ours/shop/prices.py", "ours/shop/prices.py/x"),
    ):
        assert judge(path, protection=protection) == "named", path
    for path in ("tools", "tools.pyc", "x/tools.py", "ours/x", "ours/shop/x", "shop/prices.py"):
        assert judge(path, protection=protection) is None, path
    assert judge("tools.py", protection=Protection(["named"], files=["tools.py"])) is None


def test_any_file_system_name_can_be_checked() -> None:
    for name in ("\udcff.git", "a" * 255, "\n", "\x01", "'", "\u202e.git", "💥"):
        judge(name)
    assert judge("\u202e.git") == "git"


def test_security_page_documents_every_protection_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.partition("## Protected paths")[2].partition("\n## ")[0]
    rows = {line.split("|")[1].strip(" `"): line for line in section.splitlines() if "| `" in line}
    assert set(rows) == {rule.name for rule in RULES}
    for rule in RULES:
        shown = [name for name in rule.names if f"`{name}`" in rows[rule.name]]
        assert shown or rule.name in ("home", "named"), rule.name
        if rule.name in ("agent", "editor"):
            assert len(shown) >= len(rule.names) - 8
