"""The compiler of scripts: what it refuses, how it says so, and that the rest costs nothing."""

from __future__ import annotations

import ast
import asyncio
import functools
import marshal  # noqa: TID251  # compares code objects of this very process
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator

import pytest

from ptc._language import _policy as policy
from ptc._language._compiler import (
    MAX_BRACKETS,
    POLICY_VERSION,
    CompiledScript,
    Finding,
    ScriptRejected,
    compile_script,
    demangle,
)
from ptc._language._power_names import HARMLESS
from ptc._language._transformer import ScriptTransformer


def compile_source(source: str) -> CompiledScript:
    return compile_script(source, require_run=False)


def findings(source: str, *, require_run: bool = False) -> tuple[Finding, ...]:
    with pytest.raises(ScriptRejected) as rejected:
        compile_script(source, require_run=require_run)
    return rejected.value.findings


def names_of(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_of(constant)


# ---------------------------------------------------------------------------------------------
# Names


def test_every_attribute_of_a_power_bearing_type_is_guarded_or_has_a_reason() -> None:
    bearing = [
        types.FrameType, types.CodeType, types.FunctionType, types.MethodType, types.GeneratorType,
        types.CoroutineType, types.AsyncGeneratorType, types.TracebackType, types.ModuleType,
        types.CellType, types.BuiltinFunctionType, type, property, super, classmethod,
        staticmethod, memoryview, functools.partial, asyncio.Task, asyncio.Future,
        asyncio.SelectorEventLoop, typing.ForwardRef, AttributeError, StopIteration, OSError,
    ]  # fmt: skip
    undecided = {
        f"{kind.__name__}.{name}"
        for kind in bearing
        for name in dir(kind)
        if not name.startswith("_") and name not in policy.power_names() and not HARMLESS.get(name)
    }
    assert not undecided


@pytest.mark.parametrize(
    "name",
    [
        "gi_frame",
        "gi_code",
        "gi_yieldfrom",
        "cr_await",
        "cr_frame",
        "ag_frame",
        "f_back",
        "f_builtins",
        "f_globals",
        "f_locals",
        "tb_frame",
        "tb_next",
        "co_code",
        "co_consts",
        "cell_contents",
        "mro",
        "obj",
        "fget",
        "fset",
        "func",
        "format",
        "format_map",
        "get_loop",
        "get_coro",
        "get_stack",
        "print_stack",
        "with_traceback",
        "run_in_executor",
    ],
)
def test_power_attribute_is_always_compiled_with_a_guard(name: str) -> None:
    code = compile_source(f"x = 1\ny = x.{name}\n").code
    assert "@getattr" in code.co_names
    assert name not in code.co_names


def test_ordinary_code_is_compiled_without_any_guard() -> None:
    source = """
class P:
    def __init__(self, x):
        self.x = x
        self._y = [x]
    def f(self):
        self.x += 1
        self._y[0] -= 1
        (a, b), *c = ((1, 2), 3)
        return {k: v for k, v in self.items()}, f"{self.x:>{a}}", self._y[1:]
"""
    assert not [name for name in names_of(compile_source(source).code) if name.startswith("@")]


def test_prefix_of_renamed_names_cannot_be_written_in_source() -> None:
    for source in (
        f"{policy.PRIVATE_PREFIX}x = 1",
        f"x.{policy.PRIVATE_PREFIX}x",
        f"x.{policy.PRIVATE_PREFIX}x = 1",
        f"def f():\n    {policy.PRIVATE_PREFIX}x = 1",
        f"class C:\n    {policy.PRIVATE_PREFIX}x = 1",
        f"class C:\n    __slots__ = ('{policy.PRIVATE_PREFIX}x',)",
        f"class C:\n    __match_args__ = ('{policy.PRIVATE_PREFIX}x',)",
        f"match x:\n    case object({policy.PRIVATE_PREFIX}x=y):\n        pass",
    ):
        assert [finding.code for finding in findings(source)] == ["name_refused"]


def test_private_attributes_are_always_renamed() -> None:
    source = "class C:\n    _a = 1\n    def f(self):\n        return self._a, self.__b, x._c\n"
    names = set(names_of(compile_source(source).code))
    assert not [name for name in names if name.startswith("_") and not policy.is_dunder(name)]
    assert {policy.PRIVATE_PREFIX + end for end in ("a", "C__b", "c")} <= names


def test_demangle_restores_the_spelling_of_the_script() -> None:
    text = f"'C' object has no attribute '{policy.rename('_x')}'"
    assert demangle(text) == "'C' object has no attribute '_x'"
    assert demangle("nothing to do") == "nothing to do"


@pytest.mark.parametrize("name", sorted(policy.UNDEFINABLE_HINTS))
def test_refused_method_has_a_hint(name: str) -> None:
    (finding,) = findings(f"class A:\n    def {name}(self): ...\n")
    assert finding.hint == policy.UNDEFINABLE_HINTS[name]
    assert finding.line == 2


@pytest.mark.parametrize("name", sorted(policy.DEFINABLE))
def test_an_ordinary_method_can_be_defined(name: str) -> None:
    compile_source(f"class A:\n    def {name}(self, *args): ...\n")


def test_function_that_a_class_decorator_sets_can_be_defined() -> None:
    for name in policy.VARIABLES:
        compile_source(f"def deco(cls):\n    def {name}(self): ...\n    cls.{name} = {name}\n")


@pytest.mark.parametrize("name", sorted(policy.NAME_HOOKS))
def test_hook_that_receives_names_is_defined_in_a_class_only(name: str) -> None:
    (finding,) = findings(f"def deco(cls):\n    def {name}(self, *args): ...\n")
    assert (finding.code, finding.hint) == ("name_refused", "define it in the body of a class")


@pytest.mark.parametrize("name", ["__builtins__", "__import__", "__build_class__", "__call__"])
def test_dunder_that_the_script_does_not_define_cannot_be_read(name: str) -> None:
    assert [finding.code for finding in findings(name)] == ["name_refused"]
    if name not in policy.VARIABLES:
        assert "name_refused" in {finding.code for finding in findings(f"{name} = 1\n{name}")}


@pytest.mark.parametrize("name", sorted(policy.IN_PLACE))
def test_class_or_namespace_can_be_used_inline_but_not_stored(name: str) -> None:
    compile_source(f"def f(x):\n    print(x.{name}, x.{name} == 1)\n    return x.{name}\n")
    (finding,) = findings(f"v = x.{name}")
    assert finding.hint == policy.IN_PLACE[name]


# ---------------------------------------------------------------------------------------------
# The tree

FORBIDDEN = "x.__globals__"
POSITIONS = r"""
{}
y = {}
y: {} = 1
y: int = {}
y += {}
y[{}]
y[{}:{}:{}]
y[{}] = 1
del y[{}]
y[0] = {}
{} and y
not {}
-{}
y + {}
y if {} else z
[{}]
({},)
{{{}}}
{{{}: 1}}
{{1: {}}}
{{**{}}}
[*{}]
f({})
f(*{})
f(k={})
f(**{})
{}()
y < {} < z
f'{{{}}}'
f'{{y:{{{}}}}}'
f'{{{}=}}'
lambda: {}
lambda a={}: a
lambda *, a={}: a
[a for a in {}]
[{} for a in y]
[a for a in y if {}]
[a for a in y for b in {}]
{{a: {} for a in y}}
({} for a in y)
(y := {})
if {}: pass
if y: {}
if y: pass\nelse: {}
if y: pass\nelif {}: pass
while {}: pass
while y: {}
while y: pass\nelse: {}
for a in {}: pass
for a in y: {}
for a in y: pass\nelse: {}
for {}.z in y: pass
with {}: pass
with y as {}.z: pass
with y: {}
try: {}\nfinally: pass
try: pass\nexcept {}: pass
try: pass\nexcept E: {}
try: pass\nexcept E: pass\nelse: {}
try: pass\nfinally: {}
raise {}
raise y from {}
assert {}
assert y, {}
del {}.z
def f(): return {}
def f(a={}): pass
def f(*, a={}): pass
def f(a: {}): pass
def f() -> {}: pass
def f(): yield {}
def f(): yield from {}
async def f(): await {}
async def f():\n  async for a in {}: pass
async def f():\n  async with {}: pass
async def f(): return [a async for a in {}]
@{}\ndef f(): pass
@{}\nclass C: pass
class C({}): pass
class C(k={}): pass
class C: {}
class C: a = {}
class C:\n  def f(self, a={}): {}
match {}:\n  case _: pass
match y:\n  case _ if {}: pass
match y:\n  case 1: {}
match y:\n  case {}: pass
match y:\n  case C({}): pass
match y:\n  case C(k={}): pass
match y:\n  case {{'k': {}}}: pass
match y:\n  case [{}, *_]: pass
match y:\n  case 1 | {}: pass
x.__globals__ = {}
y = z = {}
a, b = {}, 1
global g; g = {}
"""


@pytest.mark.parametrize("position", POSITIONS.strip().splitlines())
def test_a_forbidden_attribute_is_found_in_every_position(position: str) -> None:
    holes = position.replace("{{", "").replace("}}", "").count("{}")
    source = position.replace("\\n", "\n").format(*[FORBIDDEN] * holes)
    found = [finding for finding in findings(source) if "__globals__" in finding.message]
    # A name that is refused as a pattern is reported once more, as a pattern.
    assert len(found) >= holes


def test_unknown_syntax_node_is_refused() -> None:
    class Strange(ast.stmt):
        _fields = ()

    tree = ast.parse("x = 1")
    tree.body.append(Strange(lineno=2, col_offset=0))
    transformer = ScriptTransformer(tree)
    transformer.visit(tree)
    assert [issue.message for issue in transformer.issues] == [
        "Strange is not available in a script"
    ]


# Every field of the grammar that holds a name, with a script that puts a dunder there. None: the
# field cannot hold a name that is bound or read.
NAME_FIELDS = {
    "FunctionDef.name": "def __loader__(): pass",
    "AsyncFunctionDef.name": "async def __loader__(): pass",
    "ClassDef.name": "class __loader__: pass",
    "ImportFrom.module": "from __loader__ import x",
    "Global.names": "def f():\n    global __loader__",
    "Nonlocal.names": "def f():\n    x = 1\n    def g():\n        nonlocal __loader__",
    "Attribute.attr": "x.__loader__",
    "Name.id": "__loader__",
    "ExceptHandler.name": "try: pass\nexcept E as __loader__: pass",
    "arg.arg": "def f(__loader__): pass",
    "keyword.arg": "f(__loader__=1)",
    "alias.name": "import __loader__",
    "alias.asname": "import json as __loader__",
    "MatchMapping.rest": "match x:\n    case {**__loader__}: pass",
    "MatchClass.kwd_attrs": "match x:\n    case C(__loader__=1): pass",
    "MatchStar.name": "match x:\n    case [*__loader__]: pass",
    "MatchAs.name": "match x:\n    case __loader__: pass",
    "TypeVar.name": "def f[__loader__](): pass",
    "ParamSpec.name": "def f[**__loader__](): pass",
    "TypeVarTuple.name": "def f[*__loader__](): pass",
}


def _grammar_fields() -> set[str]:
    found = set()
    for node in vars(ast).values():
        if isinstance(node, type) and issubclass(node, ast.AST):
            text = re.match(r"\w+\((.*)\)$", (node.__doc__ or "").replace("\n", " "))
            for kind, name in re.findall(r"(\w+)[?*]? (\w+)", text[1] if text else ""):
                if kind == "identifier":
                    found.add(f"{node.__name__}.{name}")
    return found


def test_every_grammar_field_that_can_hold_a_name_is_checked() -> None:
    fields = _grammar_fields()
    assert fields >= {"Name.id", "arg.arg", "MatchAs.name"}, "the grammar could not be read"
    assert not fields - NAME_FIELDS.keys()
    for field in sorted(fields):
        assert findings(NAME_FIELDS[field]), field


@pytest.mark.parametrize(
    "arguments",
    ["__loader__", "__loader__, /", "*, __loader__", "*__loader__", "**__loader__"],
)
def test_every_kind_of_parameter_is_checked(arguments: str) -> None:
    for source in (f"def f({arguments}): pass", f"f = lambda {arguments}: 1"):
        assert findings(source)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("from json import *", "name what you need: `from json import ...`"),
        ("from . import x", "a script is one file; import by full name"),
    ],
)
def test_unavailable_syntax_is_refused_with_a_suggested_fix(source: str, hint: str) -> None:
    assert [finding.hint for finding in findings(source)] == [hint]


