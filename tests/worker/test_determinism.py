"""The same script with the same messages gives the same bytes, in another process.

A run is recorded at the worker's socket: each frame the host sent, how many bytes the worker had
said by then, and every byte it said. The frames are then fed to a worker of another zygote, whose
addresses, process number and clock differ, each as soon as the worker has said as much as it had
when the host sent it. What the worker says must be what was recorded, byte for byte.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Limits, Session, ToolError, tool
from ptc._wire._protocol import Decoder, Kind
from ptc._workers._pool import Pool
from ptc._workers._process import ProcessWorker
from tests.core.pools import pool_of

pytestmark = pytest.mark.anyio

PROGRAMS = Path(__file__).parent.parent / "programs"
PATIENCE_S = 20.0
MEMORY_BYTES = 256 << 20


@pytest.fixture
def anyio_backend() -> str:
    """The host's event loop makes no difference to a worker."""
    return "asyncio"


@tool
async def after(ms: int) -> int:
    """Answer after some milliseconds."""
    await anyio.sleep(ms / 1000)
    return ms


@tool
async def echo(x: int | str | dict[str, object] | None = None) -> object:
    """Answer at once."""
    return x


@tool
async def fails(text: str) -> None:
    """Fail."""
    raise ToolError(text, code="no_luck")


@tool
async def rows(n: int) -> list[dict[str, object]]:
    """Give rows of data."""
    return [{"id": i, "kind": ["a", "b", None][i % 3], "name": f"row {i}"} for i in range(n)]


TOOLS = (after, echo, fails, rows)


# --- recording and replay ---------------------------------------------------------------------


@dataclass
class Tape:
    """Traffic of one worker's socket."""

    sent: list[tuple[int, Kind, bytes]] = field(default_factory=list)
    """Bytes the worker had said, and the frame the host sent then."""
    said: bytearray = field(default_factory=bytearray)
    heard: anyio.Event = field(default_factory=anyio.Event)


class Tap(Decoder):
    """Keeps what it decodes."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def feed(self, data: bytes) -> Iterable[tuple[Kind, bytes]]:
        """As `Decoder.feed`."""
        self.tape.said += data
        self.tape.heard.set()
        self.tape.heard = anyio.Event()
        return super().feed(data)


class TapedWorker(ProcessWorker):
    """A worker whose socket is recorded."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.tape = Tape()
        self._decoder = Tap(self.tape)

    def send(self, *frames: tuple[Kind, bytes], more: bool = False) -> bool:
        """As `Worker.send`."""
        for kind, body in frames:
            self.tape.sent.append((len(self.tape.said), kind, body))
        return super().send(*frames, more=more)


async def record(
    sources: list[str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, Tape]]:
    """Run programs; the outcome of each and its tape."""
    taped: list[TapedWorker] = []

    class Noted(TapedWorker):
        def send(self, *frames: tuple[Kind, bytes], more: bool = False) -> bool:
            if frames and frames[0][0] is Kind.START:
                taped.append(self)
            return super().send(*frames, more=more)

    found = []
    monkeypatch.setattr("ptc._workers._pool.ProcessWorker", Noted)
    limits = Limits(timeout_ms=20_000, max_memory_bytes=MEMORY_BYTES)
    async with Session(root, tools=TOOLS, toolsets=(), workers=2, limits=limits) as session:
        for source in sources:
            result = await session.program(source=source, inputs={"n": 3, "words": ["x", "y"]})
            error = f" {result.error.type}: {result.error.message}" if result.error else ""
            found.append((f"{result.status}{error}", taped.pop().tape))
    return found


