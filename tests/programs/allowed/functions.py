import contextlib
import functools
import itertools
import operator
import re
import time
import traceback
from contextlib import ContextDecorator, ExitStack, closing, contextmanager, nullcontext, suppress
from functools import cache, cached_property, lru_cache, partial, reduce, singledispatch, wraps
from io import StringIO


def timed(function):
    @wraps(function)
    def wrapper(*args, **kwargs):
        """inner"""
        wrapper.calls += 1
        return function(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


def retry(times=3, errors=(ValueError,)):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            last = None
            for attempt in range(times):
                try:
                    return function(*args, attempt=attempt, **kwargs)
                except errors as error:
                    last = error
            raise last

        return wrapper

    return decorator


@timed
def add(a, b=2, /, *args, c: int = 3, **kw) -> int:
    """Adds."""
    return a + b + c + sum(args) + sum(kw.values())


@retry(times=3)
def flaky(attempt):
    if attempt < 2:
        raise ValueError(attempt)
    return attempt


@lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@singledispatch
def show(x):
    return "object"


@show.register(int)
def _(x):
    return "int"


@show.register
def _show_list(x: list):
    return "list"


@contextmanager
def managed(log, name):
    log.append("enter " + name)
    try:
        yield name
    except KeyError as error:
        log.append(f"caught {error}")
    finally:
        log.append("exit " + name)


class Deco(ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, kind, error, tb):
        return kind is ZeroDivisionError and tb is not None


class Lazy:
    calls = 0

    @cached_property
    def value(self):
        Lazy.calls += 1
        return 42

    @cached_property
    def _private(self):
        return "p"

    @staticmethod
    def st(x):
        return x

    @classmethod
    def cl(cls):
        return cls.__name__


class ParseError(Exception):
    def __init__(self, message, line=0):
        super().__init__(message)
        self.line = line
        self._extra = "e"

    def __str__(self):
        return f"{super().__str__()} at {self.line}"


def gen():
    received = yield 1
    while received is not None:
        received = yield received * 2
    return "done"


def outer():
    result = yield from gen()
    yield result


def countdown(n):
    while n:
        yield n
        n -= 1


class Evens:
    def __init__(self, n):
        self._n = n
        self._i = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self._i >= self._n:
            raise StopIteration
        self._i += 2
        return self._i


GLOBAL = [1]
_counter = 0


def bump():
    global _counter
    _counter += 1
    return _counter


def make():
    total = 0

    def inc(by=1):
        nonlocal total
        total += by
        return total

    return inc


def tries(function, *args, **options):
    try:
        return function(*args, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run(ctx, inputs):
    out = []
    out += [add(1), add(1, 1, 1, c=1, z=5), add.__name__, add.__doc__, add.calls, add.__qualname__, flaky(), fib(50)]
    out += [fib.cache_info(), show(1), show([]), show("s"), partial(max, 3)(2), reduce(operator.add, [1, 2, 3])]
    log = []
    with managed(log, "a") as name, suppress(ZeroDivisionError):
        log.append(name)
        1 / 0
    with managed(log, "b"):
        raise KeyError("k")
    with ExitStack() as stack:
        stack.enter_context(managed(log, "c"))
        stack.callback(log.append, "cb")
    with Deco():
        1 / 0
    with nullcontext(5) as five, closing(StringIO("x")) as s:
        out += [five, s.read()]
    out += [log]
    z = Lazy()
    out += [z.value, z.value, Lazy.calls, z._private, Lazy.st(1), z.cl()]
    try:
        try:
            raise ParseError("bad", line=3)
        except ParseError as error:
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        out += [str(error), repr(error.__cause__), error.__cause__.line, error.__cause__._extra, type(error.__cause__).__name__, error.args]
    g = gen()
    out += [next(g), g.send(5), tries(g.throw, ValueError("x")), list(outer())[:1]]
    it = countdown(3)
    out += [next(it), list(it), list(Evens(6)), [*Evens(4)], sum(x for x in Evens(4))]
    out += [bump(), bump(), _counter]
    inc = make()
    out += [inc(), inc(5), [f(2) for f in [lambda x, _y=i: x * _y for i in range(3)]]]
    out += [[(a, b) for a in range(3) for b in range(a) if a != b], {k: v for k, v in zip("ab", [1, 2])}, {x % 2 for x in range(5)}]
    out += [any(x > 2 for x in [1, 3]), [y := 5, y**2], (lambda *a, **k: (a, k))(1, *[2, 3], x=1, **{"y": 2})]
    a, (b, *c), d = 1, (2, 3, 4), 5
    a, b = b, a
    out += [a, b, c, d]
    m = [[1, 2], [3, 4]]
    m[0][1] += 10
    m[1:] = [[9]]
    out += [m, list(zip(*[[1, 2], [3, 4]]))]
    s = "a-b_c"
    out += [re.sub(r"[-_](\w)", lambda mt: mt.group(1).upper(), s), re.findall(r"\w", s), re.match(r"(?P<x>.)", s).groupdict(), f"{s!r:>10}|{3.14159:.2f}|{1000:,}|{s=}"]
    out += [list(itertools.groupby("aab", key=None).__next__()[1]), sorted("bca", reverse=True), list(map(operator.itemgetter(0), [(1, 2)])), operator.attrgetter("line")(ParseError("x", 4))]
    out += [operator.methodcaller("upper")("x"), list(filter(None, [0, 1])), tries(int, "x"), tries(lambda: [][1]), tries(lambda: {}["k"])]
    out += [tries(lambda: None.foo), tries(lambda: undefined_name), tries(add), dict(a=1, **{"b": 2}), print("x", 1, sep="-", end="!\n")]
    buffer = StringIO()
    print("to buffer", file=buffer)
    with contextlib.redirect_stdout(buffer):
        print("redirected")
    out += [buffer.getvalue(), sorted(k for k in globals() if k.isupper())]
    for i in range(3):
        if i == 5:
            break
    else:
        out.append("no break")
    while True:
        try:
            break
        finally:
            out.append("finally")
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except ExceptionGroup as group:
        out += [len(group.exceptions), str(group)]
    try:
        assert 1 == 2, "msg"
    except AssertionError as error:
        out.append(str(error))
    try:
        raise ValueError("traced")
    except ValueError:
        out.append(traceback.format_exc().splitlines()[-1])
    del a
    out.append("a" in locals())
    return [repr(x) for x in out if "function <lambda>" not in repr(x)]
