"""``ptc ui``: recorded runs, approvals and scripts in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ._identity import user_name
from ._options import RUN_KEYS, open_session, settings_options
from ._runs import open_history
from ._status import COMPLETED
from ._wait import wait_for

if TYPE_CHECKING:
    from .._config._settings import Settings

__all__ = ["command", "serve_page"]

_HELP = """Serve a page with the recorded runs and the calls that await a decision.

ptc prints a link that signs in once, and a new link each time that one was used. The page shows
runs of all processes that use the journal, live. With --tools and the other options of `ptc run`,
it runs scripts and continues runs after a decision; with --read-only it changes nothing.

The server listens on 127.0.0.1 only. To reach it from another machine, forward the port:
ssh -L 8321:127.0.0.1:8321 HOST.

\b
Examples:
  ptc ui
  ptc ui --tools shop.py --as ann
  ptc ui --journal postgresql://ptc@db/runs --read-only --port 8321
"""


@click.command("ui", short_help="Show runs and approvals in a browser.", help=_HELP)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    metavar="PORT",
    help="Port on 127.0.0.1. [default: a free one]",
)
@click.option(
    "--as",
    "identities",
    multiple=True,
    metavar="NAME",
    help="Name that decisions are recorded with; may be repeated, and each has a link of its own. "
    "[default: your user name]",
)
@click.option("--read-only", is_flag=True, help="Refuse decisions and scripts.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Further name of this server, for a proxy; may be repeated.",
)
@settings_options(*RUN_KEYS)
def command(
    *,
    port: int,
    identities: tuple[str, ...],
    read_only: bool,
    hosts: tuple[str, ...],
    settings: Settings,
) -> int:
    """Run the command; `_HELP` is its help text."""
    from ._terminal import standard_error

    errors = standard_error()

    def on_link(identity: str, link: str) -> None:
        errors.line(f"{identity}: {link}")

    wait_for(
        serve_page,
        settings,
        identities=identities or (user_name(),),
        read_only=read_only,
        port=port,
        hosts=hosts,
        on_link=on_link,
    )
    return COMPLETED


async def serve_page(
    settings: Settings,
    *,
    identities: tuple[str, ...],
    read_only: bool,
    port: int,
    hosts: tuple[str, ...],
    on_link: object,
    path: str = "/",
) -> None:
    """Serve the page of a journal until a signal arrives.

    Raises:
        SetupError: If the extra `ui` is not installed, or the port is in use.
    """
    from .._session._artifacts import artifacts_of
    from ..errors import SetupError
    from ..journal._address import redact_address

    try:
        from .._ui._serve import serve
    except ImportError as error:
        msg = f"the page needs {error.name}: pip install 'ptc-host[ui]'"
        raise SetupError(msg) from None
    session = None if read_only else open_session(settings)
    history = open_history(settings) if session is None else session.history
    if session is None:
        artifacts = artifacts_of(
            settings.root.resolve(), settings.artifacts(), settings.journal(), history.open
        )
    else:
        artifacts = session.artifacts
    journal = settings.journal()
    try:
        await serve(
            history,
            artifacts,
            session=session,
            identities=identities,
            port=port,
            hosts=hosts,
            store=redact_address(str(journal)) if journal else str(settings.root.resolve()),
            on_link=on_link,  # type: ignore[arg-type]  # the caller's function
            path=path,
        )
    finally:
        if session is None:
            await artifacts.close()
            await history.close()
        else:
            await session.aclose()
