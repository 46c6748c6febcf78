"""Run a command under the filters that systemd installs for the unit of docs/operations.md.

python tests/deployment/under_unit.py COMMAND [ARGUMENT ...]

``RestrictAddressFamilies=``, ``RestrictSUIDSGID=``, ``ProtectClock=``, ``ProtectKernelModules=``,
``ProtectKernelLogs=`` and ``PrivateDevices=`` refuse calls, as systemd 252 does.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from typing import Any

import pyseccomp

_FAMILIES = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
_REFUSED = (
    *("adjtimex", "clock_adjtime", "clock_settime", "settimeofday"),
    *("delete_module", "finit_module", "init_module", "syslog"),
    *("ioperm", "iopl"),
)


def build() -> Any:
    """Build a filter that allows all calls but those of the settings."""
    result = pyseccomp.SyscallFilter(defaction=pyseccomp.ALLOW)
    for family in range(50):
        if family not in _FAMILIES:
            refused = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
            result.add_rule(refused, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    denied = pyseccomp.ERRNO(errno.EPERM)
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for name, place in (("fchmod", 1), ("fchmodat", 2), ("mkdirat", 2), ("mknodat", 2)):
            result.add_rule(denied, name, pyseccomp.Arg(place, pyseccomp.MASKED_EQ, bit, bit))
    for name in _REFUSED:
        if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) >= 0:
            result.add_rule(denied, name)
    return result


if __name__ == "__main__":
    build().load()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  # the command of the test
