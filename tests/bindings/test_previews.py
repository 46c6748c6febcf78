"""Long results at the doors for agents: a preview, and the tool that reads the rest."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ptc import Allow, Limits, Session, UsageError, tool
from ptc_bindings._export import Exports
from ptc_bindings._previews import PREVIEW_CHARS, RECALL
from ptc_bindings._reply import Preview, Reply
from ptc_bindings.functions import program_function
from ptc_tools import get_tool_response

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

LIMIT = 2_000
NAMES = ["letters", "rows", "fail", RECALL]


@tool
def letters(count: int) -> str:
    """Return letters."""
    return "x" * count


@tool(render=lambda rows: "\n".join(f"row {row['n']}" for row in rows))
def rows(count: int) -> list[dict[str, int]]:
    """Return rows."""
    return [{"n": n} for n in range(count)]


@tool
def fail(size: int) -> None:
    """Raise an error."""
    raise ValueError("why " * size)


def open_session(root: Path) -> Session:
    tools = [letters, rows, fail, get_tool_response]
    return Session(root, tools=tools, toolsets=(), workers=1)


def exports(session: Session, allowed: Any = NAMES, **options: Any) -> Exports:
    options = {"direct": ["letters", "rows", "fail"], "preview_chars": LIMIT, **options}
    return Exports(session, allowed_tools=allowed, **options)


def handle_in(text: str) -> str:
    found = re.search(r'get_tool_response\(handle="([0-9a-f]+)"\)', text)
    assert found is not None, text
    return found[1]


async def test_text_at_below_and_above_the_limit(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        door = exports(session)
        for count in (0, LIMIT - 1, LIMIT):
            whole = await door.call("letters", {"count": count})
            assert (whole.texts, whole.data) == (("x" * count,), "x" * count)
        cut = await door.call("letters", {"count": LIMIT + 1})
    shown, note = cut.texts
    assert len(cut.text) <= LIMIT
    assert f"Truncated: {len(shown):,} of 2,001 characters." in note
    assert isinstance(cut.data, Preview)
    assert (cut.data.preview, cut.data.bytes) == (shown, LIMIT + 1)


async def test_note_and_tool_are_offered_together(tmp_path: Path) -> None:
    without = [name for name in NAMES if name != RECALL]
    async with open_session(tmp_path) as session:
        for allowed, options, offered, note in (
            (NAMES, {}, True, r"Read the rest with get_tool_response\(handle="),
            (without, {}, False, r": ptc://artifacts/"),
            (NAMES, {"preview_chars": None}, False, r"Read the rest in a script, with await ctx\."),
            (NAMES, {"preview_chars": None, "direct": True}, True, r"Read the rest with get_tool"),
            (NAMES, {"program": False}, True, r"Read the rest with get_tool_response"),
        ):
            door = exports(session, allowed, limits=Limits(max_output_bytes=LIMIT), **options)
            assert (RECALL in [item.name for item in door]) == offered, options
            direct = await door.call("letters", {"count": 3_000})
            assert re.search(note, direct.texts[1]), direct.texts[1]
            if options.get("program", True):
                inside = await door.call("program", {"source": "'x' * 3_000"})
                assert re.search(note, inside.texts[1])
            failed = await door.call("fail", {"size": 1_000})
            assert (RECALL in failed.texts[1]) == (RECALL in direct.texts[1])


async def test_recalled_part_fits_and_is_no_preview(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        door = exports(session)
        cut = await door.call("rows", {"count": 1_000})
        handle = handle_in(cut.text)
        found: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            reply = await door.call(
                RECALL, {"handle": handle, "offset": offset, "max_chars": 9_999}
            )
            assert not isinstance(reply.data, Preview)
            assert len(reply.text) < LIMIT + 100
            found += reply.data["value"]
            offset = reply.data["next"]
        small = await door.call(RECALL, {"handle": handle, "max_chars": 200})
        wrong = await door.call(RECALL, {"handle": handle, "max_chars": "many"})
    assert cut.texts[0].startswith("row 0\nrow 1\n")
    assert found == [{"n": n} for n in range(1_000)]
    assert len(small.text) < 300
    assert wrong.code == "invalid_arguments"


async def test_value_of_a_script_is_truncated_to_the_limit_of_the_door(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        door = exports(session)
        small = await door.call("program", {"source": "'x' * 1_990"})
        reply = await door.call("program", {"source": "{'rows': list(range(5_000)), 'zero': 0}"})
        handle = handle_in(reply.text)
        part = await door.call(RECALL, {"handle": handle, "pointer": "/rows", "offset": 4_998})
        zero = await door.call(RECALL, {"handle": handle, "pointer": "/zero"})
        again = await door.call("program", {"source": f"await ctx.{RECALL}('{handle}', '/zero')"})
    assert small.texts == ("x" * 1_990,)
    assert reply.data["value"]["zero"] == 0
    assert handle_in(reply.data["truncated"]["next"]) == handle
    assert len(reply.texts[0]) <= LIMIT
    assert len(reply.texts) == 2
    assert "warnings" not in reply.data
    assert part.data["value"] == [4_998, 4_999]
    assert (zero.text, zero.data["value"]) == ("0", 0)
    assert again.data["value"]["value"] == 0


async def test_error_over_its_limit_can_be_read_whole(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        door = exports(session)
        failed = await door.call("fail", {"size": 1_000})
        handle = handle_in(failed.text)
        whole = await door.call(RECALL, {"handle": handle, "unit": "bytes", "offset": 3_000})
    assert failed.is_error
    assert len(failed.text) <= 1_500
    assert "why why" in whole.text


async def test_rules_of_the_allow_list_hold_for_the_tool(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        mine = session.artifacts.keep(b'"mine"').sha256
        other = session.artifacts.keep(b'"other"').sha256
        door = exports(session, ["letters", "rows", "fail", Allow(RECALL, handle={mine})])
        assert (await door.call(RECALL, {"handle": mine})).text == "mine"
        assert (await door.call(RECALL, {"handle": other})).code == "not_allowed"


async def test_value_that_cannot_be_stored_is_shown_as_far_as_it_fits(tmp_path: Path) -> None:
    async with Session(
        tmp_path, tools=[letters], toolsets=(), artifacts=tmp_path / "file" / "folder"
    ) as session:
        (tmp_path / "file").write_text("not a folder")
        door = Exports(session, direct=True, preview_chars=LIMIT)
        reply = await door.call("letters", {"count": 5_000})
    assert reply.texts[0].startswith("xxx")
    assert "The rest could not be stored" in reply.texts[1]
    assert (reply.is_error, reply.stored, RECALL in reply.text) == (False, (), False)


async def test_function_for_frameworks_names_the_tool_in_a_script(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        program = program_function(session, preview_chars=LIMIT)
        found = await program("list(range(5_000))")
        handle = handle_in(found["truncated"]["next"])
        rest = await program(f"(await ctx.{RECALL}('{handle}', offset=4_999)).value")
        plain = await program_function(session, allowed_tools=["rows"])("list(range(50_000))")
    assert "in a script, with await ctx." in found["truncated"]["next"]
    assert rest == {"value": [4_999]}
    assert "next" not in plain["truncated"]


async def test_option_of_a_door_is_checked(tmp_path: Path) -> None:
    async with open_session(tmp_path) as session:
        for wrong in (0, 999, 1_000_001, True, "16000"):
            with pytest.raises(UsageError, match="preview_chars must be an integer from 1,000"):
                exports(session, preview_chars=wrong)


async def test_default_is_a_quarter_of_what_a_run_may_return(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("line\n" * 20_000)
    async with Session(tmp_path, workers=1) as session:
        door = Exports(session, direct=["read"])
        direct: Reply = await door.call("read", {"path": "big.txt"})
        inside = await door.call("program", {"source": "await ctx.read('big.txt')"})
    assert len(direct.text) <= PREVIEW_CHARS == 16_000
    assert len(json.dumps(inside.data["value"])) <= PREVIEW_CHARS + 4_000
    assert handle_in(direct.text) != handle_in(inside.text)


async def test_text_that_the_tool_truncated_counts_the_whole_value(tmp_path: Path) -> None:
    @tool(render=lambda text: f"{text[:3_000]} [more]")
    def long() -> str:
        """Return a long text."""
        return "y" * 9_000

    async with Session(tmp_path, tools=[long, get_tool_response], toolsets=()) as session:
        reply = await Exports(session, direct=True, preview_chars=LIMIT).call("long", {})
        rest = await session.call(get_tool_response, handle=handle_in(reply.text))
    assert "Truncated: 500 of 9,000 characters." in reply.text
    assert rest.value == "y" * 9_000
