"""Sources of tools that exist only while they are open, such as connections to servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ._toolset import Toolset

__all__ = ["ToolProvider"]


class ToolProvider(ABC):
    """Source of tools that a session opens before its first call, and closes at its end.

    Its tools are fixed while it is open: a provider that changes its mind later can neither add a
    tool to an allow-list nor change the effects that a tool declares.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in messages."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that it is started from, which no tool of the session may change."""
        return ()

    @abstractmethod
    async def open(self) -> Sequence[Toolset]:
        """Open it and return its tools. On an error, nothing is left open.

        Raises:
            SetupError: If it cannot be opened.
            UsageError: If it is open already, or its tools have invalid names.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Close it, if it is open. It can be opened again."""
