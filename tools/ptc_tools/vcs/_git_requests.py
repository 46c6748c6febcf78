"""Requests of the git tool: validation, the arguments of git, and rows from its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ptc import ToolError

from ..files._path_errors import quote
from ._git_rows import blame, branches, commits, file_rows, paths_of, stashes, status, worktrees

__all__ = ["Request", "check", "query"]

_PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--find-renames")


@dataclass(frozen=True, slots=True)
class Request:
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
        """Paths after ``--``, which prevents git from parsing them as options."""
        return ["--", *self.paths]


_NEEDS_ONE_PATH = "blame needs paths=[one file]"


def check(request: Request) -> None:
    for name, value in (("ref", request.ref), ("message", request.message)):
        if value is not None and ("\0" in value or _has_surrogate(value)):
            raise _invalid(f"{name} has a character that git does not accept")
    ref = request.ref
    if ref is not None and (ref.startswith("-") or not ref.isprintable() or " " in ref):
        msg = f"ref {quote(ref)} is not the name of a commit, branch or tag"
        raise _invalid(f"{msg}; log() and branch() list them")
    for path in request.paths:
        parts = path.split("/")
        if path.startswith("/") or ".." in parts or "\0" in path or _has_surrogate(path):
            msg = f"path {quote(path)} is not beneath the repository; paths are relative to `repo`"
            raise ToolError(msg, code="outside_root")
    if request.command == "blame" and len(request.paths) != 1:
        raise _invalid(_NEEDS_ONE_PATH)
    if request.command == "add" and not request.paths:
        raise _invalid('add needs paths=[...]; "." adds everything')
    if request.command == "commit" and not request.message:
        raise _invalid("commit needs message=...")
    if request.command == "checkout" and request.ref is None and not request.paths:
        raise _invalid("checkout needs ref=..., or paths=[...] to restore")


def _invalid(message: str) -> ToolError:
    return ToolError(message, code="invalid_arguments")


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


async def query(request: Request, run: Any) -> list[dict[str, Any]]:
    """Run git for a request and parse the output."""
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


def _log(request: Request, limit: int | None = None) -> list[str]:
    return [
        *("log", "-z", f"--format=tformat:{_LOG}", "--no-show-signature", "--decorate=short"),
        *(f"--max-count={limit or request.limit}", f"--skip={request.skip}"),
        *("--end-of-options", request.ref or "HEAD", *request.rest),
    ]


def _diff(request: Request) -> list[str]:
    return [
        *("diff", "-z", "--raw", "--numstat", "--abbrev=40", *_PLAIN_DIFF),
        *(["--patch"] if request.patch else []),
        *(["--cached"] if request.staged else []),
        *([] if request.ref is None else ["--end-of-options", request.ref]),
        *request.rest,
    ]


async def _show(request: Request, run: Any) -> list[dict[str, Any]]:
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


async def _change(request: Request, run: Any) -> list[dict[str, Any]]:
    if request.command == "add":
        await run(["add", *request.rest])
        return await _status(run)
    if request.command == "checkout":
        branch = ["-b"] if request.create else []
        to = [] if request.ref is None else [*branch, request.ref]
        await run(["checkout", "--quiet", *to, *request.rest])
        return await _status(run)
    identity = []
    if request.name:
        for key, value in (("user.name", request.name), ("user.email", request.address)):
            value_set = await run(["config", "--local", "--default=", "--get", key])
            identity += [] if value_set.strip() else ["-c", f"{key}={value}"]
    every = ["--all"] if request.all else []
    message = f"--message={request.message}"
    await run([*identity, "commit", "--quiet", "--no-verify", message, *every, *request.rest])
    return commits(
        await run(["log", "-z", f"--format=tformat:{_LOG}", "--max-count=1", "HEAD", "--"])
    )
