"""MCP servers that ask for OAuth: a real server, and an authorization server of the test."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from ptc import BlockingSession, SetupError, UsageError

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

from ptc_bindings._mcp_specs import OAuthClient, read_settings
from ptc_bindings.mcp_tools import MCPServers

SERVER = Path(__file__).with_name("mcp_oauth_server.py")
SECRET = "s3cret-of-the-client"
SECONDS = 20.0


@dataclass
class Issuer:
    """An authorization server; its metadata states `claimed`."""

    url: str = ""
    claimed: str = ""
    requests: list[dict[str, list[str]]] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    state = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "oauth-authorization-server" not in self.path:
                return self.send_error(404)
            return self.answer(
                {
                    "issuer": state.claimed,
                    "authorization_endpoint": f"{state.url}/authorize",
                    "token_endpoint": f"{state.url}/token",
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["client_credentials"],
                    "scopes_supported": ["read"],
                }
            )

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            state.requests.append(parse_qs(self.rfile.read(length).decode()))
            given = self.headers.get("authorization", "").removeprefix("Basic ")
            state.credentials.append(base64.b64decode(given).decode())
            if state.credentials[-1] != f"ptc:{SECRET}":
                return self.send_error(401)
            token = f"issued-{len(state.requests)}-a1b2c3d4e5f6"
            return self.answer({"access_token": token, "token_type": "Bearer", "scope": "read"})

        def answer(self, row: dict[str, Any]) -> None:
            body = json.dumps(row).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = state.claimed = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def resource(issuer: Issuer) -> Iterator[str]:
    """Address of an MCP server that names the issuer."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVER, str(port), issuer.url])
    until = time.monotonic() + SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            assert time.monotonic() < until
            assert process.poll() is None
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


def servers(url: str, issuer: str) -> MCPServers:
    client = {"clientId": "ptc", "clientSecret": SECRET, "issuer": issuer, "scope": "read"}
    return MCPServers({"crm": {"url": url, "oauth": client}})


@pytest.mark.slow
def test_issued_token_is_removed_from_results_and_errors(
    issuer: Issuer, resource: str, tmp_path: Path
) -> None:
    given = servers(resource, issuer.url)
    with BlockingSession(tmp_path, tools=[given], toolsets=(), journal=":memory:") as session:
        shown = session.tool("crm.whoami").unwrap()
        error = session.tool("crm.fail").error
    assert error is not None
    assert shown.startswith("Bearer ")
    assert "issued-" not in shown + error.message
    assert issuer.credentials == [f"ptc:{SECRET}"]
    assert issuer.requests[0]["grant_type"] == ["client_credentials"]


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["metadata", "address"])
def test_credentials_are_not_sent_to_another_issuer(
    issuer: Issuer, resource: str, tmp_path: Path, wrong: str
) -> None:
    expected = issuer.url
    if wrong == "metadata":
        issuer.claimed = "https://evil.example"
    else:
        expected = "https://login.example"
    given = servers(resource, expected)
    with (
        pytest.raises(SetupError, match="MCP server 'crm'") as caught,
        BlockingSession(tmp_path, tools=[given], toolsets=(), journal=":memory:"),
    ):
        pass
    assert issuer.credentials == []
    assert SECRET not in str(caught.value)


WRONG = {
    "login": ({"client_id": "ptc"}, "oauth needs client_secret, issuer: .* login in a browser"),
    "key": ({"client_idd": "ptc"}, "oauth: unknown key 'client_idd' .did you mean `client_id`"),
    "type": ({"client_id": 3}, "oauth must be a table of names and texts"),
    "unset": ({"client_id": "${NO_SUCH_VARIABLE}"}, "NO_SUCH_VARIABLE is not set"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_client_is_refused(case: str) -> None:
    client, message = WRONG[case]
    with pytest.raises(UsageError, match=message):
        MCPServers({"crm": {"url": "https://x.example", "oauth": client}})


def test_oauth_and_a_token_exclude_each_other() -> None:
    client = {"client_id": "a", "client_secret": "b", "issuer": "https://c"}
    entry = {"url": "https://x.example", "oauth": client, "headers": {"authorization": "Bearer x"}}
    with pytest.raises(UsageError, match="has oauth and a header Authorization"):
        MCPServers({"crm": entry})


def test_secret_of_a_configured_client_is_a_variable(tmp_path: Path) -> None:
    entry = {
        "url": "https://x.example",
        "oauth": {"client_id": "a", "client_secret_env": "CRM", "issuer": "https://c"},
    }
    [spec] = read_settings({"crm": entry}, tmp_path, {"CRM": SECRET})
    assert spec.oauth == OAuthClient("a", SECRET, "https://c")
    assert SECRET not in repr(spec)
    with pytest.raises(UsageError, match="not set in the environment: CRM"):
        read_settings({"crm": entry}, tmp_path, {})
