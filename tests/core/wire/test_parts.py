"""Large values in parts: what a worker writes is what the host reads, and nothing else is taken."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc._records._artifacts import shrink
from ptc._wire import _bodies
from ptc._wire._bodies import INLINE_BYTES, MAX_DEPTH, ProtocolError, decode, tally
from ptc._wire._parts import PartReader, json_of, target_of
from ptc._wire._protocol import Kind

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=12), inner, max_size=8)
    ),
    max_leaves=40,
)
WHOLE = VALUES.filter(lambda value: isinstance(value, str | list | dict))
PARTS = [
    b"[", b"]", b"{", b"}", b"i[1,[2]]", b'm{"a":1,"b":[]}', b'""k"', b'+"x"', b"v{}", b"v1",
]  # fmt: skip


def reader(**limits: int) -> PartReader:
    most = {"most_bytes": 1 << 30, "most_containers": 1 << 30, "keep_bytes": 1 << 30, **limits}
    return PartReader(Kind.DONE, **most)


def feed_parts(*parts: bytes, **limits: int) -> PartReader:
    made = reader(**limits)
    for part in parts:
        made.feed(part)
    return made


def parts_of(value: Any, chance: random.Random) -> Iterator[bytes]:
    """Some way to write `value` in parts; one of many."""
    if isinstance(value, str):
        cuts = sorted(chance.randint(0, len(value)) for _ in range(chance.randint(0, 3)))
        pieces = [value[a:b] for a, b in zip([0, *cuts], [*cuts, len(value)], strict=True)]
        for piece in pieces[:-1]:
            yield b"+" + orjson.dumps(piece)
        yield b'"' + orjson.dumps(pieces[-1])
    elif isinstance(value, list):
        yield b"["
        at = 0
        while at < len(value):
            size = chance.randint(1, 4)
            if chance.random() < 0.5 and isinstance(value[at], str | list | dict):
                yield from parts_of(value[at], chance)
                at += 1
            else:
                yield b"i" + orjson.dumps(value[at : at + size])
                at += size
        yield b"]"
    else:
        yield b"{"
        members = list(value.items())
        while members:
            (key, item), size = members[0], chance.randint(1, 4)
            if chance.random() < 0.5:
                yield from parts_of(key, chance)
                if isinstance(item, str | list | dict):
                    yield from parts_of(item, chance)
                else:
                    yield b"v" + orjson.dumps(item)
                del members[:1]
            else:
                yield b"m" + orjson.dumps(dict(members[:size]))
                del members[:size]
        yield b"}"


def count(value: Any) -> tuple[int, int]:
    """Values in a value, itself included, and how many of them are lists or objects."""
    below = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    counts = [count(part) for part in below]
    container = isinstance(value, list | dict)
    return 1 + sum(c[0] for c in counts), container + sum(c[1] for c in counts)


@given(WHOLE, st.integers())
@settings(deadline=None)
def test_value_does_not_depend_on_its_division_into_parts(value: Any, seed: int) -> None:
    read = feed_parts(*parts_of(value, random.Random(seed)))
    read.finish(Kind.DONE)
    assert read.value == value
    assert read.root is not None
    written = b"".join(json_of(read.root))
    assert json.loads(written) == value
    assert written == orjson.dumps(value)
    assert read.size == len(written) == read.root.size
    assert read.tally.containers >= count(value)[1]
    assert read.tally.values >= count(value)[0]


@given(WHOLE, st.integers(1, 400), st.integers())
@settings(deadline=None)
def test_truncated_value_in_parts_fits_and_starts_like_the_whole(
    value: Any, most: int, seed: int
) -> None:
    read = feed_parts(*parts_of(value, random.Random(seed)))
    cut = shrink(read.root, most)
    if read.size <= most:
        assert cut == value
    else:
        assert len(orjson.dumps(cut)) <= max(most, len("null"))
    if isinstance(cut, list) and len(cut) > 2:
        # The first item may be truncated itself, then it is the only one.
        assert cut[0] == value[0]


@pytest.mark.parametrize(
    "parts",
    [
        [b""],
        [b"x"],
        [b"i[1]"],
        [b'm{"a":1}'],
        [b"]"],
        [b"}"],
        [b"v1"],
        [b"[", b"}"],
        [b"{", b"]"],
        [b"[x"],
        [b"[", b"i[]"],
        [b"[", b"i{}"],
        [b"[", b'i{"a":1}'],
        [b"[", b"i[1"],
        [b"[", b"i[1]]"],
        [b"[", b"i[1] "],
        [b"[", b"i[NaN]"],
        [b"[", b'm{"a":1}'],
        [b"[", b"v1"],
        [b"{", b"i[1]"],
        [b"{", b"m{}"],
        [b"{", b"["],
        [b"{", b"{"],
        [b"{", b"v1"],
        [b"{", b'""a"', b"}"],
        [b"{", b'""a"', b'm{"b":1}'],
        [b"{", b'""a"', b"v"],
        [b"{", b'""a"', b"v1 2"],
        [b'+"a"', b"["],
        [b'+"a"', b"i[1]"],
        [b'+"a"', b"]"],
        [b'"'],
        [b'"1'],
        [b'"1"'],
        [b'""a" "b"'],
        [b'""\xff"'],
        [b'""\\ud800"'],
        [b"[", b"]", b"["],
        [b'""a"', b'""b"'],
    ],
    ids=lambda parts: b" ".join(parts).decode(errors="backslashreplace"),
)  # fmt: skip
def test_parts_that_do_not_form_one_value_are_refused(parts: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        feed_parts(*parts)


@pytest.mark.parametrize("parts", [[], [b"["], [b'+"a"'], [b"{", b'""a"', b"["]])
def test_unclosed_value_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="do not make its value"):
        feed_parts(*parts).finish(Kind.DONE)


def test_parts_for_another_frame_are_refused() -> None:
    read = feed_parts(b"[", b"]")
    with pytest.raises(ProtocolError, match="before EMIT do not make its value"):
        read.finish(Kind.EMIT)
    for part in (b"<", b"<\x00", b"<\x14", b"<\x1a\x1a"):
        with pytest.raises(ProtocolError, match="starts for a frame that takes none"):
            target_of(part)
    assert target_of(b"<%c" % Kind.EMIT) is Kind.EMIT
    assert target_of(b"[") is None


@pytest.mark.parametrize("opener", [b"[", b"{"])
def test_a_value_nested_too_deeply_is_refused(opener: bytes) -> None:
    def nest(levels: int) -> PartReader:
        made = reader()
        for _ in range(levels):
            made.feed(opener)
            if opener == b"{":
                made.feed(b'""a"')
        return made

    with pytest.raises(ProtocolError, match="nested deeper"):
        nest(MAX_DEPTH).feed(opener)
    with pytest.raises(ProtocolError, match="nested deeper"):
        nest(MAX_DEPTH - 100).feed(
            (b"i[" if opener == b"[" else b"v") + b"[" * 101 + b"]" * 101 + b"]" * (opener == b"[")
        )


def test_a_part_nested_too_deeply_is_found_when_the_value_is_truncated() -> None:
    # Not decoded as it came: it was over the limit by then.
    parts = [b"["] * 150 + [b"i[" + b"[" * 60 + b"]" * 60 + b"]"] + [b"]"] * 150
    read = feed_parts(*parts, most_bytes=10)
    with pytest.raises(ProtocolError, match="nested deeper"):
        shrink(read.root, 500)


def test_a_value_over_its_limit_is_counted_and_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    real = _bodies.load_json

    def load_json(body: bytes) -> Any:
        sizes.append(len(body))
        return real(body)

    monkeypatch.setattr(_bodies, "load_json", load_json)
    batch = b"i[" + b"[]," * 999 + b"[]]"
    read = feed_parts(b"[", *[batch] * 20, b"]", most_bytes=10_000)
    assert not read.decoded
    assert read.value is None
    assert read.size == 2 + 20 * (len(batch) - 3) + 19
    assert len(sizes) == 3  # those within the limit
    sizes.clear()
    read = feed_parts(b"[", *[batch] * 20, b"]", most_containers=5_000)
    assert (read.decoded, len(sizes)) == (False, 4)


def test_stored_bytes_of_an_oversized_value_are_bounded() -> None:
    batch = b"i[" + b"1," * 999 + b"1]"
    read = feed_parts(b"[", b"[", *[batch] * 20, b"]", b"]", most_bytes=10, keep_bytes=10_000)
    assert read.root is None
    assert read.size == 4 + 20 * (len(batch) - 3) + 19
    read.finish(Kind.DONE)


@pytest.mark.parametrize(
    ("opener", "parts"),
    [
        ([], [b'+""']),
        ([], [b'+"x"']),
        ([], ['+"\u0416"'.encode()]),
        ([b"["], [b"[", b"]"]),
        ([b"["], [b"i[1]"]),
        ([b"["], [b'"""']),
        ([b"{"], [b'""k"', b"v1"]),
        ([b"{"], [b'+""', b'"""', b"{", b"}"]),
    ],
    ids=lambda parts: b" ".join(parts).decode(),
)
def test_memory_of_tiny_parts_is_bounded(opener: list[bytes], parts: list[bytes]) -> None:
    # Regression: an empty piece cost 45 bytes of memory for none of JSON, a list 193 for three.
    most = 1 << 15
    tracemalloc.start()
    try:
        read = feed_parts(*opener, most_bytes=most, most_containers=1_000, keep_bytes=4 * most)
        for _ in range(20_000):
            for part in parts:
                read.feed(part[:1] + part[1:])  # bytes of its own, as from a socket
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used <= 8 * most


