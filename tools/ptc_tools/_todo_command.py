"""``ptc todo``: the todo lists that agents wrote, for the person who runs them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click

from ptc._cli._options import HISTORY_KEYS, json_option, settings_options
from ptc._cli._runs import open_history
from ptc._cli._status import COMPLETED, EXIT_STATUS_HELP
from ptc._cli._terminal import standard_output
from ptc._cli._wait import wait_for

if TYPE_CHECKING:
    from ptc._config._settings import Settings

__all__ = ["command"]

_HELP = """Show the todo list NAME, or all of the folder, as the tool manage_todo_list wrote them.

\b
Examples:
  ptc todo
  ptc todo main --json | jq '.[].todo_list'
"""


@click.command("todo", short_help="Show todo lists of agents.", help=_HELP, epilog=EXIT_STATUS_HELP)
@click.argument("name", metavar="[NAME]", required=False)
@settings_options(*HISTORY_KEYS)
@json_option("Print the lists as JSON.")
def command(*, name: str | None, settings: Settings, as_json: bool) -> int:
    """Run the command; `_HELP` is its help text."""
    from ptc import UsageError
    from ptc._core._arguments import nearest

    from ._todo import DOCUMENTS, read_list, render_list

    history = open_history(settings)
    documents = history.documents
    known = [each.removeprefix(DOCUMENTS) for each in documents.names(DOCUMENTS)]
    if name is not None and name not in known:
        wait_for(history.close)
        listed = ", ".join(known) or "none"
        raise UsageError(f"there is no todo list {name!r}{nearest(name, known)}; lists: {listed}")
    found = [documents.read(DOCUMENTS + each) for each in ([name] if name is not None else known)]
    wait_for(history.close)
    lists = [(read_list("read", document), document.changed_ms) for document in found if document]
    output = standard_output()
    if as_json:
        output.json([{**asdict(each), "changed": _time(changed)} for each, changed in lists])
        return COMPLETED
    for each, changed in lists:
        head, *rows = render_list(each).splitlines()
        output.line(f"{head}, changed {_time(changed)}")
        for row in rows:
            output.line(row)
    if not lists:
        output.line("no todo list was written")
    return COMPLETED


def _time(changed_ms: int) -> str:
    return datetime.fromtimestamp(changed_ms / 1000).astimezone().isoformat(" ", "seconds")
