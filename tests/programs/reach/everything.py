import asyncio, json, logging, warnings, traceback, contextlib, dataclasses, enum, typing, collections, functools, copy, random, inspect, sys, datetime, io, re, time, string, itertools, pathlib, abc, types, calendar, decimal, uuid, hashlib, csv, statistics, ipaddress, fractions, textwrap, pprint, urllib.parse, zoneinfo, operator, struct, hmac, html, graphlib, difflib, reprlib, numbers, heapq, zlib, shlex, ast, array, base64, binascii, bisect, cmath, fnmatch, keyword, math, os, secrets, unicodedata, bz2, codecs, configparser, contextvars, gzip, http, lzma, mimetypes, queue, tomllib, weakref, xml.etree.ElementTree, threading, concurrent.futures
ALL = [asyncio, json, logging, warnings, traceback, contextlib, dataclasses, enum, typing, collections, functools, copy, random, inspect, sys, datetime, io, re, time, string, itertools, pathlib, abc, types, calendar, decimal, uuid, hashlib, csv, statistics, ipaddress, fractions, textwrap, pprint, urllib.parse, zoneinfo, operator, struct, hmac, html, graphlib, difflib, reprlib, numbers, heapq, zlib, shlex, ast, array, base64, binascii, bisect, cmath, fnmatch, keyword, math, os, os.path, secrets, unicodedata, bz2, codecs, configparser, contextvars, gzip, http, lzma, mimetypes, queue, tomllib, weakref, xml.etree.ElementTree, threading, concurrent.futures]

class Spy:
    def __init__(self): self.got = []
    def __eq__(self, other): self.got.append(other); return True
    def __getattr__(self, name): self.got.append(name); raise AttributeError(name)
    def __format__(self, spec): self.got.append(spec); return ""
    def __enter__(self): return self
    def __exit__(self, *a): self.got.append(a); return True
    def __set_name__(self, owner, name): self.owner = owner
    def __get__(self, obj, owner=None): return self
    def __call__(self, *a, **k): return (a, k)
    __hash__ = None

class Setter:
    got = []
    def __setattr__(self, name, value): self.got.append((name, value)); object.__setattr__(self, name[:1] + "x", value)

def with_methods(cls):
    original = cls.__format__
    def __str__(self): return original(self, "")
    def __len__(self, *a): return len(a)
    cls.__str__, cls.__len__ = __str__, __len__
    wrapped = functools.update_wrapper(Setter(), functools.wraps(gen)(contextlib.contextmanager(gen)))
    return [wrapped, wrapped.got, cls, original, cls.__str__, cls().__len__, getattr(cls, "__eq__"), __str__]

async def agen():
    yield 1
def gen():
    yield 1

