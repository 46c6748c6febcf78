"""The broker of a command makes its changes exactly as the kernel would have made them.

Each program here runs twice, once with the right to change files itself and once brokered, or it
tries to bypass the broker.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ptc._protected import Protection
from ptc._workers._command import Command, CommandOutcome
from ptc.worker.command import _git_index

from .test_command_escapes import _run

_PLAYER = Path(__file__).with_name("file_calls.py")


def run(root: Path, *argv: str, protected: bool = True, timeout_ms: int = 60_000) -> CommandOutcome:
    protection = Protection() if protected else None
    return Command(argv, root=root.resolve(), protection=protection).run(timeout_ms)


def python(root: Path, code: str, *arguments: str, **options: Any) -> CommandOutcome:
    return run(root, sys.executable, "-c", textwrap.dedent(code), *arguments, **options)


def stdout_of(ended: CommandOutcome) -> str:
    assert (ended.how, ended.number) == ("exit", 0), ended
    return ended.stdout.head.decode()


# --- equivalence with the kernel ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_brokered_file_changes_match_direct_ones(seed: int, tmp_path: Path) -> None:
    both = []
    for name, protected in (("direct", False), ("brokered", True)):
        root = tmp_path / name
        root.mkdir()
        ended = run(
            root, sys.executable, "-c", _PLAYER.read_text(), str(seed), "200", protected=protected
        )
        text = ended.stdout.head.decode().replace(str(root), "ROOT")
        both.append((ended.how, ended.number, text))
    direct, brokered = both
    assert direct == brokered, f"seed {seed}"
    assert direct[0] == "exit"
    assert len(direct[2].splitlines()) > 100


def test_unnamed_temporary_file_can_be_linked(tmp_path: Path) -> None:
    code = """
    import os
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
    os.write(fd, b"content")
    os.link(f"/proc/self/fd/{fd}", "named", follow_symlinks=True)
    """
    stdout_of(python(tmp_path, code))
    assert (tmp_path / "named").read_bytes() == b"content"


def test_stream_that_is_a_file_can_be_reopened(tmp_path: Path) -> None:
    stdout_of(
        run(tmp_path, "sh", "-c", "(echo a; echo b > /dev/stdout; echo c >> /dev/fd/1) > out")
    )
    # A reopened file starts at offset 0, as it does without a broker.
    direct = tmp_path / "direct"
    direct.mkdir()
    script = "(echo a; echo b > /dev/stdout; echo c >> /dev/fd/1) > out"
    stdout_of(run(direct, "sh", "-c", script, protected=False))
    assert (tmp_path / "out").read_bytes() == (direct / "out").read_bytes()


def test_newly_written_program_can_be_executed(tmp_path: Path) -> None:
    script = (
        "for i in 1 2 3 4 5 6 7 8; do cp /bin/true ./t$i; chmod +x t$i; ./t$i || exit 1; done; "
        "printf '#!/bin/sh\\necho run' > s; chmod +x s; ./s"
    )
    assert stdout_of(run(tmp_path, "sh", "-c", script)) == "run\n"


def test_threads_and_processes_can_change_files_concurrently(tmp_path: Path) -> None:
    code = """
    import os, threading
    def work(n):
        for i in range(50):
            with open(f"{n}-{i}", "w") as file:
                file.write("x")
            os.rename(f"{n}-{i}", f"{n}-{i}.txt")
    children = [os.fork() for _ in range(2)]
    name = f"{children.count(0)}{os.getpid()}"
    threads = [threading.Thread(target=work, args=(f"{name}-{n}",)) for n in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    try:
        # The second fork has a child of the first one, which nobody else waits for.
        while True: os.wait()
    except ChildProcessError:
        pass
    """
    stdout_of(python(tmp_path, code))
    assert len(list(tmp_path.glob("*.txt"))) == 4 * 4 * 50


def test_signals_do_not_repeat_a_change(tmp_path: Path) -> None:
    code = """
    import os, signal
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    for i in range(300):
        os.mkdir(f"d{i}")
        os.close(os.open(f"f{i}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    signal.setitimer(signal.ITIMER_REAL, 0)
    """
    ended = python(tmp_path, code)
    release = os.uname().release.split(".")
    if (int(release[0]), int(release[1].split("-")[0])) >= (5, 19):
        stdout_of(ended)
        assert len(list(tmp_path.iterdir())) == 600


def test_spawned_program_can_have_files_as_streams(tmp_path: Path) -> None:
    code = """
    import os
    actions = [(os.POSIX_SPAWN_OPEN, 1, "out", os.O_WRONLY | os.O_CREAT, 0o600)]
    pid = os.posix_spawn("/bin/echo", ["echo", "hello"], {}, file_actions=actions)
    raise SystemExit(os.waitpid(pid, 0)[1])
    """
    stdout_of(python(tmp_path, code))
    assert (tmp_path / "out").read_text() == "hello\n"


def test_descriptor_limit_of_the_command_is_enforced(tmp_path: Path) -> None:
    code = """
    import errno, resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))
    files = []
    try:
        while True:
            files.append(open(f"f{len(files)}", "w"))
    except OSError as error:
        print(errno.errorcode[error.errno], len(files) < 10)
    """
    assert stdout_of(python(tmp_path, code)) == "EMFILE True\n"


def test_a_database_and_its_locks_work(tmp_path: Path) -> None:
    code = """
    import sqlite3, fcntl, os
    db = sqlite3.connect("x.db")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE t(x)")
    db.executemany("INSERT INTO t VALUES(?)", [(i,) for i in range(100)])
    db.commit()
    file = open("lock", "w")
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(open("lock2", "w"), fcntl.LOCK_EX)
    try:
        fcntl.flock(open("lock", "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked", db.execute("SELECT sum(x) FROM t").fetchone())
    """
    assert stdout_of(python(tmp_path, code)) == "locked (4950,)\n"


# --- attempts to bypass it ------------------------------------------------------------------------


def test_changing_a_path_during_its_check_bypasses_nothing(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    config = tmp_path / ".git" / "config"
    config.write_text("kept")
    (tmp_path / "ordinary....").write_text("")
    code = """
    import ctypes, os, threading, time
    libc = ctypes.CDLL(None)
    path = ctypes.create_string_buffer(64)
    ends = [b"ordinary....", b".git/config\\0"]
    memmove, target = ctypes.memmove, ctypes.addressof(path)
    memmove(target, ends[0], 12)
    done = False
    def swap():
        while not done:
            memmove(target, ends[1], 12)
            memmove(target, ends[0], 12)
    thread = threading.Thread(target=swap)
    thread.start()
    opened = refused = 0
    end = time.monotonic() + 60
    while min(opened, refused) < 50 and time.monotonic() < end:
        fd = libc.open(path, os.O_WRONLY | os.O_TRUNC)
        if fd >= 0:
            os.write(fd, b"x")
            os.close(fd)
            opened += 1
        else:
            refused += 1
        libc.chmod(path, 0o777)
        libc.truncate(path, 0)
    done = True
    thread.join()
    print(opened >= 50, refused >= 50)
    """
    before = config.stat()
    assert stdout_of(python(tmp_path, code)) == "True True\n"
    assert config.read_text() == "kept"
    assert config.stat().st_mode == before.st_mode


def test_swapped_link_or_folder_bypasses_nothing(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    config = tmp_path / ".git" / "config"
    config.write_text("kept")
    code = """
    import os, time
    os.mkdir("real")
    open("real/config", "w").close()
    os.symlink("real", "good"); os.symlink(".git", "bad")
    end = time.monotonic() + 60
    swapping = os.fork()
    if not swapping:
        while time.monotonic() < end:
            for name in ("good", "bad"):
                os.symlink(os.readlink(name), "new")
                os.rename("new", "at")
        os._exit(0)
    opened = refused = 0
    while min(opened, refused) < 100 and time.monotonic() < end:
        for call in (lambda: os.close(os.open("at/config", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)),
                     lambda: os.mkdir("at/hooks"), lambda: os.rename("at/config", "at/x"),
                     lambda: os.link("at/config", "alias")):
            try:
                call()
                opened += 1
            except PermissionError:
                refused += 1
            except OSError:
                pass
    os.kill(swapping, 9)
    os.wait()
    print(opened >= 100, refused >= 100)
    """
    assert stdout_of(python(tmp_path, code)) == "True True\n"
    assert config.read_text() == "kept"
    assert [path.name for path in (tmp_path / ".git").iterdir()] == ["config"]
    assert config.stat().st_nlink == 1


def test_concurrent_commands_cannot_assemble_a_git_folder(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    scripts = ["echo 'ref: x' > b/HEAD", "mkdir b/objects", "mkdir b/refs", "echo x > b/commondir"]
    loop = "for i in 1 2 3 4 5 6 7 8 9 10; do {}; done"
    commands = [
        Command(["sh", "-c", loop.format(text)], root=tmp_path.resolve(), protection=Protection())
        for text in scripts
    ]
    threads = [threading.Thread(target=c.run, args=(20_000,)) for c in commands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not (tmp_path / "b" / "HEAD").exists()


_UNBROKERED = """
import os, sys
sys.path.insert(0, {source!r})
from ptc.worker.command import _jail, _mounts
import _socket
near, far = _socket.socket(fileno=int(sys.argv[1])), _socket.socket(fileno=int(sys.argv[2]))
entered = frozenset()
if sys.argv[3] == "namespaces":
    entered = _jail.enter_namespaces(network=True)
root, tmp = os.fsencode(sys.argv[4]), os.fsencode(sys.argv[5])
if "pid" in entered:
    child = os.fork()
    if child:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
settled = _mounts.set_up_mounts(entered, root, tmp, writable=True)
os.chdir(root)
_jail.confine(
    entered, settled, root=root, tmp=tmp, readable=[], programs=[], writable=True, network=True,
    required=True, handover=far,
)
os.execv("/bin/sh", ["sh", "-c", sys.argv[6]])
"""

_CHANGES = """
echo x > new; echo x > file; echo x >> file; true > file; mkdir d; ln file hard; ln -s file soft
mv file other; mv folder other; rm -f file; rm -rf folder; rmdir folder; mkfifo p
truncate -s 0 file; cp file copy; touch made
echo x > folder/inner; mv folder/inner inner; rm folder/inner
dd if=/dev/zero of=file bs=1 count=1; mv file $TMPDIR/x; ln file $TMPDIR/y; true
"""


@pytest.mark.parametrize("answer", ["nobody", "continue"])
@pytest.mark.parametrize("jail", ["namespaces", "container"])
def test_without_the_broker_a_command_changes_nothing_in_the_root(
    answer: str, jail: str, tmp_path: Path
) -> None:
    """Cases without an answer, and with one that lets the kernel execute every call."""
    root, tmp = (tmp_path / name for name in ("root", "tmp"))
    for folder in (root, root / "folder", tmp):
        folder.mkdir()
    for name in ("file", "folder/inner"):
        (root / name).write_text("kept")
    code = _UNBROKERED.format(source=str(Path(_git_index.__file__).parents[3]))
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        fds = (near.fileno(), far.fileno())
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, fds), jail, str(root), str(tmp), _CHANGES],
            pass_fds=fds,
            env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp)},
            stderr=subprocess.PIPE,
        )
        near.settimeout(20)
        try:
            _, listeners, _, _ = socket.recv_fds(near, 1_000, 1)
            assert listeners
            if answer == "continue":
                _continue_all(listeners[0], process)
            os.close(listeners[0])
            _, words = process.communicate(timeout=20)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, words
    refusal = b"Function not implemented" if answer == "nobody" else b"Permission denied"
    assert words.count(refusal) > 10, words.decode()
    found = {str(p.relative_to(root)): p.is_file() and p.read_text() for p in root.rglob("*")}
    assert found == {"file": "kept", "folder": False, "folder/inner": "kept"}
    assert (root / "file").stat().st_nlink == 1


def _continue_all(listener: int, process: subprocess.Popen[bytes]) -> None:
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        for _, what in poll.poll(50):
            if not what & select.POLLIN:
                return
            question = bytearray(80)
            fcntl.ioctl(listener, 0xC0502100, question)
            (identity,) = struct.unpack_from("=Q", question)
            fcntl.ioctl(listener, 0xC0182101, bytearray(struct.pack("=QqiI", identity, 0, 0, 1)))


def test_fifo_or_lease_does_not_block_the_launcher(tmp_path: Path) -> None:
    code = """
    import errno, fcntl, os, signal, threading, time
    os.mkfifo("fifo")
    open("leased", "w").close()
    fcntl.fcntl(os.open("leased", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    threading.Thread(target=lambda: open("fifo", "w").write("through"), daemon=True).start()
    if not os.fork():
        try:
            os.open("leased", os.O_WRONLY)
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    print(errno.errorcode.get(os.waitstatus_to_exitcode(os.wait()[1])))
    for i in range(20):
        open(f"f{i}", "w").close()
    print(open("fifo").read())
    """
    began = time.monotonic()
    assert stdout_of(python(tmp_path, code)) == "EAGAIN\nthrough\n"
    # The kernel gives the holder of a lease 45 seconds.
    assert time.monotonic() - began < 30


def test_command_blocked_on_a_fifo_is_killed_at_its_timeout(tmp_path: Path) -> None:
    ended = run(tmp_path, "sh", "-c", "mkfifo p; echo x > p", timeout_ms=1_500)
    assert ended.how == "timeout"


def test_command_changing_files_endlessly_is_killed_at_its_timeout(
    tmp_path: Path,
) -> None:
    ended = run(tmp_path, "sh", "-c", "while :; do echo x > f; done", timeout_ms=1_000)
    assert ended.how == "timeout"
    assert ended.duration_ms < 20_000


def test_only_the_first_refusals_are_reported(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    script = "i=0; while [ $i -lt 100 ]; do mkdir .git/x$i; i=$((i+1)); done; true"
    ended = run(tmp_path, "sh", "-c", script)
    assert len(ended.protected) == 20
    assert ended.protected[0].path == ".git/x0"


def test_refused_paths_cannot_forge_lines_of_the_report(tmp_path: Path) -> None:
    code = """
    import os
    for name in (b".git\\nexit 0", b".git \\xff", b".git/../.envrc"):
        try: os.mkdir(name)
        except OSError: pass
    os.mkdir("d")
    try: os.mkdir(b"d/.vscode\\nprotected x y z".split(b"\\n")[0])
    except OSError: pass
    raise SystemExit(3)
    """
    ended = python(tmp_path, code)
    assert (ended.how, ended.number) == ("exit", 3)
    assert [item.path for item in ended.protected] == ["d/.vscode"]


def test_unprotected_paths_may_change_but_no_others(tmp_path: Path) -> None:
    command = {"argv": ["sh", "-c", "mkdir .vscode .idea; git init -q r; git init -q .ptc; ls -A"]}
    (row,) = _run(
        "plain", tmp_path, [{**command, "protected": True, "unprotected": [".vscode", "git"]}], {}
    )
    assert row["stdout"].split() == [".vscode", "r"]
    assert (tmp_path / "r" / ".git" / "config").exists()
    assert [rule for _, rule, _ in row["protected"]] == ["editor", "state"]


def test_the_launcher_has_no_more_rights_than_the_command(tmp_path: Path) -> None:
    """The broker writes no file that the command itself could not write."""
    if os.geteuid() != 0:
        pytest.skip("root alone could have more")
    secret = tmp_path / "of-another"
    secret.write_text("kept")
    os.chown(secret, 65534, 65534)
    secret.chmod(0o600)
    folder = tmp_path / "folder"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    ended = run(
        tmp_path, "sh", "-c", "echo x > of-another; echo x > folder/new; chmod 777 of-another"
    )
    assert ended.number != 0
    assert secret.read_text() == "kept"
    assert list(folder.iterdir()) == []


# --- the index of git -----------------------------------------------------------------------------


def _git(folder: Path, *arguments: str) -> bytes:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": "/"}
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, env=environment, check=True, capture_output=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    _git(folder, "init", "-q")
    for number in range(30):
        path = folder / f"d{number % 3}" / f"some file {number}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(number))
    (folder / "link").symlink_to("d0")
    _git(folder, "add", ".")
    _git(folder, "commit", "-qm", "x")
    return folder


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_checked_git_index_is_equivalent_to_the_original(version: str, repository: Path) -> None:
    _git(repository, "update-index", "--index-version", version)
    if version == "3":
        (repository / "new").write_text("x")
        _git(repository, "add", "--intent-to-add", "new")
    _git(repository, "update-index", "--untracked-cache")
    _git(repository, "status")
    index = repository / ".git" / "index"
    before = _git(repository, "ls-files", "--stage", "--debug"), _git(repository, "status", "-s")
    index.write_bytes(_git_index.sanitize_index(index.read_bytes()))
    assert before == (
        _git(repository, "ls-files", "--stage", "--debug"),
        _git(repository, "status", "-s"),
    )
    _git(repository, "fsck", "--strict")


def _rewrite_name(index: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    assert old in index
    return _sign(index[:-20].replace(old, new))


@pytest.mark.parametrize(
    "name",
    ["../some fil", ".git/confi/x", "d0/./file 0/", "//some file0", ".GIT/file 0/", "d0/.git/x 00",
     "git~1/file 0", ".git./file 0", "d0/../file 0"],
)  # fmt: skip
def test_git_index_with_an_invalid_name_is_refused(name: str, repository: Path) -> None:
    index = (repository / ".git" / "index").read_bytes()
    old = b"d0/some file 0"
    bad = _rewrite_name(index, old, name.encode().ljust(len(old), b"x"))
    with pytest.raises(ValueError, match="into an index"):
        _git_index.sanitize_index(bad)


def test_git_index_with_a_file_beneath_a_link_is_refused(repository: Path) -> None:
    index = (repository / ".git" / "index").read_bytes()
    # The first entry, `d0/some file 0`, becomes a link with the folder name of the next entries.
    at = index.index(b"d0/some file 0\0")
    body = bytearray(index[:-20])
    body[at : at + 14] = b"d0/some file 1"[:2].ljust(14, b"\0")
    body[at - 38 : at - 34] = (0o120000).to_bytes(4, "big")
    length = 62 + 2
    del body[at - 62 + ((length + 8) & ~7) : at - 62 + ((62 + 14 + 8) & ~7)]
    with pytest.raises(ValueError, match="beneath a link"):
        _git_index.sanitize_index(_sign(bytes(body)))


def _sign(body: bytes) -> bytes:
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def _damaged_indexes(index: bytes) -> dict[str, bytes]:
    body = index[:-20]
    return {
        "nothing": b"",
        "no digest": body,
        "another digest": body + bytes(19) + b"x",
        "half": _sign(body[: len(body) // 2]),
        "another signature": _sign(b"XXXX" + body[4:]),
        "another version": _sign(body[:7] + b"\x09" + body[8:]),
        "too many entries": _sign(body[:8] + b"\xff\xff\xff\xff" + body[12:]),
        "a split index": _sign(body + b"link" + (4).to_bytes(4, "big") + b"abcd"),
        "an extension without end": _sign(body + b"TREE" + b"\xff\xff\xff\xff"),
    }


@pytest.mark.parametrize("how", list(_damaged_indexes(b"x" * 100)))
def test_damaged_git_index_is_refused(how: str, repository: Path) -> None:
    index = (repository / ".git" / "index").read_bytes()
    # Errors that the broker treats as a refusal.
    with pytest.raises((ValueError, IndexError, struct.error)):
        _git_index.sanitize_index(_damaged_indexes(index)[how])


def test_offset_extension_is_removed_from_a_git_index(repository: Path) -> None:
    index = (repository / ".git" / "index").read_bytes()
    body = index[:-20] + b"IEOT" + (8).to_bytes(4, "big") + bytes(8)
    checked = _git_index.sanitize_index(_sign(body))
    assert b"IEOT" not in checked


def test_git_index_with_another_or_no_digest_is_accepted(repository: Path, tmp_path: Path) -> None:
    index = (repository / ".git" / "index").read_bytes()
    unsigned = index[:-20] + bytes(20)
    assert _git_index.sanitize_index(unsigned)[-20:] == bytes(20)
    other = tmp_path / "sha256"
    other.mkdir()
    _git(other, "init", "-q", "--object-format=sha256")
    (other / "f").write_text("x")
    _git(other, "add", "f")
    data = (other / ".git" / "index").read_bytes()
    assert _git_index.sanitize_index(data) == data


def test_git_commits_and_checks_out_in_a_command(repository: Path) -> None:
    script = (
        "set -e; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a "
        "GIT_COMMITTER_EMAIL=a@b; echo new > new; git add new; git commit -qm two; "
        "git checkout -qb side; echo more >> new; git stash -q; git stash pop -q; "
        "git commit -qam three; git checkout -q -; git merge -q side; git tag t; "
        "git reset -q --hard HEAD~1; git cherry-pick side > out; rm out; "
        "git rm -q new; git commit -qm four; git pack-refs --all; git log --oneline | wc -l"
    )
    ended = run(repository, "sh", "-c", script)
    assert stdout_of(ended).strip() == "4", ended
    assert ended.protected == ()
    _git(repository, "fsck", "--strict")
    assert _git(repository, "status", "--short") == b""


def test_a_command_dies_with_its_launcher(tmp_path: Path) -> None:
    code = (
        f"from pathlib import Path; from ptc._workers._command import Command; "
        f"from ptc._protected import Protection; "
        f"Command(['sh', '-c', 'touch started; sleep 1000.{os.getpid()}'], "
        f"root=Path({str(tmp_path.resolve())!r}), protection=Protection()).run(100_000)"
    )
    host = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "started").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        host.send_signal(signal.SIGKILL)
        host.wait()
        while _processes(f"1000.{os.getpid()}"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        host.kill()
        host.wait()


def _processes(needle: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if needle.encode() in words and b"sleep" in words:
            found.append(str(path))
    return found
