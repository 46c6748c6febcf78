"""Every screen of the page in Chromium: it fits, shifts nothing, and runs no hostile text."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.browser.conftest import GROWS, ORDERS, TOOLS, serve, sign_in

if TYPE_CHECKING:
    from tests.ui.browser.conftest import Site

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SCREENS = {
    "runs": "/",
    "paused": "/runs/{orders}",
    "hostile": "/runs/{hostile}",
    "many": "/runs/{many}",
    "failed": "/runs/{fails}",
    "approvals": "/approvals",
    "new": "/new",
    "compare": "/compare?a={orders}&b={hostile}",
    "extractions": "/extractions",
    "extraction": "/extractions/{extraction}",
    "audit": "/audit",
}
SHIFTS = """
window.shifts = 0;
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""


@contextmanager
def opened(chromium: Any, signed_in: Any, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page of a browser that is signed in, and the errors of its console."""
    context = chromium.new_context(storage_state=signed_in, **options)
    errors: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    # A dialog blocks the page, so that the test would fail by its time-out.
    page.add_init_script(SHIFTS)
    try:
        yield page, errors
    finally:
        context.close()


def show(page: Any, site: Site, screen: str) -> None:
    page.goto(site.origin + SCREENS[screen].format(**site.runs))
    page.wait_for_selector("main > *")
    page.wait_for_load_state("load")
    page.locator("main:has-text('Loading')").wait_for(state="detached")
    # Streams stay open, so the network is never idle: time in which something could still shift.
    page.wait_for_timeout(400)


@pytest.mark.parametrize("width", [360, 768, 1440])
@pytest.mark.parametrize("screen", SCREENS)
def test_screen_fits_and_shifts_nothing(
    screen: str, width: int, site: Site, chromium: Any, signed_in: Any
) -> None:
    with opened(chromium, signed_in, viewport={"width": width, "height": 800}) as (page, errors):
        show(page, site, screen)
        assert errors == []
        assert "Loading" not in page.inner_text("main")
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(over) <= 0
        cut = """[...document.querySelectorAll("#bar nav a")].filter(a => {
            const r = a.getBoundingClientRect();
            return r.left < 0 || r.right > innerWidth + 1 }).map(a => a.textContent)"""
        assert page.evaluate(cut) == []
        assert page.evaluate("window.shifts") < 0.1


@pytest.mark.parametrize("screen", SCREENS)
def test_hostile_text_is_shown_and_never_executed(
    screen: str, site: Site, chromium: Any, signed_in: Any
) -> None:
    with opened(chromium, signed_in) as (page, errors):
        show(page, site, screen)
        for call in page.query_selector_all(".call, .doc")[:4]:
            call.click()
        page.wait_for_timeout(200)
        assert "owned" not in page.title()
        assert page.query_selector_all("main script, main img[onerror]") == []
        assert page.query_selector_all("a[href^='javascript:']") == []
        assert errors == []
        if screen == "hostile":
            assert "onerror=" in page.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_screens_have_no_serious_finding_of_axe(
    scheme: str, site: Site, chromium: Any, signed_in: Any
) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
    )
    # The policy of the page refuses scripts from elsewhere, such as that of axe.
    with opened(chromium, signed_in, color_scheme=scheme, bypass_csp=True) as (page, _):
        for screen in SCREENS:
            show(page, site, screen)
            found = axe.Axe().run(page).response["violations"]
            serious = [each["id"] for each in found if each["impact"] in ("serious", "critical")]
            assert serious == [], screen


def test_object_grows_in_the_page_while_it_streams(
    site: Site, chromium: Any, signed_in: Any
) -> None:
    with opened(chromium, signed_in) as (page, errors):
        show(page, site, "new")
        page.locator("textarea").first.fill(GROWS)
        page.get_by_role("button", name="Run", exact=True).click()
        steps = page.locator(".partial")
        steps.wait_for(timeout=20_000)
        before = steps.inner_text()
        assert "onerror=" in before
        page.wait_for_function(
            "text => document.querySelector('.partial')?.innerText !== text", arg=before
        )
        assert '"attempt"' not in steps.inner_text(), "only the object is shown"
        assert errors == []


def test_object_of_a_run_of_another_process_grows_in_the_page(
    site: Site, chromium: Any, signed_in: Any
) -> None:
    (site.root / "grows.py").write_text(GROWS)
    with opened(chromium, signed_in) as (page, errors):
        show(page, site, "runs")
        row = page.get_by_role("link", name="grows.py")
        with running(site, "run", "grows.py", "--tools", "shop.py", "--allow", "grow"):
            row.first.click(timeout=20_000)
            steps = page.locator(".partial")
            steps.wait_for(timeout=20_000)
            before = steps.inner_text()
            page.wait_for_function(
                "text => document.querySelector('.partial')?.innerText !== text", arg=before
            )
        assert errors == []


def test_documents_are_reached_with_the_keyboard_and_filtered(
    site: Site, chromium: Any, signed_in: Any
) -> None:
    with opened(chromium, signed_in) as (page, errors):
        show(page, site, "extraction")
        assert len(page.query_selector_all(".doc")) < 60, "rows out of view are no elements"
        page.get_by_role("listbox", name="Documents").focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        page.locator(".doc-details h3").wait_for(timeout=5_000)
        assert page.locator(".doc.on").get_attribute("aria-posinset") == "403"
        page.get_by_role("button", name="documents, different values").click()
        page.locator(".total", has_text="1 shown").wait_for(timeout=5_000)
        page.get_by_role("listbox", name="Documents").focus()
        page.keyboard.press("Enter")
        page.locator(".differ", has_text="/total").wait_for(timeout=5_000)
        page.get_by_role("tab", name="Compare").click()
        page.get_by_role("tabpanel", name="Compare").get_by_role("button").click()
        page.locator(".difference", has_text="invoice-1").wait_for(timeout=5_000)
        assert errors == []


def test_browser_without_a_token_sees_nothing(site: Site, chromium: Any, signed_in: Any) -> None:
    assert signed_in
    context = chromium.new_context()
    page = context.new_page()
    show(page, site, "paused")
    assert "Sign in" in page.inner_text("main")
    assert "A-17" not in page.content()
    context.close()


def test_page_of_another_origin_cannot_decide(site: Site, chromium: Any, signed_in: Any) -> None:
    """The browser sends the cookie, since the other server is on the same host."""
    requested: list[int] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>other</title>")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        context = chromium.new_context(storage_state=signed_in)
        page = context.new_page()
        page.on("response", lambda response: requested.append(response.status))
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        for mode, kind in (("no-cors", "text/plain"), ("cors", "application/json")):
            page.evaluate(
                """([url, mode, kind]) => fetch(url, {method: "POST", mode, credentials: "include",
                    headers: {"content-type": kind}, body: "{}"}).catch(() => null)""",
                [f"{site.origin}/api/runs/{site.runs['orders']}/decide", mode, kind],
            )
        page.wait_for_timeout(200)
        context.close()
        assert not [status for status in requested[1:] if status < 400]
    finally:
        server.shutdown()
        server.server_close()


def test_name_that_was_rebound_to_this_host_is_refused(site: Site, signed_in: Any) -> None:
    assert signed_in
    request = urllib.request.Request(site.origin + "/", headers={"host": "evil.example"})  # noqa: S310  # of this test
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)  # noqa: S310  # as above
    assert refused.value.code in (400, 403, 421)
    refused.value.close()


def test_decision_in_the_page_finishes_a_run_of_another_process(
    site: Site, chromium: Any, signed_in: Any
) -> None:
    approve(site, chromium, signed_in)


def test_decision_in_the_page_finishes_a_run_of_another_process_over_postgresql(
    chromium: Any, tmp_path: Path, database: str
) -> None:
    (tmp_path / "shop.py").write_text(TOOLS)
    (tmp_path / "orders.py").write_text(ORDERS)
    with serve(tmp_path, database, tmp_path / "state", {}) as site:
        state = sign_in(site, chromium)
        ran = command(site, "run", "orders.py", "--tools", "shop.py", "--allow", "price,refund")
        site.runs["orders"] = json.loads(ran.stdout)["run_id"]
        approve(site, chromium, state)


@contextmanager
def running(site: Site, *arguments: str) -> Iterator[None]:
    """A command of another process over the same journal, which is ended after the block."""
    command = [sys.executable, "-P", "-m", "ptc", *arguments, "--journal", str(site.journal)]
    with subprocess.Popen(command, cwd=site.root, env=site.environment) as process:
        try:
            yield
        finally:
            process.terminate()


def command(site: Site, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "ptc", name, *arguments, "--json",
         "--journal", str(site.journal)],
        cwd=site.root, env=site.environment, capture_output=True, text=True, check=False,
        timeout=60,
    )  # fmt: skip


def approve(site: Site, chromium: Any, state: Any) -> None:
    """Approve the run of orders in the page, and check its record with the command line."""
    with opened(chromium, state) as (page, errors):
        show(page, site, "paused")
        page.get_by_role("button", name="Approve").first.click()
        page.get_by_text("completed").first.wait_for(timeout=20_000)
        assert errors == []
    shown = command(site, "show", site.runs["orders"]).stdout
    assert '"completed"' in shown
    assert '"ann"' in shown
