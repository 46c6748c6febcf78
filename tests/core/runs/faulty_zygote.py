"""A zygote that fails at chosen forks, as one does on a machine that has run out of something.

usage: faulty_zygote.py FAULT NUMBERS ENTRY [what the entry is given]: FAULT is ``fork`` (the
kernel makes no process), ``pidfd`` or ``receive`` (there is no room for a descriptor); NUMBERS are
those of the host's requests, ``4-9``.
"""

import errno
import os
import resource
import runpy
import sys
from typing import Any

FAULT, NUMBERS, ENTRY = sys.argv[1:4]
del sys.argv[1:4]
FIRST, LAST = map(int, NUMBERS.split("-"))


def refuse() -> int:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def without_room(step: Any, *arguments: Any) -> None:
    """Take a step while no descriptor can be opened."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        step(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def plant() -> None:
    from ptc.worker import _zygote
    from ptc.worker.kernel import _libc

    server, fork = _zygote._Server, _libc.fork
    real_fork, real_request = server._fork, server._request
    seen = 0

    def faulty_fork(self: Any, message: dict[str, Any], wire_fd: int) -> None:
        if FAULT == "pidfd" and FIRST <= message["fork"] <= LAST:
            without_room(real_fork, self, message, wire_fd)
            return
        failing = FAULT == "fork" and FIRST <= message["fork"] <= LAST
        _zygote.__dict__["fork"] = refuse if failing else fork
        real_fork(self, message, wire_fd)

    def faulty_request(self: Any) -> None:
        nonlocal seen
        seen += 1
        if FAULT == "receive" and FIRST <= seen <= LAST:
            without_room(real_request, self)
        else:
            real_request(self)

    server._fork, server._request = faulty_fork, faulty_request  # type: ignore[method-assign]  # the fault


def main() -> None:
    # The entry takes the folders off the path again and imports nothing after that.
    folders = sys.argv[4:]
    sys.path.extend(folders)
    sys.modules["ssl"] = None  # type: ignore[assignment]  # as the entry does
    plant()
    del sys.modules["ssl"]
    del sys.path[-len(folders) :]
    runpy.run_path(ENTRY, run_name="__main__")


main()
