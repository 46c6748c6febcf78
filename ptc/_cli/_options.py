"""Options shared by commands: one for each configuration key, and the session that they describe.

A command names the keys that matter to it, and receives one argument, its `Settings`.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .._config._keys import KEYS, Key
from ..errors import UsageError
from ..journal._address import is_address

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._session._session import Session

__all__ = [
    "DECISION_KEYS",
    "HISTORY_KEYS",
    "RUN_KEYS",
    "TOOL_KEYS",
    "command_line",
    "json_option",
    "load_tools",
    "open_session",
    "require_tool",
    "script_options",
    "settings_options",
    "start_workers_early",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

HISTORY_KEYS = ("root", "journal")
"""Keys of commands that read recorded runs."""
DECISION_KEYS = (*HISTORY_KEYS, "webhook")
"""Keys of commands that decide on a call."""
TOOL_KEYS = (
    *(
        "root",
        "toolsets",
        "tools",
        "skills",
        "mcp_servers",
        "mcp_config",
        "builtin.network",
        "builtin.git_writes",
        "builtin.readable",
    ),
    *("env", "untrusted", "unprotected", "protected", "model", "programs"),
)
"""Keys of commands that use tools and no script."""
RUN_KEYS = tuple(
    name
    for name, key in KEYS.items()
    if name in TOOL_KEYS or (key.option and not name.startswith("ceiling."))
)
"""Keys of commands that run scripts: all that have an option."""

_LISTS = ("list", "paths", "counts", "variables", "servers")


def settings_options(
    *names: str, check_trust: bool = True, starts_workers: bool = False
) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the options of keys, and passes the command its `settings`.

    Every key can also be set with ``--set``, and comes from the environment and the configuration
    file otherwise.

    Args:
        *names: Keys whose options the command shows.
        check_trust: False: also read a ``[tool.ptc]`` that is not trusted.
        starts_workers: True: every use of the command runs a script.
    """

    def decorate(command: _Command) -> _Command:
        @wraps(command)
        def with_settings(
            *args: Any,
            config: str | None,
            no_config: bool,
            set_pairs: tuple[str, ...],
            **options: Any,
        ) -> Any:
            from .._config._settings import load_settings

            overrides = {}
            for name in names:
                value = options.pop(_parameter(name))
                if value is not None and value != ():
                    overrides[name] = _convert(KEYS[name], value)
            for name, value in _parse_pairs(set_pairs).items():
                if name in overrides:
                    raise UsageError(f"--set {name} and {KEYS[name].flag} set the same key")
                overrides[name] = value
            if config is not None and no_config:
                raise UsageError("--config and --no-config exclude each other")
            settings = load_settings(
                overrides,
                config=config,
                use_file=not no_config,
                check_trust=check_trust,
                before_validation=start_workers_early if starts_workers else None,
            )
            return command(*args, settings=settings, **options)

        decorated: Any = with_settings
        for option in reversed([*(_option(KEYS[name]) for name in names), *_FILE_OPTIONS]):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]  # click returns what it was given

    return decorate


_FILE_OPTIONS = (
    click.option(
        "--config",
        metavar="FILE",
        help="Configuration file. [default: ptc.toml, or [tool.ptc] in pyproject.toml, in the root "
        "or the nearest folder above it]",
    ),
    click.option("--no-config", is_flag=True, help="Ignore configuration files."),
    click.option(
        "--set",
        "set_pairs",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set any configuration key, as in limits.max_emits=50; may be repeated.",
    ),
)


def _parameter(name: str) -> str:
    return "key_" + name.replace(".", "_")


def _option(key: Key) -> Callable[[_Command], _Command]:
    options: dict[str, Any] = {"default": None, "help": key.help}
    if key.choices:
        options["type"] = click.Choice(key.choices)
    elif key.kind == "number":
        options["type"] = int
        if key.default is not None:
            options["help"] += f" [default: {key.default:,}]"
    if key.kind in _LISTS:
        options |= {"multiple": True, "default": ()}
    if key.metavar:
        options["metavar"] = key.metavar
    return click.option(key.option, *key.aliases, _parameter(key.name), **options)


def _convert(key: Key, value: Any) -> Any:
    from .._config._settings import parse_pairs, parse_servers, parse_text

    if key.kind == "servers":
        return parse_servers(list(value), key.flag)
    if key.kind in ("counts", "variables"):
        return parse_pairs(key, list(value), key.flag)
    if key.kind in ("list", "paths"):
        return [item for text in value for item in parse_text(key, text, key.flag)]
    return value


