"""pandas in a jailed worker: expressions, warnings, and what text must not reach."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator

import pytest

from ptc import RunResult, Session

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        importlib.util.find_spec("pandas") is None,
        reason="pandas is not installed; it is in the extra `data`",
    ),
]
START = """
import io
import numpy as np
import pandas as pd
df = pd.DataFrame({"name": ["Ann", "Bob", "Cid"], "age": [25, 35, 45], "pay": [1.5, None, 4.0]})
days = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=3), "n": [1, 2, 3]})
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: what is tested is on the far side of the wire."""
    return "asyncio"


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, toolsets=(), packages=["pandas"], workers=1) as session:
        yield session


async def run(session: Session, source: str) -> RunResult:
    return await session.program(source=f"{START}{source}")


EXPRESSIONS = {
    "columns and literals": ('df.query("age > 30 and name != \'Cid\'").name.tolist()', ["Bob"]),
    "a method of a column": ("df.query(\"name.str.contains('n')\").name.tolist()", ["Ann"]),
    "a missing value": ('df.query("pay.isna()").name.tolist()', ["Bob"]),
    "the index": ('df.query("index in [0, 2]").age.tolist()', [25, 45]),
    "a name with a space": ('df.rename(columns={"age": "a b"}).query("`a b` > 40").name.tolist()',
                            ["Cid"]),
    "a date": ("days.query(\"day > '2024-01-02'\").n.tolist()", [3]),
    "an element of a column": ('df.query("age > age.iloc[1] + 0").name.tolist()', ["Cid"]),
    "a variable": ('limit = 30\ndf.query("age > @limit").name.tolist()', ["Bob", "Cid"]),
    "a variable of a function": (
        'def f():\n    _most = 30\n    return df.query("age < @_most").name.tolist()\nf()', ["Ann"]
    ),
    "a parameter of a lambda": ('[len(df.query("age > @n")) for n in (20, 40)]', [3, 1]),
    "a function of the script": ('double = lambda n: n * 2\ndf.eval("@double(age)").tolist()',
                                 [50, 70, 90]),
    "a list": ('names = ["Ann"]\ndf.query("name in @names").age.tolist()', [25]),
    "a passed variable": ('df.query("age > @n", local_dict={"n": 40}).name.tolist()', ["Cid"]),
    "new columns": ('df.eval("a = age * 2\\nb = a + 1").b.tolist()', [51, 71, 91]),
    "a function of mathematics": ('df.eval("sqrt(age)").round(2).tolist()', [5.0, 5.92, 6.71]),
    "frames by name": ('pd.eval("df.age + days.n").tolist()', [26, 37, 48]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(EXPRESSIONS))
async def test_expression_works_as_in_plain_pandas(session: Session, name: str) -> None:
    source, value = EXPRESSIONS[name]
    result = await run(session, source)
    assert (result.error, result.value) == (None, value)


GUARDED = {
    "a class": 'df.eval("age.__class__.__mro__")',
    "a class in a query": 'df.query("age.__class__ == 1")',
    "a class of a variable": 'df.eval("@df.index.__class__")',
    "by the other parser": 'df.eval("age.__class__", parser="python")',
    "without a frame": 'pd.eval("df.__class__")',
    "of a passed variable": 'df.eval("@x.__class__", local_dict={"x": 1})',
    "of a resolver": 'pd.eval("x.__class__", resolvers=[{"x": 1}])',
    "of a constant": "df.eval(\"'a'.__class__\")",
    "of a number": 'df.eval("(1).__class__")',
    "of a result": 'df.eval("age.sum().__class__")',
    "of an operation": 'df.eval("(age + 1).__class__")',
    "of an element": 'df.eval("age[0].__class__")',
    "globals": 'def f(): ...\ndf.eval("@f.__globals__")',
    "a frame": 'def f():\n    yield\ng = f()\ndf.eval("@g.gi_frame")',
    "a method of the interpreter": 'df.eval("age.__reduce__()")',
    "subclasses": 'df.eval("@k.__subclasses__()", local_dict={"k": int})',
    "the order of a class": 'df.eval("@k.mro()", local_dict={"k": int})',
    "a private attribute": 'df.eval("age._mgr")',
    "a private module": 'df.eval("@pd._libs")',
    "a foreign module": 'df.eval("@pd.core.common.sys")',
    "a format": "df.eval(\"'{0.__class__}'.format(age)\")",
    "in tables": (
        "from pandas.core.computation.pytables import PyTablesExpr\n"
        "PyTablesExpr('x.__class__ == 1', {'x': None}, encoding='utf-8').evaluate()"
    ),
    "in an expression": (
        "from pandas.core.computation.expr import Expr\n"
        "from pandas.core.computation.scope import Scope\n"
        "Expr('df.__class__', env=Scope(0))()"
    ),
}


@pytest.mark.parametrize("name", list(GUARDED))
async def test_expression_reads_no_guarded_attribute(session: Session, name: str) -> None:
    result = await run(session, GUARDED[name])
    assert result.error is not None, result.value
    # The tables of pandas replace the error.
    assert result.error.type in {"RefusedError", "AttributeError"} or name == "in tables"
    assert session.violations == ()


HIDDEN = ["__builtins__", "__name__", "getattr", "print", "__import__", "ptc_private_x"]


@pytest.mark.parametrize("name", HIDDEN)
async def test_expression_has_the_variables_of_its_caller_alone(
    session: Session, name: str
) -> None:
    result = await run(session, f'df.eval("@{name}")')
    assert result.error is not None, result.value
    assert "is not defined" in result.error.message


async def test_scope_of_an_expression_holds_nothing_of_the_worker(session: Session) -> None:
    source = (
        "from pandas.core.computation.scope import Scope\n"
        "class A:\n    _x = 1\n    scope = Scope(0).scope\n"
        "sorted(set(A.scope) | set(Scope(50).scope))"
    )
    result = await run(session, source)
    own = {"A", "Scope", "ctx", "days", "df", "inputs", "io", "np", "pd"}
    pandas = {"False", "Inf", "Timestamp", "True", "datetime", "inf", "list", "tuple"}
    assert {"df", "A"} <= set(result.value) <= own | pandas


async def test_undefined_names_of_an_expression_are_named(session: Session) -> None:
    for text, says in (("nope > 1", "name 'nope'"), ("age > @nope", "local variable 'nope'")):
        result = await run(session, f"df.query({text!r})")
        assert result.error is not None
        assert result.error.type == "UndefinedVariableError"
        assert f"{says} is not defined" in result.error.message


WARNS = {
    "a group in a pattern": ("pd.Series(['a', 'b']).str.contains('(a)').tolist()",
                             [True, False], "UserWarning"),
    "a separator to find": ("pd.read_csv(io.StringIO('a;b\\n1;2'), sep=None).a.tolist()", [1],
                            "ParserWarning"),
    "a pattern as separator": ("pd.read_csv(io.StringIO('a;b\\n1|2'), sep='[;|]').b.tolist()", [2],
                               "ParserWarning"),
    "lines with too many fields": (
        "pd.read_csv(io.StringIO('a,b\\n1,2,3\\n4,5\\n6,7,8,9'), on_bad_lines='warn').shape",
        [2, 2], "ParserWarning",
    ),
    "many inserted columns": (
        "for i in range(120):\n    df.insert(0, f'c{i}', i)\ndf.shape", [3, 123],
        "PerformanceWarning",
    ),
    "dates with the day first": ("pd.to_datetime(pd.Series(['13/01/2024'])).dt.day.tolist()", [13],
                                 "UserWarning"),
    "an attribute that is no column": ("df.new = [1, 2, 3]\nlist(df.columns)",
                                       ["name", "age", "pay"], "UserWarning"),
    "an empty array": ("np.nanmean([np.nan])", None, "RuntimeWarning"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(WARNS))
async def test_function_that_warns_works_and_the_warning_is_shown(
    session: Session, name: str
) -> None:
    source, value, category = WARNS[name]
    result = await run(session, source)
    assert (result.error, result.value) == (None, value)
    assert category in result.stderr
    assert "script.py:" in result.stderr
    assert session.violations == ()


async def test_frame_with_dates_becomes_json(session: Session) -> None:
    result = await run(session, "days.to_json(orient='records', date_format='iso')")
    assert result.error is None
    assert "2024-01-03" in result.value


async def test_lost_assignment_to_a_copy_is_reported(session: Session) -> None:
    source = """