async def replay(tape: Tape, pool: Pool) -> bytes:
    """Feed the host's frames of `tape` to a fresh worker; what it said."""
    worker = await pool.acquire(MEMORY_BYTES)
    assert isinstance(worker, TapedWorker)
    worker.on_frame = lambda _kind, _message, _size: None
    ended = anyio.Event()
    worker.on_end = ended.set
    mine = worker.tape
    try:
        with anyio.move_on_after(PATIENCE_S):
            for before, kind, body in tape.sent:
                while len(mine.said) < before and not worker.eof:
                    await mine.heard.wait()
                if not tape.said.startswith(mine.said):
                    break
                worker.send((kind, body))
            await ended.wait()
    finally:
        worker.hang_up()
    return bytes(mine.said)


async def find_differences(
    programs: dict[str, str], root: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, str], dict[str, tuple[bytes, bytes]]]:
    """Return the outcome of each program, and both streams of those whose replay differs."""
    taped = await record(list(programs.values()), root, monkeypatch)
    monkeypatch.setattr("ptc._workers._pool.ProcessWorker", TapedWorker)
    pool = Pool(isolation="jail", size=2, memory_bytes=MEMORY_BYTES, cpu_ms=20_000)
    differ = {}
    try:
        for name, (_, tape) in zip(programs, taped, strict=True):
            again = await replay(tape, pool)
            if again != bytes(tape.said):
                differ[name] = (bytes(tape.said), again)
    finally:
        await pool.close()
    return {name: how for name, (how, _) in zip(programs, taped, strict=True)}, differ


# --- programs ---------------------------------------------------------------------------------


def as_run(row: dict[str, Any]) -> str:
    """An idiom as a script."""
    if row["kind"] == "sync":
        return f"{row['code']}\ndef run(ctx, inputs):\n    return repr(result)\n"
    body = textwrap.indent(row["code"], "    ")
    tool = "    async def tool(x=None): return await ctx.echo(x)\n"
    return f"async def run(ctx, inputs):\n{tool}{body}\n    return repr(result)\n"


CORPUS = {
    **{path.name: path.read_text() for path in sorted((PROGRAMS / "allowed").glob("*.py"))},
    **{
        row["name"]: as_run(row)
        for row in map(json.loads, (PROGRAMS / "idioms.jsonl").read_text().splitlines())
    },
}

