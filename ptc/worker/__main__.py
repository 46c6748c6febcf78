"""Entry of the zygote: ``python -P -s -S FILE CONTROL_FD ISOLATION PATH [PATH ...]``.

The interpreter is started without `site` and without an environment, so the folders that hold ptc
and its two dependencies are given on the command line, used for the imports, and taken off again.
"""

from __future__ import annotations

import sys


def _start() -> None:
    control_fd, isolation, *paths = sys.argv[1:]
    sys.argv[:] = ["ptc-zygote"]
    # The script's own folder is not on the path (-P). Everything is imported before the jail.
    sys.path.extend(paths)
    from ptc.worker._zygote import main

    del sys.path[-len(paths) :]
    main(int(control_fd), isolation)


_start()
