"""docs/limitations.md: every example does what its first line says, and nothing is left out."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ptc import Session
from ptc._language import _policy as policy
from ptc._language._compiler import ScriptRejected, compile_script

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "limitations.md").read_text(encoding="utf-8")
SOURCES = (
    "_compiler.py",
    "_entry.py",
    "_visitor.py",
    "_transformer.py",
    "_definitions.py",
    "_imports.py",
)


@dataclass(frozen=True)
class Example:
    kind: str
    expected: str
    source: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.kind} {self.expected}"


def examples() -> Iterator[Example]:
    for found in re.finditer(r"^```python\n# (\w+): ([^\n]*)\n(.*?)^```$", PAGE, re.M | re.S):
        line = PAGE.count("\n", 0, found.start()) + 1
        yield Example(found[1], found[2], found[3], line)


EXAMPLES = list(examples())


def of(*kinds: str) -> pytest.MarkDecorator:
    chosen = [example for example in EXAMPLES if example.kind in kinds]
    return pytest.mark.parametrize("example", chosen, ids=str)


def test_every_example_states_its_outcome() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") > 40
    assert {example.kind for example in EXAMPLES} == {
        "refused",
        "fails",
        "differs",
        "works",
        "exits",
    }


@of("refused")
def test_a_refused_example_is_refused_with_its_code(example: Example) -> None:
    with pytest.raises(ScriptRejected) as rejected:
        # Most examples are a few lines of a script.
        compile_script(example.source, require_run=example.expected.endswith("_run"))
    assert {finding.code for finding in rejected.value.findings} == {example.expected}
    if example.expected not in {"syntax_error", "too_complex"}:
        # It is Python: what refuses it is the policy.
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        compile(example.source, "script.py", "exec", flags, dont_inherit=True)


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, toolsets=(), workers=1) as opened:
        yield opened


@pytest.mark.anyio
@of("fails", "differs", "works", "exits")
async def test_runnable_example_ends_as_stated(example: Example, session: Session) -> None:
    whole = example.source if "def run(" in example.source else f"{example.source}0\n"
    result = await session.program(source=whole if example.kind == "fails" else example.source)
    if example.kind == "exits":
        assert result.error is not None
        assert (result.status, result.error.code) == ("failed", "exit")
        assert result.error.message == json.loads(example.expected)
    elif example.kind == "fails":
        assert result.error is not None
        assert (result.status, result.error.code) == ("failed", "exception")
        raised = {result.error.type} | ({"AttributeError"} & {_public(result.error.type)})
        assert example.expected in raised, result.error
    else:
        assert (result.status, result.value) == ("completed", json.loads(example.expected)), (
            result.error
        )


def _public(name: str) -> str:
    return {"RefusedError": "AttributeError"}.get(name, name)


@of("differs", "works")
def test_example_matches_cpython_only_if_stated(example: Example) -> None:
    if "asyncio" in example.source:
        source = f"{example.source}\nresult = asyncio.run(run(None, {{}}))"
    elif "def run(" in example.source:
        source = f"{example.source}\nresult = run(None, {{}})\nimport inspect\n"
        source += "if inspect.iscoroutine(result):\n    import asyncio\n"
        source += "    result = asyncio.run(result)\n"
    else:
        tree = ast.parse(example.source)
        last = tree.body[-1]
        assert isinstance(last, ast.Expr)
        tree.body[-1] = ast.Assign([ast.Name("result", ast.Store())], last.value, lineno=1)
        source = ast.unparse(ast.fix_missing_locations(tree))
    assert _same_in_python(source, example) is (example.kind == "works")


def _same_in_python(source: str, example: Example) -> bool:
    text = f"import json\n{source}\nprint('\\n' + json.dumps(result, default=repr))"
    done = subprocess.run(
        [sys.executable, "-c", text],
        text=True, capture_output=True, timeout=60, check=False, env={"TZ": "UTC0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    value: Any = json.loads(done.stdout.splitlines()[-1])
    return bool(value == json.loads(example.expected))


# ---------------------------------------------------------------------------------------------
# Nothing is left out


def test_every_compiler_finding_code_is_documented() -> None:
    package = ROOT / "ptc" / "_language"
    texts = "".join((package / name).read_text(encoding="utf-8") for name in SOURCES)
    codes = set(re.findall(r'"(\w+_refused|syntax_error|no_run|bad_run|too_\w+|not_text)"', texts))
    assert codes >= {"name_refused", "attribute_refused", "import_refused", "syntax_refused"}
    table = PAGE.split("## Findings")[1].split("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", table)) == codes
    shown = {example.expected for example in EXAMPLES if example.kind == "refused"}
    # The first two would be long, or not be text; the last needs a later Python.
    assert codes - shown == {"too_long", "not_text", "syntax_refused"}


def rows(heading: str) -> list[tuple[set[str], str]]:
    section = PAGE.split(f"\n{heading}\n")[1]
    found = re.findall(r"^\| (`.*?) \| (.*) \|$", re.split(r"\n#+ |\n```", section)[0], re.M)
    return [(set(re.findall(r"`([\w.]+)`", left)), right) for left, right in found]


def names_under(heading: str) -> set[str]:
    return {name for names, _ in rows(heading) for name in names}


@pytest.mark.parametrize(
    ("heading", "table"),
    [
        ("## Modules", policy.MODULES),
        ("### Modules that are not there", policy.MODULE_HINTS),
        ("### Names that modules lack", policy.MISSING_HINTS),
        ("## Builtins", policy.BUILTIN_HINTS),
        ("### Methods a class may define", policy.UNDEFINABLE_HINTS),
        ("### Dunder attributes that cannot be read", policy.READ_HINTS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tables_of_the_page_match_the_policy(heading: str, table: Any) -> None:
    assert names_under(heading) == set(table)
    assert all(right.strip() for _, right in rows(heading))


def test_names_documented_as_missing_from_a_module_are_missing() -> None:
    for modules, missing in rows("## Modules"):
        if len(modules) == 1 and "exist" not in missing and ";" not in missing:
            names = set(re.findall(r"`(\w+)`", missing)) - {"literal_eval", "StringIO", "BytesIO"}
            (module,) = modules
            assert not names & policy.MODULES[module], module


def test_names_with_special_rules_are_documented() -> None:
    for name in policy.CALL_ONLY:
        assert f"`{name}`" in PAGE.split("are only called")[0].rsplit("###", 1)[1]
    for name in policy.FAIL_WHEN_REACHED:
        assert f"`{name}`" in PAGE.split("that need not be reached")[0].rsplit("###", 1)[1]
    for name in [*policy.IN_PLACE, *policy.READABLE, *policy.KEEPABLE, *policy.WRITABLE]:
        assert f"`{name}`" in PAGE, name
    for name in policy.OWN_METHODS - {"__get__", "__set__", "__delete__", "__set_name__"}:
        assert f"`{name}`" in PAGE, name


def test_links_inside_the_page_lead_to_a_heading() -> None:
    headings = re.findall(r"^#+ (.*)$", PAGE, re.M)
    anchors = {re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-") for text in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= anchors
