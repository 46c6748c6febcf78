"""Secrets kept out of text that leaves a tool, a model or a log.

Two kinds of secrets are known: those that tools declare (`env=`), of one session, and credentials
that this process sent with a request, of all of it: the key of a model, the header of a request
that failed. Text from outside passes through a `Redactor`, which looks for both.

Rule 1: a declared secret is in no result, error, log, record or attachment's name, neither as it
    is nor URL-encoded, nor in base64, alone or in the middle of other data.
    tests/core/tools/test_environment.py::test_a_secret_is_found_in_every_form
Rule 2: a credential that a server echoes is in no error, event, record or log.
    tests/core/calls/test_echoed_credentials.py
Rule 3: this is a net below the tool's author, who must not hand a secret out, not a sandbox layer
    against one who wants to: a secret that is reversed, cut in two or encrypted is not found.
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

__all__ = ["LEAST_CHARS", "SENT", "Redactor", "Sent", "leads_to_secrets", "mask", "safe_text"]

LEAST_CHARS = 6
"""Shorter values are not looked for: they would be found in everything."""
_LEAST_HIDDEN_CHARS: Final = 12
"""Values from which text is searched with all of its escapes and spaces removed."""
_LONG_CHARS: Final = 65_536
"""Text over that is searched for the usual forms only, and first for whether it has any."""
_MOST_SENT: Final = 32
"""Credentials of the process that are remembered, the latest used."""


class _Forms:
    """Some secrets in every form that they are looked for in."""

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
        # Longest first: a secret that has another one inside is replaced as a whole.
        forms = sorted(found, key=len, reverse=True)
        self._names = [found[form] for form in forms]
        self._folded = [form.casefold() for form in forms]
        # Case is ignored: percent-escapes are written in both. Which form it was is told by its
        # group: what is found need not be what was looked for (a long s is an s without its case).
        pattern = "|".join(f"({re.escape(form)})" for form in forms)
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def __bool__(self) -> bool:
        return bool(self._names)

    def may_be_in(self, text: str) -> bool:
        """False if none of the forms is in `text`; a fast look through much text."""
        folded = text.casefold()
        return any(form in folded for form in self._folded)

    def replace(self, text: str) -> str:
        """`text` without the secrets."""
        if len(text) > _LONG_CHARS:
            return self._pattern.sub(self._named, text) if self.may_be_in(text) else text
        text = self._pattern.sub(self._named, text)
        bare = _bare(text)
        for form, name in self._hidden.items():
            if form in bare:
                # Escaped or wrapped in a way that has no form here: where it is, nobody can say.
                return f"[text withheld: it has [secret {name}] in it]"
        return text

    def _named(self, match: re.Match[str]) -> str:
        assert match.lastindex is not None  # noqa: S101  # every alternative is a group
        return f"[secret {self._names[match.lastindex - 1]}]"


_NOTHING: Final = _Forms(())


class Redactor:
    """Puts ``[secret NAME]`` where a secret stands: of a session, or sent by this process."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Make one.

        Args:
            secrets: Value by name. Those under `LEAST_CHARS` characters are left out.
        """
        self._own = _Forms(secrets.items())
        if self._own:
            _LIVE.add(self)

    def __bool__(self) -> bool:
        return bool(self._own) or bool(SENT)

    def text(self, text: str) -> str:
        """`text` without secrets."""
        for forms in (self._own, SENT.forms):
            if forms:
                text = forms.replace(text)
        return text

    def error_text(self, text: str) -> str:
        """Text of an error without secrets, and without what has the form of a credential."""
        return mask(_json.plain_text(self.text(text), _LONG_CHARS))

    def error_data(self, value: Any) -> Any:
        """The same of data."""
        try:
            data = _json.dumps(value)
        except _json.JsonError:
            return self.data(value)
        if _may_have_credential(data.decode()):
            return _masked(self.data(_json.loads(data)))
        return self.data(value)

    def data(self, value: Any) -> Any:
        """Data without secrets, in keys too; what has no JSON form becomes its repr without them.

        An object without a secret stays itself.
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
        """Any value with a JSON form: itself, or its JSON data without the secrets it has.

        Raises:
            JsonError: If it has none: nobody could say what is in it.
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
"""Redactors with secrets of their own; a log is searched for all of them."""


class Sent:
    """Credentials that this process sent. From any thread; the latest used are remembered."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()
        self.forms: _Forms = _NOTHING
        """What is looked for."""

    def __bool__(self) -> bool:
        return bool(self._values)

    def remember(self, name: str, value: str) -> None:
        """Look for `value` from now on, under `name`."""
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
        """Remember the credentials of a request: those in headers, and in its URL."""
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
            pass  # no URL

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
        """Remember the credentials of the requests that an error is about, or its causes are."""
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


SENT: Final = Sent()


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
        # What is around it decides the first and the last character: those are left out.
        first = -(-before * 8 // 6)
        last = (before + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(b"\0" * before + data)[first:last].decode())
    return {form for form in forms if len(form) >= LEAST_CHARS}


def _bare(text: str) -> str:
    """`text` without escapes, spaces and case: what is left where it was encoded in an odd way."""
    for _ in range(_MOST_LAYERS):
        before = text
        if "%" in text:
            text = unquote(text, errors="replace")
        if "&" in text:
            text = html.unescape(text)
        if "\\" in text:
            text = _ESCAPE.sub(_unescaped, text)
        if text == before:
            break
    return "".join(text.split()).casefold()


_MOST_LAYERS: Final = 3
"""Encodings around encodings, as JSON in JSON."""
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[nrt]|(.))", re.DOTALL)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else match[3] or ""


# --- credentials that nobody declared -----------------------------------------------------------

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
    # No word of a sentence: "basic authentication", "bearer token".
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
"""One of these is in whatever `_CREDENTIAL` finds. Looking for them takes 2 us, finding 3 a
character."""


def _may_have_credential(text: str) -> bool:
    folded = text.casefold()
    return any(hint in folded for hint in _HINTS)


def mask(text: str) -> str:
    """`text` with ``[credential]`` where something has the form of one, whoever it belongs to."""
    if not _may_have_credential(text):
        return text
    return _CREDENTIAL.sub(lambda match: f"{match[match.lastgroup or 0]}[credential]", text)


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask(value[:_LONG_CHARS])
    if isinstance(value, dict):
        return {mask(key): _masked(item) for key, item in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list) else value


def leads_to_secrets(error: BaseException, redactor: Redactor) -> bool:
    """True if a secret is in the text or the notes of an error, of its causes or its context."""
    for each in _chain(error):
        texts = [_text(each), *map(_text, getattr(each, "__notes__", ()))]
        if any(redactor.error_text(text) != text for text in texts):
            return True
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, its causes, its context and its members; not all of a long chain."""
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
    except Exception:  # noqa: BLE001  # a property of some library's, httpx raises RuntimeError
        return None


def _text(thing: object) -> str:
    try:
        return thing.decode(errors="replace") if isinstance(thing, bytes) else str(thing)
    except Exception:  # noqa: BLE001  # its __str__ is its author's code
        return ""


# --- logs ---------------------------------------------------------------------------------------


class _LogFilter(logging.Filter):
    """Takes secrets out of the records of the logger ``ptc``."""

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
                # Not the exception itself: a handler would print it again.
                record.exc_info, record.exc_text = None, safe
        return True


def safe_text(text: str) -> str:
    """Text of an error without the secrets of any session of this process."""
    for redactor in list(_LIVE):
        text = redactor.text(text)
    return _PLAIN.error_text(text)


_PLAIN: Final = Redactor({})
logging.getLogger("ptc").addFilter(_LogFilter())
