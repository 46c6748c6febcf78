"""``ptc mcp``: serve a session over MCP, for any client of the Model Context Protocol.

The server offers the tool ``program(source, inputs)``, tools that report and resume its runs, and,
on request, each tool directly. It defines how results are encoded for the protocol; permissions
belong to the session.

Rule 1: the client cannot change its permissions: the operator sets the allow-list and the limits,
    and an argument that would change them is rejected.
    tests/bindings/test_mcp.py::test_a_client_cannot_widen_its_tools_or_limits
Rule 2: standard output carries protocol messages and nothing else.
    tests/bindings/test_mcp_command.py::test_standard_output_contains_only_protocol_messages
Rule 3: errors are reported in the result of the call; the SDK hides the text of exceptions.
    tests/bindings/test_mcp.py::test_failing_tool_is_reported_in_the_result

The SDK is imported on use: ``pip install 'ptc-host[mcp]'``.
"""

from __future__ import annotations

from ._mcp_command import command
from ._mcp_server import serve

__all__ = ["command", "serve"]
