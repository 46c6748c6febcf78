"""The real page in a real browser: `ptc ui` as a process, and headless Chromium."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc import Limits, Session, Tool
from tests.ui.extracted import extract

sync_api: Any = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
REPOSITORY = Path(ptc.__file__).parents[1]
PARTS = (".", "tools", "bindings")
SECONDS = 30
MARK = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
"""Text that runs as a program where it is not escaped."""
TOOLS = f'''
import asyncio

from ptc import ToolContext, ToolError, tool

MARK = {MARK!r}


@tool
async def price(item: str) -> int:
    """Price of an item, in cents."""
    if item.startswith("<"):
        raise ToolError(f"there is no {{item}}", code="not_found")
    return len(item) * 100


@tool
async def page(url: str) -> dict:
    """Fetch a page."""
    return {{"url": url, "text": MARK, "link": "javascript:document.title='owned'"}}


@tool
async def grow(ctx: ToolContext) -> int:
    """Report an object that grows, as generate_object does."""
    value = {{"mark": MARK, "steps": 0}}
    for value["steps"] in range(1, 200):
        ctx.output({{"object": value, "attempt": 1}})
        await asyncio.sleep(0.05)
    return 1


@tool(side_effect=True, idempotent=True, needs_approval=True, approval_prompt=lambda a: MARK)
async def refund(order: str, cents: int) -> dict:
    """Refund an order."""
    return {{"order": order, "refunded": cents}}
'''
ORDERS = """
async def run(ctx, inputs):
    cents = await ctx.price(item="kettle")
    ctx.emit({"cents": cents})
    return await ctx.refund(order="A-17", cents=cents)
"""
HOSTILE = f"""
# {MARK}
async def run(ctx, inputs):
    print({MARK!r})
    ctx.emit({MARK!r})
    try:
        await ctx.price(item={MARK!r})
    except ToolError:
        pass
    return await ctx.page(url="javascript:document.title='owned'")
"""
GROWS = """
async def run(ctx, inputs):
    return await ctx.grow()
"""
MANY = """
import asyncio
async def run(ctx, inputs):
    return sum(await asyncio.gather(*[ctx.price(item="x" * (n % 9)) for n in range(60)]))
"""
FAILS = f"async def run(ctx, inputs):\n    raise ValueError({MARK!r})\n"


@dataclass
class Site:
    """The server, and the runs of its journal by name."""

    root: Path
    journal: Path | str
    environment: dict[str, str]
    runs: dict[str, str]
    process: subprocess.Popen[str]
    origin: str = ""
    links: list[str] = field(default_factory=list)

    def link(self) -> str:
        """A link that signs in; the terminal prints the next when it was used."""
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found is not None, line
        self.origin = found[0].partition("/#")[0]
        return found[0]


async def _record(root: Path, journal: Path) -> dict[str, str]:
    names = runpy.run_path(str(root / "shop.py"))
    tools = [value for value in names.values() if isinstance(value, Tool)]
    limits = Limits(max_tool_calls=200)
    found = {}
    async with Session(root, tools=tools, toolsets=(), journal=str(journal), limits=limits) as s:
        for name, source, status in (
            ("orders", ORDERS, "paused"),
            ("hostile", HOSTILE, "completed"),
            ("many", MANY, "completed"),
            ("fails", FAILS, "failed"),
        ):
            filename = f"{name}.py" if name != "hostile" else "<script>x.py"
            result = await s.program(
                source=source, filename=filename, allowed_tools=["price", "page", "refund"]
            )
            assert result.status == status, result.error
            found[name] = result.run_id
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless browser: that of the system, or Playwright's own."""
    system = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_api.sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=system, args=["--no-sandbox"] if os.geteuid() == 0 else []
            )
        except sync_api.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The page of a journal with four runs and two extractions, over a root with tools."""
    import anyio

    root = tmp_path_factory.mktemp("root")
    (root / "shop.py").write_text(TOOLS)
    journal = tmp_path_factory.mktemp("journal") / "runs.db"
    runs = anyio.run(_record, root, journal)
    runs["extraction"] = anyio.run(partial(extract, journal, root, MARK, count=400))
    runs["other"] = anyio.run(partial(extract, journal, root, MARK, shift=5))
    with serve(root, journal, tmp_path_factory.mktemp("state"), runs) as site:
        yield site


@contextmanager
def serve(root: Path, journal: Path | str, state: Path, runs: dict[str, str]) -> Iterator[Site]:
    """Serve the page of a journal in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(REPOSITORY / name) for name in PARTS),
        "XDG_STATE_HOME": str(state),
    }
    command = [sys.executable, "-P", "-W", "ignore", "-m", "ptc", "ui"]
    command += ["--root", str(root), "--tools", str(root / "shop.py")]
    command += ["--journal", str(journal), "--as", "ann"]
    with subprocess.Popen(
        command, cwd=root, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        try:
            yield Site(root, journal, environment, runs, process)
        finally:
            process.terminate()
            process.wait(SECONDS)


@pytest.fixture(scope="module")
def signed_in(site: Site, chromium: Any) -> Any:
    """The state of a browser that has signed in."""
    return sign_in(site, chromium)


def sign_in(site: Site, chromium: Any) -> Any:
    """Open a link of the page, and return the state of the browser."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(site.link())
    page.wait_for_selector("#bar nav")
    state = context.storage_state()
    context.close()
    return state