async def run(ctx, inputs):
    held = [*with_methods(Spy), ctx, ctx.t, ctx.ns, ctx.tools, ctx.budget]
    loop_task = asyncio.current_task()
    a = ctx.t(x=1)
    held += [a, await a]
    try:
        await ctx.t(2)
        await ctx.t(3)
    except ToolError as e:
        held.append(e)
    async with asyncio.TaskGroup() as tg:
        t1 = tg.create_task(asyncio.sleep(0))
    held += [tg, t1, loop_task, asyncio.Queue(), asyncio.Lock(), asyncio.Event(), asyncio.Semaphore()]
    async with asyncio.timeout(5) as tm: held.append(tm)
    held += [gen(), agen(), run, Spy, Spy()]
    loop = asyncio.get_running_loop()
    held += [loop, loop.time(), loop.create_future(), loop.create_task(asyncio.sleep(0))]
    held += [loop.call_soon(gen), loop.call_later(1, gen), loop.call_at(1, gen)]
    held += [asyncio.get_event_loop(), asyncio.new_event_loop(), asyncio.Runner(), asyncio.all_tasks()]
    try: loop.run_until_complete(loop_task)
    except RuntimeError as e: held.append(e)
    class Mine(threading.Thread):
        def run(self): self.seen = [threading.current_thread(), threading.enumerate(), ctx.t(x=5)]
    mine, mapped = Mine(), queue.Queue()
    mine.start(); mine.join(); mapped.put(mine)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        futures = [pool.submit(lambda: held[0].t(x=6)), pool.submit(int, "x")]
        held += [pool, *futures, *concurrent.futures.wait(futures), *concurrent.futures.as_completed(futures)]
    try: threading.Event().wait()
    except RuntimeError as e: held.append(e)
    lock, cond = threading.RLock(), threading.Condition()
    with lock, cond: held += [lock, cond, threading.local(), mine, mapped]
    held += [await asyncio.to_thread(threading.current_thread), await loop.run_in_executor(None, gen)]
    for m in ALL:
        for n in dir(m):
            try: v = getattr(m, n)
            except BaseException as e: held.append(e); continue
            held.append(v)
            for args in ((), (1,), ("x",), (Spy(),), (ctx,), (held,), (gen,)):
                if callable(v) and n not in ("run", "wait", "exit", "wait_for", "gather", "ensure_future", "shield", "as_completed", "Barrier","setrecursionlimit","relpath", "sleep"):
                    try:
                        r = v(*args)
                        held.append(r)
                    except BaseException as e:
                        held.append(e)
    tree = ast.parse("def f(a, *, b=1): return [x.y for x in a if f(b)]")
    held += [tree, *ast.walk(tree), ast.NodeVisitor(), ast.NodeTransformer(), copy.deepcopy(tree)]
    parser = configparser.ConfigParser(converters={"x": str}); parser.read_string("[a]\nb = 1")
    held += [parser, parser["a"], parser["a"].getx, parser.getx, parser.converters]
    root = xml.etree.ElementTree.fromstring("<a b='1'>c<d/></a>")
    held += [root, root.iter(), root.iterfind(".//d"), xml.etree.ElementTree.ElementTree(root), xml.etree.ElementTree.XMLParser()]
    var = contextvars.ContextVar("var", default=held)
    held += [var, var.set(1), var.get()]
    thing = Spy(); weak = weakref.WeakValueDictionary(a=thing); keyed = weakref.WeakKeyDictionary(); keyed[gen] = thing
    held += [weakref.ref(thing), weakref.ref(run), weak, keyed, weakref.WeakSet([thing, gen]), weak.valuerefs(), keyed.keyrefs()]
    held += [codecs.lookup("utf-8"), codecs.getincrementaldecoder("gbk")(), codecs.getincrementalencoder("utf-16")(), codecs.iterdecode([b"a"], "utf-8")]
    for bad in (lambda: ast.parse("("), lambda: xml.etree.ElementTree.fromstring("<"), lambda: queue.Queue().get(), lambda: parser.read("x"), lambda: parser["z"], lambda: xml.etree.ElementTree.parse("x"), lambda: gzip.decompress(b"x"), lambda: tomllib.loads("=")):
        try: bad()
        except BaseException as e: held += [e]
    log = logging.getLogger("x"); h = logging.StreamHandler(); held += [log, h, logging.root]
    with warnings.catch_warnings(record=True) as w: warnings.warn("x"); held.append(w)
    for bad in (lambda: ctx.nope, lambda: json.loads("{"), lambda: int("x"), lambda: [][1], lambda: ctx.call(3), lambda: (1).foo, lambda: getattr(gen(), "gi_frame"), lambda: {}["x"]):
        try: bad()
        except BaseException as e: held += [e]
    @contextlib.contextmanager
    def cm(): yield 1
    held.append(cm())
    @dataclasses.dataclass(slots=True)
    class D: x: int = 1
    held += [D, D(), dataclasses.fields(D)]
    NT = collections.namedtuple("NT", "a b", defaults=[1]); held += [NT, NT(1)]
    class E(enum.Enum): A = 1
    held += [E, E.A, E.__members__]
    class P(typing.Protocol):
        def m(self): ...
    held += [P, abc.ABC]
    return 1