def test_class_patterns_cannot_read_guarded_names() -> None:
    for name in ("gi_frame", "__class__", "mro"):
        assert findings(f"match x:\n    case object({name}=v): pass")
    for name in ("gi_frame", "__class__"):
        assert findings(f"class C:\n    __match_args__ = ('a', {name!r})")
    assert findings("class C:\n    __match_args__ = names")
    compile_source("match x:\n    case Point(x=0, _y=1) | Point(3): pass")


# ---------------------------------------------------------------------------------------------
# Names that are built in, and imports


@pytest.mark.parametrize("name", sorted(policy.BUILTIN_HINTS))
def test_refused_builtin_has_a_suggested_alternative(name: str) -> None:
    (finding,) = findings(f"y = {name}")
    assert finding.hint == policy.BUILTIN_HINTS[name]
    compile_source(f"{name} = 1\ny = {name}")


@pytest.mark.parametrize("name", sorted(policy.CALL_ONLY))
def test_builtins_that_inspect_their_caller_can_only_be_called(name: str) -> None:
    compile_source(f"y = {name}()")
    assert findings(f"y = {name}")
    assert findings(f"y = map({name}, [])")


def test_denied_import_suggests_an_alternative() -> None:
    (finding,) = findings("import requests")
    assert finding == Finding(
        "import_refused", "import of 'requests' is not available", 1, 8, 1, 16,
        "access the network through the tools on ctx",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("sockets", "as for 'socket': access the network through the tools on ctx"),
        ("panda", "as for 'pandas': use lists and dicts"),
        ("request", "as for 'requests': access the network"),
        ("maths", "did you mean math or cmath?"),
        ("jsn", "did you mean json?"),
    ],
)
def test_misspelt_import_gets_the_hint_of_the_intended_module(module: str, hint: str) -> None:
    (finding,) = findings(f"import {module}")
    assert finding.hint.startswith(hint)


