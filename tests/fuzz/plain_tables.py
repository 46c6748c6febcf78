"""Definitions that every program of the plain fuzzer has, and tables of its forms."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ATTEMPT",
    "BINARY",
    "DEFINITIONS",
    "ERRORS",
    "FIELDS",
    "MEMBERS",
    "NAMED_USES",
    "RAISING",
    "SPECS",
    "SUBCLASSES",
    "USES_OF_CLASS",
    "VALUES",
]

DEFINITIONS: Final = '''
class Plain:
    """A plain class."""
    kind = "plain"
    def __init__(self, x=0, *rest, **options):
        self.x = x
    def method(self, a, b=2, /, c=3, *, d=4):
        return (self.x, a, b, c, d)
    def __repr__(self):
        return f"Plain({self.x!r})"

@dataclasses.dataclass(order=True)
class Data:
    x: int
    y: list = dataclasses.field(default_factory=list)
    _z: str = "z"

@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: object = None

class Slotted:
    __slots__ = ("x", "_y")
    def __init__(self, x):
        self.x = self._y = x

class Colour(enum.Enum):
    RED = 1
    BLUE = "b"

class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()

class Number(enum.IntEnum):
    ONE = 1
    TWO = 2

class Word(enum.StrEnum):
    X = enum.auto()

Pair = collections.namedtuple("Pair", "a b")

class Named(typing.NamedTuple):
    a: int
    b: int = 2

def function(a, b: int = 1, *args, c="c", **options) -> str:
    """Doc."""
    return (a, b, args, c, options)

def generator():
    got = yield 1
    yield got
    return 3

def Parsed():
    parser = configparser.ConfigParser()
    parser.read_string("[s]\\nk = v\\nn = 3\\nb = yes\\n")
    return parser

def show(value, depth=3):
    kind = type(value).__name__
    if depth == 0:
        return kind
    if isinstance(value, BaseException):
        return [kind, str(value), [show(each, depth - 1) for each in value.args],
                show(value.__cause__, 1)]
    if isinstance(value, (set, frozenset)):
        return [kind, sorted(map(repr, value))]
    if isinstance(value, dict):
        return [kind, [(show(a, depth - 1), show(b, depth - 1)) for a, b in value.items()]]
    if isinstance(value, (list, tuple)):
        return [kind, repr(value), [show(each, depth - 1) for each in value]]
    if isinstance(value, type):
        if issubclass(value, type):
            return ["class", "type"]  # a script sees no metaclass
        return ["class", repr(value), value.__name__, value.__qualname__]
    if hasattr(value, "__next__") and hasattr(value, "__iter__"):
        return [kind, [show(each, depth - 1) for each in itertools.islice(value, 8)]]
    return [kind, repr(value)]

def step(number, act):
    try:
        print(number, show(act()))
    except Exception as error:
        print(number, "raises", show(error))
'''

VALUES = [
    "0", "1", "-3", "2.5", "'text'", "'a-b'", "b'x'", "None", "True", "[]", "[3, 1, 2]", "(1, 2)", "{'k': 1}", "{1, 2}",
    "range(3)", "Plain(1)", "Data(1)", "Colour.RED", "Pair(1, 2)", "Number.TWO", "Frozen(1, 2)", "Decimal('1.5')", "Fraction(1, 3)",
    "date(2024, 2, 29)", "timedelta(1)", "Counter('aab')", "deque([1, 2])", "function", "Plain", "int", "...", "ValueError('v')",
    "Slotted(1)", "Flags.A", "Word.X", "2+1j", "iter([1, 2])", "generator()", "lambda: 1", "Path('a/b')", "OrderedDict(a=1)", "ChainMap({'a': 1})",
    "SimpleNamespace(q=1)", "partial(int, base=2)", "object()", "namedtuple('N', 'p q')(1, 2)", "bytearray(b'xy')", "frozenset([1])", "1 << 70", "-0.0",
]  # fmt: skip
SPECS = ["", ">8", "<8", "^+9.2f", "08.3f", "x", "#o", ",", "_d", ".3", "%", "e", "!r", "%Y", "c", "s", ">>", "=5", "z.1f", "n", "{w}"]  # fmt: skip
BINARY = ["+", "-", "*", "/", "//", "%", "@", "&", "|", "^", "<<", ">>", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "is", "and", "or"]  # fmt: skip
ERRORS = ["ValueError", "KeyError", "TypeError", "ZeroDivisionError", "AttributeError", "IndexError",
           "LookupError", "OSError", "StopIteration", "RuntimeError", "Mine", "Exception", "AssertionError",
           "NameError", "UnboundLocalError", "RecursionError", "ArithmeticError", "NotImplementedError",
           "FrozenInstanceError", "CancelledError", "InvalidOperation"]  # fmt: skip
RAISING = [
    "1 / 0", "[][1]", "{}['k']", "int('x')", "None.a", "missing_name", "'a' + 1", "next(iter([]))", "Plain().q", "len(1)", "Plain(1)(2)",
    "function()", "function(1, a=2)", "Plain.method()", "Plain(1).method(1, 2, 3, 4)", "Data()", "Data(1, 2, 3, 4)", "Data(q=1)", "Frozen(1).a.b",
    "Colour('q')", "Colour['Q']", "Colour.Q", "Pair(1)", "Pair(1, 2, 3)", "Pair(a=1, c=2)", "Named()", "Slotted()", "Slotted(1).q", "Decimal('q')", "Fraction(1, 0)",
    "date(2024, 13, 1)", "datetime.fromisoformat('q')", "json.loads('{')", "re.compile('(')", "(lambda x: x)()", "[] < 1", "sorted([1, 'a'])", "max([])", "abs('a')",
    "'%d' % 'x'", "'%s %s' % (1,)", "'{} {}'.format(1)", "'{a}'.format(b=1)", "f'{1:q}'", "{[]: 1}", "hash([])", "int([])", "float('q')", "complex('q')", "chr(-1)", "ord('ab')",
    "b'a' + 'a'", "'a'.encode('q')", "b'\\xff'.decode()", "'a'.join([1])", "''.index('a')", "[].index(1)", "[].pop()", "{}.popitem()", "set().pop()", "(1,).index(2)",
    "range(1, 2, 0)", "slice(1, 2)[0]", "1 in 2", "iter(1)", "reversed({1})", "zip(1)", "map(1)", "map(1, [1])and list(map(1, [1]))", "isinstance(1, 1)", "issubclass(1, int)", "round('a')",
    "pow(2, -1, 4)", "divmod(1, 0)", "1 % 0", "0 ** -1", "1.5 << 2", "-'a'", "~1.5", "super()", "super(Plain, 1)", "type('a', 1, {})", "type()", "object(1)", "print(1, q=2)", "print(sep=1)",
    "sum(['a'])", "sum(1)", "min()", "enumerate()", "getattr(1)", "getattr(1, 2)", "setattr(1, 'a', 2)", "setattr(Frozen(1), 'a', 2)", "delattr(Plain(1), 'q')", "vars(1)", "dir(1, 2)", "property().q",
    "(yield_ for yield_ in 1)", "[x for x in 1]", "{**1}", "{**{1: 2}, **[]}", "function(*1)", "function(**1)", "function(**{1: 2})", "[*1]", "a, b = 1"[5:], "deque(maxlen=-1)", "deque([1]).remove(2)", "Counter(1)",
    "Counter(a='x').total()", "defaultdict(1)", "ChainMap({})['q']", "OrderedDict().popitem()", "OrderedDict(a=1).move_to_end('q')", "reduce(lambda a, b: a, [])", "partial()", "partial(1)", "lru_cache(maxsize='q')(1)", "cmp_to_key(1)(2) < 3",
    "asyncio.run(1)", "asyncio.run(function)", "Path(1)", "Path('a') / 1", "Path('a').relative_to('b')", "Path('a').with_suffix('b')", "Template('$x').substitute()", "Template('$').substitute()", "textwrap.wrap('a', 0)", "textwrap.shorten('a b', 1, placeholder='...')",
    "statistics.mean([])", "statistics.mode([])", "statistics.stdev([1])", "math.sqrt(-1)", "math.log(0)", "math.factorial(-1)", "math.factorial(1.5)", "math.gcd(1.5)", "math.comb(1)", "heapq.heappop([])", "bisect.bisect([1], 'a')", "random.choice([])", "random.randint(2, 1)",
    "random.sample([1], 2)", "operator.add(1)", "operator.itemgetter()", "operator.itemgetter(1)([])", "operator.attrgetter('q')(1)", "operator.methodcaller('q')(1)", "operator.attrgetter(1)", "copy.copy(generator())", "copy.deepcopy(generator())", "dataclasses.asdict(1)", "dataclasses.replace(Data(1), q=2)",
    "dataclasses.fields(1)", "dataclasses.field(default=1, default_factory=list)", "inspect.signature(1)", "typing.cast(1)", "typing.Optional[1, 2]", "list[int]()[0]", "int[str]", "typing.List[int]('ab')and 1", "typing.Any()", "typing.Union[()]", "typing.NewType('N', int)('q') + 1", "enum.Enum('E', 'a a')",
    "namedtuple('N', 'a a')", "namedtuple('N', 'class')", "namedtuple('N', '_a')", "namedtuple('1', 'a')", "ExceptionGroup('g', [])", "ExceptionGroup('g', [1])", "ExceptionGroup(1, [ValueError()])", "ast.parse('1 +')", "tomllib.loads('a')", "configparser.ConfigParser().get('a', 'b')", "ElementTree.fromstring('<a>')",
    "base64.b64decode('a')", "bytes.fromhex('q')", "struct.pack('i', 'a')", "struct.unpack('i', b'a')", "zlib.decompress(b'a')", "gzip.decompress(b'a')", "bz2.decompress(b'a')", "hashlib.new('q')", "csv.reader(1)", "next(csv.reader([1]))", "uuid.UUID('q')", "ipaddress.ip_address('q')", "urlparse(1)",
    "contextvars.ContextVar('v').get()", "contextvars.ContextVar(1)", "queue.Queue().get_nowait()", "weakref.ref(1)", "codecs.lookup('q')", "unicodedata.name('\\0')", "time.strptime('q', '%Y')", "datetime.strptime('2024', '%Y-%m')", "datetime(1, 1, 1) - timedelta(1)", "date.today() < 1", "timedelta(1) / 0",
    "logging.getLogger(1)", "logging.getLevelName([])", "logging.Logger('x').setLevel('q')", "warnings.warn(1, 2)", "warnings.simplefilter('q')", "suppress(1)(2)", "ExitStack().enter_context(1)", "nullcontext().q", "closing(1).__enter__().q", "threading.Thread(1)", "threading.Lock().release()", "threading.RLock().release()",
]  # fmt: skip


ATTEMPT = """found = []
def attempt(act):
    try:
        found.append(act())
    except Exception as error:
        found.append(error)"""
MEMBERS = [
    "def __repr__(self): return f'<A {self.x}>'", "def __str__(self): return 'str'", "def __eq__(self, o): return NotImplemented", "def __eq__(self, o): return self.x == getattr(o, 'x', o)", "def __hash__(self): return 7", "def __lt__(self, o): return self.x < o.x", "def __add__(self, o): return ('add', o)",
    "def __radd__(self, o): return ('radd', o)", "def __iadd__(self, o): self.x = o; return self", "def __len__(self): return self.x", "def __len__(self): return -1", "def __bool__(self): return self.x", "def __iter__(self): yield from [1, 2]", "def __iter__(self): return 5", "def __getitem__(self, k): return k", "def __getitem__(self, k): raise IndexError(k)", "def __setitem__(self, k, v): self.x = (k, v)",
    "def __contains__(self, o): return o == 1", "def __call__(self, *a, **k): return (a, k)", "def __getattr__(self, n): return n", "def __getattr__(self, n): raise AttributeError(n)", "def __enter__(self): return 5", "def __exit__(self, *a): return True", "def __format__(self, s): return s * 2", "def __index__(self): return 3", "def __int__(self): return 'x'", "def __float__(self): return 1.5", "def __neg__(self): return -self.x", "def __copy__(self): return 'copy'",
    "@property¶def p(self): return self.x", "@property¶def p(self): return self._p¶@p.setter¶def p(self, v): self._p = v", "@p_.setter¶def q(self, v): pass" if False else "q = property(lambda self: self._p, doc='d')", "@classmethod¶def make(cls, *a): return cls(*a)", "@staticmethod¶def s(a, b=1): return a, b", "def m(self, a, /, b, *, c=1): return a, b, c", "def __private(self): return 9¶def call(self): return self.__private()", "__slots__ = ('x', '_p', '__q')", "__match_args__ = ('x', 'p')", "x: int = 5", "_hidden = 4", "__mangled = 6",
    "class Inner:¶    y = 1¶    def f(self): return super().__repr__ and 2", "def __init_subclass__(cls, **k): cls.sub = k", "def __class_getitem__(cls, k): return (cls.__name__, k)", "def __set_name__(self, o, n): pass", "def __missing__(self, k): return ('missing', k)", "def __reversed__(self): return [3]", "def __round__(self, n=None): return n", "def __matmul__(self, o): return 'mat'", "def __getattr__(self, n): return self.nope", "async def co(self): return 4", "def gen(self): yield self.x", "def __next__(self): raise StopIteration", "def __bytes__(self): return b'b'", "def __fspath__(self): return 'path'", "def __complex__(self): return 1j", "def __new__(cls, *a, **k): return super().__new__(cls)", "def __new__(cls, *a, **k): return 5", "def __setattr__(self, n, v): super().__setattr__(n, v)", "def __repr__(self): return 5", "def __str__(self): raise KeyError('s')", "def __hash__(self): return 'x'", "__hash__ = None",
]  # fmt: skip
USES_OF_CLASS = [
    "make()", "str(make())", "make() == make()", "isinstance(hash(make()), int)", "make() < make()", "make() + 1", "1 + make()", "len(make())", "bool(make())", "list(make())", "make()['k']", "make()[0]", "1 in make()", "make()(1, k=2)", "make().missing", "make().p", "setattr(m := make(), 'p', 3), m.p", "A.make(1)", "A.make().x", "A.s(1)", "make().s()", "make().m(1, 2)", "make().m(1, b=2, c=3)", "make().m(a=1, b=2)", "make().m()", "make().call()", "make()._p", "make()._hidden, A._hidden",
    "make().__q", "vars(make())", "[n for n in dir(make()) if n[:1] != '_']", "f'{make():ab}'", "f'{make()!r}'", "int(make())", "float(make())", "[1, 2, 3, 4][make()]", "-make()", "round(make(), 1)", "reversed(make())", "copy.copy(make())", "copy.deepcopy(make())", "A[int]", "A.Inner().f(), A.Inner.__qualname__", "A.__name__, A.__qualname__, A.__doc__", "repr(A), repr(A.m) if hasattr(A, 'm') else 0", "isinstance(make(), A)", "type(make()).__name__", "callable(make())", "next(make())", "bytes(make())", "{make(): 1}", "make() @ 2", "json.dumps(make())", "os.fspath(make())", "delattr(make(), 'x')",
    "setattr(make(), 'y', 1)", "make().y", "getattr(make(), '_p', None), getattr(make(), 'zz', 'd')", "hasattr(make(), '_hidden'), hasattr(make(), 'q')", "asyncio.run(make().co())", "list(make().gen())", "sum([make()], 0)", "sorted([make(), make()])", "max(make(), make())", "A.x", "A.p", "A.p.fget and 1", "make().x", "A.__annotations__", "type('B', (A,), {})()", "A()", "A(1, 2, 3)", "A(nope=1)", "str(inspect.signature(A))", "(lambda: (_ for _ in make()))()", "pformat(make())", "make().__class__.__name__", "abs(make())", "iter(make())", "'%s' % make()", "'{}'.format(make())", "'{0.x}'.format(make())", "set([make(), make()]) and 1", "operator.attrgetter('_p')(make())", "make()._A__q", "A._A__mangled", "with_(make())", "raise_(make())", "format(make())",
]  # fmt: skip
FIELDS = ["a: int", "a: object = 1", "b: str = 'x'", "c: list = field(default_factory=list)", "d: int = field(default=2, repr=False)", "e: InitVar[int] = 3", "f: int = field(init=False, default=4)", "g: 'int' = 5", "h: int = field(kw_only=True, default=6)", "_: KW_ONLY", "i: list = []", "j: float = field(default=1.5, compare=False, hash=True)", "_k: int = 7", "l: int = field(metadata={'m': 1}, default=0)", "m: ClassVar[str] = 'cv'"]  # fmt: skip
SUBCLASSES = [
    ("dict", "def __missing__(self, k): return k", "S(a=1)"), ("list", "def method(self): return len(self)", "S([3, 1])"), ("int", "def __add__(self, o): return 'added'", "S(5)"), ("str", "def method(self): return self.upper()", "S('ab')"), ("tuple", "def __new__(cls, *a): return super().__new__(cls, a)", "S(1, 2)"), ("set", "pass", "S([1])"), ("float", "pass", "S(1.5)"), ("bytes", "pass", "S(b'a')"), ("frozenset", "pass", "S([1])"), ("complex", "pass", "S(1)"), ("bytearray", "pass", "S(b'a')"),
    ("Counter", "def method(self): return self.total()", "S('aab')"), ("OrderedDict", "pass", "S(a=1)"), ("defaultdict", "pass", "S(list)"), ("deque", "pass", "S([1], 2)"), ("UserDict", "def __setitem__(self, k, v): super().__setitem__(k, (v,))", "S(a=1)"), ("UserList", "pass", "S([1])"), ("ChainMap", "pass", "S({'a': 1})"), ("Decimal", "def method(self): return self.sqrt()", "S('4')"), ("Fraction", "pass", "S(1, 2)"), ("date", "def method(self): return self.year", "S(2024, 2, 29)"), ("datetime", "pass", "S(2024, 2, 29)"), ("timedelta", "pass", "S(1)"),
    ("Exception", "def __init__(self, code, *a): super().__init__(code, *a); self.code_ = code", "S(1, 'a')"), ("ValueError", "def __str__(self): return 'custom'", "S('v')"), ("OSError", "pass", "S(2, 'no', 'file')"), ("KeyError", "pass", "S('k')"), ("SimpleNamespace", "pass", "S(a=1)"), ("Template", "delimiter = '%'", "S('%x')"), ("json.JSONEncoder", "def default(self, o): return repr(o)", "S()"), ("json.JSONEncoder", "def default(self, o): return super().default(o)", "S()"), ("random.Random", "pass", "S(3).random() and S(3)"), ("threading.Thread", "def run(self): self.n = 4", "S(name='S')"), ("queue.Queue", "pass", "S(1)"), ("logging.Handler", "def emit(self, record): print(record.getMessage())", "S()"), ("logging.Formatter", "def format(self, r): return 'f'", "S()"), ("logging.Filter", "pass", "S('a')"), ("AbstractContextManager", "def __exit__(self, *a): return True", "S()"), ("ContextDecorator", "def __enter__(self): return self¶def __exit__(self, *a): return False", "S()"), ("ExitStack", "pass", "S()"),
    ("collections.abc.Mapping", "def __getitem__(self, k): return {'a': 1}[k]¶def __iter__(self): return iter('a')¶def __len__(self): return 1", "S()"), ("collections.abc.Sequence", "def __getitem__(self, i): return [1, 2][i]¶def __len__(self): return 2", "S()"), ("collections.abc.MutableSet", "def __contains__(self, x): return x == 1¶def __iter__(self): yield 1¶def __len__(self): return 1¶def add(self, x): pass¶def discard(self, x): pass", "S()"), ("collections.abc.Iterator", "def __next__(self): raise StopIteration", "S()"), ("collections.abc.Sequence", "pass", "S()"), ("numbers.Number", "pass", "S()"), ("ast.NodeVisitor", "def visit_Name(self, n): return n.id", "S()"), ("configparser.ConfigParser", "def optionxform(self, s): return s.upper()", "S()"), ("enum.Enum", "A = 1¶B = 2", "S.A"), ("enum.IntFlag", "A = 1¶B = 2", "S.A | S.B"), ("Generic[T]", "pass", "S()"), ("typing.Protocol", "def method(self): ...", "S()"), ("csv.excel", "delimiter = ';'", "S()"), ("tzinfo", "def utcoffset(self, d): return timedelta(hours=1)", "S()"), ("Plain", "def method(self, *a): return super().method(*a)", "S(3)"), ("Data", "pass", "S(3)"), ("Frozen", "pass", "S(3)"), ("Pair", "def method(self): return self.a", "S(1, 2)"), ("Named", "pass", "S(1)"), ("Slotted", "pass", "S(3)"), ("Slotted", "__slots__ = ('more',)", "S(3)"), ("Colour", "pass", "S()"), ("bool", "pass", "S()"), ("type(None)", "pass", "S()"), ("range", "pass", "S(2)"), ("slice", "pass", "S(1)"), ("property", "pass", "S(len)"), ("StopIteration", "pass", "S(3)"), ("UnicodeDecodeError", "pass", "S('utf-8', b'x', 0, 1, 'r')"), ("Warning", "pass", "S('w')"), ("contextvars.ContextVar", "pass", "S('v')"), ("re.Pattern", "pass", "S()"), ("function", "pass", "S()"), ("lambda: 1", "pass", "S()"), ("1", "pass", "S()"), ("int | str", "pass", "S()"), ("list[int]", "pass", "S([1])"), ("typing.List[int]", "pass", "S([1])"), ("typing.Any", "pass", "S()"),
]  # fmt: skip
NAMED_USES = ["N", "repr(N)", "N.__name__, N.__qualname__", "N(1, 2)", "N(a=1, b='x')", "N(1)", "N()", "N(1, 2, 3, 4)", "N(1, 2) == (1, 2)", "N(1, 2)[0]", "N(1, 2).a", "N(1, 2).zz", "N(1, 2)._asdict()", "N(1, 2)._replace(a=5)", "N(1, 2)._replace(q=5)", "N._fields", "N._make([1, 2])", "N._field_defaults", "N.__doc__", "str(inspect.signature(N))", "N.__annotations__", "list(N)", "N.a", "N['a']", "len(N)", "copy.copy(N(1, 2))", "hash(N(1, 2)) == hash((1, 2))", "N(1, 2) < N(1, 3)", "setattr(N(1, 2), 'a', 3)", "vars(N(1, 2))", "isinstance(N(1, 2), tuple)", "issubclass(N, object)", "N.missing", "N(5)", "N('a')", "json.dumps(N(1, 2))", "pformat(N(1, 2))", "N.a.value", "type(N)", "N(1, 2).f()", "N | int", "callable(N)", "N(1, 2).count(1)", "N.a.__doc__"]  # fmt: skip
