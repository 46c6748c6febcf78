"""The guest of the engine `wasm` has every module that its modules import."""

from __future__ import annotations

import ast
from importlib.util import resolve_name
from pathlib import Path

import ptc
from ptc._workers.wasm._sources import worker_sources

# Of the process worker alone, behind a test for the platform.
PROCESS_ONLY = {"ptc.worker._zygote", "ptc.worker._jail", "ptc.worker.restore"}
START = "ptc.worker.guest._start"


def imported(name: str, package: str, source: bytes) -> set[str]:
    """Modules of this project that a module imports at its top level."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            folder = Path(ptc.__file__).parents[1] / base.replace(".", "/")
            found |= {
                f"{base}.{each.name}" if (folder / f"{each.name}.py").exists() else base
                for each in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return {each for each in found if each.partition(".")[0] == "ptc" and each != name}


def test_every_imported_module_is_among_the_sources() -> None:
    sources = worker_sources()
    todo, seen = [START], set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        assert name in sources or f"{name}." in sources, f"{name} is not in the guest"
        is_package = f"{name}." in sources
        package = name if is_package else name.rpartition(".")[0]
        todo += imported(name, package, sources[f"{name}." if is_package else name])
    assert len(seen) > 60
    assert not seen & PROCESS_ONLY
