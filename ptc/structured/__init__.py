"""Structured answers: schema validation, and repair of damaged JSON without a model.

    contract = Contract(Invoice)
    recovered = recover(text, contract)      # None: ask again, nothing is guessed

Everything here is pure: no model, no file, no network. Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._contract import Contract as Contract
    from ._edits import EDITS as EDITS
    from ._edits import Repair as Repair
    from ._loop import Accepted as Accepted
    from ._loop import Again as Again
    from ._loop import Attempt as Attempt
    from ._loop import GaveUp as GaveUp
    from ._loop import RepairLoop as RepairLoop
    from ._recover import Recovered as Recovered
    from ._recover import recover as recover
    from ._recover import was_cut as was_cut
    from ._stream import Partial as Partial
    from ._stream import StreamParser as StreamParser
    from ._violations import Violation as Violation

_HOME = {
    "Accepted": "_loop",
    "Again": "_loop",
    "Attempt": "_loop",
    "Contract": "_contract",
    "EDITS": "_edits",
    "GaveUp": "_loop",
    "Partial": "_stream",
    "Recovered": "_recover",
    "Repair": "_edits",
    "RepairLoop": "_loop",
    "StreamParser": "_stream",
    "Violation": "_violations",
    "recover": "_recover",
    "was_cut": "_recover",
}

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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
