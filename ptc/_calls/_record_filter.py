"""Arguments of a call as its records may contain them: no secrets, no unrecorded values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from .._core import _json
from .._core._redact import Redactor
from .._dataclass import dataclass

__all__ = ["RecordFilter", "truncate_arguments"]

_PREVIEW_CHARS = 200
_RECORDED_BYTES = 65_536
"""JSON of arguments that is recorded untruncated."""


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Rules for the arguments and texts in the records of a call."""

    redactor: Redactor | None = None
    """Removes secrets."""
    names: frozenset[str] | None = None
    """Arguments to record. Others, including misspelt ones, are recorded by size and digest. None:
    all are recorded."""

    def redact_text(self, text: str) -> str:
        """Return a text without secrets."""
        return self.redactor.text(text) if self.redactor else text

    def redact(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return arguments without secrets and unrecorded values.

        Raises:
            JsonError: If an argument has no JSON form.
        """
        shown = arguments
        if self.names is not None:
            shown = {k: v if k in self.names else _summarize(v) for k, v in shown.items()}
        if self.redactor:
            shown = self.redactor.data(shown)
        return shown

    def encode(self, arguments: Mapping[str, Any]) -> bytes:
        """Encode redacted arguments as sorted JSON, for the record and the digest.

        Raises:
            JsonError: If an argument has no JSON form.
        """
        return _json.dumps(self.redact(arguments), what="arguments", sort_keys=True)

    def preview(self, arguments: Mapping[str, Any], encode: Callable[[], bytes]) -> tuple[str, str]:
        """Return redacted arguments as a short text, and their digest.

        Args:
            arguments: The arguments.
            encode: Returns `encode` of the arguments, maybe from a cache.
        """
        try:
            data = encode()
            if _is_in_order(arguments, data):
                text = data.decode()
            else:
                text = _json.dumps(self.redact(arguments), what="arguments").decode()
        except _json.JsonError as error:
            return f"(not JSON: {error})"[:_PREVIEW_CHARS], ""
        short = text if len(text) <= _PREVIEW_CHARS else text[: _PREVIEW_CHARS - 1] + "…"
        return short, hashlib.sha256(data).hexdigest()


def _is_in_order(arguments: Mapping[str, Any], data: bytes) -> bool:
    """Return True if sorted JSON has the keys in the order of the arguments."""
    names = list(arguments)
    return data.count(b"{") == 1 and (len(names) < 2 or names == sorted(names))


def truncate_arguments(data: bytes) -> bytes:
    """Replace encoded arguments that are too long by size, digest and preview."""
    if len(data) <= _RECORDED_BYTES:
        return data
    preview = data[:_PREVIEW_CHARS].decode(errors="ignore")
    digest = hashlib.sha256(data).hexdigest()
    summary = {"truncated": True, "bytes": len(data), "sha256": digest, "preview": preview}
    return _json.dumps(summary)


def _summarize(value: Any) -> Any:
    """Return size and digest of a value that is not recorded."""
    if value is None or isinstance(value, bool):
        return value
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else _json.dumps(value)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
