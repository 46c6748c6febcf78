"""The runs and stored files that belong to one client of a server.

Rule 1: a run belongs to the client whose name is in its id, so this also holds after a restart.
    tests/bindings/test_http_isolation.py::test_client_cannot_reach_runs_of_another_client
Rule 2: a named client can read a stored file only after the host sent it the file's address. Text
    of a script grants nothing.
    tests/bindings/test_http_isolation.py::test_client_cannot_read_artifacts_of_another_client
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict

import ptc

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
