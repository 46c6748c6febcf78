"""Links, cookies and keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ptc._ui._access import Access
from tests.ui.conftest import Page


def test_link_signs_in_once() -> None:
    used: list[str] = []
    access = Access(["ann"], used.append)
    token = access.issue("ann")

    assert access.redeem(token) is not None
    assert access.redeem(token) is None
    assert used == ["ann"]


def test_wrong_links_are_refused_for_a_minute_after_too_many() -> None:
    access = Access(["ann"])
    for _ in range(20):
        assert access.redeem("wrong") is None

    assert access.redeem(access.issue("ann")) is None


def test_oldest_session_is_forgotten_when_there_are_too_many() -> None:
    access = Access(["ann"])
    first = access.redeem(access.issue("ann"))
    assert first is not None
    for _ in range(64):
        access.redeem(access.issue("ann"))

    assert access.find(first[0], first[1].key) is None


def test_cookie_is_hidden_from_scripts_and_other_sites(
    open_page: Callable[..., Page], runs: tuple[Path, dict[str, str]]
) -> None:
    page = open_page(runs[0], signs_in=False)

    answer = page.post("/api/login", {"token": page.access.issue("ann")})

    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert answer.json()["key"] not in cookie


def test_cookie_without_the_key_is_refused(page: Page) -> None:
    assert page.client.get("/api/me").status_code == 401
    assert page.get("/api/me", **{"x-ptc-key": "wrong"}).status_code == 401
    assert page.get("/api/me").json()["identity"] == "ann"


def test_key_without_the_cookie_is_refused(page: Page) -> None:
    answer = page.get("/api/me", cookie="ptc_ui_1=wrong")
    assert answer.status_code == 401


def test_signing_out_ends_the_session(
    open_page: Callable[..., Page], runs: tuple[Path, dict[str, str]]
) -> None:
    page = open_page(runs[0])
    assert page.post("/api/logout", {}).status_code == 200
    assert page.get("/api/me").status_code == 401


def test_used_and_wrong_links_are_refused_over_http(
    open_page: Callable[..., Page], runs: tuple[Path, dict[str, str]]
) -> None:
    page = open_page(runs[0], signs_in=False)
    token = page.access.issue("ann")
    page.post("/api/login", {"token": token})

    for body in ({"token": token}, {"token": "wrong"}):
        answer = page.post("/api/login", body)
        assert answer.status_code == 401
        assert "shows a new one" in answer.json()["error"]