SHAPES = """
class Plain:
    pass
class Slot:
    __slots__ = ()
def function(): pass
"""
TASKS = {
    "gather": """
import asyncio, random
async def run(ctx, inputs):
    order = []
    async def one(n):
        await ctx.after(n)
        order.append((n, random.random()))
        return await ctx.echo(n * 2)
    values = await asyncio.gather(*(one(n) for n in (9, 1, 5, 1, 0)))
    return [order, values]
""",
    "race": """
import asyncio
async def run(ctx, inputs):
    log = []
    async def racer(name, ms):
        try:
            await ctx.after(ms)
            log.append(name)
            return name
        except asyncio.CancelledError:
            log.append("cancelled " + name)
            raise
    tasks = [asyncio.create_task(racer(f"r{i}", 2 + i % 3)) for i in range(12)]
    while True:
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        log.append([t.result() for t in done])
        if len(log) > 8:
            break
        tasks = pending
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return log
""",
    "set of tasks": """
import asyncio
async def run(ctx, inputs):
    async def work(n):
        await asyncio.sleep(0.001 * (n % 2))
        return n
    tasks = {asyncio.create_task(work(n)) for n in range(16)}
    seen = [t.get_name() for t in tasks]
    calls = {ctx.echo(n) for n in range(12)}
    out = []
    for call in calls:
        out.append(await call)
    done, _ = await asyncio.wait(tasks)
    both = {asyncio.gather(work(1)), asyncio.shield(work(2)), asyncio.ensure_future(work(3))}
    return [seen, out, [t.result() for t in done], [await f for f in both], list(map(repr, done))]
""",
    "as_completed": """
import asyncio
async def run(ctx, inputs):
    out = []
    for first in asyncio.as_completed([ctx.after(n % 4) for n in range(20)]):
        out.append(await first)
    for first in asyncio.as_completed([echo(ctx, n) for n in range(30)]):
        out.append(await first)
    for first in asyncio.as_completed({asyncio.create_task(asyncio.sleep(0, n)) for n in range(9)}):
        out.append(await first)
    return out
async def echo(ctx, n):
    return await ctx.echo(n)
""",
    "cancelled calls": """
import asyncio
async def run(ctx, inputs):
    out = []
    call = ctx.after(10_000)
    call.cancel()
    try:
        await call
    except asyncio.CancelledError:
        out.append("cancelled")
    try:
        await asyncio.wait_for(ctx.after(10_000), 0.01)
    except TimeoutError:
        out.append("timeout")
    try:
        async with asyncio.timeout(0.005):
            await asyncio.gather(*(ctx.after(n) for n in (1, 10_000, 9_000)))
    except TimeoutError:
        out.append("timeout of three")
    try:
        async with asyncio.TaskGroup() as group:
            for n in range(6):
                group.create_task(later(ctx, n, out))
    except ExceptionGroup as g:
        out.append(repr(g))
    return out
async def later(ctx, n, out):
    try:
        await ctx.after(5_000 if n != 3 else 2)
        raise ValueError(n)
    except asyncio.CancelledError:
        out.append(["stopped", n])
        raise
""",
    "left behind": """
import asyncio
async def run(ctx, inputs):
    async def forever(n):
        try:
            await asyncio.Event().wait()
        finally:
            print("ended", n)
    for n in range(10):
        asyncio.create_task(forever(n))
    for n in range(5):
        ctx.after(n)
    await asyncio.sleep(0)
    return "done"
""",
    "streams": """
import asyncio
async def run(ctx, inputs):
    queue, seen = asyncio.Queue(3), []
    async def put(n):
        for i in range(4):
            await ctx.after((n * i) % 3)
            await queue.put((n, i))
    async def take():
        while True:
            seen.append(await queue.get())
            queue.task_done()
            if len(seen) == 12:
                return
    await asyncio.gather(take(), *(put(n) for n in range(3)))
    ctx.emit(seen)
    lock, gate = asyncio.Lock(), asyncio.Semaphore(2)
    order = []
    async def enter(n):
        async with gate, lock:
            await ctx.after(n % 2)
            order.append(n)
    await asyncio.gather(*map(enter, range(8)))
    return [seen, order]
""",
    "generators": """
import asyncio
async def run(ctx, inputs):
    out = []
    async def numbers(n):
        try:
            for i in range(n):
                yield await ctx.echo(i)
        finally:
            out.append("closed")
    async for n in numbers(5):
        out.append(n)
        if n == 2:
            break
    def plain():
        try:
            yield 1
        finally:
            out.append("plain closed")
    for _ in plain():
        break
    out.append([n async for n in numbers(3)])
    return out
""",
    "many calls": """
import asyncio
async def run(ctx, inputs):
    seen = []
    async def chain(n):
        for i in range(6):
            seen.append([n, i, await ctx.echo({"n": n, "i": i, "pad": "x" * (n * 977)})])
    await asyncio.gather(*(chain(n) for n in range(16)))
    return [[n, i] for n, i, _ in seen]
""",
}
CHANCE = {
    "clocks": """
import asyncio, time, datetime, random, uuid, secrets
def stamp():
    return [time.time(), time.monotonic(), time.perf_counter_ns(), time.time_ns(),
            datetime.datetime.now().isoformat(), str(datetime.datetime.now(datetime.UTC)),
            str(datetime.date.today()), time.strftime("%H:%M:%S"), time.ctime(),
            time.process_time()]
async def run(ctx, inputs):
    out = [stamp()]
    for ms in (0, 3, 7):
        await ctx.after(ms)
        out.append(stamp())
    await asyncio.sleep(0.002)
    out.append(stamp())
    print(out)
    return out
""",
    "randomness": """
import random, uuid, secrets, hashlib
def run(ctx, inputs):
    items = list(range(20))
    random.shuffle(items)
    return [random.random(), random.randint(1, 10**9), random.choice(items), items,
            random.sample(items, 3), random.gauss(0, 1), str(uuid.uuid4()), str(uuid.uuid4()),
            secrets.token_hex(8), secrets.randbelow(10**9), random.Random().random(),
            random.Random(5).random(), random.randbytes(4).hex(), str(random.getstate())[:200]]
""",
    "hashes of text": """
def run(ctx, inputs):
    words = {w * n for w in ("alpha", "beta", "x") for n in range(9)}
    return [list(words), hash("text"), hash(("a", 1)), hash(b"bytes"), hash(2.5),
            hash(frozenset(words)), repr({1.5, 10**20, (1, "a"), b"q", "z", True})]
""",
    "blocking": """
import time
def run(ctx, inputs):
    out = [ctx.after(n) for n in (2, 0, 1)]
    time.sleep(0.003)
    out.append(time.time())
    try:
        ctx.fails("x")
    except ToolError as error:
        out.append(repr(error))
    return [out, dir(ctx), repr(ctx), inputs]
""",
}
IDENTITY = {
    "reprs of formats and references": """
import ast, bz2, codecs, configparser, contextvars, gzip, lzma, mimetypes, queue, tomllib, weakref
import xml.etree.ElementTree as ET
class Node:
    pass
def run(ctx, inputs):
    node, var = Node(), contextvars.ContextVar("var", default=[1])
    token = var.set(2)
    things = [ast.parse("x"), ast.Name, ast.NodeVisitor(), bz2.BZ2Compressor(), var, token,
        lzma.LZMADecompressor(), codecs.lookup("utf-8"), codecs.getincrementaldecoder("gbk")(),
        configparser.ConfigParser(), queue.Queue(), queue.PriorityQueue(), ET.Element("a"),
        ET.ElementTree(), ET.XMLParser(), ET.Comment("x"), ET.QName("a", "b"), weakref.ref(node),
        weakref.WeakSet([node]), weakref.WeakValueDictionary(a=node), weakref.WeakKeyDictionary(),
        mimetypes.guess_type, gzip.compress(b"x" * 9).hex(), ET.Element("a").iter()]
    shown = [repr(thing) for thing in things]
    var.reset(token)
    elements = {ET.Element(str(n)) for n in range(50)}
    gone = weakref.ref(Node())
    return [shown, repr(token), repr(gone), [e.tag for e in elements], id(things[0]) > 0]
""",
    "reprs of the library": """
import array, asyncio, contextlib, csv, decimal, difflib, functools, hashlib, hmac, io, json, re
import itertools, logging, pprint, random, reprlib, string, struct, sys, textwrap, types, typing
import zlib
class Bad:
    def __repr__(self):
        raise ValueError
def run(ctx, inputs):
    ring = []
    ring.append(ring)
    things = [
        hashlib.sha256(), hashlib.md5(), hashlib.blake2b(), hashlib.sha3_256(),
        hashlib.shake_128(),
        hashlib.new("sha1"), hmac.new(b"", b"", "md5"), zlib.compressobj(), io.StringIO(),
        csv.reader([]),
        struct.Struct("b"), random.Random(), json.JSONEncoder(), itertools.count(), iter([]), zip(),
        textwrap.TextWrapper(), difflib.SequenceMatcher(), functools.partial(run), "".format,
        functools.lru_cache(run), array.array("b"), logging.getLogger("x"), sys.stdout, ctx,
        contextlib.ExitStack(), decimal.getcontext(), string.Template("x"), print, run,
        re.compile("a").scanner("a"),
        types.MethodType(run, ring), (x for x in ()), dict.fromkeys, [].append, property(),
        typing.TypeVar("T"), contextlib.contextmanager(run), asyncio.Queue(), asyncio.Lock(),
        functools.cached_property(run),
    ]
    return [*map(repr, things), pprint.pformat(ring), reprlib.repr(Bad()), pprint.saferepr(ring)]
""",
    "hashes of none": """
def run(ctx, inputs):
    rows = [ctx.rows(n) for n in (3, 4)]
    kinds = {row["kind"] for part in rows for row in part}
    mixed = {None, "a", 1, 2.5, (None, "b"), (1, None), Ellipsis, b"x"}
    return [list(kinds), repr(mixed), hash(None), repr(frozenset([None, "k", "v", 3]))]
""",
    "identity": SHAPES
    + """

def run(ctx, inputs):
    one, two = Plain(), Plain()
    return [id(one) == id(one), id(one) != id(two), id(one), id(two), id(None), id("text"), id([]),
            hash(one) == hash(one)]
""",
    "addresses": SHAPES
    + """
import asyncio, functools, itertools, re, json, collections, traceback, contextlib, random

class Named:
    def method(self): pass
    def __repr__(self): return super().__repr__()
async def coroutine(): pass
async def agen(): yield 1
def gen(): yield 1
async def run(ctx, inputs):
    task = asyncio.create_task(asyncio.sleep(0))
    c = coroutine()
    things = [Plain(), Slot(), function, Named().method, gen(), (x for x in ()), lambda: 0, agen(),
        iter([]), iter({}), iter("a"), zip(), map(len, ()), filter(None, ()), enumerate(()),
        re.finditer("a", ""), len, [].append, functools.partial(function, Plain()), c,
        itertools.count(), itertools.chain(), object(), property(), staticmethod(function),
        classmethod(function), super(Named, Named()), random.Random(1), asyncio.Lock(),
        asyncio.Event(), asyncio.Queue(), asyncio.Semaphore(2), asyncio.Condition(), task,
        ctx, ctx.echo, ctx.call, contextlib.nullcontext(), contextlib.ExitStack(), json.loads,
        collections.UserDict, json.JSONEncoder(), functools.cache(function), type(c), c.__await__(),
        functools.partial(function), ValueError(Plain()), {"k": Plain()}, Plain, iter(range(3)),
        reversed([1]), memo(function), asyncio.gather(task), json, asyncio, range(3).__iter__()]
    out = []
    for at, thing in enumerate(things):
        for show in (repr, str, "{!r}".format, "{}".format, lambda t: f"{t!r} {t!s:>5}",
                     lambda t: "%s %r" % (t, t), ascii, format):
            try:
                out.append(show(thing))
            except Exception as error:
                out.append(f"{error}")
        print(thing)
        ctx.log(thing)
    c.close()
    return out
def memo(f):
    @functools.wraps(f)
    def inner(*a): return f(*a)
    return inner
""",
    "memo of a deep copy": """
import copy

class Node:
    def __deepcopy__(self, memo):
        made = Node()
        made.seen = [sorted(memo), copy.deepcopy([1], memo), sorted(memo)]
        return made
def run(ctx, inputs):
    memo = {}
    copy.deepcopy([[1], {"a": (Node(), [2])}], memo)
    return [sorted(memo), copy.deepcopy([Node()])[0].seen]
""",
    "sets of objects": SHAPES
    + """
import dataclasses, enum

class Node:
    def __init__(self, name): self.name = name
@dataclasses.dataclass(eq=False)
class Record:
    name: str
@dataclasses.dataclass(frozen=True)
class Frozen:
    name: str
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    GREEN = 3
class Oops(Exception): pass
def run(ctx, inputs):
    nodes = {Node(f"n{i}") for i in range(20)}
    records = {Record(f"r{i}") for i in range(20)}
    frozen = {Frozen(f"f{i}") for i in range(20)}
    return [[n.name for n in nodes], [r.name for r in records], [f.name for f in frozen],
            [c.name for c in {Color.RED, Color.BLUE, Color.GREEN}]]
""",
}
ENDS = {
    "errors": """
import traceback
async def run(ctx, inputs):
    out = []
    for text in ("one", "two"):
        try:
            await ctx.fails(text)
        except ToolError as error:
            out.append([str(error), error.code, traceback.format_exc()])
    try:
        {}[object]
    except KeyError:
        out.append(traceback.format_exc())
    raise ValueError(out)
""",
    "an error with an object": SHAPES
    + """

def run(ctx, inputs):
    raise KeyError(Plain(), function, Slot, ctx, ctx.echo)
""",
    "out of memory": """
def run(ctx, inputs):
    held, n = [], 0
    try:
        while True:
            held.append(bytearray(10_000_000))
    except MemoryError:
        del held
    raise MemoryError("enough")
""",
    "too deep": """
def run(ctx, inputs):
    def down(n):
        return down(n + 1)
    return down(0)
""",
}


