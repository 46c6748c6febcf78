"""Tools of other libraries through an adapter: how it is found, and the tools that it makes."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from ptc import Session, SetupError, Tool, ToolContext, Toolset, UsageError, tool_from
from ptc._config._tool_files import load_tools
from ptc._tools import _adapters
from ptc_bindings._foreign import foreign_tool

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]


class Framework:
    """A class of a package with an adapter: of this module."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Derived(Framework):
    """A class that an application derives from one of the framework."""


Derived.__module__ = "application"


def tools_from(thing: Framework) -> Tool | Toolset | None:
    async def run(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return {"of": ctx.tool_name, "got": arguments}

    schema = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}
    if not thing.names:
        raise UsageError("a client has no tools")
    made = [foreign_tool(name, "", schema, run) for name in thing.names]
    return Toolset("framework", tuple(made)) if len(made) != 1 else made[0]


@pytest.fixture(autouse=True)
def adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    name = Framework.__module__
    entries = {
        name: EntryPoint(name, f"{name}:tools_from", "ptc.tool_adapters"),
        "missing.package": EntryPoint("missing.package", "not_installed:f", "ptc.tool_adapters"),
    }
    monkeypatch.setattr(_adapters, "_entries", lambda: entries)


@pytest.mark.parametrize("kind", [Framework, Derived])
async def test_object_of_a_framework_is_a_tool(tmp_path: Path, kind: type[Framework]) -> None:
    async with Session(tmp_path, tools=[kind("look")], toolsets=()) as session:
        assert (await session.tool("look", {"id": 3})).unwrap() == {"of": "look", "got": {"id": 3}}


async def test_object_with_several_tools_is_a_toolset(tmp_path: Path) -> None:
    async with Session(tmp_path, tools=[Framework("a", "b")], toolsets=()) as session:
        assert list(session.select_tools(["framework"])) == ["a", "b"]


def test_undeclared_tool_has_a_side_effect() -> None:
    made = tool_from(Framework("look"))
    assert (made.side_effect, made.idempotent) == (True, False)
    assert "no further description" in made.description


def test_arguments_of_tool_from_override_the_adapter() -> None:
    made = tool_from(Framework("look"), name="other", description="Look.", side_effect=False)
    found = (made.name, made.description, made.side_effect, made.idempotent)
    assert found == ("other", "Look.", False, True)
    with pytest.raises(UsageError, match=r"unknown option .side_efect. \(did you mean"):
        tool_from(Framework("look"), side_efect=False)  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(UsageError, match="several tools: pass it itself in Session"):
        tool_from(Framework("a", "b"))


def test_object_that_is_not_understood_is_refused_with_what_would_be() -> None:
    with pytest.raises(UsageError, match=r"a tool of missing\.package, .*test_foreign_tools"):
        tool_from(object())
    with pytest.raises(UsageError, match=r"the class Framework is not a tool: .* pass an instance"):
        tool_from(Framework)


def test_adapter_that_cannot_be_loaded_is_reported() -> None:
    kind = type("Odd", (), {"__module__": "missing.package.part"})
    with pytest.raises(SetupError, match=r"the adapter of missing\.package cannot be loaded"):
        tool_from(kind())


def test_import_of_bindings_loads_no_framework() -> None:
    code = """if True:
        import pkgutil, sys
        from importlib import import_module
        import ptc_bindings
        from ptc._tools._adapters import adapted_packages
        for module in pkgutil.iter_modules(ptc_bindings.__path__):
            if not module.name.startswith("_"):
                import_module(f"ptc_bindings.{module.name}")
        print([name for name in ["mcp", *adapted_packages()] if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_tools_file_may_define_objects_of_a_framework(tmp_path: Path) -> None:
    # As an installed framework: the file imports it by its name.
    sys.modules["framework_of_tests"] = sys.modules[Framework.__module__]
    (tmp_path / "tools.py").write_text(
        "import framework_of_tests as f\n"
        "look = f.Framework('look')\n"
        "client = f.Framework()\n"
        "other = object()\n"
    )
    load = partial(load_tools, folder=tmp_path, subject="tools", named=True)
    [source] = load("tools.py").sources
    assert source.name == "look"
    [source] = load("tools.py:look").sources
    assert source.name == "look"
    with pytest.raises(UsageError, match="no tools"):
        load("tools.py:client")
    with pytest.raises(UsageError, match="a tool of a framework"):
        load("tools.py:other")
