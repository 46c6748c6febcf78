"""Entry of the zygote: ``python -P -s -S FILE CONTROL_FD ISOLATION PACKAGES PATH [PATH ...]``.

PACKAGES is a comma-separated list of names, or empty. ISOLATION may end with a colon and a mode in
which workers are restored after their runs; see `_jail`.

The interpreter is started without `site` and without an environment, so the command line has the
folders of ptc and of its two dependencies. They are on the path only while modules are imported.
"""

from __future__ import annotations

import ctypes
import gc
import sys


def _fix_none_hash() -> None:
    """Make the hash of None a constant before 3.12, as it is in later versions.

    Otherwise it is the address of None, so that the order of a set with None differs in every
    process. This runs before the first import that stores None in a set: `typing`.
    """
    if sys.version_info >= (3, 12):
        return
    # tp_hash in PyTypeObject on 64-bit builds, see `_freeze._OFFSET`.
    slot = ctypes.c_void_p.from_address(id(type(None)) + 24 + 12 * 8)
    default = ctypes.c_void_p.from_address(id(object) + 24 + 12 * 8)
    if sys.maxsize < 2**32 or slot.value is None or slot.value != default.value:
        raise RuntimeError("the hash slot of None is not at the expected offset in this CPython")
    # Any C function of one object with a constant result for None: this one returns 0.
    slot.value = ctypes.cast(ctypes.pythonapi.PyObject_IsTrue, ctypes.c_void_p).value
    if hash(None) != 0:
        raise RuntimeError("the hash of None could not be set")


def _start() -> None:
    # Hardly anything that is imported is garbage. `prepare_runtime` enables the collector again.
    gc.disable()
    _fix_none_hash()
    control_fd, isolation, packages, *paths = sys.argv[1:]
    sys.argv[:] = ["ptc-zygote"]
    # The folder of this file is not on the path (-P). All imports happen before the jail.
    sys.path.extend(paths)
    # asyncio imports ssl if it can: 1.3 MB and 32 mappings that every fork would copy, for
    # connections that no script can open.
    sys.modules["ssl"] = None  # type: ignore[assignment]  # makes the import fail
    from ptc.worker._zygote import main

    del sys.modules["ssl"]
    isolation, _, restore = isolation.partition(":")
    main(int(control_fd), isolation, [name for name in packages.split(",") if name], restore)


_start()
