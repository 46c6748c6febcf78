# Calls every name of every module with ordinary arguments. None may reach the kernel layer.
# The test writes the imports and the list MODULES above this line; inputs: {"methods": bool}.
import asyncio, datetime, io

# They end the script or wait for ever, which is what they are for.
SKIPPED = {"exit", "sleep", "wait", "input", "setrecursionlimit", "cycle", "count", "repeat"}
SKIPPED_METHODS = {*SKIPPED, "run", "run_forever", "samples", "stop", "zfill", "ljust", "rjust", "center", "rotate", "expandtabs", "from_iterable"}


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


def sweep():
    calls = 0
    for module in MODULES:
        for name in dir(module):
            if name in SKIPPED:
                continue
            try:
                value = getattr(module, name)
            except Exception:
                continue
            show(module.__name__, name, value)
            if not callable(value):
                continue
            for args in shapes():
                calls += 1
                try:
                    made = value(*args)
                    if type(made) not in found:
                        found[type(made)] = made
                        show(module.__name__, name, made)
                    repr(made)
                    if callable(made) and calls % 3 == 0:
                        made(1)
                except Exception as error:
                    text = f"{type(error)} {error}"
                    if "ptc." in text:
                        leaked.add(f"{module.__name__}.{name}: {text}")
    return calls


def show(*where):
    for text in (repr(where[-1]), str(where[-1]), repr(type(where[-1]))):
        if "ptc." in text:
            leaked.add(f"{where[0]}.{where[1]}: {text}")


# Texts that show the implementation of a module.
leaked = set()
# One object of each type that the modules make, by type.
found = {}


def sweep_methods():
    calls = 0
    for made in [*found.values(), *[value for module in MODULES for value in vars_of(module) if isinstance(value, type)]]:
        for name in dir(made):
            if name in SKIPPED_METHODS or name.startswith("_"):
                continue
            for args in shapes():
                if 10**30 in args:  # a power of it takes for ever
                    continue
                try:
                    method = getattr(made, name)
                    if not callable(method):
                        break
                    calls += 1
                    repr(method(*args))
                except (Exception, asyncio.CancelledError):
                    pass
    return calls


def vars_of(module):
    for name in dir(module):
        try:
            yield getattr(module, name)
        except Exception:
            continue


async def inside(ctx, inputs):
    return sweep()


async def methods_inside(ctx, inputs):
    return sweep_methods()


def run(ctx, inputs):
    counts = [sweep(), asyncio.run(inside(ctx, inputs))]
    if inputs["methods"]:
        counts += [sweep_methods(), asyncio.run(methods_inside(ctx, inputs))]
    return [counts, sorted(leaked)]
