"""The built-in tools as typed methods, for applications: data comes back, failures are raised.

`Session` has a method for each of its tools, whatever they are, so a type checker knows nothing of
them. These classes are the same calls with the signatures of the built-in ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

if TYPE_CHECKING:
    from ptc import BlockingSession, Session

    from ._bash import CommandResult
    from ._batch import BatchCall, BatchResult
    from .files._change import Change
    from .files._ls import Entry
    from .files._read_files import FileText
    from .search._grep import Match, MatchCount
    from .web._web_fetch import Page
    from .web._web_search import SearchHit

__all__ = ["BlockingWorkspace", "Workspace"]

GitCommand: TypeAlias = Literal[
    "status",
    "log",
    "diff",
    "show",
    "branch",
    "blame",
    "ls_files",
    "stash_list",
    "worktree_list",
]


class Workspace:
    """The built-in tools of an open session.

    ::

        async with Session(root=".") as session:
            workspace = Workspace(session)
            for match in await workspace.grep("TODO", glob="*.py"):
                print(match.path, match.line, match.text)

    Each method takes what the tool of its name takes; see the tool's description. It raises
    `ToolError` if the tool fails, and `UsageError` if the session does not have the tool.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def _value(self, tool: str, /, **arguments: Any) -> Any:
        return (await self._session.tool(tool, arguments)).unwrap()

    async def read(self, path: str, offset: int = 0, limit: int | None = None) -> str:
        """The text of a file, whole or by lines."""
        found: str = await self._value("read", path=path, offset=offset, limit=limit)
        return found

    async def read_files(
        self, paths: list[str], limit: int | None = None, max_bytes: int = 2_097_152
    ) -> list[FileText]:
        """Many files; what is left out of one, or wrong with it, is in its record."""
        found: list[FileText] = await self._value(
            "read_files", paths=paths, limit=limit, max_bytes=max_bytes
        )
        return found

    async def ls(
        self, path: str = ".", limit: int | None = None, after: str | None = None
    ) -> list[Entry]:
        """The entries of a folder."""
        found: list[Entry] = await self._value("ls", path=path, limit=limit, after=after)
        return found

    async def glob(
        self, pattern: str, path: str = ".", limit: int | None = None, after: str | None = None
    ) -> list[str]:
        """Paths of the files that match."""
        found: list[str] = await self._value(
            "glob", pattern=pattern, path=path, limit=limit, after=after
        )
        return found

    @overload
    async def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | list[str] | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        limit: int | None = None,
        context: int = 0,
        output: Literal["lines"] = "lines",
    ) -> list[Match]: ...

    @overload
    async def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | list[str] | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        limit: int | None = None,
        context: int = 0,
        *,
        output: Literal["files"],
    ) -> list[str]: ...

    @overload
    async def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | list[str] | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        limit: int | None = None,
        context: int = 0,
        *,
        output: Literal["count"],
    ) -> list[MatchCount]: ...

    async def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | list[str] | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        limit: int | None = None,
        context: int = 0,
        output: Literal["lines", "files", "count"] = "lines",
    ) -> list[Match] | list[str] | list[MatchCount]:
        """Lines that match, or the files they are in, or how many there are in each."""
        found: list[Match] | list[str] | list[MatchCount] = await self._value(
            "grep",
            pattern=pattern,
            path=path,
            glob=glob,
            ignore_case=ignore_case,
            literal=literal,
            limit=limit,
            context=context,
            output=output,
        )
        return found

    async def write(
        self,
        path: str,
        content: str,
        mode: Literal["overwrite", "create", "append"] = "overwrite",
        expected_offset: int | None = None,
        expected_sha256: str | None = None,
    ) -> Change:
        """Write a file, or add to it."""
        found: Change = await self._value(
            "write",
            path=path,
            content=content,
            mode=mode,
            expected_offset=expected_offset,
            expected_sha256=expected_sha256,
        )
        return found

    async def edit(
        self,
        path: str,
        old: str | None = None,
        new: str | None = None,
        replace_all: bool = False,
        expected_count: int | None = None,
        diff: str | None = None,
        dry_run: bool = False,
    ) -> Change:
        """Change a part of a file, by its text or by a unified diff."""
        found: Change = await self._value(
            "edit",
            path=path,
            old=old,
            new=new,
            replace_all=replace_all,
            expected_count=expected_count,
            diff=diff,
            dry_run=dry_run,
        )
        return found

    async def patch(self, diff: str, dry_run: bool = False) -> list[Change]:
        """Apply a unified diff of several files, all of it or nothing."""
        found: list[Change] = await self._value("patch", diff=diff, dry_run=dry_run)
        return found

    async def bash(
        self,
        cmd: str,
        args: list[str] | None = None,
        cwd: str = ".",
        timeout_ms: int | None = None,
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        """Run a program; any exit code but 0 raises."""
        found: CommandResult = await self._value(
            "bash", cmd=cmd, args=args, cwd=cwd, timeout_ms=timeout_ms, env=env
        )
        return found

    async def git(
        self,
        command: GitCommand,
        repo: str = ".",
        ref: str | None = None,
        paths: list[str] | None = None,
        limit: int = 50,
        skip: int = 0,
        staged: bool = False,
        patch: bool = True,
        all: bool = False,
    ) -> list[dict[str, Any]]:
        """What git says, as rows; to write, call `Session.tool`."""
        found: list[dict[str, Any]] = await self._value(
            "git",
            command=command,
            repo=repo,
            ref=ref,
            paths=paths,
            limit=limit,
            skip=skip,
            staged=staged,
            patch=patch,
            all=all,
        )
        return found

    async def batch(
        self, calls: list[BatchCall], max_concurrency: int = 8, stop_on_error: bool = False
    ) -> list[BatchResult]:
        """Several calls; what failed is in its result."""
        found: list[BatchResult] = await self._value(
            "batch", calls=calls, max_concurrency=max_concurrency, stop_on_error=stop_on_error
        )
        return found

    async def web_fetch(
        self,
        url: str,
        format: Literal["markdown", "text", "html"] = "markdown",
        offset: int = 0,
        max_chars: int = 50_000,
        timeout_ms: int = 30_000,
    ) -> Page:
        """A page of the public web."""
        found: Page = await self._value(
            "web_fetch",
            url=url,
            format=format,
            offset=offset,
            max_chars=max_chars,
            timeout_ms=timeout_ms,
        )
        return found

    async def web_search(
        self, query: str, limit: int = 10, timeout_ms: int = 20_000
    ) -> list[SearchHit]:
        """What a search engine finds."""
        found: list[SearchHit] = await self._value(
            "web_search", query=query, limit=limit, timeout_ms=timeout_ms
        )
        return found


class BlockingWorkspace:
    """As `Workspace`, for a `BlockingSession`: plain methods."""

    def __init__(self, session: BlockingSession) -> None:
        self._session = session

    def _value(self, tool: str, /, **arguments: Any) -> Any:
        return self._session.tool(tool, arguments).unwrap()

    def read(self, path: str, offset: int = 0, limit: int | None = None) -> str:
        """The text of a file, whole or by lines."""
        found: str = self._value("read", path=path, offset=offset, limit=limit)
        return found

    def read_files(
        self, paths: list[str], limit: int | None = None, max_bytes: int = 2_097_152
    ) -> list[FileText]:
        """Many files; what is left out of one, or wrong with it, is in its record."""
        found: list[FileText] = self._value(
            "read_files", paths=paths, limit=limit, max_bytes=max_bytes
        )
        return found

    def ls(
        self, path: str = ".", limit: int | None = None, after: str | None = None
    ) -> list[Entry]:
        """The entries of a folder."""
        found: list[Entry] = self._value("ls", path=path, limit=limit, after=after)
        return found

    def glob(
        self, pattern: str, path: str = ".", limit: int | None = None, after: str | None = None
    ) -> list[str]:
        """Paths of the files that match."""
        found: list[str] = self._value("glob", pattern=pattern, path=path, limit=limit, after=after)
        return found

    @overload
    def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | list[str] | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        limit: int | None = None,
        context: int = 0,
        output: Literal["lines"] = "lines",
    ) -> list[Match]: ...

    @overload
    def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | list[str] | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        limit: int | None = None,
        context: int = 0,
        *,
        output: Literal["files"],
    ) -> list[str]: ...

    @overload
    def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | list[str] | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        limit: int | None = None,
        context: int = 0,
        *,
        output: Literal["count"],
    ) -> list[MatchCount]: ...

    def grep(
        self,
        pattern: str,
        path: str = ".",
        glob: str | list[str] | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        limit: int | None = None,
        context: int = 0,
        output: Literal["lines", "files", "count"] = "lines",
    ) -> list[Match] | list[str] | list[MatchCount]:
        """Lines that match, or the files they are in, or how many there are in each."""
        found: list[Match] | list[str] | list[MatchCount] = self._value(
            "grep",
            pattern=pattern,
            path=path,
            glob=glob,
            ignore_case=ignore_case,
            literal=literal,
            limit=limit,
            context=context,
            output=output,
        )
        return found

    def write(
        self,
        path: str,
        content: str,
        mode: Literal["overwrite", "create", "append"] = "overwrite",
        expected_offset: int | None = None,
        expected_sha256: str | None = None,
    ) -> Change:
        """Write a file, or add to it."""
        found: Change = self._value(
            "write",
            path=path,
            content=content,
            mode=mode,
            expected_offset=expected_offset,
            expected_sha256=expected_sha256,
        )
        return found

    def edit(
        self,
        path: str,
        old: str | None = None,
        new: str | None = None,
        replace_all: bool = False,
        expected_count: int | None = None,
        diff: str | None = None,
        dry_run: bool = False,
    ) -> Change:
        """Change a part of a file, by its text or by a unified diff."""
        found: Change = self._value(
            "edit",
            path=path,
            old=old,
            new=new,
            replace_all=replace_all,
            expected_count=expected_count,
            diff=diff,
            dry_run=dry_run,
        )
        return found

    def patch(self, diff: str, dry_run: bool = False) -> list[Change]:
        """Apply a unified diff of several files, all of it or nothing."""
        found: list[Change] = self._value("patch", diff=diff, dry_run=dry_run)
        return found

    def bash(
        self,
        cmd: str,
        args: list[str] | None = None,
        cwd: str = ".",
        timeout_ms: int | None = None,
        env: dict[str, str] | None = None,
    ) -> CommandResult:
        """Run a program; any exit code but 0 raises."""
        found: CommandResult = self._value(
            "bash", cmd=cmd, args=args, cwd=cwd, timeout_ms=timeout_ms, env=env
        )
        return found

    def git(
        self,
        command: GitCommand,
        repo: str = ".",
        ref: str | None = None,
        paths: list[str] | None = None,
        limit: int = 50,
        skip: int = 0,
        staged: bool = False,
        patch: bool = True,
        all: bool = False,
    ) -> list[dict[str, Any]]:
        """What git says, as rows; to write, call `Session.tool`."""
        found: list[dict[str, Any]] = self._value(
            "git",
            command=command,
            repo=repo,
            ref=ref,
            paths=paths,
            limit=limit,
            skip=skip,
            staged=staged,
            patch=patch,
            all=all,
        )
        return found

    def batch(
        self, calls: list[BatchCall], max_concurrency: int = 8, stop_on_error: bool = False
    ) -> list[BatchResult]:
        """Several calls; what failed is in its result."""
        found: list[BatchResult] = self._value(
            "batch", calls=calls, max_concurrency=max_concurrency, stop_on_error=stop_on_error
        )
        return found

    def web_fetch(
        self,
        url: str,
        format: Literal["markdown", "text", "html"] = "markdown",
        offset: int = 0,
        max_chars: int = 50_000,
        timeout_ms: int = 30_000,
    ) -> Page:
        """A page of the public web."""
        found: Page = self._value(
            "web_fetch",
            url=url,
            format=format,
            offset=offset,
            max_chars=max_chars,
            timeout_ms=timeout_ms,
        )
        return found

    def web_search(self, query: str, limit: int = 10, timeout_ms: int = 20_000) -> list[SearchHit]:
        """What a search engine finds."""
        found: list[SearchHit] = self._value(
            "web_search", query=query, limit=limit, timeout_ms=timeout_ms
        )
        return found
