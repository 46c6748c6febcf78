"""Packages beyond the library that a session offers its scripts, such as numpy: off by default.

They are imported in the zygote, before the jail, because nothing can be imported inside it. Their
code is not reviewed: numpy alone opens files, runs ctypes and reads memory out of bounds, so with
a package the language layer does not hold alone. This module closes the obvious gaps and keeps
results reproducible: a script gets facades of the modules, which show public names and no foreign
module, and random numbers come from the seed of the run.
"""

from __future__ import annotations

import builtins
import importlib
import io
import os
import random
import secrets
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Any, Final, NoReturn

from .._language import _policy as policy
from ._charts import Charts, importing_charts
from ._introspection import ModuleView, replace_signatures, replace_warnings
from ._modules._facade import make_module
from ._pandas import adapt_pandas

__all__ = ["PackageError", "Packages", "close_files"]

# Read while a library is loaded. Threads would not survive a fork and cannot be started in the
# jail, and the filter does not allow the system call for advice about huge pages.
_SETTINGS: Final = {
    **dict.fromkeys(
        [
            "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
            "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS",
        ],
        "1",
    ),
    "NUMPY_MADVISE_HUGEPAGE": "0",
}  # fmt: skip

# Submodules that a package imports on first use. A name with a final dot is a folder of them.
_HIDDEN: Final = frozenset({"numexpr", "pyarrow"})
"""Packages that pandas loads if they are installed. pyarrow starts threads then; numexpr, too, and
it compiles the text of an expression."""
_DRAWING: Final = frozenset({"matplotlib", "seaborn"})
"""Packages that load matplotlib."""
_SILENT: Final = frozenset({"matplotlib", "mpl_toolkits"})
"""Packages without warnings: most of them are about the look of a chart."""
_LATE: Final = {
    "numpy": "numpy.dtypes numpy.exceptions numpy.fft numpy.linalg numpy.ma numpy.polynomial "
    "numpy.random numpy.rec numpy.strings numpy.char numpy.lib.stride_tricks",
    "pandas": "pandas.core. pandas.io.formats. pandas.io.json. pandas.io.parsers. pandas.tseries. "
    "xml.dom.minidom xml.dom.expatbuilder",
}


class PackageError(Exception):
    """A requested package cannot be imported. The message has its name, the reason and a fix."""


class Packages:
    """Imported packages: their modules for scripts, and their random numbers."""

    def __init__(self, names: Iterable[str], rng: random.Random) -> None:
        """Import them.

        Args:
            names: Packages or modules, with dots.
            rng: Source of entropy for the libraries; the runtime seeds it for each run.

        Raises:
            PackageError: If one of them cannot be imported.
        """
        self._names = tuple(names)
        self.charts: Charts | None = None
        tops = {name.partition(".")[0] for name in self._names}
        if tops:
            for name in _HIDDEN - tops:
                # Not installed, as far as others can see: their authors provide for that.
                sys.modules[name] = None  # type: ignore[assignment]  # documented for imports
            with importing_charts() if tops & _DRAWING else nullcontext():
                self._import(rng)
                if "matplotlib" in sys.modules:
                    tops.add("mpl_toolkits")
                    self.charts = _make_charts()
            replace_signatures(tops | {"pandas"})
            replace_warnings(tops - _SILENT)
            adapt_pandas()
            policy.TRUSTED_PACKAGES.update(tops)
        loaded = {
            name: module
            for name, module in sorted(sys.modules.items())
            if name.partition(".")[0] in tops and _is_public(name)
        }
        policy.OFFERED.update(loaded)
        self.modules: Mapping[str, object] = _facades(loaded)

    def _import(self, rng: random.Random) -> None:
        # numpy reads the entropy of a generator without a seed from this function, and stores it.
        secrets.__dict__["randbits"] = rng.getrandbits
        before = {name: os.environ.get(name) for name in _SETTINGS}
        os.environ.update(_SETTINGS)
        try:
            for name in self._names:
                try:
                    importlib.import_module(name)
                except Exception as error:
                    raise PackageError(
                        f"package {name!r} cannot be imported in a worker: "
                        f"{type(error).__name__}: {error}. Repair its installation, or leave it "
                        "out of packages."
                    ) from error
            for name in self._names:
                for part in _late_modules(name):
                    try:
                        importlib.import_module(part)
                    except Exception:  # noqa: BLE001, S112  # a submodule with a missing dependency
                        continue
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def seed(self, seed: int) -> None:
        """Seed the random numbers of a run."""
        numpy: Any = sys.modules.get("numpy.random") if self._names else None
        if numpy is not None:
            numpy.seed(seed % 2**32)


