"""What a call comes to: data for a script, text for a model, files that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

from .. import _json
from .._records._content import Attachment, AttachmentRef, Content, TextContent, content_of
from .._redact import Redactor
from ..errors import ToolError

__all__ = ["Render", "ToolResult", "result_of", "without_secrets"]

Render: TypeAlias = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Outcome of a call: a value or an error, never both.

    A tool's function may return a plain value. It returns one of these to say more: what a model
    reads, files, an exit code::

        return ToolResult.success({"rows": 3}, text="3 rows", attachments=[chart])
        return ToolResult.failure("no such table", code="not_found")
    """

    tool: str = ""
    """Tool's name, filled in by the host."""
    value: Any = None
    """The data. None if it failed."""
    error: ToolError | None = None
    """Why it failed; None if it did not."""
    content: tuple[Content, ...] = ()
    """What a model is shown; empty: the value, rendered."""
    attachments: tuple[Attachment | AttachmentRef, ...] = ()
    """Files that go with it; as the caller gets it, all are kept and these are their references."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON-able data about the call, for applications; neither script nor model sees it."""
    exit_code: int | None = None
    """Of a command, if that is what ran."""
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
    ) -> Self:
        """A good end.

        Args:
            value: Data for a script.
            text: What a model reads. Default: `value`, rendered.
            content: Text and images for a model, before `text`; MCP's shape is understood.
            attachments: Files to keep, and references to files that are kept.
            metadata: JSON-able data for applications.
            exit_code: Of a command.

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
        """A bad end; the same as raising `ToolError`, with files and an exit code."""
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
        """`ok` as a word."""
        return "success" if self.error is None else "error"

    @property
    def text(self) -> str:
        """What a model reads: the tool's own words or rendering, a string as it is, or JSON.

        A value without a JSON form, which only a direct call can have, is told to have none.
        """
        lines = [
            f"Attachment {ref.name!r}: {ref.path}"
            for ref in self.attachments
            if isinstance(ref, AttachmentRef)
        ]
        return "\n".join([self._body(), *lines])

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
            # The call was made: a model that read an error would make it again.
            return f"(done; what {self.tool or 'it'} gave cannot be shown: {error})"

    def unwrap(self) -> Any:
        """The value. Raises the `ToolError` if the call failed."""
        if self.error is not None:
            raise self.error
        return self.value


def without_secrets(result: ToolResult, redactor: Redactor) -> ToolResult:
    """`result`, with no secret in what a script or a model gets; its error is treated elsewhere."""
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


def result_of(value: Any) -> ToolResult | None:
    """What a tool's function returned, if it is more than a value; None for a plain value.

    Understood beside `ToolResult` is the shape of MCP's results, a mapping or an object with
    ``content``, ``isError`` and ``structuredContent``.

    Raises:
        ToolError: ``bad_content`` if a part of the content is neither text nor an image.
    """
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, Mapping):
        if not _MCP_KEYS.issuperset(value) or not isinstance(value.get("content"), list):
            return None
        row: Mapping[str, Any] = value
        if not all(isinstance(part, Mapping) and "type" in part for part in row["content"]):
            return None
    elif isinstance(getattr(value, "content", None), list) and (
        hasattr(value, "isError") or hasattr(value, "is_error")
    ):
        row = {
            "content": value.content,
            "isError": getattr(value, "isError", getattr(value, "is_error", False)),
            "structuredContent": getattr(
                value, "structuredContent", getattr(value, "structured_content", None)
            ),
        }
    else:
        return None
    parts = content_of(row["content"])
    text = "\n".join(part.text for part in parts if isinstance(part, TextContent))
    if row.get("isError"):
        return ToolResult.failure(text or "the tool failed and did not say why")
    data = row.get("structuredContent")
    return ToolResult(value=text if data is None else data, content=parts)


_MCP_KEYS = frozenset({"content", "isError", "structuredContent", "_meta"})
