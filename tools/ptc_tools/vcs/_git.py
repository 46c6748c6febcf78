"""`git`: what a repository says, as rows; changing it only where the tool was made for that.

Rule 1: Nothing in a repository is executed: no hook, alias, filter, pager, editor, external diff,
    textconv, monitor or helper. The kernel lets no program start but git itself; options switch
    each of them off as well, so that a repository that names one is read and not refused.
    (test_programs_configured_by_a_repository_are_not_executed)
Rule 2: A repository without `git_tool(writes=True)` is not written to, by the kernel.
    (test_read_only_git_commands_change_nothing)
Rule 3: No value of a caller is taken for an option, and no path for a pattern.
    (test_a_value_that_looks_like_an_option_is_refused)
Rule 4: No configuration counts but the repository's own.
    (test_only_the_configuration_of_the_repository_is_used)
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from ptc import Tool, ToolContext, ToolError, UsageError, tool
from ptc._protected import Protection, explain
from ptc._workers._command import MAX_STREAM_BYTES, Command, CommandOutcome

from .._killable import in_killable_thread
from ..files._paths import Root, protection_of, shown
from ._git_rows import blame, branches, commits, file_rows, paths_of, stashes, status, worktrees

__all__ = ["GitRead", "GitWrite", "git", "git_tool"]

GitRead = Literal[
    "status", "log", "diff", "show", "branch", "blame", "ls_files", "stash_list", "worktree_list"
]
GitWrite = Literal[
    "status", "log", "diff", "show", "branch", "blame", "ls_files", "stash_list", "worktree_list",
    "add", "commit", "checkout",
]  # fmt: skip

DEFAULT_LIMIT = 50
MAX_LIMIT = 10_000
_TIMEOUT_MS = 60_000
_MAX_NAME = 1_024

_SEARCHED = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

_CONFIG = (
    # Programs that a repository's configuration can name (git-config(1)).
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.pager=cat", "core.editor=false"),
    *(
        "core.sshCommand=false",
        "core.askPass=false",
        "core.alternateRefsCommand=",
        "diff.external=",
    ),
    *("credential.helper=", "gpg.program=false", "gpg.ssh.program=false", "gpg.x509.program=false"),
    *("log.showSignature=false", "commit.gpgSign=false", "tag.gpgSign=false", "gc.auto=0"),
    *("maintenance.auto=false", "interactive.diffFilter=", "sequence.editor=false"),
    # Which branch another one follows stands in the configuration, which is protected.
    *("branch.autoSetupMerge=false", "branch.autoSetupRebase=never"),
    # No other repository, be it near or far.
    *("protocol.allow=never", "submodule.recurse=false", "diff.ignoreSubmodules=dirty"),
    *("status.submoduleSummary=false", "diff.submodule=short", "core.attributesFile=/dev/null"),
    # What decides the form of what is parsed here.
    *("color.ui=false", "core.quotePath=false", "diff.noprefix=false", "diff.mnemonicPrefix=false"),
    *(
        "diff.renames=true",
        "diff.orderFile=/dev/null",
        "log.mailmap=false",
        "blame.ignoreRevsFile=",
    ),
    *("blame.coloring=none", "i18n.logOutputEncoding=utf-8", "core.precomposeUnicode=false"),
    # The files may be somebody else's. What that is a danger for is switched off above, and by
    # the kernel.
    "safe.directory=*",
)
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C.UTF-8",
}
_PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames")


def git_tool(
    *,
    writes: bool = False,
    confinement: Literal["required", "available"] = "required",
    author: str | None = None,
) -> Tool:
    """Make the tool `git`.

    Args:
        writes: True: offer ``add``, ``commit`` and ``checkout`` too; the tool then has a side
            effect.
        confinement: As of `bash_tool`.
        author: ``Name <address>`` for commits where the repository's configuration has none.

    Raises:
        UsageError: If `author` has another form.
    """
    name, address = _author(author)
    run = partial(_run, writes=writes, required=confinement == "required")

    async def call(ctx: ToolContext, command: str, **given: Any) -> list[dict[str, Any]]:
        request = _Request(command, name=name, address=address, **given)
        _check(request)
        protection = protection_of(ctx.root, ctx.unprotected)
        return await in_rows(request, partial(run, ctx.root, given["repo"], protection))

    if writes:

        @tool(name="git", side_effect=True, idempotent=False)
        async def git_writing(
            ctx: ToolContext,
            command: GitWrite,
            repo: str = ".",
            ref: _Name | None = None,
            paths: _Paths | None = None,
            limit: _Limit = DEFAULT_LIMIT,
            skip: _Skip = 0,
            staged: bool = False,
            patch: bool = True,
            all: bool = False,
            message: Annotated[str, Field(min_length=1, max_length=65_536)] | None = None,
            create: bool = False,
        ) -> list[dict[str, Any]]:
            """Read or change a git repository. Returns a list of rows; no hook is run.

            status {path, old_path, index, worktree, kind}; log {commit, parents, author, email,
            date, refs, subject, body}; diff {path, old_path, status, additions, deletions, patch};
            show: one log row with `files`, or {ref, text} of ref="HEAD:file"; branch {name,
            current, commit, upstream, ahead, behind, date, subject}; blame {line, commit, author,
            date, text}; ls_files {path}; stash_list {name, commit, date, subject}; worktree_list
            {path, commit, branch}; add and checkout give status rows; commit gives its log row.

            Args:
                ctx: The call.
                command: What to do.
                repo: Folder with the .git, relative to the workspace root.
                ref: Commit, branch or tag; for diff also "a..b"; for checkout what to go to.
                paths: Only these files and folders, relative to `repo`; for add: what to add.
                limit: Most rows of log.
                skip: Rows of log to pass over.
                staged: diff: the index against `ref` or HEAD.
                patch: diff and show: with the text of each change.
                all: branch: remote ones too. ls_files: untracked files too. commit: every
                    changed file.
                message: Of a commit.
                create: checkout: make branch `ref`.
            """
            return await call(
                ctx, command, repo=repo, ref=ref, paths=paths or [], limit=limit, skip=skip,
                staged=staged, patch=patch, all=all, message=message, create=create,
            )  # fmt: skip

        return git_writing

    @tool(name="git")
    async def git_reading(
        ctx: ToolContext,
        command: GitRead,
        repo: str = ".",
        ref: _Name | None = None,
        paths: _Paths | None = None,
        limit: _Limit = DEFAULT_LIMIT,
        skip: _Skip = 0,
        staged: bool = False,
        patch: bool = True,
        all: bool = False,
    ) -> list[dict[str, Any]]:
        """Read a git repository. Returns a list of rows; nothing is changed.

        status {path, old_path, index, worktree, kind}; log {commit, parents, author, email, date,
        refs, subject, body}; diff {path, old_path, status, additions, deletions, patch}; show: one
        log row with `files`, or {ref, text} of ref="HEAD:file"; branch {name, current, commit,
        upstream, ahead, behind, date, subject}; blame {line, commit, author, date, text}; ls_files
        {path}; stash_list {name, commit, date, subject}; worktree_list {path, commit, branch}.

        Args:
            ctx: The call.
            command: What to ask.
            repo: Folder with the .git, relative to the workspace root.
            ref: Commit, branch or tag; for diff also "a..b".
            paths: Only these files and folders, relative to `repo`. blame needs one file.
            limit: Most rows of log.
            skip: Rows of log to pass over.
            staged: diff: the index against `ref` or HEAD.
            patch: diff and show: with the text of each change.
            all: branch: remote ones too. ls_files: untracked files too.
        """
        return await call(
            ctx, command, repo=repo, ref=ref, paths=paths or [], limit=limit, skip=skip,
            staged=staged, patch=patch, all=all,
        )  # fmt: skip

    return git_reading


_Name = Annotated[str, Field(min_length=1, max_length=_MAX_NAME)]
_Paths = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=4_096)]], Field(max_length=100)
]
_Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
_Skip = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class _Request:
    command: str
    repo: str
    ref: str | None
    paths: list[str]
    limit: int
    skip: int
    staged: bool
    patch: bool
    all: bool
    message: str | None = None
    create: bool = False
    name: str = ""
    address: str = ""

    @property
    def rest(self) -> list[str]:
        """Paths, where git takes nothing else for them."""
        return ["--", *self.paths]


def _author(author: str | None) -> tuple[str, str]:
    if author is None:
        return "", ""
    name, bracket, rest = author.partition(" <")
    if not name.strip() or not bracket or not rest.endswith(">") or not author.isprintable():
        raise UsageError(f"author must be 'Name <address>', not {author!r:.80}")
    return name, rest[:-1]


_NEEDS_ONE_PATH = "blame needs paths=[one file]"


def _check(request: _Request) -> None:
    for what, value in (("ref", request.ref), ("message", request.message)):
        if value is not None and ("\0" in value or _has_surrogate(value)):
            raise _invalid(f"{what} has a character that git does not take")
    ref = request.ref
    if ref is not None and (ref.startswith("-") or not ref.isprintable() or " " in ref):
        msg = f"ref {shown(ref)} is no name of a commit, a branch or a tag"
        raise _invalid(f"{msg}; log() and branch() list them")
    for path in request.paths:
        parts = path.split("/")
        if path.startswith("/") or ".." in parts or "\0" in path or _has_surrogate(path):
            msg = f"path {shown(path)} is not beneath the repository; paths are relative to `repo`"
            raise ToolError(msg, code="outside_root")
    if request.command == "blame" and len(request.paths) != 1:
        raise _invalid(_NEEDS_ONE_PATH)
    if request.command == "add" and not request.paths:
        raise _invalid('add needs paths=[...]; "." is everything')
    if request.command == "commit" and not request.message:
        raise _invalid("commit needs message=...")
    if request.command == "checkout" and request.ref is None and not request.paths:
        raise _invalid("checkout needs ref=..., or paths=[...] to restore")


def _invalid(message: str) -> ToolError:
    return ToolError(message, code="invalid_arguments")


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


async def in_rows(request: _Request, run: Any) -> list[dict[str, Any]]:
    """Run what the request needs, and read it."""
    match request.command:
        case "status":
            return await _status(run)
        case "log":
            return commits(await run(_log(request)))
        case "diff":
            return file_rows(await run(_diff(request)), patch=request.patch)
        case "show":
            return await _show(request, run)
        case "branch":
            where = ["refs/heads", *(["refs/remotes"] if request.all else [])]
            return branches(await run(["for-each-ref", f"--format={_BRANCH}", *where]))
        case "blame":
            at = [] if request.ref is None else [request.ref]
            return blame(
                await run(["blame", "--line-porcelain", "--no-textconv", *at, *request.rest])
            )
        case "ls_files":
            kinds = ["--others", "--exclude-standard"] if request.all else []
            return paths_of(await run(["ls-files", "-z", "--cached", *kinds, *request.rest]))
        case "stash_list":
            listing = ["log", "-z", "-g", f"--format={_STASH}", "refs/stash", "--"]
            known = await run(["for-each-ref", "--format=%(refname)", "refs/stash"])
            return stashes(await run(listing)) if known.strip() else []
        case "worktree_list":
            return worktrees(await run(["worktree", "list", "--porcelain", "-z"]))
    return await _change(request, run)


_LOG = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%s%x00%b"
_BRANCH = "%00".join(
    f"%({name})"
    for name in (
        *("refname:short", "objectname", "HEAD", "upstream:short", "upstream:track,nobracket"),
        *("committerdate:iso-strict", "contents:subject", "symref"),
    )
)
_STASH = "%gd%x00%H%x00%cI%x00%gs"


async def _status(run: Any) -> list[dict[str, Any]]:
    return status(await run(["status", "--porcelain=v2", "-z", "--ignore-submodules=dirty"]))


def _log(request: _Request, limit: int | None = None) -> list[str]:
    return [
        *("log", "-z", f"--format=tformat:{_LOG}", "--no-show-signature", "--decorate=short"),
        *(f"--max-count={limit or request.limit}", f"--skip={request.skip}"),
        *("--end-of-options", request.ref or "HEAD", *request.rest),
    ]


def _diff(request: _Request) -> list[str]:
    return [
        *("diff", "-z", "--raw", "--numstat", "--abbrev=40", *_PLAIN_DIFF),
        *(["--patch"] if request.patch else []),
        *(["--cached"] if request.staged else []),
        *([] if request.ref is None else ["--end-of-options", request.ref]),
        *request.rest,
    ]


async def _show(request: _Request, run: Any) -> list[dict[str, Any]]:
    ref = request.ref or "HEAD"
    if ":" in ref:
        text = await run(["cat-file", "blob", ref])
        return [{"ref": ref, "text": text.decode("utf-8", "replace")}]
    rows = commits(await run([*_log(request, 1)[: -1 - len(request.paths)], "--"]))
    listing = [
        *("show", "--format=", "-z", "--raw", "--numstat", "--abbrev=40", *_PLAIN_DIFF),
        *("--diff-merges=first-parent", *(["--patch"] if request.patch else [])),
        *("--end-of-options", f"{ref}^{{commit}}", *request.rest),
    ]
    rows[0]["files"] = file_rows(await run(listing), patch=request.patch)
    return rows


async def _change(request: _Request, run: Any) -> list[dict[str, Any]]:
    if request.command == "add":
        await run(["add", *request.rest])
        return await _status(run)
    if request.command == "checkout":
        branch = ["-b"] if request.create else []
        to = [] if request.ref is None else [*branch, request.ref]
        await run(["checkout", "--quiet", *to, *request.rest])
        return await _status(run)
    who = []
    if request.name:
        for key, value in (("user.name", request.name), ("user.email", request.address)):
            known = await run(["config", "--local", "--default=", "--get", key])
            who += [] if known.strip() else ["-c", f"{key}={value}"]
    every = ["--all"] if request.all else []
    message = f"--message={request.message}"
    await run([*who, "commit", "--quiet", "--no-verify", message, *every, *request.rest])
    return commits(
        await run(["log", "-z", f"--format=tformat:{_LOG}", "--max-count=1", "HEAD", "--"])
    )


# --- running git ------------------------------------------------------------------------------


async def _run(
    root: Path,
    repo: str,
    protection: Protection,
    arguments: Sequence[str],
    *,
    writes: bool,
    required: bool,
) -> bytes:
    """Output of git. Raises `ToolError` in its words if it fails."""
    with Root(root) as opened:
        place = opened.locate(repo)
        if not place.is_folder:
            msg = f"repo {shown(repo)} is a file; give the folder that holds .git"
            raise ToolError(msg, code="not_a_directory")
        if not _is_repository(opened, place.path):
            msg = f"there is no .git in {shown(repo)}; repo=... names the folder that holds it"
            raise ToolError(msg, code="not_a_repository")
    program, *programs = _programs()
    # Of included files and of a work tree's own configuration too.
    names = ["config", "--includes", "--list", "--name-only", "-z"]
    asked = _command(root, place.path, program, programs, names, protection=None, required=required)
    drivers = await _ended(asked)
    options = [
        item for entry in (*_CONFIG, *_filters(drivers.stdout.head)) for item in ("-c", entry)
    ]
    command = _command(
        *(root, place.path, program, programs, [*options, *arguments]),
        protection=protection if writes else None,
        required=required,
    )
    return _output(await _ended(command), arguments)


def _is_repository(root: Root, path: str) -> bool:
    for name in (".git", "HEAD"):
        try:
            root.locate(f"{path}/{name}" if path else name)
        except ToolError:
            continue
        return True
    return False


def _filters(names: bytes) -> Iterator[str]:
    """Options that leave out every filter the repository names: it would be run on contents."""
    for entry in names.split(b"\0"):
        key = os.fsdecode(entry)
        if key.startswith("filter.") and "=" not in key:
            driver = key.rpartition(".")[0]
            yield from (f"{driver}.{kind}=" for kind in ("clean", "smudge", "process"))
            yield f"{driver}.required=false"


def _command(
    root: Path,
    cwd: str,
    program: Path,
    programs: list[Path],
    arguments: Sequence[str],
    *,
    protection: Protection | None,
    required: bool,
) -> Command:
    """`protection`: None if nothing may be changed."""
    above = str((root / cwd).parent)
    return Command(
        [str(program), "--no-pager", "--no-optional-locks", *arguments],
        root=root,
        cwd=cwd,
        # Not above the folder that was named: a repository around the root is none of ours.
        env={**_ENVIRONMENT, "GIT_CEILING_DIRECTORIES": above},
        required=required,
        programs=[program, *programs],
        writable=protection is not None,
        protection=protection,
    )


async def _ended(command: Command) -> CommandOutcome:
    return await in_killable_thread(lambda: command.run(_TIMEOUT_MS), command.kill)


def _output(ended: CommandOutcome, arguments: Sequence[str]) -> bytes:
    if ended.protected:
        # Even if git makes do without: what was asked for has not been done as a whole.
        texts = [explain(item.path, item.rule, item.entry) for item in ended.protected]
        raise ToolError(
            "\n".join([f"git {arguments[0]} was not done as a whole", *texts[:3]]),
            code="protected_path",
            details={"paths": [item.path for item in ended.protected]},
        )
    if ended.how == "exit" and ended.number == 0:
        if ended.stdout.total_bytes > MAX_STREAM_BYTES:
            msg = (
                f"git {arguments[0]} gave {ended.stdout.total_bytes:,} bytes, over "
                f"{MAX_STREAM_BYTES:,}; ask for less with paths=[...], limit=... or patch=False"
            )
            raise ToolError(msg, code="too_large")
        return ended.stdout.head
    if ended.how == "refused":
        msg = (
            f"git cannot be confined on this machine, so it is not run. Missing: {ended.text}. Fix "
            'that, or make the tool with git_tool(confinement="available")'
        )
        raise ToolError(msg, code="confinement_unavailable")
    words = (ended.stderr.head or ended.stdout.head)[-2_000:].decode("utf-8", "replace").strip()
    if ended.how == "timeout":
        raise ToolError(f"git {arguments[0]} took over {_TIMEOUT_MS:,} ms", code="timeout")
    details: dict[str, object] = {"exit_code": ended.number} if ended.how == "exit" else {}
    msg = f"git failed: {words or ended.text or f'{ended.how} {ended.number}'}"
    raise ToolError(msg, code="git_failed", details=details)


@lru_cache(maxsize=1)
def _programs() -> tuple[Path, ...]:
    """git, and the folder of its own programs.

    Raises:
        ToolError: ``spawn_failed`` if there is none.
    """
    absolute = [e for e in os.environ.get("PATH", "").split(os.pathsep) if Path(e).is_absolute()]
    found = shutil.which("git", path=os.pathsep.join([_SEARCHED, *absolute]))
    if found is None:
        msg = "git is not installed on the host; install it from the system's packages"
        raise ToolError(msg, code="spawn_failed")
    asked = subprocess.run(  # noqa: S603 - by its full path, with nothing of a caller
        [found, "--exec-path"], env={}, cwd="/", capture_output=True, text=True, check=True
    )
    return Path(found).resolve(), Path(asked.stdout.strip())


git = git_tool()
"""The tool that only reads."""

if not set(get_args(GitRead)) < set(get_args(GitWrite)):
    raise AssertionError("who may write may read")
