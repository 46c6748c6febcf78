"""Webhook: notifications about calls that await a decision, over HTTP.

A notification is a POST of JSON, signed as the specification Standard Webhooks describes, so that
its libraries verify it.

Rule 1: a notification holds no secret: arguments are sent only if they are recorded whole.
    tests/core/runs/test_webhook.py::test_arguments_with_content_that_is_not_recorded_are_not_sent
Rule 2: the address and the key of the operator appear in no log and no event.
    tests/core/runs/test_webhook.py::test_key_and_path_of_the_url_are_in_no_log_and_no_event
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

from .._core import _json
from .._core._arguments import require, require_function
from .._core._redact import SENT
from .._dataclass import dataclass
from .._records._result import PendingCall
from .._tools._tool import Tool
from ..errors import UsageError
from ..journal._journal import DecisionRow
from ._whole_arguments import are_arguments_whole

__all__ = [
    "Notification",
    "OnDelivery",
    "Webhook",
    "WebhookDelivery",
    "decided_notification",
    "pending_notification",
    "sign",
]

_LEAST_KEY_BYTES = 24
"""Minimum of the specification Standard Webhooks."""
_BASE64_PREFIX = "whsec_"
_MAX_TEXT_CHARS = 4_000
"""Characters of a prompt or a comment in a notification."""
_MAX_ARGUMENT_BYTES = 32_768


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """Outcome of one notification."""

    id: str
    """Id of the notification, the header ``webhook-id``."""
    event: Literal["pending", "decided"]
    run_id: str
    call: str
    delivered: bool
    """True: the receiver answered with a status of 2xx."""
    attempts: int
    """Requests that were made; 0 if the queue was full or closed before the first."""
    reason: str = ""
    """Reason that it was not delivered."""


OnDelivery: TypeAlias = Callable[[WebhookDelivery], None]


@dataclass(frozen=True, slots=True)
class Webhook:
    """Address that is notified when a call starts to await a decision, and when it is decided.

    Each notification is sent in the background, up to five times. It neither delays nor fails a
    run. See docs/approvals.md for its form and its signature.
    """

    url: str
    """``https://...``, or ``http://`` with a loopback address."""
    secret_variable: str = "PTC_WEBHOOK_SECRET"  # noqa: S105  # the name of a variable
    """Environment variable that holds the signing key: at least 24 characters, or ``whsec_`` and at
    least 24 bytes in base64."""
    on_delivery: OnDelivery | None = None
    """Receives the outcome of each notification, in the thread that sends them."""

    def __post_init__(self) -> None:
        require("webhook: url", self.url, str, "text")
        require("webhook: secret_variable", self.secret_variable, str, "a variable's name")
        require_function("webhook: on_delivery", self.on_delivery)
        _check_url(self.url)

    def __repr__(self) -> str:
        # The path of an address is often its password.
        return f"Webhook({self.origin!r})"

    @property
    def origin(self) -> str:
        """Scheme and host of the address, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def read_key(self) -> bytes:
        """Return the signing key, and redact it from all text of this process from now on.

        Raises:
            UsageError: If the variable is not set, or its key is too short or not base64.
        """
        text = os.environ.get(self.secret_variable, "")
        if not text:
            msg = (
                f"webhook: the environment variable {self.secret_variable} is not set; it must "
                "hold the key that signs the notifications, for example the output of "
                "`openssl rand -base64 32`"
            )
            raise UsageError(msg)
        SENT.remember(self.secret_variable, text)
        key = text.encode()
        if text.startswith(_BASE64_PREFIX):
            try:
                key = base64.b64decode(text.removeprefix(_BASE64_PREFIX), validate=True)
            except (binascii.Error, ValueError):
                msg = f"webhook: {self.secret_variable} is not base64 after {_BASE64_PREFIX!r}"
                raise UsageError(msg) from None
        if len(key) < _LEAST_KEY_BYTES:
            msg = (
                f"webhook: the key in {self.secret_variable} has {len(key)} bytes; use at least "
                f"{_LEAST_KEY_BYTES}"
            )
            raise UsageError(msg)
        return key


def _check_url(url: str) -> None:
    """Raise `UsageError` unless notifications may be sent to `url`. No message quotes its path."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"webhook: the URL is not valid: {error}") from None
    if not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError("webhook: the URL must be printable ASCII without spaces")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        msg = "webhook: the URL must be https://..., or http:// with a loopback address"
        raise UsageError(msg)
    if parts.username is not None or parts.password is not None:
        msg = (
            "webhook: the URL must not hold a user name or a password; the signature identifies ptc"
        )
        raise UsageError(msg)
    if parts.fragment:
        raise UsageError("webhook: the URL must not have a fragment (#...)")
    if parts.scheme == "http" and not _is_loopback(parts):
        msg = (
            f"webhook: {parts.hostname!r} is not a loopback address, and http does not encrypt; "
            "use https"
        )
        raise UsageError(msg)


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    if host == "localhost":
        return True  # the sender checks the address that it resolves to
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification that can be sent."""

    id: str
    """The same for the same event: a receiver can drop repetitions."""
    event: Literal["pending", "decided"]
    run_id: str
    call: str
    body: bytes


def pending_notification(call: PendingCall, tool: Tool | None) -> Notification:
    """Build the notification that a call awaits a decision.

    Args:
        call: The call.
        tool: Its tool; None if it is not known, so that it is not known what may be sent.
    """
    arguments: Any = None
    withheld = "the arguments hold content that is not recorded, or a secret"
    if tool is not None and are_arguments_whole(call, tool):
        size = len(_json.dumps(call.arguments))
        withheld = f"the arguments have {size:,} bytes"
        if size <= _MAX_ARGUMENT_BYTES:
            arguments, withheld = call.arguments, ""
    command = "approve" if call.kind == "approval" else "settle"
    data = {
        "prompt": call.prompt[:_MAX_TEXT_CHARS],
        "arguments": arguments,
        "arguments_withheld": withheld or None,
        "line": call.line,
        "expires_ms": call.expires_ms,
        "next": f"ptc {command} {call.run_id} {call.call}"
        + (" --resume" if command == "approve" else " --outcome (done --value JSON|failed|again)"),
    }
    return _notification("pending", call, data)


def decided_notification(call: PendingCall, decision: DecisionRow) -> Notification:
    """Build the notification that a call was decided."""
    data = {
        "decision": decision.action,
        "by": decision.by,
        "comment": decision.comment[:_MAX_TEXT_CHARS],
        "decided_ms": decision.at_ms,
        "next": f"ptc resume {call.run_id}",
    }
    return _notification("decided", call, data)


def _notification(
    event: Literal["pending", "decided"], call: PendingCall, data: Mapping[str, Any]
) -> Notification:
    identity = f"{event} {call.run_id} {call.call} {call.kind} {call.requested_ms}"
    number = f"msg_{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
    body = {
        "type": f"call.{event}",
        "run_id": call.run_id,
        "call_id": call.call,
        "kind": call.kind,
        "tool": call.tool,
        "requested_ms": call.requested_ms,
        **data,
    }
    return Notification(number, event, call.run_id, call.call, _json.dumps(body, what="webhook"))


def sign(key: bytes, number: str, timestamp: int, body: bytes) -> str:
    """Return the header ``webhook-signature``: HMAC-SHA256 over id, timestamp and body."""
    digest = hmac.new(key, b"%b.%d.%b" % (number.encode(), timestamp, body), hashlib.sha256)
    return f"v1,{base64.b64encode(digest.digest()).decode()}"