def test_denied_import_lists_the_available_modules() -> None:
    (finding,) = findings("import nothing_like_it")
    assert finding.hint.startswith("available: abc, array, ast, asyncio")
    (finding,) = findings("import jsn")
    assert finding.hint == "did you mean json?"


def test_missing_module_attribute_is_found_before_the_script_runs() -> None:
    (finding,) = findings("from os import listdir")
    assert finding.hint == policy.MISSING_HINTS["os.listdir"]
    (finding,) = findings("import os\nx = 1\ny = os.listdir('.')")
    assert (finding.line, finding.column, finding.hint) == (
        3,
        5,
        policy.MISSING_HINTS["os.listdir"],
    )
    (finding,) = findings("import math\nmath.sqroot(2)")
    assert "sqrt" in finding.hint
    (finding,) = findings("import os\nos.path.exists('x')")
    assert finding.hint == policy.MISSING_HINTS["os.path.exists"]


def test_variable_named_like_a_module_is_not_treated_as_one() -> None:
    compile_source("import math\ndef f(math):\n    return math.anything")
    compile_source("import math\nmath = 1\nmath.anything")


def test_import_inside_except_import_error_is_deferred_to_run_time() -> None:
    compile_source("try:\n    import numpy as np\nexcept ImportError:\n    np = None")
    compile_source("try:\n    from json import nope\nexcept (ValueError, ImportError):\n    pass")
    compile_source(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mine import Thing"
    )
    assert findings("try:\n    import numpy\nexcept ValueError:\n    pass")
    assert findings("try:\n    pass\nexcept ImportError:\n    import numpy")


