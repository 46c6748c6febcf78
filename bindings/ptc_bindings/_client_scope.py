"""The runs and stored files that belong to one client of a server.

Rule 1: a run belongs to the client whose name is in its id, so this also holds after a restart.
    tests/bindings/test_http_isolation.py::test_client_cannot_reach_runs_of_another_client
Rule 2: a named client can read a stored file only after the host sent it the file's address. Text
    of a script grants nothing.
    tests/bindings/test_http_isolation.py::test_client_cannot_read_artifacts_of_another_client
    tests/bindings/test_http_isolation.py::test_client_cannot_recall_values_of_another_client
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict

import ptc
from ptc._records._preview import RECALL
from ptc._records._stored_file import digest_of_handle

__all__ = ["CLIENT_NAME", "ClientScope"]

CLIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
"""Names of clients. The id of a run has at most 64 characters."""

_RANDOM_BYTES = 8
_MAX_FILES = 10_000
"""Files that one client may read at a time. Asking for the status of a run adds its files again."""


class ClientScope:
    """Decides which runs and stored files a client reaches."""

    def __init__(self, name: str = "") -> None:
        """Create the scope of a client.

        Args:
            name: Name of the client. Empty: the only client of its journal and artifacts, which may
                read each file that it can name.

        Raises:
            UsageError: If the name is invalid.
        """
        if name and not CLIENT_NAME.fullmatch(name):
            msg = (
                f"client {name!r:.80} is not a valid name: use 1 to 32 letters, digits, _ and -, "
                "starting with a letter or digit"
            )
            raise ptc.UsageError(msg)
        self.name = name
        self._prefix = f"mcp-{name}-" if name else "mcp-"
        # The random part has a fixed length, so no name makes an id of another client match.
        self._run_id = re.compile(re.escape(self._prefix) + f"[0-9a-f]{{{2 * _RANDOM_BYTES}}}")
        self._files: OrderedDict[str, None] = OrderedDict()

    def new_run_id(self) -> str:
        """Return the id of a new run. It cannot be guessed."""
        return f"{self._prefix}{secrets.token_hex(_RANDOM_BYTES)}"

    def owns_run(self, run_id: str) -> bool:
        """True if the id is that of a run of this client."""
        return self._run_id.fullmatch(run_id) is not None

    def grant(self, result: ptc.RunResult) -> None:
        """Let the client read the files of a run of its own."""
        if result.cut is not None and result.cut.artifact:
            self.grant_file(result.cut.sha256)
        for ref in result.attachments:
            self.grant_file(ref.id)

    def grant_file(self, digest: str) -> None:
        """Let the client read a stored file."""
        self._files[digest] = None
        self._files.move_to_end(digest)
        if len(self._files) > _MAX_FILES:
            self._files.popitem(last=False)

    def may_read(self, digest: str) -> bool:
        """True if the client may read the stored file."""
        return not self.name or digest in self._files

    def narrow(self, session: ptc.Session, allowed: list[str | ptc.Allow]) -> list[str | ptc.Allow]:
        """Return an allow-list with which `get_tool_response` reads the client's files only."""
        if not self.name or RECALL not in session.select_tools(allowed):
            return allowed

        narrowed: list[str | ptc.Allow] = []
        rules: list[ptc.Allow] = []
        for entry in allowed:
            if isinstance(entry, ptc.Allow):
                (rules if entry.tool == RECALL else narrowed).append(entry)
                continue
            names = session.select_tools([entry])
            narrowed += [name for name in names if name != RECALL]
            if RECALL in names:
                rules = [ptc.Allow(RECALL, handle=self._owns_handle)]
        return [*narrowed, *map(self._own_rule, rules)]

    def _own_rule(self, rule: ptc.Allow) -> ptc.Allow:
        """Return a rule for `get_tool_response` that also requires a file of the client."""
        matcher = rule.arguments.get("handle", self._owns_handle)
        among = ptc.Allow(RECALL, handle=matcher)

        def handle_of_this_client(handle: object) -> bool:
            return self._owns_handle(handle) and among.fits({"handle": handle})

        return ptc.Allow(RECALL, **{**rule.arguments, "handle": handle_of_this_client})

    def _owns_handle(self, handle: object) -> bool:
        digest = digest_of_handle(handle) if isinstance(handle, str) else None
        return digest is not None and any(item.startswith(digest) for item in self._files)
