"""Completeness of the recorded arguments of a pending call."""

from __future__ import annotations

from .._core import _json
from .._records._result import PendingCall
from .._tools._tool import Tool

__all__ = ["are_arguments_whole"]

_MARKS = ("[secret ", "[credential]", "[text withheld")
"""Parts of the text by which a secret is replaced, see `ptc/_core/_redact.py`."""


def are_arguments_whole(call: PendingCall, tool: Tool) -> bool:
    """True if the recorded arguments are those of the call, with nothing redacted or summarized.

    Only then can somebody edit them, since edited arguments replace all of them.
    """
    arguments = call.arguments
    if not isinstance(arguments, dict) or not arguments.keys() <= set(tool.parameter_names):
        return False
    text = _json.dumps(arguments).decode()
    return not any(mark in text for mark in _MARKS) and not tool.unrecorded & arguments.keys()
