"""Protected paths: refusals of each tool, their messages, and how to lift them.

`test_planted_files` has the attempts of commands to bypass them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptc import Session, ToolError, UsageError
from ptc_tools import bash, edit, git_tool, patch, write

from .conftest import Call
from .repositories import git_in, repository

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

PATHS = [
    (".git/config", "git"),
    (".git/index", "git"),
    ("sub/.git/hooks/pre-commit", "git"),
    ("new/.git", "git"),
    ("bare/config", "git"),
    ("new/HEAD", "git"),
    (".ptc/journal.sqlite3", "state"),
    (".envrc", "shell"),
    ("a/../.vscode/tasks.json", "editor"),
    ("link/config", "git"),
    ("link-to-envrc", "shell"),
    ("./.MCP.json", "agent"),
    (".husky/pre-commit", "hooks"),
]


@pytest.fixture
def workspace(root: Path) -> Path:
    for name in (".git/config", ".git/HEAD", ".git/index", "kept/.envrc", "a/b", "ordinary"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("kept\n")
    for name in ("bare/HEAD", "bare/config"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("kept\n")
    for name in ("bare/objects", "bare/refs"):
        (root / name).mkdir()
    (root / "link").symlink_to(".git")
    (root / "link-to-envrc").symlink_to("kept/.envrc")
    return root


def _tree(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(p.relative_to(root)): p.read_text() for p in files}


@pytest.mark.parametrize(("path", "rule"), PATHS)
async def test_no_tool_changes_a_protected_path(
    path: str, rule: str, workspace: Path, call: Call
) -> None:
    before = _tree(workspace)
    new = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+evil\n"
    changed = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-kept\n+evil\n"
    gone = f"--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-kept\n"
    moved = f"diff --git a/ordinary b/{path}\nrename from ordinary\nrename to {path}\n"
    away = f"diff --git a/{path} b/x\nrename from {path}\nrename to x\n"
    calls: list[tuple[Any, dict[str, Any]]] = [
        (write, {"path": path, "content": "evil"}),
        (write, {"path": path, "content": "evil", "mode": "create"}),
        (write, {"path": path, "content": "evil", "mode": "append", "expected_offset": 5}),
        (edit, {"path": path, "old": "kept", "new": "evil"}),
        (edit, {"path": path, "old": "kept", "new": "evil", "dry_run": True}),
        (edit, {"path": path, "diff": "@@ -1 +1 @@\n-kept\n+evil\n"}),
        *((patch, {"diff": diff}) for diff in (new, changed, gone, moved, away)),
    ]
    for tool, arguments in calls:
        with pytest.raises(ToolError) as caught:
            await call(tool, **arguments)
        assert caught.value.code == "protected_path", (tool.name, arguments, caught.value)
        assert caught.value.details["rule"] == rule
        assert f"rule '{rule}'" in caught.value.message
        assert ("Session(unprotected=" in caught.value.message) is (rule != "state")
    assert _tree(workspace) == before


async def test_refused_change_of_a_command_names_the_rule_and_the_option(
    workspace: Path, call: Call
) -> None:
    with pytest.raises(ToolError) as caught:
        await call(bash, cmd="sh", args=["-c", "echo x > .envrc; exit 3"])
    assert caught.value.code == "command_failed"
    assert "'.envrc' is protected by the rule 'shell'" in caught.value.message
    assert "--unprotect '.envrc'" in caught.value.message
    # If the command continues, its result lists the refusals all the same.
    result = await call(bash, cmd="sh", args=["-c", "mkdir .vscode 2> /dev/null; echo done"])
    assert result.output == "done\n"
    assert [text.split(":")[0] for text in result.refused] == [
        "'.vscode' is protected by the rule 'editor'"
    ]


async def test_session_owner_can_unprotect_paths(root: Path) -> None:
    script = """
