"""`git`: rows of a real repository, and hostile repositories that try to execute code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ptc import Session, ToolError, UsageError
from ptc_tools import git, git_tool
from ptc_tools.vcs import _git

from ..conftest import Call

pytestmark = pytest.mark.anyio

_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ann Author",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "2024-01-02T03:04:05+02:00",
    "GIT_COMMITTER_NAME": "Carl",
    "GIT_COMMITTER_EMAIL": "carl@example.org",
    "GIT_COMMITTER_DATE": "2024-01-02T03:04:06+02:00",
}
WRITING = git_tool(writes=True, author="Bot <bot@example.org>")


def real(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=root, env=_ENV, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repo(root: Path) -> Path:
    real(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "ünï \n code.txt").write_text("x\n")
    (root / ".gitignore").write_text("*.log\n")
    real(root, "add", ".")
    real(root, "commit", "-qm", "First\n\nwith a body\nof two lines")
    (root / "a.txt").write_text("one\n2\nthree\n")
    real(root, "commit", "-qam", "Second")
    return root


async def error_of(call: Call, tool: Any = git, **arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await call(tool, **arguments)
    return caught.value


# --- reading ----------------------------------------------------------------------------------


async def test_status_reports_every_kind_of_change(call: Call, repo: Path) -> None:
    assert await call(git, command="status") == []
    (repo / "a.txt").write_text("changed\n")
    (repo / "new file").touch()
    (repo / "x.log").touch()
    real(repo, "mv", "ünï \n code.txt", "moved")
    (repo / "staged").touch()
    real(repo, "add", "staged")
    rows = {row["path"]: row for row in await call(git, command="status")}
    assert {p: (r["index"], r["worktree"], r["kind"]) for p, r in rows.items()} == {
        "a.txt": (".", "M", "changed"),
        "moved": ("R", ".", "renamed"),
        "staged": ("A", ".", "changed"),
        "new file": ("?", "?", "untracked"),
    }
    assert rows["moved"]["old_path"] == "ünï \n code.txt"


async def test_conflict_is_reported_as_unmerged(call: Call, repo: Path) -> None:
    real(repo, "checkout", "-qb", "other")
    (repo / "a.txt").write_text("theirs\n")
    real(repo, "commit", "-qam", "Theirs")
    real(repo, "checkout", "-q", "main")
    (repo / "a.txt").write_text("ours\n")
    real(repo, "commit", "-qam", "Ours")
    with pytest.raises(subprocess.CalledProcessError):
        real(repo, "merge", "other")
    (row,) = await call(git, command="status")
    assert (row["path"], row["kind"], row["index"]) == ("a.txt", "unmerged", "U")
    rows = await call(git, command="diff")
    assert {r["path"] for r in rows} == {"a.txt"}


async def test_log_returns_commits_newest_first(call: Call, repo: Path) -> None:
    second, first = await call(git, command="log")
    assert first == {
        "commit": real(repo, "rev-parse", "HEAD~1"),
        "parents": [],
        "author": "Ann Author",
        "email": "ann@example.org",
        "date": "2024-01-02T03:04:05+02:00",
        "refs": [],
        "subject": "First",
        "body": "with a body\nof two lines",
    }
    assert second["parents"] == [first["commit"]]
    assert second["refs"] == ["HEAD -> main"]
    assert await call(git, command="log", limit=1) == [second]
    assert await call(git, command="log", limit=1, skip=1) == [first]
    assert await call(git, command="log", ref="HEAD~1") == [first]
    assert await call(git, command="log", paths=[".gitignore"]) == [first]


async def test_diff_returns_one_row_per_file(call: Call, repo: Path) -> None:
    assert await call(git, command="diff") == []
    (repo / "a.txt").write_text("one\n2\n3\ndiff --git x\n")
    (repo / "b.bin").write_bytes(b"\0\1")
    real(repo, "mv", "ünï \n code.txt", "moved")
    real(repo, "add", "b.bin")
    (row,) = await call(git, command="diff")
    assert (row["path"], row["status"], row["additions"], row["deletions"]) == (
        *("a.txt", "modified", 2, 1),
    )
    assert row["patch"].startswith("diff --git a/a.txt b/a.txt\n")
    assert row["patch"].endswith("-three\n+3\n+diff --git x\n")
    staged = {r["path"]: r for r in await call(git, command="diff", staged=True)}
    assert staged.keys() == {"b.bin", "moved"}
    assert staged["b.bin"]["additions"] is None
    assert "Binary files" in staged["b.bin"]["patch"]
    assert (staged["moved"]["status"], staged["moved"]["old_path"]) == (
        *("renamed", "ünï \n code.txt"),
    )
    assert {r["path"] for r in await call(git, command="diff", ref="HEAD")} == {
        *("a.txt", "b.bin", "moved"),
    }
    (only,) = await call(git, command="diff", ref="HEAD~1..HEAD", patch=False)
    assert (only["path"], only["additions"], only["deletions"]) == ("a.txt", 1, 1)
    assert "patch" not in only


async def test_show_returns_a_commit_with_its_files_or_a_file(call: Call, repo: Path) -> None:
    (row,) = await call(git, command="show")
    assert row["subject"] == "Second"
    (file,) = row["files"]
    assert (file["path"], file["additions"], file["deletions"]) == ("a.txt", 1, 1)
    assert "-two\n+2\n" in file["patch"]
    (first,) = await call(git, command="show", ref="HEAD~1", patch=False)
    assert {f["path"]: f["status"] for f in first["files"]} == {
        ".gitignore": "added", "a.txt": "added", "ünï \n code.txt": "added",
    }  # fmt: skip
    assert await call(git, command="show", ref="HEAD~1:a.txt") == [
        {"ref": "HEAD~1:a.txt", "text": "one\ntwo\nthree\n"}
    ]


async def test_branch_reports_commits_ahead_and_behind(call: Call, repo: Path) -> None:
    real(repo, "branch", "side", "HEAD~1")
    real(repo, "branch", "-q", "--set-upstream-to=side", "main")
    rows = {row["name"]: row for row in await call(git, command="branch")}
    assert rows.keys() == {"main", "side"}
    assert rows["main"]["current"] is True
    assert (rows["main"]["upstream"], rows["main"]["ahead"], rows["main"]["behind"]) == (
        *("side", 1, 0),
    )
    assert (rows["side"]["upstream"], rows["side"]["ahead"]) == (None, None)
    assert rows["side"]["subject"] == "First"


async def test_blame_returns_the_commit_of_each_line(call: Call, repo: Path) -> None:
    first, second = real(repo, "rev-parse", "HEAD~1"), real(repo, "rev-parse", "HEAD")
    rows = await call(git, command="blame", paths=["a.txt"])
    assert [(r["line"], r["commit"], r["text"]) for r in rows] == [
        (1, first, "one"), (2, second, "2"), (3, first, "three"),
    ]  # fmt: skip
    assert rows[0]["author"] == "Ann Author"
    assert rows[0]["date"] == "2024-01-02T03:04:05+02:00"
    assert (await error_of(call, command="blame")).code == "invalid_arguments"


async def test_list_commands_return_rows(call: Call, repo: Path) -> None:
    (repo / "new").touch()
    listed = await call(git, command="ls_files")
    assert listed == [{"path": p} for p in (".gitignore", "a.txt", "ünï \n code.txt")]
    assert {"path": "new"} in await call(git, command="ls_files", all=True)
    assert await call(git, command="stash_list") == []
    (repo / "a.txt").write_text("stash me\n")
    real(repo, "stash")
    (stash,) = await call(git, command="stash_list")
    assert stash["name"] == "stash@{0}"
    assert "WIP on main" in stash["subject"]
    (tree,) = await call(git, command="worktree_list")
    assert tree["branch"] == "main"
    assert tree["path"] == str(repo)


async def test_repository_in_a_subfolder_is_selected_by_argument(call: Call, root: Path) -> None:
    (root / "sub").mkdir()
    real(root / "sub", "init", "-q")
    assert await call(git, command="status", repo="sub") == []
    error = await error_of(call, command="status")
    assert error.code == "not_a_repository"
    assert "repo=" in error.message


async def test_repository_outside_the_root_is_not_used(
    call: Call, root: Path, outside: Path
) -> None:
    real(root.parent, "init", "-q")
    assert (await error_of(call, command="status")).code == "not_a_repository"
    real(outside, "init", "-q")
    (root / ".git").write_text(f"gitdir: {outside}/.git\n")
    assert (await error_of(call, command="status")).code == "git_failed"
    (root / ".git").unlink()
    (root / ".git").symlink_to(outside / ".git")
    assert (await error_of(call, command="status")).code == "not_a_repository"
    assert (await error_of(call, command="status", repo="..")).code == "outside_root"


async def test_configured_outside_work_tree_cannot_be_read(
    call: Call, repo: Path, outside: Path
) -> None:
    real(repo, "config", "core.worktree", str(outside))
    rows = await call(git, command="ls_files", all=True)
    assert {row["path"] for row in rows} == {".gitignore", "a.txt", "ünï \n code.txt"}
    for row in await call(git, command="diff"):
        assert "SECRET" not in row["patch"]


async def test_git_failure_contains_the_message_of_git(call: Call, repo: Path) -> None:
    error = await error_of(call, command="log", ref="no-such-branch")
    assert error.code == "git_failed"
    assert "no-such-branch" in error.message
    assert error.details["exit_code"] == 128


# --- hostile callers --------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["log", "diff", "show", "blame"])
@pytest.mark.parametrize(
    "ref",
    ["--output=made", "-p", "--", "--upload-pack=touch made", "a b", "a\nb", "a\0b", "\ud800"],
)
async def test_a_value_that_looks_like_an_option_is_refused(
    call: Call, repo: Path, command: str, ref: str
) -> None:
    error = await error_of(call, command=command, ref=ref, paths=["a.txt"])
    assert error.code == "invalid_arguments"
    assert not (repo / "made").exists()


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "a/../../b", "a\0b"])
async def test_a_path_outside_the_repository_is_refused(call: Call, repo: Path, path: str) -> None:
    assert (await error_of(call, command="log", paths=[path])).code == "outside_root"


@pytest.mark.parametrize("path", ["--output=made", ":(top)a.txt", "*.txt", ":!x"])
async def test_path_is_never_parsed_as_an_option_or_a_pattern(
    call: Call, repo: Path, path: str
) -> None:
    assert await call(git, command="log", paths=[path]) == []
    (repo / path).write_text("x\n")
    assert await call(git, command="ls_files", all=True, paths=[path]) == [{"path": path}]
    assert not (repo / "made").exists()


async def test_unsupported_git_command_is_refused(call: Call, repo: Path) -> None:
    for command in ("commit", "add", "checkout", "push", "config", "-c", "stash"):
        assert (await error_of(call, command=command)).code == "invalid_arguments"


# --- hostile repositories ---------------------------------------------------------------------


def _booby_trap(repo: Path) -> Path:
    """Configure a program everywhere that a repository can name one."""
    marker = repo / "RAN"
    trap = repo / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {marker}\ncat\n")
    trap.chmod(0o755)
    for key in (
        *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass"),
        *("diff.external", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean"),
        *("filter.evil.smudge", "filter.evil.process", "credential.helper", "gpg.program"),
        *("sequence.editor", "interactive.diffFilter", "pager.log", "pager.diff", "pager.status"),
        *("core.alternateRefsCommand", "uploadpack.packObjectsHook", "trailer.x.command"),
        "merge.evil.driver",
    ):
        real(repo, "config", key, str(trap))
    for key in (
        "log.showSignature",
        "commit.gpgSign",
        "filter.evil.required",
        "status.submoduleSummary",
    ):
        real(repo, "config", key, "true")
    for name in ("log", "status", "diff", "show", "branch", "blame"):
        real(repo, "config", f"alias.{name}", f"!{trap}")
    (repo / ".git" / "info" / "attributes").write_text("* diff=evil filter=evil merge=evil\n")
    (repo / ".gitattributes").write_text("* diff=evil filter=evil\n")
    hooks = repo / ".git" / "hooks"
    for hook in (
        *("pre-commit", "commit-msg", "post-commit", "prepare-commit-msg", "post-checkout"),
        *("post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-auto-gc"),
    ):
        (hooks / hook).write_text(trap.read_text())
        (hooks / hook).chmod(0o755)
    real(repo, "config", "core.hooksPath", str(hooks))
    marker.unlink(missing_ok=True)
    return marker


@pytest.mark.parametrize("kernel", [True, pytest.param(False, marks=pytest.mark.slow)])
async def test_programs_configured_by_a_repository_are_not_executed(
    call: Call, repo: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    marker = _booby_trap(repo)
    if not kernel:
        # Every program may start, also those of the repository: test the options alone.
        every = (*_git._programs(), Path("/usr"), Path("/bin"), repo)
        monkeypatch.setattr(_git, "_programs", lambda: every)
    (repo / "a.txt").write_text("changed\n")
    for command in ("status", "log", "diff", "show", "branch", "ls_files", "stash_list"):
        for tool in (git, WRITING):
            assert await call(tool, command=command) is not None
    await call(git, command="blame", paths=["a.txt"])
    assert not marker.exists(), marker.read_text()
    await call(WRITING, command="add", paths=["a.txt"])
    (row,) = await call(WRITING, command="commit", message="Third")
    assert row["subject"] == "Third"
    await call(WRITING, command="checkout", ref="new", create=True)
    await call(WRITING, command="checkout", ref="HEAD~1")
    assert (repo / "a.txt").read_text() == "one\n2\nthree\n"
    await call(WRITING, command="checkout", ref="main")
    assert not marker.exists(), marker.read_text()


def test_repository_trap_fires_without_protection(repo: Path) -> None:
    marker = _booby_trap(repo)
    (repo / "a.txt").write_text("changed\n")
    subprocess.run(["git", "diff"], cwd=repo, env=_ENV, capture_output=True, check=False)
    assert marker.exists()


@pytest.mark.parametrize("kernel", [True, False])
async def test_filters_from_any_configuration_file_are_not_executed(
    call: Call, repo: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        every = (*_git._programs(), Path("/usr"), Path("/bin"), repo)
        monkeypatch.setattr(_git, "_programs", lambda: every)
    trap = repo / "trap.sh"
    trap.write_text("#!/bin/sh\ntouch RAN\ncat\n")
    trap.chmod(0o755)
    for name in ("a.b c", "UPPER"):
        real(repo, "config", f"filter.{name}.clean", "./trap.sh")
    (repo / "more").write_text('[filter "included"]\n\tclean = ./trap.sh\n')
    real(repo, "config", "include.path", str(repo / "more"))
    real(repo, "config", "extensions.worktreeConfig", "true")
    (repo / ".git" / "config.worktree").write_text('[filter "tree"]\n\tclean = ./trap.sh\n')
    (repo / "a.txt").write_text("changed\n")
    for name in ("UPPER", "included", "tree"):
        (repo / ".gitattributes").write_text(f"* filter={name}\n")
        assert await call(WRITING, command="status")
        assert await call(WRITING, command="diff")
        assert not (repo / "RAN").exists(), name


async def test_read_only_git_commands_change_nothing(call: Call, repo: Path) -> None:
    def picture() -> dict[str, tuple[int, bytes]]:
        files = (path for path in repo.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    (repo / "a.txt").touch()  # the index is out of date, so git would refresh it
    before = picture()
    for command in ("status", "log", "diff", "show", "branch", "ls_files", "stash_list"):
        await call(git, command=command)
    assert picture() == before


async def test_only_the_configuration_of_the_repository_is_used(
    call: Call, repo: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (outside / "config").write_text("[log]\n\tdecorate = full\n[core]\n\tabbrev = bogus\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(outside / "config"))
    monkeypatch.setenv("GIT_DIR", str(outside))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "/bin/false")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.abbrev")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "bogus")
    assert len(await call(git, command="log")) == 2
    assert await call(git, command="diff") == []


async def test_an_included_file_outside_the_root_is_not_read(
    call: Call, repo: Path, outside: Path
) -> None:
    (outside / "config").write_text("[core]\n\tabbrev = SECRET\n")
    real(repo, "config", "include.path", str(outside / "config"))
    # If git had read the file, its error would name the value instead of the file.
    error = await error_of(call, command="log")
    assert "SECRET" not in error.message
    assert "config" in error.message


# --- writing ----------------------------------------------------------------------------------


async def test_writing_git_tool_can_commit_a_change(call: Call, repo: Path) -> None:
    (repo / "n").write_text("n\n")
    (row,) = await call(WRITING, command="add", paths=["n"])
    assert (row["path"], row["index"]) == ("n", "A")
    (commit,) = await call(WRITING, command="commit", message="Add n\n\n-body")
    assert (commit["subject"], commit["body"]) == ("Add n", "-body")
    assert (commit["author"], commit["email"]) == ("Bot", "bot@example.org")
    assert real(repo, "log", "-1", "--format=%s") == "Add n"
    real(repo, "config", "user.name", "Own")
    (repo / "n").write_text("m\n")
    (commit,) = await call(WRITING, command="commit", message="--amend", all=True)
    assert (commit["subject"], commit["author"]) == ("--amend", "Own")
    (repo / "n").write_text("lost\n")
    await call(WRITING, command="checkout", paths=["n"])
    assert (repo / "n").read_text() == "m\n"


async def test_commit_without_an_author_is_an_error(call: Call, repo: Path) -> None:
    (repo / "a.txt").write_text("x\n")
    error = await error_of(call, git_tool(writes=True), command="commit", message="m", all=True)
    assert error.code == "git_failed"
    assert "user.email" in error.message


def test_git_flags_follow_from_the_writes_option() -> None:
    assert (git.side_effect, git.idempotent) == (False, True)
    assert (WRITING.side_effect, WRITING.idempotent) == (True, False)
    assert "commit" not in str(git.parameters)


@pytest.mark.parametrize("author", ["", "Name", "Name <a", "a\n <b>"])
def test_malformed_author_is_refused(author: str) -> None:
    with pytest.raises(UsageError):
        git_tool(writes=True, author=author)


async def test_script_receives_git_rows(repo: Path) -> None:
    source = (
        "async def run(ctx, inputs):\n"
        "    return [row['subject'] for row in await ctx.git('log', limit=5)]\n"
    )
    async with Session(root=repo) as session:
        result = await session.program(source=source, allowed_tools=["git"])
        assert result.unwrap() == ["Second", "First"]
        assert (await session.git("branch"))[0]["name"] == "main"  # type: ignore[attr-defined]  # a tool as a method
