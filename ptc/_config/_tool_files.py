"""Tools that a configuration or a command line names: Python and Markdown files, and modules.

Rule 1: A file is compiled from its source. A cached ``__pycache__``, which a script could write, is
    not read.
    tests/core/config/test_attacks.py::test_cached_bytecode_beside_a_tools_file_is_ignored
Rule 2: The folder of a file is not searched for modules, since a script could write one there.
    tests/core/config/test_attacks.py::test_module_beside_a_tools_file_is_not_imported
Rule 3: Files that are named, and modules that they import from the root, are protected paths.
    tests/core/config/test_attacks.py::test_script_cannot_change_the_named_tools
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

from .._core._arguments import nearest
from .._dataclass import dataclass
from .._tools._adapters import adapt
from .._tools._provider import ToolProvider
from .._tools._tool import Tool
from .._tools._toolset import Toolset
from ..errors import UsageError
from ._file import find_file, load_file, read_bytes

__all__ = ["LoadedTools", "files_of_servers", "load_tools", "named_files", "possible_files"]

_MOST_PATH_CHARS = 1_024
_FORM = "write FILE.py, FILE.py:NAME, FILE.md, or MODULE:NAME of an installed module"
_OWNER_REMEDY = "name it with --tools to use it"
_Source: TypeAlias = Tool | Toolset | ToolProvider


@dataclass(frozen=True, slots=True)
class LoadedTools:
    """Tools of one reference, and the files of their code."""

    sources: tuple[_Source, ...]
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _Reference:
    file: Path
    """The file, or the file beside the configuration that the module may be."""
    module: str
    """Name of a module; empty for a file."""
    name: str
    """Name in the module; empty: every tool of the file."""


def load_tools(text: str, folder: Path, *, subject: str, named: bool) -> LoadedTools:
    """Load the tools of one reference. This executes code outside of the sandbox.

    Args:
        text: ``tools.py``, ``tools.py:NAME``, ``prompt.md`` or ``module:NAME``.
        folder: Folder of relative paths.
        subject: Place of the reference, for messages.
        named: True: the operator named it on the command line; its owner does not matter.

    Raises:
        UsageError: If there is no such tool, or the code raises an exception.
    """
    before = set(sys.modules)
    try:
        reference = _parse(text, folder)
        if reference.file.suffix == ".md":
            return _load_markdown(reference.file, named=named)
        if reference.module and not _is_beside(reference):
            module, exclude = _import(reference.module), frozenset[str]()
        else:
            module, exclude = _execute(reference.file, named=named)
        name = reference.name
        sources = _find(module, name) if name else _collect(module, exclude)
    except UsageError as error:
        raise UsageError(f"{subject}: {error}") from error.__cause__
    files = [Path(module.__file__)] if module.__file__ else []
    files += [file for name in set(sys.modules) - before for file in _files_of(name)]
    return LoadedTools(tuple(sources), tuple(dict.fromkeys(files)))


def _load_markdown(path: Path, *, named: bool) -> LoadedTools:
    from .._agents._tool_file import tool_from_text

    data = read_bytes(path, None if named else _OWNER_REMEDY)
    return LoadedTools((tool_from_text(data, path),), (path,))


def named_files(root: Path) -> list[Path]:
    """List the configuration file of a root, and the tools files and folders that it names.

    For sessions that were not made from it: their scripts must not write code for the next command,
    or instructions for its agents. Executes nothing.
    A file that cannot be read names none, since no command would execute it either.
    """
    try:
        path = find_file(root)
        if path is None:
            return []
        file = load_file(path, named=True, check_trust=False)
        entries = [entry for entry in file.table.get("tools", []) if isinstance(entry, str)]
        servers = files_of_servers(file.table.get("mcp_servers", {}), path.parent)
        skills = [entry for entry in file.table.get("skills", []) if isinstance(entry, str)]
        servers += [path.parent / os.path.expanduser(entry) for entry in skills]
        if isinstance(config := file.table.get("mcp_config"), str):
            servers.append(path.parent / os.path.expanduser(config))
        folders = [
            path.parent / os.path.expanduser(folder)
            for folder in file.table.get("agents", [])
            if isinstance(folder, str)
        ]
    except (UsageError, AttributeError, TypeError):
        return []
    own = [found for entry in entries for found in possible_files(entry, path.parent)] + servers
    # A ptc.toml may be a link to a file of another name.
    return [*own, *folders] if file.in_project else [path, *own, *folders]


def files_of_servers(servers: Mapping[str, Any], folder: Path) -> list[Path]:
    """List the files that the commands of servers name: programs that the next start executes."""
    words = [
        word
        for server in servers.values()
        for word in (server.get("command", ""), *server.get("args", ()))
        if isinstance(word, str) and 0 < len(word) < _MOST_PATH_CHARS and "\0" not in word
    ]
    paths = [folder / os.path.expanduser(word) for word in words]
    return [path for path in paths if path.is_file()]


def possible_files(text: str, folder: Path) -> list[Path]:
    """List the files that a reference may lead to, whether they exist or not."""
    try:
        reference = _parse(text, folder)
    except UsageError:
        return []
    return [reference.file]


def _parse(text: str, folder: Path) -> _Reference:
    is_file = text.endswith((".py", ".md"))
    target, _, name = (text, "", "") if is_file else text.rpartition(":")
    right = not name or all(part.isidentifier() for part in name.split("."))
    if (target.endswith(".py") and right) or (target.endswith(".md") and not name):
        return _Reference(folder / os.path.expanduser(target), "", name)
    if name and right and all(part.isidentifier() for part in target.split(".")):
        return _Reference(folder / f"{target.replace('.', '/')}.py", target, name)
    raise UsageError(f"{text!r:.200} names no tools: {_FORM}")


def _is_beside(reference: _Reference) -> bool:
    """Return True if a module is the file beside the configuration, and no installed one."""
    if not reference.file.is_file():
        return False
    try:
        spec = importlib.util.find_spec(reference.module)
    except (ImportError, ValueError):
        return True
    # `python -m ptc` searches the current folder, too.
    origin = None if spec is None else spec.origin
    return origin is None or os.path.realpath(origin) == os.path.realpath(reference.file)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failure(name, error) from error
        file = f"{name.replace('.', '/')}.py"
        msg = f"no module {name!r} is installed, and there is no file {file} to load instead"
        raise UsageError(msg) from None
    except (Exception, SystemExit) as error:
        raise _failure(name, error) from error


def _execute(path: Path, *, named: bool) -> tuple[ModuleType, frozenset[str]]:
    """Execute a file as a module; return it with the names that its imports bind."""
    source = read_bytes(path, None if named else _OWNER_REMEDY)
    digest = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:12]
    name = f"ptc_file_{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}_{digest}"
    module = ModuleType(name)
    module.__file__ = str(path.absolute())
    # Type hints are evaluated in the module that `sys.modules` has under the name of a function.
    sys.modules[name] = module
    try:
        tree = ast.parse(source, module.__file__)
        code = compile(tree, module.__file__, "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102  # trusted code of the operator
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failure(path.name, error, module.__file__) from error
    return module, frozenset(_imported_names(tree))


def _imported_names(tree: ast.Module) -> Iterator[str]:
    todo: list[ast.stmt] = list(tree.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            todo += [child for child in ast.walk(node) if isinstance(child, ast.stmt)][1:]


def _collect(module: ModuleType, imported: frozenset[str]) -> list[_Source]:
    """List the tools, toolsets and providers that a file defines at its top level.

    Objects of agent frameworks count, too.
    """
    found: dict[int, _Source] = {}
    for name, value in list(vars(module).items()):
        if name in imported or name.startswith("_"):
            continue
        # An adapter refuses other objects, such as a client of the framework.
        with suppress(UsageError):
            if (source := _source_of(value)) is not None:
                found[id(value)] = source
    members = {id(tool) for value in found.values() if isinstance(value, Toolset) for tool in value}
    # A tool of the file that is also in one of its toolsets is there once.
    kept = [value for key, value in found.items() if key not in members]
    if not kept:
        file = Path(str(module.__file__)).name
        msg = f"{file} defines no tool at its top level; write a function under @ptc.tool"
        raise UsageError(msg)
    return kept


def _find(module: ModuleType, name: str) -> list[_Source]:
    value: Any = module
    shown = Path(str(module.__file__)).name if module.__file__ else module.__name__
    for part in name.split("."):
        if not hasattr(value, part):
            names = [n for n in dir(value) if not n.startswith("_")]
            raise UsageError(f"{shown} has no {part!r}{nearest(part, names)}")
        value = getattr(value, part)
    items = list(value) if isinstance(value, list | tuple) else [value]
    sources = []
    for item in items:
        source = _source_of(item)
        if source is None:
            kinds = "a Tool, a Toolset, a ToolProvider, a tool of a framework, or a list of them"
            raise UsageError(f"{name} in {shown} must be {kinds}, not {item!r:.80}")
        sources.append(source)
    return sources


def _source_of(value: Any) -> _Source | None:
    """Return a source of tools, converted if it is of an agent framework; None: it is none.

    Raises:
        UsageError: If the adapter of its framework refuses it.
    """
    if isinstance(value, _Source):
        return value
    found: _Source | None = adapt(value)
    return found


def _failure(what: str, error: BaseException, file: str = "") -> UsageError:
    line = error.lineno if isinstance(error, SyntaxError) else _line_in(error.__traceback__, file)
    where = f", line {line}" if line else ""
    msg = f"{what}{where}: {type(error).__name__}: {str(error)[:400]}"
    if isinstance(error, ModuleNotFoundError) and file and error.name:
        beside = Path(file).with_name(error.name.partition(".")[0])
        if beside.is_dir() or beside.with_suffix(".py").exists():
            msg += (
                ". Modules beside a tools file are not imported, because scripts may write files "
                "there: install the module, or name its tools as a file of their own"
            )
    return UsageError(msg)


def _line_in(traceback: TracebackType | None, file: str) -> int | None:
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _files_of(name: str) -> list[Path]:
    """List the file of a module, or the folder of its package, and its cached bytecode."""
    top = sys.modules.get(name.partition(".")[0])
    file = getattr(top, "__file__", None)
    if top is None or not isinstance(file, str):
        return []
    path = Path(file)
    if path.name == "__init__.py":
        return [path.parent]
    cached = getattr(top, "__cached__", None)
    return [path, *([Path(cached)] if isinstance(cached, str) else [])]
