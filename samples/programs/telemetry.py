"""Print the spans of a run. Run: python samples/programs/telemetry.py (needs ptc-host[otel])"""

import anyio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ptc import Session, tool


@tool
async def price(item: str) -> float:
    """Price of an item."""
    return 1.5 * len(item)


SOURCE = """async def run(ctx, inputs):
    return sum([await ctx.price(item=item) for item in inputs["items"]])
"""


async def main() -> None:
    # A service exports by OTLP instead. The session finds the provider by itself.
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)

    async with Session(tools=[price], toolsets=()) as session:
        with trace.get_tracer("shop").start_as_current_span("order"):
            await session.program(
                source=SOURCE, inputs={"items": ["tea", "coffee"]}, filename="total.py"
            )
    for span in sorted(spans.get_finished_spans(), key=lambda span: span.start_time or 0):
        attributes = span.attributes or {}
        print(span.name, attributes.get("ptc.run.status", attributes.get("ptc.call.status", "")))


if __name__ == "__main__":
    anyio.run(main)
