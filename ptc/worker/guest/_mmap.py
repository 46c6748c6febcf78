"""Stand-in for mmap in a guest, where a refused allocation is an ordinary `MemoryError`."""

from __future__ import annotations

from typing import Final

__all__ = ["MAP_ANONYMOUS", "MAP_PRIVATE", "mmap"]

MAP_PRIVATE: Final = 2
MAP_ANONYMOUS: Final = 32


class mmap:  # the library's name
    """No memory: nothing has to be kept free for a writer that survives its absence."""

    def __init__(self, _file: int, _size: int, _flags: int) -> None:
        pass

    def close(self) -> None:
        """Do nothing."""
