"""Advice about a script as a whole: its value, and the parameters of `run`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from .._language._entry import final_assignments
from .._wire._protocol import Finding

__all__ = ["advise", "finding_at"]

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def advise(
    tree: ast.Module,
    run: _Function | None,
    lines: list[bytes],
    is_known: Callable[[str], bool],
) -> list[Finding]:
    """Return advice about a script.

    Args:
        tree: The script.
        run: Its function `run`; None: a top-level script.
        lines: Its source.
        is_known: True for the name of an attribute of `ctx`.
    """
    if run is None:
        return [_describe_end(last, lines) for last in final_assignments(tree)]
    return _describe_parameters(run, lines, is_known)


def _describe_end(node: ast.Assign | ast.AnnAssign | ast.AugAssign, lines: list[bytes]) -> Finding:
    """Report that the value of a top-level script is that of its last assignment."""
    target = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    text = f"the script ends in an assignment: its value is that of {target}"
    hint = f"write {target} on a line of its own at the end"
    return replace(finding_at(node, lines, "ends_in_assignment", text, hint), advisory=True)


def _describe_parameters(
    run: _Function, lines: list[bytes], is_known: Callable[[str], bool]
) -> list[Finding]:
    """Report a `run` that takes single inputs by name, to which `ctx` and `inputs` are passed."""
    parameters = [*run.args.posonlyargs, *run.args.args][:2]
    names = [parameter.arg for parameter in parameters]
    if len(names) < 2 or {"ctx", "inputs"}.intersection(names):
        return []
    if _CONTEXT.search(names[0]) or any(map(is_known, _attributes_of(names[0], run))):
        return []
    first, second = names
    text = f"`run` is called with (ctx, inputs): {first} is ctx, {second} is the dict of all inputs"
    hint = f"write run(ctx, inputs), and read inputs[{first!r}] and inputs[{second!r}]"
    finding = finding_at(parameters[0], lines, "run_parameters", text, hint)
    return [replace(finding, advisory=True)]


def _attributes_of(name: str, run: _Function) -> Iterator[str]:
    """Yield the attributes of a variable that a function uses."""
    for node in ast.walk(run):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=attr) if owner == name:
                yield attr


_CONTEXT: Final = re.compile("ctx|context|tools|^_", re.IGNORECASE)


def finding_at(node: Any, lines: list[bytes], code: str, message: str, hint: str) -> Finding:
    """Return a finding about a node of the tree."""
    end_line = node.end_lineno or node.lineno
    return Finding(
        code=code,
        message=message,
        line=node.lineno,
        column=_column(lines, node.lineno, node.col_offset),
        end_line=end_line,
        end_column=_column(lines, end_line, node.end_col_offset or 0),
        hint=hint,
    )


def _column(lines: list[bytes], line: int, offset: int) -> int:
    raw = lines[line - 1] if line <= len(lines) else b""
    return len(raw[:offset].decode(errors="ignore")) + 1
