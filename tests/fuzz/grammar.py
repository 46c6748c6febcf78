"""Generate random scripts from constructs that the language policy has to decide about.

A script is a set of probes. Each probe is compiled alone first, and only accepted probes are
combined, so that most code passes the compiler and reaches the guards. Objects that a probe gets
hold of go to ``caught``, and the detector at the end reports their kinds.
"""

from __future__ import annotations

import asyncio
import builtins
import functools
import string
import textwrap
import types
from random import Random

from ptc._language._compiler import ScriptRejected, compile_script
from ptc._language._policy import DEFINABLE, MODULES, PRIVATE_PREFIX, kind_of, power_names

__all__ = ["DETECTOR", "Grammar", "accepted", "prelude", "rejected_lines"]

_SKIPPED = {"sleep", "count", "cycle", "repeat", "pbkdf2_hmac", "perm", "comb", "factorial"}
"""Members that only use up the time of a run."""

_ALWAYS = ["asyncio", "contextlib", "copy", "dataclasses", "enum", "functools", "inspect", "json",
           "operator", "os", "string", "traceback", "types", "typing"]  # fmt: skip
_TOP = sorted(name for name in MODULES if "." not in name and name not in _ALWAYS)
_PER_SCRIPT = 12
"""Modules and spied methods per script: compiling all of them for each script takes 20 ms."""

_HELPERS = """
caught = []

def catch(*args, **options):
    caught.append(args)
    caught.append(options)
    return args[0] if args else None

def decorate(*args, **options):
    catch(*args, **options)
    return catch

def gen():
    got = yield 1
    caught.append(got)
    yield gen

async def coro(x=None):
    await asyncio.sleep(0)
    return x

async def agen():
    yield 1
    yield coro

def fail(*args):
    raise ValueError(catch, *args)

def trouble():
    try:
        [].missing
    except AttributeError as error:
        return error

class Text(str):
    def __eq__(self, other):
        return True
    def __hash__(self):
        return hash("a")
    def startswith(self, *args):
        return False

class Forward:
    def __init__(self, to):
        self.to = to
    def __getattr__(self, name):
        return getattr(self.to, name)

def matched(thing):
    match thing:
        case Base(a, b):
            return a, b
        case object(a=v) | object(name=v):
            return v

class Base:
    _private = 1
    __match_args__ = ("a", "_b")
    def __init__(self, *args, **options):
        catch(*args, **options)
        self.a, self._b, self.__c = args, options, catch
    def method(self, *args):
        return catch(*args)
    @property
    def prop(self):
        return self._b
    @classmethod
    def make(cls, *args):
        return cls(*args)

@dataclasses.dataclass
class Data:
    x: object = None
    _y: object = None

class Color(enum.Enum):
    RED = 1
    BLUE = 2
"""

_KEPT = ["__hash__", "__eq__", "__ne__", "__setattr__", "__delattr__", "__init__", "__new__"]
_SPIED = [name for name in sorted(DEFINABLE) if name not in _KEPT and "aug" not in name]
_ANSWERS = {
    "__len__": "2",
    "__bool__": "True",
    "__str__": "'spy'",
    "__repr__": "'spy'",
    "__format__": "'spy'",
    "__bytes__": "b'spy'",
    "__fspath__": "'spy'",
    "__int__": "3",
    "__index__": "3",
    "__float__": "3.0",
    "__complex__": "3j",
    "__length_hint__": "1",
    "__iter__": "iter([self])",
    "__next__": "self",
    "__await__": "iter([])",
    "__sizeof__": "1",
    "__getattr__": "catch",
    "__enter__": "self",
    "__exit__": "True",
}


def prelude(chance: Random) -> tuple[str, list[str]]:
    """Return imports, helpers and a class that records its operations, and the imported modules."""
    modules = [*_ALWAYS, *chance.sample(_TOP, _PER_SCRIPT)]
    lines = [f"import {name}" for name in modules]
    lines += [_HELPERS, "class Spy:"]
    for name in chance.sample(_SPIED, 2 * _PER_SCRIPT):
        asynchronous = name in {"__aenter__", "__aexit__", "__anext__"}
        lines.append(f"    {'async ' * asynchronous}def {name}(self, *args, **options):")
        lines.append("        catch(*args, **options)")
        lines.append(f"        return {_ANSWERS.get(name, 'self')}")
    return "\n".join(lines) + "\n", modules


