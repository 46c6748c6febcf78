"""Tools in a worker: those that the script names, and the others on request."""

from __future__ import annotations

from ptc._wire._protocol import Kind, encode
from ptc.worker._tool_table import ToolTable, list_names
from ptc.worker._wire import Wire

ALL = b'{"a":[],"b.c":["x"],"b.d":[],"e":["y","z"]}'


class Host:
    """Socket that delivers given data."""

    def __init__(self, *frames: tuple[Kind, bytes]) -> None:
        self._data = [encode(*frame) for frame in frames]
        self.sent = b""

    def recv(self, _size: int, _flags: int = 0, /) -> bytes:
        return self._data.pop(0)

    def sendall(self, data: bytes, /) -> None:
        self.sent += data


def test_named_tools_and_their_namespaces_are_found_without_a_request() -> None:
    requests: list[int] = []

    def request() -> bytes:
        requests.append(1)
        return ALL

    table = ToolTable({"a": [], "b.c": ["x"]}, request)
    assert table.parameters("b.c") == ("x",)
    assert table.parameters("b") is None
    assert table.has_namespace("b")
    assert "a" in table
    assert requests == []
    assert table.parameters("e") == ("y", "z")
    assert (table.parameters("n"), table.has_namespace("n")) == (None, False)
    assert list(table) == ["a", "b.c", "b.d", "e"]
    assert requests == [1]


def test_other_frames_stay_in_order_while_an_answer_is_awaited() -> None:
    host = Host((Kind.TICK, b"[1]"), (Kind.PING, b"[]"), (Kind.TOOLS, ALL), (Kind.TICK, b"[2]"))
    wire = Wire(host)
    assert wire.request(Kind.REQUEST_TOOLS, Kind.TOOLS) == ALL
    assert host.sent == encode(Kind.REQUEST_TOOLS, b"[]")
    assert wire.receive() == (Kind.TICK, b"[1]")
    assert wire.receive() == (Kind.TICK, b"[2]")
    assert host.sent.endswith(encode(Kind.PONG, b"[]"))


def test_nothing_is_requested_after_the_last_frame() -> None:
    wire = Wire(Host())
    wire.close(Kind.DONE, b"1")
    table = ToolTable({"a": []}, lambda: wire.request(Kind.REQUEST_TOOLS, Kind.TOOLS))
    assert list(table) == ["a"]
    assert table.parameters("b") is None


def test_long_lists_of_names_are_truncated_for_a_model() -> None:
    assert list_names([]) == "none"
    assert list_names(["a", "b"]) == "a, b"
    assert list_names(["name"] * 9, 20).endswith("name and 5 more; find them with ctx.search_tools")
