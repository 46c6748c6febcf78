"""Random programs of language features."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from random import Random

from tests.fuzz.plain_tables import (
    ATTEMPT,
    BINARY,
    ERRORS,
    FIELDS,
    MEMBERS,
    NAMED_USES,
    RAISING,
    SPECS,
    SUBCLASSES,
    USES_OF_CLASS,
    VALUES,
)

__all__ = ["Language"]


class Language:
    """Writes statements whose outcome is printed."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._number = 0
        self._forms: list[Callable[[], str]] = [
            self._operation, self._formatting, self._error, self._error, self._caught, self._chained, self._class,
            self._hierarchy, self._dataclass, self._enumeration, self._closure, self._generator, self._match, self._with,
            self._asynchronous, self._group, self._unpacking, self._comprehension, self._signature, self._copying,
            self._type_test, self._traceback, self._warning, self._logging, self._descriptor, self._subclass,
            self._functional, self._protocol, self._decorated, self._threads, self._reading, self._attributes, self._nested,
            self._named_class, self._generic,
        ]  # fmt: skip

    def statements(self, number: int) -> str:
        """Return a block of code for step `number`: a definition of `act_N`, and its call."""
        body = self._chance.choice(self._forms)()
        return f"def act_{number}():\n{_in(body)}\nstep({number}, act_{number})\n"

    def _v(self) -> str:
        return self._chance.choice(VALUES)

    def _pick(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _some(self, choices: list[str], most: int = 4) -> list[str]:
        return self._chance.sample(choices, self._chance.randint(1, min(most, len(choices))))

    def _operation(self) -> str:
        a, b = self._v(), self._v()
        if self._chance.random() < 0.2:
            op = self._pick("+=", "-=", "*=", "|=", "&=", "%=", "//=")
            return f"a = {a}¶b = a¶a {op} {b}¶return a, b, a is b"
        return f"return ({a}) {self._chance.choice(BINARY)} ({b})"

    def _formatting(self) -> str:
        v, spec = self._v(), self._chance.choice(SPECS)
        spec = spec.replace("{w}", "{w}")
        forms = [f"return format({v}, {spec!r})", f"w = 7¶return f'{{v:{spec}}}'" if spec != "!r" else "w = 7¶return f'{v!r:>12}'",
                 "w = 7¶return f'{v=} {v!s:>9}'", f"return '{{0!r:>20}}|{{k:{spec.replace('{w}', '5').replace('!r', '')}}}'.format(v, k={self._v()})",
                 f"return '%{self._pick('s', 'r', 'd', 'x', '5.2f', 'c', 'a', '-10s|', '+d', 'q', '(k)s')}' % {self._pick('v', '(v,)', '{chr(107): v}')}",
                 "return str(v), repr(v), ascii(v)", "return '{0.x} {0}'.format(v)", "return '{0[0]} {0}'.format(v)"]  # fmt: skip
        return f"v = {v}¶{self._chance.choice(forms)}"

    def _error(self) -> str:
        return f"return {self._chance.choice(RAISING)}"

    def _caught(self) -> str:
        raising = self._chance.choice(RAISING)
        kinds = ", ".join(self._some(ERRORS))
        return f"""found = []
try:
    try:
        found.append({raising})
    except ({kinds}) as error:
        found.append((type(error).__name__, str(error), repr(error)))
    else:
        found.append("else")
    finally:
        found.append("finally")
except Exception as error:
    found.append(error)
{self._pick("return found", "error", "return found, error", "return found + [1]")}"""

    def _chained(self) -> str:
        first, second = self._chance.choice(RAISING), self._chance.choice(RAISING)
        how = self._pick(f"raise Mine({self._v()}) from error", f"raise Mine({self._v()})", "raise", f"{second}",
                         "raise Mine from None", "raise ValueError(error)", "error.add_note('note'); raise",
                         "raise error.with_traceback(None)", f"raise {self._v()}")  # fmt: skip
        end = self._pick(
            "return error, error.__cause__, error.__context__, error.__suppress_context__",
            "return traceback.format_exc()", "return ''.join(traceback.format_exception(error))",
            "return traceback.format_exception_only(error)", "return [(e.lineno, e.name, e.line) for e in traceback.extract_tb(error.__traceback__)]",
            "return sys.exc_info()[0], sys.exc_info()[1], sys.exception()", "return vars(error), error.args",
            "return getattr(error, '__notes__', None)",
        )  # fmt: skip
        return f"""def inner(a):
    return {first}
try:
    try:
        inner(1)
    except {self._pick("Exception", "(ValueError, TypeError)", "LookupError")} as error:
        {how}
except Exception as error:
    {end}"""

    def _class(self) -> str:
        members = self._some(MEMBERS, 8)
        uses = self._some(USES_OF_CLASS, 5)
        lines = "\n".join(_in(each) for each in members)
        init = "    def __init__(self, x=1):¶        self.x = x¶        self._p = [x]¶        self.__q = x"
        attempts = "\n".join(f"attempt(lambda: {use})" for use in uses)
        return f"""class A{self._pick("", "(Plain)", "(dict)", "(list)", "(int)", "(str)", "(Exception)", "(ABC)", "(Generic[T])", "(deque)", "(Counter)")}:
{init if self._chance.random() < 0.7 else "    pass"}
{lines}
{ATTEMPT}
make = {self._pick("lambda: A()", "lambda: A(2)", "A", "lambda: A([1, 2])", "lambda: A(x=3)", "lambda: A('ab')")}
{attempts}
return found"""

    def _hierarchy(self) -> str:
        name = self._pick("f", "_f", "__f", "prop")
        return f"""order = []
class A:
    {self._pick("x = 1", "x: int = 1", "__slots__ = ()")}
    def {name}(self, *a): order.append("A"); return super().__repr__ and 1
    def __init_subclass__(cls, **options): order.append((cls.__name__, options)); super().__init_subclass__()
class B(A{self._pick("", ", tag=1")}):
    def {name}(self, *a): order.append("B"); return super().{name}(*a) if hasattr(super(), "{name}") else 0
class C(A):
    def {name}(self, *a): order.append("C"); return super().{name}(*a) if {self._pick("True", "False")} else 2
class D({self._pick("B, C", "C, B", "B", "A, B", "B, B", "C, object", "object, C")}):
    def call(self): return self.{name}()
try:
    order.append(D().call())
except Exception as error:
    order.append(error)
return order, {self._pick("D.__qualname__", "issubclass(D, A)", "[c.__name__ for c in (A, B, C) if issubclass(D, c)]", "sorted(n for n in dir(D) if not n.startswith('__'))", "vars(D())", "repr(D)", "str(D.call)", "isinstance(D(), (B, C))", "super(D, D()).__init__()")}"""

    def _dataclass(self) -> str:
        options = ", ".join(
            f"{name}={self._pick('True', 'False')}"
            for name in self._some(
                [
                    "order",
                    "frozen",
                    "eq",
                    "slots",
                    "kw_only",
                    "repr",
                    "unsafe_hash",
                    "init",
                    "match_args",
                ],
                3,
            )
        )
        fields = "¶    ".join(self._some(FIELDS, 4))
        return f"""{ATTEMPT}
@dataclass({options})
class D{self._pick("", "(Plain)", "(Data)", "(Frozen)", "(Generic[T])", "(Exception)", "(ABC)")}:
    {fields}
    {self._pick("", "def __post_init__(self, *a): found.append(a)", "def twice(self): return self.a * 2", "kind: ClassVar[int] = 5", "@property¶    def size(self): return 3", "def __hash__(self): return 1", "__match_args__ = ('a',)")}
attempt(lambda: D({self._pick("", "1", "1, 2", "a=1", "a=1, b=2", "1, b='b', c=[3]", "1, 2, 3, 4, 5")}))
attempt(lambda: D(1) {self._pick("==", "<", "!=", ">=")} D({self._pick("1", "2")}))
attempt(lambda: {self._pick("hash(D(1))", "asdict(D(1))", "astuple(D(1))", "replace(D(1), a=5)", "[(f.name, f.type, f.default, f.init, f.kw_only) for f in fields(D)]", "str(inspect.signature(D))", "setattr(D(1), 'a', 2)", "delattr(D(1), 'a')", "D(1).missing", "vars(D(1))", "copy.copy(D(1))", "copy.deepcopy(D(1))", "D.__match_args__", "D.__doc__", "D.a", "fields(D)[0]", "is_dataclass(D), is_dataclass(D(1))", "D.__annotations__", "repr(D)", "D(1) == Plain(1)", "sorted([D(2), D(1)])", "{D(1): 1}")})
return found"""

    def _enumeration(self) -> str:
        base = self._pick(
            "Enum", "IntEnum", "Flag", "IntFlag", "StrEnum", "str, Enum", "int, Enum", "Plain, Enum"
        )
        members = "¶    ".join(
            self._some(
                [
                    "A = 1",
                    "B = 2",
                    "C = auto()",
                    "D = 4",
                    "E = 'e'",
                    "F = A",
                    "G = auto()",
                    "H = (1, 2)",
                    "I = 3.5",
                    "J = A",
                ],
                5,
            )
        )
        uses = self._some(
            [
                "list(E)",
                "E(1)",
                "E['A']",
                "E.A",
                "E.A.value, E.A.name",
                "E(7)",
                "E.A | E.B",
                "E.A & E.B",
                "~E.A",
                "E.A < E.B",
                "E.A == 1",
                "hash(E.A) == hash('A')",
                "repr(E)",
                "str(E.A), f'{E.A}', f'{E.A:>5}'",
                "len(E)",
                "E.A in E",
                "1 in E",
                "'A' in E",
                "E.__members__",
                "isinstance(E.A, int)",
                "E.A.A",
                "E.A.missing",
                "E.missing",
                "E.A.value.x",
                "setattr(E, 'A', 2)",
                "delattr(E, 'A')",
                "E.extra",
                "E.A.extra()",
                "copy.deepcopy(E.A) is E.A",
                "reversed(E)",
                "json.dumps(E.A)",
                "E()",
                "E(1, 2)",
                "type(E.A).__name__",
                "E.A + 1",
                "sorted(E)",
                "E('A')",
                "{E.A: 1}",
                "E.A.name.lower()",
                "E(0)",
                "E(3)",
                "list(E(3))",
                "bool(E(0))",
                "E.A ^ 1",
                "E.A.__class__.__name__",
                "E.__doc__",
                "E.A.__doc__",
                "E.__name__, E.__qualname__",
                "E.A is E.F",
                "E.A._value_",
                "E._member_names_",
                "E.A is not None and E.A._name_",
            ],
            6,
        )
        attempts = "\n".join(f"attempt(lambda: {use})" for use in uses)
        return f"""{ATTEMPT}
{self._pick("", "@unique", "@verify(UNIQUE)", "@verify(CONTINUOUS)", "@verify(NAMED_FLAGS)")}
class E({base}{self._pick("", "", "", ", boundary=KEEP", ", boundary=STRICT")}):
    {members}
    {self._pick("", "def extra(self): return self.name", "@classmethod¶    def _missing_(cls, value): return None", "@classmethod¶    def _missing_(cls, value): raise KeyError(value)", "@staticmethod¶    def _generate_next_value_(name, start, count, last): return name.lower()", "def __str__(self): return 'S'", "@property¶    def extra(self): return 5", "def __init__(self, *a): self.args = a", "extra = nonmember(5)", "extra = member(5)", "_ignore_ = ['z']", "def __new__(cls, *a):¶        o = object.__new__(cls); o._value_ = a; return o")}
{attempts}
return found"""

    def _closure(self) -> str:
        return f"""log = []
count = {self._v()}
def outer(a, *args, key={self._v()}, **rest):
    {self._pick("nonlocal count", "global spare; spare = 1", "pass")}
    {self._pick("count = 1", "b = count", "log.append(count)", "del a", "count += 1")}
    def inner(b=a if {self._pick("True", "False")} else args):
        nonlocal a
        a = [b, key]
        return a, sorted(rest)
    return inner
try:
    f = outer({self._pick("1", "1, 2", "*[1, 2]", "1, z=2, y=3", "a=1, key=2", "1, **{'k': 1}", "1, a=2", "")})
    log.append(f())
    log.append(f({self._v()}))
    log.append((f.__name__, f.__qualname__, f.__defaults__, outer.__kwdefaults__))
except Exception as error:
    log.append(error)
functions = [lambda x, i=i: (x, i) for i in range(2)] + [lambda x: (x, i) for i in range(2)]
return log, [g(1) for g in functions], (y := len(log)) + y"""

    def _generator(self) -> str:
        steps = "¶    ".join(
            f"try: log.append({self._pick('next(g)', 'g.send(5)', 'g.send(None)', 'g.throw(ValueError(1))', 'g.throw(KeyError)', 'g.close()', 'list(g)', 'next(g, 7)')})¶    except Exception as error: log.append(error)"
            for _ in range(3)
        )
        return f"""log = []
def sub():
    try:
        got = yield 1
        log.append(got)
        {self._pick("yield got", "return 9", "raise Mine(2)", "yield from [5, 6]", "yield (yield 4)", "raise StopIteration(1)")}
    except {self._pick("ValueError", "KeyError", "Exception", "GeneratorExit")} as error:
        log.append(error)
        {self._pick("yield 8", "raise", "return 3", "pass", "raise RuntimeError from error")}
    finally:
        log.append("end")
def main():
    result = yield from sub()
    log.append(result)
    yield result
g = {self._pick("main()", "sub()", "(x * 2 for x in sub())", "iter(sub())")}
if True:
    {steps}
return log, {self._pick("repr(type(g))", "inspect.isgenerator(g)", "g.__name__", "list(g)", "isinstance(g, collections.abc.Generator)", "next(g, None)")}"""

    def _match(self) -> str:
        cases = self._some(
            [
                "case 1 | 2: r = 'number'",
                "case [x, *rest]: r = x, rest",
                "case {'k': v, **rest}: r = v, rest",
                "case Plain(x=y): r = y",
                "case Data(x, y): r = x, y",
                "case Pair(a, b): r = a, b",
                "case Colour.RED: r = 'red'",
                "case str() as s: r = s",
                "case int(n) if n > 0: r = n",
                "case (a, b): r = b",
                "case None | True: r = 'single'",
                "case Frozen(a=1): r = 'one'",
                "case Named(a, 2): r = a",
                "case float() | complex(): r = 'f'",
                "case -3: r = 'neg'",
                "case [1, [2, *_]]: r = 2",
                "case Plain(x, y): r = 5",
                "case collections.abc.Mapping(): r = 'm'",
                "case bytes(b): r = b",
                "case Slotted(x=1): r = 's'",
                "case type(): r = 'type'",
                "case Counter(): r = 'c'",
                "case SimpleNamespace(q=q): r = q",
                "case datetime(year=y): r = y",
                "case date(year=y, month=m): r = y, m",
            ],
            6,
        )
        lines = "¶    ".join(cases)
        return f"r = None¶match {self._v()}:¶    {lines}¶    case _: r = 'other'¶return r"

    def _with(self) -> str:
        managers = ", ".join(
            f"{each} as m{index}"
            for index, each in enumerate(
                self._some(
                    [
                        "manager(1)",
                        "manager(2)",
                        "suppress(ValueError)",
                        "suppress(Exception)",
                        "nullcontext(3)",
                        "closing(io.StringIO('x'))",
                        "ExitStack()",
                        "localcontext()",
                        "redirect_stdout(io.StringIO())",
                        "Manager()",
                        "warnings.catch_warnings(record=True)",
                        "threading.Lock()",
                        "1",
                        "Plain()",
                    ],
                    3,
                )
            )
        )
        return f"""log = []
@contextmanager
def manager(n):
    log.append(n)
    try:
        yield {self._pick("n", "log", "None")}
    {self._pick("except ValueError as error: log.append(error)", "finally: log.append('end')", "except KeyError: raise Mine(1)", "except Exception as error: log.append(error); raise")}
    {self._pick("", "log.append('after')", "yield 3")}
class Manager:
    def __enter__(self): log.append("enter"); return {self._pick("self", "1")}
    def __exit__(self, kind, value, trace): log.append((kind, value, trace is None)); return {self._pick("True", "False", "None", "1 / 0")}
try:
    with {managers}:
        log.append({self._pick("1", "m0", "type(m0).__name__")})
        {self._chance.choice(RAISING) if self._chance.random() < 0.6 else "pass"}
except Exception as error:
    log.append((error, error.__context__))
return log"""

    def _asynchronous(self) -> str:
        use = self._pick(
            "return await asyncio.gather(work(1), work(2), work(0))", "return await asyncio.gather(work(0), work(1), return_exceptions=True)",
            "return await asyncio.wait_for(work(1), 5)", "return await asyncio.wait_for(asyncio.sleep(50), 0.01)",
            "t = asyncio.create_task(work(1), name='T'); t.cancel(); await t", "t = asyncio.create_task(work(3), name='T'); return await t, t.done(), t.get_name(), t.cancelled(), t.exception()",
            "async with asyncio.TaskGroup() as g:¶        a = g.create_task(work(1)); b = g.create_task(work(2))¶    return a.result(), b.result()",
            "async with asyncio.TaskGroup() as g:¶        g.create_task(work(0)); g.create_task(work(1))",
            "return [x async for x in numbers()]", "return {x async for x in numbers() if x}", "async with cm() as v: return v",
            "async with asyncio.timeout(0.01): await asyncio.sleep(9)", "done, pending = await asyncio.wait([asyncio.create_task(work(n)) for n in (1, 2)]); return sorted(t.result() for t in done), pending",
            "return sorted([await f for f in asyncio.as_completed([work(1), work(2)])])", "q = asyncio.Queue(1); await q.put(1); q.put_nowait(2)", "q = asyncio.Queue(); q.put_nowait(1); return await q.get(), q.qsize(), q.empty(), q",
            "s = asyncio.Semaphore(1)¶    async with s: return s.locked()", "e = asyncio.Event(); e.set(); return await e.wait(), e.is_set()", "loop = asyncio.get_running_loop(); f = loop.create_future(); loop.call_soon(f.set_result, 5); return await f, f",
            "f = asyncio.get_running_loop().create_future(); f.set_exception(Mine(1)); await f", "return await asyncio.shield(work(2))", "return await asyncio.to_thread(len, 'abc')", "return await 1", "return await work()", "g = numbers(); return await anext(g), await g.asend(5), await anext(g, 'd')",
            "async with AsyncExitStack() as stack: return await stack.enter_async_context(cm())", "return await asyncio.gather(*[work(n) for n in range(1, 4)], 1)", "lock = asyncio.Lock()¶    async with lock: return lock.locked(), lock", "lock = asyncio.Lock(); lock.release()",
            "asyncio.run(work(1))", "c = work(1); r = await c; await c", "t = asyncio.current_task(); return t.get_name() != '', len(asyncio.all_tasks())", "return asyncio.iscoroutinefunction(work), inspect.iscoroutinefunction(work), asyncio.iscoroutine(1)",
            "f = asyncio.get_running_loop().create_future(); f.result()", "f = asyncio.get_running_loop().create_future(); f.set_result(1); f.set_result(2)", "t = asyncio.create_task(work(0))¶    try: await t¶    except ZeroDivisionError as e: return e, t.exception(), repr(t.done())",
            "with suppress(asyncio.CancelledError):¶        t = asyncio.create_task(asyncio.sleep(9)); await asyncio.sleep(0); t.cancel('msg'); await t¶    return t.cancelled()", "asyncio.create_task(1)", "await asyncio.sleep('a')", "await asyncio.wait([])", "await asyncio.wait_for(1, 2)", "async with 1: pass", "async for x in [1]: pass",
            "return await asyncio.wait_for(work(2), timeout=None)", "with cm(): pass", "for x in numbers(): pass",
        )  # fmt: skip
        return f"""async def work(n):
    await asyncio.sleep({self._pick("0", "0.001 * n")})
    return 6 / n
async def numbers():
    for n in range(3):
        {self._pick("yield n", "got = yield n", "await asyncio.sleep(0); yield n")}
@asynccontextmanager
async def cm():
    yield {self._v()}
async def main():
    {use}
return asyncio.run(main())"""

    def _group(self) -> str:
        members = ", ".join(
            self._some(
                [
                    "ValueError(1)",
                    "KeyError('k')",
                    "TypeError('t')",
                    "Mine(3)",
                    "ExceptionGroup('inner', [ValueError(4), OSError(5)])",
                    "ZeroDivisionError()",
                ],
                4,
            )
        )
        kind = self._pick("ValueError", "(KeyError, TypeError)", "OSError", "Mine", "Exception")
        return f"""log = []
group = ExceptionGroup('g', [{members}])
try:
    try:
        raise group
    except* {kind} as error:
        log.append((error.message, error.exceptions, repr(error)))
        {self._pick("pass", "raise", "raise Mine(7)", "raise Mine(8) from error", "1 / 0")}
    except* {self._pick("KeyError", "ValueError", "LookupError")} as error:
        log.append(str(error))
    {self._pick("else: log.append('else')", "finally: log.append('finally')", "")}
except Exception as error:
    log.append((error, repr(error), str(error), getattr(error, 'exceptions', None), error.__context__))
return log, {self._pick("group.split(ValueError)", "group.subgroup(lambda e: len(e.args) > 0)", "group.subgroup(TypeError)", "group.derive([ValueError(2)])", "''.join(traceback.format_exception(group)) and 1", "group.split(1)", "group.message", "group.exceptions", "str(group)")}"""

    def _unpacking(self) -> str:
        return self._pick(
            f"a, *b = {self._v()}¶return a, b", f"a, b = {self._v()}¶return a, b", f"(a, [b, *c]), d = ({self._v()}, {self._v()}), 1¶return a, b, c, d",
            f"return [*{self._v()}, *{self._v()}]", f"return {{**{self._v()}, 'z': 1}}", f"return function(*{self._v()}, **{self._v()})", f"x = [1, 2, 3, 4]¶x[{self._pick('1:3', '::2', '-1:', '5:', '::-1', '::0')}] = {self._v()}¶return x",
            f"x = [1, 2, 3, 4]¶del x[{self._pick('1:3', '::2', '-1', '9')}]¶return x", f"return ({self._v()})[{self._pick('0', '-1', '1:', '::-1', 'None', repr('a'), '(0, 1)', '...')}]", f"x = y = {self._v()}¶del x¶return y, x",
            f"for i, (a, b) in enumerate([(1, 2), {self._v()}]):¶    pass¶else:¶    return i, a¶return 'broken'", f"if (n := {self._v()}) and (m := n):¶    return n is m¶return 0", f"return a if (a := {self._v()}) else 'falsy'", "first, second, *_, last = range(9)¶return first, last, _",
            f"v = {self._v()}¶v.x = 5¶return v.x, v", f"v = {self._v()}¶v[0] = 5¶return v", f"v = {self._v()}¶del v.x¶return v", f"v = {self._v()}¶del v[0]¶return v", f"v = {self._v()}¶v.y, v.z = 1, 2¶return vars(v)",
        )  # fmt: skip

    def _comprehension(self) -> str:
        v, w = self._v(), self._v()
        return "return " + self._pick(
            f"[x for x in {v}]", f"{{x: y for x, y in zip({v}, {w})}}", f"{{x for x in {v} if x}}", f"list(y for x in [{v}, {w}] for y in x)", f"[(x, y) for x in {v} for y in {w} if x == y]", f"[[x for x in y] for y in [{v}]]",
            f"sum(x for x in {v})", f"dict(enumerate({v}))", f"any(x for x in {v})", f"sorted({v}, key=lambda x: str(x), reverse=True)", f"list(map(lambda a, b: (a, b), {v}, {w}))", f"list(filter(None, {v}))", f"max({v}, key=str, default=1)", f"list(zip({v}, {w}, strict=True))", f"[f() for f in [lambda: x for x in {v}]]", f"reduce(lambda a, b: (a, b), {v})", f"list(zip_longest({v}, {w}))", f"[(k, list(g)) for k, g in groupby({v})]", f"list(accumulate({v}))",
            f"list(chain({v}, {w}))", f"list(pairwise({v}))", f"Counter({v}).most_common(2)", f"dict({v})", f"list({v})", f"tuple({v})", f"set({v})", f"str({v}), repr({w})", f"int({v})", f"float({v})", f"bool({v})", f"bytes({v})", f"len({v})", f"iter({v})", f"reversed({v})", f"hash({v}) == hash({v})", f"json.dumps({v})", f"json.dumps([{v}, {w}], default=str, sort_keys=True)", f"pformat({v})", f"{v} == copy.copy({v})", f"callable({v})", f"round({v}, 1)", f"divmod({v}, {w})", f"pow({v}, 2)", f"abs({v})",
        )  # fmt: skip

    def _signature(self) -> str:
        params = ", ".join(
            [*self._some(["a", "b: int", "c: 'list[int]'"], 3), *self._some(["d=1", "e: str = 'x'", "f=None"], 2)]
            + ([self._pick("*", "*args: int")] + self._some(["g", "h=2", "i: float = 3.5"], 2) if self._chance.random() < 0.6 else []) + (["**options"] if self._chance.random() < 0.4 else [])  # noqa: RUF005  # a join of choices
        )  # fmt: skip
        use = self._pick(
            "str(inspect.signature(f))",
            "inspect.signature(f)",
            "[(p.name, p.kind, p.default, p.annotation) for p in inspect.signature(f).parameters.values()]",
            "f.__annotations__",
            "typing.get_type_hints(f)",
            "f.__defaults__, f.__kwdefaults__",
            "inspect.signature(f).bind(1, 2)",
            "inspect.signature(f).bind(1, q=2)",
            "inspect.signature(f).return_annotation",
            "f()",
            "f(1)",
            "f(1, 2, 3, 4, 5, 6, 7, 8)",
            "f(1, 2, 3, g=4)",
            "f(z=1)",
            "f(1, a=1)",
            "repr(f)",
            "f.__name__, f.__qualname__, f.__doc__",
            "partial(f, 1)",
            "inspect.signature(partial(f, 1))",
            "inspect.isfunction(f), inspect.isgeneratorfunction(f)",
            "inspect.signature(f).parameters['a']",
            "vars(f)",
            "f.missing",
            "inspect.signature(f).bind(1, 2, 3).arguments",
            "wraps(f)(lambda: 1).__name__",
            "inspect.signature(wraps(f)(lambda: 1))",
            "f == f, hash(f) == hash(f)",
            "f(*range(3), **{'g': 1})",
            "setattr(f, 'tag', 1), f.tag, vars(f)",
            "inspect.signature(f).replace(return_annotation=int)",
        )
        return f"def f({params}) -> {self._pick('int', 'None', repr('Plain'))}:¶    'Doc.'¶    return sorted(locals().items(), key=str)¶return {use}"

    def _copying(self) -> str:
        v = self._v()
        return self._pick(
            f"v = {v}¶c = copy.copy(v)¶return c, c is v, c == v, type(c) is type(v)", f"v = [{v}, {self._v()}]¶c = copy.deepcopy(v)¶return c, c == v", f"v = Plain({v})¶c = copy.deepcopy(v)¶return c", f"v = Data({v}, [1])¶c = copy.copy(v)¶c.y.append(2)¶return v, c, v == c", f"v = {{'k': {v}}}¶v['self'] = v¶c = copy.deepcopy(v)¶return c['self'] is c, c['k']",
            f"class K:¶    def __init__(self): self.v = {v}¶    def __copy__(self): return 'copied'¶    def __deepcopy__(self, memo): return ['deep', type(memo).__name__]¶return copy.copy(K()), copy.deepcopy([K()])", f"return copy.replace({v}, a=1)" if False else f"return dataclasses.replace(Data(1), x={v})", f"return Pair(1, 2)._replace(a={v}), Pair(1, {v})._asdict(), Pair._fields, Pair._make([1, 2])",
        )  # fmt: skip

    def _type_test(self) -> str:
        kinds = [
            "int",
            "str",
            "dict",
            "list",
            "tuple",
            "object",
            "type",
            "Plain",
            "Data",
            "Colour",
            "Enum",
            "Counter",
            "deque",
            "OrderedDict",
            "defaultdict",
            "date",
            "datetime",
            "Decimal",
            "Fraction",
            "Path",
            "PurePath",
            "Exception",
            "ValueError",
            "typing.Hashable",
            "typing.Callable",
            "collections.abc.Callable",
            "collections.abc.Iterable",
            "collections.abc.Mapping",
            "collections.abc.Sequence",
            "collections.abc.Hashable",
            "collections.abc.Iterator",
            "collections.abc.Sized",
            "collections.abc.Awaitable",
            "numbers.Number",
            "numbers.Integral",
            "numbers.Real",
            "AbstractContextManager",
            "ABC",
            "types.GeneratorType",
            "types.SimpleNamespace",
            "partial",
            "IntEnum",
            "Flag",
            "bool",
            "complex",
            "bytes",
            "range",
            "slice",
            "property",
            "types.BuiltinFunctionType",
            "types.MethodType",
            "types.NoneType",
            "(int,str)",
            "int|str",
            "list[int]",
            "typing.Any",
            "typing.Union[int,str]",
            "typing.Protocol",
            "Runnable",
            "Sup",
            "asyncio.Future",
            "asyncio.Task",
            "asyncio.Queue",
            "threading.Thread",
            "queue.Queue",
            "re.Pattern",
            "re.Match",
            "io.StringIO",
            "contextvars.ContextVar",
            "json.JSONDecodeError",
            "logging.Logger",
            "ExceptionGroup",
            "1",
            "None",
        ]
        kind, other = self._chance.choice(kinds), self._chance.choice(kinds)
        value = self._pick(
            self._v(),
            self._v(),
            other,
            "len",
            "print",
            "getattr",
            "type",
            "re.compile('a')",
            "asyncio",
            "math",
            "[].append",
            "Plain(1).method",
            "Plain.method",
            "coroutine",
            "json.dumps",
            "sys.stdout",
            "ExceptionGroup('g', [ValueError()])",
        )
        return self._pick(f"return isinstance({value}, {kind})", f"return issubclass({other}, {kind})", f"return type({value}), type({value}) is {kind}", f"return type({value}) == {kind}, {kind} == {other}", f"return type({kind})", f"return repr({kind}), str({kind})", f"return {kind} | {other}", f"return ({kind}).__name__, ({kind}).__qualname__", f"return hash({kind}) == hash({kind}), {kind} in [{other}]", f"return typing.get_origin({kind}), typing.get_args({kind})", f"return list[{kind}], typing.Optional[{kind}]", f"return callable({value})", f"return inspect.isclass({value}), inspect.isfunction({value}), inspect.isbuiltin({value}), inspect.ismethod({value}), inspect.isroutine({value})", f"return repr({value})", f"return {kind}.__doc__ and 1", f"return [hasattr({value}, n) for n in ('__len__', '__iter__', '__call__', '__name__', '__doc__', '__hash__', '__class__')]", f"return ({value}).__class__.__name__, str(type({value}))", f"return ({value}).missing", f"return ({value}).__name__", f"return ({value})()", f"return {kind}()", f"return {kind}({value})", f"return sorted(n for n in dir({value}) if n[0] != '_' and n != 'mro')[:8]", f"return {kind}.missing", f"{kind}.attr = 1" if kind in ("Plain", "Data", "Colour") else "return 1", f"match {value}:¶    case {kind if kind.replace('.', '').isidentifier() and kind not in ('None',) else 'int'}(): return 'yes'¶return 'no'")  # fmt: skip

    def _traceback(self) -> str:
        return f"""def level(n):
    if n:
        return {self._pick("level(n - 1)", "[level(n - 1) for _ in [1]]", "(lambda: level(n - 1))()", "sum(level(n - 1) for _ in [1])", "max([n], key=lambda x: level(x - 1))")}
    return {self._chance.choice(RAISING)}
class K:
    def method(self): return level(1)
    @property
    def prop(self): return level(0)
    def __getattr__(self, name): return level(0)
    def __add__(self, other): return level(0)
try:
    {self._pick("level(2)", "K().method()", "K().prop", "K().other", "K() + 1", "exec_ = K().__str__(1)", "level()", "K.method()")}
except Exception as error:
    text = {self._pick("traceback.format_exc()", "''.join(traceback.format_exception(type(error), error, error.__traceback__))", "''.join(traceback.format_tb(error.__traceback__))", "[(f.name, f.lineno, f.line) for f in traceback.extract_tb(error.__traceback__)]", "traceback.format_exc(limit=1)", "traceback.format_list(traceback.extract_tb(error.__traceback__))", "error.__traceback__.tb_lineno", "str(traceback.extract_tb(error.__traceback__))", "traceback.format_exc(chain=False)")}
    return text
return 'nothing'"""

    def _warning(self) -> str:
        return f"""with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter({self._pick("'always'", "'default'", "'ignore'", "'once'", "'error'", "'always', UserWarning", "'module'")})
    {self._pick("", "warnings.filterwarnings('ignore', message='a')", "warnings.filterwarnings('error', category=DeprecationWarning)")}
    def old():
        warnings.warn({self._pick("'a text'", "'b', DeprecationWarning", "UserWarning('u')", "'c', stacklevel=2", "'d', category=RuntimeWarning, stacklevel=1", "'e', ValueError", "'f', ImportWarning, 3")})
    for _ in range({self._pick("1", "2", "3")}):
        try:
            old()
        except Exception as error:
            caught.append(error)
return [show(w) if isinstance(w, Exception) else (str(w.message), w.category.__name__, w.lineno{self._pick("", ", w.filename")}) for w in caught]"""

    def _logging(self) -> str:
        calls = "\n".join(
            self._some(
                [
                    "log.debug('d %s', 1)",
                    "log.info('i')",
                    "log.warning('w %d %s', 1, 'b')",
                    "log.error('e', extra={'q': 1})",
                    "log.critical('c')",
                    "log.log(15, 'l')",
                    "log.exception('x')",
                    "log.warning('%(a)s', {'a': 1})",
                    "log.warning({1: 2})",
                    "log.warning('bad %d', 'x') if False else None",
                    "log.info('s', stacklevel=2)",
                    "child.info('child')",
                    "log.error('e', exc_info=True)",
                    "log.error('e', exc_info=ValueError(3))",
                    "log.addFilter(lambda r: r.levelno > 20)",
                    "log.disabled = True",
                    "log.propagate = False",
                    "child.setLevel(50)",
                ],
                6,
            )
        )
        return f"""out = io.StringIO()
log = logging.getLogger({self._pick("'a'", "'a.b'", "__name__", "")})
child = log.getChild('kid')
handler = logging.StreamHandler(out)
handler.setFormatter(logging.Formatter({self._pick("'%(levelname)s:%(name)s:%(message)s'", "'{levelname} {message} {lineno}', style='{'", "'%(funcName)s %(lineno)d %(module)s %(filename)s %(message)s'", "'$name $message', style='$'", "")}))
log.addHandler(handler)
log.setLevel({self._pick("logging.DEBUG", "'INFO'", "30", "'nope'")})
try:
    {self._pick("pass", "1 / 0")}
except Exception:
    log.info('caught')
{calls}
return out.getvalue(), {self._pick("repr(log)", "log.level", "log.getEffectiveLevel()", "log.isEnabledFor(20)", "repr(handler)", "repr(child)", "log.name, child.parent is log", "log.handlers", "logging.getLevelName(30)", "log.hasHandlers()", "str(handler.formatter.usesTime())")}"""

    def _descriptor(self) -> str:
        return f"""log = []
class Typed:
    def __init__(self, kind={self._pick("int", "str", "object")}): self.kind = kind
    def __set_name__(self, owner, name): self.name = name; log.append((owner.__name__, name))
    def __get__(self, obj, owner=None):
        if obj is None: return {self._pick("self.name", "'class'", "owner.__name__")}
        return {self._pick("vars(obj)[self.name]", "getattr(obj, '_' + self.name, 'unset')", "obj.__dict__.get(self.name)")}
    {self._pick("def __set__(self, obj, value): setattr(obj, '_' + self.name, self.kind(value)); vars(obj)[self.name] = value", "def __set__(self, obj, value): raise AttributeError('read only')", "def __delete__(self, obj): log.append('deleted')", "pass")}
class K:
    a = Typed()
    b = {self._pick("Typed(str)", "property(lambda self: 5)", "cached_property(lambda self: log.append('once') or 6)", "classmethod(lambda cls: cls.__name__)", "staticmethod(lambda: 7)", "partial(int, '5')", "Plain(3)")}
    {self._pick("c = 1", "def __getattr__(self, name): return name.upper()", "def __setattr__(self, name, value): log.append(name); super().__setattr__(name, value)", "def __delattr__(self, name): log.append(('del', name))", "__slots__ = ('_a', '__dict__')")}
{ATTEMPT}
k = K()
attempt(lambda: setattr(k, 'a', {self._v()}))
attempt(lambda: {self._pick("k.a", "K.a", "k.b", "K.b", "k.b()", "k._a", "vars(k)", "k.zzz", "delattr(k, 'a')", "k.b, k.b", "setattr(k, 'b', 1)", "K.__dict__['c']", "sorted(vars(k))", "k._a, hasattr(k, '_zzz')", "getattr(k, '_a', 0)")})
attempt(lambda: {self._pick("k.a", "K.a", "k.b", "vars(k)", "k.c", "[n for n in dir(k) if n[:2] != '__']")})
return log, found"""

    def _subclass(self) -> str:
        base, body, make = self._chance.choice(SUBCLASSES)
        uses = self._some(
            [
                "str(v)",
                "repr(v)",
                "v == v",
                "v == make()",
                "hash(v) == hash(make())",
                "copy.copy(v)",
                "copy.deepcopy(v)",
                "len(v)",
                "list(v)",
                "bool(v)",
                "v + v",
                "v < make()",
                "isinstance(v, B)",
                "type(v).__name__, type(v + v).__name__",
                "vars(v)",
                "v.extra",
                "v.missing",
                "json.dumps(v)",
                "v[0]",
                "v['a']",
                "f'{v}'",
                "format(v, '>10')",
                "v.copy()",
                "type(v.copy())",
                "v | v",
                "-v",
                "v * 2",
                "sorted(v)",
                "v.x",
                "issubclass(S, B), S.__name__, S.__qualname__",
                "repr(S)",
                "v.args",
                "setattr(v, 'n', 1), v.n",
                "dict(v)",
                "int(v)",
                "S()",
                "S(1, 2, 3)",
                "S(nope=1)",
                "v()",
                "next(v)",
                "with_(v)",
                "v.method()",
                "pformat(v)",
                "iter(v)",
                "v in v",
            ],
            6,
        )
        attempts = "\n".join(f"attempt(lambda: {use})" for use in uses)
        return f"""{ATTEMPT}
def with_(v):
    with v as inner: return inner
B = {base}
class S(B):
    extra = 'e'
{_in(body)}
make = lambda: {make}
try:
    v = make()
except Exception as error:
    return error
{attempts}
return found"""

    def _functional(self) -> str:
        v = self._v()
        return self._pick(
            f"calls = []¶@lru_cache({self._pick('', 'maxsize=2', 'None', '1', 'typed=True')})¶def f(x, *a):¶    calls.append(x)¶    return x¶return f(1), f(1.0), f({v}), f.cache_info(), f.cache_clear(), calls, repr(f)[:20]", f"@singledispatch¶def f(x): return 'object'¶@f.register(int)¶def _(x): return 'int'¶@f.register¶def _(x: list): return 'list'¶return f({v}), f.registry.keys(), f.dispatch(bool) is f.dispatch(int)", f"p = partial(function, {v}, c=5)¶return p, p.func is function, p.args, p.keywords, p(2), p(c=1)", f"@total_ordering¶class K:¶    def __init__(self, n): self.n = n¶    def __eq__(self, o): return self.n == o.n¶    def __lt__(self, o): return self.n < o.n¶return K(1) <= K(2), K(1) > K({v}), K(1) >= 2",
            f"class K:¶    @cached_property¶    def v(self): return {v}¶k = K()¶return k.v is k.v, vars(k), K.v", f"@wraps(function)¶def g(*a, **k):¶    return function(*a, **k)¶return g, g.__name__, g.__doc__, g.__wrapped__ is function, g({v})", "@singledispatchmethod¶def f(self, x): return 1¶return f", "class K:¶    @singledispatchmethod¶    def f(self, x): return 'o'¶    @f.register¶    def _(self, x: int): return 'i'¶return K().f(1), K().f('a')", f"return reduce(lambda a, b: [a, b], {v}, {self._v()})", f"return sorted([{v}, {self._v()}, {self._v()}], key=cmp_to_key(lambda a, b: 1 if str(a) > str(b) else -1))", f"return operator.itemgetter(0, 1)({v})", f"return operator.attrgetter('x', 'real')({v})", f"return operator.methodcaller('upper')({v})", "return repr(operator.itemgetter(1)), repr(operator.attrgetter('a.b')), repr(operator.methodcaller('f', 1, k=2)), repr(partial(len)), repr(lru_cache(len))[:25]",
        )  # fmt: skip

    def _protocol(self) -> str:
        v = self._v()
        return f"""class Base(ABC):
    @abstractmethod
    def f(self): ...
    {self._pick("", "@property¶    @abstractmethod¶    def g(self): ...", "@classmethod¶    @abstractmethod¶    def h(cls): ...", "def ok(self): return 1")}
class Half(Base):
    {self._pick("pass", "def f(self): return super().f()", "f = 1")}
class Box(Generic[T]):
    def __init__(self, v: T): self.v = v
class Typed(TypedDict{self._pick("", ", total=False")}):
    a: int
    b: {self._pick("str", "NotRequired[str]", "list[int]")}
{ATTEMPT}
attempt(lambda: {self._pick("Base()", "Half()", "Half().f()", "issubclass(Half, Base)", "Base.register(int), isinstance(1, Base)", "inspect.isabstract(Half)")})
attempt(lambda: {self._pick("Box[int](1).v", "Box[int]", "Box[int, str]", "repr(Box[T])", "typing.get_args(Box[int])", "isinstance(Box(1), Box)", "isinstance(Box(1), Box[int])", "Box[int].v", "Box[int].__name__", "Box[int] == Box[int], hash(Box[int]) == hash(Box[int])")})
attempt(lambda: {self._pick("Typed(a=1)", "Typed.__annotations__", "Typed(1)", "isinstance({}, Typed)", "typing.get_type_hints(Typed)", "Typed(a=1, zz=2)", "Typed.__total__" if False else "Typed.__name__")})
attempt(lambda: {self._pick(f"isinstance({v}, Runnable)", f"isinstance({v}, Sup)", "issubclass(Plain, Runnable)", "Runnable()", "isinstance(Half, Runnable)", f"isinstance({v}, typing.SupportsInt)", f"isinstance({v}, typing.Iterable)")})
return found"""

    def _decorated(self) -> str:
        return f"""log = []
def deco(*args, **options):
    def wrap(f):
        @wraps(f)
        def inner(*a, **k):
            log.append((f.__name__, a{self._pick("", "[1:]")}, sorted(k)))
            return f(*a, **k)
        return inner
    return wrap(args[0]) if args and callable(args[0]) else wrap
class K:
    {self._pick("@deco", "@deco(1)", "@staticmethod¶    @deco", "@classmethod¶    @deco", "@property¶    @deco", "@deco¶    @deco(2)")}
    def f(self={self._v()}, *a): return a
    def __enter__(self): return self
    def __exit__(self, *a): return False
@deco
def g(x, y={self._v()}): return [x, y]
def count(f): f.calls = getattr(f, 'calls', 0) + 1; return f
h = count(count(g))
try:
    log.append({self._pick("K().f()", "K.f()", "K().f", "K().f(1, 2)", "g()", "g(1)", "g(1, z=2)", "K.f(1)", "h.calls", "vars(h)['calls']")})
except Exception as error:
    log.append(error)
return log, g.__qualname__, K.f if {self._pick("True", "False")} else 0"""

    def _threads(self) -> str:
        return self._pick(
            f"with concurrent.futures.ThreadPoolExecutor(2) as pool:¶    return list(pool.map(lambda x: (x, {self._v()}), [1, 2, 3]))", f"with concurrent.futures.ThreadPoolExecutor() as pool:¶    f = pool.submit(lambda: {self._chance.choice(RAISING)})¶    return type(f.exception()), str(f.exception()), f.done(), f.cancelled()", f"found = []¶t = threading.Thread(target=found.append, args=({self._v()},), name='T')¶t.start(); t.join()¶return found, t.is_alive(), t.name, t.daemon", "e = threading.Event()¶t = threading.Thread(target=e.set)¶t.start()¶return e.wait(1), e.is_set()", "q = queue.Queue()¶for n in range(3): q.put(n)¶return [q.get() for _ in range(3)], q.empty(), q.qsize(), q.full()", "q = queue.PriorityQueue()¶q.put(3); q.put(1); q.put('a')",
            "l = threading.Lock()¶with l: return l.locked(), l.acquire(blocking=False)", "l = threading.RLock()¶with l, l: return 1", "local = threading.local()¶local.x = 1¶return local.x, local.y", "t = threading.Thread(target=print)¶t.start(); t.join(); t.start()", "t = threading.Thread(target=print)¶t.join()", "return threading.current_thread().name, threading.main_thread() is threading.current_thread()", "class T(threading.Thread):¶    def run(self): self.result = self.name¶t = T(name='N'); t.start(); t.join()¶return t.result", "b = threading.Barrier(1)¶return b.wait(), b.parties, b.broken", "s = threading.Semaphore(2)¶return s.acquire(), s.acquire(), s.acquire(blocking=False), s.release()", "s = threading.BoundedSemaphore(1)¶s.release()", "c = threading.Condition()¶c.notify()", "c = threading.Condition()¶with c: return c.wait(0.01), c.notify_all()",
            "with concurrent.futures.ThreadPoolExecutor() as pool:¶    fs = [pool.submit(pow, n, 2) for n in range(3)]¶    return sorted(f.result() for f in concurrent.futures.as_completed(fs)), concurrent.futures.wait(fs).not_done", "pool = concurrent.futures.ThreadPoolExecutor()¶pool.shutdown()¶pool.submit(len)", "concurrent.futures.ThreadPoolExecutor(0)", "f = concurrent.futures.Future()¶f.set_result(1)¶return f.result(), f, f.set_result(2)", "return queue.Queue(1).put_nowait(1), queue.Queue().get(timeout=0.01)", "t = threading.Timer(0.001, print, ['x'])¶t.start(); t.join()¶return t.finished.is_set()",
        )  # fmt: skip

    def _reading(self) -> str:
        v = self._v()
        return "return " + self._pick(
            f"json.loads(json.dumps({v}, default=repr))", f"json.dumps({{'a': {v}}}, indent={self._pick('None', '2', repr(' '))}, default=lambda o: type(o).__name__)", "json.loads('[1, 2,]')", "json.loads('{\"a\": NaN, \"b\": -Infinity}')", "list(csv.DictReader(io.StringIO('a,b\\n1,2\\n3')))", f"csv.writer(o := io.StringIO()).writerow([{v}, 'a,b', None]), o.getvalue()", "tomllib.loads('a = 1\\n[b]\\nc = 2024-01-01')", "dict(Parsed()['s']), Parsed().getint('s', 'n'), Parsed().getboolean('s', 'b'), Parsed().sections()", "ElementTree.tostring(ElementTree.fromstring('<r><b n=\"1\">t</b></r>')), [e.tag for e in ElementTree.fromstring('<r><b/></r>')]",
            "re.sub(r'(?P<w>\\w+) (\\d)', r'\\2 \\g<w>', 'ab 1')", "re.findall('(a)(b)?', 'ab a')", "[(m.span(), m.groupdict(), m) for m in re.finditer('(?P<x>a+)', 'aa a')]", "re.split('(,)', 'a,b,c', maxsplit=1)", "re.sub('a', lambda m: m[0].upper(), 'banana', 2)", "re.sub('a', r'\\9', 'a')", "re.match('(?<a>', 'b')", "re.compile('a', re.I | re.X), re.I, repr(re.M)", f"re.match('a', {v})", "textwrap.wrap('one two three four', width=8), textwrap.dedent('  a\\n   b'), textwrap.indent('a\\nb', '> '), textwrap.shorten('one two three', 9)",
            "list(difflib.unified_diff(['a\\n', 'b\\n'], ['a\\n', 'c\\n'], 'x', 'y'))", "difflib.get_close_matches('appel', ['ape', 'apple'])", "datetime(2024, 2, 29, 12, 30).isoformat(), datetime(2024, 2, 29).strftime('%A %d %B %j %U'), date(2024, 2, 29) + timedelta(366)", "datetime.strptime('2024-02-29 12', '%Y-%m-%d %H'), datetime.fromisoformat('2024-02-29T12:30:05+02:00')", "Decimal('1.1') + Decimal(2), Decimal('1').quantize(Decimal('0.01')), Decimal(1) / 3, round(Decimal('2.5')), f\"{Decimal('1234.5'):,.2f}\"", f"Decimal(1) + {v}", f"Fraction(1, 3) + {v}", "statistics.mean([1, 2, 4]), statistics.median([3, 1]), statistics.stdev([1, 2, 4]), statistics.quantiles([1, 2, 3, 4])", "random.Random(3).sample(range(10), 3), random.Random('a').random(), random.Random(1).choices('ab', k=3)",
            "ast.dump(ast.parse('x = f(1)')), ast.unparse(ast.parse('x=1 if a else b'))", "[type(n).__name__ for n in ast.walk(ast.parse('a + 1'))]", f"ast.literal_eval(repr({v}))", "base64.b64encode(b'ab'), base64.b32decode(b'MFRA===='), base64.urlsafe_b64encode(b'\\xff')", "hashlib.md5(b'a').hexdigest(), hmac.new(b'k', b'm', 'sha1').hexdigest(), hashlib.sha256(b'a').name", "gzip.decompress(gzip.compress(b'abc')), zlib.decompress(zlib.compress(b'a')), bz2.decompress(bz2.compress(b'a')), lzma.decompress(lzma.compress(b'a'))", "struct.pack('<ih', 1, 2), struct.unpack('<2s', b'ab'), struct.calcsize('bi')", "urlparse('http://u@h:8/p?q#f'), urljoin('http://a/b/', '../c'), urlencode({'a': [1, 2]}, doseq=True), parse_qs('a=1&a=2')", "html.escape('<a>'), html.unescape('&lt;&eacute;')", "unicodedata.normalize('NFC', 'e\\u0301'), unicodedata.name('é')", f"pformat({{'a': {v}, 'b': list(range(30))}}, width=30)", "Template('$a ${b} $$').safe_substitute(a=1), Template('$a').template", "shlex.split('a \"b c\"'), shlex.quote('a b')", "fnmatch.filter(['a.py', 'b.txt'], '*.py'), fnmatch.translate('*.py')", "heapq.nlargest(2, [3, 1, 2]), heapq.merge([1, 3], [2]), bisect.bisect([1, 2, 2], 2)", "Path('a/b.tar.gz').suffixes, Path('/a') / 'b', Path('a/../b').parts, PurePath('a').parent, Path('a/b').relative_to('a')", "uuid.UUID(int=5), uuid.uuid5(uuid.NAMESPACE_DNS, 'a'), uuid.UUID(int=5).hex", "ipaddress.ip_network('10.0.0.0/30').num_addresses, list(ipaddress.ip_network('10.0.0.0/31'))",
            "calendar.monthrange(2024, 2), calendar.month(2024, 2), calendar.isleap(2023)", "list(graphlib.TopologicalSorter({'b': {'a'}}).static_order()), graphlib.CycleError('x', [1])", "http.HTTPStatus(404), http.HTTPStatus.OK.phrase, http.HTTPMethod.GET", "mimetypes.guess_type('a.png'), codecs.encode('abc', 'rot13'), codecs.lookup('utf8').name", "array.array('i', [1, 2]), array.array('d', [1]).tolist()", "reprlib.repr(list(range(100))), string.capwords('a b'), keyword.iskeyword('if')", "zoneinfo.ZoneInfo('Europe/Berlin'), datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin')).isoformat()", "time.strftime('%Y', time.gmtime(0)), time.gmtime(0), time.strptime('2024', '%Y')", "contextvars.ContextVar('v', default=2).get(), contextvars.ContextVar('v')", "weakref.ref(Plain)() is Plain, weakref.WeakValueDictionary()", "sys.version_info[:2], sys.maxsize, sys.float_info.max, sys.byteorder",
        )  # fmt: skip

    def _attributes(self) -> str:
        value = self._pick(
            self._v(),
            self._v(),
            "Plain",
            "math",
            "json",
            "asyncio",
            "len",
            "print",
            "str.upper",
            "collections",
            "datetime",
            "os.path",
            "inspect.signature",
            "logging.getLogger()",
            "sys",
            "functools.wraps",
            "typing",
            "re",
            "generator",
            "Enum",
            "ABC",
            "type",
            "getattr",
            "contextmanager",
            "namedtuple",
            "dataclass",
            "lru_cache",
        )
        return self._pick(f"return ({value}).nothing_here", f"({value}).nothing_here = 1¶return ({value}).nothing_here", f"del ({value}).nothing_here", f"return getattr({value}, 'nothing_here', 5)", f"return hasattr({value}, 'real'), hasattr({value}, '__call__'), hasattr({value}, '__iter__')", f"return repr({value})", f"return ({value}).__doc__ is None", f"return ({value}).__name__", f"return ({value})[0]", f"return ({value})(1)", f"return ({value})()", f"return ({value}) + 1", f"return len({value})", f"return type({value})", f"return str(type({value}))", f"return bool({value})", f"return ({value}) == ({value})", f"return ({value}).__qualname__", f"return '{{0.nothing}}'.format({value})", f"return setattr({value}, 'nothing', 1)", f"return iter({value})", f"return vars({value}) and 1", f"return dir({value}) and 1", f"return hash({value}) and 1", f"with {value} as v: return v", f"return [*{value}]", f"return -({value})", f"return ({value}) < 1", f"return f'{{{value}:>30}}'", f"raise {value}", f"raise ValueError from {value}", f"try: 1 / 0¶except {value}: return 1", f"return isinstance(1, {value})", f"class X({value if value.replace('.', '').isidentifier() else 'Plain'}): pass¶return X.__name__", f"return copy.copy({value}) is ({value})", f"return json.dumps({value})", f"return callable({value})", f"return int({value})", f"return sorted({value})", f"return ({value}).__class__", f"return pformat({value})", f"return next({value})")  # fmt: skip

    def _nested(self) -> str:
        inner = self._chance.choice(self._forms)()
        if "async def main" in inner or "nonlocal" in inner:
            return inner
        how = self._pick(
            "try:¶    return inner()¶finally:¶    print('finally')", "class Outer:¶    @staticmethod¶    def call(): return inner()¶return Outer.call(), Outer.__qualname__", "return [f() for f in [inner]]", "with suppress(ZeroDivisionError):¶    return inner()¶return 'suppressed'", "def gen():¶    yield inner()¶return next(gen())", "async def main(): return inner()¶return main().send(None)" if False else "return max([1], key=lambda _: inner() and 0)",
        )  # fmt: skip
        return f"def inner():¶{_in(inner)}¶{how}"

    def _named_class(self) -> str:
        return f"""{ATTEMPT}
N = {self._pick("namedtuple('N', 'a b c', defaults=[3])", "namedtuple('N', ['a', '_b'], rename=True)", "NamedTuple('N', [('a', int), ('b', str)])", "namedtuple('N', 'a, b', module='m')", "namedtuple(typename='N', field_names=('a', 'b'))", "make_dataclass('N', ['a', ('b', int, 5)])", "Enum('N', 'a b c')", "Enum('N', {'a': 1, 'b': 2})", "type('N', (), {'a': 1, 'f': lambda self: 2})", "type('N', (Plain,), dict(b=2))", "IntEnum('N', ['a', 'b'], start=5)", "Flag('N', 'a b')", "TypedDict('N', {'a': int})", "NewType('N', int)", "TypeVar('N', int, str)", "TypeVar('N', bound=int)", "ParamSpec('N')")}
for use in {self._chance.sample(NAMED_USES, 5)!r}:
    pass
{chr(10).join(f"attempt(lambda: {use})" for use in self._some(NAMED_USES, 6))}
return found"""

    def _generic(self) -> str:
        kinds = [
            "int",
            "str",
            "None",
            "Plain",
            "list[int]",
            "typing.Any",
            "T",
            "'Plain'",
            "...",
            "1",
            "typing.Optional[int]",
            "dict[str, int]",
            "collections.abc.Callable[[int], str]",
            "typing.Literal[1, 'a']",
            "typing.Annotated[int, 'm']",
            "tuple[int, ...]",
            "type[int]",
            "typing.Union[int, None]",
            "int | None",
            "typing.ClassVar[int]",
            "Counter[str]",
            "deque[int]",
            "[int]",
        ]
        a, b = self._chance.choice(kinds), self._chance.choice(kinds)
        whole = self._pick(f"typing.List[{a}]", f"typing.Dict[{a}, {b}]", f"typing.Union[{a}, {b}]", f"typing.Optional[{a}]", f"typing.Callable[[{a}], {b}]", f"list[{a}]", f"dict[{a}, {b}]", f"tuple[{a}, {b}]", f"({a}) | ({b})", f"typing.Literal[{a}]", f"typing.Annotated[{a}, {b}]", f"typing.Final[{a}]", f"collections.abc.Mapping[{a}, {b}]", f"typing.Generic[{a}]", f"defaultdict[{a}, {b}]", f"typing.Type[{a}]", f"typing.Iterator[{a}]", f"asyncio.Queue[{a}]", f"re.Pattern[{a}]", f"partial[{a}]", f"queue.Queue[{a}]", f"os.PathLike[{a}]", f"typing.ClassVar[{a}]", f"AbstractContextManager[{a}]", f"type[{a}]", f"asyncio.Future[{a}]", f"asyncio.Task[{a}]", f"concurrent.futures.Future[{a}]", f"contextvars.ContextVar[{a}]", f"weakref.ref[{a}]", f"array.array[{a}]", f"types.MappingProxyType[{a}]", f"itertools.chain[{a}]", f"Box[{a}]", f"typing.Concatenate[{a}, {b}]", f"typing.Unpack[{a}]", f"typing.TypeGuard[{a}]")  # fmt: skip
        use = self._pick(
            "v",
            "repr(v), str(v)",
            "typing.get_origin(v), typing.get_args(v)",
            "v == v, hash(v) == hash(v)",
            "v()",
            "v[int]",
            "isinstance(1, v)",
            "issubclass(int, v)",
            "type(v)",
            "v | None",
            "v.missing",
            "v.__name__",
            "v([1])",
            "typing.get_type_hints(f)",
            "f.__annotations__",
            "str(inspect.signature(f))",
            "callable(v)",
            "copy.copy(v) == v",
            "v.__parameters__" if False else "v",
        )
        return f"class Box(typing.Generic[T]): pass¶v = {whole}¶def f(x: v, y: 'int' = 1) -> v: ...¶return {use}"


def _in(text: str) -> str:
    return textwrap.indent(text.replace("¶", "\n"), "    ")
