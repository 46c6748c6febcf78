"""`git`: read a repository as rows, and change it if the tool was created for that.

Rule 1: Nothing in a repository is executed: no hook, alias, filter, pager, editor, external diff,
    textconv, monitor or helper. The kernel allows no program but git itself to start; options
    disable each of them too, so that a repository that names one can be read.
    (test_programs_configured_by_a_repository_are_not_executed)
Rule 2: Without `git_tool(writes=True)` the kernel refuses every write to a repository.
    (test_read_only_git_commands_change_nothing)
Rule 3: No value from a caller is parsed as an option, and no path as a pattern.
    (test_a_value_that_looks_like_an_option_is_refused)
Rule 4: Only the repository's own configuration applies.
    (test_only_the_configuration_of_the_repository_is_used)
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from ptc import Tool, ToolContext, ToolError, UsageError, tool
from ptc._protected import Protection, explain
from ptc._schema._bounds import Bounds
from ptc._workers._command import MAX_STREAM_BYTES, Command, CommandOutcome

from .._killable import in_killable_thread
from ..files._path_errors import quote
from ..files._paths import Root, protection_of
from ._git_requests import Request, check, query

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

_SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

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
    # Upstream branches are stored in the configuration, which is protected.
    *("branch.autoSetupMerge=false", "branch.autoSetupRebase=never"),
    # No other repository, local or remote.
    *("protocol.allow=never", "submodule.recurse=false", "diff.ignoreSubmodules=dirty"),
    *("status.submoduleSummary=false", "diff.submodule=short", "core.attributesFile=/dev/null"),
    # The format of the output that is parsed here.
    *("color.ui=false", "core.quotePath=false", "diff.noprefix=false", "diff.mnemonicPrefix=false"),
    *(
        "diff.renames=true",
        "diff.orderFile=/dev/null",
        "log.mailmap=false",
        "blame.ignoreRevsFile=",
    ),
    *("blame.coloring=none", "i18n.logOutputEncoding=utf-8", "core.precomposeUnicode=false"),
    # The files may belong to another user. The options above and the kernel prevent the attacks
    # against which git checks the owner.
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


def git_tool(
    *,
    writes: bool = False,
    confinement: Literal["required", "available"] = "required",
    author: str | None = None,
) -> Tool:
    """Create the tool `git`.

    Args:
        writes: True: offer ``add``, ``commit`` and ``checkout`` too; the tool then has a side
            effect.
        confinement: As for `bash_tool`.
        author: ``Name <address>`` for commits if the repository's configuration has none.

    Raises:
        UsageError: If `author` does not have this form.
    """
    name, address = _author(author)
    run = partial(_run, writes=writes, required=confinement == "required")

    async def call(ctx: ToolContext, command: str, **options: Any) -> list[dict[str, Any]]:
        request = Request(command, name=name, address=address, **options)
        check(request)
        protection = protection_of(ctx.root, ctx.unprotected, ctx.protected)
        return await query(request, partial(run, ctx.root, options["repo"], protection))

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
            message: Annotated[str, Bounds(min_length=1, max_length=65_536)] | None = None,
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
                command: Operation.
                repo: Folder with the .git, relative to the workspace root.
                ref: Commit, branch or tag; for diff also "a..b"; for checkout the target.
                paths: Only these files and folders, relative to `repo`; required for add.
                limit: Maximum number of log rows.
                skip: Number of log rows to skip.
                staged: diff: the index against `ref` or HEAD.
                patch: diff and show: include the text of each change.
                all: branch: remote ones too. ls_files: untracked files too. commit: every
                    changed file.
                message: commit: commit message.
                create: checkout: create branch `ref`.
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
            command: Query.
            repo: Folder with the .git, relative to the workspace root.
            ref: Commit, branch or tag; for diff also "a..b".
            paths: Only these files and folders, relative to `repo`. blame needs one file.
            limit: Maximum number of log rows.
            skip: Number of log rows to skip.
            staged: diff: the index against `ref` or HEAD.
            patch: diff and show: include the text of each change.
            all: branch: remote ones too. ls_files: untracked files too.
        """
        return await call(
            ctx, command, repo=repo, ref=ref, paths=paths or [], limit=limit, skip=skip,
            staged=staged, patch=patch, all=all,
        )  # fmt: skip

    return git_reading


_Name = Annotated[str, Bounds(min_length=1, max_length=_MAX_NAME)]
_Paths = Annotated[
    list[Annotated[str, Bounds(min_length=1, max_length=4_096)]], Bounds(max_length=100)
]
_Limit = Annotated[int, Bounds(ge=1, le=MAX_LIMIT)]
_Skip = Annotated[int, Bounds(ge=0)]


def _author(author: str | None) -> tuple[str, str]:
    if author is None:
        return "", ""
    name, bracket, rest = author.partition(" <")
    if not name.strip() or not bracket or not rest.endswith(">") or not author.isprintable():
        raise UsageError(f"author must be 'Name <address>', not {author!r:.80}")
    return name, rest[:-1]


