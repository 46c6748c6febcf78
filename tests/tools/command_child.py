"""Run confined commands as another user or on a kernel with fewer features, for tests.

``python command_child.py MODE`` reads JSON ``{"root": ..., "commands": [{"argv", "env", ...}]}``
and prints JSON, one row for each command. Modes: ``plain``; ``powerless``: root without any
capability; ``nobody``: uid 65534; ``container``: no new namespaces, as in most containers.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ptc._protected import Protection
from ptc._workers._command import Command
from ptc.worker.command import _filter
from ptc.worker.kernel import _libc

_KINDS = 0x7E020000


def refuse_namespaces() -> None:
    """Apply the rules of Docker's default profile for unshare and clone."""
    numbers = _filter._MACHINES[os.uname().machine][2]
    steps = [
        (0x20, 0, 0, 0),
        *((0x15, 0, 1, numbers["unshare"]), (0x06, 0, 0, 0x00050000 | errno.EPERM)),
        *((0x15, 0, 1, numbers["clone3"]), (0x06, 0, 0, 0x00050000 | errno.ENOSYS)),
        *((0x15, 0, 3, numbers["clone"]), (0x20, 0, 0, 16), (0x45, 0, 1, _KINDS)),
        *((0x06, 0, 0, 0x00050000 | errno.EPERM), (0x06, 0, 0, 0x7FFF0000)),
    ]
    _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
    _filter.install(b"".join(struct.pack("=HBBI", *step) for step in steps))


def hide_landlock() -> None:
    """Simulate a kernel without Landlock for its callers."""
    _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
    steps = [
        *((0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | errno.ENOSYS)),
        (0x06, 0, 0, 0x7FFF0000),
    ]
    _filter.install(b"".join(struct.pack("=HBBI", *step) for step in steps))


def enter(mode: str) -> None:
    if mode == "nobody":
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        _libc.prctl(_libc.PR_SET_DUMPABLE, 1)
    elif mode == "powerless":
        _libc.prctl(_libc.PR_SET_NO_NEW_PRIVS, 1)
        _libc.drop_capabilities()
    elif mode == "container":
        refuse_namespaces()
    elif mode == "no-landlock":
        hide_landlock()
    elif mode != "plain":
        raise AssertionError(mode)


def main() -> None:
    task = json.load(sys.stdin)
    enter(sys.argv[1])
    ctypes.CDLL(None)
    rows = []
    for row in task["commands"]:
        ended = Command(
            row["argv"],
            root=Path(task["root"]),
            cwd=row.get("cwd", ""),
            protection=Protection(row.get("unprotected", ())) if row.get("protected") else None,
            env=row.get("env"),
            readable=[Path(path) for path in row.get("readable", ())],
            network=row.get("network", False),
            required=row.get("required", True),
        ).run(row.get("timeout_ms", 20_000))
        rows.append(
            {
                "how": ended.how,
                "number": ended.number,
                "text": ended.text,
                "stdout": ended.stdout.head.decode("utf-8", "replace"),
                "stderr": ended.stderr.head.decode("utf-8", "replace"),
                "protected": [(item.path, item.rule, item.entry) for item in ended.protected],
            }
        )
    json.dump(rows, sys.stdout)


main()
