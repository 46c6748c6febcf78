"""Search for powerful objects that the hooks of a script receive.

Random classes with hooks (`__init_subclass__`, `__set_name__`, `__class_getitem__`, descriptors,
reflected operators) and generated methods run on half-made classes and foreign receivers. Each
object that a frame of the script holds is walked as in `reach.py`. An object that leads to a
frame, a code object, a module or the like is a finding.

usage: python tests/fuzz/hooks.py [--minutes 10] [--scripts N] [--seed N] [--out FOLDER]

Exit status 1 if there are findings. The same seed writes the same scripts.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.fuzz.grammar import accepted  # noqa: E402  # the repository is on the path only now
from tests.fuzz.reach import Namespaces, Walk, changed, hold, namespaces, prepare  # noqa: E402  # as above

_BATCH = 25
_BATCH_SECONDS = 60

# Read on foreign receivers if an attack on a generated method or a pattern succeeds.
POWER = [
    "gi_frame", "gi_code", "cr_frame", "cr_await", "ag_frame", "f_back", "f_globals", "f_builtins",
    "tb_frame", "tb_next", "obj", "format", "mro", "func", "fget", "cell_contents", "get_loop",
    "get_coro", "get_stack", "parser", "gen", "with_traceback", "get_context",
]  # fmt: skip
PLAIN = ["a", "b", "_x", "__y", "name", "value", "args", "loads", "t", "call", "write"]
# Names passed as text: dunders, and spellings that become dunders only when normalized.
TEXT = [
    "__globals__", "__closure__", "__code__", "__subclasses__", "__self__", "__func__", "__dict__",
    "__builtins__", "_\uff3fglobals_\uff3f", "\uff3f\uff3fclass\uff3f\uff3f", "\uff47i_frame",
    "__reduce_ex__", "__class__", "__init__", "__wrapped__", "__mro__", "__getattribute__",
    "_make", "_target", "_wire", "_loop", "_coro", "__traceback__", "__init_subclass__",
]  # fmt: skip

PRELUDE = '''
import abc, asyncio, collections, contextlib, copy, dataclasses, enum, functools, inspect, json
import logging, operator, random, re, string, sys, traceback, types, typing, warnings
from dataclasses import dataclass, field, InitVar, KW_ONLY
KEPT = []
FOREIGN = []
def keep(*objects):
    KEPT.append(objects)
    return objects[0] if objects else None
class Spy:
    """Answers everything, and its frames hold whatever it is handed."""
    def __init__(self, answer=True): self.answer = answer
    def __eq__(self, other): keep(other); return self.answer
    def __lt__(self, other): keep(other); return self.answer
    def __or__(self, other): keep(other); return self
    def __ror__(self, other): keep(other); return self
    def __and__(self, other): keep(other); return self
    def __rand__(self, other): keep(other); return self
    def __add__(self, other): keep(other); return self
    def __radd__(self, other): keep(other); return self
    def __mod__(self, other): keep(other); return "x"
    def __rmod__(self, other): keep(other); return "x"
    def __contains__(self, item): keep(item); return True
    def __getitem__(self, key): keep(key); raise IndexError(key)
    def __setitem__(self, key, value): keep(key, value)
    def __getattr__(self, name): keep(name); raise AttributeError(name)
    def __call__(self, *args, **options): keep(args, options); return self
    def __get__(self, obj, owner=None): keep(obj, owner); return self
    def __set__(self, obj, value): keep(obj, value)
    def __delete__(self, obj): keep(obj)
    def __set_name__(self, owner, name): keep(owner, name); probe(owner)
    def __enter__(self): return self
    def __exit__(self, *args): keep(args); return True
    def __format__(self, spec): keep(spec); return "x"
    def __hash__(self): return 1
    def __iter__(self): return iter(())
    def __len__(self): return 1
    def __index__(self): return 1
    def __str__(self): return "a"
def gen():
    x = yield 1
def hinted(x: "X[Y]", y: "typing.List['Hooked']" = 1, *, z: "X.gi_frame" = 2) -> "Spy | None": ...
async def coro(): pass
async def agen(): yield 1
def error(function, *args):
    try:
        return function(*args)
    except BaseException as caught:
        return keep(caught)
def probe(cls):
    """Do with an unfinished class all that a hook may do."""
    for subject in FOREIGN[:]:
        try:
            cls.register(type(subject))
        except Exception:
            pass
        try:
            match subject:
                case cls(a, b): keep(a, b)
                case cls(a): keep(a)
        except Exception as caught: keep(caught)
    for act in (lambda: cls(), lambda: cls(1), lambda: cls(1, 2), lambda: repr(cls), lambda: vars(cls)):
        keep(error(act))
class Hooked:
    def __init_subclass__(cls, **options):
        keep(cls, options)
        probe(cls)
    def __class_getitem__(cls, item):
        keep(cls, item)
        return cls
class HookedABC(Hooked, abc.ABC):
    pass
'''

HARNESS = """
async def run(ctx, inputs):
    task = asyncio.current_task()
    pending = ctx.t(x=1)
    FOREIGN.extend([gen(), agen(), gen, Spy(), len, json, ctx, ctx.t, pending, task, (1, 2), {"a": 1},
        error(lambda: ctx.nothing), error(int, "x"), error(lambda: gen().nothing), type(gen()),
        functools.partial(gen), property(gen), random.random, logging.root, re.compile("a"),
        ToolError("x"), asyncio.Queue(), contextlib.ExitStack(), [].append, "".format, Hooked])
    for act in ACTS:
        keep(error(act))
    for act in ACTS_ASYNC:
        try:
            keep(await act())
        except BaseException as caught:
            keep(caught)
    pending.cancel()
