"""The application of the page: its files, and the data that they show."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .._core import _json
from .._runs._edit import validate_edit
from .._runs._run_id import validate_recorded_id
from ..errors import PtcError, UsageError
from ._access import Access, Visitor
from ._audit import Audit
from ._bench import Bench
from ._compare import compare_records
from ._extraction_routes import ExtractionRoutes
from ._extractions import Extractions
from ._gate import Gate, cookie_of
from ._live import follow_list, follow_one
from ._replays import Replays
from ._responses import Endpoint, file_response, guarded, json_response, stream
from ._search import list_page
from ._static import load_files
from ._views import call_details, call_row, event_row, record_head

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from .._records._result import PendingCall
    from .._runs._history import History
    from .._session._session import Session
    from ..artifacts._session_artifacts import SessionArtifacts

__all__ = ["create_app"]

_PAGES: Final = (
    *("/", "/approvals", "/compare", "/new", "/audit", "/runs/{run}"),
    *("/extractions", "/extractions/{extraction}"),
)
_MOST_FILE_BYTES: Final = 256 << 20
_COMMENT_CHARS: Final = 4_000


def create_app(
    history: History,
    artifacts: SessionArtifacts,
    access: Access,
    *,
    session: Session | None,
    cookie: str,
    hosts: tuple[str, ...] = (),
    store: str = "",
) -> ASGIApp:
    """Create the application.

    Args:
        history: The recorded runs.
        artifacts: Their stored values.
        access: The people who may use the page.
        session: Runs and continues scripts. None: the page is read-only.
        cookie: Name of the cookie of a session.
        hosts: Further names of the server.
        store: Name of the journal, for people.
    """
    routes = _Routes(history, artifacts, access, session, cookie, store)
    app = Starlette(routes=routes.table(), lifespan=routes.lifespan)
    return Gate(app, access, cookie=cookie, hosts=hosts, read_only=session is None)


class _Routes:
    """The endpoints and what they share."""

    def __init__(
        self,
        history: History,
        artifacts: SessionArtifacts,
        access: Access,
        session: Session | None,
        cookie: str,
        store: str,
    ) -> None:
        self._history = history
        self._artifacts = artifacts
        self._access = access
        self._tools = {} if session is None else session.select_tools(session.tool_names())
        self._read_only = session is None
        self._cookie = cookie
        self._store = store
        self._bench = Bench(session)
        self._replays = Replays(history)
        self._audit = Audit(history)
        self._files = load_files()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Keep the tasks of the page while the server runs."""
        async with self._bench.serving():
            yield

    def table(self) -> list[Route]:
        """Return the routes."""
        gets: dict[str, Endpoint] = {
            "/api/me": self.me,
            "/api/runs": self.runs,
            "/api/live": self.live,
            "/api/runs/{run}": self.run,
            "/api/runs/{run}/live": self.run_live,
            "/api/runs/{run}/calls/{call}": self.call,
            "/api/runs/{run}/files/{digest}": self.file,
            "/api/approvals": self.approvals,
            "/api/compare": self.compare,
            "/api/tools": self.tools,
            "/api/audit": self.audit,
            **ExtractionRoutes(Extractions(self._history)).table(),
        }
        posts: dict[str, Endpoint] = {
            "/api/login": self.login,
            "/api/logout": self.logout,
            "/api/replay": self.replay,
            "/api/decide": self.decide,
            "/api/validate": self.validate,
            "/api/resume": self.resume,
            "/api/check": self.check,
            "/api/start": self.start,
        }
        return [
            *(Route(path, self.page, methods=["GET"]) for path in _PAGES),
            Route("/static/{name}", self.static, methods=["GET"]),
            *(Route(path, guarded(end), methods=["GET"]) for path, end in gets.items()),
            *(Route(path, guarded(end), methods=["POST"]) for path, end in posts.items()),
        ]

    # --- files ----------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """Send the page, which is the same for all addresses."""
        return file_response(request, self._files["index.html"])

    async def static(self, request: Request) -> Response:
        """Send a file of the page."""
        file = self._files.get(request.path_params["name"])
        if file is None:
            return JSONResponse({"error": "there is no such file"}, status_code=404)
        return file_response(request, file)

    # --- sign-in --------------------------------------------------------------------------------

    async def login(self, request: Request) -> Response:
        """Exchange the token of a link for a cookie and a key."""
        token = _text(await _body(request), "token", 200)
        redeemed = self._access.redeem(token)
        if redeemed is None:
            msg = "the link is wrong or was used before; the terminal of `ptc ui` shows a new one"
            return JSONResponse({"error": msg}, status_code=401)
        cookie, visitor = redeemed
        response = JSONResponse({"key": visitor.key, "identity": visitor.identity})
        response.set_cookie(
            self._cookie,
            cookie,
            path="/",
            httponly=True,
            samesite="strict",
            secure=request.headers.get("origin", "").startswith("https:"),
        )
        return response

    async def logout(self, request: Request) -> Response:
        """Forget the browser."""
        self._access.leave(cookie_of(request.headers, self._cookie))
        response = JSONResponse({})
        response.delete_cookie(self._cookie, path="/", httponly=True, samesite="strict")
        return response

    async def me(self, request: Request) -> Response:
        """Send the identity, and what this page may do."""
        return json_response(
            {
                "identity": _visitor(request).identity,
                "read_only": self._read_only,
                "store": self._store,
                "tools": sorted(self._tools),
            }
        )

    # --- recorded runs --------------------------------------------------------------------------

    async def runs(self, request: Request) -> Response:
        """Send a page of the list of runs."""
        return json_response(await list_page(self._history, request.query_params), request)

    async def live(self, request: Request) -> Response:
        """Stream the newest runs."""
        return stream(follow_list(self._history))

    async def run(self, request: Request) -> Response:
        """Send a run with its calls and its output."""
        run_id = validate_recorded_id(request.path_params["run"])
        record = await self._history.recorded(run_id)
        events = await self._history.events(run_id)
        data = {
            "head": record_head(record),
            "calls": [call_row(row) for row in record.calls],
            "events": [event_row(run_id, row) for row in events],
        }
        return json_response(data, request)

    async def run_live(self, request: Request) -> Response:
        """Stream a run."""
        run_id = validate_recorded_id(request.path_params["run"])
        await self._history.run(run_id)
        return stream(follow_one(self._history, self._bench, run_id))

    async def call(self, request: Request) -> Response:
        """Send the arguments and the outcome of a call."""
        record = await self._history.recorded(request.path_params["run"])
        details = call_details(record, request.path_params["call"])
        if details is None:
            return JSONResponse({"error": "there is no such call"}, status_code=404)
        return json_response(details)

    async def file(self, request: Request) -> Response:
        """Send a stored value of a run, as a download."""
        record = await self._history.recorded(request.path_params["run"])
        digest = request.path_params["digest"]
        result = record_head(record)["result"] or {}
        named = {item["id"]: item["size_bytes"] for item in result.get("files", ())}
        if result.get("cut"):
            named[result["cut"]["sha256"]] = result["cut"]["bytes"]
        if digest not in named:
            return JSONResponse({"error": "the run has no such file"}, status_code=404)
        if named[digest] > _MOST_FILE_BYTES:
            msg = (
                f"the file has {named[digest]:,} bytes: use `ptc artifact sha256:{digest} -o FILE`"
            )
            return JSONResponse({"error": msg}, status_code=413)
        # Never with its own media type: a stored page or picture is hostile.
        return Response(
            await self._artifacts.load(f"sha256:{digest}"),
            media_type="application/octet-stream",
            headers={"content-disposition": f'attachment; filename="{digest}.bin"'},
        )

    async def approvals(self, request: Request) -> Response:
        """Send the calls that await a decision, of all runs."""
        calls = await self._history.pending()
        runs = {call.run_id for call in calls}
        records = {run: record_head(await self._history.recorded(run)) for run in runs}
        found = [self._approval(call, records[call.run_id]) for call in calls]
        return json_response({"calls": [item for item in found if item is not None]}, request)

    def _approval(self, call: PendingCall, head: Mapping[str, Any]) -> Mapping[str, Any] | None:
        items: list[Mapping[str, Any]] = head["pending"]
        same = [item for item in items if (item["call"], item["kind"]) == (call.call, call.kind)]
        return same[0] if same else None

    async def compare(self, request: Request) -> Response:
        """Send two runs with their calls aligned."""
        left = await self._history.recorded(request.query_params.get("a", ""))
        right = await self._history.recorded(request.query_params.get("b", ""))
        return json_response(await run_in_threadpool(compare_records, left, right), request)

    async def replay(self, request: Request) -> Response:
        """Send the script's variables at a call."""
        body = await _body(request)
        run_id = validate_recorded_id(_text(body, "run", 100))
        return json_response(await self._replays.at(run_id, _text(body, "call", 200)))

    async def audit(self, request: Request) -> Response:
        """Send the newest rows of the audit."""
        return json_response({"rows": await self._audit.rows()})

    # --- decisions ------------------------------------------------------------------------------

    async def validate(self, request: Request) -> Response:
        """Validate edited arguments; the answer has the problem, or null."""
        body = await _body(request)
        record = await self._history.recorded(_text(body, "run", 100))
        pending = await self._history.pending(record.run.run_id)
        call = next((item for item in pending if item.call == body.get("call")), None)
        if call is None:
            return json_response({"problem": "the call no longer awaits a decision"})
        try:
            validate_edit(call, body.get("arguments"), self._tools, record)
        except UsageError as error:
            return json_response({"problem": str(error)})
        return json_response({"problem": None})

    async def decide(self, request: Request) -> Response:
        """Record a decision about a call, and continue the run."""
        body = await _body(request)
        run_id = validate_recorded_id(_text(body, "run", 100))
        row = {
            "identity": _visitor(request).identity,
            "sign_in": _visitor(request).number,
            "from": request.client.host if request.client else "",
            "action": _text(body, "action", 20),
            "run": run_id,
            "call": _text(body, "call", 200),
            "edited": body.get("arguments") is not None,
        }
        # Written first: a decision that leaves no row in the audit is not made.
        await self._audit.write({**row, "outcome": "requested"})
        try:
            await self._decide(row, body)
        except PtcError as error:
            await self._audit.write({**row, "outcome": f"refused: {error}"[:500]})
            raise
        await self._audit.write({**row, "outcome": "recorded"})
        self._bench.continue_later(run_id, self._history)
        return json_response({"by": row["identity"]})

    async def _decide(self, row: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        by, comment = row["identity"], _text(body, "comment", _COMMENT_CHARS, required=False)
        action, run_id, call = row["action"], row["run"], row["call"]
        if action == "approve":
            arguments = body.get("arguments")
            if arguments is not None and not isinstance(arguments, dict):
                msg = "edited arguments must be an object"
                raise UsageError(msg)
            await self._history.approve(run_id, call, by=by, arguments=arguments, comment=comment)
        elif action == "reject":
            await self._history.reject(run_id, call, by=by, comment=comment)
        else:
            value = body.get("value")
            await self._history.settle(
                run_id,
                call,
                action,
                value=value,
                by=by,
                comment=comment,
            )

    async def resume(self, request: Request) -> Response:
        """Continue a run in this process."""
        run_id = validate_recorded_id(_text(await _body(request), "run", 100))
        await self._audited(request, {"action": "resume", "run": run_id})
        await self._history.run(run_id)
        await self._bench.session()
        self._bench.resume_soon(run_id)
        return json_response({})

    # --- scripts --------------------------------------------------------------------------------

    async def tools(self, request: Request) -> Response:
        """Send the tools that a script may call."""
        return json_response(await self._bench.tools(), request)

    async def check(self, request: Request) -> Response:
        """Check a script."""
        body = await _body(request)
        source = _text(body, "source", 1 << 20, required=False)
        findings = await self._bench.check(source, _allowed(body))
        return json_response({"findings": [asdict(finding) for finding in findings]})

    async def start(self, request: Request) -> Response:
        """Start a script; the answer has the id of its run."""
        body = await _body(request)
        options: dict[str, Any] = {
            "source": _text(body, "source", 1 << 20),
            "filename": _text(body, "filename", 200, required=False) or "script.py",
            "inputs": body.get("inputs") or {},
            "allowed_tools": _allowed(body),
        }
        await self._audited(request, {"action": "start", "file": options["filename"]})
        return json_response({"run": await self._bench.start(options)})

    async def _audited(self, request: Request, row: dict[str, Any]) -> None:
        visitor = _visitor(request)
        source = request.client.host if request.client else ""
        await self._audit.write(
            {"identity": visitor.identity, "sign_in": visitor.number, "from": source, **row}
        )


def _visitor(request: Request) -> Visitor:
    visitor: Visitor = request.state.visitor
    return visitor


async def _body(request: Request) -> dict[str, Any]:
    try:
        data = _json.loads(await request.body())
    except ValueError:
        data = None
    if not isinstance(data, dict):
        msg = "the body must be a JSON object"
        raise UsageError(msg)
    return data


def _text(body: Mapping[str, Any], name: str, most: int, *, required: bool = True) -> str:
    value = body.get(name, "")
    if not isinstance(value, str) or len(value) > most or (required and not value):
        msg = f"{name} must be a text of {1 if required else 0} to {most:,} characters"
        raise UsageError(msg)
    return value


def _allowed(body: Mapping[str, Any]) -> list[str] | None:
    """Return the allow-list of a request; None: the default of the session."""
    found = body.get("allow")
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        msg = "allow must be a list of names of tools"
        raise UsageError(msg)
    return found
