"""Options that commands share, and the session they describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .._records._limits import Limits
from ..errors import UsageError

if TYPE_CHECKING:
    from .._session import Session

__all__ = [
    "in_words_of_options",
    "isolation_option",
    "journal_in_root_option",
    "journal_option",
    "json_option",
    "limit_options",
    "limits_of",
    "model_option",
    "names_of",
    "open_session",
    "package_option",
    "require_tool",
    "root_option",
    "toolset_option",
    "unprotect_option",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_LIMITS = {
    "timeout_ms": "Wall time of the run, tools included.",
    "max_cpu_ms": "CPU time of the script's process.",
    "max_tool_calls": "Tool calls the script may make.",
    "tool_timeout_ms": "Time of one tool call; one that takes longer is cancelled.",
    "max_output_bytes": "JSON bytes of the value; a larger one is cut and kept whole in a file.",
    "max_memory_bytes": "Memory the script may use.",
}
"""The limits that have an option, and its help. Their defaults are those of `Limits`."""


def limit_options(command: _Command) -> _Command:
    """Give `command` one option for each limit of `_LIMITS`."""
    for name, text in reversed(_LIMITS.items()):
        usual = getattr(Limits(), name)
        option = click.option(
            f"--{name.replace('_', '-')}",
            type=int,
            metavar="N",
            help=f"{text} [default: {usual:,}]",
        )
        command = option(command)
    return click.option(
        "--max-calls-by-tool",
        multiple=True,
        metavar="TOOL=N",
        help="Calls of one tool; repeat it for more tools.",
    )(command)


def limits_of(given: Mapping[str, Any]) -> Limits:
    """The limits that the options in `given` ask for; None is the default.

    Raises:
        UsageError: If a number is out of its range.
    """
    asked = {name: value for name, value in given.items() if value is not None}
    asked["max_calls_by_tool"] = _calls_by_tool(asked.get("max_calls_by_tool", ()))
    try:
        return Limits(**asked)
    except UsageError as error:
        raise in_words_of_options(error) from None


def _calls_by_tool(pairs: Iterable[str]) -> dict[str, int]:
    calls: dict[str, int] = {}
    for pair in pairs:
        name, sign, number = pair.rpartition("=")
        if not sign or not name or not re.fullmatch(r"-?[0-9]{1,9}", number):
            msg = f"--max-calls-by-tool {pair!r:.80}: write TOOL=N, as bash=3"
            raise UsageError(msg)
        if name in calls:
            msg = f"--max-calls-by-tool names {name!r} twice; give one number"
            raise UsageError(msg)
        calls[name] = int(number)
    return calls


def root_option(command: _Command) -> _Command:
    """Give `command` the option ``--root``."""
    text = "Folder the tools are confined to. [default: the current folder]"
    return click.option("--root", default=".", metavar="DIR", help=text)(command)


def toolset_option(command: _Command) -> _Command:
    """Give `command` the option ``--toolset``."""
    text = "Installed toolset to use; repeat it for more. [default: builtin]"
    return click.option("--toolset", "toolsets", multiple=True, metavar="NAME", help=text)(command)


def isolation_option(command: _Command) -> _Command:
    """Give `command` the option ``--isolation``."""
    return click.option(
        "--isolation",
        type=click.Choice(["jail", "process"]),
        default="jail",
        help="jail: every kernel layer, or nothing runs. process: those that this machine has; "
        "without seccomp or Landlock one bug in the language layer is your own user's rights. "
        "[default: jail]",
    )(command)


def package_option(command: _Command) -> _Command:
    """Give `command` the option ``--package``."""
    text = (
        "Installed package the script may import, such as numpy; repeat it for more. Only the jail "
        "fences in a script that has one."
    )
    return click.option("--package", "packages", multiple=True, metavar="NAME", help=text)(command)


def journal_option(command: _Command) -> _Command:
    """Give `command` the option ``--journal``."""
    text = "File that runs are recorded in. [default: a file for --root in your state directory]"
    return click.option("--journal", metavar="FILE", help=text)(command)


def journal_in_root_option(command: _Command) -> _Command:
    """Give `command` the option ``--journal-in-root``."""
    text = (
        "Allow a journal inside --root. Scripts that may write there can then record approvals "
        "that nobody gave, and read the inputs and results of all runs."
    )
    return click.option("--journal-in-root", is_flag=True, help=text)(command)


def unprotect_option(command: _Command) -> _Command:
    """Give `command` the option ``--unprotect``."""
    text = (
        "Protected path that tools may change, such as .vscode or git; repeat it for more. Other "
        "programs execute what is written there. docs/security.md has the table."
    )
    return click.option("--unprotect", "unprotected", multiple=True, metavar="NAME", help=text)(
        command
    )


def model_option(command: _Command) -> _Command:
    """Give `command` the option ``--model``."""
    text = "Model that `generate_object` asks; without one there is no such tool."
    return click.option(
        "--model", envvar="PTC_MODEL", show_envvar=True, metavar="PROVIDER:NAME", help=text
    )(command)


def json_option(text: str) -> Callable[[_Command], _Command]:
    """Give a command the option ``--json`` with its own help."""
    return click.option("--json", "as_json", is_flag=True, help=text)


def names_of(given: Iterable[str]) -> list[str]:
    """The names in options that may be repeated and hold several, separated by commas."""
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


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
) -> Session:
    """A session for one command: one worker is kept ready, for there is one run.

    Raises:
        UsageError: If an option is wrong, in the words of the options.
        SetupError: If a toolset is installed and cannot be loaded.
    """
    from .._session import Session

    try:
        names = names_of(toolsets) or ["builtin"]
        return Session(
            root,
            toolsets=names,
            limits=limits,
            isolation=isolation,
            packages=names_of(packages),
            unprotected=names_of(unprotected),
            workers=1,
            journal=journal,
            journal_in_root=journal_in_root,
            model=model,
        )
    except UsageError as error:
        raise in_words_of_options(error) from None


def require_tool(name: str, names: list[str]) -> None:
    """Refuse the name of no tool, before an event loop is started for it.

    Raises:
        UsageError: With the nearest of `names`.
    """
    from .._arguments import nearest

    if name not in names:
        known = ", ".join(names) or "none"
        msg = f"there is no tool {name!r}{nearest(name, names)}; tools: {known}"
        raise UsageError(msg)


def in_words_of_options(error: UsageError) -> UsageError:
    """The same error, with the SDK's names of arguments replaced by those of options."""
    message = re.sub(
        r"\bLimits\.(\w+)", lambda found: "--" + found[1].replace("_", "-"), str(error)
    )
    message = re.sub(r"^allowed_tools: ", "--allow: ", message)
    message = re.sub(r"^packages: ", "--package: ", message)
    message = re.sub(r"^unprotected: ", "--unprotect: ", message)
    message = re.sub(r"^(inputs|root|model|journal)\b", r"--\1", message)
    message = message.replace("journal_in_root=True", "--journal-in-root")
    return UsageError(message)
