"""`get_tool_response`: a stored value again, whole, in parts, and by search."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ptc import Attachment, Session, ToolContext, ToolError, ToolResult, tool
from ptc_tools import StoredPart, get_tool_response
from ptc_tools.recall import _json_scan

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

ROWS = [{"id": n, "name": f"n{n}", "tags": ["a", {"b": [n]}]} for n in range(1_000)]
TEXT = "".join(f"line {n}: é\n" for n in range(2_000)) + "the last one"
VALUE = {
    "rows": ROWS,
    "a/b": {"~x": "found", "": "empty key"},
    "zero": 0,
    "empty": "",
    "no": False,
    "nothing": None,
    "text": TEXT,
}


@tool
def draw(ctx: ToolContext, data: str) -> ToolResult:
    """Return a file."""
    return ToolResult.success("drawn", attachments=[Attachment("a.bin", "image/png", data)])


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session(tmp_path, toolsets=(), tools=[get_tool_response, draw], workers=1) as opened:
        yield opened


def store(session: Session, value: Any, suffix: str = ".json") -> str:
    data = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    return session.artifacts.keep(data, suffix).sha256[:16]


async def part(session: Session, handle: str, **arguments: Any) -> StoredPart:
    found = await session.call(get_tool_response, handle=handle, **arguments)
    assert isinstance(found, StoredPart)
    return found


async def code_of(session: Session, handle: str, **arguments: Any) -> tuple[str, str]:
    with pytest.raises(ToolError) as caught:
        await part(session, handle, **arguments)
    return caught.value.code, caught.value.message


# --- whole values -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, "", False, None, [], {}, 1.5, "text", [0], {"a": None}])
async def test_stored_value_comes_back_as_it_is(session: Session, value: Any) -> None:
    handle = store(session, value)
    whole = await part(session, handle)
    assert (whole.value, type(whole.value), whole.unit) == (value, type(value), "value")
    shown = await session.tool("get_tool_response", {"handle": handle})
    assert shown.text == (value if isinstance(value, str) else json.dumps(value)).replace(" ", "")


async def test_falsy_parts_survive(session: Session) -> None:
    handle = store(session, VALUE)
    for key in ("zero", "empty", "no", "nothing"):
        found = await part(session, handle, pointer=f"/{key}")
        assert (found.value, found.unit) == (VALUE[key], "value")


async def test_value_that_fits_is_whole_and_a_longer_one_is_paged(session: Session) -> None:
    items = ["x" * 9] * 100  # 1,201 bytes of JSON without spaces
    handle = store(session, json.dumps(items, separators=(",", ":")).encode())
    fits = await part(session, handle, max_chars=1_201)
    paged = await part(session, handle, max_chars=1_200)
    assert (fits.value, fits.unit, fits.next) == (items, "value", None)
    assert (paged.unit, paged.next, paged.total) == ("items", 99, 100)
    assert paged.value == items[:99]


async def test_direct_call_returns_less_than_a_script_by_default(session: Session) -> None:
    handle = store(session, VALUE)
    source = f"return len((await ctx.get_tool_response('{handle}', '/rows')).value)"
    inside = await session.program(source=f"async def run(ctx, inputs):\n    {source}")
    assert inside.unwrap() == 1_000
    outside = await part(session, handle, pointer="/rows")
    assert outside.next == len(outside.value) < 1_000
    assert len((await session.tool("get_tool_response", {"handle": handle})).text) < 17_000


# --- pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [64, 1 << 20])
async def test_consecutive_parts_are_the_whole_value(
    session: Session, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(_json_scan, "CHUNK_BYTES", chunk)
    members = {f"key {n}": [n, {"deep": [[[[[n]]]]]}] for n in range(300)}
    spaced = json.dumps(ROWS[:300], indent=2).encode()
    for value, stored in ((ROWS[:300], spaced), (members, members)):
        handle = store(session, stored)
        pages: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            page = await part(session, handle, offset=offset, max_chars=3_000)
            assert (page.offset, page.total) == (offset, 300)
            pages.append(page.value)
            offset = page.next
        assert len(pages) > 3
        joined: Any = [item for page in pages for item in page]
        if isinstance(value, dict):
            joined = {key: item for page in pages for key, item in page.items()}
        assert joined == value


async def test_any_page_can_be_read_without_those_before(session: Session) -> None:
    handle = store(session, VALUE)
    for offset in (999, 0, 500, 1, 998):
        page = await part(session, handle, pointer="/rows", offset=offset, limit=2)
        assert page.value == ROWS[offset : offset + 2]
        assert page.next == (offset + 2 if offset + 2 < 1_000 else None)


async def test_pages_end_exactly_at_the_end(session: Session) -> None:
    handle = store(session, [1, 2, 3])
    for offset, limit, value, following in (
        *((0, 3, [1, 2, 3], None), (0, 2, [1, 2], 2), (2, 1, [3], None), (2, 9, [3], None)),
        *((3, 1, [], None), (4, None, [], None), (99, 1, [], None)),
    ):
        page = await part(session, handle, offset=offset, limit=limit)
        assert (page.value, page.next, page.total) == (value, following, 3), offset
    assert (await part(session, store(session, []), offset=1)).total == 0
    assert (await part(session, store(session, {}), offset=1)).value == {}


async def test_item_over_the_size_of_a_part_is_named_by_its_pointer(session: Session) -> None:
    handle = store(session, {"small": 1, "a/b": "x" * 5_000, "last": 2})
    page = await part(session, handle, max_chars=1_000)
    assert (page.value["small"], page.value["last"]) == (1, 2)
    assert page.value["a/b"] == {"…cut…": "5,002 bytes; pointer='/a~1b'"}
    assert (page.unit, page.next, page.note) == (
        "members",
        None,
        "too large for this part: /a~1b",
    )
    found = await part(session, handle, pointer="/a~1b", max_chars=6_000)
    assert found.value == "x" * 5_000


# --- pointers -----------------------------------------------------------------------------------


async def test_pointer_leads_to_a_part(session: Session) -> None:
    handle = store(session, VALUE)
    for pointer, value in {
        "/rows/0": ROWS[0],
        "/rows/999/tags/1/b/0": 999,
        "/a~1b/~0x": "found",
        "/a~1b/": "empty key",
        "/rows/17/name": "n17",
    }.items():
        assert (await part(session, handle, pointer=pointer)).value == value, pointer


async def test_wrong_pointer_says_what_is_there(session: Session) -> None:
    handle = store(session, VALUE)
    for pointer, code, words in (
        (
            "/row",
            "no_such_part",
            "has no key 'row' (did you mean `rows` or `zero`?); keys: rows, a/b, ",
        ),
        ("/rows/1000", "no_such_part", "the list at '/rows' has 1,000 items, so no item 1000"),
        ("/rows/-", "bad_pointer", "must be an index from 0"),
        ("/rows/01", "bad_pointer", "must be an index from 0"),
        ("/zero/x", "no_such_part", "the value at '/zero' has no parts"),
        ("rows", "bad_pointer", 'must start with "/"'),
        ("/a~2", "bad_pointer", 'write "~0" for "~"'),
        ("/0" * 3_000, "bad_pointer", "at most 4,096 characters"),
    ):
        found = await code_of(session, handle, pointer=pointer)
        assert found[0] == code, pointer
        assert words in found[1], pointer


async def test_file_that_is_not_json_is_refused_with_a_remedy(session: Session) -> None:
    for damaged in (b"", b'{"a"', b'{"a": [1, 2}', b'{"a": nul}', b"[1 2]", b'["\xff"]', b"{1: 2}"):
        code, message = await code_of(session, store(session, damaged), pointer="/a")
        assert code == ("bad_pointer" if damaged.startswith(b"[") else "not_json"), damaged
        if code == "not_json":
            assert 'unit="lines"' in message
    assert (await part(session, store(session, b'{"a"'), unit="lines")).value == '{"a"'


# --- text ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".txt", ".json"])
async def test_text_is_read_by_lines(session: Session, suffix: str) -> None:
    handle = store(session, TEXT if suffix == ".json" else TEXT.encode(), suffix)
    lines = TEXT.splitlines(keepends=True)
    found, offset = "", 0
    while True:
        page = await part(session, handle, offset=offset)
        assert (page.unit, page.offset, page.total) == ("lines", offset, 2_001)
        found += page.value
        if page.next is None:
            break
        offset = page.next
    assert found == TEXT
    for offset, limit in ((0, 1), (1_999, 1), (2_000, 5), (500, 3)):
        page = await part(session, handle, offset=offset, limit=limit)
        assert page.value == "".join(lines[offset : offset + limit])
        assert page.next == (offset + limit if offset + limit < 2_001 else None)
    past = await part(session, handle, offset=2_001)
    assert (past.value, past.next, past.total) == ("", None, 2_001)


async def test_bytes_are_read_without_partial_characters(session: Session) -> None:
    data = "aé€𝄞" * 500
    handle = store(session, data.encode(), ".txt")
    for limit in (1, 3, 7, 4_096):
        found, offset, calls = "", 0, 0
        while calls < 12:
            page = await part(session, handle, unit="bytes", offset=offset, limit=limit)
            found, calls = found + page.value, calls + 1
            assert page.total == len(data.encode())
            if page.next is None:
                break
            assert page.next > offset
            offset = page.next
        assert data.startswith(found)
        assert len(found) >= min(calls, len(data))
    inside = await part(session, handle, unit="bytes", offset=2, limit=1)
    assert (inside.offset, inside.value) == (3, "€")


async def test_line_over_the_size_of_a_part_continues_by_bytes(session: Session) -> None:
    text = "first\n" + "é" * 5_000 + "\nthird"
    handle = store(session, text.encode(), ".txt")
    first = await part(session, handle, max_chars=1_000)
    long = await part(session, handle, offset=1, max_chars=1_000)
    assert (first.value, first.next) == ("first\n", 1)
    assert (long.value, long.next) == ("é" * 1_000, 2)
    assert long.note == 'line 1 has more: unit="bytes", offset=2006'
    rest = await part(session, handle, unit="bytes", offset=2_006, limit=8_000)
    assert rest.value == "é" * 4_000
    assert (await part(session, handle, offset=2)).value == "third"


async def test_bytes_that_are_not_text_come_as_base64(session: Session) -> None:
    data = bytes(range(256)) * 200
    handle = store(session, data, ".bin")
    found, offset = b"", 0
    while True:
        page = await part(session, handle, offset=offset)
        assert page.unit == "base64"
        found += base64.b64decode(page.value)
        if page.next is None:
            break
        offset = page.next
    assert found == data
    broken = store(session, b"caf\xe9\nsecond\n", ".txt")
    assert (await part(session, broken)).value == "caf\ufffd\nsecond\n"
    assert (await part(session, broken, offset=1)).value == "second\n"


async def test_escapes_of_a_long_string_are_decoded_across_chunks(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptc_tools.recall._text.CHUNK_BYTES", 7)
    text = 'tab\t "quoted" back\\slash \x01 é \u2028 𝄞 \n' * 40
    for ascii_only in (True, False):
        handle = store(session, json.dumps([text], ensure_ascii=ascii_only).encode())
        found = await part(session, handle, pointer="/0", max_chars=1_000_000, unit="lines")
        assert found.value == text
    lone = store(session, b'["a\\ud800b\\udc00\\ud834\\udd1e"]')
    assert (await part(session, lone, pointer="/0", unit="bytes")).value == "a\ufffdb\ufffd𝄞"


# --- search -------------------------------------------------------------------------------------


async def test_search_finds_text_with_context_and_pointer(session: Session) -> None:
    handle = store(session, VALUE)
    found = await part(session, handle, search='"n17"', context=12)
    (match,) = found.value
    assert (match.pointer, found.next, found.total) == ("/rows/17/name", None, 1)
    assert match.text == '17, "name": "n17", "tags": ["'
    again = await part(session, handle, unit="bytes", offset=match.offset, limit=5)
    assert again.value == '"n17"'
    value = await part(session, handle, pointer=match.pointer)
    assert value.value == "n17"


async def test_search_is_literal_unless_it_is_a_regular_expression(session: Session) -> None:
    handle = store(session, b"a.b\naxb\nA.B\n", ".txt")
    literal = await part(session, handle, search="a.b")
    regex = await part(session, handle, search="a.b", regex=True)
    both = await part(session, handle, search="(?i)^a.b$", regex=True, context=0)
    assert [row.line for row in literal.value] == [0]
    assert [(row.line, row.offset) for row in regex.value] == [(0, 0), (1, 4)]
    assert [row.text for row in both.value] == ["a.b", "axb", "A.B"]
    none = await part(session, handle, search="zzz")
    assert (none.value, none.next, none.total) == ([], None, 0)


async def test_matches_are_paged(session: Session) -> None:
    handle = store(session, VALUE)
    first = await part(session, handle, pointer="/text", search="line 1", limit=3, context=0)
    then = await part(
        session, handle, pointer="/text", search="line 1", limit=3, offset=first.next, context=4
    )
    assert [row.line for row in first.value] == [1, 10, 11]
    assert [row.line for row in then.value] == [12, 13, 14]
    assert then.value[0].text == ": é\nline 12: é"
    assert (await part(session, handle, search="n999")).value[0].pointer == "/rows/999/name"


async def test_search_stays_in_the_part_of_its_pointer(session: Session) -> None:
    handle = store(session, {"a": ["needle"], "b": ["hay", "needle needle"], "c": "needle"})
    found = await part(session, handle, pointer="/b", search="needle")
    assert [row.pointer for row in found.value] == ["/b/1", "/b/1"]
    assert all("hay" in row.text for row in found.value)
    keys = await part(session, handle, search='"c"')
    assert [row.pointer for row in keys.value] == ["/c"]


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "(a|aa)+$", ".*.*.*=.*", "(x+x+)+y", "a{0,500}a{0,500}c"]
)
async def test_hostile_pattern_ends(session: Session, pattern: str) -> None:
    handle = store(session, b"a" * 50_000 + b"!", ".txt")
    found = await part(session, handle, search=pattern, regex=True)
    assert found.value == []


async def test_wrong_pattern_is_an_error_that_names_the_fix(session: Session) -> None:
    handle = store(session, b"text", ".txt")
    for search, regex, words in (
        ("(", True, "unclosed group"),
        (r"(?=a)", True, "look-around"),
        ("a\nb", False, "line break"),
        ("\0", False, "NUL"),
        ("a{99999999}", True, "regex"),
    ):
        code, message = await code_of(session, handle, search=search, regex=regex)
        assert code == "bad_pattern", search
        assert words in message, search
        assert "literal=True" not in message
    code, message = await code_of(session, handle, search="a", unit="lines")
    assert (code, "not both" in message) == ("invalid_arguments", True)


async def test_empty_matches_are_not_listed(session: Session) -> None:
    handle = store(session, b"aXb\n\n", ".txt")
    found = await part(session, handle, search="X*", regex=True)
    assert [row.offset for row in found.value] == [1]


# --- access -------------------------------------------------------------------------------------


async def test_unknown_handle_is_an_error_that_says_so(session: Session, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text('"secret"')
    for handle in ("0" * 64, "0" * 16, "secret.json", "../secret.json", str(tmp_path), ""):
        code, message = await code_of(session, handle)
        assert code == "unknown_handle"
        assert "copy the handle" in message


async def test_handle_of_another_session_is_unknown(session: Session, tmp_path: Path) -> None:
    handle = store(session, "mine")
    (tmp_path / "other").mkdir()
    async with Session(tmp_path / "other", toolsets=(), tools=[get_tool_response]) as other:
        assert (await code_of(other, handle))[0] == "unknown_handle"


async def test_deleted_or_changed_value_is_unknown(session: Session) -> None:
    for change in ("delete", "write"):
        stored = session.artifacts.keep(f'"{change}"'.encode())
        path = session.artifacts.path(stored.sha256)
        path.unlink() if change == "delete" else path.write_text('"forged"')
        assert (await code_of(session, stored.sha256))[0] == "unknown_handle"


async def test_script_pages_a_value_and_an_attachment(session: Session) -> None:
    big = await session.program(
        source="[{'n': n, 'text': 'x' * 100} for n in range(5_000)]", allowed_tools=[]
    )
    assert big.cut is not None
    data = base64.b64encode(bytes(range(256)) * 2_000).decode()
    drawn = await session.program(
        source="async def run(ctx, inputs):\n    return await ctx.draw(inputs['data'])",
        inputs={"data": data},
    )
    source = """
async def run(ctx, inputs):
    total, offset = 0, 0
    while offset is not None:
        part = await ctx.get_tool_response(handle=inputs["value"], offset=offset, limit=999)
        total += sum(row.n for row in part.value)
        offset = part.next
    file = await ctx.get_tool_response(inputs["file"], unit="bytes", limit=4)
    return total, file.value, file.total, file.unit
"""
    handles = {"value": big.cut.sha256, "file": drawn.attachments[0].id}
    result = await session.program(source=source, inputs=handles)
    assert result.unwrap() == [sum(range(5_000)), "AAECAw==", 512_000, "base64"]
    assert len(result.calls) == 7


async def test_cancelled_call_stops_reading(session: Session) -> None:
    import anyio

    handle = store(session, b"[" + b"1," * 5_000_000 + b"1]")
    with anyio.move_on_after(0.05) as scope:
        await part(session, handle, pointer="/4999999")
        scope.cancel()
    assert scope.cancelled_caught
