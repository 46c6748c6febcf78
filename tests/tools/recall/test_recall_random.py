"""`get_tool_response` on random values, against Python's own JSON."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptc._records._artifacts import LocalArtifacts
from ptc_tools.recall import _json_scan, _pointer
from ptc_tools.recall._json_scan import JsonScan, NotJsonError
from ptc_tools.recall._parts import Request, json_part

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=6), inner, max_size=8)
    ),
    max_leaves=15,
)


def parts_of(value: Any, pointer: str = "") -> list[tuple[str, Any]]:
    """List all parts of a value with their pointers."""
    found = [(pointer, value)]
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            found += parts_of(item, _pointer.child(pointer, key))
    return found


@pytest.fixture(autouse=True)
def _small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_json_scan, "CHUNK_BYTES", 13)


@given(value=values, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_part_of_a_random_value_is_found(
    tmp_path: Path, value: Any, indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    store = LocalArtifacts(tmp_path)
    file = store.open(store.keep(data).sha256)
    assert file is not None
    with file:
        for pointer, part in parts_of(value):
            found = json_part(file, Request(pointer, 0, None, 100_000))
            assert (found.value, found.unit) == (part, "value"), pointer
            if isinstance(part, dict | list):
                pages: list[Any] = []
                offset: int | None = 0
                while offset is not None:
                    page = json_part(file, Request(pointer, offset, 3, 100_000))
                    pages += page.value.items() if isinstance(part, dict) else page.value
                    assert page.total == len(part)
                    offset = page.next
                assert pages == (list(part.items()) if isinstance(part, dict) else part)


@pytest.mark.slow
@given(value=values, indent=st.sampled_from([None, 1]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_position_has_the_pointer_of_its_value(value: Any, indent: int | None) -> None:
    data = json.dumps(value, indent=indent).encode()

    def read(offset: int, count: int) -> bytes:
        return data[offset : offset + count]

    known = [pointer for pointer, _ in parts_of(value)]
    locator = _pointer.Locator(read, 0, "")
    for position in range(len(data)):
        pointer = locator.find(position)
        assert pointer in known
        scan = JsonScan(read)
        _pointer.find(scan, pointer)
        scan.next_byte()
        span = scan.skip_value()
        # In the value, in the key or the white space before it, or among brackets after it.
        assert position < span.end or data[span.end : position].strip(b" \n,:]}") == b"", pointer


@given(st.binary(max_size=60) | st.text('[]{}",:\\u01 ae', max_size=60).map(str.encode))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_json_ends_in_an_error_or_a_span(data: bytes) -> None:
    def read(offset: int, count: int) -> bytes:
        return data[offset : offset + count]

    with suppress(NotJsonError):
        span = JsonScan(read).skip_value()
        assert 0 <= span.start < span.end <= len(data)
