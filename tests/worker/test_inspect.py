"""The places of a script that computes, as its worker reports them."""

from __future__ import annotations

from ptc._wire._messages import parse_frames
from ptc.worker._inspect import answer


def test_frame_between_two_lines_is_reported_as_line_0() -> None:
    """Its f_lineno is None, which the host took for a violation of the protocol."""

    def function() -> bytes:
        return answer("script.py", b"[1]")

    code = function.__code__
    function.__code__ = code.replace(co_filename="script.py", co_linetable=b"")
    assert parse_frames(function()) == [("function", 0, {})]
