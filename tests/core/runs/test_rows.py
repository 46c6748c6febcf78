"""Objects of a tool's result: fields as attributes and as items, whatever the tool declares."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptc import Session, define_tool

pytestmark = pytest.mark.anyio

ROW = {
    "sha": "abc",
    "author": {"name": "Ann", "_id": 7},
    "files": [{"path": "a.txt", "items": [1, 2], "count": 3}],
    "keys": ["k"],
    "get": None,
    "copy": {"of": 1},
}

CASES: dict[str, tuple[str, Any]] = {
    "attribute and item": ("[row.sha, row['sha'], row.author.name, row.files[0].path]",
                           ["abc", "abc", "Ann", "a.txt"]),
    "underscore": ("row.author._id", 7),
    "field named as a method": ("[row.files[0].items, row.files[0].count, row.keys, row.get]",
                                [[1, 2], 3, ["k"], None]),
    "method called": ("[len(row.items()), row.get('sha'), list(row.keys())[0]]", [6, "abc", "sha"]),
    "method as a value": ("sorted(row.author, key=row.author.get, reverse=True) "
                          "if row.author.pop('name') else 0", ["_id"]),
    "method name without the field": ("[v for v in row.author.values()]", ["Ann", 7]),
    "getattr": ("[getattr(row, 'keys'), getattr(row, 'none', 5), hasattr(row, 'none')]",
                [["k"], 5, False]),
    "attrgetter": ("operator.attrgetter('author.name', 'keys')(row)", ["Ann", ["k"]]),
    "iteration": ("[list(row)[:2], len(row), 'sha' in row, 'x' in row]",
                  [["sha", "author"], 6, True, False]),
    "spread": ("{**row, 'sha': 1} == dict(row, sha=1)", True),
    "equality": ("[row == dict(row), row.author == {'name': 'Ann', '_id': 7}, row != {}]",
                 [True, True, True]),
    "json": ("json.loads(json.dumps(row)) == row", True),
    "asdict": ("[dataclasses.asdict(row.author), type(dataclasses.asdict(row)['author']) is dict]",
               [{"name": "Ann", "_id": 7}, True]),
    "asdict inside of a dataclass": ("dataclasses.asdict(Holder(row.author))",
                                     {"row": {"name": "Ann", "_id": 7}}),
    "vars": ("[vars(row.author), row.author.__dict__['name']]", [{"name": "Ann", "_id": 7}, "Ann"]),
    "copy": ("[copy.copy(row).sha, row.copy().sha, (row | {'x': 1}).x, ({'x': 2} | row).sha]",
             ["abc", "abc", 1, "abc"]),
    "deepcopy": ("[(c := copy.deepcopy(row)).author.update(name='Bo'), c.author.name, "
                 "row.author.name]", [None, "Bo", "Ann"]),
    "isinstance": ("[isinstance(row, dict), isinstance(row, collections.abc.Mapping)]",
                   [True, True]),
    "pattern": ("found(row)", "Ann"),
    "missing field": ("missing(row)", "no field 'nmae'; fields: name, _id"),
    "format": ("f'{row.sha} {row.author.name}'", "abc Ann"),
    "dir": ("[n for n in dir(row.author) if n in ('name', 'items')]", ["items", "name"]),
}  # fmt: skip

SCRIPT = """
import collections.abc, copy, dataclasses, json, operator
from dataclasses import dataclass

@dataclass
class Holder:
    row: object

def found(row):
    match row:
        case {"author": {"name": name}}:
            return name

def missing(row):
    try:
        row.author.nmae
    except AttributeError as error:
        return str(error)

async def run(ctx, inputs):
    row = await ctx.log_of(n=1)
    return %s
"""


def log_of(args: dict[str, Any]) -> Any:
    return ROW


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    bare = define_tool("log_of", "Return a commit.", schema, log_of)
    root: Path = tmp_path_factory.mktemp("rows")
    async with Session(root, tools=[bare], toolsets=(), workers=1) as opened:
        yield opened


@pytest.mark.parametrize("name", CASES)
async def test_row_reads_naturally_without_a_result_schema(session: Session, name: str) -> None:
    expression, expected = CASES[name]
    result = await session.program(source=SCRIPT % expression)
    assert result.error is None
    assert result.value == expected


async def test_field_named_like_a_dict_method_is_read_as_a_field(session: Session) -> None:
    source = """
async def run(ctx, inputs):
    row = await ctx.log_of(n=1)
    total = 0
    for item in row.files[0].items:
        total += item
    return [total, row.copy.of, [k for k in row.keys], {"keys": 1}.keys is not None]
"""
    result = await session.program(source=source)
    assert (result.error, result.value) == (None, [3, 1, ["k"], True])
