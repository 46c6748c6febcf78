"""The application of the page over a journal with real runs, and a signed-in client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Session, ToolError, tool

pytest.importorskip("starlette", reason="pip install 'ptc-host[ui]'")

from starlette.testclient import TestClient

from ptc._ui._access import Access
from ptc._ui._app import create_app

HOSTILE = "</script><script>document.title='owned'</script>"
ORDERS = """
async def run(ctx, inputs):
    print("<img src=x onerror=alert(1)>")
    price = await ctx.price(item=inputs["item"])
    ctx.emit({"price": price})
    return await ctx.refund(order="A-17", cents=price)
"""


@tool
async def price(item: str) -> int:
    """Price of an item, in cents."""
    if item.startswith("x"):
        raise ToolError(f"there is no {item}", code="not_found")
    return len(item) * 100


@tool(side_effect=True, idempotent=True, needs_approval=True, approval_prompt="Refund it?")
async def refund(order: str, cents: int) -> dict[str, Any]:
    """Refund an order."""
    return {"order": order, "refunded": cents}


TOOLS = [price, refund]


@dataclass
class Page:
    """A client of the application."""

    client: TestClient
    access: Access
    key: str

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(path, headers={"x-ptc-key": self.key, **headers})

    def post(self, path: str, body: Any, **headers: str) -> Any:
        origin = {"origin": "http://127.0.0.1"}
        return self.client.post(
            path, json=body, headers={"x-ptc-key": self.key, **origin, **headers}
        )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A journal with a paused, a completed and a hostile run, by these names."""
    journal = tmp_path_factory.mktemp("store") / "journal.db"
    root = tmp_path_factory.mktemp("root")

    async def record() -> dict[str, str]:
        async with Session(root, tools=TOOLS, toolsets=(), journal=journal, workers=1) as session:
            results = {
                "paused": await session.program(
                    source=ORDERS, inputs={"item": "mug"}, allowed_tools=["price", "refund"]
                ),
                "completed": await session.program(
                    source="async def run(ctx, inputs): return await ctx.price(item='lamp')",
                    filename="lamp.py",
                ),
                "hostile": await session.program(
                    source=f"# {HOSTILE}\nasync def run(ctx, inputs):\n"
                    f'    await ctx.price(item="x{HOSTILE}")',
                    filename=HOSTILE,
                ),
            }
        return {name: result.run_id for name, result in results.items()}

    return journal, anyio.run(record)


@pytest.fixture(scope="module")
def open_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Page]]:
    """Open a page over a journal, signed in as ann."""
    with ExitStack() as stack:

        def open_one(
            journal: Path | str, *, read_only: bool = False, signs_in: bool = True
        ) -> Page:
            session = Session(
                tmp_path_factory.mktemp("root"),
                tools=TOOLS,
                toolsets=(),
                journal=journal,
                workers=1,
            )
            access = Access(["ann"])
            app = create_app(
                session.history,
                session.artifacts,
                access,
                session=None if read_only else session,
                cookie="ptc_ui_1",
                hosts=("ptc.example",),
            )
            stack.callback(anyio.run, session.aclose)
            client = stack.enter_context(TestClient(app, base_url="http://127.0.0.1"))
            page = Page(client, access, "")
            if signs_in:
                answer = page.post("/api/login", {"token": access.issue("ann")})
                assert answer.status_code == 200
                page.key = answer.json()["key"]
            return page

        yield open_one


@pytest.fixture(scope="module")
def page(open_page: Callable[..., Page], runs: tuple[Path, dict[str, str]]) -> Page:
    return open_page(runs[0])


@pytest.fixture(scope="module")
def ids(runs: tuple[Path, dict[str, str]]) -> dict[str, str]:
    return runs[1]
