"""A wrong value of any argument is an error that names the argument, whatever the value is."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Limits, Session, ToolError, UsageError
from ptc.errors import JournalError

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: what is tested is over before it matters."""
    return "asyncio"


WRONG: tuple[Any, ...] = (
    None, 5, -1, True, 1.5, float("nan"), "", "x", "\0", "\ud800", b"x", [], ["x"], [5], (), {},
    {"x": 1}, {1: 2}, {"a"}, object(), int, lambda: 1, Limits(), Path("\0"),
)  # fmt: skip
# Errors that a wrong value may cause. Any other was raised inside, by accident.
ANSWERS = (UsageError, JournalError, ToolError)
GIVEN: dict[str, dict[str, Any]] = {
    "program": {"source": "1 + 1"},
    "check": {"source": "1 + 1"},
    "tool": {"name": "ls"},
    "search_tools": {"query": "x"},
    "generate_object": {"schema": {}, "prompt": "x"},
    "resume": {"run_id": "x"},
    "retry": {"run_id": "x"},
}


def arguments_of(function: Callable[..., Any]) -> Iterator[str]:
    for name, parameter in inspect.signature(function).parameters.items():
        if name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
            yield name


def pass_one(function: Callable[..., Any], given: dict[str, Any], name: str, value: Any) -> None:
    function(**{**given, name: value})


def find_unexpected_errors(name: str, call: Callable[[Any], Any]) -> list[str]:
    found = []
    for value in WRONG:
        try:
            call(value)
        except ANSWERS:
            pass
        except Exception as error:  # noqa: BLE001  # any other is what is looked for
            found.append(f"{name}={value!r:.40}: {error!r}")
    return found


@pytest.mark.parametrize("name", list(arguments_of(Session.__init__)))
def test_invalid_session_argument_raises_a_documented_error(name: str, tmp_path: Path) -> None:
    def make(value: Any) -> None:
        options: dict[str, Any] = {
            "root": tmp_path,
            "journal": ":memory:",
            "toolsets": (),
            name: value,
        }
        anyio.run(Session(**options).history.close)

    assert find_unexpected_errors(name, make) == []


async def test_invalid_method_argument_raises_a_documented_error(tmp_path: Path) -> None:  # noqa: C901  # a list of cases, one after another
    found = []
    async with Session(root=tmp_path, journal=":memory:") as session:
        for method in ("describe_tools", "search_tools", "tool_definitions", "select_tools"):
            function = getattr(session, method)
            for name in arguments_of(function):
                given = GIVEN.get(method, {})
                found += find_unexpected_errors(
                    f"{method}.{name}", partial(pass_one, function, given, name)
                )
        for method in ("program", "check", "tool", "generate_object", "resume", "retry"):
            function = getattr(session, method)
            names = list(arguments_of(function))
            if method == "generate_object":
                from ptc._generation._question import GenerateOptions

                names += GenerateOptions.__annotations__
            for name in names:
                for value in WRONG:
                    given = {**GIVEN[method], name: value}
                    if name == "path":
                        del given["source"]
                    if value is None or (method, name, value) == ("program", "source", "x"):
                        continue  # None leaves most arguments out
                    if is_accepted(method, name, value):
                        continue
                    try:
                        await function(**given)
                    except ANSWERS:
                        continue
                    except Exception as error:  # noqa: BLE001  # any other is what is looked for
                        found.append(f"{method}.{name}={value!r:.40}: {error!r}")
    assert found == []


def is_accepted(method: str, name: str, value: Any) -> bool:
    """True for values that are right: they would start a worker for nothing."""
    if method not in ("program", "check"):
        return False
    if isinstance(value, str) and value in ("", "x"):
        return name in ("source", "filename", "run_id") and value == "x"
    if isinstance(value, dict):
        return name in ("inputs", "output_schema") or (name == "env" and not value)
    empty = isinstance(value, list | tuple) and not value
    plain = isinstance(value, Limits) and name == "limits"
    schema = name == "output_schema" and value is int
    return (
        (empty and name == "allowed_tools")
        or plain
        or schema
        or (name == "on_event" and callable(value))
    )


async def test_a_schema_that_is_text_is_refused_and_never_evaluated(tmp_path: Path) -> None:
    mark = tmp_path / "evaluated"
    schema = f"open({str(mark)!r}, 'w').close() or int"
    async with Session(root=tmp_path) as session:
        for call in (
            session.program(source="1 + 1", output_schema=schema),
            session.generate_object(schema, "a number"),
        ):
            with pytest.raises(UsageError, match=r"parse a schema with json\.loads\(\.\.\.\)"):
                await call
    assert not mark.exists()


async def test_argument_error_names_the_argument_and_the_expected_type(tmp_path: Path) -> None:
    wrong: Any = 5
    async with Session(root=tmp_path) as session:
        with pytest.raises(UsageError) as caught:
            await session.program(source="1 + 1", limits=wrong)
        assert str(caught.value) == "limits must be a ptc.Limits(...) or a dict of limits, not 5"
        with pytest.raises(UsageError, match=r"^there is no tool 'reed' \(did you mean `read`"):
            await session.tool("reed", {"path": "x"})
        with pytest.raises(UsageError, match="arguments must be a dict by parameter, not 5"):
            await session.tool("read", 5)  # type: ignore[arg-type]  # wrong
