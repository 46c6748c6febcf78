"""`glob`: find files by a pattern for their name or path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from ptc import ToolContext, ToolError, tool
from ptc._schema._bounds import Bounds

from ..files._path_errors import quote, readable
from ..files._paths import Place, Root
from ._pattern import Pattern, compile_pattern
from ._ripgrep import Ripgrep, run_killable

__all__ = ["DEFAULT_LIMIT", "beneath", "glob", "selection"]

DEFAULT_LIMIT = 10_000
"""Maximum number of paths without `limit`; more are an error."""


def _render(paths: list[str]) -> str:
    return "\n".join(paths) if paths else "No files match"


@tool(render=_render)
async def glob(
    ctx: ToolContext,
    pattern: str,
    path: str = ".",
    limit: Annotated[int, Bounds(ge=1, le=1_000_000)] | None = None,
    after: str | None = None,
) -> list[str]:
    """Find files by name. Returns a sorted list of paths relative to the workspace root.

    "*.py" matches the name in any folder; a pattern with a slash matches the whole path below
    `path`: "src/**/*.py", "./*.py". Also ? [a-z] [!a-z] {a,b}. Files that .gitignore excludes are
    skipped, and so are names that start with a dot unless the pattern has the dot: ".github/**".

    Args:
        ctx: The call.
        pattern: File name pattern.
        path: Folder to search, relative to the workspace root. Default: the root.
        limit: Return the first N paths. Default: all; over 10,000 is an error (too_many).
        after: Return the paths after this one: the last one of the previous list.
    """
    compiled = compile_pattern(pattern)
    folder = ctx.root

    def find(ripgrep: Ripgrep) -> list[str]:
        return _find(ripgrep, folder, compiled, path, limit, after)

    return await run_killable(find)


def _find(
    ripgrep: Ripgrep,
    folder: Path,
    pattern: Pattern,
    path: str,
    limit: int | None,
    after: str | None,
) -> list[str]:
    found: list[str] = []
    last = [] if after is None else after.split("/")
    with Root(folder) as root:
        place = root.locate(path)
        if not place.is_folder:
            msg = f"{quote(path)} is a file, not a folder; glob searches folders"
            raise ToolError(msg, code="not_a_directory")
        options = selection(pattern)
        if limit is not None:
            # In order, so that the search can stop after the first ones.
            options.append("--sort=path")
        for name in ripgrep.files(root, place, options):
            if not pattern.matches(beneath(place, name)):
                continue
            if last and readable(name).split("/") <= last:
                continue
            # Verify each file through the path boundary: ripgrep may be mistaken or too late.
            if not root.has_exact(name):
                continue
            found.append(name)
            if len(found) == limit:
                break
            if limit is None and len(found) > DEFAULT_LIMIT:
                msg = (
                    f"more than {DEFAULT_LIMIT:,} files match; use a longer pattern or path=..., "
                    "or pass limit=N for the first N by path"
                )
                raise ToolError(msg, code="too_many", details={"limit": DEFAULT_LIMIT})
    found.sort(key=lambda name: name.split("/"))
    return [readable(name) for name in found]


def beneath(place: Place, path: str) -> Sequence[str]:
    """Return the names of `path` below folder `place`; its last name if `place` is the file."""
    if not place.is_folder:
        return path.split("/")[-1:]
    return path.removeprefix(f"{place.path}/" if place.path else "").split("/")


def selection(pattern: Pattern) -> list[str]:
    """Return options of ripgrep that skip most other files. `Pattern.matches` still decides.

    Types, unlike ``-g``, do not override ignore files.
    """
    options = ["--hidden"] if pattern.names_dots else []
    for name in pattern.name_globs:
        options.append(f"--type-add=wanted:{name}")
    if pattern.name_globs:
        options.append("--type=wanted")
    return options
