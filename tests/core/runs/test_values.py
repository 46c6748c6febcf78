"""Every result crosses: the value that a caller gets for what a script returned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits, Session, UsageError, tool
from ptc._runs._attached import AttachedFiles
from ptc._wire._protocol import ProtocolError
from ptc.testing import Recording

pytestmark = pytest.mark.anyio


Json = dict[str, Any] | list[Any] | str | int | float | bool | None


@tool
def echo(value: Json = None) -> Json:
    """Return the value."""
    return value


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root: Path = tmp_path_factory.mktemp("values")
    async with Session(root, tools=[echo], toolsets=(), workers=1) as opened:
        yield opened


PRELUDE = """
import array, asyncio, collections, datetime, decimal, enum, fractions, pathlib, types, uuid
from dataclasses import dataclass, field

class Color(enum.Enum):
    RED = 1
    DARK = enum.auto()

class Loop(enum.Enum):
    A = "a"
    @property
    def value(self):
        return self

@dataclass
class Point:
    x: int
    _y: object = None

Pair = collections.namedtuple("Pair", "left right")
DAY = datetime.date(2026, 1, 2)
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.timezone.utc)
NAN, INF = float("nan"), float("inf")
"""

EXACT: dict[str, Any] = {
    "{1: 'a', 2.5: 'b', None: 'c', False: 'd'}":
        {"1": "a", "2.5": "b", "null": "c", "false": "d"},
    "{DAY: 1, Color.RED: 2, pathlib.Path('a'): 3}": {"2026-01-02": 1, "1": 2, "a": 3},
    "{'a': {1: {2: [{3: 4}]}}}": {"a": {"1": {"2": [{"3": 4}]}}},
    "collections.Counter([1, 1, 2])": {"1": 2, "2": 1},
    "collections.defaultdict(list, {1: [2]})": {"1": [2]},
    "[2 ** 64, -2 ** 63 - 1, 3 ** 300]": [2**64, -(2**63) - 1, 3**300],
    "{'n': 10 ** 4299}": {"n": 10**4299},
    "2 ** 70": 2**70,
    "{2 ** 70: 1}": {str(2**70): 1},
    "[NOON, DAY, datetime.time(1, 2), datetime.time(1, tzinfo=datetime.timezone.utc)]":
        ["2026-01-02T12:00:00+00:00", "2026-01-02", "01:02:00", "01:00:00+00:00"],
    "datetime.timedelta(minutes=1.5)": 90.0,
    "[decimal.Decimal('1.50'), fractions.Fraction(1, 3), uuid.UUID(int=1)]":
        ["1.50", "1/3", "00000000-0000-0000-0000-000000000001"],
    "[pathlib.PurePosixPath('a/b'), Color.DARK]": ["a/b", 2],
    "[Point(1, {2}), Pair(1, [2])]": [{"x": 1, "_y": [2]}, {"left": 1, "right": [2]}],
    "[{3, 1, 2}, frozenset('a'), range(3), collections.deque([1])]":
        [[1, 2, 3], ["a"], [0, 1, 2], [1]],
    "[{'a': 1}.keys(), {'a': 1}.items(), collections.ChainMap({'a': 1}, {'b': 2})]":
        [["a"], [["a", 1]], {"b": 2, "a": 1}],
    "[map(str, [1]), (n for n in 'ab'), zip([1], [2]), enumerate('a')]":
        [["1"], ["a", "b"], [[1, 2]], [[0, "a"]]],
    "[array.array('i', [1, 2]), types.SimpleNamespace(a=1), collections.UserDict(a=1)]":
        [[1, 2], {"a": 1}, {"a": 1}],
}  # fmt: skip


@pytest.mark.parametrize("expression", EXACT)
async def test_value_of_another_type_has_one_form(session: Session, expression: str) -> None:
    source = f"{PRELUDE}\ndef run(ctx, inputs):\n    return {expression}\n"
    result = await session.program(source=source)
    assert (result.status, result.warnings) == ("completed", ()), result.error
    assert result.value == EXACT[expression]
    assert json.loads(result.to_json())["value"] == EXACT[expression]


REPLACED: dict[str, tuple[Any, str, str, str]] = {
    "{1: 'a', '1': 'b'}": ([[1, "a"], ["1", "b"]], "keys", "result", "two keys have the same text"),
    "{(1, 2): 'a'}": ([[[1, 2], "a"]], "keys", "result", "a tuple has no form as a key"),
    "{'a': [NAN]}": ({"a": [None]}, "non_finite", "result.a[0]", "NaN has no JSON form"),
    "[1, -INF]": ([1, None], "non_finite", "result[1]", "-Infinity has no JSON form"),
    "Point(NAN)": ({"x": None, "_y": None}, "non_finite", "result.x", "NaN has no JSON form"),
    "10 ** 4300": (hex(10**4300), "integer", "result", "more than 4,300 digits"),
    "['\\ud800']": (["\\ud800"], "text", "result[0]", "lone surrogates"),
    "[1 + 2j]": (["(1+2j)"], "replaced", "result[0]", "complex has no JSON form"),
    "{'f': Point}": ({"f": "<class '__main__.Point'>"}, "replaced", "result.f", "has no JSON form"),
    "Loop.A": ("<Loop.A: 'a'>", "replaced", "result", "Loop has no JSON form"),
}  # fmt: skip


@pytest.mark.parametrize("expression", REPLACED)
async def test_part_without_json_form_is_replaced_with_a_warning(
    session: Session, expression: str
) -> None:
    source = f"{PRELUDE}\ndef run(ctx, inputs):\n    return {expression}\n"
    result = await session.program(source=source)
    expected, code, path, message = REPLACED[expression]
    assert (result.status, result.error) == ("completed", None)
    assert result.value == expected
    [warning] = result.warnings
    assert (warning.code, warning.path) == (code, path)
    assert message in warning.message
    assert warning.line == source.count("\n")


async def test_calls_made_before_an_odd_result_are_not_lost(session: Session) -> None:
    source = (
        "async def run(ctx, inputs):\n    await ctx.echo(value=1)\n    return {1: {None: object}}\n"
    )
    result = await session.program(source=source)
    assert (result.status, len(result.calls)) == ("completed", 1)
    assert list(result.value) == ["1"]


async def test_line_of_a_top_level_value_is_named(session: Session) -> None:
    result = await session.program(source="x = 1\n\n[x, float('nan')]\n")
    assert (result.value, result.warnings[0].line) == ([1, None], 3)


async def test_call_returned_without_await_gives_its_value(session: Session) -> None:
    source = "async def run(ctx, inputs):\n    return [ctx.echo(value=5)]\n"
    result = await session.program(source=source)
    assert (result.status, result.value) == ("completed", [5])
    assert [warning.code for warning in result.warnings] == ["not_awaited"]


async def test_many_replaced_parts_make_few_warnings(session: Session) -> None:
    source = "def run(ctx, inputs):\n    return [{'x': float('nan')} for _ in range(20_000)]\n"
    limits = Limits(max_output_bytes=1 << 20)
    result = await session.program(source=source, limits=limits)
    assert result.value == [{"x": None}] * 20_000
    assert len(result.warnings) == 6
    assert result.warnings[5].message == "the same applies to further parts of the value"


@pytest.mark.parametrize("form", ["null", "text", "error"])
async def test_form_of_non_finite_numbers_is_an_option(tmp_path: Path, form: Any) -> None:
    source = "def run(ctx, inputs):\n    ctx.emit(float('inf'))\n    return [float('nan')]\n"
    async with Session(tmp_path, toolsets=(), workers=1, non_finite=form) as session:
        result = await session.program(source=source)
    if form == "error":
        assert (result.status, result.error and result.error.code) == ("failed", "not_json")
    else:
        texts = form == "text"
        assert (result.status, len(result.warnings)) == ("completed", 0 if texts else 2)
        assert result.value == (["NaN"] if texts else [None])
        assert result.partial == (("Infinity",) if texts else (None,))


def test_unknown_form_of_non_finite_numbers_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"non_finite='nul' is unknown .did you mean `null`"):
        Session(tmp_path, non_finite="nul")  # type: ignore[arg-type]  # what the test is about


async def test_wide_integers_cross_in_arguments_inputs_results_and_the_journal(
    session: Session, tmp_path: Path
) -> None:
    source = (
        "async def run(ctx, inputs):\n"
        "    back = await ctx.echo(value={'n': 7 ** 100, 1: 2})\n"
        "    ctx.emit(back)\n"
        "    return [back.n == 7 ** 100, back, inputs['n'] == -7 ** 100, 'x' * 200_000, 7 ** 101]\n"
    )
    options: dict[str, Any] = {
        "source": source, "inputs": {"n": -(7**100)}, "run_id": "wide",
        "limits": Limits(max_output_bytes=1 << 20),
    }  # fmt: skip
    result = await session.program(**options)
    assert result.error is None
    row = {"n": 7**100, "1": 2}
    assert result.value == [True, row, True, "x" * 200_000, 7**101]
    assert result.partial == (row,)
    assert (await session.program(**options)).value == result.value
    file = tmp_path / "recording.json"
    Recording(await session.history.recorded("wide")).save(file)
    replayed = await Recording.load(file).replay()
    assert (replayed.value, replayed.partial) == (result.value, result.partial)


async def test_truncated_value_with_wide_integers_is_stored_whole(session: Session) -> None:
    source = "def run(ctx, inputs):\n    return [3 ** 80] * 5_000\n"
    result = await session.program(source=source)
    assert result.cut is not None
    assert json.loads(session.artifacts.path(result.cut.sha256).read_bytes()) == [3**80] * 5_000
    assert result.value[0] == 3**80


REFUSED = {
    "float('nan')": "echo.value: nan has no JSON form",
    "b'x'": "echo.value: bytes has no JSON form",
    "[object()]": "echo.value[0]: object has no JSON form",
    "{1: 1, '1': 2}": "echo.value: two keys have the same text",
    "'\\ud800'": "echo.value: text with a lone surrogate",
    "10 ** 4300": "echo.value: integer of more than 4,300 digits",
}


async def test_argument_without_json_form_is_an_error_at_the_call(session: Session) -> None:
    lines = ["async def run(ctx, inputs):", "    found = []"]
    for expression in REFUSED:
        lines += ["    try:", f"        await ctx.echo(value={expression})"]
        lines += ["    except TypeError as error:", "        found.append(str(error))"]
    result = await session.program(source="\n".join([*lines, "    return found\n"]))
    assert result.calls == ()
    for told, expected in zip(result.value, REFUSED.values(), strict=True):
        assert told.startswith(expected)


HOSTILE = """
from dataclasses import dataclass
from enum import Enum
from collections.abc import Mapping, Sequence

