"""Conversion of a response to text, by its content type and character set.

HTML and PDF are untrusted input for large parsers. These run as confined commands, without network
and write access, with limits on time and memory.
"""

from __future__ import annotations

import codecs
import importlib.util
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ptc import ToolError
from ptc._workers._command import Command, CommandOutcome

from .._killable import in_killable_thread

__all__ = ["Document", "Format", "as_document"]

Format = Literal["markdown", "text", "html"]

_HERE = Path(__file__).resolve().parent
_TIMEOUT_MS = 20_000
_MAX_MEMORY_BYTES = 1_073_741_824
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|yaml|toml|javascript|ecmascript|x-ndjson|x-sh|sql|x-yaml)"
)
# Character sets of the WHATWG list that pages use. Not every codec of Python: some are not
# character sets, and some take quadratic time.
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|ascii|latin-?1|iso-?8859-?\d+|windows-12\d\d|cp12\d\d|"
    r"gbk|gb2312|gb18030|big5|euc-?jp|shift[-_]?jis|iso-2022-jp|euc-?kr|koi8-?[ru]|macintosh"
)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a page."""

    content_type: str
    """Content type from the server, without parameters."""
    title: str
    text: str


async def as_document(
    body: bytes, content_type: str, form: Format, *, required: bool = True
) -> Document:
    """Convert `body`.

    Args:
        body: Body of the response.
        content_type: Value of its header Content-Type.
        form: Result for HTML. Other text is unchanged; a PDF always becomes text.
        required: True: refuse if the converter cannot be confined.

    Raises:
        ToolError: ``unsupported_content`` if the body is neither text nor PDF, or cannot be read.
    """
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower() or _guess(body)
    if kind == "application/pdf":
        return await _convert(kind, _program("_pdf_text.py", "pypdf"), body, required=required)
    if kind not in _HTML and not _TEXT.fullmatch(kind):
        msg = f"the page is {kind[:80]!r}, {len(body):,} bytes; only text, HTML and PDF can be read"
        raise ToolError(msg, code="unsupported_content", details={"content_type": kind[:200]})
    text = _decode(body, parameters, look_inside=kind in _HTML)
    if kind not in _HTML or form == "html":
        return Document(kind, "", text)
    program = _program("_html_text.py", "html_to_markdown", form)
    return await _convert(kind, program, text.encode("utf-8", "replace"), required=required)


def _guess(body: bytes) -> str:
    start = body[:512].lstrip().lower()
    if start.startswith(b"%pdf-"):
        return "application/pdf"
    if start.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    return "application/octet-stream" if b"\0" in start else "text/plain"


def _decode(body: bytes, parameters: str, *, look_inside: bool) -> str:
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    found = re.search(r"charset\s*=\s*\"?([^\s\";]{1,40})", parameters, re.IGNORECASE)
    name = found[1].lower() if found else ""
    if not name and look_inside and (inside := _META.search(body, 0, 4_096)):
        name = inside[1].decode("ascii").lower()
    if not _CHARSETS.fullmatch(name):
        name = "utf-8"
    # Decode Latin-1 and ASCII as Windows-1252, as every browser does.
    name = "cp1252" if re.fullmatch(r"iso-?8859-?1|latin-?1|(us-)?ascii", name) else name
    try:
        return body.decode(name, "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Program:
    file: str
    arguments: tuple[str, ...]
    readable: Sequence[Path]


def _program(file: str, package: str, *arguments: str) -> _Program:
    """Return the converter in `file`, which may read the installed `package`."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        msg = (
            f"the page cannot be converted: the package {package} is not installed on the host. "
            'Install it there with `pip install "ptc-host[web]"`'
        )
        raise ToolError(msg, code="unsupported_content")
    # Python lists the parent folder of a package to import it.
    folder = Path(spec.origin).resolve().parent.parent
    return _Program(file, (*arguments, str(folder)), (folder,))


async def _convert(kind: str, program: _Program, body: bytes, *, required: bool) -> Document:
    here = _HERE
    command = Command(
        [sys.executable, "-I", "-S", str(here / program.file), *program.arguments],
        root=here,
        writable=False,
        readable=program.readable,
        stdin=body,
        required=required,
        max_memory_bytes=_MAX_MEMORY_BYTES,
    )
    ended = await in_killable_thread(lambda: command.run(_TIMEOUT_MS), command.kill)
    if ended.how != "exit" or ended.number != 0:
        raise _failure(ended, kind)
    if ended.stdout.tail:
        msg = f"the text of the page is larger than {len(ended.stdout.head):,} bytes"
        raise ToolError(msg, code="too_large")
    row = json.loads(ended.stdout.head)
    return Document(kind, str(row["title"]), str(row["text"]))


def _failure(ended: CommandOutcome, kind: str) -> ToolError:
    if ended.how == "refused":
        msg = f"documents cannot be converted in confinement on this machine: {ended.text}"
        return ToolError(msg, code="confinement_unavailable")
    lines = ended.stderr.head[-500:].decode("utf-8", "replace").strip().splitlines()
    reason = f"the conversion took longer than {_TIMEOUT_MS:,} ms" if ended.how == "timeout" else ""
    reason = reason or (lines[-1] if lines else f"{ended.how} {ended.number} {ended.text}".strip())
    return ToolError(f"the {kind} cannot be read: {reason}", code="unsupported_content")
