"""Structured answers: schema validation, and repair of damaged JSON without a model.

    contract = Contract(Invoice)
    recovered = recover(text, contract)      # None: ask again, nothing is guessed

Everything here is pure: no model, no file, no network. Names are imported on first use.
"""

from typing import TYPE_CHECKING

from .._core._lazy import lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._contract import Contract as Contract
    from ._loop import Accepted as Accepted
    from ._loop import Again as Again
    from ._loop import Attempt as Attempt
    from ._loop import GaveUp as GaveUp
    from ._loop import RepairLoop as RepairLoop
    from ._reading import EDITS as EDITS
    from ._reading import Repair as Repair
    from ._recover import Recovered as Recovered
    from ._recover import recover as recover
    from ._recover import was_cut as was_cut
    from ._stream import Partial as Partial
    from ._stream import StreamParser as StreamParser
    from ._violations import Violation as Violation


__all__ = [
    "EDITS",
    "Accepted",
    "Again",
    "Attempt",
    "Contract",
    "GaveUp",
    "Partial",
    "Recovered",
    "Repair",
    "RepairLoop",
    "StreamParser",
    "Violation",
    "recover",
    "was_cut",
]

__getattr__: "Callable[[str], object]"
__dir__: "Callable[[], list[str]]"
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "_contract": ["Contract"],
        "_reading": ["EDITS", "Repair"],
        "_loop": ["Accepted", "Again", "Attempt", "GaveUp", "RepairLoop"],
        "_recover": ["Recovered", "recover", "was_cut"],
        "_stream": ["Partial", "StreamParser"],
        "_violations": ["Violation"],
    },
)
