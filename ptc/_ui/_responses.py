"""HTTP answers of the page: JSON, files, streams, and the errors that a request caused."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.responses import JSONResponse, Response, StreamingResponse

from .._core import _json
from ..errors import JournalError, PtcError, UnknownRunError, UsageError
from ._static import File

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["Endpoint", "file_response", "guarded", "json_response", "stream"]

_GZIP_BYTES: Final = 4_096
Endpoint: TypeAlias = Callable[["Request"], Awaitable[Response]]


def guarded(endpoint: Endpoint) -> Endpoint:
    """Answer with the message of an error that a request caused."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except UnknownRunError as error:
            return JSONResponse({"error": str(error)}, status_code=404)
        except UsageError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        except JournalError as error:
            return JSONResponse({"error": str(error)}, status_code=409)
        except PtcError as error:
            return JSONResponse({"error": str(error)}, status_code=503)

    return answer


def json_response(data: Any, request: Request | None = None) -> Response:
    """Send JSON, compressed if the browser accepts that and it is worth it."""
    body = _json.dumps_unchecked(data)
    headers = {}
    accepted = request.headers.get("accept-encoding", "") if request is not None else ""
    if len(body) > _GZIP_BYTES and "gzip" in accepted:
        body = gzip.compress(body, 1)
        headers["content-encoding"] = "gzip"
    return Response(body, media_type="application/json", headers=headers)


def file_response(request: Request, file: File) -> Response:
    """Send a file of the page, unless the browser has it."""
    headers = {"etag": file.tag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(file.compressed, media_type=file.media_type, headers=headers)
    return Response(file.body, media_type=file.media_type, headers=headers)


def stream(events: AsyncIterator[bytes]) -> Response:
    """Send server-sent events."""
    return StreamingResponse(events, media_type="text/event-stream")
