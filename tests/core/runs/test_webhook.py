"""Notifications about pending calls, sent to a real server on loopback."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, SecretStr

from ptc import RunEvent, Session, UsageError, Webhook, WebhookDelivery, tool
from ptc._runs import _webhook_sender
from ptc._runs._webhook import Notification
from ptc._runs._webhook_sender import WebhookSender

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

KEY = "correct horse battery staple 0123"
PATH = "/hooks/T0PSECRETPATH"
SECONDS = 15.0


class Receiver:
    """Server that answers with the given statuses, then with 204."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.hang = threading.Event()
        self.hang.set()
        self._arrived = threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with receiver._arrived:
                    receiver.requests.append((self.path, headers, body))
                    receiver._arrived.notify_all()
                receiver.hang.wait(SECONDS)
                status = receiver.statuses.pop(0) if receiver.statuses else 204
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", f"{receiver.url}/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # its name there
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}{PATH}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait_for(self, number: int) -> None:
        """Wait until so many requests have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= number, SECONDS)

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.hang.set()
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTC_WEBHOOK_SECRET", KEY)
    monkeypatch.setattr(_webhook_sender, "_PAUSES_SECONDS", (0.01, 0.01, 0.01, 0.01))


class Outcomes:
    """Collects deliveries from the sender's thread."""

    def __init__(self) -> None:
        self.found: list[WebhookDelivery] = []
        self._changed = threading.Condition()

    def __call__(self, delivery: WebhookDelivery) -> None:
        with self._changed:
            self.found.append(delivery)
            self._changed.notify_all()

    def wait_for(self, number: int = 1) -> list[WebhookDelivery]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.found) >= number, SECONDS)
        return self.found


@tool(
    side_effect=True,
    idempotent=True,
    needs_approval=True,
    approval_prompt=lambda arguments: f"Pay {arguments['cents']}?",
)
async def pay(cents: int) -> int:
    """Pay."""
    return cents


@tool(side_effect=True, idempotent=True, needs_approval=True, unrecorded=["text"])
async def save(name: str, text: str) -> str:
    """Save."""
    return name


class Keys(BaseModel):
    """Values that `send` needs."""

    api_key: SecretStr


@tool(side_effect=True, idempotent=True, needs_approval=True, env=Keys)
async def send(text: str) -> str:
    """Send."""
    return text


PAY = "async def run(ctx, inputs):\n    return await ctx.pay(500)\n"


def options(**more: Any) -> dict[str, Any]:
    return {"tools": [pay], "toolsets": (), "workers": 1, "allowed_tools": ["*"]} | more


def notification(number: int = 0) -> Notification:
    return Notification(f"msg_{number}", "pending", "r", "1", b'{"n":1}')


def verify(headers: dict[str, str], body: bytes, key: bytes = KEY.encode()) -> None:
    """Verify a signature as the specification Standard Webhooks says."""
    assert abs(time.time() - int(headers["webhook-timestamp"])) < 60
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"


async def test_pending_and_decided_are_delivered_signed(tmp_path: Path, receiver: Receiver) -> None:
    expiry = {"approvals_expire_ms": 60_000}
    async with Session(tmp_path, **options(webhook=receiver.url, **expiry)) as session:
        paused = await session.program(source=PAY)
        (call,) = paused.pending
        await session.approve(paused.run_id, by="ann", comment="fine")
    for path, headers, body in receiver.requests:
        assert path == PATH
        assert headers["content-type"] == "application/json"
        verify(headers, body)
    pending, decided = receiver.bodies()
    assert pending == {
        "type": "call.pending",
        "run_id": paused.run_id,
        "call_id": "1",
        "kind": "approval",
        "tool": "pay",
        "requested_ms": call.requested_ms,
        "prompt": "Pay 500?",
        "arguments": {"cents": 500},
        "arguments_withheld": None,
        "line": 2,
        "expires_ms": call.expires_ms,
        "next": f"ptc approve {paused.run_id} 1 --resume",
    }
    assert (decided["type"], decided["decision"]) == ("call.decided", "approve")
    assert (decided["by"], decided["comment"]) == ("ann", "fine")
    assert decided["next"] == f"ptc resume {paused.run_id}"
    assert "arguments" not in decided


