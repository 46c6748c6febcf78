"""Compile the source of a script to a code object, or report every finding with its line and fix.

The worker compiles; the host never imports this module. A code object depends on the source, on
the interpreter and on `POLICY_VERSION` alone, so it may be cached under the three.

Rule 1: only `str` is compiled: bytes can carry an encoding cookie that changes the meaning of the
    text (test_bytes_are_refused).
Rule 2: a source that breaks the parser or the compiler becomes a finding, never a crash
    (test_sources_that_crash_parsers_become_findings).
Rule 3: all findings of a script are reported at once, in order of position
    (test_all_findings_are_reported_at_once_in_order).
"""

from __future__ import annotations

import ast
import operator
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Final

from .._dataclass import dataclass
from .._wire._messages import Finding
from ._entry import (
    RETURN_PLACE,
    TOP_LEVEL_VALUE,
    Entry,
    bind_value,
    find_entry,
    keep_source,
    note_returns,
)
from ._policy import POLICY_VERSION, demangle
from ._scopes import Survey
from ._transformer import Issue, ScriptTransformer

__all__ = [
    "POLICY_VERSION",
    "RETURN_PLACE",
    "TOP_LEVEL_VALUE",
    "CompiledScript",
    "Finding",
    "Inspector",
    "ScriptRejected",
    "compile_script",
    "demangle",
]

#: Longest source that is parsed, in UTF-8 bytes: far above the output of a model in one turn.
MAX_SOURCE_BYTES: Final = 256 * 1024
#: Deepest nesting of brackets in a source; CPython's own parser gives up at 200.
MAX_BRACKETS: Final = 150
#: Deepest tree. `a + b + c` nests to the left, `elif` to the right, one level per operator.
MAX_DEPTH: Final = 1000
# Four Python frames per level of the tree, and a margin of more than twice that.
_RECURSION_LIMIT: Final = 10 * MAX_DEPTH


Inspector = Callable[[ast.Module, Survey], Iterable[Finding]]
"""Returns errors that the policy does not know, from the syntax tree, which it does not change."""


@dataclass(frozen=True, slots=True)
class CompiledScript:
    """A script that the policy accepts."""

    code: types.CodeType
    #: Definition of `run`, or a top-level script without one; None if neither was required.
    entry: Entry | None