def _parse_pairs(pairs: tuple[str, ...]) -> dict[str, Any]:
    from .._config._settings import parse_text
    from .._core._arguments import nearest

    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise UsageError(f"--set {pair!r:.80}: write KEY=VALUE, as in limits.max_emits=50")
        if name not in KEYS:
            raise UsageError(f"--set: {name!r} is not a key{nearest(name, KEYS)}")
        if name in found:
            raise UsageError(f"--set names {name} twice; name it once")
        found[name] = parse_text(KEYS[name], text, f"--set {name}")
    return found


def command_line(settings: Settings) -> list[str]:
    """Return options that set the same values again, in any folder.

    Values of the environment are among them, since another program has another environment.
    """
    options: list[str] = []
    if settings.file is not None:
        # Also one that was found: the other program may start in a folder that does not find it.
        options += ["--config", str(settings.file)]
    if settings.ignored:
        options.append("--no-config")
    for setting in settings:
        if setting.origin not in ("command line", "environment") or setting.key.name == "root":
            continue
        key, value = setting.key, setting.value
        if key.name == "allow":
            options += [key.option, ",".join(value)]
        elif key.kind == "flag":
            options.append(key.option.split("/")[0 if value else 1])
        else:
            for text in _texts(key, value):
                options += [key.option, text] if key.option else ["--set", f"{key.name}={text}"]
    return options


def _texts(key: Key, value: Any) -> list[str]:
    if key.kind == "servers":
        return [
            f"{name}={server.get('url') or shlex.join([server['command'], *server['args']])}"
            for name, server in value.items()
        ]
    if isinstance(value, Mapping):
        return [f"{name}={item}" for name, item in value.items()]
    texts = value if isinstance(value, list) else [str(value)]
    is_path = key.kind == "paths" or (
        key.kind == "path" and value != ":memory:" and not is_address(value)
    )
    return [
        str(Path(text).expanduser().absolute())
        if is_path or (key.name == "tools" and ".py" in text)
        else text
        for text in texts
    ]


def script_options(command: _Command) -> _Command:
    """Add SCRIPT, ``--input`` and ``--inputs``, which `_inputs.read_program` reads."""
    add_argument = click.argument("script", metavar="SCRIPT")
    add_pairs = click.option(
        "--input",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="An input of the script; may be repeated. Overrides --inputs.",
    )
    add_file = click.option(
        "--inputs", metavar="FILE", help="JSON file with an object of inputs; - reads stdin."
    )
    return add_argument(add_pairs(add_file(command)))


def json_option(text: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the option ``--json`` with the help `text`."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def start_workers_early(settings: Mapping[str, Any]) -> None:
    """Start the process that forks the workers, for a command that is certain to need it.

    It gets ready while this process imports the modules of a session. The values need not be valid.
    """
    from .._runs._packages import validate_packages
    from .._workers._isolation import validate_isolation
    from .._workers._spawn import spawn_early

    if settings["engine"] == "wasm" or settings["reuse_workers"]:
        return
    # Wrong values are reported when they are validated.
    with contextlib.suppress(UsageError, TypeError):
        isolation = validate_isolation(settings["isolation"])
        spawn_early(isolation, validate_packages(settings["packages"]))


def open_session(
    settings: Settings, *, artifacts: Path | None = None, workers: int = 1, **options: Any
) -> Session:
    """Create the session of a command, by default with one ready worker for one run.

    Args:
        settings: Its settings.
        artifacts: Folder of stored files. None: as the settings have it.
        workers: Ready workers, unless the settings have a number.
        **options: Arguments of `Session` that override the settings.

    Raises:
        UsageError: If a setting is invalid; the message names its source.
        SetupError: If an installed toolset cannot be loaded.
    """
    from .._config._session_arguments import session_arguments
    from .._session._session import Session
    from ._terminal import result_file

    result_file()  # before the files of tools are executed
    try:
        arguments: dict[str, Any] = {"workers": workers, **session_arguments(settings)}
        if artifacts is not None:
            arguments["artifacts"] = artifacts
        if arguments["telemetry"]:
            from .._telemetry._export import export_from_environment

            arguments["telemetry"] = export_from_environment()
        session = Session(**{**arguments, **options})
    except UsageError as error:
        raise settings.explain(error) from None
    session.explain = settings.explain
    return session


def load_tools(session: Session) -> None:
    """Start the servers of a session's tools and end them again, so that all tools are known.

    Raises:
        SetupError: If a server does not start.
    """
    if session.knows_all_tools:
        return
    import anyio

    async def open_once() -> None:
        async with session:
            pass

    anyio.run(open_once)


def require_tool(name: str, names: list[str]) -> None:
    """Reject an unknown tool before an event loop is started.

    Raises:
        UsageError: If `name` is not in `names`; the message suggests the nearest.
    """
    from .._core._arguments import nearest

    if name not in names:
        known = ", ".join(names) or "none"
        msg = f"there is no tool {name!r}{nearest(name, names)}; tools: {known}"
        raise UsageError(msg)
