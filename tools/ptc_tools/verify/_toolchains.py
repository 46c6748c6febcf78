"""Programs of toolchains, and the folders outside the system that they need to read."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Toolchain", "cargo_toolchain", "go_toolchain", "node_toolchain", "python_program"]

_SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store")))
"""Folders of programs that every command can read."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A program as a command names it, and what it needs."""

    program: str
    """A name on PATH, or a path in the root."""
    readable: tuple[Path, ...] = ()
    """Existing absolute files and folders that not every command can read."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables that name folders, since a command has a home of its own."""


def python_program(name: str, root: Path) -> Toolchain:
    """Find a program of Python packages: in the project's environment, else on PATH."""
    for folder in (".venv", "venv"):
        program = root / folder / "bin" / name
        if os.access(program, os.X_OK):
            readable = _environment_folders(root / folder)
            return Toolchain(str(program.relative_to(root)), _needed(readable))
    found = shutil.which(name)
    if found is None:
        return Toolchain(name)
    environment = Path(found).absolute().parent.parent
    if (environment / "pyvenv.cfg").is_file():
        return Toolchain(name, _needed(_environment_folders(environment)))
    return Toolchain(name, _needed(_program_folders(name)))


def node_toolchain() -> Toolchain:
    """Find npm and node."""
    env = {"CI": "1", "npm_config_update_notifier": "false"}
    return Toolchain("npm", _needed([*_program_folders("npm"), *_program_folders("node")]), env)


def cargo_toolchain() -> Toolchain:
    """Find cargo, its toolchains, and the packages that it has downloaded."""
    own = _folder_of("CARGO_HOME", "~/.cargo")
    rustup = _folder_of("RUSTUP_HOME", "~/.rustup")
    # Not the whole folder: credentials.toml has the tokens of registries. Without config.toml,
    # cargo would fail.
    readable = [own / name for name in ("bin", "registry", "git", "config.toml")]
    readable += [rustup / name for name in ("toolchains", "settings.toml")]
    env = {"CARGO_NET_OFFLINE": "true"}
    env |= {"CARGO_HOME": str(own)} if own.is_dir() else {}
    env |= {"RUSTUP_HOME": str(rustup)} if rustup.is_dir() else {}
    elsewhere = [path for path in _program_folders("cargo") if path not in (own, own / "bin")]
    return Toolchain("cargo", _needed([*readable, *elsewhere]), env)


def go_toolchain() -> Toolchain:
    """Find go, and the modules that it has downloaded."""
    readable = _program_folders("go")
    first = os.environ.get("GOPATH", "").split(os.pathsep)[0] or "~/go"
    modules = _folder_of("GOMODCACHE", f"{first}/pkg/mod")
    env = {"GOPROXY": "off", "GOTOOLCHAIN": "local"}
    if modules.is_dir():
        readable.append(modules)
        env["GOMODCACHE"] = str(modules)
    return Toolchain("go", _needed(readable), env)


def _folder_of(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or os.path.expanduser(default)).absolute()


def _environment_folders(environment: Path) -> list[Path]:
    """Return a virtual environment, and the installation of Python that it was made from."""
    readable = [environment]
    base = _base_of(environment)
    # A project's own file names it: it must be a Python, not any folder of the user.
    if base is not None and any(base.glob("lib/python3.*/os.py")) and _is_narrow(base):
        readable.append(base)
    return readable


def _base_of(environment: Path) -> Path | None:
    try:
        lines = (environment / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    for line in lines:
        key, _, value = line.partition("=")
        if key.strip() == "home" and os.path.isabs(value.strip()):
            return Path(value.strip()).resolve().parent
    return None


def _program_folders(name: str) -> list[Path]:
    """Return the folder of PATH that has a program, and the folder of its installation."""
    found = shutil.which(name)
    if found is None or not os.path.isabs(found):
        # A relative entry of PATH depends on the folder that the user is in.
        return []
    return [Path(found).parent, _installation(Path(found))]


def _installation(program: Path) -> Path:
    """Return the folder of a program's installation, or of its file if there is none."""
    real = program.resolve()
    prefix = real.parent.parent if real.parent.name in ("bin", "sbin") else real.parent
    if prefix.parent.name == "node_modules":
        # PREFIX/lib/node_modules/npm/bin/npm-cli.js
        prefix = prefix.parent.parent.parent
    has_own_files = any((prefix / name).exists() for name in ("lib", "pkg", "share"))
    # Not a folder below /, such as /work: others than the program use it.
    is_own = has_own_files and len(prefix.parts) > 2 and _is_narrow(prefix)
    return prefix if is_own else real.parent


def _is_narrow(folder: Path) -> bool:
    """True unless a folder has files of the user beside a program: a home, or the like."""
    home = Path(os.path.expanduser("~")).resolve()
    wide = (home, *home.parents, home / ".local", home / ".config")
    return folder not in wide


def _needed(readable: Iterable[Path]) -> tuple[Path, ...]:
    """Drop missing folders, and those that every command can read."""
    known = (*_SYSTEM, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    found = []
    for path in dict.fromkeys(readable):
        if path.exists() and _is_narrow(path) and not any(map(path.is_relative_to, known)):
            found.append(path)
    return tuple(found)
