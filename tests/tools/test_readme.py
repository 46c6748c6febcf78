"""The table in ``tools/README.md`` matches the tools."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import ptc_tools
from ptc import Tool, ToolContext
from ptc_tools import _batch
from ptc_tools.files import _change, _ls, _patch, _read, _read_files
from ptc_tools.search import _glob, _grep, _lines
from ptc_tools.verify import _verify

README = Path(__file__).parents[2] / "tools" / "README.md"
HEAD = ["tool", "parameters", "value", "text", "flags", "limits", "errors"]


class NoSearch:
    """A provider for the tool's signature alone."""

    name = "none"

    async def search(self, query: str, limit: int) -> list[ptc_tools.SearchHit]:
        return []


def rows() -> dict[str, dict[str, str]]:
    found = {}
    for line in README.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == len(HEAD), line[:60]
            found[cells[0].strip(" `")] = dict(zip(HEAD, cells, strict=True))
    return found


def tools() -> dict[str, Tool]:
    made = {tool.name: tool for tool in ptc_tools.builtin(network=True)}
    made["manage_todo_list"] = ptc_tools.manage_todo_list
    made["web_search"] = ptc_tools.web_search_tool(NoSearch())
    made |= {tool.name: tool for tool in ptc_tools.skills_toolset()}
    return made


def test_readme_has_one_row_per_tool() -> None:
    assert set(rows()) == set(tools())


@pytest.mark.parametrize("name", list(tools()))
def test_readme_row_lists_parameters_and_defaults_in_order(name: str) -> None:
    tool = tools()[name]
    parameters: list[Any] = [
        parameter
        for parameter in inspect.signature(tool.function).parameters.values()
        if parameter.name != tool.context_parameter
    ]
    assert [p.name for p in parameters] == list(tool.parameter_names)
    written = re.findall(r"`([a-z][a-z0-9_]*)(?:=([^`]*))?`", rows()[name]["parameters"])
    known = [(n, d) for n, d in written if n in tool.parameter_names]
    first = dict(reversed(known))
    order = list(dict.fromkeys(parameter for parameter, _ in known))
    assert order == [p.name for p in parameters]
    for parameter in parameters:
        given = first[parameter.name]
        if parameter.default is parameter.empty:
            assert given == "", parameter.name
        elif parameter.default is not None:
            assert given.replace("'", '"') == repr(parameter.default).replace("'", '"')
        elif name not in ("bash", "git"):  # Those rows give the meaning of None.
            assert given == "None", parameter.name


@pytest.mark.parametrize("name", list(tools()))
def test_readme_row_states_the_flags(name: str) -> None:
    tool = tools()[name]
    flags = "side effect, not idempotent" if tool.side_effect else "none"
    if name == "verify_commands":
        # All that it does is to make calls, which carry their own flags.
        flags = "side effect, idempotent"
        assert tool.idempotent
    else:
        assert tool.idempotent is not tool.side_effect
    assert rows()[name]["flags"].startswith(flags)


@pytest.mark.parametrize("name", list(tools()))
def test_readme_row_names_every_field_of_the_value(name: str) -> None:
    value = rows()[name]["value"]
    hint = inspect.get_annotations(tools()[name].function)["return"]
    for record in re.findall(r"[A-Z]\w+", str(hint)):
        if record == "Any":
            continue
        assert f"`{record}`" in value or f"[{record}]`" in value
        if name in ("edit", "patch"):
            continue  # Its fields are in the row of write.
        for field in inspect.get_annotations(getattr(ptc_tools, record)):
            assert f"`{field}`" in value, f"{record}.{field}"


MODULES = {
    "read": ("_read",),
    "read_files": ("_read_files", "_read"),
    "ls": ("_ls",),
    "glob": ("_glob", "_pattern"),
    "grep": ("_grep", "_pattern", "_ripgrep"),
    "write": ("_write", "_change", "_atomic"),
    "edit": ("_edit", "_change", "_diff", "_hunks", "_read"),
    "patch": ("_patch", "_change", "_diff", "_hunks", "_atomic", "_read"),
    "batch": ("_batch",),
    "verify_commands": ("_verify",),
    "manage_todo_list": ("_todo",),
}


def codes_in(module: str) -> set[str]:
    (path,) = Path(ptc_tools.__path__[0]).rglob(f"{module}.py")
    source = path.read_text(encoding="utf-8")
    return {
        str(keyword.value.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }


@pytest.mark.parametrize("name", list(MODULES))
def test_readme_row_lists_the_error_codes(name: str) -> None:
    text = README.read_text(encoding="utf-8")
    shared = set(
        re.findall(r"`(\w+)`", text.partition("\nAny path may")[2].partition("An error is")[0])
    )
    raised = set().union(*map(codes_in, MODULES[name])) - shared
    # Only a change of several files can be left incomplete.
    raised -= {"half_done"} if name != "patch" else set()
    assert set(re.findall(r"`([a-z]+_[a-z_]+|exists|conflict)`", rows()[name]["errors"])) == raised
    paths = set().union(*map(codes_in, ("_paths", "_path_errors", "_walk")))
    assert paths <= shared


def mib(size: int) -> str:
    return f"{size // 2**20} MiB"


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("read", [mib(_read.MAX_BYTES), f"{_read.MAX_SCAN_BYTES // 2**30} GiB"]),
        (
            "read_files",
            [
                f"{_read_files.MAX_FILES:,} files",
                f"{mib(_read.MAX_BYTES)} a file",
                f"{mib(_read_files.MAX_TOTAL_BYTES)} together",
            ],
        ),
        ("ls", [f"{_ls.DEFAULT_LIMIT:,} entries"]),
        ("glob", [f"{_glob.DEFAULT_LIMIT:,} paths"]),
        (
            "grep",
            [
                f"{_grep.DEFAULT_LIMIT:,} matches",
                f"{_grep.MAX_CONTEXT_LINES} lines of context",
                f"{mib(_grep.MAX_TEXT_BYTES)} of text",
                f"{_lines.MAX_LINE_BYTES // 1024} KiB",
            ],
        ),
        ("write", [mib(_change.MAX_CONTENT_BYTES), f"up to {mib(_change.MAX_FILE_BYTES)}"]),
        ("edit", [mib(_change.MAX_CONTENT_BYTES)]),
        ("patch", [mib(_change.MAX_CONTENT_BYTES), f"{_patch.MAX_FILES} files"]),
        (
            "batch",
            [
                f"{_batch.MAX_CALLS} calls",
                f"{_batch.MAX_CONCURRENCY} at once",
                f"{mib(_batch.MAX_TOTAL_BYTES)} of values",
            ],
        ),
        (
            "verify_commands",
            [
                f"{_verify.MAX_CHECKS} checks",
                f"{_verify.MAX_CONCURRENCY} at once",
                f"{_verify.HEAD_CHARS + _verify.TAIL_CHARS:,} characters",
            ],
        ),
    ],
)
def test_readme_row_states_the_limits(name: str, limits: list[str]) -> None:
    for limit in limits:
        assert limit in rows()[name]["limits"]


def test_no_tool_accepts_a_context_from_its_caller() -> None:
    for tool in tools().values():
        hints = inspect.get_annotations(tool.function, eval_str=False)
        contexts = [n for n, hint in hints.items() if hint in ("ToolContext", ToolContext)]
        assert [tool.context_parameter] == contexts
        assert tool.context_parameter not in tool.parameter_names