DETECTOR = """
_found, _looked = {}, set()
_PLAIN = {"int", "str", "float", "bool", "bytes", "NoneType", "complex", "bytearray", "range"}

def _look(thing, depth):
    if id(thing) in _looked or len(_looked) > 1500:
        return
    _looked.add(id(thing))
    kind = type(thing).__name__
    if kind in _PLAIN:
        return
    try:
        text = repr(thing)[:160]
    except Exception:
        text = ""
    _found.setdefault(str(kind) + "|" + text, depth)
    if depth > 3:
        return
    parts = []
    try:
        if kind in {"list", "tuple", "set", "frozenset", "deque"}:
            parts += list(thing)[:30]
        elif kind in {"dict", "mappingproxy", "defaultdict", "OrderedDict"}:
            _found.setdefault("keys|" + ",".join(str(k) for k in list(thing)[:200]), depth)
            parts += list(thing.values())[:30]
    except Exception:
        pass
    if depth < 3:
        try:
            names = dir(thing)
        except Exception:
            names = []
        for name in names[:60]:
            try:
                parts.append(getattr(thing, name))
            except Exception:
                pass
        try:
            parts.append(vars(thing))
        except Exception:
            pass
    for part in parts:
        _look(part, depth + 1)

async def _probe(number, probe, ctx, inputs):
    try:
        value = probe(ctx, inputs)
        if inspect.isawaitable(value):
            value = await asyncio.wait_for(value, 0.01)
        caught.append(value)
    except Exception as error:
        caught.append(error)
        caught.append(str(error)[:300])
        caught.append(traceback.format_exc()[:300])

async def run(ctx, inputs):
    for number, probe in enumerate(PROBES):
        await _probe(number, probe, ctx, inputs)
    said = [str(item)[:300] for item in caught if type(item) in (str, bytes)][:200]
    for item in caught[:400]:
        try:
            _look(item, 0)
        except Exception as error:
            said.append(str(error)[:300])
    return {"found": list(_found)[:3000], "said": said}
"""


def accepted(source: str) -> bool:
    """True if the policy compiles `source`; any other exception is a finding of its own."""
    try:
        compile_script(source, require_run=False)
    except ScriptRejected:
        return False
    return True


def rejected_lines(source: str) -> list[int]:
    """Return the lines that the policy rejects."""
    try:
        compile_script(source, require_run=False)
    except ScriptRejected as rejected:
        return [finding.line for finding in rejected.findings]
    return []


def _attribute_names() -> list[str]:
    def function() -> None: ...

    kinds: list[object] = [
        function, function.__code__, type, object, types, property, asyncio.Task, asyncio.Queue,
        types.FrameType, types.GeneratorType, types.CoroutineType, types.TracebackType,
        types.AsyncGeneratorType, types.MethodType, types.CellType, BaseException, AttributeError,
        str, dict, asyncio.TaskGroup, asyncio.AbstractEventLoop, ImportError, ExceptionGroup,
    ]  # fmt: skip
    return sorted({name for kind in kinds for name in dir(kind)})


_NAMES = _attribute_names()
_DUNDERS = [name for name in _NAMES if name.startswith("__")]
_POWER = sorted(power_names())
_PRIVATE = ["_x", "_impl", "_loop", "_calls", "_wire", "_methods", "_coro", "_fields",
            "_value_", "_Base__c", "__c", "_b", "_make", "_source", "_module", "_os"]  # fmt: skip
_ODD = ["@getattr", "@import", "@hash", "@number", f"{PRIVATE_PREFIX}x", "ptc_private_b", "x.y",
        "", "a", "name", "args", "value", "obj", "call", "run", "format", "tool"]  # fmt: skip
_KEYWORDS = ["key", "default", "object_hook", "cls", "file", "stream", "loop", "context", "factory",
             "initial", "encoding", "memo", "x", "sep", "end", "func", "name", "fget"]  # fmt: skip


