"""A zygote that leaves the interpreter's internals in reach: its workers can be taken over.

usage: unsealed_zygote.py ENTRY [arguments of the entry]
"""

import runpy
import sys

ENTRY = sys.argv[1]
del sys.argv[1]


def main() -> None:
    # The entry takes the folders off the path again and imports nothing after that.
    folders = sys.argv[4:]
    sys.path.extend(folders)
    sys.modules["ssl"] = None  # type: ignore[assignment]  # as the entry does
    from ptc.worker import _seal

    _seal.__dict__["remove_internals"] = lambda offered: None
    del sys.modules["ssl"]
    del sys.path[-len(folders) :]
    runpy.run_path(ENTRY, run_name="__main__")


main()
