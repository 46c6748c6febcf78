"""One zygote for the sessions of an event loop that need the same one.

A zygote takes 30 MB and 0.3 s of CPU time. Workers of different sessions have nothing in common but
their parent, which runs no script; each is used for one run of one session.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Sequence
from typing import TypeAlias

import anyio.lowlevel

from .._core._reactor import Reactor
from ..errors import SetupError
from ._worker import Exit
from ._zygote import Hello, Zygote

__all__ = ["ZygoteShare", "share_zygote"]

_Key: TypeAlias = tuple[str, tuple[str, ...], str]


class _SharedZygote:
    """A zygote, its shares, and the share that each worker belongs to."""

    __slots__ = ("_key", "_registry", "numbers", "routes", "shares", "zygote")

    def __init__(self, key: _Key, zygote: Zygote, registry: dict[_Key, _SharedZygote]) -> None:
        self._key = key
        self._registry = registry
        self.zygote = zygote
        self.shares: set[ZygoteShare] = set()
        self.routes: dict[int, tuple[ZygoteShare, int]] = {}
        """Number of a worker in the zygote -> its share and its number there."""
        self.numbers = itertools.count(1)
        zygote.on_forked = self._on_forked
        zygote.on_exited = self._on_exited
        zygote.on_gone = self._on_gone
        zygote.on_ready = self._on_ready

    def retire(self) -> None:
        """Give this zygote to no further session."""
        if self._registry.get(self._key) is self:
            del self._registry[self._key]

    def _on_forked(self, number: int, pidfd: int | None) -> None:
        route = self.routes.get(number)
        if route is not None:
            route[0].on_forked(route[1], pidfd)
        elif pidfd is not None:
            os.close(pidfd)  # its share was closed, and had it killed

    def _on_exited(self, number: int, how: Exit) -> None:
        route = self.routes.pop(number, None)
        if route is not None:
            route[0].forget(route[1])
            route[0].on_exited(route[1], how)

    def _on_ready(self, number: int) -> None:
        route = self.routes.get(number)
        if route is not None:
            route[0].on_ready(route[1])

    def _on_gone(self) -> None:
        self.retire()
        for share in list(self.shares):
            share.on_gone()


_zygotes: anyio.lowlevel.RunVar[dict[_Key, _SharedZygote]] = anyio.lowlevel.RunVar("zygotes")


def share_zygote(
    isolation: str, reactor: Reactor, packages: Sequence[str] = (), restore: str = ""
) -> ZygoteShare:
    """Return a share of the zygote with these settings; start it if there is none yet.

    Raises:
        SetupError: If it cannot be started.
    """
    registry = _zygotes.get({})
    _zygotes.set(registry)
    key = (isolation, tuple(packages), restore)
    found = registry.get(key)
    if found is None:
        zygote = Zygote(isolation, reactor, packages, restore)
        zygote.spawn()
        found = registry[key] = _SharedZygote(key, zygote, registry)
    return ZygoteShare(found)


class ZygoteShare:
    """A pool's share of a zygote, with numbers of its own for its workers. Call `close`."""

    __slots__ = ("_numbers", "_shared", "on_exited", "on_forked", "on_gone", "on_ready")

    on_forked: Callable[[int, int | None], None]
    """Receives the number of a worker and its pidfd; None: it could not be received."""
    on_exited: Callable[[int, Exit], None]
    """Receives the number of a worker that exited."""
    on_gone: Callable[[], None]
    """Called when the zygote died, and its workers with it."""
    on_ready: Callable[[int], None]
    """Receives the number of a worker that the restorer announced."""

    def __init__(self, shared: _SharedZygote) -> None:
        self._shared = shared
        self._numbers: dict[int, int] = {}
        shared.shares.add(self)

    @property
    def alive(self) -> bool:
        """True while the zygote accepts requests of this share."""
        return self._shared.zygote.alive and self in self._shared.shares

    @property
    def was_killed(self) -> bool:
        """True if it died during its start, and gave no reason."""
        return self._shared.zygote.was_killed

    @property
    def pid(self) -> int:
        """Process id of the process that the host spawned."""
        return self._shared.zygote.pid

    def part(self, workers: int) -> int:
        """Return the part of `workers` that this share keeps ready; at least one."""
        return max(1, workers // max(1, len(self._shared.shares)))

    async def hello(self) -> Hello:
        """Wait until the zygote is ready.

        Raises:
            SetupError: If a layer is missing or the process failed to start.
        """
        try:
            return await self._shared.zygote.hello()
        except SetupError:
            self._shared.retire()
            raise

    def fork(self, number: int, memory_bytes: int, cpu_seconds: int) -> socket.socket:
        """Request a worker; return its socket at once, and pass its pidfd to `on_forked` later.

        Raises:
            SetupError: If the request cannot be sent. If the zygote died, `on_gone` was called.
        """
        there = next(self._shared.numbers)
        self._shared.routes[there] = (self, number)
        self._numbers[number] = there
        try:
            return self._shared.zygote.fork(there, memory_bytes, cpu_seconds)
        except BaseException:
            self._shared.routes.pop(there, None)
            self.forget(number)
            raise

    def restore(self, number: int) -> bool:
        """Have a worker restored; False if it cannot be."""
        restorer, there = self._shared.zygote.restorer, self._numbers.get(number)
        return restorer is not None and there is not None and restorer.restore(there)

    @property
    def restores(self) -> bool:
        """True if workers are restored after their runs."""
        return self._shared.zygote.restorer is not None

    def kill(self, number: int) -> None:
        """Have the zygote kill a worker, for lack of its pidfd."""
        there = self._numbers.get(number)
        if there is not None:
            self._shared.zygote.kill(there)

    def forget(self, number: int) -> None:
        """Drop the number of a worker that has exited."""
        self._numbers.pop(number, None)

    def close(self) -> None:
        """Kill the workers of this share, and with the last share the zygote."""
        shared = self._shared
        if self not in shared.shares:
            return
        shared.shares.discard(self)
        for there in self._numbers.values():
            shared.zygote.kill(there)
            shared.routes.pop(there, None)
        self._numbers.clear()
        if not shared.shares:
            shared.retire()
            shared.zygote.close()
