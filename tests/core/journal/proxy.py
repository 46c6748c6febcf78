"""A proxy on loopback that loses replies, drops packets and resets connections."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Literal, Self

__all__ = ["Proxy"]


class Proxy:
    """Forwards connections to a server, with faults."""

    def __init__(self, port: int) -> None:
        """Listen, and forward to `port` of loopback."""
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = {"requests": threading.Event(), "replies": threading.Event()}
        self.heal()
        self._pattern: bytes | None = None
        self.lost = threading.Event()
        """Set when a reply was lost."""
        self._held_pattern: bytes | None = None
        self._held: list[tuple[socket.socket, bytes]] = []
        self.held = threading.Event()
        """Set when a request was held back."""
        self._readers: dict[socket.socket, threading.Thread] = {}
        self._delay = 0.0
        self._sockets: list[socket.socket] = []
        self._all: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.heal()
        self.reset()
        for thread in self._threads:
            thread.join(5)
        for end in self._all:
            end.close()

    # --- faults ---------------------------------------------------------------------------------

    def lose_reply(self, pattern: bytes) -> None:
        """Reset the connection in place of the next reply that has `pattern`."""
        self.lost.clear()
        self._pattern = pattern

    def hold_request(self, pattern: bytes) -> None:
        """Hold the next request back that has `pattern`, and reset the client's connection.

        The server does not notice that: its connection stays open.
        """
        self.held.clear()
        self._held_pattern = pattern

    def deliver(self) -> None:
        """Send the held request to the server, and wait until it is answered or refused."""
        for server, data in self._held:
            with suppress(OSError):
                server.sendall(data)
            # It ends at the reply, which it cannot forward.
            self._readers[server].join(5)
        self._held.clear()

    def partition(self, *directions: Literal["requests", "replies"]) -> None:
        """Forward nothing in these directions until `heal`; the connections stay open."""
        for direction in directions:
            self._open[direction].clear()

    def heal(self) -> None:
        """Forward everything again."""
        for event in self._open.values():
            event.set()

    def slow(self, seconds: float) -> None:
        """Delay each packet."""
        self._delay = seconds

    def reset(self) -> None:
        """Close all connections."""
        for end in self._sockets:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._sockets.clear()

    # --- threads --------------------------------------------------------------------------------

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                self._sockets += [client, server]
                self._all += [client, server]
                for source, sink, name in (
                    (client, server, "requests"),
                    (server, client, "replies"),
                ):
                    work = threading.Thread(
                        target=self._forward, args=(source, sink, name), daemon=True
                    )
                    work.start()
                    self._threads.append(work)
                self._readers[server] = work

    def _forward(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                held = self._held_pattern
                if name == "requests" and held is not None and held in data:
                    self._held_pattern = None
                    self._held.append((sink, data))
                    source.shutdown(socket.SHUT_RDWR)
                    self.held.set()
                    return
                self._open[name].wait()
                if self._delay:
                    time.sleep(self._delay)  # the fault that is simulated
                pattern = self._pattern
                if name == "replies" and pattern is not None and pattern in data:
                    self._pattern = None
                    self.lost.set()
                    break
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
