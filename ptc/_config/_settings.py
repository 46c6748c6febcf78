"""Effective settings: of the command line, the environment, a file, and the defaults."""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .._core._arguments import nearest
from .._dataclass import dataclass
from ..artifacts._open import is_address as is_store_address
from ..errors import UsageError
from ..journal._address import EMBEDDED, is_address
from ._file import ConfigFile, find_file, load_file
from ._keys import KEYS, Key

__all__ = [
    "Setting",
    "Settings",
    "load_settings",
    "parse_pairs",
    "parse_servers",
    "parse_text",
    "unknown_variables",
]

_OTHER_VARIABLES = (
    "PTC_CONFIG",
    "PTC_LOG_FORMAT",
    "PTC_LOG_LEVEL",
    "PTC_MCP_TOKEN",
    "PTC_NO_CONFIG",
    "PTC_SHARED",
    "PTC_WEBHOOK_SECRET",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Effective value of a key, and its source."""

    key: Key
    value: Any
    origin: str
    """``default``, ``file``, ``environment``, ``command line``, or ``arguments`` of a function."""
    folder: Path
    """Folder that relative paths of the value are relative to."""
    file: ConfigFile | None = None
    """File that the value comes from."""

    @property
    def place(self) -> str:
        """Place of the value: ``ptc.toml:3``, ``PTC_ROOT``, ``--root``, or "" for a default."""
        if self.file is not None:
            return f"{self.file.shown}:{self.file.line(*self.key.name.split('.'))}"
        return {
            "environment": self.key.variable,
            "command line": self.key.flag,
            "arguments": self.key.name,
        }.get(self.origin, "")

    @property
    def subject(self) -> str:
        """Place and name, which messages start with."""
        return _subject(self.key.name, self.origin, self.file)

    def resolve(self, text: str) -> Path:
        """Return the path of a path in the value; as it is if relative to the current folder."""
        path = Path(os.path.expanduser(text))
        return path if self.file is None else self.folder / path


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings by name of key."""

    by_name: Mapping[str, Setting]
    file: Path | None
    """The configuration file; None if there is none."""
    named: bool
    """True if the operator named the file, False if it was found."""
    ignored: bool
    """True if files are ignored."""
    start: Path
    """Folder in which the search for the file started, the default root."""

    def __getitem__(self, name: str) -> Any:
        return self.by_name[name].value

    def __iter__(self) -> Iterator[Setting]:
        return iter(self.by_name.values())

    def is_set(self, name: str) -> bool:
        """Return True if the value is not the default."""
        return self.by_name[name].origin != "default"

    def is_given(self, name: str) -> bool:
        """Return True if the value comes from the command line."""
        return self.by_name[name].origin == "command line"

    @property
    def root(self) -> Path:
        """The root, which need not exist."""
        return self.path("root") or self.start

    def path(self, name: str) -> Path | None:
        """Return the path that is the value of a key; None if it is the default."""
        setting = self.by_name[name]
        return setting.resolve(setting.value) if setting.origin != "default" else None

    def journal(self) -> Path | str | None:
        """Return the journal: a path, ``:memory:``, or an address; None if it is the default."""
        value = self["journal"]
        if isinstance(value, str) and value.startswith(EMBEDDED) and value != EMBEDDED:
            folder = self.by_name["journal"].resolve(value.removeprefix(EMBEDDED))
            return f"{EMBEDDED}{folder.absolute()}"
        return value if value == ":memory:" or is_address(value) else self.path("journal")

    def artifacts(self) -> Path | str | None:
        """Return the store of artifacts: a folder, or an address; None if it is the default."""
        value = self["artifacts"]
        return value if is_store_address(value) else self.path("artifacts")

    def model(self) -> str:
        """Return the name of the model. Raises `UsageError` if there is none."""
        name: str | None = self["model"]
        if name is None:
            msg = "no model is configured; pass --model PROVIDER:NAME or set PTC_MODEL"
            raise UsageError(msg)
        return name

    def paths(self, name: str) -> list[Path]:
        """Return the absolute paths in the value of a key."""
        setting = self.by_name[name]
        return [setting.resolve(text).absolute() for text in setting.value]

    def set_values(self, table: str) -> dict[str, Any]:
        """Return the values of a table that are not the defaults, by name in the table."""
        return {
            name.removeprefix(f"{table}."): setting.value
            for name, setting in self.by_name.items()
            if name.startswith(f"{table}.") and setting.origin != "default"
        }

    def explain(self, error: UsageError) -> UsageError:
        """Return the same error with names of arguments replaced by the sources of their values."""
        message = re.sub(
            r"^(limits|ceiling): Limits\.(\w+)",
            lambda found: self._subject(f"{found[1]}.{found[2]}"),
            str(error),
        )
        message = re.sub(
            r"\bLimits\.(\w+)", lambda found: self._subject(f"limits.{found[1]}"), message
        )
        if above := re.fullmatch(r"limits are above the ceiling: ([\w, ]+)", message):
            message = (
                "; ".join(
                    f"{self._subject(f'limits.{name}')} is {self[f'limits.{name}']:,}, above "
                    f"ceiling.{name}, which is {self[f'ceiling.{name}']:,}"
                    for name in above[1].split(", ")
                    if name != "max_calls_by_tool"
                )
                or message
            )
        for name, argument in _ARGUMENTS.items():
            if message.startswith(f"{argument}: "):
                message = self._subject(name) + message.removeprefix(argument)
        message = re.sub(r"^(root|model|journal)\b", lambda found: self._subject(found[1]), message)
        unset = [name for name in self["env"].values() if name not in os.environ]
        if str(error).startswith("env: ") and unset:
            message += f"; not set in the environment: {', '.join(unset)}"
        message = re.sub(r"^inputs\b", "--inputs", message)
        message = message.replace("journal_in_root=True", "--journal-in-root")
        return UsageError(message)

    def _subject(self, name: str) -> str:
        setting = self.by_name.get(name)
        return name if setting is None else setting.subject


_ARGUMENTS = {
    "allow": "allowed_tools",
    "packages": "packages",
    "reuse_workers": "reuse_workers",
    "unprotected": "unprotected",
    "protected": "protected",
    "env": "env",
    "webhook": "webhook",
}
"""Keys, and the arguments of `Session` that have their values."""


def _subject(name: str, origin: str, file: ConfigFile | None = None) -> str:
    if file is not None:
        return f"{file.shown}:{file.line(*name.split('.'))}: {name}"
    key = KEYS.get(name)
    if key is None or origin == "arguments":
        return name
    return key.variable if origin == "environment" else key.flag


def load_settings(
    overrides: Mapping[str, Any] | None = None,
    *,
    config: str | Path | None = None,
    use_file: bool = True,
    environment: Mapping[str, str] | None = None,
    check_trust: bool = True,
    origin: str = "command line",
    before_validation: Callable[[Mapping[str, Any]], None] | None = None,
) -> Settings:
    """Load the settings of a command or session.

    Args:
        overrides: Values of the command line by name of key, in their types.
        config: Configuration file. None: `PTC_CONFIG`, or the nearest from the root upwards.
        use_file: False: no file. `PTC_NO_CONFIG` has the same effect unless `config` is passed.
        environment: Environment variables. Default: those of the process.
        check_trust: False: accept a ``[tool.ptc]`` that is not trusted, to show it.
        origin: Source of `overrides`, see `Setting.origin`.
        before_validation: Receives the values by name of key, of any type, since to validate them
            takes 60 ms: time in which a process can start.

    Raises:
        UsageError: If a value or the file is wrong; the message has a line for each problem.
    """
    variables = os.environ if environment is None else environment
    here = Path.cwd()
    read, given = _from_variables(variables), overrides or {}
    env = _Layer("environment", here, _nested(read))
    line = _Layer(origin, here, _nested(given))
    root = given.get("root", read.get("root"))
    start = here / os.path.expanduser(root) if isinstance(root, str) else here
    if config is None and variables.get("PTC_NO_CONFIG", "") not in ("", "0"):
        use_file = False
    named = str(config or (variables.get("PTC_CONFIG") if use_file else None) or "")
    file = None
    if named:
        path = Path(os.path.abspath(os.path.expanduser(named)))
        file = load_file(path, named=True, check_trust=check_trust)
    elif use_file and (nearest_file := find_file(start.resolve())) is not None:
        # Resolved: the folders above are those above the root itself, not above a link to it.
        file = load_file(nearest_file, named=False, check_trust=check_trust)
    layers = [env, line]
    if file is not None:
        layers.insert(0, _Layer("file", file.path.parent, file.table, file))
    if before_validation is not None:
        defaults = {name: key.default for name, key in KEYS.items()}
        tables = [layer.table for layer in reversed(layers) if isinstance(layer.table, dict)]
        before_validation(ChainMap(*tables, defaults))
    for layer in layers:
        layer.validate()
    by_name = {}
    for name, key in KEYS.items():
        by_name[name] = Setting(key, key.default, "default", here)
        for layer in layers:
            if name in layer.values:
                value = layer.values[name]
                by_name[name] = Setting(key, value, layer.origin, layer.folder, layer.file)
    return Settings(by_name, None if file is None else file.path, bool(named), not use_file, start)


def _from_variables(variables: Mapping[str, str]) -> dict[str, Any]:
    """Read the keys that have a variable. Empty means "none" for a list, and unset for others."""
    found: dict[str, Any] = {}
    for key in KEYS.values():
        text = variables.get(key.variable)
        if text or (text == "" and key.kind in ("list", "paths")):
            found[key.name] = parse_text(key, text, key.variable)
    return found


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by full name of key, nested as in a file."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        table, _, last = name.rpartition(".")
        (nested.setdefault(table, {}) if table else nested)[last] = value
    return nested


class _Layer:
    """Values of one source."""

    def __init__(
        self, origin: str, folder: Path, table: object, file: ConfigFile | None = None
    ) -> None:
        self.origin = origin
        self.folder = folder
        self.table = table
        self.file = file
        self.values: dict[str, Any] = {}

    def validate(self) -> None:
        """Set the values from the table. Raises `UsageError`."""
        if not self.table and self.file is None:
            return
        # Imported here because pydantic takes long, and many commands have no configuration.
        from ._schema import validate

        self.values = validate(self.table, lambda name: _subject(name, self.origin, self.file))


def parse_text(key: Key, text: str, subject: str) -> Any:
    """Convert the text of an option or variable to the type of its key, as far as it can be.

    Raises:
        UsageError: If pairs of names and values are malformed.
    """
    if key.kind == "flag":
        return {"1": True, "true": True, "0": False, "false": False}.get(text.lower(), text)
    if key.kind == "number":
        return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text
    if key.kind in ("list", "paths"):
        from .._tools._allow_text import split_entries

        return split_entries(text)
    if key.kind in ("counts", "variables"):
        return parse_pairs(key, text.split(","), subject)
    if key.kind == "servers":
        return parse_servers(text.splitlines(), subject)
    return text


def parse_servers(lines: list[str], subject: str) -> dict[str, Any]:
    """Convert texts such as ``files=npx some-server`` or ``shop=https://...`` to servers.

    Raises:
        UsageError: If one is malformed, or a name is repeated.
    """
    import shlex

    found: dict[str, Any] = {}
    for line in filter(str.strip, lines):
        name, _, target = (part.strip() for part in line.partition("="))
        try:
            words = [target] if re.match(r"https?://", target) else shlex.split(target)
        except ValueError:
            words = []
        if not name or not words:
            # Without the arguments, which may hold a secret.
            msg = f"{subject} {name!r:.80}: write NAME=COMMAND ARGUMENT... or NAME=https://..."
            raise UsageError(msg)
        if name in found:
            raise UsageError(f"{subject} names {name!r} twice; name it once")
        is_url = words == [target] and "://" in target
        found[name] = {"url": target} if is_url else {"command": words[0], "args": words[1:]}
    return found


def parse_pairs(key: Key, pairs: list[str], subject: str) -> dict[str, Any]:
    """Convert texts such as ``bash=3`` to a table.

    Raises:
        UsageError: If one is malformed, or a name is repeated.
    """
    counts = key.kind == "counts"
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = (part.strip() for part in pair.partition("="))
        right = re.fullmatch(r"-?[0-9]{1,9}", value) if counts else value
        if not sign or not name or not right:
            form = "TOOL=N, as in bash=3" if counts else "NAME=VARIABLE, as in api_key=SHOP_API_KEY"
            # Without the value, which may be a secret.
            shown = repr(pair)[:80] if counts else repr(name)[:80]
            raise UsageError(f"{subject} {shown}: write {form}")
        if name in found:
            raise UsageError(f"{subject} names {name!r} twice; name it once")
        found[name] = int(value) if counts else value
    return found


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return a message for each variable ``PTC_...`` that ptc does not read."""
    known = [*(key.variable for key in KEYS.values()), *_OTHER_VARIABLES]
    return [
        f"{name} is not a variable of ptc{nearest(name, known)}"
        for name in sorted(environment)
        if name.startswith("PTC_") and name not in known
    ]
