"""Entry of the zygote: ``python -P -s -S FILE CONTROL_FD ISOLATION PACKAGES PATH [PATH ...]``.

PACKAGES is a comma-separated list of names, or empty.

The interpreter starts without `site` and without an environment. The folders of ptc and its two
dependencies are therefore passed on the command line, used for the imports, and removed again.
"""

from __future__ import annotations

import ctypes
import sys


def _fix_none_hash() -> None:
    """Make the hash of None a constant before Python 3.12, where it became one.

    In older versions it is the address of None, so the iteration order of a set that contains None
    differs between processes. Call this before the first import that puts None in a set: `typing`.
    """
    if sys.version_info >= (3, 12):
        return
    # tp_hash in PyTypeObject on 64-bit builds, see `_freeze._OFFSET`.
    slot = ctypes.c_void_p.from_address(id(type(None)) + 24 + 12 * 8)
    default = ctypes.c_void_p.from_address(id(object) + 24 + 12 * 8)
    if sys.maxsize < 2**32 or slot.value is None or slot.value != default.value:
        raise RuntimeError("the hash of None is not at its expected address in this CPython")
    # Any C function that takes an object and always returns the same for None: this returns 0.
    slot.value = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p).value
    if hash(None) != 0:
        raise RuntimeError("the hash of None could not be set")


def _start() -> None:
    _fix_none_hash()
    control_fd, isolation, packages, *paths = sys.argv[1:]
    sys.argv[:] = ["ptc-zygote"]
    # The folder of this file is not on the path (-P). All imports happen before the jail.
    sys.path.extend(paths)
    # asyncio imports ssl if it exists: 1.3 MB and 32 mappings that every fork would copy, for
    # connections that no script can make.
    sys.modules["ssl"] = None  # type: ignore[assignment]  # makes the import fail
    from ptc.worker._zygote import main

    del sys.modules["ssl"]
    main(int(control_fd), isolation, [name for name in packages.split(",") if name])


_start()