def test_every_hint_belongs_to_a_refused_name() -> None:
    assert not policy.MODULE_HINTS.keys() & policy.MODULES.keys()
    for name in policy.MISSING_HINTS:
        module, _, last = name.rpartition(".")
        assert last not in policy.MODULES.get(module, ())


# ---------------------------------------------------------------------------------------------
# Sources


def test_bytes_are_refused() -> None:
    for source in (b"x = 1", bytearray(b"x"), None, 3):
        with pytest.raises(ScriptRejected, match="the source of a script must be a str"):
            compile_script(source)  # type: ignore[arg-type]  # what this test is about


def test_a_str_subclass_is_refused() -> None:
    class Text(str):
        __slots__ = ()

    with pytest.raises(ScriptRejected):
        compile_script(Text("def run(ctx): pass"))


@pytest.mark.parametrize(
    ("source", "line"), [("x = 1\ny = '\0'", 2), ("x\n\n'\ud800'", 3), ("\udfff", 1)]
)
def test_source_with_invalid_characters_is_refused(source: str, line: int) -> None:
    (finding,) = findings(source)
    assert (finding.code, finding.line) == ("not_text", line)


def test_the_size_of_a_source_is_limited() -> None:
    with pytest.raises(ScriptRejected) as rejected:
        compile_script("é = 1\n", require_run=False, max_bytes=6)
    assert rejected.value.findings[0].message == "the source has 7 bytes; at most 6 are accepted"
    compile_script("é = 1\n", require_run=False, max_bytes=7)


