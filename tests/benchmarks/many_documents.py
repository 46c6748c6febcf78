"""150 documents at once against a server that takes five requests at a time.

    python tests/benchmarks/many_documents.py --rounds 3

Compares gathered calls of `generate_object`, which the provider's package retries one by one, with
`extract_many`. The server speaks the protocol of OpenAI and answers in 50 ms; it refuses a sixth
request with status 429 and ``Retry-After: 1``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio

from ptc import ModelError, Session

MODEL = "openai-chat:gpt-4o"
SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
    "additionalProperties": False,
}
TAKES = 5
SECONDS = 0.05


def load_server() -> Any:
    """Load the server of the tests of models."""
    path = Path(__file__).parents[1] / "models" / "fake_server.py"
    spec = importlib.util.spec_from_file_location("fake_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fake_server"] = module
    spec.loader.exec_module(module)
    return module


class Provider:
    def __init__(self, step: Any) -> None:
        self._step = step
        self._lock = threading.Lock()
        self._busy = 0
        self.requests = self.refused = 0

    def __call__(self, seen: Any) -> Any:
        with self._lock:
            self.requests += 1
            taken = self._busy < TAKES
            self._busy += taken
            self.refused += not taken
        if not taken:
            return self._step(status=429, retry_after_ms=1_000)
        time.sleep(SECONDS)
        with self._lock:
            self._busy -= 1
        return self._step(args=json.dumps({"total": 3}))


async def gather(session: Session, count: int) -> int:
    """Return the number of failed documents."""
    failed = 0

    async def extract(number: int) -> None:
        nonlocal failed
        try:
            await session.generate_object(SCHEMA, f"Total of {number}?")
        except ModelError:
            failed += 1

    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(extract, number)
    return failed


async def extract_many(session: Session, count: int) -> int:
    """Return the number of failed documents."""
    documents = [{"id": str(number), "text": f"Total of {number}?"} for number in range(count)]
    async with session.extract_many(documents, SCHEMA, concurrency=count) as rows:
        return sum([row.status != "done" async for row in rows])


async def main(rounds: int, count: int) -> None:
    module = load_server()
    print(f"{'':<26} {'failed':>9} {'seconds':>9} {'requests':>9} {'refused':>9}")
    for way in [gather, extract_many] * rounds:
        provider = Provider(module.Step)
        with module.FakeServer([], provider) as server:
            os.environ |= {"OPENAI_API_KEY": "not-a-key", "OPENAI_BASE_URL": f"{server.url}/v1"}
            async with Session(toolsets=(), model=MODEL) as session:
                started = time.perf_counter()
                failed = await way(session, count)
                seconds = time.perf_counter() - started
        print(
            f"{way.__name__:<26} {failed:>9} {seconds:>9.1f} "
            f"{provider.requests:>9} {provider.refused:>9}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Extract many documents at once.")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--documents", type=int, default=150)
    options = parser.parse_args()
    anyio.run(main, options.rounds, options.documents)
