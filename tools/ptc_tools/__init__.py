"""The built-in tools, one module each.

::

    Session(root=".")
    Session(root=".", toolsets=(), tools=[ptc_tools.read, ptc_tools.grep])

Each name is imported when it is first used. A tool's module has an underscore because the module
and the tool would otherwise want the same name.
"""

from typing import TYPE_CHECKING, Literal

from ptc._core._lazy import lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ptc import Toolset

    from ._bash import (
        BASH_DEFAULT_OUTPUT_BYTES,
        BASH_DEFAULT_TIMEOUT_MS,
        BASH_MAX_ARG_LENGTH,
        BASH_MAX_ARGS,
        BASH_MAX_COMMAND_LENGTH,
        BASH_MAX_CWD_LENGTH,
        BASH_MAX_OUTPUT_BYTES,
        BASH_MAX_TIMEOUT_MS,
    )
    from ._bash import CommandResult as CommandResult
    from ._bash import bash as bash
    from ._bash import bash_tool as bash_tool
    from ._batch import BatchCall as BatchCall
    from ._batch import BatchProblem as BatchProblem
    from ._batch import BatchResult as BatchResult
    from ._batch import batch as batch
    from ._compat import compat as compat
    from ._todo import TodoItem as TodoItem
    from ._todo import TodoList as TodoList
    from ._todo import TodoPatch as TodoPatch
    from ._todo import manage_todo_list as manage_todo_list
    from ._todo import todo as todo
    from .files._attach_file import AttachedFile, attach_file
    from .files._change import Change as Change
    from .files._edit import edit as edit
    from .files._ls import Entry, ls
    from .files._patch import patch as patch
    from .files._read import read as read
    from .files._read_files import FileProblem, FileRest, FileText, read_files
    from .files._write import write as write
    from .recall._parts import StoredPart
    from .recall._search import Occurrence
    from .recall._tool import get_tool_response
    from .search._glob import glob as glob
    from .search._grep import MatchCount, grep
    from .search._lines import Match
    from .skills._results import SkillHit, SkillInstructions, SkillRun, SkillText
    from .skills._toolset import skills_toolset
    from .vcs._git import git, git_tool
    from .verify._checks import Check, CheckResult, VerificationReport
    from .verify._presets import Preset, detect_checks, preset
    from .verify._verify import verify_commands
    from .web._web_fetch import Page, web_fetch_tool
    from .web._web_search import (
        Brave,
        SearchHit,
        SearchProvider,
        SearXNG,
        Tavily,
        search_provider_from_environment,
        web_search_tool,
    )


_BUILTIN = (
    "read",
    "read_files",
    "attach_file",
    "ls",
    "glob",
    "grep",
    "write",
    "edit",
    "patch",
    "bash",
    "git",
    "batch",
    "get_tool_response",
    "verify_commands",
)
"""The tools of `builtin`, in the order in which a model sees them."""

__all__ = [
    "BASH_DEFAULT_OUTPUT_BYTES",
    "BASH_DEFAULT_TIMEOUT_MS",
    "BASH_MAX_ARGS",
    "BASH_MAX_ARG_LENGTH",
    "BASH_MAX_COMMAND_LENGTH",
    "BASH_MAX_CWD_LENGTH",
    "BASH_MAX_OUTPUT_BYTES",
    "BASH_MAX_TIMEOUT_MS",
    "AttachedFile",
    "BatchCall",
    "BatchProblem",
    "BatchResult",
    "Brave",
    "Change",
    "Check",
    "CheckResult",
    "CommandResult",
    "Entry",
    "FileProblem",
    "FileRest",
    "FileText",
    "Match",
    "MatchCount",
    "Occurrence",
    "Page",
    "Preset",
    "SearXNG",
    "SearchHit",
    "SearchProvider",
    "SkillHit",
    "SkillInstructions",
    "SkillRun",
    "SkillText",
    "StoredPart",
    "Tavily",
    "TodoItem",
    "TodoList",
    "TodoPatch",
    "VerificationReport",
    "attach_file",
    "bash",
    "bash_tool",
    "batch",
    "builtin",
    "compat",
    "detect_checks",
    "edit",
    "get_tool_response",
    "git",
    "git_tool",
    "glob",
    "grep",
    "ls",
    "manage_todo_list",
    "patch",
    "preset",
    "read",
    "read_files",
    "search_provider_from_environment",
    "skills_toolset",
    "todo",
    "verify_commands",
    "web_fetch_tool",
    "web_search_tool",
    "write",
]

