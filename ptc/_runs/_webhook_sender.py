"""Thread that sends the notifications of a webhook.

Rule 1: sending neither delays nor fails a run: the queue is bounded, and a full one drops.
    tests/core/runs/test_webhook.py::test_receiver_that_hangs_delays_no_run_and_is_reported
Rule 2: a redirect is not followed: a receiver cannot send the notification elsewhere.
    tests/core/runs/test_webhook.py::test_redirect_is_not_followed
Rule 3: plain HTTP reaches loopback addresses only, whatever a name resolves to.
    tests/core/runs/test_webhook.py::test_localhost_that_resolves_elsewhere_is_not_contacted
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import queue
import socket
import threading
import time
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .._core._arguments import describe_error
from .._core._reactor import caller_of_loop
from .._records._result import RunEvent
from ._webhook import Notification, OnDelivery, Webhook, WebhookDelivery, sign

if TYPE_CHECKING:
    from http.client import HTTPConnection

    from .._calls._subscribers import EventSink

__all__ = ["WebhookSender"]

_QUEUE = 256
_PAUSES_SECONDS = (0.25, 0.5, 1.0, 2.0)
"""Pauses between attempts."""
_ATTEMPT_SECONDS = 10.0
_CLOSE_SECONDS = 4.5
"""Time that `close` waits. All attempts at an address that refuses take 3.75 s."""
_RETRIED = frozenset({408, 425, 429})

_log = logging.getLogger("ptc")


class WebhookSender:
    """Sends notifications one after the other, in a thread that starts with the first."""

    def __init__(self, webhook: Webhook) -> None:
        """Read the signing key; nothing is started.

        Raises:
            UsageError: If the key is missing or wrong.
        """
        self._webhook = webhook
        self._key = webhook.read_key()
        self._queue: queue.Queue[Notification | None] = queue.Queue(_QUEUE)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._connection: HTTPConnection | None = None
        self._on_event: OnDelivery | None = None

    def report_to(self, on_event: EventSink) -> None:
        """Also report outcomes as events, in the running event loop."""
        call = caller_of_loop()

        def report(delivery: WebhookDelivery) -> None:
            event = RunEvent("webhook", delivery.run_id, text=delivery.reason, value=delivery)
            call(partial(on_event, event))

        self._on_event = report

    def send(self, notification: Notification) -> None:
        """Queue a notification. Never waits and never raises."""
        with self._lock:
            if self._closed.is_set():
                self._report(notification, 0, "the session is closed")
                return
            if self._thread is None:
                # A daemon: a receiver that hangs cannot keep the process alive.
                self._thread = threading.Thread(target=self._run, name="ptc webhook", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait(notification)
        except queue.Full:
            self._report(notification, 0, f"{_QUEUE} notifications are waiting already")

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Wait for the queue, for a bounded time; then report the rest as not delivered."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            self._closed.set()
            return
        deadline = time.monotonic() + seconds
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=seconds)
        thread.join(max(0.0, deadline - time.monotonic()))
        self._closed.set()
        _shut_down(self._connection)
        thread.join(1.0)
        while not self._queue.empty():
            if (left := self._queue.get_nowait()) is not None:
                self._report(left, 0, "the session was closed before it was sent")

    # --- thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while (notification := self._queue.get()) is not None:
            if self._closed.is_set():
                self._report(notification, 0, "the session was closed before it was sent")
            else:
                self._deliver(notification)

    def _deliver(self, notification: Notification) -> None:
        reason, attempts = "", 0
        for pause in (*_PAUSES_SECONDS, None):
            attempts += 1
            reason, may_retry = self._attempt(notification)
            if not reason:
                break
            if pause is None or not may_retry or self._closed.wait(pause):
                break
        self._report(notification, attempts, reason)

    def _attempt(self, notification: Notification) -> tuple[str, bool]:
        """Send it once. Return the reason of a failure, or "", and whether to try again."""
        try:
            status = self._post(notification)
        except _RefusedError as error:
            return str(error), False
        except Exception as error:  # noqa: BLE001  # of sockets, TLS and HTTP: nothing may escape
            return describe_error(error)[:200], True
        if 200 <= status < 300:
            return "", False
        if 300 <= status < 400:
            return f"the receiver answered {status}; redirects are not followed", False
        return f"the receiver answered {status}", status >= 500 or status in _RETRIED

    def _post(self, notification: Notification) -> int:
        timestamp = int(time.time())
        parts = urlsplit(self._webhook.url)
        headers = {
            "content-type": "application/json",
            "user-agent": "ptc-webhook/1",
            "webhook-id": notification.id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._key, notification.id, timestamp, notification.body),
        }
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection = _open(parts.scheme, parts.hostname or "", parts.port)
        self._connection = connection
        # The time-out of a socket is that of one read: a receiver could send a byte at a time.
        timer = threading.Timer(_ATTEMPT_SECONDS, _shut_down, (connection,))
        timer.daemon = True
        timer.start()
        try:
            connection.connect()
            if parts.scheme == "http":
                _require_loopback(connection)
            connection.request("POST", path, notification.body, headers)
            return connection.getresponse().status
        finally:
            timer.cancel()
            self._connection = None
            connection.close()

    def _report(self, notification: Notification, attempts: int, reason: str) -> None:
        about = f"{notification.event}, call {notification.call} of run {notification.run_id}"
        if reason:
            reason = self._without_address(reason)
            _log.error(
                "webhook %s: not delivered after %d attempts (%s): %s",
                *(self._webhook.origin, attempts, about, reason),
            )
        else:
            _log.debug("webhook %s: delivered (%s)", self._webhook.origin, about)
        delivery = WebhookDelivery(
            *(notification.id, notification.event, notification.run_id, notification.call),
            delivered=not reason,
            attempts=attempts,
            reason=reason,
        )
        for receiver in (self._on_event, self._webhook.on_delivery):
            try:
                if receiver is not None:
                    receiver(delivery)
            except Exception:  # noqa: BLE001  # the application's code
                _log.exception("on_delivery failed for %s", notification.id)

    def _without_address(self, reason: str) -> str:
        """Remove the path of the address from the text of an error: it is often a password."""
        parts = urlsplit(self._webhook.url)
        for secret in (parts.query, parts.path):
            if len(secret) > 1:
                reason = reason.replace(secret, "...")
        return reason


class _RefusedError(Exception):
    """Raised when the address must not be contacted."""


def _open(scheme: str, host: str, port: int | None) -> HTTPConnection:
    """Create a connection that ignores proxies of the environment and follows no redirect."""
    import http.client
    import ssl

    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_ATTEMPT_SECONDS)
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, port, timeout=_ATTEMPT_SECONDS, context=context)


def _require_loopback(connection: HTTPConnection) -> None:
    if not _is_loopback_address(connection.sock.getpeername()[0]):
        raise _RefusedError("the name resolves to an address that is not loopback; use https")


def _is_loopback_address(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def _shut_down(connection: HTTPConnection | None) -> None:
    """End all reads and writes of a connection, from another thread."""
    found = connection.sock if connection is not None else None
    if found is not None:
        with contextlib.suppress(OSError):
            found.shutdown(socket.SHUT_RDWR)
