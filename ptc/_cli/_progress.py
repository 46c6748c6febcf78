"""Progress display of a run. Off a terminal it only forwards the script's output."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from ._terminal import Stream, safe

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from .._records._result import CallRecord, RunEvent

__all__ = ["Progress"]

_SHOW_AFTER_SECONDS = 0.25
"""Shorter runs show no display, which would only flicker."""
_REFRESH_SECONDS = 0.1
_ROWS = 8
"""Maximum number of running calls shown; the rest is counted."""
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TAIL_CHARS = 200


class Progress:
    """Display of one run on standard error, fed by its events.

    Pass `on_event` to the session, run `follow` as a task beside the run and cancel it when the
    run ends; `close` restores the terminal.
    """

    def __init__(self, stream: Stream, *, quiet: bool) -> None:
        """Create the display, hidden. With `quiet` nothing is ever shown."""
        self._stream = stream
        self._quiet = quiet
        self._live: Live | None = None
        self._running: dict[int, tuple[CallRecord, float]] = {}
        self._ended = self._failed = self._emitted = 0
        self._reported = ""
        self._line = ""
        self._begun = anyio.Event()
        self.began = 0.0
        """Time at which the script was sent to its worker (`time.perf_counter`), or 0.0."""

    def on_event(self, event: RunEvent) -> None:
        """Record `event`. Text appears at once, everything else with the next refresh."""
        if event.kind == "started":
            self.began = time.perf_counter()
            self._begun.set()
        elif event.kind in {"stdout", "stderr"} or (event.kind == "log" and event.call is None):
            self._print(event.text)
        elif event.kind == "progress" and event.call is None:
            self._reported = _describe_progress(event.value)
        elif event.kind == "emitted":
            self._emitted += 1
        elif event.kind == "tool_started" and event.call is not None:
            self._running[event.call.seq] = (event.call, time.perf_counter())
        elif event.kind == "tool_finished" and event.call is not None:
            self._running.pop(event.call.seq, None)
            self._ended += 1
            self._failed += event.call.status != "succeeded"

    async def follow(self) -> None:
        """Redraw until cancelled; return at once if the stream cannot be redrawn."""
        if self._quiet or not self._stream.has_cursor:
            return
        # Spawn the workers first: they start while rich is being imported.
        await anyio.sleep(0.01)
        from rich.live import Live

        console = self._stream.console
        await self._begun.wait()
        await anyio.sleep(_SHOW_AFTER_SECONDS)
        self._live = Live(
            self._picture(),
            console=console,
            auto_refresh=False,
            transient=True,
            # Output of other writers to these streams must not pass through here.
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)
        while True:
            await anyio.sleep(_REFRESH_SECONDS)
            self._live.update(self._picture(), refresh=True)

    def close(self) -> None:
        """Remove the display and terminate a line that the script left open."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._line:
            line, self._line = self._line, ""
            self._stream.line(line if self._stream.is_terminal else "")

    def _print(self, text: str) -> None:
        if self._quiet:
            return
        if not self._stream.is_terminal:
            self._stream.write(text)
            # Tracks only whether a line is open.
            self._line = (text if text.strip("\n") or "\n" in text else self._line + text)[-1:]
            self._line = "" if self._line == "\n" else self._line
            return
        # Show whole lines only: the display would tear a partial one.
        *lines, self._line = (self._line + text).split("\n")
        if not lines:
            return
        if self._live is None:
            self._stream.write("\n".join(lines) + "\n")
            return
        from rich.text import Text

        self._live.console.print(Text(safe("\n".join(lines))), soft_wrap=True)

    def _picture(self) -> Text:
        from rich.text import Text

        now = time.perf_counter()
        picture = Text(no_wrap=True, overflow="ellipsis")
        if self._line:
            picture.append(safe(self._line[-_TAIL_CHARS:]) + "\n")
        frame = _FRAMES[int(now / _REFRESH_SECONDS) % len(_FRAMES)]
        picture.append(f"{frame} {now - self.began:.1f} s", style="cyan")
        picture.append(f"  calls: {len(self._running)} running, {self._ended} done")
        if self._failed:
            picture.append(f", {self._failed} failed", style="red")
        if self._emitted:
            picture.append(f"; {self._emitted} emitted")
        if self._reported:
            picture.append(f"\n  {safe(self._reported)}")
        shown = list(self._running.values())[:_ROWS]
        for call, started in shown:
            picture.append(f"\n  {call.tool}", style="bold")
            picture.append(f" {now - started:.1f} s ", style="cyan")
            picture.append(safe(" ".join(call.arguments.split())), style="dim")
        if len(self._running) > len(shown):
            picture.append(f"\n  and {len(self._running) - len(shown)} more")
        return picture


def _describe_progress(report: Mapping[str, Any]) -> str:
    """Describe a report of the script, for example ``3 of 10: reading``."""
    done, total, message = report["done"], report["total"], report["message"]
    text = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{text}: {' '.join(message.split())}" if message else text