__getattr__: "Callable[[str], object]"
__dir__: "Callable[[], list[str]]"
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "_bash": [
            "BASH_DEFAULT_OUTPUT_BYTES",
            "BASH_DEFAULT_TIMEOUT_MS",
            "BASH_MAX_ARGS",
            "BASH_MAX_ARG_LENGTH",
            "BASH_MAX_COMMAND_LENGTH",
            "BASH_MAX_CWD_LENGTH",
            "BASH_MAX_OUTPUT_BYTES",
            "BASH_MAX_TIMEOUT_MS",
            "CommandResult",
            "bash",
            "bash_tool",
        ],
        "_batch": ["BatchCall", "BatchProblem", "BatchResult", "batch"],
        "_compat": ["compat"],
        "_todo": ["TodoItem", "TodoList", "TodoPatch", "manage_todo_list", "todo"],
        "files._attach_file": ["AttachedFile", "attach_file"],
        "files._change": ["Change"],
        "files._edit": ["edit"],
        "files._ls": ["Entry", "ls"],
        "files._patch": ["patch"],
        "files._read": ["read"],
        "files._read_files": ["FileProblem", "FileRest", "FileText", "read_files"],
        "files._write": ["write"],
        "recall._parts": ["StoredPart"],
        "recall._search": ["Occurrence"],
        "recall._tool": ["get_tool_response"],
        "search._glob": ["glob"],
        "search._grep": ["MatchCount", "grep"],
        "search._lines": ["Match"],
        "skills._results": ["SkillHit", "SkillInstructions", "SkillRun", "SkillText"],
        "skills._toolset": ["skills_toolset"],
        "vcs._git": ["git", "git_tool"],
        "verify._checks": ["Check", "CheckResult", "VerificationReport"],
        "verify._presets": ["Preset", "detect_checks", "preset"],
        "verify._verify": ["verify_commands"],
        "web._web_fetch": ["Page", "web_fetch_tool"],
        "web._web_search": [
            "Brave",
            "SearXNG",
            "SearchHit",
            "SearchProvider",
            "Tavily",
            "search_provider_from_environment",
            "web_search_tool",
        ],
    },
)


def builtin(
    *,
    network: bool = False,
    git_writes: bool = False,
    readable: "Sequence[str | Path]" = (),
    confinement: 'Literal["required", "available"]' = "required",
    max_output_bytes: int | None = None,
) -> "Toolset":
    """Create the toolset ``builtin``: the tools of this package, confined to the session's root.

    Args:
        network: True: commands may use the host's network, and the toolset has `web_fetch` and, if
            the environment names a search engine (`search_provider_from_environment`),
            `web_search`.
        git_writes: True: `git` can also add, commit and check out.
        readable: Absolute folders that commands of `bash` may read and execute, as a toolchain.
        confinement: For `bash`, `git` and `web_fetch`: see `bash_tool`.
        max_output_bytes: Budget of each stream of a command; None: `BASH_DEFAULT_OUTPUT_BYTES`.
            `Limits` bounds the results of all tools (``max_tool_result_bytes``).

    Raises:
        SetupError: If ``network=True`` and httpx is not installed.
        UsageError: If an option has an invalid value.
    """
    from ptc import Tool, Toolset

    from . import _bash
    from .vcs import _git

    made: dict[str, Tool] = {}
    if network or readable or max_output_bytes is not None or confinement != "required":
        made["bash"] = _bash.bash_tool(
            network=network,
            confinement=confinement,
            readable=readable,
            max_output_bytes=(
                _bash.BASH_DEFAULT_OUTPUT_BYTES if max_output_bytes is None else max_output_bytes
            ),
        )
    if git_writes or confinement != "required":
        made["git"] = _git.git_tool(writes=git_writes, confinement=confinement)
    found = [made.get(name) or __getattr__(name) for name in _BUILTIN]
    if network:
        from .web import _web_fetch, _web_search

        found.append(_web_fetch.web_fetch_tool(confinement=confinement))
        provider = _web_search.search_provider_from_environment()
        if provider is not None:
            found.append(_web_search.web_search_tool(provider))
    return Toolset("builtin", tuple(item for item in found if isinstance(item, Tool)))
