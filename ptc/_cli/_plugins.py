"""Commands from other packages: entry points of the group ``ptc.commands``, name -> click.Command.

::

    [project.entry-points."ptc.commands"]
    serve = "my_package.serve:command"

A broken package, or a missing optional dependency, produces one line instead of a traceback, and
only when its command is used or listed.
"""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version

import click

from ..errors import SetupError

__all__ = ["find_missing_extra", "load_plugin", "plugin_names"]

_GROUP = "ptc.commands"


def plugin_names() -> list[str]:
    """Return the sorted names of the commands that installed packages provide."""
    return sorted({entry.name for entry in entry_points(group=_GROUP)})


def load_plugin(name: str) -> click.Command:
    """Load the command `name`.

    Raises:
        SetupError: If it cannot be loaded; the message says what to install.
    """
    entry = next(iter(entry_points(group=_GROUP, name=name)))
    try:
        command = entry.load()
    except ModuleNotFoundError as error:
        raise SetupError(_explain_missing_module(entry, error.name or "")) from error
    except Exception as error:  # another package's code may raise anything
        first = (str(error).splitlines() or [""])[0][:200]
        msg = f"ptc {name} of {_package(entry)} cannot be loaded: {type(error).__name__}: {first}"
        raise SetupError(msg) from error
    if not isinstance(command, click.Command):
        kind = type(command).__name__
        msg = f"ptc {name}: {entry.value} of {_package(entry)} must be a click.Command, not {kind}"
        raise SetupError(msg)
    return command


def find_missing_extra(name: str) -> str | None:
    """Return the error of a command whose package has an extra of its name that is not installed.

    Such a command may import the extra only when it is used, so that it can be loaded.
    """
    entry = next(iter(entry_points(group=_GROUP, name=name)))
    for requirement in (entry.dist.requires if entry.dist is not None else None) or ():
        found = re.match(rf"([\w.-]+)[^;]*;.*\bextra == ['\"]{re.escape(name)}['\"]", requirement)
        if found is not None and not _is_installed(found[1]):
            return _explain_missing_module(entry, "")
    return None


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _explain_missing_module(entry: EntryPoint, module: str) -> str:
    if module == entry.module or entry.module.startswith(f"{module}."):
        # The command itself is missing, not one of its dependencies.
        return f"ptc {entry.name} is not in this installation of {_package(entry)}: no {module}"
    package = entry.dist.name if entry.dist is not None else None
    extras = list(entry.extras)
    if entry.dist is not None and not extras:
        offered = entry.dist.metadata.get_all("Provides-Extra") or []
        extras = [name for name in offered if name == entry.name]
    if package and extras:
        return f"ptc {entry.name} needs: pip install '{package}[{','.join(extras)}]'"
    return f"ptc {entry.name} of {_package(entry)} needs the module {module}; install it"


def _package(entry: EntryPoint) -> str:
    return f"package {entry.dist.name}" if entry.dist is not None else "an unknown package"