async def run(ctx, inputs):
    await ctx.write(".vscode/tasks.json", "{}")
    await ctx.bash("sh", args=["-c", "echo x > .envrc; git init -q ."])
    said = []
    for path in (".idea/x", ".ptc/x"):
        try:
            await ctx.write(path, "x")
        except ToolError as error:
            said.append(error.code)
    return said
"""
    lifted = [".vscode", "shell", "git"]
    async with Session(root=root, unprotected=lifted) as session:
        result = await session.program(source=script, allowed_tools=["write", "bash"])
        assert result.unwrap() == ["protected_path", "protected_path"]
    names = {path.name for path in root.iterdir()}
    assert names >= {".vscode", ".envrc", ".git"}
    async with Session(root=root) as session:
        with pytest.raises(ToolError, match="protected"):
            await session.write(".vscode/tasks.json", "{}")  # type: ignore[attr-defined]  # a tool as a method


@pytest.mark.parametrize("name", [".vscod", "", "state", ".ptc", "*", "src"])
def test_unknown_or_fixed_name_in_unprotected_is_refused(name: str, root: Path) -> None:
    with pytest.raises(UsageError, match=r"unprotected: .*docs/security\.md"):
        Session(root=root, unprotected=[name])
    if name == ".vscod":
        with pytest.raises(UsageError, match=r"did you mean `\.vscode`"):
            Session(root=root, unprotected=[name])


async def test_git_works_but_cannot_check_out_protected_files(root: Path) -> None:
    (root / "f").write_text("one\n")
    git_in(root, "init", "-q", "-b", "main")
    git_in(root, "add", ".")
    git_in(root, "commit", "-qm", "one")
    git_in(root, "checkout", "-q", "-b", "evil")
    (root / ".envrc").write_text("evil")
    git_in(root, "add", ".envrc")
    git_in(root, "commit", "-qm", "two")
    git_in(root, "checkout", "-q", "main")
    tools = [git_tool(writes=True, author="A <a@b>")]
    async with Session(root=root, toolsets=(), tools=tools) as session:
        (root / "f").write_text("two\n")
        await session.git("add", paths=["f"])  # type: ignore[attr-defined]  # a tool as a method
        (row,) = await session.git("commit", message="three")  # type: ignore[attr-defined]  # a tool as a method
        assert row["subject"] == "three"
        assert await session.git("checkout", ref="new", create=True) == []  # type: ignore[attr-defined]  # a tool as a method
        with pytest.raises(ToolError, match=r"rule 'shell'") as caught:
            await session.git("checkout", ref="evil")  # type: ignore[attr-defined]  # a tool as a method
    assert caught.value.code == "protected_path"
    assert not (root / ".envrc").exists()
    async with Session(root=root, toolsets=(), tools=tools, unprotected=[".envrc"]) as session:
        await session.git("checkout", ref="evil", paths=[".envrc"])  # type: ignore[attr-defined]  # a tool as a method
    assert (root / ".envrc").read_text() == "evil"


async def test_remote_branch_is_checked_out_without_a_configuration_change(
    root: Path, tmp_path: Path
) -> None:
    repository(tmp_path / "origin")
    git_in(tmp_path / "origin", "branch", "side")
    git_in(root, "clone", "-q", str(tmp_path / "origin"), ".")
    async with Session(root=root, toolsets=(), tools=[git_tool(writes=True)]) as session:
        await session.git("checkout", ref="side")  # type: ignore[attr-defined]  # a tool as a method
        assert (root / ".git" / "HEAD").read_text() == "ref: refs/heads/side\n"


async def test_no_tool_changes_top_level_dot_names_of_a_home(
    root: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = root / "home" / "ann"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(ToolError, match="rule 'home'"):
        await call(write, path="home/ann/.config/fish/conf.d/x.fish", content="evil")
    await call(write, path="home/ann/project/.hidden", content="x")
    script = "mkdir home/ann/.local; mv home x; mv home/ann y; mkdir home/ann/project/.x; ls -A ."
    result = await call(bash, cmd="sh", args=["-c", script])
    assert result.stdout == "home\n"
    assert len(result.refused) == 3
