"""Dummy scripts that a worker runs before its own, and the simulated host they talk to.

They take a worker's copy-on-write faults on the real path, before a user waits for them.
"""

from __future__ import annotations

from dataclasses import asdict

from .._records._limits import Limits
from .._wire._protocol import Kind, encode
from . import _values

__all__ = ["WARM_CALLS", "WARM_START", "WARM_SYNTAX", "Prompter"]

WARM_START = (
    b'{"inputs":{},"tools":{"t":["x"]},"limits":%b,"epoch":0,"seed":0,"check":'
    b'{"t":[["x"],["x"],true,{"x":["a number","n"]}]},"then":"refuse"}'
) % _values.dumps(asdict(Limits()), "limits")
WARM_CALLS = b"""
import asyncio, json
async def run(ctx, inputs):
    a = ctx.t(x=1)
    (b,) = await asyncio.gather(a)
    print(len(b))
    return {"n": [r.a for r in b], "i": inputs}
"""
WARM_SYNTAX = b"""
import json
from collections import Counter

class Row:
    def __init__(self, name, size=0):
        self.name, self._size = name, size

    @property
    def size(self):
        return self._size

def heavy(rows, *, least=1):
    for row in rows:
        if row.size >= least and not row.name.startswith("."):
            yield row

def run(ctx, inputs):
    total, names = 0, {}
    try:
        for n, r in enumerate(ctx.t(1)):
            row = Row(f"row {n:>3}", -r["a"] + 2)
            total += row.size
            names[row.name] = names.get(row.name, 0) + 1
    except (KeyError, ValueError) as error:
        print("no", error)
    while total > 10:
        total -= 1
    ranked = sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))
    kinds = Counter(name[:3] for name, _ in ranked)
    with_all = [*ranked, (None, 1)] if total is not None else []
    return {"n": with_all[:3], "kinds": {k: v for k, v in kinds.items()}, "text": json.dumps(names)}
"""


class Prompter:
    """Socket of a rehearsal: it sends scripted frames and discards the rest.

    The worker cannot create a real one: the system call filter is installed.
    """

    def __init__(self, *frames: tuple[Kind, bytes]) -> None:
        self._frames = [encode(*frame) for frame in reversed(frames)]

    def recv(self, _size: int, _flags: int = 0, /) -> bytes:
        """Return the next frame; ``b""`` after the last."""
        return self._frames.pop() if self._frames else b""

    def sendall(self, data: bytes, /) -> None:
        """Discard `data`."""