class Repr:
    def __repr__(self): raise KeyboardInterrupt
class LongRepr:
    def __repr__(self): return "x" * 10_000_000
class NoText:
    def __repr__(self): return 5
class Deep:
    def __repr__(self): return repr(self)
class Index(int):
    def __index__(self): raise SystemExit
    def __int__(self): raise SystemExit
class Table(Mapping):
    def __iter__(self): raise GeneratorExit
    def __len__(self): return -1
    def __getitem__(self, key): return key
class Short(dict):
    def __len__(self): return 0
    def items(self): return [("lie", 1)]
    def keys(self): return ["lie"]
    def __iter__(self): return iter(["lie"])
@dataclass
class Own:
    me: object = None
    @property
    def more(self): raise ValueError
class Chain(Mapping):
    def __iter__(self): return iter("ab")
    def __len__(self): return 2
    def __getitem__(self, key): return Chain()
class Order:
    def __lt__(self, other): raise ZeroDivisionError
class Key:
    def __hash__(self): return 1
    def __eq__(self, other): raise ValueError
    def __repr__(self): raise ValueError
def broken():
    yield 1
    raise ValueError("broken")

def circle():
    own = Own()
    own.me = [own]
    row = {}
    row["row"] = row
    items = []
    items += [items, items]
    nest = []
    for _ in range(100_000):
        nest = [nest]
    return [own, row, items, nest]

