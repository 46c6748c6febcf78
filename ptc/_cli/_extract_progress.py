"""Progress of ``ptc extract``: a bar on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from ._terminal import Stream, safe

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from .._extraction._extraction import Extraction
    from .._extraction._row import BatchProgress, ExtractionReport

__all__ = ["ExtractProgress", "describe_duration", "describe_stop", "describe_tokens"]

_REFRESH_SECONDS = 0.2
_LINE_SECONDS = 10.0
_BAR = 24


class ExtractProgress:
    """Display of an extraction on standard error; run `follow` as a task beside it."""

    def __init__(self, stream: Stream, *, quiet: bool) -> None:
        """Create the display, hidden. With `quiet` nothing is ever shown."""
        self._stream = stream
        self._quiet = quiet
        self._live: Live | None = None

    async def follow(self, extraction: Extraction[Any]) -> None:
        """Show the state until cancelled."""
        if self._quiet:
            return
        if not self._stream.has_cursor:
            while True:
                await anyio.sleep(_LINE_SECONDS)
                self._stream.line(describe(extraction.report))
        from rich.live import Live

        self._live = Live(
            self._picture(extraction.report),
            console=self._stream.console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start(refresh=True)
        while True:
            await anyio.sleep(_REFRESH_SECONDS)
            self._live.update(self._picture(extraction.report), refresh=True)

    def line(self, text: str) -> None:
        """Write a line above the display."""
        if self._quiet:
            return
        if self._live is None:
            self._stream.line(text)
        else:
            from rich.text import Text

            self._live.console.print(Text(safe(text)), soft_wrap=True)

    def close(self) -> None:
        """Remove the display."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _picture(self, report: ExtractionReport) -> Text:
        from rich.text import Text

        picture = Text(no_wrap=True, overflow="ellipsis")
        if report.total:
            filled = report.rows * _BAR // report.total
            picture.append("━" * filled, style="green")
            picture.append("━" * (_BAR - filled) + " ", style="dim")
        picture.append(describe(report))
        return picture


def describe(report: ExtractionReport) -> str:
    """Describe the state in one line."""
    rows = f"{report.rows:,}" if report.total is None else f"{report.rows:,}/{report.total:,}"
    parts = [rows]
    if report.failed:
        parts.append(f"{report.failed:,} failed")
    if report.dead:
        parts.append(f"{report.dead:,} dead")
    if report.batches is not None:
        parts.append(describe_batches(report.batches))
        parts.append(describe_duration(report.seconds))
    else:
        parts.append(f"{report.in_flight} in flight")
        if report.waiting_s >= 1:
            parts.append(f"provider asks to wait {describe_duration(report.waiting_s)}")
        parts.append(f"{report.rate:.1f}/s")
    parts.append(
        describe_tokens(report.usage.input_tokens + report.usage.output_tokens)
        if report.cost is None
        else f"${report.cost:.4f}"
    )
    if report.remaining_s is not None and report.batches is None:
        parts.append(f"{describe_duration(report.remaining_s)} left")
    return "  ".join(parts)


def describe_batches(batches: BatchProgress) -> str:
    """Describe the batches at the provider."""
    if not batches.open:
        return "no batch at the provider"
    count = "1 batch" if batches.open == 1 else f"{batches.open:,} batches"
    answered = f", {batches.finished:,} answered" if batches.finished else ""
    return f"{count} of {batches.requests:,} requests{answered}"


def describe_stop(report: ExtractionReport) -> str | None:
    """Describe the effect of a first Ctrl-C; None if nothing was in flight."""
    if report.batches is not None:
        if not report.batches.open:
            return None
        left = describe_batches(report.batches)
        return (
            f"stopping: {left} stays at the provider, which runs it and charges for it; run the "
            "same command again to collect the answers"
        )
    if not report.in_flight:
        return None
    return (
        f"stopping: finishing {report.in_flight} requests in flight, which are paid for; "
        "press Ctrl-C again to cancel them"
    )


def describe_duration(seconds: float) -> str:
    """Format seconds for people."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def describe_tokens(count: int) -> str:
    """Format a number of tokens for people."""
    return f"{count:,} tokens"