async def _run(
    root: Path,
    repo: str,
    protection: Protection,
    arguments: Sequence[str],
    *,
    writes: bool,
    required: bool,
) -> bytes:
    """Run git and return its output. Raises `ToolError` with its message if it fails."""
    with Root(root) as opened:
        place = opened.locate(repo)
        if not place.is_folder:
            msg = f"repo {quote(repo)} is a file; pass the folder that has .git"
            raise ToolError(msg, code="not_a_directory")
        if not _is_repository(opened, place.path):
            msg = f"there is no .git in {quote(repo)}; pass the folder that has it as repo=..."
            raise ToolError(msg, code="not_a_repository")
    program, *programs = _programs()
    # Includes the keys of included files and of a work tree's own configuration.
    names = ["config", "--includes", "--list", "--name-only", "-z"]
    listing = _command(
        root, place.path, program, programs, names, protection=None, required=required
    )
    drivers = await _execute(listing)
    options = [
        item for entry in (*_CONFIG, *_filters(drivers.stdout.head)) for item in ("-c", entry)
    ]
    command = _command(
        *(root, place.path, program, programs, [*options, *arguments]),
        protection=protection if writes else None,
        required=required,
    )
    return _output(await _execute(command), arguments)


def _is_repository(root: Root, path: str) -> bool:
    for name in (".git", "HEAD"):
        try:
            root.locate(f"{path}/{name}" if path else name)
        except ToolError:
            continue
        return True
    return False


def _filters(names: bytes) -> Iterator[str]:
    """Yield options that disable each filter of the repository, which git would run on content."""
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
    """Build a confined command; `protection` is None if it may change nothing."""
    above = str((root / cwd).parent)
    return Command(
        [str(program), "--no-pager", "--no-optional-locks", *arguments],
        root=root,
        cwd=cwd,
        # Ignore parents of the requested folder: a repository around the root is out of bounds.
        env={**_ENVIRONMENT, "GIT_CEILING_DIRECTORIES": above},
        required=required,
        programs=[program, *programs],
        writable=protection is not None,
        protection=protection,
    )


async def _execute(command: Command) -> CommandOutcome:
    return await in_killable_thread(lambda: command.run(_TIMEOUT_MS), command.kill)


def _output(ended: CommandOutcome, arguments: Sequence[str]) -> bytes:
    if ended.protected:
        # git may have continued, but the operation is incomplete.
        texts = [explain(item.path, item.rule, item.entry) for item in ended.protected]
        raise ToolError(
            "\n".join([f"git {arguments[0]} was not completed", *texts[:3]]),
            code="protected_path",
            details={"paths": [item.path for item in ended.protected]},
        )
    if ended.how == "exit" and ended.number == 0:
        if ended.stdout.total_bytes > MAX_STREAM_BYTES:
            msg = (
                f"git {arguments[0]} wrote {ended.stdout.total_bytes:,} bytes; the limit is "
                f"{MAX_STREAM_BYTES:,}. Request less with paths=[...], limit=... or patch=False"
            )
            raise ToolError(msg, code="too_large")
        return ended.stdout.head
    if ended.how == "refused":
        msg = (
            f"git cannot be confined on this machine, so it is not run. Missing: {ended.text}. "
            'Fix that, or create the tool with git_tool(confinement="available")'
        )
        raise ToolError(msg, code="confinement_unavailable")
    output = (ended.stderr.head or ended.stdout.head)[-2_000:].decode("utf-8", "replace").strip()
    if ended.how == "timeout":
        raise ToolError(f"git {arguments[0]} took longer than {_TIMEOUT_MS:,} ms", code="timeout")
    details: dict[str, object] = {"exit_code": ended.number} if ended.how == "exit" else {}
    msg = f"git failed: {output or ended.text or f'{ended.how} {ended.number}'}"
    raise ToolError(msg, code="git_failed", details=details)


@lru_cache(maxsize=1)
def _programs() -> tuple[Path, ...]:
    """Find git and the folder of its own programs.

    Raises:
        ToolError: ``spawn_failed`` if git is not installed.
    """
    absolute = [e for e in os.environ.get("PATH", "").split(os.pathsep) if Path(e).is_absolute()]
    found = shutil.which("git", path=os.pathsep.join([_SEARCH_PATH, *absolute]))
    if found is None:
        msg = "git is not installed on the host; install it from the system's packages"
        raise ToolError(msg, code="spawn_failed")
    located = subprocess.run(  # noqa: S603 - by its full path, without a value of a caller
        [found, "--exec-path"], env={}, cwd="/", capture_output=True, text=True, check=True
    )
    return Path(found).resolve(), Path(located.stdout.strip())


git: Tool = git_tool()
"""The read-only tool."""

if not set(get_args(GitRead)) < set(get_args(GitWrite)):
    raise AssertionError("GitWrite must include GitRead")
