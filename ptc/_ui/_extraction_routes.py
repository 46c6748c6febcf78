"""The endpoints of extractions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._live import follow_state
from ._responses import Endpoint, json_response, stream

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from ._extractions import Extractions

__all__ = ["ExtractionRoutes"]


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
        return stream(follow_state("extractions", self._extractions.rows_of_list))

    async def head(self, request: Request) -> Response:
        """Send the state of an extraction."""
        found = await self._extractions.head(request.path_params["extraction"])
        return json_response(found, request)

    async def live(self, request: Request) -> Response:
        """Stream the state of an extraction."""
        name = request.path_params["extraction"]
        await self._extractions.head(name)
        return stream(follow_state("head", lambda: self._extractions.head(name)))

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
