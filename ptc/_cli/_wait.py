"""Call asynchronous functions from the commands, which are synchronous."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["wait_for"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def wait_for(function: Callable[_P, Awaitable[_T]], *args: _P.args, **options: _P.kwargs) -> _T:
    """Call `function` in an event loop, and return its result."""
    from functools import partial

    import anyio

    return anyio.run(partial(function, *args, **options))
