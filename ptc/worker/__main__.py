"""Entry of the zygote: ``python -P -s -S FILE CONTROL_FD ISOLATION PACKAGES PATH [PATH ...]``.

PACKAGES are names with commas between them, or empty.

The interpreter is started without `site` and without an environment, so the folders that hold ptc
and its two dependencies are given on the command line, used for the imports, and taken off again.
"""

from __future__ import annotations

import ctypes
import sys


def _settle_none() -> None:
    """Before 3.12, make the hash of None a constant, as it is since.

    There it is the address of None, so a set with None among others is walked in an order of its
    own in every process. This comes before the first import that keeps None in a set: `typing`.
    """
    if sys.version_info >= (3, 12):
        return
    # tp_hash in PyTypeObject on 64-bit builds, see `_freeze._OFFSET`.
    slot = ctypes.c_void_p.from_address(id(type(None)) + 24 + 12 * 8)
    default = ctypes.c_void_p.from_address(id(object) + 24 + 12 * 8)
    if sys.maxsize < 2**32 or slot.value is None or slot.value != default.value:
        raise RuntimeError("the hash of None is not where this CPython should have it")
    # Any C function that takes an object and answers the same for None each time: this says 0.
    slot.value = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p).value
    if hash(None) != 0:
        raise RuntimeError("the hash of None could not be set")


def _start() -> None:
    _settle_none()
    control_fd, isolation, packages, *paths = sys.argv[1:]
    sys.argv[:] = ["ptc-zygote"]
    # The script's own folder is not on the path (-P). Everything is imported before the jail.
    sys.path.extend(paths)
    # asyncio takes ssl along where it is: 1.3 MB and 32 mappings that every fork would copy, for
    # connections that no script can make.
    sys.modules["ssl"] = None  # type: ignore[assignment]  # how an import is made to fail
    from ptc.worker._zygote import main

    del sys.modules["ssl"]
    main(int(control_fd), isolation, [name for name in packages.split(",") if name])


_start()