# --- the tests --------------------------------------------------------------------------------


@pytest.mark.slow
async def test_corpus_is_byte_identical_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, differ = await find_differences(CORPUS, tmp_path, monkeypatch)
    assert len(ended) > 60
    assert differ == {}


@pytest.mark.slow
async def test_programs_of_many_tasks_are_byte_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, differ = await find_differences(TASKS, tmp_path, monkeypatch)
    assert {name: how for name, how in ended.items() if how != "completed"} == {}
    assert differ == {}


async def test_programs_using_time_and_randomness_are_byte_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, differ = await find_differences(CHANCE, tmp_path, monkeypatch)
    assert set(ended.values()) == {"completed"}
    assert differ == {}


async def test_programs_using_object_identity_are_byte_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, differ = await find_differences(IDENTITY, tmp_path, monkeypatch)
    assert set(ended.values()) == {"completed"}
    assert differ == {}


async def test_programs_that_fail_are_byte_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, differ = await find_differences(ENDS, tmp_path, monkeypatch)
    assert "completed" not in ended.values()
    assert differ == {}


async def test_different_seed_is_detected_as_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A comparison that never fails would prove nothing.
    ((_, tape),) = await record([CHANCE["randomness"]], tmp_path, monkeypatch)
    (before, kind, body), *rest = tape.sent
    start = {**json.loads(body), "seed": 1}
    changed = Tape([(before, kind, json.dumps(start).encode()), *rest], tape.said)
    pool = Pool(isolation="jail", size=1, memory_bytes=MEMORY_BYTES, cpu_ms=20_000)
    monkeypatch.setattr("ptc._workers._pool.ProcessWorker", TapedWorker)
    try:
        assert await replay(tape, pool) == bytes(tape.said)
        assert await replay(changed, pool) != bytes(tape.said)
    finally:
        await pool.close()


TRACES = """
import asyncio

made, gone = [], []

def watch(box):
    try:
        yield
    finally:
        gone.append(len(made))

async def run(ctx, inputs):
    for n in range(30_000):
        box = []
        inside = watch(box)
        next(inside)
        box.append(inside)  # a cycle: only the collector finds it
        made.append(n)
    task = asyncio.create_task(asyncio.sleep(0))
    return [id(made), repr(object()), repr(task), len(gone), sorted(set(gone))]
"""


async def test_script_cannot_detect_a_rehearsed_worker(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=2) as session:
        await session.warm_up()
        with anyio.fail_after(PATIENCE_S):
            while pool_of(session).ready < pool_of(session).target:
                await anyio.sleep(0.001)
        rehearsed = (await session.program(source=TRACES)).unwrap()
        # A worker with a limit of its own is forked for its run and begins it at once.
        limits = Limits(max_memory_bytes=200 << 20)
        fresh = (await session.program(source=TRACES, limits=limits)).unwrap()
    assert rehearsed == fresh
    assert rehearsed[3] > 0, "the collector has not come"
