"""Early refusals and a hint for commands that need the network while it is off.

The kernel layer keeps commands off the network, under any name (`ptc.worker.command._jail`). This
module enforces nothing. It refuses a command that certainly needs the network before the command
waits for its time-out, and it adds a hint to the error of one that failed for lack of it. Others,
such as ``python -m pip``, run and reach nothing.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import urlsplit

from ptc import ToolError

__all__ = ["network_hint", "refuse_network_words"]

_CLIENTS = frozenset({"curl", "wget"})
_PIP = frozenset({"download", "install"})
_NPM = frozenset({"add", "ci", "i", "install", "publish", "search", "update", "view"})
_BUN = frozenset({"add", "i", "install", "publish", "update"})
_INSTALLERS = {"pip": _PIP, "pip3": _PIP, "npm": _NPM, "bun": _BUN}
"""Package managers and the subcommands that ask a registry. Others, such as ``npm test``, run."""
_OFFLINE_FLAGS = frozenset({"--help", "--no-deps", "--no-index", "--offline", "-h"})
"""With one of these, an installer may do without the network."""
_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_GIT_REMOTE = frozenset({"clone", "fetch", "ls-remote", "pull", "push", "remote"})
_GIT_VALUE_FLAGS = frozenset(
    {"-C", "-c", "--exec-path", "--git-dir", "--namespace", "--work-tree", "--config-env"}
)
_INSTALLER_VALUE_FLAGS = frozenset({"-C", "-w", "--cwd", "--prefix", "--workspace"})
_URL = re.compile(r"(?:--?[A-Za-z][\w-]*=)?((?:https?|ftp)://\S+)", re.IGNORECASE)
# Positions in the text of `sh -c` at which a command can start.
_COMMAND_POSITION = re.compile(r"(?:^|[;\n&|()`]|\$\()\s*((?:[A-Za-z_]\w*=\S*\s+)*)([^;\n&|()`]+)")
_NO_NETWORK = re.compile(
    r"could not resolve (?:host|proxy)|unable to resolve host|failure in name resolution|"
    r"temporary failure resolving|name or service not known|nodename nor servname provided|"
    r"no address associated with hostname|failed to lookup address|dial tcp: lookup |"
    r"network is unreachable|\b(?:EAI_AGAIN|ENETUNREACH|ENOTFOUND|UnknownHostException)\b",
    re.IGNORECASE,
)
"""Messages of the C library, curl, git, apt, Python, Node, Rust, Go and Java."""
_HINT_CHARS = 20_000
"""Characters at the end of each stream that are searched for such a message."""
_OFF = "the network is off for commands of this session"
_OWNER = (
    "ask the owner of the session for ptc_tools.builtin(network=True), or --network on the command "
    "line"
)
_REMEDY = f"Do without the network, or {_OWNER}"


def refuse_network_words(cmd: str, args: Sequence[str]) -> None:
    """Refuse a command that certainly needs the network.

    Loopback targets (``localhost``, ``*.localhost``, 127.0.0.0/8, ::1, 0.0.0.0) are allowed: a
    command may talk to a server that it started itself.

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


def network_hint(*outputs: str) -> str:
    """Return a hint if the output of a failed command reports a missing network, else ``""``."""
    if any(_NO_NETWORK.search(output[-_HINT_CHARS:]) for output in outputs):
        return f"{_OFF[0].upper()}{_OFF[1:]}. {_REMEDY}"
    return ""


def _refuse(words: list[str]) -> None:
    if not words:
        return
    name = _name(words[0])
    rest = words[1:]
    urls = [match[1] for word in words if (match := _URL.fullmatch(word))]
    if any(not _is_loopback(url) for url in urls):
        raise _disabled(name, f"{name} was given a URL outside this machine")
    if name in _CLIENTS:
        targets = [word for word in rest if not word.startswith("-")]
        if not urls and not any(_is_loopback(f"http://{word}") for word in targets):
            raise _disabled(name, f"{name} has no target on the loopback")
    elif name in _INSTALLERS:
        verb = _verb(rest, _INSTALLER_VALUE_FLAGS)
        if verb in _INSTALLERS[name] and _OFFLINE_FLAGS.isdisjoint(rest):
            raise _disabled(name, f"{name} {verb} needs a package registry")
    elif name == "git" and (verb := _verb(rest, _GIT_VALUE_FLAGS)) in _GIT_REMOTE:
        msg = (
            f"git {verb} talks to another repository, and {_OFF}. Use the local commands of git, "
            f"or {_OWNER}"
        )
        raise ToolError(msg, code="git_remote_disabled", details={"executable": "git"})


def _disabled(name: str, reason: str) -> ToolError:
    msg = f"{reason}, and {_OFF}. {_REMEDY}"
    return ToolError(msg, code="network_disabled", details={"executable": name})


def _name(word: str) -> str:
    return word.strip("'\"").rpartition("/")[2]


def _verb(words: list[str], value_flags: frozenset[str]) -> str:
    """Return the first word that is neither an option nor the value of one."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in value_flags:
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
