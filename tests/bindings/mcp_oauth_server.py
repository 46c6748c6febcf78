"""An MCP server that asks for OAuth: ``python mcp_oauth_server.py PORT ISSUER``."""

from __future__ import annotations

import sys

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)


class Verifier:
    """Accepts the tokens of the test."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if not token.startswith("issued-"):
            return None
        return AccessToken(token=token, client_id="ptc", scopes=["read"], resource=URL)


PORT, ISSUER = int(sys.argv[1]), sys.argv[2]
URL = f"http://127.0.0.1:{PORT}/mcp"
server = MCPServer(
    "oauth",
    token_verifier=Verifier(),
    # From texts: `AnyHttpUrl` itself would append a slash, and issuers are compared as texts.
    auth=AuthSettings.model_validate(
        {
            "issuer_url": ISSUER,
            "resource_server_url": URL,
            "required_scopes": ["read"],
            "validate_token_resource": True,
        }
    ),
)


@server.tool(annotations=READS)
def whoami(ctx: Context) -> str:
    """Return the header that the client sent."""
    request = ctx.request_context.request
    return str(request.headers["authorization"] if request is not None else "")


@server.tool(annotations=READS, structured_output=False)
def fail(ctx: Context) -> CallToolResult:
    """Fail, and quote the header."""
    return CallToolResult(content=[TextContent(type="text", text=whoami(ctx))], is_error=True)


if __name__ == "__main__":
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=PORT, log_level="error")