df["age"][0] = 5
df["pay"].fillna(0, inplace=True)
[int(df.age[0]), int(df.pay.isna().sum()), pd.__version__]
"""
    result = await run(session, source)
    assert result.error is None
    age, missing, version = result.value
    if int(version.partition(".")[0]) >= 3:
        assert (age, missing) == (25, 1)
        assert result.stderr.count("ChainedAssignmentError") == 2


async def test_ordinary_assignments_do_not_warn(session: Session) -> None:
    source = """
def change(frame):
    frame["b"] = frame["age"] * 2
    frame.loc[0, "b"] = 1
    part = frame[frame.age > 30].copy()
    part["c"] = 3
    part.fillna(0, inplace=True)
    return part.c.tolist()
df["d"] = 1
change(df)
"""
    result = await run(session, source)
    assert (result.value, result.stderr) == ([3, 3], "")


async def test_script_filters_the_warnings_of_pandas(session: Session) -> None:
    source = """
import warnings
pattern = lambda: pd.Series(["a"]).str.contains("(a)")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    pattern()
warnings.simplefilter("error")
try:
    pattern()
except UserWarning as error:
    raised = str(error)
warnings.simplefilter("ignore")
pattern()
[[w.category.__name__ for w in caught], "match groups" in raised]
"""
    result = await run(session, source)
    assert (result.value, result.stderr) == ([["UserWarning"], True], "")


LATE = {
    "holidays": (
        "from pandas.tseries.holiday import USFederalHolidayCalendar\n"
        "len(USFederalHolidayCalendar().holidays('2024-01-01', '2024-12-31'))", 11,
    ),
    "offsets": ("pd.tseries.offsets.BDay(2).n", 2),
    "computed names": ("pd.util.hash_pandas_object(df.age).shape", [3]),
    "computed names of numpy": ("np.char.upper(np.array(['a'])).tolist()", ["A"]),
    "markup": ("'<age>25</age>' in df.to_xml(parser='etree')", True),
    "versions": ("pd.show_versions()", None),
}  # fmt: skip


@pytest.mark.parametrize("name", list(LATE))
async def test_part_that_is_loaded_on_first_use_works(session: Session, name: str) -> None:
    source, value = LATE[name]
    result = await run(session, source)
    assert (result.error, result.value) == (None, value)
    assert session.violations == ()


async def test_computed_names_show_no_foreign_module(session: Session) -> None:
    result = await run(session, "[hasattr(np.char, n) for n in ('sys', 'functools', 'np')]")
    assert result.value == [False, False, False]


async def test_package_that_compiles_expressions_is_not_loaded(session: Session) -> None:
    result = await run(session, 'df.query("age > 30", engine="numexpr")')
    assert result.error is not None
    assert result.error.type == "ImportError"
