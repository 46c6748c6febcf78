"""Sources of the worker, which a guest imports while its snapshot is made.

Rule 1: a guest gets the modules of the worker and of RestrictedPython, and no other.
    tests/core/workers/test_wasm_files.py::test_guest_imports_the_worker_and_nothing_else
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["digest_of_sources", "worker_sources"]

_OWN: Final = (
    "errors.py", "_dataclass.py", "_facts.py", "_policy_modules.py", "_protected.py",
    "_refused_names.py", "_language", "_records/__init__.py", "_records/_limits.py",
    "_records/_limits_data.py", "_wire",
    "worker/*.py", "worker/_modules", "worker/guest",
)  # fmt: skip
"""Files and folders of this package. Those of the process worker alone are never imported."""
_STAND_INS: Final = ("ctypes", "greenlet", "mmap", "orjson")
"""Native modules, and the modules of `ptc.worker.guest` that stand in for them."""


@cache
def worker_sources() -> Mapping[str, bytes]:
    """Return the source of each module by its name; a package's name ends in a dot."""
    root = Path(__file__).parents[2]
    found: dict[str, bytes] = {"ptc.": b""}
    for part in _OWN:
        paths = root.glob(part) if "*" in part else [root / part]
        for path in paths:
            files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            found |= {_module_of(file, root.parent): file.read_bytes() for file in files}
    policy = importlib.util.find_spec("RestrictedPython")
    if policy is not None and policy.origin is not None:
        folder = Path(policy.origin).parent
        for file in sorted(folder.glob("*.py")):
            found[_module_of(file, folder.parent)] = file.read_bytes()
    for name in _STAND_INS:
        found[name] = found[f"ptc.worker.guest._{name}"]
    return found


def _module_of(file: Path, root: Path) -> str:
    parts = file.relative_to(root).with_suffix("").parts
    if parts[-1] == "__init__":
        return ".".join(parts[:-1]) + "."
    return ".".join(parts)


@cache
def digest_of_sources() -> str:
    """Return a digest of all sources."""
    digest = hashlib.sha256()
    for name, source in worker_sources().items():
        digest.update(b"%b %d\n" % (name.encode(), len(source)))
        digest.update(source)
    return digest.hexdigest()
