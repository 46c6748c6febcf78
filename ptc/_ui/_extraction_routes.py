"""The endpoints of extractions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import anyio

from ..errors import PtcError
from ._live import encode_event
from ._responses import Endpoint, json_response, stream

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ._extractions import Extractions

__all__ = ["ExtractionRoutes"]

_SECONDS: Final = 1.0
_SHARE: Final = 4
"""A state is read again after so many times the time that reading it took."""
_BEAT_SECONDS: Final = 15.0


class ExtractionRoutes:
    """Answers requests about extractions."""

    def __init__(self, extractions: Extractions) -> None:
        """Answer from these extractions."""
        self._extractions = extractions

    def table(self) -> dict[str, Endpoint]:
        """Return the endpoints by their paths."""
        one = "/api/extractions/{extraction}"
        return {
            "/api/extractions": self.list,
            "/api/extractions-live": self.list_live,
            one: self.head,
            f"{one}/live": self.live,
            f"{one}/rows": self.rows,
            f"{one}/rows/{{number}}": self.row,
            f"{one}/compare/{{other}}": self.compare,
        }

    async def list(self, request: Request) -> Response:
        """Send all extractions."""
        return json_response({"extractions": await self._extractions.rows_of_list()}, request)

    async def list_live(self, request: Request) -> Response:
        """Stream all extractions."""
        return stream(_follow("extractions", self._extractions.rows_of_list))

    async def head(self, request: Request) -> Response:
        """Send the state of an extraction."""
        found = await self._extractions.head(request.path_params["extraction"])
        return json_response(found, request)

    async def live(self, request: Request) -> Response:
        """Stream the state of an extraction."""
        name = request.path_params["extraction"]
        await self._extractions.head(name)
        return stream(_follow("head", lambda: self._extractions.head(name)))

    async def rows(self, request: Request) -> Response:
        """Send a page of rows."""
        name = request.path_params["extraction"]
        return json_response(await self._extractions.page(name, request.query_params), request)

    async def row(self, request: Request) -> Response:
        """Send one row in full."""
        path = request.path_params
        return json_response(await self._extractions.row(path["extraction"], path["number"]))

    async def compare(self, request: Request) -> Response:
        """Send the fields in which two extractions differ."""
        path = request.path_params
        found = await self._extractions.compare(path["extraction"], path["other"])
        return json_response(found, request)


async def _follow(kind: str, read: Callable[[], Awaitable[Any]]) -> AsyncIterator[bytes]:
    """Yield a state when it changes."""
    last, beat = b"", anyio.current_time()
    while True:
        started = anyio.current_time()
        try:
            data = encode_event(kind, await read())
        except PtcError as error:
            data = encode_event("failed", {"error": str(error)})
        if data != last:
            yield data
            last, beat = data, anyio.current_time()
        elif anyio.current_time() - beat > _BEAT_SECONDS:
            yield b": beat\n\n"
            beat = anyio.current_time()
        await anyio.sleep(_SECONDS + (anyio.current_time() - started) * _SHARE)
