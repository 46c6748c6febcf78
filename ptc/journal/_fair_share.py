"""Fair shares of the free slots of a worker, between tenants."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from .._dataclass import dataclass

__all__ = ["Demand", "divide_slots"]


@dataclass(frozen=True, slots=True)
class Demand:
    """Runs of a tenant that are running, and those that may start."""

    running: int
    ready: int
    """Runs that may start now, within the limits of the tenant."""


def divide_slots(slots: int, demands: Mapping[str, Demand]) -> dict[str, int]:
    """Return the number of runs that may start, by tenant.

    Each slot goes to the tenant that has the fewest running, counted on all machines. So a tenant
    that submits many runs delays another by at most the end of one of its runs.

    Args:
        slots: Free slots of this worker.
        demands: Each tenant's runs.
    """
    shares = dict.fromkeys(demands, 0)
    waiting = [(demand.running, name) for name, demand in demands.items() if demand.ready > 0]
    heapq.heapify(waiting)
    for _ in range(slots):
        if not waiting:
            break
        running, name = waiting[0]
        shares[name] += 1
        if shares[name] < demands[name].ready:
            heapq.heapreplace(waiting, (running + 1, name))
        else:
            heapq.heappop(waiting)
    return {name: share for name, share in shares.items() if share}
