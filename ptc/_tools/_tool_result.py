"""Result of a call: data for a script, text for a model, stored files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, replace
from typing import Any, Literal, Self, TypeAlias

from .._core import _json
from .._core._redact import Redactor
from .._dataclass import dataclass
from .._records._content import Attachment, AttachmentRef, Content, TextContent, content_of
from ..errors import ToolError
from ._untrusted import UntrustedMode, model_text

__all__ = ["Render", "ToolResult", "redact_result"]

Render: TypeAlias = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Outcome of a call: a value or an error, never both.

    A tool's function may return a plain value. It returns a `ToolResult` to add a text for the
    model, files, or an exit code::

        return ToolResult.success({"rows": 3}, text="3 rows", attachments=[chart])
        return ToolResult.failure("no such table", code="not_found")
    """

    tool: str = ""
    """Tool's name, filled in by the host."""
    value: Any = None
    """The returned data. None if the call failed."""
    error: ToolError | None = None
    """The failure; None if the call succeeded."""
    content: tuple[Content, ...] = ()
    """Content for a model; empty: the value, rendered."""
    attachments: tuple[Attachment | AttachmentRef, ...] = ()
    """Files of the result. When the caller receives it, all are stored and these are references."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able data about the call for applications. Neither script nor model sees it."""
    exit_code: int | None = None
    """Exit code of a command, if the tool ran one."""
    untrusted: UntrustedMode | None = None
    """Treatment of `text`, which others wrote; see `ToolOptions`. The value is never changed."""
    _render: Render | None = field(default=None, repr=False, compare=False)

    @classmethod
    def success(
        cls,
        value: Any = None,
        *,
        text: str | None = None,
        content: Iterable[Any] = (),
        attachments: Iterable[Attachment | AttachmentRef] = (),
        metadata: Mapping[str, Any] | None = None,
        exit_code: int | None = None,
        untrusted: UntrustedMode | None = None,
    ) -> Self:
        """Create a successful result.

        Args:
            value: Data for a script.
            text: Text for a model. Default: `value`, rendered.
            content: Text and images for a model, before `text`; parts may be in MCP's format.
            attachments: Files to store, and references to stored files.
            metadata: JSON-able data for applications.
            exit_code: Exit code of a command.
            untrusted: Treatment of the text for a model, in place of the tool's own.

        Raises:
            ToolError: ``bad_content`` if a part of `content` is neither text nor an image.
        """
        parts = content_of(content)
        if text is not None:
            parts = (*parts, TextContent(text))
        return cls(
            value=value,
            content=parts,
            attachments=tuple(attachments),
            metadata=dict(metadata or {}),
            exit_code=exit_code,
            untrusted=untrusted,
        )

    @classmethod
    def failure(
        cls,
        message: str,
        *,
        code: str = "failed",
        retryable: bool = False,
        details: dict[str, object] | None = None,
        attachments: Iterable[Attachment | AttachmentRef] = (),
        metadata: Mapping[str, Any] | None = None,
        exit_code: int | None = None,
    ) -> Self:
        """Create a failed result: like raising `ToolError`, with files and an exit code."""
        return cls(
            error=ToolError(message, code=code, retryable=retryable, details=details),
            attachments=tuple(attachments),
            metadata=dict(metadata or {}),
            exit_code=exit_code,
        )

    @property
    def ok(self) -> bool:
        """True if the tool succeeded."""
        return self.error is None

    @property
    def status(self) -> Literal["success", "error"]:
        """``"success"`` or ``"error"``."""
        return "success" if self.error is None else "error"

    @property
    def text(self) -> str:
        """Text for a model: the tool's content or rendering, a string as it is, or JSON.

        A value without a JSON form, which only a direct call can have, yields a note instead. The
        text of an untrusted result is marked or stripped.
        """
        lines = [
            f"Attachment {ref.name!r}: {ref.path}"
            for ref in self.attachments
            if isinstance(ref, AttachmentRef)
        ]
        text = "\n".join([self._body(), *lines])
        return model_text(text, self.untrusted, source=self.tool)

    def _body(self) -> str:
        if self.error is not None:
            retry = " (retryable)" if self.error.retryable else ""
            return f"Error [{self.error.code}]{retry}: {self.error.message}"
        shown = [part.text for part in self.content if isinstance(part, TextContent)]
        if shown:
            return "\n".join(shown)
        if self._render is not None:
            return self._render(self.value)
        if isinstance(self.value, str):
            return self.value
        try:
            return _json.dumps(self.value, what="result").decode()
        except _json.JsonError as error:
            # The call was made: a model that read an error would repeat it.
            return f"(done; the result of {self.tool or 'the tool'} cannot be shown: {error})"

    def unwrap(self) -> Any:
        """Return the value, or raise the `ToolError` if the call failed."""
        if self.error is not None:
            raise self.error
        return self.value

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON-able data, with the text that a model reads.

        A value without a JSON form, which only a direct call can have, is None.
        """
        attachments = []
        for item in self.attachments:
            # The bytes of a file that is not stored yet are data of the tool, not of the result.
            row = asdict(item)
            row.pop("data", None)
            attachments.append(row)
        return {
            "tool": self.tool,
            "status": self.status,
            "value": _json.data_of(self.value),
            "error": None if self.error is None else _error_data(self.error),
            "text": self.text,
            "content": [asdict(part) for part in self.content],
            "attachments": attachments,
            "metadata": _json.data_of(dict(self.metadata)),
            "exit_code": self.exit_code,
        }

    def to_json(self) -> bytes:
        """Return `to_dict` as JSON."""
        return _json.dumps(self.to_dict())


def _error_data(error: ToolError) -> dict[str, Any]:
    return {**error.to_dict(), "details": _json.data_of(error.details)}


def redact_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    """Redact the data for the script and the model; the caller redacts the error."""
    if not redactor:
        return result
    return replace(
        result,
        value=redactor.value(result.value),
        content=tuple(
            TextContent(redactor.text(part.text)) if isinstance(part, TextContent) else part
            for part in result.content
        ),
        metadata=redactor.data(result.metadata),
    )
