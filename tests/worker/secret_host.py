"""A host full of secrets, for the tests: runs a script that waits, and says who its processes are.

usage: secret_host.py SECRET (also in the environment as PTC_TEST_SECRET). Standard input, closed,
ends it. The secrets: an argument, a variable, text on the heap, an open file, the inputs of a run
that is over (``SECRET`` + ``-before``) and of the run that waits (``SECRET`` + ``-inputs``).
"""

import os
import sys
import tempfile
from pathlib import Path

import anyio

from ptc import Session, tool
from ptc._workers._pool import Pool

HOLD = "async def run(ctx, inputs):\n    await ctx.hold()\n    return len(inputs['text'])\n"


def children(pid: int) -> list[int]:
    """Every process below `pid`, parents first."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *children(int(child))]
    return found


async def main() -> None:
    secret = sys.argv[1]
    heap = [secret + "-heap" for _ in range(100)]
    held = anyio.Event()

    @tool
    async def hold() -> str:
        """Wait until the test has looked."""
        held.set()
        await anyio.to_thread.run_sync(sys.stdin.read)
        return heap[0]

    with tempfile.TemporaryFile() as file:
        file.write(secret.encode())
        file.flush()
        os.set_inheritable(file.fileno(), True)
        async with Session(tools=[hold], toolsets=(), workers=2) as session:
            before = {"text": secret + "-before"}
            source = "def run(ctx, inputs):\n    return inputs['text']"
            assert (await session.program(source=source, inputs=before)).value == before["text"]
            async with anyio.create_task_group() as group:

                async def wait() -> None:
                    result = await session.program(
                        source=HOLD, inputs={"text": secret + "-inputs"}, allowed_tools=["hold"]
                    )
                    assert result.value == len(secret + "-inputs")

                group.start_soon(wait)
                await held.wait()
                pool = session._pool
                assert isinstance(pool, Pool)
                while pool.ready < 2:
                    await anyio.sleep(0.001)
                print(*children(os.getpid()), flush=True)  # noqa: T201 - the test reads it


anyio.run(main)