class ScriptRejected(Exception):
    """Raised when a script breaks the policy or does not parse.

    Attributes:
        findings: Every reason, in order of position; never empty.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings: tuple[Finding, ...] = tuple(findings)
        super().__init__("\n".join(map(str, self.findings)))


def compile_script(
    source: str,
    filename: str = "script.py",
    *,
    require_run: bool = True,
    max_bytes: int = MAX_SOURCE_BYTES,
    inspector: Inspector | None = None,
) -> CompiledScript:
    """Compile `source` under the language policy.

    Args:
        source: The script.
        filename: Name shown in tracebacks.
        require_run: Refuse a script without a `run` that takes ``(ctx, inputs)`` or fewer, unless
            its top level is a script of its own.
        max_bytes: Longest source, in bytes of UTF-8.
        inspector: Finds further errors, each of which refuses the script.

    Raises:
        ScriptRejected: With every finding.
    """
    _check_text(source, max_bytes)
    try:
        with warnings.catch_warnings():
            # "invalid escape sequence" and the like would go to the host's standard error.
            warnings.simplefilter("ignore")
            return _compile(source, filename, require_run=require_run, inspector=inspector)
    except SyntaxError as error:
        raise ScriptRejected([_syntax_finding(error, source)]) from None
    except RecursionError:
        raise ScriptRejected(
            [_script_finding("too_complex", "the script nests too deeply")]
        ) from None
    except MemoryError:
        # CPython's parser raises it for deep nesting, too.
        message = "the script nests too deeply, or there is not enough memory to compile it"
        hint = "split the expression, or ask for a higher limits.max_memory_bytes"
        raise ScriptRejected([_script_finding("too_complex", message, hint)]) from None
    except (ValueError, OverflowError) as error:
        # int literals over the digit limit, and other errors of the parser.
        raise ScriptRejected([_script_finding("syntax_error", str(error))]) from None


def _compile(
    source: str, filename: str, *, require_run: bool, inspector: Inspector | None
) -> CompiledScript:
    # Parsed under the interpreter's own recursion limit, which bounds recursion in C.
    tree = ast.parse(source, filename, "exec", type_comments=False)
    transformer = ScriptTransformer(tree)
    if transformer.survey.depth > MAX_DEPTH:
        hint = "split the expression, or build it in a loop"
        raise ScriptRejected([_script_finding("too_complex", "the script nests too deeply", hint)])
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    try:
        # Before the transformer changes the tree.
        found = tuple(inspector(tree, transformer.survey)) if inspector is not None else ()
        return _transform(transformer, tree, source, filename, found, require_run=require_run)
    finally:
        sys.setrecursionlimit(limit)


def _transform(
    transformer: ScriptTransformer,
    tree: ast.Module,
    source: str,
    filename: str,
    found: tuple[Finding, ...],
    *,
    require_run: bool,
) -> CompiledScript:
    survey = transformer.survey
    entry, findings = find_entry(tree, require_run=require_run, yields=survey.yields)
    findings += found
    tree = transformer.visit(tree)
    if transformer.issues:
        lines = source.encode().splitlines() or [b""]
        findings += [_issue_finding(issue, lines) for issue in transformer.issues]
    if findings:
        order = {finding: (finding.line, finding.column) for finding in findings}
        raise ScriptRejected(sorted(order, key=order.__getitem__))
    flags = 0
    if entry == "top_level":
        bind_value(tree)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    else:
        if entry is not None and require_run:
            note_returns(tree)
        if "__name__" in survey.read:
            _replace_module_name(tree)
    keep_source(tree, source)
    # dont_inherit: otherwise this module's own __future__ imports would apply to the script.
    code = compile(tree, filename, "exec", flags, dont_inherit=True, optimize=0)
    code = _restore_names(code)
    return CompiledScript(code, entry)


def _restore_names(code: types.CodeType) -> types.CodeType:
    """Restore the script's names of private methods, which messages and reprs show."""
    constants = tuple(
        _restore_names(each) if isinstance(each, types.CodeType) else each
        for each in code.co_consts
    )
    qualname = demangle(code.co_qualname)
    if qualname == code.co_qualname and all(map(operator.is_, constants, code.co_consts)):
        return code
    qualname = _MANGLED.sub(r"\g<owner>.", qualname)
    name = qualname.rpartition(".")[2]
    return code.replace(co_name=name, co_qualname=qualname, co_consts=constants)


# `Owner._Owner__method`: the name of a function is not mangled.
_MANGLED: Final = re.compile(r"(?P<owner>_*(?P<bare>\w+))\._(?P=bare)(?=__\w)")


def _replace_module_name(tree: ast.Module) -> None:
    """Replace `__name__` by the name of an imported module.

    The host calls `run`: under ``if __name__ == "__main__"`` a script would call it once more.
    """
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.Name) and value.id == "__name__":
                setattr(node, field, ast.copy_location(ast.Constant("script"), value))
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.Name) and item.id == "__name__":
                        value[index] = ast.copy_location(ast.Constant("script"), item)


def _check_text(source: str, max_bytes: int) -> None:
    if type(source) is not str:
        raise ScriptRejected([_script_finding("not_text", "the source of a script must be a str")])
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        finding = Finding("not_text", "the source holds a lone surrogate", line, 1, line, 1)
        raise ScriptRejected([finding]) from None
    if size > max_bytes:
        message = f"the source has {size} bytes; at most {max_bytes} are accepted"
        raise ScriptRejected([_script_finding("too_long", message, "pass data through `inputs`")])
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        finding = Finding("not_text", "the source holds a NUL character", line, 1, line, 1)
        raise ScriptRejected([finding])
    _check_brackets(source)


