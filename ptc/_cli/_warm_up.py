"""``ptc warm-up``: compile the WebAssembly interpreter and make its snapshot, ahead of time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import click

from ._options import settings_options
from ._status import COMPLETED

if TYPE_CHECKING:
    from .._config._settings import Settings

__all__ = ["command"]

_HELP = """Compile the WebAssembly interpreter and prepare its memory, once on this machine.

The engine wasm does this at its first script, which then waits for about a minute. The results are
kept in the user's cache folder (XDG_CACHE_HOME). Run it in the build of a container image. It also
removes entries of the cache that have not been used for 90 days, and the oldest beyond 8 snapshots.

\b
Examples:
  ptc warm-up
  ptc warm-up --package pandas --package matplotlib
"""
_USUAL_SECONDS = 60.0
"""Time that compiling takes with two cores; the bar stays just below its end after that."""


@click.command("warm-up", short_help="Prepare the engine wasm.", help=_HELP)
@settings_options("packages")
def command(*, settings: Settings) -> int:
    """Run the command; `_HELP` is its help text."""
    from .._runs._packages import validate_packages
    from .._workers.wasm._cache import cache_folder, clean_cache, describe_cache
    from .._workers.wasm._snapshot import load_snapshot
    from ._terminal import standard_error

    packages = validate_packages(settings["packages"], "wasm")
    started = time.monotonic()
    done = threading.Event()
    watcher = threading.Thread(target=_show_progress, args=(done,), daemon=True)
    try:
        snapshot = load_snapshot(packages, watcher.start)
    finally:
        done.set()
        if watcher.ident is not None:
            watcher.join()
    took = time.monotonic() - started
    folder, output = cache_folder(), standard_error()
    removed = clean_cache(folder)
    output.line(f"{snapshot.interpreter.name} is ready in {folder} ({took:.1f} s)", "green")
    output.line(f"the cache keeps {describe_cache(folder)}")
    if removed.entries:
        output.line(
            f"removed {removed.entries} unused entries of the cache ({removed.size / 1e6:,.0f} MB)"
        )
    return COMPLETED


def _show_progress(done: threading.Event) -> None:
    """Show the time that compiling takes; the compiler reports none."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    console.print("compiling the interpreter to machine code; this is done once on this machine")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("compiling", total=_USUAL_SECONDS)
        while not done.wait(0.2):
            if progress.tasks[task].completed < _USUAL_SECONDS * 0.97:
                progress.advance(task, 0.2)
