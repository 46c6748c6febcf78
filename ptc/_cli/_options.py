"""Options shared by commands, and the session that they configure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .._records._limits import Limits
from ..errors import UsageError

if TYPE_CHECKING:
    from .._session import Session

__all__ = [
    "isolation_option",
    "journal_in_root_option",
    "journal_option",
    "json_option",
    "limit_options",
    "model_option",
    "open_session",
    "package_option",
    "parse_limits",
    "require_tool",
    "root_option",
    "split_names",
    "toolset_option",
    "unprotect_option",
    "with_option_names",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_LIMITS = {
    "timeout_ms": "Wall time of the run, tools included, in ms.",
    "max_cpu_ms": "CPU time of the script's process, in ms.",
    "max_tool_calls": "Tool calls that the script may make.",
    "tool_timeout_ms": "Wall time of one tool call in ms; a longer call is cancelled.",
    "max_output_bytes": "Bytes of the value's JSON; a larger value is truncated and stored whole "
    "in a file.",
    "max_memory_bytes": "Memory that the script may use.",
}
"""Limits with an option, and its help. The defaults are those of `Limits`."""


def limit_options(command: _Command) -> _Command:
    """Add one option for each limit of `_LIMITS` to `command`."""
    for name, text in reversed(_LIMITS.items()):
        default = getattr(Limits(), name)
        option = click.option(
            f"--{name.replace('_', '-')}",
            type=int,
            metavar="N",
            help=f"{text} [default: {default:,}]",
        )
        command = option(command)
    return click.option(
        "--max-calls-by-tool",
        multiple=True,
        metavar="TOOL=N",
        help="Calls of one tool, as in bash=3; may be repeated.",
    )(command)


def parse_limits(options: Mapping[str, Any]) -> Limits:
    """Build the limits from the values of `limit_options`; None means the default.

    Raises:
        UsageError: If a number is out of its range.
    """
    values = {name: value for name, value in options.items() if value is not None}
    values["max_calls_by_tool"] = _calls_by_tool(values.get("max_calls_by_tool", ()))
    try:
        return Limits(**values)
    except UsageError as error:
        raise with_option_names(error) from None


def _calls_by_tool(pairs: Iterable[str]) -> dict[str, int]:
    calls: dict[str, int] = {}
    for pair in pairs:
        name, sign, number = pair.rpartition("=")
        if not sign or not name or not re.fullmatch(r"-?[0-9]{1,9}", number):
            msg = f"--max-calls-by-tool {pair!r:.80}: write TOOL=N, as in bash=3"
            raise UsageError(msg)
        if name in calls:
            msg = f"--max-calls-by-tool names {name!r} twice; name each tool once"
            raise UsageError(msg)
        calls[name] = int(number)
    return calls


def root_option(command: _Command) -> _Command:
    """Add the option ``--root`` to `command`."""
    text = "Folder to which the tools are confined. [default: the current folder]"
    return click.option("--root", default=".", metavar="DIR", help=text)(command)


def toolset_option(command: _Command) -> _Command:
    """Add the option ``--toolset`` to `command`."""
    text = "Installed toolset to use; may be repeated. [default: builtin]"
    return click.option("--toolset", "toolsets", multiple=True, metavar="NAME", help=text)(command)


def isolation_option(command: _Command) -> _Command:
    """Add the option ``--isolation`` to `command`."""
    return click.option(
        "--isolation",
        type=click.Choice(["jail", "process"]),
        default="jail",
        help="jail: require every kernel layer. process: use the layers that this machine has; "
        "without seccomp or Landlock, one bug in the language layer gives a script your user's "
        "rights. [default: jail]",
    )(command)


def package_option(command: _Command) -> _Command:
    """Add the option ``--package`` to `command`."""
    text = (
        "Installed package that the script may import, such as numpy; may be repeated. A script "
        "with packages is confined by the kernel layer alone."
    )
    return click.option("--package", "packages", multiple=True, metavar="NAME", help=text)(command)


def journal_option(command: _Command) -> _Command:
    """Add the option ``--journal`` to `command`."""
    text = "Journal file of recorded runs. [default: a file for --root in your state directory]"
    return click.option("--journal", metavar="FILE", help=text)(command)


def journal_in_root_option(command: _Command) -> _Command:
    """Add the option ``--journal-in-root`` to `command`."""
    text = (
        "Allow a journal inside --root. Scripts that may write there can then forge approvals, "
        "and read the inputs and results of all runs."
    )
    return click.option("--journal-in-root", is_flag=True, help=text)(command)


def unprotect_option(command: _Command) -> _Command:
    """Add the option ``--unprotect`` to `command`."""
    text = (
        "Protected path that tools may change, such as .vscode or git; may be repeated. Other "
        "programs execute files written there. See the table in docs/security.md."
    )
    return click.option("--unprotect", "unprotected", multiple=True, metavar="NAME", help=text)(
        command
    )


def model_option(command: _Command) -> _Command:
    """Add the option ``--model`` to `command`."""
    text = "Model that generates data (the tool generate_object), as in openai:gpt-5."
    return click.option(
        "--model", envvar="PTC_MODEL", show_envvar=True, metavar="PROVIDER:NAME", help=text
    )(command)


def json_option(text: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the option ``--json`` with the help `text`."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def split_names(values: Iterable[str]) -> list[str]:
    """Split the comma-separated values of an option that may be repeated."""
    return [name.strip() for text in values for name in text.split(",") if name.strip()]


def open_session(
    *,
    root: str = ".",
    toolsets: Iterable[str] = (),
    limits: Limits | None = None,
    isolation: str = "jail",
    packages: Iterable[str] = (),
    unprotected: Iterable[str] = (),
    journal: str | None = None,
    journal_in_root: bool = False,
    model: str | None = None,
    artifacts: Path | None = None,
    workers: int = 1,
) -> Session:
    """Create the session of a command, by default with one ready worker for one run.

    Raises:
        UsageError: If an option is invalid; the message names the option.
        SetupError: If an installed toolset cannot be loaded.
    """
    from .._session import Session

    try:
        names = split_names(toolsets) or ["builtin"]
        return Session(
            root,
            toolsets=names,
            limits=limits,
            isolation=isolation,
            packages=split_names(packages),
            unprotected=split_names(unprotected),
            workers=workers,
            artifacts=artifacts,
            journal=journal,
            journal_in_root=journal_in_root,
            model=model,
        )
    except UsageError as error:
        raise with_option_names(error) from None


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


def with_option_names(error: UsageError) -> UsageError:
    """Return the same error with SDK argument names replaced by option names."""
    message = re.sub(
        r"\bLimits\.(\w+)", lambda found: "--" + found[1].replace("_", "-"), str(error)
    )
    message = re.sub(r"^allowed_tools: ", "--allow: ", message)
    message = re.sub(r"^packages: ", "--package: ", message)
    message = re.sub(r"^unprotected: ", "--unprotect: ", message)
    message = re.sub(r"^(inputs|root|model|journal)\b", r"--\1", message)
    message = message.replace("journal_in_root=True", "--journal-in-root")
    return UsageError(message)
