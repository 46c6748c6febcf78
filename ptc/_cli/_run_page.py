"""The page of ``ptc run --watch``: the run in a browser, while it executes and afterwards."""

from __future__ import annotations

import html
import os
import signal
import tempfile
import webbrowser
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import anyio

from .._core._signals import receive_signals
from ..errors import SetupError
from ..journal._address import redact_address
from ._signals import stop_signals

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._session._session import Session
    from ._terminal import Stream

__all__ = ["RunPage"]


class RunPage:
    """Serves the page of one run beside it. A context manager, for a session that is open."""

    def __init__(self, session: Session, settings: Settings, stream: Stream, identity: str) -> None:
        """Prepare the page; nothing is started.

        Args:
            session: The session of the run.
            settings: Settings of the command.
            stream: Receives the link.
            identity: Name that decisions are recorded with.

        Raises:
            SetupError: If the extra `ui` is not installed.
        """
        try:
            from .._ui import _serve
        except ImportError as error:
            msg = f"--watch needs {error.name}: pip install 'ptc-host[ui]'"
            raise SetupError(msg) from None
        self._serve = _serve.serve
        self._session = session
        self._stream = stream
        self._identity = identity
        journal = settings.journal()
        self._store = redact_address(str(journal)) if journal else str(settings.root.resolve())
        self._stop = anyio.Event()
        self._is_shown = False
        self._exits = AsyncExitStack()
        self.run_id = uuid4().hex
        """Id for the run, which the page opens before it is recorded."""

    async def __aenter__(self) -> Self:
        group = await self._exits.enter_async_context(anyio.create_task_group())
        self._folder = Path(self._exits.enter_context(tempfile.TemporaryDirectory(prefix="ptc-")))
        group.start_soon(self._run)
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        self._stop.set()
        await self._exits.__aexit__(*exc_info)

    async def _run(self) -> None:
        await self._serve(
            self._session.history,
            self._session.artifacts,
            session=self._session,
            identities=(self._identity,),
            port=0,
            hosts=(),
            store=self._store,
            on_link=self._on_link,
            path=f"/runs/{self.run_id}",
            stop=self._stop,
        )

    def _on_link(self, _identity: str, link: str) -> None:
        self._stream.line(f"watch: {link}")
        if not self._is_shown:
            self._is_shown = True
            self._open(link)

    def _open(self, link: str) -> None:
        """Open a browser, if there is one.

        The link signs in, and arguments of a process are no secret: the browser is given a file
        that only this user can read, and that leads there.
        """
        file = self._folder / "open.html"
        address = html.escape(link, quote=True)
        text = f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">'
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            opened.write(text)
        if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.name == "nt":
            with suppress(webbrowser.Error):
                webbrowser.open(file.as_uri())

    async def stay(self) -> None:
        """Serve until a signal arrives."""
        with receive_signals(*(stop_signals() or [signal.SIGTERM])) as received:
            self._stream.line("the page stays until Ctrl-C")
            async for _ in received:
                return