_RECEIVERS: list[tuple[str, object]] = [
    ("catch", types.FunctionType), ("json.loads", types.FunctionType), ("run_it", object),
    ("gen()", types.GeneratorType), ("(v for v in [1])", types.GeneratorType),
    ("coro()", types.CoroutineType), ("agen()", types.AsyncGeneratorType),
    ("agen().asend(None)", types.AsyncGeneratorType), ("Base().method", types.MethodType),
    ("Base", type), ("int", type), ("Color", type), ("type(v)", type), ("Base()", object),
    ("ValueError('x')", AttributeError), ("trouble()", AttributeError), ("ctx", object),
    ("ctx.echo", object), ("ctx.call", types.MethodType), ("ctx.tools", object),
    ("asyncio.current_task()", asyncio.Task), ("asyncio.ensure_future(coro())", asyncio.Task),
    ("property(catch)", property), ("functools.partial(catch)", functools.partial),
    ("functools.cache(catch)", types.FunctionType), ("asyncio", types.ModuleType),
    ("json", types.ModuleType), ("staticmethod(catch)", staticmethod), ("'a'", str),
    ("asyncio.Queue()", asyncio.Queue), ("asyncio.Lock()", asyncio.Lock), ("len", type(len)),
    ("contextlib.ExitStack()", object), ("contextlib.contextmanager(gen)()", object),
    ("trouble().__traceback__", types.TracebackType), ("[].append", type(len)),
    ("asyncio.gather(coro())", asyncio.Future), ("json.JSONEncoder()", object),
    ("string.Template('$a')", string.Template), ("dataclasses.fields(Data)[0]", object),
]  # fmt: skip
_MORE = ["_calls", "_wire", "_methods", "_loop", "_coro", "_context", "_name", "_impl",
         "_exit_callbacks", "gen", "func", "__wrapped__", "__globals__", "__builtins__",
         "__dict__", "obj", "format"]  # fmt: skip
_TARGETS = {
    kind: [name for name in dir(kind) if kind_of(name) != "ordinary"] + _MORE
    for _, kind in _RECEIVERS
}
_FURTHER = ["f_globals", "__globals__", "tb_frame", "f_back", "gi_frame", "__subclasses__",
            "__self__", "__init__", "__func__", "__class__", "__dict__", "__code__",
            "a"]  # fmt: skip
_WAYS = [
    "(<R>).<N>", "(<R>).<N>.<F>", "getattr(<R>, <T>)", "getattr(<R>, <T>, None)",
    "operator.attrgetter(<T>)(<R>)", "operator.attrgetter('<N>.<F>')(<R>)",
    "operator.attrgetter('a', <T>)(<R>)", "operator.methodcaller(<T>)(<R>)",
    "operator.methodcaller(<T>, v)(<R>)", "functools.reduce(getattr, [<T>, '<F>'], <R>)",
    "list(map(getattr, [<R>], [<T>]))", "vars(<R>)[<T>]", "vars(type(<R>))[<T>]",
    "(<R>).__dict__[<T>]", "'{0.<N>}'.format(<R>)", "'{0.<N>.<F>!r}'.format(<R>)",
    "'{a.<N>}'.format_map({'a': <R>})", "str.format('{0.<N>}', <R>)", "f'{(<R>).<N>}'",
    "'{:{0.<N>}}'.format(<R>)", "Text('{0.<N>}').format(<R>)", "(<R>).__getattribute__(<T>)",
    "object.__getattribute__(<R>, <T>)", "type(<R>).__getattribute__(<R>, <T>)",
    "type(<R>).<N>", "type(<R>).<N>.__get__(<R>)", "super(Base, Base()).<N>",
    "[getattr(v, n) for v in [<R>] for n in [<T>, '<F>']]", "sorted([<R>], key=lambda v: v.<N>)",
    "setattr(<R>, <T>, catch)", "delattr(<R>, <T>)", "hasattr(<R>, <T>)", "copy.copy((<R>).<N>)",
    "max([<R>], key=operator.attrgetter(<T>))", "Forward(<R>).<N>", "getattr(Forward(<R>), <T>)",
    "object.__setattr__(<R>, <T>, catch)", "dataclasses.replace(<R>, **{<T>: v})",
    "types.SimpleNamespace(**vars(<R>))", "functools.partial(getattr, <R>)(<T>)",
    "next(filter(None, map(operator.attrgetter(<T>), [<R>])))", "dict(vars(<R>))", "dir(<R>)",
    "operator.call(getattr, <R>, <T>)", "type(<R>)(<R>)", "type(type(<R>))", "matched(<R>)",
    "functools.update_wrapper(catch, <R>)", "functools.wraps(<R>)(catch)", "(<R>).<N>()",
    "json.dumps(<R>, default=operator.attrgetter(<T>))", "getattr(<R>, <T>)(v)",
    "getattr(getattr(<R>, <T>), '<F>')", "copy.deepcopy(<R>)", "inspect.isfunction((<R>).<N>)",
]  # fmt: skip