def _check_brackets(source: str) -> None:
    """Refuse nested brackets that would exhaust a parser's stack.

    Counts brackets in strings and comments too, where only unclosed ones can pass the limit. A
    false alarm needs 150 of them, seen in no real script, and is checked with the tokenizer.
    """
    if sum(map(source.count, "([{")) <= MAX_BRACKETS:
        return
    depth = line = 0
    for line, text in enumerate(source.split("\n"), 1):
        for character in text:
            if character in "([{":
                depth += 1
                if depth > MAX_BRACKETS and has_deep_brackets(source):
                    message = f"more than {MAX_BRACKETS} nested brackets"
                    raise ScriptRejected([Finding("too_complex", message, line, 1, line, 1)])
            elif character in ")]}":
                depth -= 1


def has_deep_brackets(source: str) -> bool:
    """Return True if brackets nest deeper than `MAX_BRACKETS`, not counting those in strings."""
    import io
    import tokenize

    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
                if depth > MAX_BRACKETS:
                    return True
    except (tokenize.TokenError, SyntaxError, RecursionError, MemoryError):
        return depth > MAX_BRACKETS
    return False


def _script_finding(code: str, message: str, hint: str = "") -> Finding:
    return Finding(code, message, 0, 0, 0, 0, hint)


def _syntax_finding(error: SyntaxError, source: str) -> Finding:
    line = error.lineno or 1
    column = max(error.offset or 1, 1)
    end_line = error.end_lineno if error.end_lineno and error.end_lineno > 0 else line
    end_column = error.end_offset if error.end_offset and error.end_offset > 0 else column
    hint = _syntax_hint(error.msg, source, line)
    return Finding("syntax_error", error.msg, line, column, end_line, end_column, hint)


def _syntax_hint(message: str, source: str, line: int) -> str:
    lines = source.split("\n")
    text = lines[line - 1] if line <= len(lines) else ""
    if source.lstrip().startswith("```"):
        return "send only the script, without the ``` around it"
    if message in _OUTSIDE:
        return "move it into `async def run(ctx, inputs)`, or end with the value on its own line"
    if message == "'await' outside function":  # the script defines `run`
        if _CALLS_RUN.search(text):
            return "the host calls run(ctx, inputs): remove this line"
        return "move it into `async def run(ctx, inputs)`, which the host calls"
    if message.endswith("outside async function"):
        return "write `async def` for the function around it"
    quotes = message == "f-string: expecting '}'" and _NESTED_QUOTES.search(text)
    if quotes or message.startswith("f-string: unmatched"):
        return "before Python 3.12 use the other kind of quotes inside an f-string"
    return ""


_OUTSIDE = ("'return' outside function", "'yield' outside function")
_CALLS_RUN: Final = re.compile(r"\bawait\s+run\s*\(")
_NESTED_QUOTES: Final = re.compile(
    r"""[fF][rR]?(?P<quote>["'])[^"'{]*\{[^"'}]*(?P=quote).*(?P=quote)"""
)


def _issue_finding(issue: Issue, lines: list[bytes]) -> Finding:
    node = issue.node
    line = getattr(node, "lineno", 1)
    end_line = getattr(node, "end_lineno", None) or line
    start = _column(lines, line, getattr(node, "col_offset", 0))
    end_offset = getattr(node, "end_col_offset", None)
    end = _column(lines, end_line, end_offset) if end_offset is not None else start
    message = demangle(issue.message)
    return Finding(issue.code, message, line, start, end_line, end, issue.hint)


def _column(lines: list[bytes], line: int, offset: int) -> int:
    """Return the 1-based column in characters; CPython counts offsets in bytes of UTF-8."""
    if not 0 < line <= len(lines):
        return offset + 1
    return len(lines[line - 1][:offset].decode(errors="replace")) + 1
