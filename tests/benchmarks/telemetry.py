"""Cost of telemetry for each call of a script, in CPU time of the host.

Rounds are interleaved: off, present and not recording, metrics alone, and spans without exporter.

    python tests/benchmarks/telemetry.py --rounds 15
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from typing import Any

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

from ptc import Limits, Session, Telemetry, tool

CALLS = 2_000
SOURCES = {
    "blocking": f"def run(ctx):\n    for n in range({CALLS}):\n        ctx.nothing()",
    "gathered": "import asyncio\nasync def run(ctx):\n"
    f"    await asyncio.gather(*[ctx.nothing() for _ in range({CALLS})])",
}


@tool
async def nothing() -> int:
    """Return 0."""
    return 0


def variants() -> dict[str, Any]:
    """Return the values of `telemetry` that are compared."""
    meters = MeterProvider([InMemoryMetricReader()])
    return {
        "off": False,
        "not recording": Telemetry(TracerProvider(sampler=ALWAYS_OFF), NoOpMeterProvider()),
        "metrics": Telemetry(TracerProvider(sampler=ALWAYS_OFF), meters),
        "recording": Telemetry(TracerProvider(sampler=ALWAYS_ON), meters),
    }


def measure_sdk(rounds: int) -> None:
    """Print the cost of what OpenTelemetry itself does for a call: a span and a duration."""
    tracer = TracerProvider(sampler=ALWAYS_ON).get_tracer("floor")
    record = MeterProvider([InMemoryMetricReader()]).get_meter("floor").create_histogram("x").record
    first = {f"first.{number}": "text" for number in range(7)}
    last = {f"last.{number}": number for number in range(3)}
    spans, durations = [], []
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(CALLS):
            span = tracer.start_span("execute_tool nothing", attributes=first)
            span.set_attributes(last)
            span.end()
        middle = time.process_time()
        for _ in range(CALLS):
            record(0.1, {"tool": "nothing", "operation": "execute_tool"})
        spans.append((middle - start) / CALLS * 1e6)
        durations.append((time.process_time() - middle) / CALLS * 1e6)
    print(f"OpenTelemetry alone, a span of 10 attributes {statistics.median(spans):.1f} us")
    print(f"OpenTelemetry alone, a duration {statistics.median(durations):.1f} us")


async def measure(rounds: int) -> None:
    """Print the median of each variant, and its difference to off in pairs of one round."""
    limits = Limits(max_tool_calls=CALLS, timeout_ms=60_000)
    sessions = {
        name: Session(
            tempfile.mkdtemp(),
            tools=[nothing],
            toolsets=(),
            workers=1,
            limits=limits,
            journal=":memory:",
            telemetry=telemetry,
        )
        for name, telemetry in variants().items()
    }
    times: dict[tuple[str, str], list[float]] = {}
    for session in sessions.values():
        await session.__aenter__()
        await session.program(source=SOURCES["blocking"])
    for number in range(rounds):
        names = list(sessions)
        for name in names[number % 4 :] + names[: number % 4]:
            for kind, source in SOURCES.items():
                start = time.process_time()
                result = await sessions[name].program(source=source)
                spent = time.process_time() - start
                assert result.ok, result
                times.setdefault((kind, name), []).append(spent / CALLS * 1e6)
    for session in sessions.values():
        await session.aclose()
    for kind in SOURCES:
        off = times[kind, "off"]
        for name in sessions:
            own = times[kind, name]
            more = statistics.median(a - b for a, b in zip(own, off, strict=True))
            print(f"{kind:9} {name:14} {statistics.median(own):7.1f} us a call, {more:+6.2f} us")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args().rounds
    measure_sdk(chosen)
    asyncio.run(measure(chosen))
