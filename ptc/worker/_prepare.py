"""Preparation of the process, or of the guest, in which workers run: everything but the jail."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Sequence

from ._loop import forbid_other_loops
from ._modules._console import STDOUT
from ._placement import gather_executed_code
from ._runtime import Runtime
from ._seal import seal

__all__ = ["prepare_runtime", "redirect_output"]

_PREPARATIONS = 8 if sys.version_info < (3, 12) else 3
"""CPython specialises code in place after about eight runs before 3.12, after two later. Code
specialised in a worker costs the copy of a page."""
_COLLECT_AFTER = 10_000
"""Allocations after which a worker collects cycles. CPython's 700 suit a long-lived process; here
garbage vanishes with the worker, and the memory limit applies."""


def prepare_runtime(packages: Sequence[str], *, forks: bool = False) -> Runtime:
    """Import what scripts may use, seal the interpreter and return the runtime.

    Args:
        packages: Names of packages that scripts may import in addition.
        forks: True if workers are forked from this process, see `_placement`.

    Raises:
        PackageError: If one of `packages` cannot be imported.
        FreezeError: If this interpreter has another layout of its types.
    """
    runtime = Runtime(packages)
    # Twice: first to load and specialise, then to create lasting objects on frozen types.
    if forks:
        gather_executed_code(runtime.prepare)
    else:
        runtime.prepare()
    seal()
    runtime.prepare(_PREPARATIONS)
    forbid_other_loops()
    _disable_imports()
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 10, 10)
    gc.enable()
    return runtime


def redirect_output() -> None:
    """Make what the library prints (`prmonth`, `re.DEBUG`) the output of the script."""
    sys.stdout = STDOUT


def _disable_imports() -> None:
    """Make searches of the disk fail with an ordinary error instead of a forbidden system call.

    Ordinary scripts cause them by an unknown codec, a lazy import inside the standard library, or
    the source line of a warning, and the filter would treat them as an attack.
    """
    sys.meta_path.clear()
    sys.path.clear()
    sys.path_hooks.clear()
    warnings.simplefilter("ignore")
