"""The side of `durable.py` that starts, stops and kills hosts, and compares their runs."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Self

from ptc._workers._choose import EngineName
from tests.fuzz.durable_host import Place, serve
from tests.fuzz.durable_oracle import differences, doubled
from tests.fuzz.durable_postgres import PostgresProcess
from tests.fuzz.durable_server import Server

__all__ = ["DEATHS", "DEATHS_OF_ENGINES", "Series"]

DEATHS = (
    *("host", "worker", "zygote", "server", "connections"),
    *("frozen", "two", "clock", "cancel", "queue", "guest"),
)
DEATHS_OF_ENGINES = {"process": ("worker", "zygote"), "wasm": ("guest",)}
"""Deaths that only one engine can have."""
_SECONDS = 60.0
"""Time limit for an answer; exceeding it is a finding."""
_SHORT_LEASE = 0.5
_HOUR = 3600
_Counts = Counter[str]


class _Host:
    """A forked host, and the pipes to it."""

    def __init__(self, place: Place) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.setsid()
                os.close(self._requests)
                with os.fdopen(requests) as read, os.fdopen(answers, "w") as write:
                    serve(place, read, write)
                status = 0
            finally:
                os._exit(status)
        os.close(requests)
        os.close(answers)
        self._text = b""

    def send(self, request: dict[str, Any]) -> None:
        os.write(self._requests, json.dumps(request).encode() + b"\n")

    def poll(self, seconds: float) -> dict[str, Any] | str | None:
        """Return the answer, ``died``, ``stopped``, or None after some time."""
        ready, _, _ = select.select([self._answers], [], [], seconds)
        if ready:
            text = os.read(self._answers, 1 << 20)
            self._text += text
            if self._text.endswith(b"\n"):
                found: dict[str, Any] = json.loads(self._text)
                self._text = b""
                return found
            if not text:
                os.waitpid(self.pid, 0)
                self._close()
                return "died"
        done, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if done and os.WIFSTOPPED(status):
            return "stopped"
        if done:
            self._close()
            return "died"
        return None

    def kill(self) -> None:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._close()

    def _close(self) -> None:
        for file in (self._requests, self._answers):
            with suppress(OSError):
                os.close(file)


class Series:
    """Points of one kind of death over one store."""

    def __init__(
        self,
        folder: Path,
        store: str,
        death: str,
        mutant: str,
        engine: EngineName = "process",
    ) -> None:
        """Start the store."""
        self._folder = folder
        self._death = death
        self._engine: EngineName = engine
        self._mutant = mutant
        self._hosts: dict[str, _Host] = {}
        self._served = 0
        self.postgres: PostgresProcess | None = None
        if store == "postgres":
            place = folder / "postgres"
            place.mkdir()
            folder.chmod(0o755)
            self.postgres = PostgresProcess(place)
        self._place = self._new_place()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reset()
        if self.postgres is not None:
            self.postgres.stop()

    def _new_place(self) -> Place:
        self._served += 1
        place = self._folder / f"store{self._served}"
        place.mkdir()
        leases = dict.fromkeys(("host", "frozen", "two"), _SHORT_LEASE) | {"queue": 1.0}
        lease = leases.get(self._death, 15.0)
        freezes = self._death in ("frozen", "two", "clock")
        found = Place(
            place,
            lease_seconds=lease,
            mutant=self._mutant,
            freezes=freezes,
            engine=self._engine,
        )
        if self.postgres is None:
            return found
        file = self._folder / "postmaster"
        self._write_postmaster()
        schema = f"store{self._served}"
        return replace(found, url=self.postgres.url, schema=schema, postmaster=file)

    def _reset(self) -> None:
        """Use new hosts and a new store from now on."""
        for host in self._hosts.values():
            host.kill()
        self._hosts.clear()

    def _host(self, name: str) -> _Host:
        if name not in self._hosts:
            self._hosts[name] = _Host(self._place)
        return self._hosts[name]

    def _keep_running(self) -> None:
        if self.postgres is not None and self.postgres.keep_running():
            self._write_postmaster()

    def _write_postmaster(self) -> None:
        assert self.postgres is not None
        part = self._folder / "postmaster.part"
        part.write_text(str(self.postgres.pid))
        part.rename(self._folder / "postmaster")

    def _wait(self, name: str) -> dict[str, Any] | str:
        """Wait for a host, and keep the server running."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            found = self._host(name).poll(0.02)
            self._keep_running()
            if found is not None:
                if found == "died":
                    del self._hosts[name]
                return found
        return f"still at work after {_SECONDS:.0f} s"

    def straight(self, program: str) -> dict[str, Any]:
        """Run a program without a death; return its result."""
        path = self._folder / f"straight {program}"
        plain = Place(self._folder / "straight", engine=self._engine)
        plain.folder.mkdir(exist_ok=True)
        if "straight" not in self._hosts:
            self._hosts["straight"] = _Host(plain)
        self._host("straight").send(
            {"program": program, "server": str(path), "at": [], "new": True}
        )
        found = self._wait("straight")
        if isinstance(found, str) or "error_text" in found:
            raise RuntimeError(f"{program}: {found}")
        found["effects"] = Server(path).effects()
        return found

    def point(
        self, number: int, program: str, steps: list[int], chance: Random, straight: dict[str, Any]
    ) -> tuple[_Counts, list[str]]:
        """Interrupt a run at these steps; return the numbers and the problems."""
        path = self._folder / f"point {number}"
        request = {"program": program, "server": str(path), "seed": chance.randrange(10**6)}
        request |= {"death": self._death, "patience": 20.0}
        counts: _Counts = Counter()
        if self._death == "host":
            found = self._killed(request, steps, counts)
        elif self._death in ("frozen", "two", "clock"):
            found = self._stopped(request, steps[0], chance, counts)
        else:
            found = [self._ask("a", {**request, "at": sorted(set(steps)), "new": True})]
        deaths = path.with_name(path.name + ".deaths")
        if deaths.exists():
            kinds = Counter(deaths.read_text().split())
            counts["deaths"] += kinds.total()
            counts.update({f"deaths of {kind}": count for kind, count in kinds.items()})
        wrong = self._compare(found, path, straight, counts)
        if wrong:
            self._reset()
            self._place = self._new_place()
        for file in self._folder.glob(f"point {number}*"):
            file.unlink()
        return counts, wrong

    def finish(self) -> tuple[_Counts, list[str]]:
        """Wait for runs that have not ended; here, each point waits for its run."""
        return Counter(), []

    def _ask(self, name: str, request: dict[str, Any]) -> dict[str, Any] | str:
        self._host(name).send(request)
        return self._wait(name)

    def _killed(
        self, request: dict[str, Any], steps: list[int], counts: _Counts
    ) -> list[dict[str, Any] | str]:
        for index, at in enumerate(steps):
            found = self._ask("a", {**request, "at": [at], "new": index == 0})
            if found != "died":
                return [found]
        return [self._ask("b", {**request, "at": []})]

    def _stopped(
        self, request: dict[str, Any], at: int, chance: Random, counts: _Counts
    ) -> list[dict[str, Any] | str]:
        """Stop a host at a step, let others resume its run, and let it continue."""
        is_clock = self._death == "clock"
        jump = chance.choice((-_HOUR, _HOUR)) if is_clock else 0
        found = self._ask("a", {**request, "at": [at], "new": True, "jump": jump})
        if found != "stopped":
            return [found]
        others: list[dict[str, Any] | str] = []
        if is_clock:
            others = self._rivals(request, chance, counts)
        else:
            time.sleep(_SHORT_LEASE * 1.1)
            names = ("b", "c") if self._death == "two" else ("b",)
            for name in names:
                self._host(name).send({**request, "at": []})
            others = [self._wait(name) for name in names]
        os.kill(self._host("a").pid, signal.SIGCONT)
        last = self._wait("a")
        if isinstance(last, str):
            return [*others, last]
        mine = [last] if is_clock and not others else []
        # The record that it left.
        return [*others, *mine, self._ask("b", {**request, "at": []})]

    def _rivals(
        self, request: dict[str, Any], chance: Random, counts: _Counts
    ) -> list[dict[str, Any] | str]:
        """Let another host try to resume the run of a stopped one, whose lease has not expired.

        It may resume a run that nobody holds: one that is paused, or whose start is not recorded.
        """
        shift = chance.choice((-_HOUR, 0, _HOUR))
        rival = {**request, "at": [], "patience": 0.0, "shift": shift, "rival": True}
        other = self._ask("b", rival)
        if isinstance(other, str):
            return [other]
        if "error_text" in other:
            is_refused = other["error_text"].startswith(("BusyRunError", "UnknownRunError"))
            counts["refused" if is_refused else "failed"] += 1
            return [] if is_refused else [other]
        if "stolen" in other:
            counts["stolen"] += 1
            return [other, f"stolen: the lease was to expire in {other['stolen']:.1f} s"]
        was = other["was"] or "unknown"
        counts[f"found {was}"] += 1
        return [other]

    def _compare(
        self,
        found: list[dict[str, Any] | str],
        path: Path,
        straight: dict[str, Any],
        counts: _Counts,
    ) -> list[str]:
        wrong: list[str] = []
        done = Server(path).effects()
        passed = path.with_name(path.name + ".passed")
        if passed.exists():
            in_flight = json.loads(passed.read_text())
            done, removed = doubled(done, straight["effects"], in_flight)
            counts["zombie's own calls"] += removed
        for each in found:
            if isinstance(each, str):
                wrong.append(each)
            elif "error_text" in each:
                wrong.append(f"{each['error_text']}\n{each['trace']}")
            else:
                wrong += differences(each, straight, done, straight["effects"])
        return list(dict.fromkeys(wrong))
