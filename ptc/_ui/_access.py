"""Links, cookies and identities of the people who use the page.

Rule 1: a link signs in once; the terminal that started the server shows the next one.
    tests/ui/test_access.py::test_link_signs_in_once
Rule 2: a request needs both halves of a session: a cookie that scripts cannot read, and a key that
    only pages of this origin have. Browsers send a cookie to every port of a host, and treat these
    as one site, so that the cookie alone proves nothing.
    tests/ui/test_access.py::test_cookie_without_the_key_is_refused
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from .._dataclass import dataclass

__all__ = ["Access", "Visitor"]

_MOST_VISITORS: Final = 64
_IDLE_SECONDS: Final = 12 * 3600.0
_MOST_FAILURES: Final = 20
"""Wrong links in a minute, after which links are refused for the rest of it."""


@dataclass(slots=True)
class Visitor:
    """A signed-in browser."""

    identity: str
    """Name that its decisions are recorded with."""
    number: int
    """Number of the sign-in, for the audit."""
    key: str
    """The half of its session that the page sends as a header."""
    seen: float
    """Time of its last request, on the monotonic clock."""


class Access:
    """Issues links for identities, and recognizes the browsers that used them."""

    def __init__(
        self, identities: Sequence[str], on_used: Callable[[str], object] = lambda identity: None
    ) -> None:
        """Issue no link yet.

        Args:
            identities: Names of the people who may sign in.
            on_used: Called with the identity of a link that was used.
        """
        self.identities: tuple[str, ...] = tuple(dict.fromkeys(identities))
        """Names of the people who may sign in."""
        self._on_used = on_used
        self._links: dict[str, str] = {}
        self._visitors: OrderedDict[str, Visitor] = OrderedDict()
        self._failures: list[float] = []
        self._count = 0

    def issue(self, identity: str) -> str:
        """Return the token of a new link, which signs in once."""
        token = secrets.token_urlsafe(32)
        self._links[_digest(token)] = identity
        return token

    def redeem(self, token: str) -> tuple[str, Visitor] | None:
        """Return the cookie and the visitor of an unused token; None if it is not one."""
        now = time.monotonic()
        self._failures = [at for at in self._failures if now - at < 60]
        if len(self._failures) >= _MOST_FAILURES:
            return None
        # Looked up by digest: the time of a look-up tells nothing about the token.
        identity = self._links.pop(_digest(token), None)
        if identity is None:
            self._failures.append(now)
            return None
        cookie = secrets.token_urlsafe(32)
        self._count += 1
        visitor = Visitor(identity, self._count, secrets.token_urlsafe(32), now)
        self._visitors[_digest(cookie)] = visitor
        while len(self._visitors) > _MOST_VISITORS:
            self._visitors.popitem(last=False)
        self._on_used(identity)
        return cookie, visitor

    def find(self, cookie: str, key: str) -> Visitor | None:
        """Return the visitor with this cookie and key; None if there is none."""
        digest = _digest(cookie)
        visitor = self._visitors.get(digest)
        if visitor is None or not hmac.compare_digest(visitor.key.encode(), key.encode()):
            return None
        now = time.monotonic()
        if now - visitor.seen > _IDLE_SECONDS:
            del self._visitors[digest]
            return None
        visitor.seen = now
        self._visitors.move_to_end(digest)
        return visitor

    def leave(self, cookie: str) -> None:
        """Forget a visitor."""
        self._visitors.pop(_digest(cookie), None)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
