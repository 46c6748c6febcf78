"""Exception groups: `except*` and the methods of a group, as in CPython and without its crash."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ptc import Session

from .differential import in_python, in_session, parse_cases

pytestmark = pytest.mark.anyio

CASES = parse_cases('''
# each handler gets its part
def run(ctx, inputs):
    found = []
    try:
        inner = ExceptionGroup("in", [ValueError(3)])
        raise ExceptionGroup("all", [ValueError(1), KeyError(2), inner])
    except* ValueError as group:
        found.append([repr(group), repr(group.exceptions)])
    except* (KeyError, TypeError) as group:
        found.append(repr(group))
    else:
        found.append("no error")
    finally:
        found.append("finally")
    return found
# the rest is raised again
def run(ctx, inputs):
    try:
        try:
            raise ExceptionGroup("all", [ValueError(1), KeyError(2)])
        except* ValueError:
            pass
    except ExceptionGroup as group:
        return repr(group)
# a plain exception becomes a group
def run(ctx, inputs):
    try:
        raise ValueError("bare")
    except* ValueError as group:
        return_value = [type(group).__name__, group.message, repr(group.exceptions[0])]
    return return_value
# errors of handlers are grouped
def run(ctx, inputs):
    try:
        try:
            raise ExceptionGroup("all", [ValueError(1), KeyError(2)])
        except* ValueError:
            raise TypeError("from the handler")
    except ExceptionGroup as group:
        return repr(group)
# raise without a value keeps the structure
def run(ctx, inputs):
    try:
        try:
            inner = ExceptionGroup("b", [ValueError(1), TypeError(2)])
            raise ExceptionGroup("a", [inner, OSError(3)])
        except* (ValueError, OSError):
            raise
    except ExceptionGroup as group:
        return repr(group)
# split subgroup derive
def run(ctx, inputs):
    group = ExceptionGroup("a", [ValueError(1), ExceptionGroup("b", [TypeError(2), ValueError(3)])])
    match, rest = group.split(ValueError)
    return [repr(match), repr(rest), repr(group.subgroup((TypeError, OSError))),
            repr(group.subgroup(lambda error: error.args == (3,))), repr(group.split(OSError)),
            repr(group.derive([KeyError(1)])), repr(ExceptionGroup.split(group, TypeError))]
# notes and causes survive a split
def run(ctx, inputs):
    group = ExceptionGroup("a", [ValueError(1), TypeError(2)])
    group.add_note("note")
    match, rest = group.split(ValueError)
    return [match.__notes__, rest.__notes__]
# wrong argument of split
def run(ctx, inputs):
    ExceptionGroup("a", [ValueError(1)]).split(1)
# a handler of groups is refused when it runs
def run(ctx, inputs):
    try:
        raise ValueError(1)
    except* ExceptionGroup:
        pass
# no exception
def run(ctx, inputs):
    try:
        value = 1
    except* ValueError:
        value = 2
    else:
        value += 10
    return value
# a task group
import asyncio
async def fail(kind):
    raise kind("x")
async def run(ctx, inputs):
    found = []
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(ValueError))
            group.create_task(fail(KeyError))
    except* ValueError as errors:
        found.append(len(errors.exceptions))
    except* KeyError as errors:
        found.append(len(errors.exceptions))
    return found
# a naked base exception
def run(ctx, inputs):
    try:
        raise KeyboardInterrupt
    except* KeyboardInterrupt as group:
        found = [type(group).__name__, repr(group.exceptions)]
    return found
''')  # fmt: skip


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, toolsets=(), workers=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    """The outcome of each case in plain Python."""
    return in_python(CASES)


@pytest.mark.parametrize("name", CASES)
async def test_groups_behave_as_in_cpython(
    name: str, session: Session, plain: dict[str, Any]
) -> None:
    assert await in_session(session, CASES[name]) == plain[name]


@pytest.mark.parametrize("method", ["split", "subgroup", "derive"])
@pytest.mark.parametrize(
    "change",
    [
        "group.{0} = lie",
        "setattr(group, '{0}', lie)",
        "del group.{0}",
        "vars(group)['{0}'] = lie",
        "object.__setattr__(group, '{0}', lie)",
    ],
)
async def test_interpreter_ignores_a_method_set_on_a_group(
    session: Session, change: str, method: str
) -> None:
    source = f"""
def lie(*args):
    return (1, 2)
def run(ctx, inputs):
    group = ExceptionGroup("a", [ValueError(1), KeyError(2)])
    try:
        {change.format(method)}
        changed = True
    except (AttributeError, TypeError):
        changed = False
    try:
        try:
            raise group
        except* ValueError as part:
            found = repr(part)
    except ExceptionGroup as rest:
        return [changed, found, repr(rest)]
"""
    result = await session.program(source=source)
    assert result.value == [
        False,
        "ExceptionGroup('a', [ValueError(1)])",
        "ExceptionGroup('a', [KeyError(2)])",
    ], result.error
