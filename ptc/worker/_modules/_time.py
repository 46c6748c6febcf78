"""time, datetime, random, uuid, secrets and zoneinfo on the logical clock and the run's seed.

`datetime.datetime` must stay the real class (repr, isinstance, arithmetic and pickles of the
library all depend on it), so `now`, `utcnow` and `today` are replaced on the real classes of
the worker process. Local time is UTC.
"""

from __future__ import annotations

import calendar
import datetime
import io
import operator
import os
import random
import time
import uuid
import zoneinfo
from collections.abc import Mapping
from typing import Any, Final

from ..._language._policy import MODULES
from .._clock import Clock
from .._freeze import replace_attribute

__all__ = ["time_modules"]


def _install_dates(clock: Clock) -> None:
    real_datetime, real_date = datetime.datetime, datetime.date

    def now(cls: Any, tz: Any = None) -> Any:
        if tz is None:
            return cls.fromtimestamp(clock.now(), datetime.UTC).replace(tzinfo=None)
        return cls.fromtimestamp(clock.now(), tz)

    def utcnow(cls: Any) -> Any:
        return cls.fromtimestamp(clock.now(), datetime.UTC).replace(tzinfo=None)

    def today(cls: Any) -> Any:
        if issubclass(cls, real_datetime):
            return now(cls)
        return cls.fromtimestamp(clock.now())

    replace_attribute(real_date, "today", classmethod(today))
    for name, function in (("now", now), ("utcnow", utcnow), ("today", today)):
        function.__qualname__ = f"datetime.{name}"  # errors show it
        replace_attribute(real_datetime, name, classmethod(function))


_LONGEST_S: Final = (2**63 - 1) / 1e9
"""Longest sleep of CPython, which counts nanoseconds in 64 bits."""
_ZONE_BYTES: Final = 65_536
"""More than a compiled zone has; a larger file in the folder is not one."""


def _time(clock: Clock) -> dict[str, Any]:
    def localtime(seconds: float | None = None, /) -> time.struct_time:
        return time.gmtime(clock.now() if seconds is None else seconds)

    def strftime(template: str, moment: Any = None, /) -> str:
        return time.strftime(template, localtime() if moment is None else moment)

    def sleep(seconds: float, /) -> None:
        if clock.sleep is None or _loop_runs():
            raise RuntimeError("time.sleep() would stop every task; write `await asyncio.sleep(s)`")
        number: Any = float.__float__ if isinstance(seconds, float) else operator.index
        length = number(seconds)
        if length != length:
            raise ValueError("Invalid value NaN (not a number)")
        if abs(length) > _LONGEST_S:
            raise OverflowError("timestamp out of range for platform time_t")
        if length < 0:
            raise ValueError("sleep length must be non-negative")
        clock.sleep(length)

    def elapsed_ns() -> int:
        return round(clock.read() * 1e9)

    return {
        "time": clock.now,
        "time_ns": lambda: round(clock.now() * 1e9),
        **dict.fromkeys(("monotonic", "perf_counter", "process_time"), clock.read),
        **dict.fromkeys(("monotonic_ns", "perf_counter_ns", "process_time_ns"), elapsed_ns),
        "sleep": sleep,
        "localtime": localtime,
        "gmtime": localtime,
        "strftime": strftime,
        "strptime": time.strptime,
        "asctime": lambda moment=None: time.asctime(localtime() if moment is None else moment),
        "ctime": lambda seconds=None: time.asctime(localtime(seconds)),
        "mktime": lambda moment: float(calendar.timegm(moment)),
        "struct_time": time.struct_time,
        "timezone": 0,
        "altzone": 0,
        "daylight": 0,
        "tzname": ("UTC", "UTC"),
    }


def _loop_runs() -> bool:
    import asyncio

    return asyncio._get_running_loop() is not None


def _random(clock: Clock, rng: random.Random) -> dict[str, Any]:
    class Random(random.Random):
        """`random.Random`; without a seed it is seeded from the run's seed."""

        def __init__(self, x: Any = None) -> None:
            super().__init__(rng.getrandbits(128) if x is None else x)

        def seed(self, a: Any = None, version: int = 2) -> None:
            super().seed(rng.getrandbits(128) if a is None else a, version)

    Random.__module__ = "random"
    Random.__qualname__ = "Random"

    def seed(a: Any = None, version: int = 2) -> None:
        rng.seed(rng.getrandbits(128) if a is None else a, version)

    members = {
        name: getattr(rng, name) for name in MODULES["random"] if name not in {"Random", "seed"}
    }
    for name, bound in members.items():
        setattr(random, name, bound)  # library code uses the run's random numbers too
    return {**members, "Random": Random, "seed": seed}


