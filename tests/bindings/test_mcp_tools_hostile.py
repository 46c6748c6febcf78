"""Hostile MCP servers: what they send is bounded, and they can neither hide nor add anything."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ptc import BlockingSession, SetupError
from ptc_bindings import _mcp_connection
from ptc_bindings._mcp_text import clean_text
from ptc_bindings.mcp_tools import MCPServers

pytest.importorskip("mcp_types", reason="needs the extra `mcp`")

SERVER = Path(__file__).with_name("mcp_hostile_server.py")


def open_session(attack: str, root: Path) -> BlockingSession:
    servers = MCPServers({"bad": {"command": sys.executable, "args": [str(SERVER), attack]}})
    return BlockingSession(root, tools=[servers], toolsets=(), journal=":memory:")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingSession]:
    with open_session("texts", tmp_path_factory.mktemp("root")) as opened:
        yield opened


def test_tools_that_cannot_be_used_are_left_out(session: BlockingSession) -> None:
    names = {name.removeprefix("bad.") for name in session.tool_names()}
    refused = {"hidden_name", "big_schema", "deep", "remote", ""}
    assert names == {
        *("fine", "hidden", "text_hint", "slow_pattern", "wrong_result", "dict", "second_page"),
        "loop",
    }
    assert not names & refused


def test_schema_that_refers_to_itself_is_described_and_checked(session: BlockingSession) -> None:
    assert "async def loop(" in session.describe_tools(["bad.loop"])
    assert session.tool("bad.loop", {}).unwrap() == {"y": 1, "isError": True}


def test_texts_are_bounded_and_visible(session: BlockingSession) -> None:
    fine, hidden = session.tool_definitions(["bad.fine", "bad.hidden"])
    assert len(fine["description"]) == 4_000
    assert fine["description"].endswith("[9,000 characters in all]")
    assert hidden["description"] == "read[2Jable"
    assert hidden["parameters"]["properties"]["a"]["description"] == "read[2Jable"
    error = session.tool("bad.fine", {}).error
    assert error is not None
    assert "\x1b" not in error.message
    assert len(error.message) < 2_100


def test_tool_that_is_added_later_cannot_be_called(session: BlockingSession) -> None:
    session.tool("bad.dict", {})  # announces that the list has changed
    source = "async def run(ctx, inputs):\n    return await ctx.bad.added()\n"
    result = session.program(source=source)
    assert result.status != "completed"
    assert "bad.added" not in session.tool_names()


def test_hint_that_is_not_true_declares_nothing(session: BlockingSession) -> None:
    assert "bad.text_hint" not in session._session.select_tools()


def test_pattern_of_a_server_cannot_keep_the_host_busy(session: BlockingSession) -> None:
    before = time.monotonic()
    error = session.tool("bad.slow_pattern", {}).error
    assert error is not None
    assert error.code == "bad_result"
    assert time.monotonic() - before < 20


def test_result_that_violates_its_own_schema_is_an_error(session: BlockingSession) -> None:
    error = session.tool("bad.wrong_result", {}).error
    assert error is not None
    assert error.code == "bad_result"
    assert "the tool's own schema" in error.message


def test_result_of_too_many_parts_is_an_error(session: BlockingSession) -> None:
    error = session.tool("bad.hidden", {}).error
    assert error is not None
    assert "1,001 parts" in error.message


def test_data_with_a_field_of_the_protocol_is_data(session: BlockingSession) -> None:
    assert session.tool("bad.dict", {}).unwrap() == {"y": 1, "isError": True}


@pytest.mark.parametrize("attack", ["endless-pages", "many-tools"])
def test_listing_without_end_fails_the_session(attack: str, tmp_path: Path) -> None:
    session = open_session(attack, tmp_path)
    with pytest.raises(SetupError, match="lists more than 1,000 tools or 100 pages"), session:
        pass


def test_silent_server_fails_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mcp_connection, "START_SECONDS", 0.5)
    session = open_session("silence", tmp_path)
    with pytest.raises(SetupError, match=r"'bad'.* did not answer in 0\.5 s"), session:
        pass


@pytest.mark.slow
def test_endless_message_ends_the_connection(tmp_path: Path) -> None:
    with open_session("endless-message", tmp_path) as session:
        error = session.tool("bad.fine", {}).error
        assert error is not None
        assert error.code == "connection_lost"
        assert "more than 16,777,216 bytes" in error.message


def test_text_keeps_its_letters_and_loses_invisible_characters() -> None:
    text = "Größe 東京 ok\n\tline\u00a0\u200b\u2066\ufeff\x00\x7f\ud800"
    assert clean_text(text, 100) == "Größe 東京 ok\n\tline\u00a0"