def run(ctx, inputs):
    return {
        "repr": [Repr(), LongRepr(), NoText(), Deep()],
        "index": Index(5),
        "table": Table(),
        "short": Short(a=1),
        "circle": circle(),
        "order": {Order(), Order()},
        "key": {Key(): 1},
        "broken": broken(),
        "good": "kept",
    }
"""


async def test_hostile_value_is_replaced_and_the_rest_is_kept(session: Session) -> None:
    result = await session.program(source=HOSTILE)
    assert (result.status, result.error) == ("completed", None)
    value = result.value
    assert value["good"] == "kept"
    assert value["repr"][0] == "<Repr>"
    assert value["repr"][1].startswith("xxx")
    assert len(value["repr"][1]) == 300
    assert value["repr"][2:] == ["<NoText>", "<Deep>"]
    assert (value["index"], value["short"]) == (5, {"a": 1})
    own, row, items, _nest = value["circle"]
    assert (own, row, items) == ({"me": ["<Own>"]}, {"row": "<dict>"}, ["<list>", "<list>"])
    assert len(value["order"]) == 2
    assert value["key"] == [["<Key>", 1]]
    assert all(warning.path.startswith("result") for warning in result.warnings)


@pytest.mark.slow
async def test_value_without_end_meets_a_limit(session: Session) -> None:
    chain = HOSTILE[HOSTILE.index("class Chain") : HOSTILE.index("class Order")]
    source = f"from collections.abc import Mapping\n{chain}"
    source += "def run(ctx, inputs):\n    return Chain()\n"
    result = await session.program(source=source, limits=Limits(timeout_ms=5_000))
    assert result.status in {"limit_exceeded", "timed_out"}


async def test_huge_integers_are_returned_as_exact_text(session: Session) -> None:
    source = "def run(ctx, inputs):\n    return (1 << 3_400_000) + 1\n"
    result = await session.program(source=source, limits=Limits(max_output_bytes=2 << 20))
    assert result.status == "completed"
    assert int(result.value, 16) == (1 << 3_400_000) + 1


async def test_output_schema_checks_the_converted_value(session: Session) -> None:
    schema = {"type": "object", "additionalProperties": {"type": "number"}}
    source = "def run(ctx, inputs):\n    return {1: %s}\n"
    good = await session.program(source=source % "2 ** 70", output_schema=schema)
    bad = await session.program(source=source % "float('nan')", output_schema=schema)
    assert (good.status, good.value) == ("completed", {"1": 2**70})
    assert (bad.status, bad.error and bad.error.code) == ("failed", "output_schema")
    assert bad.warnings[0].path == "result.1"


# --- bytes -----------------------------------------------------------------------------------


async def test_bytes_become_files_with_a_handle(session: Session) -> None:
    source = (
        "def run(ctx, inputs):\n"
        "    chart = bytes([137, 80, 78, 71, 13, 10, 26, 10]) + bytes(300_000)\n"
        "    ctx.emit({'part': b'abc'})\n"
        "    return {'chart': chart, 'again': [chart], 'view': bytearray(b'xyz')}\n"
    )
    result = await session.program(source=source)
    assert (result.status, result.warnings) == ("completed", ())
    handle = result.value["chart"]
    assert result.value["again"] == [handle]
    assert {key: handle[key] for key in ("name", "media_type", "size_bytes")} == {
        "name": "chart.png", "media_type": "image/png", "size_bytes": 300_008,
    }  # fmt: skip
    part, chart, view = result.attached
    assert result.attachments == result.attached
    assert (chart.name, chart.id, chart.size_bytes) == ("chart.png", handle["id"], 300_008)
    data = Path(chart.path).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (300_008, handle["id"])
    assert [Path(ref.path).read_bytes() for ref in (part, view)] == [b"abc", b"xyz"]
    assert result.partial[0]["part"]["id"] == part.id
    replayed = await Recording(await session.history.recorded(result.run_id)).replay()
    assert [ref.id for ref in replayed.attached] == [ref.id for ref in result.attached]
    assert replayed.value == result.value


async def test_too_many_bytes_are_not_attached(session: Session) -> None:
    source = "def run(ctx, inputs):\n    return [bytes(12 << 20), bytes(5 << 20)]\n"
    result = await session.program(source=source)
    assert result.status == "completed"
    assert result.value[1] == {"bytes": 5 << 20}
    assert [warning.path for warning in result.warnings] == ["result[1]"]


def test_illegal_attachments_are_refused() -> None:
    files = AttachedFiles(100)
    for name, media_type in (("\n", "image/png"), ("", "image/png"), ("a", "png")):
        with pytest.raises(ProtocolError):
            files.finish_file(name, media_type)
    for _ in range(100):
        files.finish_file("a", "image/png")
    with pytest.raises(ProtocolError, match="more than 100"):
        files.finish_file("a", "image/png")


# --- packages --------------------------------------------------------------------------------

TABLES: dict[str, tuple[Any, list[str]]] = {
    "np.arange(6).reshape(2, 3)": ([[0, 1, 2], [3, 4, 5]], []),
    "[np.int64(5), np.float32(0.5), np.bool_(True), np.str_('a')]": ([5, 0.5, True, "a"], []),
    "{np.int64(1): np.uint64(2 ** 64 - 1)}": ({"1": 2**64 - 1}, []),
    "np.array([1.0, np.nan])": ([1.0, None], ["non_finite"]),
    "np.array(['2026-01-02', 'NaT'], dtype='M8[ns]')": (
        ["2026-01-02T00:00:00.000000000", None], []),
    "np.array([1500], dtype='m8[ms]')": ([1.5], []),
    "pd.DataFrame({'a': [1, 2], 'b': [0.5, None]})": (
        [{"a": 1, "b": 0.5}, {"a": 2, "b": None}], ["table"]),
    "pd.DataFrame({'a': ['x', 'y', 'x'], 'n': [1, 2, 3]}).groupby('a').sum()": (
        [{"a": "x", "n": 4}, {"a": "y", "n": 2}], ["table"]),
    "pd.DataFrame({'at': pd.to_datetime(['2026-01-02', None]), 1: [None, 2]})": (
        [{"at": "2026-01-02T00:00:00", "1": None}, {"at": None, "1": 2.0}], ["table"]),
    "pd.Series([3, 1], index=['a', 'b'])": ({"a": 3, "b": 1}, []),
    "pd.Series([1, 2, 2]).value_counts().to_dict()": ({"2": 2, "1": 1}, []),
    "pd.Series([1.0, None])": ([1.0, None], []),
    "pd.Series([1, 2], index=['a', 'a'])": ([["a", 1], ["a", 2]], []),
    "pd.DataFrame({'b': [None, 1.5]}).to_dict('records')": (
        [{"b": None}, {"b": 1.5}], ["non_finite"]),
    "[pd.Timestamp('2026-01-02'), pd.NaT, pd.NA, pd.Timedelta('1min')]": (
        ["2026-01-02T00:00:00", None, None, 60.0], []),
    "[pd.Index([1, 2]), pd.Series(['a'], dtype='category')]": ([[1, 2], ["a"]], []),
}  # fmt: skip


async def test_arrays_and_tables_become_lists_and_records(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    head = "import numpy as np\nimport pandas as pd\ndef run(ctx, inputs):\n    return "
    async with Session(
        tmp_path, toolsets=(), workers=1, packages=["numpy", "pandas"],
        limits=Limits(max_memory_bytes=1 << 30),
    ) as session:  # fmt: skip
        for expression, (expected, codes) in TABLES.items():
            result = await session.program(source=f"{head}{expression}\n")
            assert result.error is None, expression
            assert result.value == expected, expression
            assert [warning.code for warning in result.warnings] == codes, expression
        result = await session.program(source=f"{head}pd.DataFrame({{'a': range(3)}})\n")
    assert "DataFrame of 3 rows and 1 columns became records" in result.warnings[0].message
