"""Redaction of secrets in text that leaves a tool, a model or a log.

There are two kinds of secrets: values that the tools of a session declare (`env=`), and credentials
that this process sent with a request, such as the key of a model or the header of a request that
failed. A `Redactor` searches all text from outside for both.

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
import html
import json
import logging
import re
import threading
import traceback
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from . import _json

__all__ = [
    "LEAST_CHARS",
    "SENT",
    "Redactor",
    "SentCredentials",
    "leads_to_secrets",
    "mask",
    "safe_text",
]

LEAST_CHARS = 6
"""Minimum length of a value that is redacted; shorter ones would match ordinary text."""
_LEAST_HIDDEN_CHARS: Final = 12
"""Minimum length of a value that is also searched in text without its escapes and spaces."""
_LONG_CHARS: Final = 65_536
"""Text over this length is searched for the usual forms only, after a fast check for any."""
_MOST_SENT: Final = 32
"""Most recently used credentials of the process that are remembered."""


class _Forms:
    """Compiled search for some secrets in all encoded forms."""

    __slots__ = ("_folded", "_hidden", "_names", "_pattern")

    def __init__(self, secrets: Iterable[tuple[str, str]]) -> None:
        found: dict[str, str] = {}
        self._hidden: dict[str, str] = {}
        for name, value in secrets:
            if len(value) >= LEAST_CHARS:
                for form in _forms(value):
                    found.setdefault(form, name)
                    if len(form) >= _LEAST_HIDDEN_CHARS:
                        self._hidden.setdefault(_bare(form), name)
        # Longest first: a secret that contains another one is replaced as a whole.
        forms = sorted(found, key=len, reverse=True)
        self._names = [found[form] for form in forms]
        self._folded = [form.casefold() for form in forms]
        # Case is ignored, since percent-escapes are written in both cases. The group identifies the
        # form, since the matched text may differ from it (a long s matches an s).
        pattern = "|".join(f"({re.escape(form)})" for form in forms)
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def __bool__(self) -> bool:
        return bool(self._names)

    def may_be_in(self, text: str) -> bool:
        """Return False if `text` contains none of the forms; fast for long text."""
        folded = text.casefold()
        return any(form in folded for form in self._folded)

    def replace(self, text: str) -> str:
        """Replace the secrets in `text`."""
        if len(text) > _LONG_CHARS:
            return self._pattern.sub(self._placeholder, text) if self.may_be_in(text) else text
        text = self._pattern.sub(self._placeholder, text)
        bare = _bare(text)
        for form, name in self._hidden.items():
            if form in bare:
                # Escaped or wrapped in an unknown way, so its location is unknown.
                return f"[text withheld: it contains [secret {name}]]"
        return text

    def _placeholder(self, match: re.Match[str]) -> str:
        assert match.lastindex is not None  # noqa: S101  # every alternative is a group
        return f"[secret {self._names[match.lastindex - 1]}]"


_NOTHING: Final = _Forms(())


class Redactor:
    """Replaces secrets of a session, and credentials of the process, by ``[secret NAME]``."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Create a redactor.

        Args:
            secrets: Value by name. Values under `LEAST_CHARS` characters are ignored.
        """
        self._own = _Forms(secrets.items())
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
        return mask(_json.plain_text(self.text(text), _LONG_CHARS))

    def error_data(self, value: Any) -> Any:
        """Redact secrets, and anything in the form of a credential, in data of an error."""
        try:
            data = _json.dumps(value)
        except _json.JsonError:
            return self.data(value)
        if _may_have_credential(data.decode()):
            return _mask_data(self.data(_json.loads(data)))
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
        if len(data) > _LONG_CHARS:
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
        self.forms: _Forms = _NOTHING
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
            self.forms = _Forms((name, value) for value, name in self._values.items())

    def request(self, url: object = "", headers: Iterable[tuple[Any, Any]] = ()) -> None:
        """Remember the credentials in the headers and the URL of a request."""
        for name, value in headers:
            shown = _text(name).lower()
            if _SECRET_NAME.search(shown):
                self._header(shown, _text(value))
        try:
            parts = urlsplit(str(url))
            if parts.password:
                self.remember("URL", unquote(parts.password))
                self.remember("URL", f"{parts.username or ''}:{parts.password}")
            for name, value in parse_qsl(parts.query):
                if _SECRET_NAME.search(name.lower()):
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


def _forms(secret: str) -> set[str]:
    forms = {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        html.escape(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        secret.encode().hex(),
    }
    data = secret.encode()
    for before in range(3):
        # The surrounding data determines the first and the last character: omit them.
        first = -(-before * 8 // 6)
        last = (before + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(b"\0" * before + data)[first:last].decode())
    return {form for form in forms if len(form) >= LEAST_CHARS}


def _bare(text: str) -> str:
    """Remove escapes, spaces and case, to find a secret that was encoded in an unusual way."""
    for _ in range(_MOST_LAYERS):
        before = text
        if "%" in text:
            text = unquote(text, errors="replace")
        if "&" in text:
            text = html.unescape(text)
        if "\\" in text:
            text = _ESCAPE.sub(_unescape, text)
        if text == before:
            break
    return "".join(text.split()).casefold()


_MOST_LAYERS: Final = 3
"""Nested encodings that are removed, as JSON in JSON."""
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrt]|(.))", re.DOTALL)


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else match[3] or ""


# --- undeclared credentials ---------------------------------------------------------------------

_SECRET_NAME: Final = re.compile(
    r"auth|api.?key|(^|[^a-z])key$|token|secret|passw|credential|cookie|signature"
)
"""Names of headers and parameters whose values are credentials."""
_HEADERS: Final = (
    "(?:proxy-)?authorization|x-api-key|api-key|x-goog-api-key|x-auth-token|x-subscription-token|"
    "private-token"
)
_PARAMETERS: Final = (
    "api_?key|key|token|access_token|id_token|auth|password|passwd|secret|client_secret|sig|"
    "signature"
)
_CREDENTIAL: Final = re.compile(
    rf"""
    # Not a word of a sentence: "basic authentication", "bearer token".
    (?P<scheme>\b(?:bearer|basic)\s+)(?=[^\s"',]*(?:[0-9._~+/=-]|(?-i:[a-z][A-Z])))
        [A-Za-z0-9._~+/=-]{{8,}}
    | (?P<cookie>\b(?:set-)?cookie["']?\s*[:=]\s*["']?)[^\n"']+
    | (?P<header>\b(?:{_HEADERS})["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+)?)[^\s"',;]{{6,}}
    | (?P<user>://[^/\s:@]*:)[^/\s@]+(?=@)
    | (?P<parameter>[?&](?:{_PARAMETERS})=)[^&\s"'<>#]+
    | (?P<known>\b)(?:sk-[A-Za-z0-9_-]{{16,}}|gh[pousr]_\w{{20,}}|xox[abprs]-[\w-]{{10,}}
        |AKIA[0-9A-Z]{{16}}|AIza[\w-]{{30,}}|glpat-[\w-]{{16,}})
    """,
    re.IGNORECASE | re.VERBOSE,
)


_HINTS: Final = (
    "bearer", "basic", "cookie", "authorization", "-key", "-token", "://", "key=", "token=",
    "auth=", "passw", "secret=", "sig=", "signature=", "sk-", "ghp_", "gho_", "ghu_", "ghs_",
    "ghr_", "xox", "akia", "aiza", "glpat-",
)  # fmt: skip
"""Every match of `_CREDENTIAL` contains one of these. Searching for them takes 2 us, matching 3 us
a character."""


def _may_have_credential(text: str) -> bool:
    folded = text.casefold()
    return any(hint in folded for hint in _HINTS)


def mask(text: str) -> str:
    """Replace anything in the form of a credential by ``[credential]``."""
    if not _may_have_credential(text):
        return text
    return _CREDENTIAL.sub(lambda match: f"{match[match.lastgroup or 0]}[credential]", text)


def _mask_data(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value[:_LONG_CHARS])
    if isinstance(value, dict):
        return {mask(key): _mask_data(item) for key, item in value.items()}
    return [_mask_data(item) for item in value] if isinstance(value, list) else value


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
