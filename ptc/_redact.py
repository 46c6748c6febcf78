"""Secrets kept out of what leaves a tool.

Rule 1: a declared secret is in no result, error, log, record or attachment's name, neither as it
    is nor URL-encoded, nor in base64, alone or in the middle of other data.
    tests/core/test_environment.py::test_a_secret_is_found_in_every_form
Rule 2: this is a net below the tool's author, who must not hand a secret out, not a fence against
    one who wants to: a secret that is reversed, cut in two or encrypted is not found.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from . import _json

__all__ = ["LEAST_CHARS", "Redactor"]

LEAST_CHARS = 6
"""Shorter values are not looked for: they would be found in everything."""


class Redactor:
    """Puts ``[secret NAME]`` where a secret stands."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Make one.

        Args:
            secrets: Value by name. Those under `LEAST_CHARS` characters are left out.
        """
        found: dict[str, str] = {}
        for name, value in secrets.items():
            if len(value) >= LEAST_CHARS:
                for form in _forms(value):
                    found.setdefault(form, name)
        # Longest first: a secret that has another one inside is replaced as a whole.
        forms = sorted(found, key=len, reverse=True)
        self._names = [found[form] for form in forms]
        # Case is ignored: percent-escapes are written in both. Which form it was is told by its
        # group: what is found need not be what was looked for (a long s is an s without its case).
        pattern = "|".join(f"({re.escape(form)})" for form in forms)
        self._pattern = re.compile(pattern, re.IGNORECASE)

    def __bool__(self) -> bool:
        return bool(self._names)

    def text(self, text: str) -> str:
        """`text` without secrets."""
        if not self._names:
            return text
        return self._pattern.sub(self._named, text)

    def _named(self, match: re.Match[str]) -> str:
        assert match.lastindex is not None  # noqa: S101  # every alternative is a group
        return f"[secret {self._names[match.lastindex - 1]}]"

    def data(self, value: Any) -> Any:
        """Data without secrets, in keys too; what has no JSON form becomes its repr without them.

        An object without a secret stays itself.
        """
        if not self._names or value is None or isinstance(value, bool | int | float):
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
        plain = _json.loads(_json.dumps(value))
        clean = self.data(plain)
        return value if clean == plain else clean


def _forms(secret: str) -> set[str]:
    forms = {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }
    data = secret.encode()
    for before in range(3):
        # What is around it decides the first and the last character: those are left out.
        first = -(-before * 8 // 6)
        last = (before + len(data)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(b"\0" * before + data)[first:last].decode())
    return {form for form in forms if len(form) >= LEAST_CHARS}