"""


class Hooks:
    """Generator of scripts."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.classes: list[str] = []
        self.count = 0

    def script(self) -> str:
        """Return one script, all parts of which the policy accepts."""
        self.classes, self.count = ["Spy", "Hooked", "HookedABC"], 0
        acts: list[str] = []
        waits: list[str] = []
        while len(acts) < 14:
            text = self.act()
            if accepted(text):
                acts.append(text)
        while len(waits) < 2:
            text = self.wait()
            if accepted(text):
                waits.append(text)
        names = ", ".join(f"act_{n}" for n in range(len(acts)))
        later = ", ".join(f"wait_{n}" for n in range(len(waits)))
        parts = [_numbered(text, "act", n) for n, text in enumerate(acts)]
        parts += [_numbered(text, "wait", n) for n, text in enumerate(waits)]
        lists = f"ACTS = [{names}]\nACTS_ASYNC = [{later}]"
        return "\n".join([PRELUDE, *parts, lists, HARNESS])

    # -- parts ---------------------------------------------------------------------------------

    def field_name(self) -> str:
        """Return a name for source."""
        return self.chance.choice(self.chance.choice([POWER, PLAIN]))

    def text_name(self) -> str:
        """Return a name passed as text."""
        return repr(self.chance.choice(self.chance.choice([POWER, TEXT, TEXT, PLAIN])))

    def foreign(self) -> str:
        """Return an object that is not an instance."""
        return f"FOREIGN[{self.chance.randrange(27)}]"

    def value(self) -> str:
        """Return any expression."""
        return self.chance.choice(
            ["1", "'x'", "Spy()", "[]", "None", "gen()", "field()", "field(default=Spy())",
             "field(default_factory=Spy())", "property(Spy())", "staticmethod(Spy())",
             "functools.cached_property(Spy())", "functools.lru_cache(Spy())", "classmethod(Spy())",
             self.foreign(), "functools.partial(Spy())", "functools.singledispatch(gen)",
             "types.MappingProxyType({'a': 1})", "enum.auto()", "types.MethodType(Spy(), Spy())"]
        )  # fmt: skip

    def options(self) -> str:
        """Return options of `dataclass`."""
        names = ["frozen", "order", "slots", "kw_only", "unsafe_hash", "weakref_slot"]
        chosen = self.chance.sample(names, self.chance.randrange(4))
        off = self.chance.sample(["init", "repr", "eq", "match_args"], self.chance.randrange(2))
        return ", ".join([f"{name}=True" for name in chosen] + [f"{name}=False" for name in off])

    def statement(self) -> str:
        """Return a class statement that defines `made`."""
        chance = self.chance
        bases = ["Hooked", "HookedABC", "HookedABC", "abc.ABC", "list", "dict", "Exception", "str",
                 "typing.NamedTuple", "typing.TypedDict", "typing.Protocol", "enum.Enum", "object",
                 "typing.Generic[typing.TypeVar('T')]", "Hooked[int]", "enum.StrEnum", "tuple",
                 "json.JSONEncoder", "contextlib.ContextDecorator", "collections.UserDict",
                 "types.SimpleNamespace", "AttributeError", "collections.abc.Sequence"]  # fmt: skip
        chosen = chance.sample(bases, chance.choice([1, 1, 2, 2, 3]))
        keyword = chance.choice(["", "", ", metaclass=abc.ABCMeta", ", tag=Spy()"])
        lines = []
        if chance.random() < 0.6:
            lines.append(f"@dataclass({self.options()})")
        lines.append(f"class made({', '.join(chosen)}{keyword}):")
        for _ in range(chance.randrange(1, 5)):
            name = self.field_name()
            form = chance.choice(
                [f"{name}: int", f"{name}: int = {self.value()}", f"{name} = {self.value()}",
                 f"{name}: InitVar[int] = 1", f"{name}: KW_ONLY", f"{name}: 'ClassVar[int]' = Spy()",
                 f"__match_args__ = ({name!r},)", f"__slots__ = ({name!r},)",
                 "def __post_init__(self, *args): keep(self, args)",
                 "def __init_subclass__(cls, **o): keep(cls, o); probe(cls)",
                 "def __set_name__(self, owner, name): keep(owner, name); probe(owner)",
                 "def __get__(self, obj, owner=None): keep(obj, owner); return self",
                 "def __getattr__(self, name): keep(self, name); return Spy()",
                 "def __setattr__(self, name, value): keep(self, name, value)",
                 "def __eq__(self, other): keep(other); return True",
                 "def __new__(cls, *args): keep(cls, args); return object()",
                 "def _missing_(cls, value): keep(cls, value)",
                 "def _generate_next_value_(name, start, count, last): keep(name, start); return 1",
                 f"@functools.wraps({self.foreign()})\n    def {name}(self): keep(self)",
                 f"@property\n    def {name}(self): return keep(self)",
                 f"@contextlib.contextmanager\n    def {name}(self): yield keep(self)",
                 f"@abc.abstractmethod\n    def {name}(self): pass"]
            )  # fmt: skip
            lines.append("    " + form)
        return "\n".join(lines)

    def functional(self) -> str:
        """Return a class created by a function, bound to `made`."""
        chance = self.chance
        names = [chance.choice([self.text_name(), repr(self.field_name())]) for _ in range(2)]
        listed = ", ".join(names)
        pairs = ", ".join(f"({name}, int)" for name in names)
        table = ", ".join(f"{name}: {self.value()}" for name in names)
        return "made = " + chance.choice(
            [f"collections.namedtuple('N', [{listed}])",
             f"collections.namedtuple('N', [{listed}], defaults=[Spy()])",
             f"collections.namedtuple(Spy(), [{listed}], rename=True)",
             f"typing.NamedTuple('N', [{pairs}])",
             f"typing.TypedDict('N', {{{table}}})",
             f"enum.Enum('N', {{{table}}})",
             f"enum.Enum('N', [{listed}], type=Hooked)",
             f"enum.IntFlag('N', [{pairs.replace('int', '1')}])",
             f"typing.NewType('N', {self.foreign()})",
             f"dataclass({self.options()})(collections.namedtuple('N', [{listed}]))",
             f"dataclass({self.options()})(HookedABC)"]
        )  # fmt: skip

    def use(self) -> str:
        """Return an operation with `made` and a foreign object."""
        foreign, other, name = self.foreign(), self.foreign(), self.text_name()
        method = self.chance.choice(
            ["__init__", "__repr__", "__eq__", "__lt__", "__hash__", "__setattr__", "__delattr__",
             "__iter__", "__getitem__", "__get__", "__set__", "__new__", "__enter__", "__exit__",
             "__call__", "__contains__", "__post_init__", "__copy__", "__deepcopy__", "__getattr__",
             "__set_name__", "__init_subclass__", "__class_getitem__"]
        )  # fmt: skip
        attr = self.field_name()
        return self.chance.choice(
            [f"made.{method}({foreign})", f"made.{method}({foreign}, {other})",
             f"made.{method}({foreign}, {name}, Spy())", f"getattr(made, {name})",
             f"made._make([{foreign}])", f"made._asdict({foreign})", f"made._replace({foreign}, a=1)",
             f"made.{attr}", f"made().{attr}", f"made(1, 2).{attr}", f"setattr(made, {name}, Spy())",
             f"setattr({foreign}, {name}, Spy())", f"getattr({foreign}, {name})",
             f"delattr({foreign}, {name})", f"hasattr({foreign}, {name})",
             f"operator.attrgetter({name})({foreign})", f"operator.methodcaller({name})({foreign})",
             f"'{{0.{attr}}}'.format({foreign})", f"('{{0.' + {name} + '}}').format({foreign})",
             f"string.Template('$a').substitute({foreign})", f"f'{{{foreign}}}'",
             f"copy.copy({foreign})", f"copy.deepcopy({foreign}, {{}})", "copy.deepcopy(made(1))",
             f"dataclasses.replace({foreign}, a=1)", "dataclasses.asdict(made(1), dict_factory=Spy())",
             f"dataclasses.astuple(made({foreign}))", f"dataclasses.fields({foreign})",
             f"dataclasses.is_dataclass({foreign})", f"typing.get_args({foreign})",
             f"isinstance({foreign}, made)", f"issubclass(type({foreign}), made)",
             f"made.register(type({foreign}))", f"vars({foreign})", "vars(made(1))", f"dir({foreign})",
             f"{foreign} == Spy()", f"Spy() == {foreign}", f"{foreign} | Spy()", f"Spy() | {foreign}",
             f"{foreign} + Spy()", f"{foreign} % Spy()", f"Spy() in {foreign}", f"{foreign} < Spy()",
             f"sorted([Spy(), {foreign}], key=Spy())", f"json.dumps({foreign}, default=Spy())",
             "json.loads('{\"a\": 1}', object_hook=Spy())", "re.sub('a', Spy(), 'aa')",
             f"functools.reduce(Spy(), [{foreign}, {other}])", f"functools.update_wrapper(gen, {foreign})",
             f"functools.update_wrapper({foreign}, Spy())", f"functools.singledispatch({foreign})",
             f"types.MethodType({foreign}, Spy())", "types.MappingProxyType({'a': 1}) == Spy()",
             "types.MappingProxyType({'a': 1}) | Spy()", "made.__members__ == Spy()",
             f"type({foreign})({other})", f"type({foreign})(Spy(), Spy())", f"type({foreign})()",
             f"inspect.isfunction({foreign})", f"repr({foreign})", f"type(type({foreign}))",
             f"warnings.warn(Spy(), {foreign})", f"logging.warning(Spy(), {foreign})",
             f"functools.total_ordering({foreign})", f"functools.cached_property(Spy()).__get__({foreign})",
             f"contextlib.contextmanager({foreign})()", f"contextlib.ExitStack().push({foreign})",
             f"{foreign}.throw(ValueError)", f"{foreign}.send(Spy())", f"sum([{foreign}], Spy())",
             f"made.{attr}.__get__({foreign})", f"super(made, made(1)).{attr}",
             f"map(Spy(), [{foreign}]) and list(map(Spy(), [{foreign}]))", f"max([{foreign}], key=Spy())",
             f"match_it({foreign}, made)",
             f"inspect.signature({foreign})", "inspect.signature(made)", f"inspect.signature(made.{attr})",
             f"inspect.signature(gen).bind({foreign}).args", "str(inspect.signature(made))",
             f"inspect.Parameter({name}, 1, default=Spy(), annotation={foreign})",
             f"typing.get_type_hints({foreign})", "typing.get_type_hints(made)",
             f"typing.get_type_hints(hinted, {{'X': {foreign}}}, Spy())", f"{foreign}.__annotations__",
             f"{foreign}.__defaults__", f"{foreign}.__wrapped__", f"{foreign}.__context__",
             f"{foreign}.__traceback__.tb_frame", f"error(lambda: {foreign}.x).__traceback__.tb_next",
             f"traceback.extract_tb(error(lambda: {foreign}.x).__traceback__)", "sys.exc_info()",
             f"traceback.format_exception(error(lambda: {foreign}.x))", f"traceback.format_list([{foreign}])",
             f"functools.wraps({foreign})(lambda: 1).__wrapped__", f"functools.partial({foreign}).func",
             f"functools.singledispatchmethod({foreign})", f"functools.singledispatchmethod(gen).register({foreign}, Spy())",
             f"functools.singledispatchmethod(Spy()).__get__({foreign}, made)",
             f"type('T', (made,), {{{name}: {foreign}}})", f"type('T', (Hooked,), {{{name}: Spy()}})()",
             f"type('T', (type({foreign}),), {{}})", f"dataclasses.make_dataclass('M', [({name}, Spy())])",
             f"dataclasses.make_dataclass('M', ['a'], bases=(made,), namespace={{{name}: {foreign}}})(1)", "enum.unique(made)", f"made[{name}]", "made['a']"]
        )  # fmt: skip

    def act(self) -> str:
        """Return a function body that creates a class and uses it."""
        chance = self.chance
        body = chance.choice([self.statement, self.statement, self.functional])()
        uses = [f"keep(error(lambda: {self.use()}))" for _ in range(chance.randrange(2, 6))]
        name = self.field_name()
        pattern = chance.choice(["made(a)", "made(a, b)", f"made({name}=a)", "[a, *b]", "{'a': a}"])
        matching = (
            "def match_it(subject, made):\n    match subject:\n"
            f"        case {pattern}:\n            keep(a)"
        )
        later = "class Sub(made, Hooked): pass\nprobe(Sub)" if chance.random() < 0.4 else ""
        return "\n".join(filter(None, [matching, body, *uses, later]))

    def wait(self) -> str:
        """Return the body of a coroutine."""
        foreign = self.foreign()
        return self.chance.choice(
            [f"keep(await {foreign})", "async with Spy() as x: keep(x)",
             f"async for x in {foreign}: keep(x)", f"keep(await asyncio.gather({foreign}, coro()))",
             "t = asyncio.create_task(coro()); t.add_done_callback(Spy()); await asyncio.sleep(0)",
             f"await asyncio.wait_for({foreign}, 1)", f"keep(await asyncio.wait([{foreign}]))",
             "t = asyncio.create_task(coro()); t.cancel(Spy()); await t",
             "async with asyncio.timeout(Spy()): await coro()",
             f"for x in asyncio.as_completed([{foreign}]): keep(x)",
             f"async with asyncio.TaskGroup() as g: keep(g, g.create_task({foreign}))",
             f"keep(await asyncio.shield({foreign}))", "await ctx_call()"]
        )  # fmt: skip


