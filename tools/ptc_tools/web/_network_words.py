"""Early, friendly refusals of commands that want the network while it is off.

A courtesy, not a fence: it saves a model the time-out of a command that cannot work and tells it
why. What keeps a command from the network is the kernel (`ptc.worker.command._jail`), which does
not care what the command is called. `pip3`, `python -m pip` or ``env curl`` pass here, and reach
nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import urlsplit

from ptc import ToolError

__all__ = ["refuse_network_words"]

_CLIENTS = frozenset({"curl", "wget"})
_INSTALLERS = frozenset({"bun", "npm", "pip"})
_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_GIT_REMOTE = frozenset({"clone", "fetch", "ls-remote", "pull", "push", "remote"})
_GIT_VALUE_FLAGS = frozenset(
    {"-C", "-c", "--exec-path", "--git-dir", "--namespace", "--work-tree", "--config-env"}
)
_URL = re.compile(r"(?:--?[A-Za-z][\w-]*=)?((?:https?|ftp)://\S+)", re.IGNORECASE)
# Where a command may start in what `sh -c` is given.
_COMMAND_POSITION = re.compile(r"(?:^|[;\n&|()`]|\$\()\s*((?:[A-Za-z_]\w*=\S*\s+)*)([^;\n&|()`]+)")


def refuse_network_words(cmd: str, args: Sequence[str]) -> None:
    """Refuse what is plainly meant for the network.

    A target on the loopback (``localhost``, ``*.localhost``, 127.0.0.0/8, ::1, 0.0.0.0) is let
    through: a command may talk to a server it started itself.

    Raises:
        ToolError: ``network_disabled`` or ``git_remote_disabled``.
    """
    words = [*cmd.split(), *args]
    _refuse(words)
    if _name(words[0]) in _SHELLS:
        for before, word in pairwise(words[1:]):
            if re.fullmatch(r"-[a-z]*c[a-z]*", before):
                for match in _COMMAND_POSITION.finditer(word):
                    _refuse(match[2].split())
                break


def _refuse(words: list[str]) -> None:
    if not words:
        return
    name = _name(words[0])
    rest = words[1:]
    urls = [match[1] for word in words if (match := _URL.fullmatch(word))]
    if any(not _is_loopback(url) for url in urls):
        raise _disabled(name, f"{name} names an address of the network")
    if name in _INSTALLERS:
        raise _disabled(name, f"{name} loads packages from the network")
    if name in _CLIENTS:
        targets = [word for word in rest if not word.startswith("-")]
        if not urls and not any(_is_loopback(f"http://{word}") for word in targets):
            raise _disabled(name, f"{name} has no target on the loopback")
    if name == "git" and (verb := _git_verb(rest)) in _GIT_REMOTE:
        msg = (
            f"git {verb} talks to another repository, and the network is off for this session "
            "(network=False); use the local commands of git, or ask for a session with network=True"
        )
        raise ToolError(msg, code="git_remote_disabled", details={"executable": "git"})


def _disabled(name: str, why: str) -> ToolError:
    msg = (
        f"{why}, and the network is off for this session (network=False); do without, or ask for "
        "a session with network=True"
    )
    return ToolError(msg, code="network_disabled", details={"executable": name})


def _name(word: str) -> str:
    return word.strip("'\"").rpartition("/")[2]


def _git_verb(words: list[str]) -> str:
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in _GIT_VALUE_FLAGS:
            skip = True
        elif not word.startswith("-"):
            return word
    return ""


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address == ipaddress.IPv4Address(0)
