# Calls every name of every module with ordinary arguments. None may reach the kernel layer.
import abc, array, ast, asyncio, base64, binascii, bisect, calendar, cmath, collections, contextlib, copy
import csv, dataclasses, datetime, decimal, difflib, enum, fnmatch, fractions, functools, graphlib, hashlib, heapq
import hmac, html, inspect, io, ipaddress, itertools, json, keyword, logging, math, numbers, operator, os, os.path
import pathlib, pprint, random, re, reprlib, secrets, shlex, statistics, string, struct, sys, textwrap, time
import traceback, types, typing, unicodedata, urllib.parse, uuid, warnings, zlib, zoneinfo

MODULES = [
    abc, array, ast, asyncio, base64, binascii, bisect, calendar, cmath, collections, contextlib, copy,
    csv, dataclasses, datetime, decimal, difflib, enum, fnmatch, fractions, functools, graphlib, hashlib, heapq,
    hmac, html, inspect, io, ipaddress, itertools, json, keyword, logging, math, numbers, operator, os, os.path,
    pathlib, pprint, random, re, reprlib, secrets, shlex, statistics, string, struct, sys, textwrap, time,
    traceback, types, typing, unicodedata, urllib.parse, uuid, warnings, zlib, zoneinfo,
]
# They end the script or wait for ever, which is what they are for.
SKIPPED = {"exit", "sleep", "wait", "input", "setrecursionlimit", "cycle", "count", "repeat"}


class Thing:
    def __init__(self, *args, **options):
        self.args = args

    def __call__(self, *args, **options):
        return 1


async def coroutine(*args):
    return 1


def generator():
    yield 1


def shapes():
    return [
        (), (1,), (-1,), (2.5,), ("a",), ("a/b",), ("../x",), ("",), (b"ab",), ([3, 1, 2],), ({"a": 1},), (None,),
        ("a", "b"), ("a", 1), (1, 2), ([1, 2], [3]), (b"a", b"b"), (len,), (len, [1, "a"]), (Thing,), (Thing(),),
        (generator(),), (coroutine(),), (ValueError("x"),), ("%Y", None), ("{}",), (io.StringIO("a,b"),),
        (io.BytesIO(b"x"),), (datetime.date(2024, 1, 2),), ("Europe/Berlin",), ("nonsense/zone",), (10**30,),
        ("utf-8",), ("no-such-codec",), (1, 2, 3), ("a", ["x", "y"]), (True,), (Thing, "a"),
    ]  # fmt: skip


def sweep(names):
    calls = 0
    for module in MODULES:
        for name in dir(module):
            if name in SKIPPED:
                continue
            try:
                value = getattr(module, name)
            except Exception:
                continue
            if not callable(value) or (names is not None and name not in names):
                continue
            for args in shapes():
                calls += 1
                try:
                    made = value(*args)
                    repr(made)
                    if callable(made) and calls % 3 == 0:
                        made(1)
                except Exception:
                    pass
    return calls


async def inside(ctx, inputs):
    return sweep(None)


def run(ctx, inputs):
    outside = sweep(None)
    return [outside, asyncio.run(inside(ctx, inputs))]
