import abc, asyncio, collections, contextlib, copy, dataclasses, datetime, decimal, enum, functools
import inspect, io, json, logging, math, operator, os, random, sys, time, traceback, types, typing
import uuid, warnings
from collections.abc import Callable
from dataclasses import dataclass
from operator import setitem
from typing import Annotated, Any, ClassVar, Generic, List, Literal, Optional, TypeVar, Union

T = TypeVar("T")


def text_of(function, *args, **options):
    try:
        return repr(function(*args, **options))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@dataclass
class Node:
    name: str
    children: "list[Node]" = dataclasses.field(default_factory=list)
    _parent: "Node | None" = None


class Shape:
    sides: int = 0
    _kind: str

    def __init__(self, a: int, /, b: "str" = "x", *rest, c=1.5, **more) -> None:
        self.a = a

    def area(self, scale: float = 1.0) -> "float":
        return scale

    @classmethod
    def make(cls, n=2): ...

    @staticmethod
    def free(x, *, y=[1]): ...


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **options):
        return function(*args, **options)
    return wrapper


@logged
def decorated(a, b: int = 2) -> str:
    "Its docstring."
    return str(a)


def divide(a, b):
    return a / b


def nested(depth):
    if depth:
        return nested(depth - 1)
    raise KeyError("deep")

def case_signature():
    return [str(inspect.signature(f)) for f in (divide, decorated, Shape, Shape.area, Shape(1).area, Shape.make, Shape.free, Node, text_of)]


def case_signature_parameters():
    sig = inspect.signature(Shape)
    return [[p.name, str(p.kind), p.kind.description, p.default is p.empty,
             p.annotation is inspect.Parameter.empty] for p in sig.parameters.values()]


def case_signature_by_name():
    return [list(inspect.signature(decorated).parameters), inspect.signature(decorated).parameters['b'].default, inspect.signature(divide).return_annotation is inspect.Signature.empty]


def case_signature_bind():
    bound = inspect.signature(Shape).bind(1, "y", 2, 3, c=4, z=5)
    full = inspect.signature(decorated).bind(1)
    full.apply_defaults()
    return [bound.arguments, bound.args, bound.kwargs, full.arguments, repr(full),
            text_of(inspect.signature(divide).bind, 1), text_of(inspect.signature(divide).bind, 1, 2, 3)]


def case_signature_text():
    return [repr(inspect.signature(divide)), repr(inspect.signature(decorated).parameters['b']), str(inspect.signature(decorated).parameters['b']), repr(inspect.Parameter.empty), str(inspect.Parameter.KEYWORD_ONLY)]


def case_signature_made():
    p = inspect.Parameter("x", inspect.Parameter.KEYWORD_ONLY, default=1, annotation=int)
    sig = inspect.Signature([p.replace(name="y"), p])
    return [str(sig), sig == sig.replace(), str(sig.replace(return_annotation=None)), hash(p) == hash(p),
            text_of(inspect.Parameter, "1x", 1), text_of(setattr, p, "name", "z")[:14]]


def case_signature_partial():
    return [str(inspect.signature(functools.partial(divide, 1))), str(inspect.signature(functools.partial(decorated, b=5)))]


def case_signature_cached():
    @functools.lru_cache(maxsize=None)
    def f(a, *, b=1): ...
    class Called:
        def __call__(self, x, y=2): ...
    return [str(inspect.signature(f)), str(inspect.signature(Called())), text_of(inspect.signature, 3)]


def case_signature_class():
    class Empty: ...
    class Child(Shape): ...
    class New:
        def __new__(cls, a, b=1): return super().__new__(cls)
    Point = collections.namedtuple("Point", "x y", defaults=[1])
    return [str(inspect.signature(k)) for k in (Empty, Child, New, Point)]


def case_signature_eval():
    return str(inspect.signature(Shape.area, eval_str=True))


def case_annotations():
    return [repr(decorated.__annotations__), repr(divide.__annotations__), repr(Shape.__annotations__), repr(Shape(1).__annotations__), repr(Shape.area.__annotations__)]


def case_annotations_by_name():
    return [repr(getattr(decorated, '__annotations__')), hasattr(divide, '__annotations__'), getattr(len, '__defaults__', 'none')]