def _numbered(text: str, kind: str, number: int) -> str:
    word = "async def" if kind == "wait" else "def"
    body = "\n".join(f"    {line}" for line in text.splitlines())
    return f"{word} {kind}_{number}():\n{body}"


# --- running ----------------------------------------------------------------------------------


def _batch(
    runtime: Any, walk: Walk, before: Namespaces, sources: list[tuple[int, str]]
) -> dict[str, Any]:
    """Run scripts in a fork of the sealed process, isolated from each other."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(_BATCH_SECONDS)
        found, seen, ended = [], 0, Counter[str]()
        for number, source in sources:
            walk.reached.clear()
            known = len(walk.seen)
            ended[hold(runtime, source, str(number), walk)] += 1
            walk.run(1_000_000)
            seen += len(walk.seen) - known
            wrong = walk.reached[:20] + [("", f"{name} was changed") for name in changed(before)]
            if wrong:
                found.append([number, wrong])
        with os.fdopen(write, "w") as file:
            file.write(json.dumps({"found": found, "seen": seen, "ended": ended}))
        os._exit(0)
    os.close(write)
    received = b""
    while select.select([read], [], [], _BATCH_SECONDS + 5)[0]:
        chunk = os.read(read, 1 << 16)
        if not chunk:
            break
        received += chunk
    os.close(read)
    _, status = os.waitpid(child, 0)
    answer: dict[str, Any] = (
        json.loads(received) if received else {"found": [], "seen": 0, "ended": {}}
    )
    if status:
        answer["ended"][f"batch killed by signal {os.WTERMSIG(status)}"] = 1
    return answer


def fuzz(options: argparse.Namespace) -> int:
    """Run until time or scripts are used up; return the number of scripts with a finding."""
    hooks = Hooks(Random(options.seed))
    runtime = prepare(options.keep)
    walk = Walk()
    hold(runtime, hooks.script(), "first", walk)
    walk.run(1_000_000)
    before = namespaces()
    counts: Counter[str] = Counter()
    found = seen = number = 0
    started = time.monotonic()
    while number < options.scripts and time.monotonic() - started < options.minutes * 60:
        count = min(_BATCH, options.scripts - number)
        sources = [(number + index, hooks.script()) for index in range(count)]
        answer = _batch(runtime, walk, before, sources)
        number += count
        seen += answer["seen"]
        counts.update(answer["ended"])
        for at, reached in answer["found"]:
            found += 1
            _keep(options.out, f"{options.seed}-{at}", dict(sources)[at], reached)
    used = time.monotonic() - started
    _say(f"seed {options.seed}: {number} scripts, {seen} objects in {used:.0f} s; {dict(counts)}")
    _say(f"  scripts with a finding: {found}" + (f", in {options.out}" if found else ""))
    return found


def _keep(folder: str, name: str, source: str, reached: list[list[str]]) -> None:
    head = "".join(f"# {what} <- {path}\n" for path, what in reached)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{name}.py"), "w", errors="backslashreplace") as file:
        file.write(head + source)
    _say(f"{name}: {reached[0][1]} <- {reached[0][0]}")


def _say(text: str) -> None:
    sys.stdout.write(text.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--scripts", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--out", default="hook-findings")
    parser.add_argument("--keep", action="append", default=[], help="leave this in reach")
    return 1 if fuzz(parser.parse_args()) else 0


if __name__ == "__main__":
    sys.exit(main())