class Grammar:
    """Generator of random expressions and statements."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._use(_ALWAYS)

    def _use(self, modules: list[str]) -> None:
        members = [
            f"{module}.{name}"
            for module in MODULES
            if module.partition(".")[0] in modules
            for name in sorted(MODULES[module])
            if name not in _SKIPPED
        ]
        self._members = members
        public = [name for name in dir(builtins) if not name.startswith("_")]
        self._atoms = [
            *members, *modules, *public,
            *["ctx", "inputs", "ctx.echo", "ctx.call", "ctx.tools", "ctx.evaluate", "gen()"] * 12,
            *["coro()", "agen()", "Spy()", "Base()", "Data()", "Color.RED", "Spy", "Base"] * 12,
            *["catch", "decorate", "caught", "fail", "run_it", "v", "w", "lambda *a: a"] * 12,
            *["gen", "coro", "agen", "type(v)", "ToolError", "asyncio.current_task()"] * 8,
            *["asyncio.ensure_future(coro())", "ctx.fail", "(x for x in (v,))", "ctx.call('fail')"],
            *["1", "0", "'a'", "b'a'", "None", "[1]", "{'a': v}", "(v, w)", "{1, 2}", "3.5"] * 8,
            "'{0.a}'", "'{0}'", "''", "__name__", "...", "object()", "True", "globals()",
            "locals()", "inputs['canary']", "json", "Exception('x')", "re.match('a', 'a')",
        ]  # fmt: skip

    def name(self) -> str:
        """Return an attribute name as it may appear in source."""
        chance = self._chance
        table = chance.choices([_NAMES, _DUNDERS, _POWER, _PRIVATE], [8, 1, 4, 3])[0]
        return chance.choice(table)

    def text_name(self) -> str:
        """Return an expression for an attribute name."""
        chance = self._chance
        name = chance.choice([*_ODD, self.name(), self.name(), chance.choice(_DUNDERS)])
        if chance.random() < 0.4:
            cut = chance.randrange(len(name) + 1)
            return f"{name[:cut]!r} + {name[cut:]!r}"
        if chance.random() < 0.1:
            return f"type('', (str,), {{}})({name!r})" if chance.random() < 0.5 else "Spy()"
        return repr(name)

    def expression(self, depth: int = 3) -> str:
        """Return an expression."""
        chance = self._chance
        if depth <= 0 or chance.random() < 0.15:
            return chance.choice(self._atoms)
        write = chance.choices(_EXPRESSIONS, _WEIGHTS)[0]
        return str(write(self, depth - 1))

    def _attribute(self, depth: int) -> str:
        return f"({self.expression(depth)}).{self.name()}"

    def _call(self, depth: int) -> str:
        chance = self._chance
        args = [self.expression(depth - 1) for _ in range(chance.randrange(4))]
        if chance.random() < 0.25:
            args.append(f"{chance.choice(_KEYWORDS)}={self.expression(depth - 1)}")
        if chance.random() < 0.08:
            args.append(f"*{self.expression(depth - 1)}")
        if chance.random() < 0.05:
            args.append(f"**{{{self.text_name()}: {self.expression(0)}}}")
        return f"({self.expression(depth)})({', '.join(args)})"

    def _library(self, _depth: int) -> str:
        """Return a library call with plausible arguments, often including a recording object."""
        chance = self._chance
        args = [chance.choice(_USEFUL) for _ in range(chance.randrange(4))]
        if chance.random() < 0.4:
            args.append(f"{chance.choice(_KEYWORDS)}={chance.choice(_USEFUL)}")
        text = f"{chance.choice(self._members)}({', '.join(args)})"
        if chance.random() < 0.3:
            text += f".{self.name()}"
        if chance.random() < 0.2:
            text += f"({chance.choice(_USEFUL)})"
        return text

    def _targeted(self, _depth: int) -> str:
        """Return access to a power name, on an object that has it, by one of several routes."""
        chance = self._chance
        receiver, kind = chance.choice(_RECEIVERS)
        name = chance.choice(_TARGETS[kind])
        further = chance.choice(["", "", *_FURTHER])
        text = repr(name)
        if chance.random() < 0.3:
            cut = chance.randrange(len(name))
            text = chance.choice(
                [f"({name[:cut]!r} + {name[cut:]!r})", f"''.join([{name[:cut]!r}, {name[cut:]!r}])",
                 f"Text({name!r})", f"{name[::-1]!r}[::-1]", f"'%s' % {name!r}"]
            )  # fmt: skip
        way = chance.choice(_WAYS)
        for mark, value in (("R", receiver), ("T", text), ("N", name), ("F", further)):
            way = way.replace(f"<{mark}>", value)
        return f"catch({way})"

    def _named_attribute(self, depth: int) -> str:
        inner, name = self.expression(depth), self.text_name()
        return self._chance.choice(
            [
                f"getattr({inner}, {name})",
                f"getattr({inner}, {name}, None)",
                f"operator.attrgetter({name})({inner})",
                f"operator.methodcaller({name})({inner})",
                f"functools.reduce(getattr, [{name}, {self.text_name()}], {inner})",
                f"list(map(getattr, [{inner}], [{name}]))",
                f"setattr({inner}, {name}, {self.expression(0)})",
                f"delattr({inner}, {name})",
                f"hasattr({inner}, {name})",
                f"vars({inner})[{name}]",
                f"vars({inner})",
                f"dir({inner})",
                f"type({inner})",
                f"object.__setattr__({inner}, {name}, {self.expression(0)})",
                f"sorted([{inner}], key=operator.attrgetter({name}))",
                f"{inner}.__dict__",
                f"super({inner}, {self.expression(0)}).{self.name()}",
            ]
        )

    def _formatted(self, depth: int) -> str:
        inner, name = self.expression(depth), self.name()
        field = self._chance.choice(
            [f"0.{name}", f"0[{name}]", f"0.{name}.{self.name()}", f"0.a[0].{name}", "0", "v"]
        )
        spec = self._chance.choice(["", "!r", "!s:>9", ":{1." + self.name() + "}", ":%Y"])
        template = "{" + field + spec + "}"
        return self._chance.choice(
            [
                f"{template!r}.format({inner}, v, v=w)",
                f"{template!r}.format_map({{'v': {inner}, '0': v}})",
                f"str.format({template!r}, {inner}, v)",
                f"operator.methodcaller('format', {inner}, v)({template!r})",
                f"list(map({template!r}.format, [{inner}]))",
                f"f'{{{inner.replace(chr(39), chr(34))}!r}}'",
                f"'%s %(a)r' % {inner}",
                f"format({inner}, {template!r})",
                f"string.Template('$a ${{b}}').substitute({inner}, a=v)",
                f"logging.getLogger('x').warning({template!r}, {inner})",
                f"print({inner}, file=Spy())",
            ]
        )

    def _compound(self, depth: int) -> str:
        one, two = self.expression(depth), self.expression(depth - 1)
        return self._chance.choice(
            [
                f"({one})[{two}]",
                f"({one}) {self._chance.choice('+-*/%@&|^')} ({two})",
                f"({one}) {self._chance.choice(['==', '<', 'in', 'is', '!='])} ({two})",
                f"[{one} for v in [{two}]]",
                f"{{v: {one} for v in [{two}] if (w := v)}}",
                f"({one} for w in [{two}])",
                f"(lambda v=({one}), *a, **k: {two})",
                f"({one} if {two} else v)",
                f"(w := ({one}))",
                f"[*[{one}], {two}]",
                f"({one}, {two})",
                f"isinstance({one}, type({two}))",
                f"copy.deepcopy({one})",
                f"copy.copy({one})",
                f"next(iter({one}))",
                f"list({one})[:3]",
                f"(await ({one}))",
                f"catch({one}, {two})",
                f"functools.partial({one}, {two})",
                f"json.dumps({one}, default=catch)",
                f"types.MethodType({one}, {two})",
                f"not ({one})",
            ]
        )

    # -- statements ------------------------------------------------------------------------------

    def block(self, depth: int) -> str:
        """Return a few statements."""
        return "\n".join(self.statement(depth) for _ in range(self._chance.randrange(1, 4)))

    def statement(self, depth: int = 2) -> str:
        """Return a statement, possibly with nested blocks."""
        if depth <= 0 or self._chance.random() < 0.4:
            return self._simple(depth)
        return self._chance.choice(_STATEMENTS)(self, depth)

    def _simple(self, _depth: int) -> str:
        one = self.expression(3)
        return self._chance.choice(
            [
                *[f"v = {one}", f"w = {one}", f"caught.append({one})"] * 4,
                f"v, *w = {one}",
                f"({one}).{self.name()} = v",
                f"del ({one}).{self.name()}",
                f"({one})[{self.expression(1)}] = v",
                f"v += {one}",
                f"for v in [{one}, w]: caught.append(v)",
                f"import {self._chance.choice([*MODULES])} as v",
                f"raise {one}",
                f"raise ValueError(v) from {one}",
                f"assert not {one}, v",
                f"del v, w\nv = w = {one}",
                f"v: {one} = w",
                f"global late\nlate = {one}",
            ]
        )

    def _import_from(self, _depth: int) -> str:
        module = self._chance.choice([*MODULES])
        name = self._chance.choice([*sorted(MODULES[module]), self.name()])
        return f"from {module} import {name} as v\ncaught.append(v)"

    def _try(self, depth: int) -> str:
        name = self._chance.choice(["Exception", "(ValueError, TypeError)", "BaseException"])
        return (
            f"try:\n{_in(self.block(depth - 1))}\nexcept {name} as e:\n"
            f"    caught.append(e)\n    v = e\n{_in(self.block(depth - 1))}\n"
            f"finally:\n    caught.append({self.expression(1)})"
        )

    def _with(self, depth: int) -> str:
        manager = self._chance.choice(["Spy()", "contextlib.ExitStack()", self.expression(2)])
        return f"with {manager} as v:\n{_in(self.block(depth - 1))}"

    def _async_with(self, depth: int) -> str:
        manager = self._chance.choice(["Spy()", "asyncio.TaskGroup()", self.expression(2)])
        return f"async with {manager} as v:\n{_in(self.block(depth - 1))}"

    def _match(self, depth: int) -> str:
        kind = self._chance.choice(["object", "Base", "Spy", "type(v)", "Exception", "Data"])
        kind = "object" if "(" in kind else kind
        pattern = self._chance.choice(
            [
                f"{kind}({self.name()}=v)",
                f"{kind}(v)",
                f"{kind}(v, {self.name()}=w)",
                "{'a': v, **w}",
                "[v, *w]",
                f"{kind}() as v",
                f"Color.{self.name()}",
                "v",
            ]
        )
        body = _in(_in(f"caught.append(v)\n{self.block(depth - 1)}"))
        return f"match {self.expression(2)}:\n    case {pattern}:\n{body}"

    def _function(self, depth: int) -> str:
        kind = self._chance.choice(["def", "async def"])
        last = self._chance.choice(["return v", "yield v", f"return {self.expression(1)}"])
        call = "w()" if kind == "def" else "await w()"
        decorator = self._chance.choice(["", f"@{self.expression(2)}\n", "@decorate\n"])
        body = _in(self.block(depth - 1) + "\n" + last)
        call = f"caught.append({call})" if "yield" not in last else "caught.append(list(w()))"
        return f"{decorator}{kind} w(v=v, *a, **k):\n{body}\n{call}"

    def _class(self, depth: int) -> str:
        chance = self._chance
        base = chance.choice(
            ["", "Base", "Spy", "Exception", "dict", "str", "int", "json.JSONEncoder", "Base, Spy",
             "enum.Enum", "typing.NamedTuple", "random.Random", "abc.ABC", "typing.Generic[T]",
             "asyncio.Queue", "collections.UserDict", "string.Template", "logging.Logger",
             "collections.defaultdict", self.expression(2)]
        )  # fmt: skip
        method = chance.choice([*sorted(DEFINABLE), "_missing_", self.name()])
        decorator = chance.choice(["", "", "@dataclasses.dataclass\n", f"@{self.expression(2)}\n"])
        body = _in(
            f"def {method}(self, *args, **options):\n    catch(self, *args, **options)\n"
            f"    v, w = self, args\n{_in(self.block(0))}\n    return {self.expression(1)}\n"
            f"{chance.choice(['', 'x: ' + self.expression(1) + ' = 1', self.block(0)])}"
        )
        use = chance.choice(["v = K()", "v = K(1)", "v = K", f"v = {self.expression(2)}"])
        tried = "".join(
            f"try: caught.append({attempt})\nexcept Exception as e: caught.append(e)\n"
            for attempt in chance.sample(_USES, 5)
        )
        return f"{decorator}class K({base}):\n{body}\n{use}\n{tried}"

    def probe(self, number: int) -> str:
        """Return one probe that the policy accepts, as a function or as module-level statements."""
        while True:
            body = self.block(2)
            asynchronous = "await " in body or "async with" in body
            text = (
                f"{'async ' * asynchronous}def probe_{number}(ctx, inputs):\n"
                f"    v = w = run_it = ctx\n{_in(body)}\n    return v\n"
            )
            if accepted(text):
                return text

    def script(self, probes: int = 30) -> str:
        """Return a whole script."""
        before, modules = prelude(self._chance)
        self._use(modules)
        parts = [self.probe(number) for number in range(probes)]
        while True:
            names = ", ".join(part.partition("def ")[2].partition("(")[0] for part in parts)
            source = f"{before}\n{''.join(parts)}\nPROBES = [{names}]\n{DETECTOR}"
            # Code accepted alone may be rejected once `json` is known to be a module.
            lines = rejected_lines(source)
            if not lines:
                return source
            line = before.count("\n") + 1
            kept = []
            for part in parts:
                end = line + part.count("\n")
                if not any(line < refused <= end for refused in lines):
                    kept.append(part)
                line = end
            if len(kept) == len(parts):
                return source
            parts = kept


_USES = ["v()", "str(v)", "repr(v)", "format(v)", "v + 1", "v == w", "v < w", "list(v)", "v[0]",
         "hash(v)", "copy.deepcopy(v)", "json.dumps(v, default=catch)", "v.a", "bool(v)", "-v",
         "sorted([v, w])", "isinstance(v, K)", "print(v)", "{v: 1}", "'{0.a} {0}'.format(v)",
         "pprint.pformat(v)", "dataclasses.asdict(v)", "vars(v)", "dir(v)", "v.missing",
         "random.choice(v)", "sum(v)", "math.floor(v)", "os.fspath(v)", "int(v)", "next(v)",
         "K._missing_(3)", "K['a']", "abs(v)", "round(v)", "v in v", "v @ v", "divmod(v, 2)",
         "contextlib.ExitStack().enter_context(v)", "''.join(v)", "set(v)", "v.encode(w)",
         "functools.total_ordering(K)", "asyncio.ensure_future(v)", "struct.pack('i', v)",
         "statistics.mean(v)", "heapq.nsmallest(1, v)",
         "traceback.format_exception(v)"]  # fmt: skip

_USEFUL = ["catch", "Spy()", "'a'", "[1, 2]", "1", "{'a': v}", "gen()", "b'a'", "lambda *a: a",
           "v", "Base", "Base()", "Data()", "Data", "'%s {0} $a'", "[Spy(), Spy()]", "coro()",
           "agen()",
           "io.StringIO('a')", "2.5", "None", "Color", "['a', 'b']", "(catch, 1)", "ctx", "Spy",
           "asyncio.ensure_future(coro())", "ValueError('x')", "datetime.datetime(2020, 1, 1)",
           "typing.Any", "list[int]", "ctx.echo", "{catch: catch}", "decimal.Decimal(1)",
           "'{\"a\": [1]}'", "'2020-01-01'", "re.compile('a')", "agen", "gen"]  # fmt: skip
_EXPRESSIONS = [
    Grammar._targeted,
    Grammar._library,
    Grammar._attribute,
    Grammar._call,
    Grammar._named_attribute,
    Grammar._formatted,
    Grammar._compound,
]
_WEIGHTS = [8, 6, 4, 6, 4, 2, 4]
_STATEMENTS = [
    Grammar._import_from,
    Grammar._try,
    Grammar._with,
    Grammar._async_with,
    Grammar._match,
    Grammar._function,
    Grammar._class,
]


def _in(text: str) -> str:
    return textwrap.indent(text, "    ")
