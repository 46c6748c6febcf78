"""Storage of runs: the `Journal` protocol, its rows, and the stores that implement it.

A session opens its journal itself; pass an object of your own as ``Session(journal=store)`` to
record runs elsewhere. `open_journal` opens a SQLite file, or PostgreSQL by its address. A journal
interprets nothing: it stores rows, in order, under a lease.
"""

from typing import TYPE_CHECKING

from .._core._lazy import lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._documents import Document as Document
    from ._documents import Documents as Documents
    from ._journal import CallEnd as CallEnd
    from ._journal import CallRow as CallRow
    from ._journal import DecisionRow as DecisionRow
    from ._journal import Delivery as Delivery
    from ._journal import Entry as Entry
    from ._journal import EventCount as EventCount
    from ._journal import EventRow as EventRow
    from ._journal import Journal as Journal
    from ._journal import PendingRow as PendingRow
    from ._journal import RevertRow as RevertRow
    from ._journal import RunRecord as RunRecord
    from ._journal import RunRow as RunRow
    from ._journal import Tick as Tick
    from ._journal import UsedDecision as UsedDecision
    from ._lease import Lease as Lease
    from ._open import open_journal as open_journal
    from ._run_lists import EndedRun as EndedRun
    from ._run_lists import RunPage as RunPage
    from ._run_lists import RunQuery as RunQuery
    from ._run_lists import RunSummary as RunSummary

__all__ = [
    "CallEnd",
    "CallRow",
    "DecisionRow",
    "Delivery",
    "Document",
    "Documents",
    "EndedRun",
    "Entry",
    "EventCount",
    "EventRow",
    "Journal",
    "Lease",
    "PendingRow",
    "RevertRow",
    "RunPage",
    "RunQuery",
    "RunRecord",
    "RunRow",
    "RunSummary",
    "Tick",
    "UsedDecision",
    "open_journal",
]

__getattr__: "Callable[[str], object]"
__dir__: "Callable[[], list[str]]"
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "_documents": ["Document", "Documents"],
        "_journal": [
            "CallEnd",
            "CallRow",
            "DecisionRow",
            "Delivery",
            "Entry",
            "EventCount",
            "EventRow",
            "Journal",
            "PendingRow",
            "RevertRow",
            "RunRecord",
            "RunRow",
            "Tick",
            "UsedDecision",
        ],
        "_lease": ["Lease"],
        "_open": ["open_journal"],
        "_run_lists": ["EndedRun", "RunPage", "RunQuery", "RunSummary"],
    },
)
