"""Run a command under a seccomp profile, as a container engine does.

    python tests/deployment/under_profile.py PROFILE.json COMMAND [ARGUMENT ...]

libseccomp compiles the profile. Like the engines, this loader leaves out calls that the installed
libseccomp does not know; the default action holds for them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyseccomp

_COMPARISONS = {"SCMP_CMP_EQ": pyseccomp.EQ, "SCMP_CMP_MASKED_EQ": pyseccomp.MASKED_EQ}


def build(profile: dict[str, Any]) -> Any:
    """Build the filter of a profile in the format of the OCI runtime specification."""
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO", "no other default is supported here"
    result = pyseccomp.SyscallFilter(defaction=pyseccomp.ERRNO(profile["defaultErrnoRet"]))
    for rule in profile["syscalls"]:
        assert rule["action"] == "SCMP_ACT_ALLOW", "no other action is supported here"
        arguments = [
            pyseccomp.Arg(
                each["index"], _COMPARISONS[each["op"]], each["value"], each.get("valueTwo", 0)
            )
            for each in rule.get("args", ())
        ]
        for name in rule["names"]:
            # Negative: a call of another architecture, or of a later libseccomp.
            if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) >= 0:
                result.add_rule(pyseccomp.ALLOW, name, *arguments)
    return result


if __name__ == "__main__":
    build(json.loads(Path(sys.argv[1]).read_text())).load()
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # the command of the test
