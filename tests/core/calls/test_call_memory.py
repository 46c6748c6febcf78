"""Memory that a finished call of a long run holds."""

from __future__ import annotations

import tracemalloc

from ptc._calls._call import OpenCall
from ptc._tools._tool import ToolCall

_CALLS = 500


def test_short_arguments_are_cached_in_their_own_size() -> None:
    calls = [OpenCall(ToolCall(name="t", arguments={"x": n}, seq=n + 1)) for n in range(_CALLS)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert [call.encode_arguments() for call in calls][-1] == b'{"x":%d}' % (_CALLS - 1)
        held = (tracemalloc.get_traced_memory()[0] - before) / _CALLS
    finally:
        tracemalloc.stop()
    assert held < 200
