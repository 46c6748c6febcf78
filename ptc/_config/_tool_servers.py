"""Servers of tools that a configuration names, in ``mcp_servers`` and ``mcp_config``.

Their commands are code, like tools files: they run outside of the sandbox.

Rule 1: the files of the commands are protected paths, and so is the file that names them
    (`ToolProvider.files`).
    tests/core/config/test_tool_servers.py::test_script_cannot_change_the_program_of_a_server
"""

from __future__ import annotations

from collections.abc import Mapping

from .._tools._provider import ToolProvider
from ..errors import SetupError, UsageError
from ._settings import Settings

__all__ = ["load_tool_servers"]

_GROUP = "ptc.tool_servers"
_KEYS = ("mcp_servers", "mcp_config")


def load_tool_servers(settings: Settings, environment: Mapping[str, str]) -> list[ToolProvider]:
    """Create the provider of the configured servers; none is started.

    Args:
        settings: The settings.
        environment: Environment variables.

    Raises:
        UsageError: If a server is wrong; the message has its place.
        SetupError: If the package that connects to such servers is not installed.
    """
    servers, file = (settings.by_name[name] for name in _KEYS)
    if not servers.value and file.value is None:
        return []
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group=_GROUP)}
    if "mcp" not in found:
        msg = f"no package provides the entry point {_GROUP}: mcp; reinstall ptc-host"
        raise SetupError(msg)
    try:
        provider: ToolProvider = found["mcp"].load()(
            servers.value,
            servers.folder,
            settings.path("mcp_config"),
            named=file.origin in ("command line", "arguments"),
            environment=environment,
        )
    except UsageError as error:
        text = str(error)
        if text.startswith("mcp_servers"):
            raise UsageError(servers.subject + text.removeprefix("mcp_servers")) from None
        raise UsageError(f"{file.subject}: {text}") from None
    return [provider]
