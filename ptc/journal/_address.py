"""Addresses of servers that hold a journal, which may contain a password.

Rule 1: no error, list or log shows the password of an address.
    tests/core/journal/test_address.py
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

__all__ = ["EMBEDDED", "describe_address", "is_address", "redact_address"]

EMBEDDED: Final = "embedded:"
"""Start of the address of a server on this machine; a folder may follow."""
_ADDRESS: Final = re.compile(r"postgres(ql)?://|embedded:")
_PASSWORD: Final = re.compile(r"([?&;](?:ssl)?password=)[^&;]*", re.IGNORECASE)


def is_address(text: object) -> bool:
    """True if `text` is the address of a server rather than the path of a file."""
    return isinstance(text, str) and _ADDRESS.match(text) is not None


def redact_address(text: str) -> str:
    """Return an address with ``***`` for its password; another text is returned as it is."""
    if not is_address(text) or text.startswith(EMBEDDED):
        return text
    scheme, _, rest = text.partition("://")
    # Up to the last `@`: a password that should have been encoded can contain each delimiter.
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    start = f"{name}:***" if colon else user
    return _PASSWORD.sub(r"\1***", f"{scheme}://{start}{at}{place}")


def describe_address(url: str) -> str:
    """Return the server and the database of an address, for errors."""
    try:
        parts = urlsplit(redact_address(url))
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the PostgreSQL server"
    user = f"{parts.username}@" if parts.username else ""
    return f"postgresql://{user}{parts.hostname or 'localhost'}{port}{parts.path}"
