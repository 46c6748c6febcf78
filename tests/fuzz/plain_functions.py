"""Programs of functions, exceptions, control flow and modules."""

from __future__ import annotations

from tests.fuzz.plain_forms import Forms
from tests.fuzz.plain_tables import (
    BINARY,
    ERRORS,
    RAISING,
    SPECS,
)

__all__ = ["Functions"]


class Functions(Forms):
    """Writes steps of functions and statements."""

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
                         "raise error", f"raise {self._v()}")  # fmt: skip
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
            f"v = {self._v()}¶v.x = 5¶return v.x, v", f"v = {self._v()}¶v[0] = 5¶return v", f"v = {self._v()}¶del v.x¶return v", f"v = {self._v()}¶del v[0]¶return v", f"v = {self._v()}¶v.y, v.z = 1, 2¶return v.y",
        )  # fmt: skip

    def _comprehension(self) -> str:
        v, w = self._v(), self._v()
        return "return " + self._pick(
            f"[x for x in {v}]", f"{{x: y for x, y in zip({v}, {w})}}", f"{{x for x in {v} if x}}", f"list(y for x in [{v}, {w}] for y in x)", f"[(x, y) for x in {v} for y in {w} if x == y]", f"[[x for x in y] for y in [{v}]]",
            f"sum(x for x in {v})", f"dict(enumerate({v}))", f"any(x for x in {v})", f"sorted({v}, key=lambda x: str(x), reverse=True)", f"list(map(lambda a, b: (a, b), {v}, {w}))", f"list(filter(None, {v}))", f"max({v}, key=str, default=1)", f"list(zip({v}, {w}, strict=True))", f"[f() for f in [lambda: x for x in {v}]]", f"reduce(lambda a, b: (a, b), {v})", f"list(zip_longest({v}, {w}))", f"[(k, list(g)) for k, g in groupby({v})]", f"list(accumulate({v}))",
            f"list(chain({v}, {w}))", f"list(pairwise({v}))", f"Counter({v}).most_common(2)", f"dict({v})", f"list({v})", f"tuple({v})", f"set({v})", f"str({v}), repr({w})", f"int({v})", f"float({v})", f"bool({v})", f"bytes({v})", f"len({v})", f"iter({v})", f"reversed({v})", f"(lambda a, b: hash(a) == hash(b))({v}, {v})", f"json.dumps({v})", f"json.dumps([{v}, {w}], default=str, sort_keys=True)", f"pformat({v})", f"{v} == copy.copy({v})", f"callable({v})", f"round({v}, 1)", f"divmod({v}, {w})", f"pow({v}, 2)", f"abs({v})",
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

    def _functional(self) -> str:
        v = self._v()
        return self._pick(
            f"calls = []¶@lru_cache({self._pick('', 'maxsize=2', 'None', '1', 'typed=True')})¶def f(x, *a):¶    calls.append(x)¶    return x¶return f(1), f(1.0), f({v}), f.cache_info(), f.cache_clear(), calls, repr(f)[:20]", f"@singledispatch¶def f(x): return 'object'¶@f.register(int)¶def _(x): return 'int'¶@f.register¶def _(x: list): return 'list'¶return f({v}), f.registry.keys(), f.dispatch(bool) is f.dispatch(int)", f"p = partial(function, {v}, c=5)¶return p, p.func is function, p.args, p.keywords, p(2), p(c=1)", f"@total_ordering¶class K:¶    def __init__(self, n): self.n = n¶    def __eq__(self, o): return self.n == o.n¶    def __lt__(self, o): return self.n < o.n¶return K(1) <= K(2), K(1) > K({v}), K(1) >= 2",
            f"class K:¶    @cached_property¶    def v(self): return {v}¶k = K()¶return k.v is k.v, vars(k), K.v", f"@wraps(function)¶def g(*a, **k):¶    return function(*a, **k)¶return g, g.__name__, g.__doc__, g.__wrapped__ is function, g({v})", "@singledispatchmethod¶def f(self, x): return 1¶return f", "class K:¶    @singledispatchmethod¶    def f(self, x): return 'o'¶    @f.register¶    def _(self, x: int): return 'i'¶return K().f(1), K().f('a')", f"return reduce(lambda a, b: [a, b], {v}, {self._v()})", f"return sorted([{v}, {self._v()}, {self._v()}], key=cmp_to_key(lambda a, b: 1 if str(a) > str(b) else -1))", f"return operator.itemgetter(0, 1)({v})", f"return operator.attrgetter('x', 'real')({v})", f"return operator.methodcaller('upper')({v})", "return repr(operator.itemgetter(1)), repr(operator.attrgetter('a.b')), repr(operator.methodcaller('f', 1, k=2)), repr(partial(len)), repr(lru_cache(len))[:25]",
        )  # fmt: skip

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
