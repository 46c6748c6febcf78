"""Attacks on the server of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ptc._ui._gate import MAX_BODY_BYTES
from tests.ui.conftest import Page

DATA = [
    "/api/me",
    "/api/runs",
    "/api/live",
    "/api/runs/a",
    "/api/runs/a/live",
    "/api/runs/a/calls/1",
    "/api/runs/a/files/abc",
    "/api/approvals",
    "/api/compare",
    "/api/tools",
    "/api/audit",
]
CHANGES = ["/api/decide", "/api/validate", "/api/resume", "/api/check", "/api/start", "/api/replay"]


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "ann@127.0.0.1", "", "[::1"],
)
def test_foreign_host_is_refused(page: Page, host: str) -> None:
    for path in ("/", "/api/me", "/static/main.js"):
        assert page.get(path, host=host).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9999", "[::1]:80", "ptc.example"])
def test_names_of_this_machine_are_accepted(page: Page, host: str) -> None:
    assert page.get("/api/me", host=host).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://127.0.0.1:1234", "file://", "http://localhost"],
)
def test_cross_origin_post_is_refused(page: Page, origin: str) -> None:
    assert page.post("/api/decide", {}, origin=origin).status_code == 403
    assert page.post("/api/login", {"token": "x"}, origin=origin).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_requests_that_a_browser_marks_as_foreign_are_refused(page: Page, site: str) -> None:
    assert page.get("/api/runs", **{"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize("path", DATA)
def test_data_needs_a_session(page: Page, path: str) -> None:
    assert page.client.get(path).status_code == 401


@pytest.mark.parametrize("path", CHANGES)
def test_changes_need_a_session(page: Page, path: str) -> None:
    assert page.client.post(path, json={}).status_code == 401


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", ""])
def test_body_that_a_form_can_send_is_refused(page: Page, kind: str) -> None:
    answer = page.client.post(
        "/api/decide", content=b"{}", headers={"x-ptc-key": page.key, "content-type": kind}
    )
    assert answer.status_code == 415


def test_body_over_the_bound_is_refused(page: Page) -> None:
    assert page.post("/api/check", {"source": "x" * MAX_BODY_BYTES}).status_code == 413

    def chunks() -> Iterator[bytes]:
        for _ in range(3):
            yield b"x" * (1 << 20)

    answer = page.client.post(
        "/api/check",
        content=chunks(),
        headers={"x-ptc-key": page.key, "content-type": "application/json"},
    )
    assert answer.status_code == 411


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(page: Page, method: str) -> None:
    assert page.client.request(method, "/api/runs").status_code == 405


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/me", "/api/nothing", "/nothing"])
def test_every_answer_has_the_security_headers(page: Page, path: str) -> None:
    headers = page.get(path).headers

    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "name", ["../_app.py", "..%2f_app.py", "%2e%2e/_app.py", "/etc/passwd", "main.js%00", "."]
)
def test_path_of_a_static_file_does_not_leave_the_folder(page: Page, name: str) -> None:
    answer = page.get(f"/static/{name}")
    assert answer.status_code == 404
    assert b"import" not in answer.content


def test_read_only_page_changes_nothing(
    open_page: Callable[..., Page], runs: tuple[Path, dict[str, str]]
) -> None:
    page = open_page(runs[0], read_only=True)
    for path in ("/api/decide", "/api/resume", "/api/start", "/api/check"):
        answer = page.post(path, {"run": runs[1]["paused"], "call": "2", "action": "approve"})
        assert answer.status_code == 403
        assert "read-only" in answer.json()["error"]
    assert len(page.get("/api/approvals").json()["calls"]) == 1


def test_files_of_the_page_use_no_markup_from_data() -> None:
    folder = Path(__file__).parent.parent.parent / "ptc" / "_ui" / "static"
    sinks = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "srcdoc")
    for file in folder.glob("*.js"):
        text = file.read_text()
        assert not [sink for sink in sinks if sink in text], file.name
    page = (folder / "index.html").read_text()
    assert "<script>" not in page
    assert "style=" not in page
    assert " on" not in page.replace(" one", "")