def case_defaults():
    return [decorated.__defaults__, divide.__defaults__, Shape.free.__kwdefaults__, decorated.__kwdefaults__, Shape(1).area.__defaults__]


def case_wrapped():
    @functools.cache
    def f(x): return x + 1
    return [decorated.__wrapped__(3), f.__wrapped__(1), decorated.__wrapped__.__name__,
            decorated.__name__, decorated.__doc__, hasattr(divide, "__wrapped__")]


def case_wrapped_context_manager():
    @contextlib.contextmanager
    def f(x): yield x
    return list(f.__wrapped__(2))


def case_partial():
    p = functools.partial(divide, 1, b=2)
    return [p.func is divide, p.args, p.keywords, p.func(4, 2), functools.partial(max, 1).func is max]


def case_type_hints():
    return [repr(typing.get_type_hints(f)) for f in (divide, decorated.__wrapped__, decorated, Shape, Shape.area, Shape(1).area, Node)]


def case_type_hints_forms():
    def f(a: "list[Shape]", b: List["Node"], c: "Optional[Node]", d: "dict[str, int] | None",
          e: "Literal['Node', 1]", f: Union["Node", None], g: "Annotated[int, 'unit']",
          h: "typing.Callable[[int, str], None]", i: "Callable[..., Node]", j: None = None,
          k: "tuple[int, ...]" = (), l: "tuple[()]" = (), m: "type[Shape]" = Shape,
          n: "datetime.datetime | str" = "", o: Optional["list[Node]"] = None,
          p: "None" = None) -> "Any": ...
    return [f"{k}: {v}" for k, v in typing.get_type_hints(f).items()]


def case_type_hints_extras():
    class Row(typing.TypedDict):
        a: typing.Required["Annotated[int, 'x']"]
        b: "typing.NotRequired[str]"
    def f(x: Annotated[int, "unit"]): ...
    return [repr(typing.get_type_hints(f)), repr(typing.get_type_hints(f, include_extras=True)),
            repr(typing.get_type_hints(Row)), repr(typing.get_type_hints(Row, include_extras=True))]


def case_type_hints_scopes():
    class Local: ...
    def f(x: "Local"): ...
    return [text_of(typing.get_type_hints, f), list(typing.get_type_hints(f, None, locals())) ,
            list(typing.get_type_hints(f, {"Local": int}).values()) == [int]]


def case_type_hints_inherited():
    class A(Generic[T]):
        x: T
    class B(A[int]):
        _y: "int"
        z: "str"
    return [repr(typing.get_type_hints(B)), text_of(typing.get_type_hints, 3)[:9]]


def case_context():
    try:
        try:
            divide(1, 0)
        except ZeroDivisionError:
            raise ValueError("v")
    except ValueError as error:
        first = error
    try:
        raise first from None
    except ValueError as error:
        return [repr(error.__context__), error.__cause__, error.__suppress_context__,
                repr(KeyError(1).__context__), str(ValueError().__cause__)]


def case_chain():
    found = []
    try:
        try:
            {}["a"]
        except KeyError as error:
            raise ValueError("b") from error
    except ValueError as error:
        e = error
        while e:
            found.append([type(e).__name__, e.__traceback__.tb_lineno > 0])
            e = e.__cause__ or e.__context__
    return found


def case_line_numbers():
    try:
        nested(2)
    except KeyError as error:
        tb = error.__traceback__
    lines = []
    while tb is not None:
        lines.append([tb.tb_lineno, tb.tb_frame.f_code.co_name])
        tb = tb.tb_next
    return [lines, ValueError().__traceback__]


def case_exc_info():
    before = sys.exc_info()
    try:
        divide(1, 0)
    except ZeroDivisionError:
        kind, error, tb = sys.exc_info()
        now = sys.exception()
    return [before, kind.__name__, str(error), tb.tb_lineno == error.__traceback__.tb_lineno,
            now is error, sys.exc_info()]


def case_format_exc():
    try:
        nested(1)
    except KeyError:
        return traceback.format_exc()


def case_format_exc_chain():
    try:
        try:
            divide(1,
                   0)
        except ZeroDivisionError as error:
            error.add_note("a note")
            raise ValueError("v") from error
    except ValueError as error:
        return [traceback.format_exc(), traceback.format_exception(error),
                traceback.format_exception_only(error), traceback.format_exception(ValueError("x"))]


