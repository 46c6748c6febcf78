"""Random allowed system calls and writes to memory: the worker is as it was, or is replaced."""

from __future__ import annotations

import os
import platform
import random
import sys

import pytest

from ptc import Limits
from ptc._wire._protocol import Kind
from tests.worker.restore.hostile import attacked, mappings_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64" or os.geteuid() != 0,
        reason="workers are restored on Linux and x86-64; reads mappings, which root may",
    ),
]

ROUNDS = 150
_CALLS = """
def run(ctx, inputs):
    room = ctypes.create_string_buffer(1 << 16)
    names = {"room": ctypes.addressof(room)}
    for number, *arguments in inputs["calls"]:
        if number == "poke":
            start, data = arguments
            poke(names.get(start, start), bytes(data))
        else:
            call(number, *[names.get(value, value) for value in arguments])
    finish(b"7")
    stop()
"""


def random_calls(source: random.Random, mappings: list[tuple[int, int]]) -> list[list[object]]:
    """Return some calls: numbers and arguments, or writes."""

    def page() -> tuple[int, int]:
        start, end = source.choice(mappings)
        first = source.randrange(start, end, 4096)
        return first, source.randrange(4096, end - first + 4096, 4096)

    found: list[list[object]] = []
    for _ in range(source.randint(1, 6)):
        first, size = page()
        end = first + size
        found.append(
            source.choice(
                [
                    [9, 0, size, source.choice([0, 1, 3]), 0x22, -1, 0],
                    [9, first, size, 3, 0x22, -1, 0],
                    [11, first, source.choice([4096, size])],
                    [10, first, size, source.choice([0, 1, 3])],
                    [12, end],
                    [14, source.choice([0, 1, 2]), "room", 0, 8],
                    [25, first, size, source.choice([4096, size, 2 * size]), 1],
                    [28, first, 4096, source.choice([4, 8])],
                    [318, source.choice([first, "room"]), 64, 0],
                    [202, "room", 129, 1, 0, 0, 0],
                    [228, 1, source.choice([first, "room"])],
                    [45, 3, first, 8, 0x40, 0, 0],
                    [3, source.randint(0, 9)],
                    ["poke", "room", [source.randrange(256) for _ in range(8)]],
                    ["poke", first, [0]],
                    ["poke", end - 8, [source.randrange(256) for _ in range(8)]],
                ]
            )
        )
    return found


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_calls_leave_nothing(seed: int) -> None:
    source = random.Random(seed)  # a test
    code = f"DONE = {int(Kind.DONE)}\n{_CALLS}"
    async with attacked() as attack:
        await attack.session.warm_up()
        await attack.settle()
        names = ("[heap]", "[stack]", "")
        for number in range(ROUNDS):
            mappings = mappings_of(attack.session, source.choice(names))
            inputs = {"calls": random_calls(source, mappings)}
            await attack.run(code, inputs=inputs, limits=Limits(timeout_ms=1_000))
            await attack.settle()
            if number % 10 == 0:
                result = await attack.session.program(source=f"sum(range({number}))")
                assert result.value == sum(range(number)), result.error
                await attack.settle()
        sys.stdout.write(f"seed {seed}: {attack.counts()}\n")
        assert attack.differences == {}
        assert attack.counts()["restored"] > ROUNDS // 20
