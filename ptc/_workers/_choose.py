"""Choice of the engine: processes where the kernel confines them, WebAssembly where it is there.

Rule 1: a session with another engine than the one it asked for does not exist: without the one it
    asked for, it refuses to run scripts.
    tests/wasm/test_session.py::test_engine_that_was_asked_for_is_used_or_refused
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar, get_args

from .._core._arguments import nearest
from .._dataclass import dataclass
from .._records._engine_names import family_of
from ..errors import OtherEngineError, SetupError, UsageError
from ._engine import Engine
from ._packages import on_host, require_packages

if TYPE_CHECKING:
    from ._worker import Worker
    from ._zygote import Hello

__all__ = [
    "ENGINES",
    "WASM_REMEDY",
    "EngineName",
    "EngineOptions",
    "Engines",
    "possible_engine",
    "require_same_engine",
    "validate_engine",
    "validate_reuse",
    "wasm_is_installed",
]

EngineName = Literal["auto", "process", "wasm"]
ENGINES: Final[tuple[str, ...]] = get_args(EngineName)
WASM_REMEDY: Final = "run scripts in WebAssembly: pip install 'ptc-host[wasm]'"
_WASM_CHOICE: Final = "run scripts in WebAssembly, which is installed here: engine='wasm'"
_COMPILING: Final = (
    "compiling the WebAssembly interpreter, once on this machine: about a minute of both cores "
    "(`ptc warm-up` does it ahead of time)"
)
_log = logging.getLogger("ptc")
_T = TypeVar("_T")


def validate_engine(name: object) -> None:
    """Raise `UsageError` if `name` is not the name of an engine, or ``auto``."""
    if name not in ENGINES:
        known = ", ".join(ENGINES)
        near = nearest(name, ENGINES) if isinstance(name, str) else ""
        raise UsageError(f"engine={name!r} is unknown{near}; engines: {known}")


def validate_reuse(reuse_workers: object, engine: str, packages: Sequence[str]) -> None:
    """Raise `UsageError` if workers cannot be reused with these settings."""
    if reuse_workers is False:
        return
    if reuse_workers is not True:
        raise UsageError(f"reuse_workers must be True or False, not {reuse_workers!r}")
    if engine == "wasm":
        raise UsageError("reuse_workers=True applies to processes, and engine='wasm' has none")
    if packages:
        listed = ", ".join(packages)
        raise UsageError(f"reuse_workers=True cannot be combined with packages ({listed})")


def require_same_engine(run_id: str, recorded: str, here: str) -> None:
    """Raise `OtherEngineError` if a run cannot be continued on the engine here.

    See `family_of`.
    """
    if family_of(recorded) != family_of(here):
        raise OtherEngineError(run_id, recorded, here)


def wasm_is_installed() -> bool:
    """Return True if the extra `wasm` is installed."""
    from .wasm._module import is_installed

    return is_installed()


def possible_engine(name: str) -> str:
    """Return the engine that a session with this setting gets; ``auto``: the kernel decides."""
    if name != "auto":
        return name
    if not wasm_is_installed():
        return "process"
    return "auto" if sys.platform == "linux" else "wasm"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Settings of a session's workers."""

    isolation: str
    size: int
    memory_bytes: int
    cpu_ms: int
    packages: Sequence[str] = ()
    reuse_workers: bool = False

    def process(self) -> Engine:
        """Return the engine of processes."""
        from ._pool import Pool

        return Pool(
            isolation=self.isolation,
            size=self.size,
            memory_bytes=self.memory_bytes,
            cpu_ms=self.cpu_ms,
            packages=self.packages,
            reuse_workers=self.reuse_workers,
        )

    def wasm(self) -> Engine:
        """Return the engine of WebAssembly."""
        from .wasm._pool import WasmPool

        return WasmPool(
            size=self.size,
            memory_bytes=self.memory_bytes,
            packages=self.packages,
            on_compile=lambda: _log.warning(_COMPILING),
        )


class Engines:
    """The engine of a session, and the one that replaces it if this machine cannot confine it."""

    def __init__(self, name: str, options: EngineOptions) -> None:
        """Choose as `name` says; nothing is started."""
        self._name = name
        self._options = options
        self._lacks_packages = False
        # On Linux, the kernel decides later: nothing else is loaded until then.
        if name == "wasm" or (sys.platform != "linux" and possible_engine(name) == "wasm"):
            self.current: Engine = options.wasm()
            return
        self._lacks_packages = not all(map(on_host, options.packages))
        # Without packages that are not here, it can still tell if it would confine scripts.
        self.current = (
            replace(options, packages=()).process() if self._lacks_packages else options.process()
        )

    @property
    def is_warm(self) -> bool:
        """True if workers can start at once."""
        return self.current.is_warm

    def start(self) -> None:
        """Begin to prepare the engine, as `Engine.start`."""
        self.current.start()

    async def hello(self) -> Hello:
        """Prepare the engine, as `Engine.hello`; with ``auto``, perhaps another one."""
        return await self._use(lambda engine: engine.hello())

    async def acquire(self, memory_bytes: int) -> Worker:
        """Return a worker for one run, as `Engine.acquire`; with ``auto``, perhaps another's."""
        return await self._use(lambda engine: engine.acquire(memory_bytes))

    async def close(self) -> None:
        """Stop every worker."""
        await self.current.close()

    async def _use(self, request: Callable[[Engine], Awaitable[_T]]) -> _T:
        engine = self.current
        try:
            if self._lacks_packages:
                await engine.hello()
                require_packages(self._options.packages, "process")
            return await request(engine)
        except SetupError as error:
            # Workers that could not be forked have nothing to do with the sandbox.
            if not _is_unconfined(error) or self._name == "wasm":
                raise
            if self._name != "auto" or not wasm_is_installed():
                remedy = _WASM_CHOICE if wasm_is_installed() else WASM_REMEDY
                raise SetupError(f"{error}; or {remedy}", layers=error.layers) from None
            require_packages(self._options.packages, "wasm")
            _log.warning("scripts run in WebAssembly, since %s", error)
        if self.current is engine:
            self.current, self._lacks_packages = self._options.wasm(), False
            await engine.close()
        return await request(self.current)


def _is_unconfined(error: SetupError) -> bool:
    return sys.platform != "linux" or any(layer.required and not layer.on for layer in error.layers)