def _make_charts() -> Charts:
    try:
        return Charts()
    except Exception as error:
        raise PackageError(
            f"package 'matplotlib' cannot draw in a worker: {type(error).__name__}: {error}. "
            "Install a version from 3.9 on, or leave it out of packages."
        ) from error


def close_files() -> None:
    """Turn a package's access to files and to the machine into an ordinary error.

    ``pandas.read_csv`` counts processors and reads paths, printing a frame reads the width of the
    terminal, and ``pandas.show_versions`` starts a program: mistakes and habits that the filter
    would report as an attack. This is not a sandbox layer. Call it in the zygote, which opens
    nothing once it is in the jail.
    """
    builtins.__dict__["open"] = io.__dict__["open"] = _no_file
    for name in _FILE_CALLS:
        if hasattr(os, name):
            os.__dict__[name] = _no_file
    os.__dict__["get_terminal_size"] = _no_file
    for name in ("cpu_count", "process_cpu_count"):
        if hasattr(os, name):
            os.__dict__[name] = _one_cpu
    os.__dict__["sched_getaffinity"] = _first_cpu


_FILE_CALLS: Final = [
    "access", "chdir", "chmod", "getcwd", "listdir", "lstat", "makedirs", "mkdir", "open", "pipe",
    "pipe2", "readlink", "remove", "rename", "replace", "rmdir", "scandir", "stat", "statvfs",
    "truncate", "uname", "unlink", "utime",
]  # fmt: skip


def _no_file(*_: object, **__: object) -> NoReturn:
    raise FileNotFoundError("a script has no files and no terminal; access files through ctx")


def _one_cpu() -> int:
    return 1


def _first_cpu(_: int) -> set[int]:
    return {0}


def _late_modules(name: str) -> Iterator[str]:
    import pkgutil

    for part in _LATE.get(name, "").split():
        if not part.endswith("."):
            yield part
            continue
        try:
            folder = importlib.import_module(part[:-1])
        except ImportError:
            continue
        quiet: Callable[[str], None] = lambda _: None  # noqa: E731  # ignores failed imports
        for found in pkgutil.walk_packages(folder.__path__, part, onerror=quiet):
            if ".tests" not in found.name:
                yield found.name


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def _members(name: str, module: types.ModuleType) -> dict[str, Any]:
    """Return the members of a module, also those that a submodule computes, such as `np.char`.

    A top module computes names, too, but many of them are imports.
    """
    members = dict(vars(module))
    if "." in name and "__dir__" in members:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of deprecated names
            for key in set(dir(module)) - members.keys():
                with suppress(Exception):
                    members[key] = getattr(module, key)
    return members


def _facades(loaded: Mapping[str, types.ModuleType]) -> dict[str, object]:
    """Make a facade for each module, submodules first, so that ``np.linalg`` is one, too.

    A view stands for a foreign module, such as the `os` of `matplotlib.font_manager`.
    """
    made: dict[str, object] = {}
    # Last of its level, since it shows `matplotlib.style`.
    order = sorted(loaded, key=lambda name: (-name.count("."), name == "matplotlib.pyplot"))
    for name in order:
        members = {
            key: made.get(value.__name__) if isinstance(value, types.ModuleType) else value
            for key, value in _members(name, loaded[name]).items()
            if key.isidentifier()
            and (not key.startswith("_") or key == "__version__")
            and not isinstance(value, property | ModuleView)
            and (not isinstance(value, types.ModuleType) or value.__name__ in made)
        }
        for below, facade in made.items():
            parent, _, last = below.rpartition(".")
            if parent == name:
                members[last] = facade
        made[name] = make_module(name, members)
    return made
