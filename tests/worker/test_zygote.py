"""The zygote: what it starts with, and when it refuses to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from ptc import Session, SetupError, tool
from ptc._core._reactor import current_reactor
from ptc._workers import _spawn
from ptc._workers._zygote import Zygote
from ptc.testing import NO_KERNEL_LAYER
from tests.core.pools import pool_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("nothing_left")]

SECRET = "correct-horse-battery-staple"


async def test_zygote_inherits_no_environment_or_files_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTC_TEST_SECRET", SECRET)
    with (tmp_path / "secret.txt").open("w+") as file:
        os.set_inheritable(file.fileno(), True)
        # Without a PID namespace the process that is started is the zygote itself.
        zygote = Zygote(NO_KERNEL_LAYER, current_reactor())
        zygote.spawn()
        try:
            with anyio.fail_after(20):
                await zygote.hello()
            proc = Path(f"/proc/{zygote.pid}")
            try:
                environment = (proc / "environ").read_bytes()
            except PermissionError:
                pytest.skip("this user may not look into a process that is not dumpable")
            assert SECRET.encode() not in environment
            assert b"PATH" not in environment
            links = [os.readlink(link) for link in (proc / "fd").iterdir()]
            assert not [link for link in links if "secret.txt" in link]
            assert (proc / "cwd").readlink() == Path("/")
        finally:
            zygote.close()


async def test_session_refuses_to_start_with_a_missing_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An environment variable more than the zygote knows is a failure of a required layer.
    real = subprocess.Popen

    def polluted(*args: Any, env: dict[str, str], **options: Any) -> Any:
        return real(*args, env={**env, "LD_PRELOAD_NOT": "x"}, **options)  # type: ignore[call-overload]  # passed through

    monkeypatch.setattr(subprocess, "Popen", polluted)
    async with Session(tmp_path, toolsets=(), engine="process") as session:
        with pytest.raises(SetupError, match="environment") as caught:
            await session.warm_up()
    assert [layer.name for layer in caught.value.layers if layer.required and not layer.on] == [
        "environment"
    ]


@pytest.mark.parametrize("isolation", ["jail", "process"])
@pytest.mark.parametrize("system", ["darwin", "win32"])
async def test_unsupported_system_refuses_scripts_but_runs_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, isolation: str
) -> None:
    @tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    pretended = SimpleNamespace(platform=system, executable=sys.executable)
    monkeypatch.setattr("ptc._workers._zygote.sys", pretended)
    async with Session(tmp_path, tools=[add], toolsets=(), isolation=isolation) as session:
        with pytest.raises(SetupError, match=f"on Linux only, and this is {system}"):
            await session.warm_up()
        assert await session.call(add, a=1, b=2) == 3


async def test_warm_up_returns_active_and_verified_layers(
    tmp_path: Path,
) -> None:
    async with Session(tmp_path, toolsets=()) as session:
        layers = await session.warm_up()
    required = {layer.name for layer in layers if layer.required}
    assert {"seccomp", "landlock", "no_new_privs", "memory", "descriptors"} <= required
    assert all(layer.on for layer in layers if layer.required)
    assert all(layer.how.endswith(".") and layer.detail for layer in layers)


async def test_process_that_was_started_early_is_the_next_zygote(tmp_path: Path) -> None:
    _spawn.spawn_early("jail")
    _spawn.spawn_early("jail")  # there is one already
    (early,) = [process.pid for process, _ in _spawn._early.values()]
    async with Session(tmp_path, toolsets=()) as session:
        assert (await session.program(source="def run(ctx, inputs): return 1")).value == 1
        zygote = pool_of(session)._zygote
        assert zygote is not None
        assert zygote.pid == early
    assert not _spawn._early


def test_process_that_was_started_early_is_not_used_with_other_settings() -> None:
    _spawn.spawn_early("process")
    try:
        (early,) = [process.pid for process, _ in _spawn._early.values()]
        process, control = _spawn.take_or_spawn("jail", ())
        process.kill()
        control.close()
        process.communicate()
        assert process.pid != early
    finally:
        for process, control in _spawn._early.values():
            process.kill()
            control.close()
            process.communicate()
        _spawn._early.clear()
