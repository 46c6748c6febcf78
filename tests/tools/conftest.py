"""Fixtures for the built-in tools: a workspace, and calls as a session makes them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from ptc import Tool, ToolContext

Call = Callable[..., Awaitable[Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty workspace with a parent folder of its own."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace with a file that no tool may read."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("SECRET word\n")
    return folder


@pytest.fixture
def call(root: Path) -> Call:
    """Call a tool in the workspace, with validated arguments; plain functions run in a thread."""

    async def run(tool: Tool, **arguments: Any) -> Any:
        context = ToolContext(root=root, tool_name=tool.name, call_id="t.1", run_id=None, seq=1)
        valid = tool.validate(arguments)
        assert tool.context_parameter is not None
        valid[tool.context_parameter] = context
        function = functools.partial(tool.function, **valid)
        if inspect.iscoroutinefunction(tool.function):
            return await function()
        return await anyio.to_thread.run_sync(function)

    return run
