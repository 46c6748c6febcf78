"""Redaction of secrets in text that leaves a tool, a model or a log.

There are two kinds of secrets: values that the tools of a session declare (`env=`), and credentials
that this process sent with a request, such as the key of a model or the header of a request that
failed. A `Redactor` searches all text from outside for both, in every encoded form
(`_secret_forms`). In an error it also masks anything in the form of a credential (`_credentials`).

Rule 1: a declared secret is in no result, error, log, record or attachment's name: neither plain
    nor URL-encoded nor in base64, alone or in the middle of other data.
    tests/core/tools/test_environment.py::test_secret_is_found_in_every_encoding
Rule 2: a credential that a server echoes is in no error, event, record or log.
    tests/core/calls/test_echoed_credentials.py
Rule 3: redaction is a safety net for mistakes of a tool's author, not a defence against a hostile
    one: a secret that is reversed, split in two or encrypted is not found.
"""

from __future__ import annotations

import base64
import logging
import threading
import traceback
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from . import _json
from ._credentials import SECRET_NAME, mask, mask_data, may_have_credential
from ._secret_forms import LEAST_CHARS, LONG_CHARS, Forms

__all__ = ["SENT", "Redactor", "SentCredentials", "leads_to_secrets", "safe_text"]

_MOST_SENT: Final = 32
"""Most recently used credentials of the process that are remembered."""

_NOTHING: Final = Forms(())


class Redactor:
    """Replaces secrets of a session, and credentials of the process, by ``[secret NAME]``."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Create a redactor.

        Args:
            secrets: Value by name. Values under `LEAST_CHARS` characters are ignored.
        """
        self._own = Forms(secrets.items())
        if self._own:
            _LIVE.add(self)

    def __bool__(self) -> bool:
        return bool(self._own) or bool(SENT)

    def text(self, text: str) -> str:
        """Redact secrets in `text`."""
        for forms in (self._own, SENT.forms):
            if forms:
                text = forms.replace(text)
        return text

    def error_text(self, text: str) -> str:
        """Redact secrets, and anything in the form of a credential, in the text of an error."""
        return mask(_json.plain_text(self.text(text), LONG_CHARS))

    def error_data(self, value: Any) -> Any:
        """Redact secrets, and anything in the form of a credential, in data of an error."""
        try:
            data = _json.dumps(value)
        except _json.JsonError:
            return self.data(value)
        if may_have_credential(data.decode()):
            return mask_data(self.data(_json.loads(data)))
        return self.data(value)

    def data(self, value: Any) -> Any:
        """Redact secrets in data and its keys; an object without a JSON form becomes its repr.

        An object without a secret is returned unchanged.
        """
        if not self or value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.data(key): self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        try:
            return self.value(value)
        except _json.JsonError:
            return self.text(repr(value))

    def value(self, value: Any) -> Any:
        """Return a value unchanged if it contains no secret, else its JSON data, redacted.

        Raises:
            JsonError: If it has no JSON form, so it cannot be searched.
        """
        data = _json.dumps(value)
        if len(data) > LONG_CHARS:
            text = data.decode()
            if not (self._own.may_be_in(text) or SENT.forms.may_be_in(text)):
                return value
        plain = _json.loads(data)
        clean = self.data(plain)
        return value if clean == plain else clean


_LIVE: weakref.WeakSet[Redactor] = weakref.WeakSet()
"""Redactors with declared secrets; logs are searched for all of them."""


class SentCredentials:
    """The most recently used credentials that this process sent. Thread-safe."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()
        self.forms: Forms = _NOTHING
        """Compiled search for the credentials."""

    def __bool__(self) -> bool:
        return bool(self._values)

    def remember(self, name: str, value: str) -> None:
        """Redact `value` from now on, as `name`."""
        value = value.strip()
        if len(value) < LEAST_CHARS:
            return
        with self._lock:
            known = self._values.pop(value, None)
            self._values[value] = known or name
            if known is not None:
                return
            while len(self._values) > _MOST_SENT:
                del self._values[next(iter(self._values))]
            self.forms = Forms((name, value) for value, name in self._values.items())

    def request(self, url: object = "", headers: Iterable[tuple[Any, Any]] = ()) -> None:
        """Remember the credentials in the headers and the URL of a request."""
        for name, value in headers:
            shown = _text(name).lower()
            if SECRET_NAME.search(shown):
                self._header(shown, _text(value))
        try:
            parts = urlsplit(str(url))
            if parts.password:
                self.remember("URL", unquote(parts.password))
                self.remember("URL", f"{parts.username or ''}:{parts.password}")
            for name, value in parse_qsl(parts.query):
                if SECRET_NAME.search(name.lower()):
                    self.remember(name, value)
        except ValueError:
            pass  # not a URL

    def _header(self, name: str, value: str) -> None:
        scheme, _, token = value.strip().partition(" ")
        if name in ("cookie", "set-cookie"):
            for cookie in value.split(";"):
                self.remember(name, cookie.partition("=")[2])
            return
        self.remember(name, token or scheme)
        if scheme.lower() == "basic":
            try:
                pair = base64.b64decode(token, validate=True).decode()
            except ValueError:
                return
            self.remember(name, pair)
            self.remember(name, pair.partition(":")[2])

    def failed(self, error: BaseException) -> None:
        """Remember the credentials of the requests attached to an error or its causes."""
        for each in _chain(error):
            response = _part(each, "response")
            for request in (
                _part(each, "request"),
                _part(each, "request_info"),
                _part(response, "request"),
            ):
                headers = _part(request, "headers")
                if isinstance(headers, Mapping):
                    self.request(_part(request, "url") or "", headers.items())


SENT: Final = SentCredentials()


def leads_to_secrets(error: BaseException, redactor: Redactor) -> bool:
    """Return True if the text or a note of an error, a cause or its context has a secret."""
    for each in _chain(error):
        texts = [_text(each), *map(_text, getattr(each, "__notes__", ()))]
        if any(redactor.error_text(text) != text for text in texts):
            return True
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes, its context and its members, up to `_MOST_ERRORS`."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo and len(seen) < _MOST_ERRORS:
        each = todo.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        todo += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            todo += each.exceptions


_MOST_ERRORS: Final = 50


def _part(thing: object, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001  # a library's property; httpx raises RuntimeError
        return None


def _text(thing: object) -> str:
    try:
        return thing.decode(errors="replace") if isinstance(thing, bytes) else str(thing)
    except Exception:  # noqa: BLE001  # `__str__` is the author's code
        return ""


# --- logs ---------------------------------------------------------------------------------------


class _LogFilter(logging.Filter):
    """Redacts secrets in the records of the logger ``ptc``."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[1] is not None:
            SENT.failed(record.exc_info[1])
        text = record.getMessage()
        safe = safe_text(text)
        if safe != text:
            record.msg, record.args = safe, ()
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            safe = safe_text(trace)
            if safe != trace:
                # Drop the exception itself, since a handler would format it again.
                record.exc_info, record.exc_text = None, safe
        return True


def safe_text(text: str) -> str:
    """Redact the secrets of all sessions of this process in the text of an error."""
    for redactor in list(_LIVE):
        text = redactor.text(text)
    return _PLAIN.error_text(text)


_PLAIN: Final = Redactor({})
logging.getLogger("ptc").addFilter(_LogFilter())
