"""Text in the form of a credential, recognized without knowing its value."""

from __future__ import annotations

import re
from typing import Any, Final

from ._lazy import compile_later
from ._secret_forms import LONG_CHARS

__all__ = ["SECRET_NAME", "mask", "mask_data", "may_have_credential"]

SECRET_NAME: Final = compile_later(
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
_CREDENTIAL: Final = compile_later(
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


def may_have_credential(text: str) -> bool:
    """Return False if `text` contains nothing in the form of a credential; fast."""
    folded = text.casefold()
    return any(hint in folded for hint in _HINTS)


def mask(text: str) -> str:
    """Replace anything in the form of a credential by ``[credential]``."""
    if not may_have_credential(text):
        return text
    return _CREDENTIAL.sub(lambda match: f"{match[match.lastgroup or 0]}[credential]", text)


def mask_data(value: Any) -> Any:
    """Mask JSON data and its keys."""
    if isinstance(value, str):
        return mask(value[:LONG_CHARS])
    if isinstance(value, dict):
        return {mask(key): mask_data(item) for key, item in value.items()}
    return [mask_data(item) for item in value] if isinstance(value, list) else value
