"""Encoded forms of secrets, and the search for them in text."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus, unquote

__all__ = ["LEAST_CHARS", "LONG_CHARS", "Forms"]

LEAST_CHARS = 6
"""Minimum length of a value that is redacted; shorter ones would match ordinary text."""
_LEAST_HIDDEN_CHARS: Final = 12
"""Minimum length of a value that is also searched in text without its escapes and spaces."""
LONG_CHARS: Final = 65_536
"""Text over this length is searched for the usual forms only, after a fast check for any."""


class Forms:
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
        if len(text) > LONG_CHARS:
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


def _forms(secret: str) -> set[str]:
    import html

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
            import html

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
