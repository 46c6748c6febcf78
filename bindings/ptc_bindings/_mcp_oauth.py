"""OAuth of MCP servers: the client-credentials grant, through the SDK.

Rule 1: credentials are sent only to the issuer that the operator names, also if the server names
    another one (RFC 8414, section 3.3; RFC 9728, section 7.3).
    tests/bindings/test_mcp_oauth.py::test_credentials_are_not_sent_to_another_issuer
Rule 2: no message contains the secret or a token that was issued.
    tests/bindings/test_mcp_oauth.py::test_issued_token_is_removed_from_results_and_errors
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ._mcp_specs import OAuthClient

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

__all__ = ["oauth_of"]


class _Tokens:
    """Tokens of one server, in memory."""

    def __init__(self, on_token: Callable[[str], None]) -> None:
        self._on_token = on_token
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        for token in filter(None, (tokens.access_token, tokens.refresh_token)):
            self._on_token(token)
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        # Of the protocol `TokenStorage`; only a client that registers itself calls it.
        raise NotImplementedError("the client is registered already")


def oauth_of(url: str, client: OAuthClient, on_token: Callable[[str], None]) -> Any:
    """Return the authentication of requests to a server: an ``httpx2.Auth``.

    Args:
        url: Address of the server.
        client: The registered client.
        on_token: Receives each token that is issued.
    """
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    return ClientCredentialsOAuthProvider(
        url,
        _Tokens(on_token),
        client.client_id,
        client.client_secret,
        scope=client.scope or None,
        issuer=client.issuer,
    )
