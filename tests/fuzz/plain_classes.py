"""Programs of classes: their methods and attributes, dataclasses, enums and subclasses."""

from __future__ import annotations

from tests.fuzz.plain_forms import Forms, indent
from tests.fuzz.plain_tables import (
    ATTEMPT,
    FIELDS,
    MEMBERS,
    NAMED_USES,
    SUBCLASSES,
    USES_OF_CLASS,
)

__all__ = ["Classes"]


class Classes(Forms):
    """Writes steps that define classes."""

    def _class(self) -> str:
        members = self._some(MEMBERS, 8)
        uses = self._some(USES_OF_CLASS, 5)
        lines = "\n".join(indent(each) for each in members)
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
    def {name}(self, *a): order.append("A"); return super().__repr__() and 1
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
attempt(lambda: {self._pick("hash(D(1)) == hash(D(1)), hash(D(1)) == hash(astuple(D(1)))", "asdict(D(1))", "astuple(D(1))", "replace(D(1), a=5)", "[(f.name, f.type, f.default, f.init, f.kw_only) for f in fields(D)]", "str(inspect.signature(D))", "setattr(D(1), 'a', 2)", "delattr(D(1), 'a')", "D(1).missing", "vars(D(1))", "copy.copy(D(1))", "copy.deepcopy(D(1))", "D.__match_args__", "D.__doc__", "D.a", "fields(D)[0]", "is_dataclass(D), is_dataclass(D(1))", "D.__annotations__", "repr(D)", "D(1) == Plain(1)", "sorted([D(2), D(1)])", "{D(1): 1}")})
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
attempt(lambda: {self._pick("k.a", "K.a", "k.b", "K.b", "k.b()", "k._a", "dict(vars(k))", "k.zzz", "delattr(k, 'a')", "k.b, k.b", "setattr(k, 'b', 1)", "K.__dict__['c']", "sorted(vars(k))", "k._a, hasattr(k, '_zzz')", "getattr(k, '_a', 0)")})
attempt(lambda: {self._pick("k.a", "K.a", "k.b", "dict(vars(k))", "k.c", "[n for n in dir(k) if n[:2] != '__']")})
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
{indent(body)}
make = lambda: {make}
try:
    v = make()
except Exception as error:
    return error
{attempts}
return found"""

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

    def _named_class(self) -> str:
        return f"""{ATTEMPT}
N = {self._pick("namedtuple('N', 'a b c', defaults=[3])", "namedtuple('N', ['a', '_b'], rename=True)", "NamedTuple('N', [('a', int), ('b', str)])", "namedtuple('N', 'a, b')", "namedtuple(typename='N', field_names=('a', 'b'))", "make_dataclass('N', ['a', ('b', int, 5)])", "Enum('N', 'a b c')", "Enum('N', {'a': 1, 'b': 2})", "type('N', (), {'a': 1, 'f': lambda self: 2})", "type('N', (Plain,), dict(b=2))", "IntEnum('N', ['a', 'b'], start=5)", "Flag('N', 'a b')", "TypedDict('N', {'a': int})", "NewType('N', int)", "TypeVar('N', int, str)", "TypeVar('N', bound=int)", "ParamSpec('N')")}
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
            "contextmanager",
            "namedtuple",
            "dataclass",
            "lru_cache",
        )
        return self._pick(f"return ({value}).nothing_here", f"({value}).nothing_here = 1¶return ({value}).nothing_here", f"del ({value}).nothing_here", f"return getattr({value}, 'nothing_here', 5)", f"return hasattr({value}, 'real'), hasattr({value}, '__call__'), hasattr({'int' if value == 'type' else value}, '__iter__')", f"return repr({value})", f"return ({value}).__doc__ is None", f"return ({value}).__name__", f"return ({value})[0]", f"return ({value})(1)", f"return ({value})()", f"return ({value}) + 1", f"return len({value})", f"return type({value})", f"return str(type({value}))", f"return bool({value})", f"return ({value}) == ({value})", f"return ({value}).__qualname__", f"return '{{0.nothing}}'.format({value})", f"return setattr({value}, 'nothing', 1)", f"return iter({value})", f"return vars({value}) and 1", f"return dir({value}) and 1", f"return hash({value}) and 1", f"with {value} as v: return v", f"return [*{value}]", f"return -({value})", f"return ({value}) < 1", f"return f'{{{value}:>30}}'", f"raise {value}", f"raise ValueError from {value}", f"try: 1 / 0¶except {value}: return 1", f"return isinstance(1, {value})", f"class X({value if value.replace('.', '').isidentifier() else 'Plain'}): pass¶return X.__name__", f"return copy.copy({value}) is ({value})", f"return json.dumps({value})", f"return callable({value})", f"return int({value})", f"return sorted({value})", f"return ({value}).__class__", f"return pformat({value})", f"return next({value})")  # fmt: skip

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
            "type",
            "re.compile('a')",
            "asyncio",
            "math",
            "[].append",
            "Plain(1).method",
            "Plain.method",
            "coroutine",
            "json.dumps",
            "ExceptionGroup('g', [ValueError()])",
        )
        return self._pick(f"return isinstance({value}, {kind})", f"return issubclass({other}, {kind})", f"return type({value}), type({value}) is {kind}", f"return type({value}) == {kind}, {kind} == {other}", f"return type({kind})", f"return repr({kind}), str({kind})", f"return {kind} | {other}", f"return ({kind}).__name__, ({kind}).__qualname__", f"return hash({kind}) == hash({kind}), {kind} in [{other}]", f"return typing.get_origin({kind}), typing.get_args({kind})", f"return list[{kind}], typing.Optional[{kind}]", f"return callable({value})", f"return inspect.isclass({value}), inspect.isfunction({value}), inspect.isbuiltin({value}), inspect.ismethod({value}), inspect.isroutine({value})", f"return repr({value})", f"return [hasattr({'int' if value == 'type' else value}, n) for n in ('__len__', '__iter__', '__call__', '__name__', '__doc__', '__hash__', '__class__')]", f"return ({value}).__class__.__name__, str(type({value}))", f"return ({value}).missing", f"return ({value}).__name__", f"return ({value})()", f"return {kind}()", f"return {kind}({value})", f"return sorted(n for n in dir({'1' if '.' in value or value in ('asyncio', 'math') else value}) if n[0] != '_' and n != 'mro' and n[:3] != 'gi_')[:8]", f"return {kind}.missing", f"{kind}.attr = 1" if kind in ("Plain", "Data", "Colour") else "return 1", f"match {value}:¶    case {kind if kind.replace('.', '').isidentifier() and kind not in ('None',) else 'int'}(): return 'yes'¶return 'no'")  # fmt: skip