@pytest.mark.parametrize(
    "source",
    [
        "(" * 5000,
        "x = " + "[" * (MAX_BRACKETS + 1) + "]" * (MAX_BRACKETS + 1),
        "-" * 60_000 + "1",
        "not " * 30_000 + "1",
        "1" + "+1" * 60_000,
        "x" + ".a" * 60_000,
        "x" + "()" * 60_000,
        "lambda: " * 10_000 + "1",
        "a if b else " * 10_000 + "1",
        "if x: pass\n" + "elif x: pass\n" * 10_000,
        "\n".join(" " * n + "if x:" for n in range(200)),
        "x = " + "9" * 10_000,
        "f'" + "{" * 1000,
        "x = '" + "\\N{" * 1000,
        "{" * 200,
        "a = " * 50_000 + "1",
        "'" * 100_001,
        "\\\n" * 50_000,
        "match x:\n case " + "[" * 140 + "]" * 140 + ": pass",
        "a" + "[b" * 100 + "]" * 100,
    ],
    ids=range(20),
)
def test_sources_that_crash_parsers_become_findings(source: str) -> None:
    # In a process of its own: what this guards against is a crash.
    program = (
        "import sys\nfrom ptc._language._compiler import compile_script, ScriptRejected\n"
        "try:\n    compile_script(sys.stdin.read(), require_run=False)\n"
        "except ScriptRejected as error:\n    assert error.findings\nprint('alive')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=source, text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "alive", done.stderr[-500:]


def test_brackets_in_a_string_do_not_count_as_nesting() -> None:
    compile_source("x = '" + "(" * 1000 + "'\ny = '''" + "[\n" * 500 + "'''")


def test_long_realistic_expressions_are_accepted() -> None:
    compile_source("x = " + " + ".join(["'a'"] * 400))
    compile_source("x = " + " + ".join(["a"] * 400))
    compile_source("if a: pass\n" + "elif a: pass\n" * 150)


def test_syntax_errors_have_the_position_reported_by_cpython() -> None:
    (finding,) = findings("x = 1\ny = = 2\n")
    assert (finding.code, finding.line, finding.column) == ("syntax_error", 2, 5)
    assert finding.message == "invalid syntax"


def test_all_findings_are_reported_at_once_in_order() -> None:
    source = (
        "import os, requests\nclass A:\n    def __del__(self): eval('1')\nopen('x').__globals__\n"
    )
    found = findings(source, require_run=True)
    assert [(finding.line, finding.code) for finding in found] == [
        (1, "import_refused"),
        (3, "name_refused"),
        (3, "builtin_refused"),
        (4, "builtin_refused"),
        (4, "attribute_refused"),
    ]


def test_columns_count_characters() -> None:
    (finding,) = findings("x = 'äöü€𝄞'; y = open('f')")
    assert (finding.column, finding.end_column) == (18, 22)


# ---------------------------------------------------------------------------------------------
# run


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        ("async def run(ctx, inputs): pass", "async"),
        ("def run(ctx, inputs): pass", "sync"),
        ("def run(ctx): pass", "sync"),
        ("async def run(ctx, inputs=None, *more, option=1): pass", "async"),
        ("def run(*args): pass", "sync"),
        ("def run(ctx, inputs): pass\nasync def run(ctx, inputs): pass", "async"),
        ("def run(ctx, inputs):\n    def g():\n        yield 1\n    return list(g())", "sync"),
        ("def run(): pass", "sync"),
        ("def run(inputs): pass", "sync"),
        ("def run(ctx, *, inputs): pass", "sync"),
        ("42", "top_level"),
        ("x = 1", "top_level"),
        ("for x in [1, 2]:\n    y = x", "top_level"),
    ],
)
def test_entry_point_kind_is_detected(source: str, entry: str) -> None:
    assert compile_script(source).entry == entry


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("x = 1\ndef f(): pass", "no_run"),
        ("import math", "no_run"),
        ("'''text'''", "no_run"),
        ("class A:\n    def run(self, ctx): pass", "no_run"),
        ("def run(a, b, c): pass", "bad_run"),
        ("def run(ctx, *, more): pass", "bad_run"),
        ("def run(ctx, inputs):\n    yield 1", "bad_run"),
        ("async def run(ctx, inputs):\n    yield 1", "bad_run"),
    ],
)
def test_uncallable_run_function_is_a_finding(source: str, code: str) -> None:
    (finding,) = findings(source, require_run=True)
    assert finding.code == code
    assert finding.hint


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("\n```python\nasync def run(ctx, inputs):\n    return 1\n```", "without the ```"),
        ("return 5", "move it into `async def run(ctx, inputs)`"),
    ],
)
def test_common_non_python_text_gets_a_suggested_fix(source: str, hint: str) -> None:
    (finding,) = findings(source, require_run=True)
    assert finding.code == "syntax_error"
    assert hint in finding.hint


