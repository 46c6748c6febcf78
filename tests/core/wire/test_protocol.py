"""The wire: framing, legality and shapes. No process, no socket."""

from __future__ import annotations

import random
import struct

import orjson
import pytest

from ptc._wire._bodies import MAX_DEPTH, decode
from ptc._wire._protocol import (
    HEADER_BYTES,
    LEGAL,
    MAX_BODY,
    Call,
    Decoder,
    Failure,
    Kind,
    ProtocolError,
    State,
    encode,
    next_state,
    parse,
)


def test_frames_are_decoded_identically_for_any_chunking() -> None:
    frames = [(Kind.PRINT, b'["a"]'), (Kind.POLLED, b"[1,64]"), (Kind.DONE, b"1" * 5_000)]
    data = b"".join(encode(kind, body) for kind, body in frames)
    for seed in range(50):
        cuts = random.Random(seed)
        decoder, out, rest = Decoder(), [], data
        while rest:
            size = cuts.randint(1, 700)
            out += list(decoder.feed(rest[:size]))
            rest = rest[size:]
        assert out == frames
        assert decoder.pending_bytes == 0


def test_an_oversized_frame_is_refused_by_its_header() -> None:
    for kind in Kind:
        header = struct.pack(">IB", MAX_BODY[kind] + 2, kind)
        decoder = Decoder()
        with pytest.raises(ProtocolError, match="over the limit"):
            list(decoder.feed(header))
        assert decoder.pending_bytes <= HEADER_BYTES


def test_frame_of_zero_length_or_unknown_kind_is_refused() -> None:
    with pytest.raises(ProtocolError, match="over the limit"):
        list(Decoder().feed(struct.pack(">IB", 0, Kind.DONE)))
    with pytest.raises(ProtocolError, match="unknown kind"):
        list(Decoder().feed(struct.pack(">IB", 1, 99)))


def test_a_body_over_its_limit_is_not_sent() -> None:
    with pytest.raises(ValueError, match="CANCEL of 65 bytes is over the limit of 64"):
        encode(Kind.CANCEL, b"1" * 65)


def test_every_transition_outside_the_table_is_refused() -> None:
    for state in State:
        for kind in Kind:
            if kind in LEGAL[state]:
                assert next_state(state, kind) is LEGAL[state][kind]
            else:
                with pytest.raises(ProtocolError, match="is not legal in state"):
                    next_state(state, kind)


def test_every_state_is_reachable_and_every_kind_is_legal_somewhere() -> None:
    reached, kinds = {State.FORKED}, set()
    for moves in LEGAL.values():
        reached |= set(moves.values())
        kinds |= set(moves)
    assert reached == set(State)
    assert kinds == set(Kind)


def test_compiled_code_is_refused_once_the_script_runs() -> None:
    assert Kind.COMPILED not in LEGAL[State.RUNNING]
    assert Kind.COMPILED not in LEGAL[State.ENDED]
    with pytest.raises(ProtocolError):
        next_state(State.RUNNING, Kind.COMPILED)


WRONG = {
    Kind.READY: [b"{}", b"[1]", b"null"],
    Kind.CALL: [
        b"[]",
        b'[1,"t",{}]',
        b'[true,"t",{},null]',
        b'[0,"t",{},null]',
        b"[1,2,{},null]",
        b'[1,"t",[],null]',
        b'[1,"t",{},"x"]',
        b'[1,"t",{},-1]',
        b'[9007199254740993,"t",{},1]',
        b'[1,"%s",{},1]' % (b"t" * 300),
    ],
    Kind.CANCEL: [b"[]", b'["1"]', b"[1.5]", b"[true]"],
    Kind.PRINT: [b'["a"]', b"[1,0]", b'["a","b"]', b'"a"', b'["a",3]', b'["a",-1]', b'["a",true]'],
    Kind.WARN: [
        b'["text"]',
        b'["a","b","c","4"]',
        b'["a","b",null,4]',
        b'["a","b","c",-1]',
        b'["a","b","c",true]',
        b'["A b","b","c",4]',
        b'["","b","c",4]',
    ],
    Kind.TIMER: [b'["1"]', b"[-1]", b"[1e12]", b"[null]"],
    Kind.REJECTED: [b"[]", b"[1]", b'[{"code":"a"}]', b"{}"],
    Kind.FAILED: [b"[]", b"{}", b'{"type":"X"}'],
    Kind.DONE: [b"", b"{", b"NaN", b"[" * 3_000 + b"]" * 3_000],
    Kind.EMIT: [b"", b"'x'"],
}


@pytest.mark.parametrize("kind", list(WRONG), ids=lambda kind: kind.name)
def test_a_body_of_the_wrong_shape_is_refused(kind: Kind) -> None:
    for body in WRONG[kind]:
        with pytest.raises(ProtocolError):
            parse(kind, body)


def test_host_only_frames_are_refused_from_a_worker() -> None:
    for kind in (Kind.START, Kind.SOURCE, Kind.CODE, Kind.RESULT, Kind.TICK):
        with pytest.raises(ProtocolError, match="a worker does not send"):
            parse(kind, b"[]")


def test_well_formed_bodies_are_parsed_to_exact_types() -> None:
    call = parse(Kind.CALL, b'[3,"grep",{"q":1},7]')
    assert call == Call(3, "grep", {"q": 1}, 7)
    failure = {
        "type": "ValueError",
        "message": "no",
        "code": "exception",
        "tool": "",
        "hint": "",
        "frames": [[1, 1, 5, 9, "run"]],
    }
    parsed = parse(Kind.FAILED, orjson.dumps(failure))
    assert isinstance(parsed, Failure)
    assert parsed.frames[0].name == "run"


def test_random_bytes_raise_only_protocol_errors() -> None:
    dice = random.Random(7)
    for _ in range(3_000):
        decoder = Decoder()
        try:
            for kind, body in decoder.feed(dice.randbytes(dice.randint(0, 64))):
                parse(kind, body)
        except ProtocolError:
            continue


@pytest.mark.parametrize("length", [0, 20_000])
def test_depth_of_a_body_is_bounded_exactly_whatever_its_length(length: int) -> None:
    def nested(levels: int) -> bytes:
        return b'["%b",' % (b"x" * length) + b"[" * (levels - 1) + b"]" * levels

    assert decode(nested(MAX_DEPTH))[0] == "x" * length
    for levels in (MAX_DEPTH + 1, 1_000, 1_024, 5_000):
        with pytest.raises(ProtocolError, match=r"nested deeper|not JSON"):
            decode(nested(levels))
    # Brackets in texts are not levels.
    assert decode(b'["%b"]' % (b"[{" * 1_000 + b"x" * length))


@pytest.mark.parametrize("body", [b"1],[2", b"]", b"[", b"],[", b"", b"1]],[[2", b"1,2", b"[]]"])
def test_body_cannot_close_lists_that_it_has_not_opened(body: bytes) -> None:
    for filler in (b"", b" " * 20_000):
        with pytest.raises(ProtocolError, match="not JSON"):
            decode(body + filler)