def _secrets(rng: random.Random) -> dict[str, Any]:
    import base64
    import hmac

    def token_bytes(nbytes: int | None = None) -> bytes:
        return rng.randbytes(32 if nbytes is None else nbytes)

    def token_urlsafe(nbytes: int | None = None) -> str:
        return base64.urlsafe_b64encode(token_bytes(nbytes)).rstrip(b"=").decode("ascii")

    return {
        "choice": rng.choice,
        "randbelow": rng.randrange,
        "randbits": rng.getrandbits,
        "token_bytes": token_bytes,
        "token_hex": lambda nbytes=None: token_bytes(nbytes).hex(),
        "token_urlsafe": token_urlsafe,
        "compare_digest": hmac.compare_digest,
    }


def _uuid(rng: random.Random) -> dict[str, Any]:
    return {
        "uuid3": uuid.uuid3,
        "uuid4": lambda: uuid.UUID(int=rng.getrandbits(128), version=4),
        "uuid5": uuid.uuid5,
        **{name: getattr(uuid, name) for name in MODULES["uuid"] if not name.startswith("uuid")},
    }


def _zones() -> Mapping[str, bytes]:
    """Read every zone file, because the jail can open none later. About 0.5 MB."""
    found: dict[str, bytes] = {}
    for root in zoneinfo.TZPATH:
        _read_zones(root, "", found)
    return found or _zones_of_package()


def _read_zones(folder: str, prefix: str, found: dict[str, bytes]) -> None:
    # A part of the start of every session: with `os.walk` and `open` it takes three times as long.
    try:
        entries = list(os.scandir(folder))
    except OSError:  # most of the folders in the search path do not exist
        return
    for entry in entries:
        key = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            if key not in ("posix", "right"):
                _read_zones(entry.path, f"{key}/", found)
        elif key not in found and entry.is_file():
            fd = os.open(entry.path, os.O_RDONLY)
            try:
                content = os.read(fd, _ZONE_BYTES)
            finally:
                os.close(fd)
            if content.startswith(b"TZif"):
                found[key] = content


def _zones_of_package() -> dict[str, bytes]:
    """Read the zones of the package `tzdata`, where the system has none: as `zoneinfo` does."""
    try:
        from importlib import resources

        folder = resources.files("tzdata")
        names = folder.joinpath("zones").read_text().split()
        return {name: folder.joinpath("zoneinfo", *name.split("/")).read_bytes() for name in names}
    except (ImportError, OSError):
        return {}


def _refuse_zone_file(cls: Any, fobj: Any, /, key: Any = None) -> Any:
    raise ValueError("ZoneInfo.from_file is not available: use ZoneInfo(key)")


def _zoneinfo() -> dict[str, Any]:
    from zoneinfo import _common as common

    _common: Any = common

    if not hasattr(_common, "ptc_zones"):
        zones = _zones()

        def load_tzdata(key: str) -> io.BytesIO:
            if key not in zones:
                raise zoneinfo.ZoneInfoNotFoundError(f"No time zone found with key {key}")
            return io.BytesIO(zones[key])

        _common.load_tzdata = load_tzdata
        _common.ptc_zones = zones
        zoneinfo.reset_tzpath(to=())
        # CPython 3.11 reads out of bounds for an index that is one too large in a file.
        replace_attribute(zoneinfo.ZoneInfo, "from_file", classmethod(_refuse_zone_file))
    zones = _common.ptc_zones
    hidden = {"posixrules", "localtime", "Factory"}
    return {
        "ZoneInfo": zoneinfo.ZoneInfo,
        "ZoneInfoNotFoundError": zoneinfo.ZoneInfoNotFoundError,
        "available_timezones": lambda: set(zones) - hidden,
    }


def time_modules(clock: Clock, rng: random.Random) -> dict[str, dict[str, Any]]:
    """Return the members of the modules for time and randomness."""
    os.environ["TZ"] = "UTC0"
    if hasattr(time, "tzset"):  # a WebAssembly guest has no other zone
        time.tzset()
    _install_dates(clock)
    return {
        "time": _time(clock),
        "datetime": {name: getattr(datetime, name) for name in MODULES["datetime"]},
        "random": _random(clock, rng),
        "secrets": _secrets(rng),
        "uuid": _uuid(rng),
        "zoneinfo": _zoneinfo(),
    }