async def test_same_request_has_the_same_id_when_the_run_pauses_again(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with Session(tmp_path, **options(webhook=receiver.url)) as session:
        paused = await session.program(source=PAY)
        await session.resume(paused.run_id)
    first, second = (headers["webhook-id"] for _, headers, _ in receiver.requests)
    assert first == second


async def test_base64_key_of_the_specification_is_decoded(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = bytes(range(32))
    monkeypatch.setenv("PTC_WEBHOOK_SECRET", f"whsec_{base64.b64encode(raw).decode()}")
    sender = WebhookSender(Webhook(receiver.url))
    sender.send(notification())
    sender.close()
    ((_, headers, body),) = receiver.requests
    verify(headers, body, raw)


async def test_failure_of_the_server_is_retried_with_a_fresh_signature(receiver: Receiver) -> None:
    receiver.statuses = [500, 503, 429]
    outcomes = Outcomes()
    sender = WebhookSender(Webhook(receiver.url, on_delivery=outcomes))
    sender.send(notification())
    (outcome,) = outcomes.wait_for()
    sender.close()
    assert (outcome.delivered, outcome.attempts, outcome.reason) == (True, 4, "")
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    for _, headers, body in receiver.requests:
        verify(headers, body)


@pytest.mark.parametrize(
    ("statuses", "attempts", "reason"),
    [
        ([500] * 9, 5, "the receiver answered 500"),
        ([404], 1, "the receiver answered 404"),
        ([410], 1, "the receiver answered 410"),
    ],
)
async def test_sender_gives_up_and_reports_it(
    receiver: Receiver, statuses: list[int], attempts: int, reason: str
) -> None:
    receiver.statuses = statuses
    outcomes = Outcomes()
    sender = WebhookSender(Webhook(receiver.url, on_delivery=outcomes))
    sender.send(notification())
    (outcome,) = outcomes.wait_for()
    sender.close()
    assert (outcome.delivered, outcome.attempts, outcome.reason) == (False, attempts, reason)
    assert len(receiver.requests) == attempts


async def test_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.statuses = [307]
    outcomes = Outcomes()
    sender = WebhookSender(Webhook(receiver.url, on_delivery=outcomes))
    sender.send(notification())
    (outcome,) = outcomes.wait_for()
    sender.close()
    assert outcome.reason == "the receiver answered 307; redirects are not followed"
    assert [path for path, _, _ in receiver.requests] == [PATH]


async def test_receiver_that_hangs_delays_no_run_and_is_reported(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_webhook_sender, "_CLOSE_SECONDS", 0.2)
    monkeypatch.setattr(WebhookSender.close, "__defaults__", (0.2,))
    receiver.hang.clear()
    outcomes = Outcomes()
    webhook = Webhook(receiver.url, on_delivery=outcomes)
    async with Session(tmp_path, **options(webhook=webhook)) as session:
        first = await session.program(source=PAY)
        second = await session.program(source=PAY)
        await anyio.to_thread.run_sync(receiver.wait_for, 1)
        done = await session.approve(first.run_id, by="ann", resume=True)
        assert done.unwrap() == 500, "the run completed while the receiver was silent"
        assert second.status == "paused"
    assert len(outcomes.wait_for(3)) == 3
    assert not any(outcome.delivered for outcome in outcomes.found)


async def test_address_that_refuses_fails_no_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}{PATH}"
    async with Session(tmp_path, **options(webhook=url)) as session:
        assert (await session.program(source=PAY)).status == "paused"
    assert "not delivered after 5 attempts (pending, call 1 of run" in caplog.text


async def test_full_queue_drops_and_reports(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_webhook_sender, "_QUEUE", 2)
    receiver.hang.clear()
    outcomes = Outcomes()
    sender = WebhookSender(Webhook(receiver.url, on_delivery=outcomes))
    sender.send(notification(0))
    await anyio.to_thread.run_sync(receiver.wait_for, 1)
    for number in range(1, 5):
        sender.send(notification(number))
    dropped = outcomes.wait_for(2)
    assert [(d.id, d.attempts) for d in dropped] == [("msg_3", 0), ("msg_4", 0)]
    assert dropped[0].reason == "2 notifications are waiting already"
    receiver.hang.set()
    assert [d.id for d in outcomes.wait_for(5)[2:]] == ["msg_0", "msg_1", "msg_2"]
    sender.close()


@pytest.mark.both_loops
async def test_outcomes_are_events_of_the_session(tmp_path: Path, receiver: Receiver) -> None:
    receiver.statuses = [204, 404]
    events: list[RunEvent] = []
    async with Session(
        tmp_path, **options(webhook=receiver.url, on_event=events.append)
    ) as session:
        paused = await session.program(source=PAY)
        await session.reject(paused.run_id, by="ann")
    found = [event for event in events if event.kind == "webhook"]
    assert [event.run_id for event in found] == [paused.run_id] * 2
    assert [(e.value.event, e.value.delivered) for e in found] == [
        ("pending", True),
        ("decided", False),
    ]
    assert found[1].text == "the receiver answered 404"


async def test_arguments_with_content_that_is_not_recorded_are_not_sent(
    tmp_path: Path, receiver: Receiver
) -> None:
    secret = "sk-0123456789abcdef"
    made = options(tools=[save, send], env={"api_key": secret}, webhook=receiver.url)
    source = (
        "import asyncio\n"
        "async def run(ctx, inputs):\n"
        "    await asyncio.gather(ctx.save('a.txt', 'CONTENT'), ctx.send(inputs['text']))\n"
    )
    async with Session(tmp_path, **made) as session:
        await session.program(source=source, inputs={"text": f"the key is {secret}"})
    assert len(receiver.requests) == 2
    for body in receiver.bodies():
        assert body["arguments"] is None
        assert body["arguments_withheld"] == (
            "the arguments hold content that is not recorded, or a secret"
        )
    raw = b"".join(body for _, _, body in receiver.requests)
    assert secret.encode() not in raw
    assert b"CONTENT" not in raw


async def test_key_and_path_of_the_url_are_in_no_log_and_no_event(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    receiver.statuses = [500] * 5 + [204]
    events: list[RunEvent] = []
    webhook = Webhook(f"{receiver.url}?token=TOKEN1234")
    async with Session(tmp_path, **options(webhook=webhook, on_event=events.append)) as session:
        paused = await session.program(source=PAY)
        await session.reject(paused.run_id, by="ann")
    text = caplog.text + repr(events) + repr(webhook)
    assert "webhook http://127.0.0.1:" in text
    for secret in (KEY, "T0PSECRETPATH", "TOKEN1234"):
        assert secret not in text


async def test_localhost_that_resolves_elsewhere_is_not_contacted(
    monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    port = receiver.server.server_address[1]
    monkeypatch.setattr(_webhook_sender, "_is_loopback_address", lambda _: False)
    outcomes = Outcomes()
    sender = WebhookSender(Webhook(f"http://localhost:{port}/", on_delivery=outcomes))
    sender.send(notification())
    (outcome,) = outcomes.wait_for()
    sender.close()
    assert "not loopback; use https" in outcome.reason
    assert receiver.requests == [], "nothing was sent on the connection"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://example.com/x", "'example.com' is not a loopback address"),
        ("http://127.0.0.1.example.com/", "is not a loopback address"),
        ("http://10.0.0.1/", "is not a loopback address"),
        ("ftp://example.com/", "must be https"),
        ("example.com", "must be https"),
        ("https://", "must be https"),
        ("https://user:hunter22@example.com/", "must not hold a user name or a password"),
        ("https://example.com/#x", "must not have a fragment"),
        ("https://example.com/a b", "printable ASCII"),
        ("https://exämple.com/", "printable ASCII"),
        ("https://example.com:99999/", "not valid"),
        ("https://example.com/\r\nx: y", "printable ASCII"),
        (5, "url must be text"),
    ],
)
async def test_wrong_address_is_refused_without_quoting_its_secret(url: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as found:
        Webhook(url)
    assert "hunter22" not in str(found.value)


@pytest.mark.parametrize(
    "url",
    ["https://example.com", "http://[::1]:80/x", "http://localhost/", "http://127.1.2.3/"],
)
async def test_address_with_https_or_on_loopback_is_accepted(url: str) -> None:
    assert Webhook(url).url == url


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "PTC_WEBHOOK_SECRET is not set"),
        ("short", "has 5 bytes; use at least 24"),
        ("whsec_!!!", "is not base64"),
        ("whsec_AAAA", "has 3 bytes"),
    ],
)
async def test_missing_or_weak_key_is_refused_when_the_session_is_created(
    tmp_path: Path, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTC_WEBHOOK_SECRET", value)
    with pytest.raises(UsageError, match=problem) as found:
        Session(tmp_path, **options(webhook="https://example.com/"))
    assert not value or value not in str(found.value)


async def test_wrong_type_of_webhook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="webhook must be a URL or a Webhook"):
        Session(tmp_path, **options(webhook=5))


async def test_session_without_a_webhook_starts_no_thread(tmp_path: Path) -> None:
    def threads() -> set[str]:
        return {thread.name for thread in threading.enumerate()}

    async with Session(tmp_path, **options()) as session:
        await session.program(source=PAY)
        assert "ptc webhook" not in threads()