@given(st.lists(st.sampled_from(PARTS), max_size=30))
@settings(deadline=None)
def test_random_parts_form_a_value_or_are_refused(parts: list[bytes]) -> None:
    made = reader()
    try:
        for part in parts:
            made.feed(part)
        made.finish(Kind.DONE)
    except ProtocolError:
        return
    assert made.root is not None
    assert json.loads(b"".join(json_of(made.root))) == made.value


# --- counting -----------------------------------------------------------------------------------


@given(VALUES)
@settings(deadline=None)
def test_tally_never_undercounts_a_value(value: Any) -> None:
    found = tally(orjson.dumps(value))
    assert found.values >= count(value)[0]
    assert found.containers >= count(value)[1]


MARKUP = st.text(alphabet='"\\[]{},: a', max_size=12)
MARKED_UP = st.recursive(
    MARKUP,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(MARKUP, inner, max_size=6),
    max_leaves=30,
)


@given(MARKED_UP, st.sampled_from([None, 1]))
@settings(deadline=None)
def test_tally_is_exact_whatever_the_strings_contain(value: Any, indent: int | None) -> None:
    found = tally(json.dumps(value, indent=indent).encode())
    values, containers = count(value)
    assert found.containers == containers
    # An empty container counts as one with a value.
    assert values <= found.values <= values + containers


def test_text_full_of_brackets_counts_as_one_value() -> None:
    for text in ('a,b,"[{' * 5_000, "\\\\\\" + '",[' * 20_000, ",[" * 10_000 + "\\"):
        assert tally(orjson.dumps([text, text])) == (3, 1), text[:20]


@pytest.mark.parametrize(
    "body", [b'"' + b',a\\"' * 30_000, b'"a' * 65_000, b"\\" * 131_000, b'["a",' * 21_000]
)
def test_damaged_json_is_counted_in_linear_time(body: bytes) -> None:
    # Regression: a pattern for strings took 42 s for the first of these.
    assert tally(body).values >= 1


def test_body_with_too_many_containers_is_refused_before_decoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(decode(b"[" + b"[]," * 43_000 + b"[]]")) == 43_001
    body = b"[" + b"[]," * (INLINE_BYTES // 3) + b"[]]"
    monkeypatch.setattr(_bodies, "load_json", pytest.fail)
    with pytest.raises(ProtocolError, match="more than 16,384 lists and objects"):
        decode(body)
