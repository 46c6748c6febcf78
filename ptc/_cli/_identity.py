"""Options about the person at the command line: who decides, and whether to ask."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["as_option", "by_option", "no_input_option", "reason_option"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def user_name() -> str:
    """Return the name of the operating system's user, for the record of a decision."""
    try:
        import pwd
    except ImportError:
        return os.getlogin()  # Windows: it asks the system, as below

    number = os.getuid()
    try:
        # Not `getpass.getuser`, which reads LOGNAME and USER: any process can set these.
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run as a user without a name
        return f"user {number}"


def as_option(command: _Command) -> _Command:
    """Add the option ``--as`` to `command`; the parameter is `by`."""
    text = "Your name, for the record of decisions. [default: your user name]"
    return click.option("--as", "by", default=user_name, metavar="NAME", help=text)(command)


def by_option(command: _Command) -> _Command:
    """Add the option ``--as``, also spelled ``--by``, to `command`."""
    text = "Your name, for the record of the decision. [default: your user name]"
    return click.option("--as", "--by", "by", default=user_name, metavar="NAME", help=text)(command)


def reason_option(command: _Command) -> _Command:
    """Add the option ``--reason``, also spelled ``--comment``, to `command`."""
    text = "Reason, for the record; the script receives that of a rejected call."
    return click.option("--reason", "--comment", "comment", default="", metavar="TEXT", help=text)(
        command
    )


def no_input_option(command: _Command) -> _Command:
    """Add the option ``--no-input`` to `command`."""
    text = "Do not ask about calls on a terminal: pause the run for them."
    return click.option("--no-input", is_flag=True, help=text)(command)
