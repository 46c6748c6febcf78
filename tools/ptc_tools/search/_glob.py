"""`glob`: paths of the files whose name or path matches a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ptc import ToolContext, ToolError, tool

from ..files._paths import Place, Root, readable, shown
from ._pattern import Pattern, compile_pattern
from ._ripgrep import Ripgrep, run_killable

__all__ = ["DEFAULT_LIMIT", "beneath", "glob", "selection"]

DEFAULT_LIMIT = 10_000
"""Paths returned when no limit is asked for; more are an error."""


def _render(paths: list[str]) -> str:
    return "\n".join(paths) if paths else "No files match"


@tool(render=_render)
async def glob(
    ctx: ToolContext,
    pattern: str,
    path: str = ".",
    limit: Annotated[int, Field(ge=1, le=1_000_000)] | None = None,
    after: str | None = None,
) -> list[str]:
    """Find files by name. Returns a sorted list of paths relative to the workspace root.

    "*.py" matches the name in any folder; a pattern with a slash matches the whole path below
    `path`: "src/**/*.py", "./*.py". Also ? [a-z] [!a-z] {a,b}. Files that .gitignore names, and
    names that start with a dot, are left out unless the pattern has the dot: ".github/**".

    Args:
        ctx: The call.
        pattern: What to look for.
        path: Folder to look in, relative to the workspace root. Default: the root.
        limit: Return the first so many paths. Default: all; over 10,000 is an error (too_many).
        after: Return the paths after this one: the last one of the list before.
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
    begin = [] if after is None else after.split("/")
    with Root(folder) as root:
        place = root.locate(path)
        if not place.is_folder:
            msg = f"{shown(path)} is a file, not a folder; glob looks for files in a folder"
            raise ToolError(msg, code="not_a_directory")
        options = selection(pattern)
        if limit is not None:
            # In order, so that the first ones are known before all are.
            options.append("--sort=path")
        for name in ripgrep.files(root, place, options):
            if not pattern.matches(beneath(place, name)):
                continue
            if begin and readable(name).split("/") <= begin:
                continue
            # What is listed is a regular file beneath the root, not what ripgrep took for one.
            if not root.has_exact(name):
                continue
            found.append(name)
            if len(found) == limit:
                break
            if limit is None and len(found) > DEFAULT_LIMIT:
                msg = (
                    f"more than {DEFAULT_LIMIT:,} files match; use a longer pattern or path=..., "
                    "or pass limit=N to take the first N by path"
                )
                raise ToolError(msg, code="too_many", details={"limit": DEFAULT_LIMIT})
    found.sort(key=lambda name: name.split("/"))
    return [readable(name) for name in found]


def beneath(place: Place, path: str) -> Sequence[str]:
    """Names of `path` from folder `place` down; just the name if `place` is the file itself."""
    if not place.is_folder:
        return path.split("/")[-1:]
    return path.removeprefix(f"{place.path}/" if place.path else "").split("/")


def selection(pattern: Pattern) -> list[str]:
    """Options of ripgrep that leave out what cannot match. `Pattern.matches` still decides.

    Types, unlike ``-g``, leave the ignore files in force.
    """
    options = ["--hidden"] if pattern.names_dots else []
    for name in pattern.name_globs:
        options.append(f"--type-add=wanted:{name}")
    if pattern.name_globs:
        options.append("--type=wanted")
    return options
