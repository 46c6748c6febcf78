"""One approval through every door: own tools, a client with forms, one without, and the command."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp_types", reason="the MCP SDK, 2.0 or newer, is not installed")

import mcp
from mcp import StdioServerParameters
from mcp_types import ElicitResult

SECONDS = 30.0
TOOLS = '''from ptc import tool

@tool(side_effect=True, needs_approval=True,
      approval_prompt=lambda arguments: f"Refund {arguments['cents']} cents?")
async def refund(order: str, cents: int) -> dict:
    """Refund an order."""
    with open("refunds.txt", "a") as file:
        file.write(f"{order} {cents}\\n")
    return {"order": order, "cents": cents}
'''
CONFIG = """toolsets = []
tools = ["tools.py"]
allow = ["refund"]
approvals_expire_ms = 3_600_000
"""
SCRIPT = """async def run(ctx, inputs):
    return await ctx.refund(inputs["order"], cents=inputs["cents"])
"""
KEY = "a key of more than 24 characters"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "ptc.toml").write_text(CONFIG)
    return tmp_path


def refunds(shop: Path) -> list[str]:
    file = shop / "refunds.txt"
    return file.read_text().splitlines() if file.exists() else []


def server(shop: Path, environment: dict[str, str], *options: str) -> StdioServerParameters:
    arguments = ["-P", "-m", "ptc", "mcp", *options]
    return StdioServerParameters(
        command=sys.executable, args=arguments, cwd=shop, env=dict(environment)
    )


def request(order: str, cents: int) -> dict[str, Any]:
    return {"source": SCRIPT, "inputs": {"order": order, "cents": cents}}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_gated_call_is_approved_in_a_form_and_by_the_command_for_a_client_without_forms(
    shop: Path, environment: dict[str, str], command: Any
) -> None:
    forms: list[str] = []

    async def user(context: Any, params: Any) -> ElicitResult:
        forms.append(params.message)
        return ElicitResult(action="accept", content={"cents": 40})

    with anyio.fail_after(SECONDS):
        async with mcp.Client(server(shop, environment), elicitation_callback=user) as client:
            done = await client.call_tool("program", request("A-1", 500))
        assert done.structured_content == {"value": {"order": "A-1", "cents": 40}}
        assert "Refund 500 cents?" in forms[0]
        assert refunds(shop) == ["A-1 40"]

        async with mcp.Client(server(shop, environment)) as client:
            paused = await client.call_tool("program", request("B-2", 70))
            assert not paused.is_error
            run_id = paused.structured_content["run_id"]
            (row,) = json.loads(command("approvals", "--json").out)
            assert (row["run_id"], row["prompt"]) == (run_id, "Refund 70 cents?")
            assert row["expires_ms"] == row["requested_ms"] + 3_600_000
            approved = await anyio.to_thread.run_sync(
                lambda: command("approve", run_id[:9], "--as", "ann", "--resume")
            )
            assert approved.status == 0, approved.err
            assert json.loads(approved.out) == {"order": "B-2", "cents": 70}
            assert refunds(shop) == ["A-1 40", "B-2 70"]
            seen = await client.call_tool("program_resume", {"run_id": run_id})
            assert seen.structured_content == {"value": {"order": "B-2", "cents": 70}}
        assert refunds(shop) == ["A-1 40", "B-2 70"], "it was made once"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Notes requests on its server."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        server: Any = self.server
        server.found.append((dict(self.headers.items()), body))
        self.send_response(500 if len(server.found) == 1 else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # its name there
        pass


@pytest.fixture
def receiver() -> Iterator[Any]:
    made: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    made.found = []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_commands_notify_the_webhook_and_print_no_key(
    shop: Path, command: Any, receiver: Any
) -> None:
    url = f"http://127.0.0.1:{receiver.server_address[1]}/T0PSECRETPATH"
    variables = {"PTC_WEBHOOK": url, "PTC_WEBHOOK_SECRET": KEY}
    (shop / "script.py").write_text(SCRIPT)
    inputs = ("--input", "order=C-3", "--input", "cents=9")
    paused = command("run", "script.py", *inputs, **variables)
    assert paused.status == 6, paused.err
    approved = command("approve", json.loads(receiver.found[-1][1])["run_id"], **variables)
    assert approved.status == 0, approved.err
    bodies = []
    for headers, body in receiver.found:
        text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(KEY.encode(), text, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        bodies.append(json.loads(body))
    assert [body["type"] for body in bodies] == ["call.pending", "call.pending", "call.decided"]
    assert bodies[0] == bodies[1], "it was sent again after the status 500"
    assert bodies[0]["arguments"] == {"order": "C-3", "cents": 9}
    silent = command("resume", bodies[0]["run_id"], PTC_WEBHOOK="http://127.0.0.1:1/T0PSECRETPATH")
    assert (silent.status, "PTC_WEBHOOK_SECRET is not set" in silent.err) == (2, True)
    written = [paused.out, paused.err, approved.out, approved.err, silent.err]
    assert not any(KEY in text or "T0PSECRETPATH" in text for text in written)


@pytest.mark.slow
def test_receiver_that_refuses_is_reported_and_fails_no_command(shop: Path, command: Any) -> None:
    (shop / "script.py").write_text(SCRIPT)
    variables = {"PTC_WEBHOOK": "http://127.0.0.1:1/T0PSECRETPATH", "PTC_WEBHOOK_SECRET": KEY}
    inputs = ("--input", "order=C-3", "--input", "cents=9")
    paused = command("run", "script.py", *inputs, **variables)
    assert paused.status == 6
    lines = paused.err.splitlines()
    following = next(number for number, line in enumerate(lines) if line.startswith("next: "))
    failed = next(number for number, line in enumerate(lines) if "not delivered after 5" in line)
    assert following < failed, "the result does not wait for the webhook"
    assert "T0PSECRETPATH" not in paused.err
