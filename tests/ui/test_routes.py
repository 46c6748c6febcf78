"""The data of the page, and the decisions that are made on it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Session
from tests.ui.conftest import HOSTILE, ORDERS, TOOLS, Page

SECONDS = 20.0


def paused_run(root: Path, journal: Path | str, **options: Any) -> str:
    async def record() -> str:
        async with Session(root, tools=TOOLS, toolsets=(), journal=journal, workers=1) as session:
            result = await session.program(
                source=ORDERS,
                inputs={"item": "mug"},
                allowed_tools=["price", "refund"],
                **options,
            )
            return result.run_id

    return anyio.run(record)


def wait_for_status(page: Page, run: str, status: str) -> dict[str, Any]:
    until = time.monotonic() + SECONDS
    while True:
        head: dict[str, Any] = page.get(f"/api/runs/{run}").json()["head"]
        if head["run"]["status"] == status:
            return head
        assert time.monotonic() < until, head["run"]
        time.sleep(0.05)


def test_list_has_pages_filters_and_search(page: Page, ids: dict[str, str]) -> None:
    first = page.get("/api/runs?limit=1").json()
    assert [run["id"] for run in first["runs"]] == [ids["hostile"]]
    second = page.get(f"/api/runs?limit=1&after={first['next']}").json()
    assert [run["id"] for run in second["runs"]] == [ids["completed"]]

    def found(query: str) -> list[str]:
        return [run["id"] for run in page.get(f"/api/runs?{query}").json()["runs"]]

    assert found("status=paused") == [ids["paused"]]
    assert found("tool=refund") == [ids["paused"]]
    assert found("text=LAMP") == [ids["completed"]]
    assert found(f"text={ids['paused'][:8]}") == [ids["paused"]]
    assert found("text=nothing") == []


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "after=x", "status=x", "since=x"])
def test_wrong_parameter_of_the_list_is_an_error(page: Page, query: str) -> None:
    answer = page.get(f"/api/runs?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_run_has_its_script_calls_output_and_pending_calls(page: Page, ids: dict[str, str]) -> None:
    data = page.get(f"/api/runs/{ids['paused']}").json()

    assert data["head"]["source"] == ORDERS
    assert [row[:2] for row in data["calls"]] == [["1", "price"]]
    assert [row["kind"] for row in data["events"]] == ["stdout", "emitted"]
    (pending,) = data["head"]["pending"]
    assert pending["prompt"] == "Refund it?"
    assert pending["schema"]["properties"].keys() == {"order", "cents"}
    assert pending["code"].startswith("return await ctx.refund")


def test_call_has_its_arguments_and_its_result(page: Page, ids: dict[str, str]) -> None:
    data = page.get(f"/api/runs/{ids['paused']}/calls/1").json()
    assert data["arguments"]["text"] == '{"item":"mug"}'
    assert data["value"]["text"] == "300"
    assert page.get(f"/api/runs/{ids['paused']}/calls/99").status_code == 404


def test_hostile_text_is_json_and_never_a_page(page: Page, ids: dict[str, str]) -> None:
    for path in (
        f"/api/runs/{ids['hostile']}",
        f"/api/runs/{ids['hostile']}/calls/1",
        "/api/runs",
        f"/api/runs/{HOSTILE}",
        "/api/compare?a=<script>&b=x",
    ):
        answer = page.get(path)
        kinds = ("application/json", "text/plain; charset=utf-8")
        assert answer.headers["content-type"] in kinds, path
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("run", ["unknown", "..", "%2e%2e%2f", "a b", "x" * 500])
def test_unknown_run_is_an_error(page: Page, run: str) -> None:
    assert page.get(f"/api/runs/{run}").status_code in (400, 404)


def test_file_that_the_run_does_not_name_is_not_sent(page: Page, ids: dict[str, str]) -> None:
    assert page.get(f"/api/runs/{ids['completed']}/files/{'0' * 64}").status_code == 404


def test_comparison_aligns_calls_by_key(page: Page, ids: dict[str, str]) -> None:
    same = page.get(f"/api/compare?a={ids['paused']}&b={ids['paused']}").json()
    assert same["counts"] == {"same": 1}
    other = page.get(f"/api/compare?a={ids['completed']}&b={ids['hostile']}").json()
    assert [row["state"] for row in other["rows"]] == ["left", "right"]


def test_stream_of_an_ended_run_has_all_of_it_and_its_end(page: Page, ids: dict[str, str]) -> None:
    text = page.get(f"/api/runs/{ids['completed']}/live").text
    first, last = text.strip().split("\n\n")
    data = json.loads(first.partition("data: ")[2])
    assert data["head"]["run"]["status"] == "completed"
    assert len(data["calls"]) == 1
    assert last.startswith("event: over")


def test_replay_shows_the_variables_at_a_call(page: Page, ids: dict[str, str]) -> None:
    data = page.post("/api/replay", {"run": ids["paused"], "call": "1"}).json()
    (frame,) = data["frames"]
    assert frame["function"] == "run"
    assert "inputs" in frame["names"]
    assert page.post("/api/replay", {"run": ids["paused"], "call": "9"}).status_code == 400


def test_script_is_checked_and_run(page: Page) -> None:
    source = "async def run(ctx, inputs): return await ctx.price(item=inputs['item'])"
    findings = page.post("/api/check", {"source": "async def run(ctx): ctx.nothing()"}).json()
    assert findings["findings"]
    assert page.post("/api/check", {"source": source}).json() == {"findings": []}
    body = {"source": source, "inputs": {"item": "desk"}, "filename": "desk.py"}
    run = page.post("/api/start", body).json()["run"]
    assert wait_for_status(page, run, "completed")["result"]["value"]["text"] == "400"
    assert {item["name"] for item in page.get("/api/tools").json()["tools"]} >= {"price", "refund"}


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"run": 5}', b'{"run": "x", "call": "1", "action": "approve"}']
)
def test_malformed_decision_is_an_error(page: Page, body: bytes) -> None:
    answer = page.client.post(
        "/api/decide",
        content=body,
        headers={"x-ptc-key": page.key, "content-type": "application/json"},
    )
    assert answer.status_code in (400, 404)


def test_edited_arguments_are_validated_by_the_schema(page: Page, ids: dict[str, str]) -> None:
    body = {"run": ids["paused"], "call": "2", "arguments": {"order": "A-17", "cents": "many"}}
    assert "not valid" in page.post("/api/validate", body).json()["problem"]
    good = {**body, "arguments": {"order": "A-17", "cents": 5}}
    assert page.post("/api/validate", good).json() == {"problem": None}
    answer = page.post("/api/decide", {**body, "action": "approve"})
    assert answer.status_code == 400
    assert page.get("/api/approvals").json()["calls"]


@pytest.mark.slow
def test_decision_is_recorded_with_the_identity_and_the_run_continues(
    open_page: Callable[..., Page], tmp_path: Path
) -> None:
    journal = tmp_path / "store" / "journal.db"
    journal.parent.mkdir()
    (tmp_path / "root").mkdir()
    run = paused_run(tmp_path / "root", journal)
    page = open_page(journal)
    body = {
        "run": run,
        "call": "2",
        "action": "approve",
        "arguments": {"order": "A-17", "cents": 250},
        "comment": "<b>half</b>",
        "by": "mallory",
    }

    assert page.post("/api/decide", body).json() == {"by": "ann"}

    head = wait_for_status(page, run, "completed")
    assert json.loads(head["result"]["value"]["text"]) == {"order": "A-17", "refunded": 250}
    (decision,) = head["decisions"]
    assert (decision["by"], decision["comment"]) == ("ann", "<b>half</b>")
    outcomes = [row["outcome"] for row in page.get("/api/audit").json()["rows"]]
    assert sorted(outcomes) == ["recorded", "requested"]
    made = page.get(f"/api/runs/{run}/calls/2").json()
    assert made["arguments"]["text"] == '{"order":"A-17","cents":250}'
    assert '"cents":300' in made["requested"]["text"]
    again = page.post("/api/decide", body)
    assert again.status_code == 400


@pytest.mark.slow
def test_rejected_call_raises_in_the_script(open_page: Callable[..., Page], tmp_path: Path) -> None:
    journal = tmp_path / "store" / "journal.db"
    journal.parent.mkdir()
    (tmp_path / "root").mkdir()
    run = paused_run(tmp_path / "root", journal)
    page = open_page(journal)

    page.post("/api/decide", {"run": run, "call": "2", "action": "reject", "comment": "too much"})

    assert "too much" in wait_for_status(page, run, "failed")["result"]["error"]["message"]


@pytest.mark.slow
def test_decision_over_postgresql_finishes_a_run_of_another_process(
    open_page: Callable[..., Page], tmp_path: Path, database: str
) -> None:
    run = paused_run(tmp_path, database)
    page = open_page(database)

    page.post("/api/decide", {"run": run, "call": "2", "action": "approve"})

    assert wait_for_status(page, run, "completed")["decisions"][0]["by"] == "ann"
