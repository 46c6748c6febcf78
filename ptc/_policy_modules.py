"""The modules that a script may import, name by name, and alternatives to the others.

`ptc.worker._modules` builds an object for each name here; `ptc._language._transformer` refuses any
other name before the script runs. A module that is not in this table does not exist for a script.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MISSING_HINTS", "MODULES", "MODULE_HINTS"]


def _table(rows: dict[str, str]) -> dict[str, frozenset[str]]:
    return {module: frozenset(names.split()) for module, names in rows.items()}


MODULES: Final = _table(
    {
        "abc": "ABC ABCMeta abstractmethod abstractproperty abstractclassmethod "
        "abstractstaticmethod",
        "array": "array typecodes",
        "ast": "literal_eval",
        "asyncio": "ALL_COMPLETED FIRST_COMPLETED FIRST_EXCEPTION Barrier BoundedSemaphore "
        "BrokenBarrierError CancelledError Condition Event Future InvalidStateError "
        "LifoQueue Lock PriorityQueue Queue QueueEmpty QueueFull Semaphore Task TaskGroup "
        "Timeout TimeoutError as_completed create_task current_task ensure_future gather "
        "iscoroutine iscoroutinefunction isfuture run shield sleep timeout wait wait_for",
        "base64": "a85decode a85encode b16decode b16encode b32decode b32encode b32hexdecode "
        "b32hexencode b64decode b64encode b85decode b85encode decodebytes encodebytes "
        "standard_b64decode standard_b64encode urlsafe_b64decode urlsafe_b64encode",
        "binascii": "Error Incomplete a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 crc_hqx "
        "hexlify unhexlify",
        "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
        "calendar": "Calendar FRIDAY HTMLCalendar IllegalMonthError IllegalWeekdayError MONDAY "
        "SATURDAY SUNDAY THURSDAY TUESDAY TextCalendar WEDNESDAY calendar day_abbr day_name "
        "isleap leapdays month month_abbr month_name monthcalendar monthrange setfirstweekday "
        "timegm weekday weekheader",
        "cmath": "acos acosh asin asinh atan atanh cos cosh e exp inf infj isclose isfinite "
        "isinf isnan log log10 nan nanj phase pi polar rect sin sinh sqrt tan tanh tau",
        "collections": "ChainMap Counter OrderedDict UserDict UserList abc defaultdict deque "
        "namedtuple",
        "collections.abc": "AsyncGenerator AsyncIterable AsyncIterator Awaitable ByteString "
        "Callable Collection Container Coroutine Generator Hashable ItemsView Iterable "
        "Iterator KeysView Mapping MappingView MutableMapping MutableSequence MutableSet "
        "Reversible Sequence Set Sized ValuesView",
        "contextlib": "AbstractAsyncContextManager AbstractContextManager AsyncContextDecorator "
        "AsyncExitStack ContextDecorator ExitStack aclosing asynccontextmanager closing "
        "contextmanager nullcontext redirect_stderr redirect_stdout suppress",
        "copy": "Error copy deepcopy",
        "csv": "DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE "
        "QUOTE_NONNUMERIC Sniffer excel excel_tab reader unix_dialect writer",
        "dataclasses": "FrozenInstanceError InitVar KW_ONLY MISSING asdict astuple dataclass "
        "field fields is_dataclass replace",
        "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone tzinfo",
        "decimal": "BasicContext Clamped Context ConversionSyntax Decimal DecimalException "
        "DecimalTuple DefaultContext DivisionByZero DivisionImpossible DivisionUndefined "
        "ExtendedContext FloatOperation Inexact InvalidContext InvalidOperation MAX_EMAX "
        "MAX_PREC MIN_EMIN Overflow ROUND_05UP ROUND_CEILING ROUND_DOWN ROUND_FLOOR "
        "ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP Rounded Subnormal Underflow "
        "getcontext localcontext setcontext",
        "difflib": "Differ SequenceMatcher context_diff get_close_matches ndiff restore "
        "unified_diff",
        "enum": "CONFORM CONTINUOUS EJECT Enum EnumMeta EnumType Flag FlagBoundary IntEnum "
        "IntFlag KEEP NAMED_FLAGS ReprEnum STRICT StrEnum UNIQUE auto member nonmember "
        "property unique verify",
        "fnmatch": "filter fnmatch fnmatchcase translate",
        "fractions": "Fraction",
        "functools": "cache cached_property cmp_to_key lru_cache partial reduce singledispatch "
        "total_ordering update_wrapper wraps",
        "graphlib": "CycleError TopologicalSorter",
        "hashlib": "algorithms_available algorithms_guaranteed blake2b blake2s md5 new "
        "pbkdf2_hmac sha1 sha224 sha256 sha384 sha3_224 sha3_256 sha3_384 sha3_512 sha512 "
        "shake_128 shake_256",
        "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest",
        "hmac": "HMAC compare_digest digest new",
        "html": "escape unescape",
        "inspect": "isabstract isasyncgen isasyncgenfunction isawaitable isbuiltin isclass "
        "iscoroutine iscoroutinefunction isfunction isgenerator isgeneratorfunction ismethod "
        "isroutine",
        "io": "BytesIO SEEK_CUR SEEK_END SEEK_SET StringIO UnsupportedOperation",
        "ipaddress": "AddressValueError IPv4Address IPv4Interface IPv4Network IPv6Address "
        "IPv6Interface IPv6Network NetmaskValueError collapse_addresses ip_address "
        "ip_interface ip_network summarize_address_range",
        "itertools": "accumulate chain combinations combinations_with_replacement compress "
        "count cycle dropwhile filterfalse groupby islice pairwise permutations product "
        "repeat starmap takewhile tee zip_longest",
        "json": "JSONDecodeError JSONDecoder JSONEncoder dump dumps load loads",
        "keyword": "iskeyword issoftkeyword kwlist softkwlist",
        "logging": "BASIC_FORMAT CRITICAL DEBUG ERROR FATAL Filter Formatter Handler INFO "
        "LogRecord Logger LoggerAdapter NOTSET NullHandler StreamHandler WARN WARNING addLevelName "
        "basicConfig critical debug disable error exception fatal getLevelName "
        "getLevelNamesMapping getLogger info log root shutdown warn warning",
        "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh "
        "degrees dist e erf erfc exp exp2 expm1 fabs factorial floor fmod frexp fsum gamma "
        "gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p "
        "log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt tan tanh "
        "tau trunc ulp",
        "numbers": "Complex Integral Number Rational Real",
        "operator": "abs add and_ attrgetter concat contains countOf delitem eq floordiv ge "
        "getitem gt iadd iand iconcat ifloordiv ilshift imatmul imod imul index indexOf inv "
        "invert ior ipow irshift is_ is_not isub itemgetter itruediv ixor le length_hint "
        "lshift lt matmul methodcaller mod mul ne neg not_ or_ pos pow rshift setitem sub "
        "truediv truth xor call",
        "os": "fspath linesep path sep",
        "os.path": "basename commonpath commonprefix dirname isabs join normcase normpath "
        "relpath sep split splitext",
        "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath",
        "pprint": "PrettyPrinter isreadable isrecursive pformat pp pprint saferepr",
        "random": "Random betavariate choice choices expovariate gammavariate gauss "
        "getrandbits getstate lognormvariate normalvariate paretovariate randbytes randint "
        "random randrange sample seed setstate shuffle triangular uniform vonmisesvariate "
        "weibullvariate",
        "re": "A ASCII DEBUG DOTALL I IGNORECASE L LOCALE M MULTILINE Match NOFLAG Pattern "
        "RegexFlag S U UNICODE VERBOSE X compile error escape findall finditer fullmatch "
        "match purge search split sub subn",
        "reprlib": "Repr repr",
        "secrets": "choice compare_digest randbelow randbits token_bytes token_hex token_urlsafe",
        "shlex": "join quote split",
        "statistics": "NormalDist StatisticsError correlation covariance fmean "
        "geometric_mean harmonic_mean linear_regression mean median median_grouped "
        "median_high median_low mode multimode pstdev pvariance quantiles stdev variance",
        "string": "Template ascii_letters ascii_lowercase ascii_uppercase capwords digits "
        "hexdigits octdigits printable punctuation whitespace",
        "struct": "Struct calcsize error iter_unpack pack pack_into unpack unpack_from",
        "sys": "byteorder exit float_info getdefaultencoding getrecursionlimit getsizeof hash_info "
        "int_info intern maxsize maxunicode platform setrecursionlimit stderr stdout version "
        "version_info",
        "textwrap": "TextWrapper dedent fill indent shorten wrap",
        "time": "asctime ctime gmtime localtime mktime monotonic monotonic_ns perf_counter "
        "perf_counter_ns process_time process_time_ns sleep strftime strptime struct_time "
        "time time_ns timezone tzname",
        "traceback": "format_exc format_exception format_exception_only print_exc print_exception",
        "types": "MappingProxyType MethodType NoneType SimpleNamespace",
        "typing": "AbstractSet Annotated Any AnyStr AsyncContextManager AsyncGenerator "
        "AsyncIterable AsyncIterator Awaitable BinaryIO ByteString Callable ChainMap ClassVar "
        "Collection Concatenate Container ContextManager Coroutine Counter DefaultDict Deque "
        "Dict Final FrozenSet Generator Generic "
        "Hashable IO ItemsView Iterable Iterator KeysView List Literal LiteralString Mapping "
        "MappingView Match MutableMapping MutableSequence MutableSet NamedTuple Never NewType "
        "NoReturn NotRequired Optional OrderedDict ParamSpec Pattern Protocol Required "
        "Reversible Self Sequence Set Sized SupportsAbs SupportsBytes SupportsComplex "
        "SupportsFloat SupportsIndex SupportsInt SupportsRound TYPE_CHECKING Text TextIO "
        "Tuple Type TypeAlias TypeGuard TypeVar TypeVarTuple TypedDict Union Unpack "
        "ValuesView assert_never assert_type cast dataclass_transform final get_args "
        "get_origin is_typeddict no_type_check overload runtime_checkable",
        "unicodedata": "bidirectional category combining decimal decomposition digit "
        "east_asian_width is_normalized lookup mirrored name normalize numeric "
        "unidata_version",
        "urllib": "parse",
        "urllib.parse": "DefragResult ParseResult SplitResult parse_qs parse_qsl quote "
        "quote_from_bytes quote_plus unquote unquote_plus unquote_to_bytes urldefrag "
        "urlencode urljoin urlparse urlsplit urlunparse urlunsplit",
        "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 UUID uuid3 uuid4 uuid5",
        "warnings": "catch_warnings filterwarnings resetwarnings simplefilter warn",
        "zlib": "DEFLATED MAX_WBITS Z_BEST_COMPRESSION Z_BEST_SPEED Z_DEFAULT_COMPRESSION adler32 "
        "compress compressobj crc32 decompress decompressobj error",
        "zoneinfo": "ZoneInfo ZoneInfoNotFoundError available_timezones",
    }
)

_FILES = "access files through ctx, for example `await ctx.read(path)` or `ctx.glob(...)`"
_NETWORK = "access the network through the tools on ctx"
_PARALLEL = "use `await asyncio.gather(...)`: calls on ctx run concurrently"
_PROCESS = "run programs through the tools on ctx"
_CODE = "text cannot be run as code; write the code out"
_INSIDE = "the interpreter's internals are not accessible"
_TABLES = "use lists and dicts with statistics, collections and itertools"
_PACKAGES = ("numpy", "pandas", "scipy", "polars", "sklearn", "matplotlib", "seaborn")

#: Alternatives to modules that are not offered.
MODULE_HINTS: Final = {
    **dict.fromkeys(
        [
            "glob",
            "shutil",
            "tempfile",
            "fileinput",
            "zipfile",
            "tarfile",
            "gzip",
            "bz2",
            "lzma",
            "tokenize",
            "linecache",
            "filecmp",
            "stat",
            "sqlite3",
            "dbm",
            "shelve",
            "mmap",
            "configparser",
        ],
        _FILES,
    ),
    **dict.fromkeys(
        [
            "requests",
            "httpx",
            "aiohttp",
            "urllib3",
            "socket",
            "ssl",
            "http",
            "ftplib",
            "smtplib",
            "telnetlib",
            "imaplib",
            "urllib.request",
            "urllib.error",
            "http.client",
            "http.server",
            "websockets",
            "bs4",
        ],
        _NETWORK,
    ),
    **dict.fromkeys(
        [
            "threading",
            "multiprocessing",
            "concurrent",
            "concurrent.futures",
            "queue",
            "sched",
            "_thread",
            "trio",
            "anyio",
        ],
        _PARALLEL,
    ),
    **dict.fromkeys(["subprocess", "pty", "signal", "resource", "platform"], _PROCESS),
    **dict.fromkeys(
        [
            "code",
            "codeop",
            "importlib",
            "runpy",
            "pkgutil",
            "imp",
            "builtins",
            "marshal",
            "dis",
            "compileall",
            "rlcompleter",
        ],
        _CODE,
    ),
    **dict.fromkeys(
        ["gc", "ctypes", "weakref", "tracemalloc", "faulthandler", "atexit", "contextvars"], _INSIDE
    ),
    **{name: f'{_TABLES}; the session can offer it: packages=["{name}"]' for name in _PACKAGES},
    "pickle": "use json",
    "yaml": "use json, or parse the text",
    "toml": "parse the text",
    "tomllib": "parse the text",
    "typing_extensions": "use typing",
    "pydantic": "use dataclasses",
    "dotenv": "a script has no environment; take values from `inputs`",
    "argparse": "take values from `inputs`",
    "timeit": "use time.perf_counter()",
    "sympy": "use fractions, decimal and math",
    "codecs": "use str.encode() and bytes.decode()",
    "locale": "use format specifications, for example f'{n:,}'",
    "xml": "use re",
    "html.parser": "use re and html.unescape()",
}

#: Alternatives to names that a module does not offer here.
MISSING_HINTS: Final = {
    **dict.fromkeys(
        [
            f"os.{name}"
            for name in [
                "listdir",
                "walk",
                "scandir",
                "mkdir",
                "makedirs",
                "remove",
                "rename",
                "stat",
                "open",
                "chdir",
                "getcwd",
                "unlink",
                "rmdir",
                "replace",
            ]
        ],
        _FILES,
    ),
    **dict.fromkeys(
        [
            f"os.path.{name}"
            for name in [
                "exists",
                "isfile",
                "isdir",
                "getsize",
                "getmtime",
                "abspath",
                "realpath",
                "expanduser",
                "islink",
                "samefile",
            ]
        ],
        _FILES,
    ),
    "os.environ": "a script has no environment; take values from `inputs`",
    "os.getenv": "a script has no environment; take values from `inputs`",
    "os.system": _PROCESS,
    "os.popen": _PROCESS,
    "io.open": _FILES,
    "sys.argv": "take values from `inputs`",
    "sys.modules": _INSIDE,
    **dict.fromkeys(["ast.parse", "ast.walk", "ast.NodeVisitor", "ast.unparse"], _CODE),
    "sys.stdin": "take values from `inputs`",
    "asyncio.to_thread": _PARALLEL,
    "asyncio.get_event_loop": "use asyncio.create_task() or asyncio.gather()",
    "asyncio.get_running_loop": "use asyncio.create_task() or asyncio.gather()",
    "asyncio.new_event_loop": "write `async def run(ctx, inputs)`",
    "asyncio.all_tasks": "keep the tasks you make in a list",
    "asyncio.Runner": "write `async def run(ctx, inputs)`",
    "asyncio.create_subprocess_exec": _PROCESS,
    "asyncio.create_subprocess_shell": _PROCESS,
    "asyncio.open_connection": _NETWORK,
    "collections.UserString": "subclass str",
    "datetime.datetime_CAPI": _INSIDE,
    **dict.fromkeys(
        ["logging.FileHandler", "logging.handlers"],
        "a log cannot go to a file; logging.StreamHandler() writes to the run's standard error",
    ),
    "random.SystemRandom": "use random.Random(); randomness here is seeded for replay",
    "string.Formatter": "use str.format() or an f-string",
    "typing.get_type_hints": "annotations that are text are never evaluated",
    "typing.ForwardRef": "annotations that are text are never evaluated",
    "types.FunctionType": "use callable(x)",
    "types.ModuleType": "use a class",
    "types.new_class": "use a class statement",
    "inspect.signature": "a function's signature is not readable here",
    "inspect.currentframe": "frames are not readable; use traceback.format_exc()",
    "inspect.stack": "frames are not readable; use traceback.format_exc()",
    "dataclasses.make_dataclass": "use a class statement with @dataclass",
    "uuid.uuid1": "use uuid.uuid4()",
    "functools.partialmethod": "define a method that calls the other",
    "functools.singledispatchmethod": "use functools.singledispatch or match",
    "urllib.request": _NETWORK,
    "operator.__getattr__": "use getattr()",
}