def test_a_script_without_run_is_accepted_on_request() -> None:
    assert compile_source("x = 1").entry is None


def test_code_depends_on_the_source_alone() -> None:
    source = "class A:\n    _x = 1\n    def f(self):\n        return self._x, self.gi_frame\n"
    assert marshal.dumps(compile_source(source).code) == marshal.dumps(compile_source(source).code)
    assert re.fullmatch(r"[0-9a-f]{16}", POLICY_VERSION)


def test_the_compilers_own_future_imports_do_not_reach_the_script() -> None:
    namespace: dict[str, typing.Any] = {}
    exec(compile_source("def f(x: 1 + 1): pass").code, namespace)  # noqa: S102  # the code is above
    assert namespace["f"].__annotations__ == {"x": 2}


def test_postponed_annotations_are_text() -> None:
    source = "from __future__ import annotations\ndef f(x: Missing[1]) -> y.z: pass"
    namespace: dict[str, typing.Any] = {}
    exec(compile_source(source).code, namespace)  # noqa: S102  # the code is above
    assert namespace["f"].__annotations__ == {"x": "Missing[1]", "return": "y.z"}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 695 is 3.12")
def test_type_parameters_are_visited() -> None:
    compile_source("type X = list[int]\ndef f[T: int](x: T) -> T: return x\nclass C[T]: pass")
    assert findings("type X = x.__globals__")
    assert findings("def f[T: x.__globals__](): pass")
    assert findings("class C[T: (x.__globals__, int)]: pass")
