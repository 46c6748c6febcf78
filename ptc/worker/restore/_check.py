"""Check of the restorer when a zygote starts, so that workers are forked where it cannot work."""

from __future__ import annotations

import dataclasses
import os
import signal

from .._isolation import ZygoteJail
from .._layers import Layer
from ._hand_over import probe

__all__ = ["check_restorer"]


def check_restorer(jail: ZygoteJail, layers: tuple[Layer, ...]) -> tuple[ZygoteJail, str]:
    """Return the jail, without its restorer if that cannot work, and the reason.

    Args:
        jail: The jail, entered.
        layers: Its layers, probed.
    """
    restorer = jail.restorer
    if restorer is None:
        return jail, jail.notes.get("restore", "there is no filter of system calls")
    reason = next(
        (
            f"another filter has the listener ({layer.detail})"
            for layer in layers
            if layer.name == "violation_names" and not layer.on
        ),
        "",
    )
    try:
        reason = reason or probe(restorer)
    except OSError as error:
        reason = str(error)
    if not reason:
        return jail, ""
    os.kill(restorer.pid, signal.SIGKILL)
    os.waitpid(restorer.pid, 0)
    restorer.workers.close()
    restorer.host.close()
    return dataclasses.replace(jail, restorer=None), reason