def case_format_exc_recursion():
    def f(n):
        return f(n - 1) if n else [][1]
    try:
        f(20)
    except IndexError:
        return traceback.format_exc()


def case_extract_tb():
    try:
        nested(1)
    except KeyError as error:
        tb = error.__traceback__
    rows = traceback.extract_tb(tb)
    file, line, name, text = rows[-1]
    return [[r.filename, r.lineno, r.name, r.line] for r in rows] + [file, line, name, text,
           traceback.format_tb(tb), traceback.format_list(rows), repr(rows[0]), len(rows),
           traceback.extract_tb(tb, limit=-1)[0].name, [n for _, n in traceback.walk_tb(tb)]]


def case_logged_exception():
    stream = io.StringIO()
    logger = logging.Logger("x")
    logger.addHandler(logging.StreamHandler(stream))
    try:
        divide(1, 0)
    except ZeroDivisionError:
        logger.exception("it failed")
    return stream.getvalue()


def case_type_with_three_arguments():
    A = type("A", (), {"x": 1, "f": lambda self: self.x + 1, "_y": 3})
    B = type("B", (A, abc.ABC), {"__init__": lambda self, n: setattr(self, "n", n), "__doc__": "d"})
    b = B(5)
    return [A().f(), A()._y, b.f(), b.n, B.__doc__, A.__name__, B.__qualname__, repr(A),
            isinstance(b, A), type("E", (ValueError,), {})("x").args, type("C", (dict,), {})(a=1)]


def case_type_errors():
    return [text_of(type, 1, 2), text_of(type), text_of(type, 'A', (int, str), {})[:9]]


def case_make_dataclass():
    P = dataclasses.make_dataclass("P", ["x", ("y", int), ("z", list, dataclasses.field(default_factory=list))],
                                   namespace={"total": lambda self: self.x + self.y})
    Q = dataclasses.make_dataclass("Q", [("_h", int, 4)], bases=(P,), frozen=False, kw_only=True)
    return [repr(P(1, 2)), P(1, 2).total(), repr(Q(1, 2)), dataclasses.asdict(Q(1, 2, _h=5)),
            [f.name for f in dataclasses.fields(Q)], P(1, 2) == P(1, 2), str(inspect.signature(P))[:12],
            text_of(dataclasses.make_dataclass, "R", ["a b"]), text_of(dataclasses.make_dataclass, "R", ["a", "a"])]


def case_singledispatchmethod():
    class Neg:
        @functools.singledispatchmethod
        def neg(self, arg):
            "Negate."
            return "other"
        @neg.register
        def _(self, arg: int): return -arg
        @neg.register(bool)
        def _(self, arg): return not arg
        @neg.register(list)
        def _(self, arg): return [self.neg(each) for each in arg]
        @functools.singledispatchmethod
        @classmethod
        def named(cls, arg): return cls.__name__
        @named.register
        @classmethod
        def _(cls, arg: str): return arg + cls.__name__
    n = Neg()
    return [n.neg(3), n.neg(True), n.neg([1, "a"]), n.neg(None), Neg.named("x"), n.named(1),
            Neg.neg.__name__, n.neg.__doc__]


def case_type_kinds():
    def gen(): yield 1
    async def agen(): yield 1
    async def coro(): ...
    waiting = coro()
    waiting.close()
    return [isinstance(gen(), types.GeneratorType), isinstance(int | str, types.UnionType),
            isinstance(len, types.BuiltinFunctionType), isinstance(waiting, types.CoroutineType),
            isinstance(agen(), types.AsyncGeneratorType), isinstance(list[int], types.GenericAlias),
            repr(types.GeneratorType)]


def case_environ():
    os.environ["MY_FLAG"] = "1"
    return [os.environ.get("NO_SUCH_NAME", "x"), os.getenv("NO_SUCH_NAME"), os.getenv("NO_SUCH_NAME", "y"),
            "NO_SUCH_NAME" in os.environ, text_of(lambda: os.environ["NO_SUCH_NAME"]), os.environ["MY_FLAG"],
            os.getenv("MY_FLAG"), os.environ.pop("MY_FLAG"), text_of(os.environ.update, 3)[:9], text_of(setitem, os.environ, "a", 1),
            os.environ.setdefault("OTHER", "2"), dict(os.environ).get("OTHER")]


