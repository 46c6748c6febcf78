"""The modules that a script may import, name by name, and alternatives to the others.

`ptc.worker._modules` builds an object for each name here; `ptc._language._transformer` refuses any
other name before the script runs. A module that is not in this table does not exist for a script.

A name is offered because somebody reviewed it, so a name that a new Python adds is missing until it
is listed here or in `ptc._refused_names`, where the others are, with reasons
(test_every_public_name_of_a_module_is_offered_or_refused). Two marks limit a name to some versions:
``batched@3.12`` exists from Python 3.12 on, ``template@<3.13`` before 3.13.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["MISSING_HINTS", "MODULES", "MODULE_HINTS", "NEWER", "select_names"]

Version = tuple[int, int]


def select_names(words: str, version: Version) -> dict[str, Version | None]:
    """Return the names in `words` that Python `version` has, and later names with their version.

    Args:
        words: Names separated by spaces, with marks.
        version: Major and minor number.

    Returns:
        None for a name that exists, otherwise the version that adds it.
    """
    found: dict[str, Version | None] = {}
    for word in words.split():
        name, _, mark = word.partition("@")
        major, _, minor = mark.lstrip("<").partition(".")
        limit = (int(major), int(minor)) if mark else (0, 0)
        if not mark.startswith("<"):
            found[name] = None if version >= limit else limit
        elif version < limit:
            found[name] = None
    return found


def _select(rows: dict[str, str]) -> dict[str, dict[str, Version | None]]:
    return {module: select_names(words, sys.version_info[:2]) for module, words in rows.items()}


_SELECTED: Final = _select(
    {
        "abc": "ABC ABCMeta abstractmethod abstractproperty abstractclassmethod "
        "abstractstaticmethod",
        "array": "ArrayType array typecodes",
        "ast": "AST Add And AnnAssign Assert Assign AsyncFor AsyncFunctionDef AsyncWith Attribute "
        "AugAssign Await BinOp BitAnd BitOr BitXor BoolOp Break Call ClassDef Compare Constant "
        "Continue Del Delete Dict DictComp Div Eq ExceptHandler Expr Expression FloorDiv For "
        "FormattedValue FunctionDef FunctionType GeneratorExp Global Gt GtE If IfExp Import "
        "ImportFrom In Interactive Interpolation@3.14 Invert Is IsNot JoinedStr LShift Lambda "
        "List ListComp Load Lt LtE MatMult Match MatchAs MatchClass MatchMapping MatchOr "
        "MatchSequence MatchSingleton MatchStar MatchValue Mod Module Mult Name NamedExpr "
        "NodeTransformer NodeVisitor Nonlocal Not NotEq NotIn Or ParamSpec@3.12 Pass Pow RShift "
        "Raise Return Set SetComp Slice Starred Store Sub Subscript TemplateStr@3.14 Try TryStar "
        "Tuple TypeAlias@3.12 TypeIgnore TypeVar@3.12 TypeVarTuple@3.12 UAdd USub UnaryOp While "
        "With Yield YieldFrom alias arg arguments boolop cmpop comprehension copy_location dump "
        "excepthandler expr expr_context fix_missing_locations get_docstring get_source_segment "
        "increment_lineno iter_child_nodes iter_fields keyword literal_eval match_case mod "
        "operator parse pattern stmt type_ignore type_param@3.12 unaryop unparse walk withitem",
        "asyncio": "ALL_COMPLETED FIRST_COMPLETED FIRST_EXCEPTION Barrier BoundedSemaphore "
        "BrokenBarrierError CancelledError Condition Event Future InvalidStateError "
        "LifoQueue Lock PriorityQueue Queue QueueEmpty QueueFull Semaphore Task TaskGroup "
        "Timeout TimeoutError as_completed create_task current_task ensure_future gather "
        "iscoroutine iscoroutinefunction isfuture run shield sleep timeout wait wait_for "
        "AbstractEventLoop QueueShutDown@3.13 Runner all_tasks get_event_loop get_running_loop "
        "new_event_loop run_coroutine_threadsafe set_event_loop timeout_at to_thread wrap_future",
        "base64": "a85decode a85encode b16decode b16encode b32decode b32encode b32hexdecode "
        "b32hexencode b64decode b64encode b85decode b85encode decodebytes encodebytes "
        "standard_b64decode standard_b64encode urlsafe_b64decode urlsafe_b64encode "
        "z85decode@3.13 z85encode@3.13",
        "binascii": "Error Incomplete a2b_base64 a2b_hex a2b_qp a2b_uu b2a_base64 b2a_hex b2a_qp "
        "b2a_uu crc32 crc_hqx hexlify unhexlify",
        "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
        "bz2": "BZ2Compressor BZ2Decompressor compress decompress",
        "calendar": "Calendar FRIDAY HTMLCalendar IllegalMonthError IllegalWeekdayError MONDAY "
        "SATURDAY SUNDAY THURSDAY TUESDAY TextCalendar WEDNESDAY calendar day_abbr day_name "
        "isleap leapdays month month_abbr month_name monthcalendar monthrange setfirstweekday "
        "timegm weekday weekheader firstweekday prcal prmonth Day@3.12 Month@3.12 JANUARY@3.12 "
        "FEBRUARY@3.12 MARCH@3.12 APRIL@3.12 MAY@3.12 JUNE@3.12 JULY@3.12 AUGUST@3.12 "
        "SEPTEMBER@3.12 OCTOBER@3.12 NOVEMBER@3.12 DECEMBER@3.12",
        "cmath": "acos acosh asin asinh atan atanh cos cosh e exp inf infj isclose isfinite "
        "isinf isnan log log10 nan nanj phase pi polar rect sin sinh sqrt tan tanh tau",
        "codecs": "BOM BOM32_BE BOM32_LE BOM64_BE BOM64_LE BOM_BE BOM_LE BOM_UTF16 BOM_UTF16_BE "
        "BOM_UTF16_LE BOM_UTF32 BOM_UTF32_BE BOM_UTF32_LE BOM_UTF8 decode encode getdecoder "
        "getencoder getincrementaldecoder getincrementalencoder iterdecode iterencode lookup",
        "collections": "ChainMap Counter OrderedDict UserDict UserList abc defaultdict deque "
        "namedtuple",
        "collections.abc": "AsyncGenerator AsyncIterable AsyncIterator Awaitable ByteString "
        "Callable Collection Container Coroutine Generator Hashable ItemsView Iterable "
        "Iterator KeysView Mapping MappingView MutableMapping MutableSequence MutableSet "
        "Reversible Sequence Set Sized ValuesView Buffer@3.12",
        "concurrent": "futures",
        "concurrent.futures": "ALL_COMPLETED BrokenExecutor CancelledError Executor "
        "FIRST_COMPLETED FIRST_EXCEPTION Future InvalidStateError ThreadPoolExecutor "
        "TimeoutError as_completed wait",
        "configparser": "BasicInterpolation ConfigParser DEFAULTSECT DuplicateOptionError "
        "DuplicateSectionError Error ExtendedInterpolation Interpolation InterpolationDepthError "
        "InterpolationError InterpolationMissingOptionError InterpolationSyntaxError "
        "InvalidWriteError@3.14 MAX_INTERPOLATION_DEPTH MissingSectionHeaderError "
        "MultilineContinuationError@3.13 NoOptionError NoSectionError ParsingError "
        "RawConfigParser SectionProxy UNNAMED_SECTION@3.13 UnnamedSectionDisabledError@3.14",
        "contextlib": "AbstractAsyncContextManager AbstractContextManager AsyncContextDecorator "
        "AsyncExitStack ContextDecorator ExitStack aclosing asynccontextmanager closing "
        "contextmanager nullcontext redirect_stderr redirect_stdout suppress",
        "contextvars": "ContextVar Token",
        "copy": "Error copy deepcopy replace@3.13",
        "csv": "Dialect DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE "
        "QUOTE_NONNUMERIC QUOTE_NOTNULL@3.12 QUOTE_STRINGS@3.12 Sniffer excel excel_tab "
        "field_size_limit get_dialect list_dialects reader register_dialect unix_dialect "
        "unregister_dialect writer",
        "dataclasses": "FrozenInstanceError InitVar KW_ONLY MISSING asdict astuple dataclass "
        "field fields is_dataclass make_dataclass replace",
        "datetime": "MAXYEAR MINYEAR UTC date datetime time timedelta timezone tzinfo",
        "decimal": "BasicContext Clamped Context ConversionSyntax Decimal DecimalException "
        "DecimalTuple DefaultContext DivisionByZero DivisionImpossible DivisionUndefined "
        "ExtendedContext FloatOperation Inexact InvalidContext InvalidOperation MAX_EMAX "
        "MAX_PREC MIN_EMIN Overflow ROUND_05UP ROUND_CEILING ROUND_DOWN ROUND_FLOOR "
        "ROUND_HALF_DOWN ROUND_HALF_EVEN ROUND_HALF_UP ROUND_UP Rounded Subnormal Underflow "
        "getcontext localcontext setcontext HAVE_CONTEXTVAR HAVE_THREADS IEEEContext@3.14 "
        "IEEE_CONTEXT_MAX_BITS@3.14 MIN_ETINY",
        "difflib": "Differ IS_CHARACTER_JUNK IS_LINE_JUNK Match SequenceMatcher "
        "context_diff diff_bytes get_close_matches ndiff restore unified_diff",
        "enum": "CONFORM CONTINUOUS EJECT Enum EnumCheck EnumMeta EnumType Flag FlagBoundary "
        "IntEnum IntFlag KEEP NAMED_FLAGS ReprEnum STRICT StrEnum UNIQUE auto member nonmember "
        "property unique verify",
        "fnmatch": "filter filterfalse@3.14 fnmatch fnmatchcase translate",
        "fractions": "Fraction",
        "functools": "cache cached_property cmp_to_key lru_cache partial reduce singledispatch "
        "singledispatchmethod total_ordering update_wrapper wraps Placeholder@3.14 "
        "WRAPPER_ASSIGNMENTS WRAPPER_UPDATES",
        "graphlib": "CycleError TopologicalSorter",
        "gzip": "BadGzipFile compress decompress",
        "hashlib": "algorithms_available algorithms_guaranteed blake2b blake2s md5 new "
        "pbkdf2_hmac sha1 sha224 sha256 sha384 sha3_224 sha3_256 sha3_384 sha3_512 sha512 "
        "shake_128 shake_256",
        "heapq": "heapify heappop heappush heappushpop heapreplace merge nlargest nsmallest "
        "heapify_max@3.14 heappop_max@3.14 heappush_max@3.14 heappushpop_max@3.14 "
        "heapreplace_max@3.14",
        "hmac": "HMAC compare_digest digest new",
        "html": "escape unescape",
        "http": "HTTPMethod HTTPStatus",
        "inspect": "BoundArguments Parameter Signature isabstract isasyncgen isasyncgenfunction "
        "isawaitable isbuiltin isclass iscoroutine iscoroutinefunction isfunction isgenerator "
        "isgeneratorfunction ismethod isroutine signature",
        "io": "BytesIO SEEK_CUR SEEK_END SEEK_SET StringIO UnsupportedOperation",
        "ipaddress": "AddressValueError IPv4Address IPv4Interface IPv4Network IPv6Address "
        "IPv6Interface IPv6Network NetmaskValueError collapse_addresses ip_address "
        "ip_interface ip_network summarize_address_range IPV4LENGTH IPV6LENGTH "
        "get_mixed_type_key v4_int_to_packed v6_int_to_packed",
        "itertools": "accumulate batched@3.12 chain combinations combinations_with_replacement "
        "compress count cycle dropwhile filterfalse groupby islice pairwise permutations product "
        "repeat starmap takewhile tee zip_longest",
        "json": "JSONDecodeError JSONDecoder JSONEncoder dump dumps load loads",
        "keyword": "iskeyword issoftkeyword kwlist softkwlist",
        "logging": "BASIC_FORMAT CRITICAL DEBUG ERROR FATAL Filter Formatter Handler INFO "
        "LogRecord Logger LoggerAdapter NOTSET NullHandler StreamHandler WARN WARNING addLevelName "
        "basicConfig critical debug disable error exception fatal getLevelName "
        "getLevelNamesMapping getLogger info log root shutdown warn warning",
        "lzma": "CHECK_CRC32 CHECK_CRC64 CHECK_ID_MAX CHECK_NONE CHECK_SHA256 CHECK_UNKNOWN "
        "FILTER_ARM FILTER_ARMTHUMB FILTER_DELTA FILTER_IA64 FILTER_LZMA1 FILTER_LZMA2 "
        "FILTER_POWERPC FILTER_SPARC FILTER_X86 FORMAT_ALONE FORMAT_AUTO FORMAT_RAW FORMAT_XZ "
        "LZMACompressor LZMADecompressor LZMAError MF_BT2 MF_BT3 MF_BT4 MF_HC3 MF_HC4 MODE_FAST "
        "MODE_NORMAL PRESET_DEFAULT PRESET_EXTREME compress decompress is_check_supported",
        "math": "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh "
        "degrees dist e erf erfc exp exp2 expm1 fabs factorial floor fma@3.13 fmod frexp fsum "
        "gamma gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p "
        "log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt "
        "sumprod@3.12 tan tanh tau trunc ulp",
        "mimetypes": "add_type common_types encodings_map guess_all_extensions guess_extension "
        "guess_file_type@3.13 guess_type init suffix_map types_map",
        "numbers": "Complex Integral Number Rational Real",
        "operator": "abs add and_ attrgetter concat contains countOf delitem eq floordiv ge "
        "getitem gt iadd iand iconcat ifloordiv ilshift imatmul imod imul index indexOf inv "
        "invert ior ipow irshift is_ is_not isub itemgetter itruediv ixor le length_hint "
        "lshift lt matmul methodcaller mod mul ne neg not_ or_ pos pow rshift setitem sub "
        "truediv truth xor call is_none@3.14 is_not_none@3.14",
        "os": "PathLike altsep curdir devnull environ extsep fsdecode fsencode fspath getenv "
        "linesep name pardir path pathsep sep urandom",
        "os.path": "altsep basename commonpath commonprefix curdir dirname extsep isabs join "
        "normcase normpath pardir pathsep relpath sep split splitdrive splitext splitroot@3.12",
        "pathlib": "Path PosixPath PurePath PurePosixPath PureWindowsPath "
        "UnsupportedOperation@3.13",
        "pprint": "PrettyPrinter isreadable isrecursive pformat pp pprint saferepr",
        "queue": "Empty Full LifoQueue PriorityQueue Queue ShutDown@3.13 SimpleQueue",
        "random": "Random betavariate binomialvariate@3.12 choice choices expovariate "
        "gammavariate gauss getrandbits getstate lognormvariate normalvariate paretovariate "
        "randbytes randint random randrange sample seed setstate shuffle triangular uniform "
        "vonmisesvariate weibullvariate",
        "re": "A ASCII DEBUG DOTALL I IGNORECASE L LOCALE M MULTILINE Match NOFLAG Pattern "
        "PatternError@3.13 "
        "RegexFlag S U UNICODE VERBOSE X compile error escape findall finditer fullmatch "
        "match purge search split sub subn",
        "reprlib": "Repr repr",
        "secrets": "choice compare_digest randbelow randbits token_bytes token_hex token_urlsafe",
        "shlex": "join quote split",
        "statistics": "NormalDist StatisticsError correlation covariance fmean kde@3.13 "
        "kde_random@3.13 geometric_mean harmonic_mean linear_regression mean median median_grouped "
        "median_high median_low mode multimode pstdev pvariance quantiles stdev variance",
        "string": "Template ascii_letters ascii_lowercase ascii_uppercase capwords digits "
        "hexdigits octdigits printable punctuation whitespace",
        "struct": "Struct calcsize error iter_unpack pack pack_into unpack unpack_from",
        "sys": "byteorder exc_info exception exit float_info float_repr_style "
        "get_int_max_str_digits getdefaultencoding getrecursionlimit getsizeof hash_info "
        "hexversion int_info intern maxsize maxunicode platform set_int_max_str_digits "
        "setrecursionlimit stderr stdout version "
        "version_info",
        "textwrap": "TextWrapper dedent fill indent shorten wrap",
        "threading": "Barrier BoundedSemaphore BrokenBarrierError Condition Event Lock RLock "
        "Semaphore TIMEOUT_MAX Thread ThreadError Timer active_count current_thread enumerate "
        "get_ident get_native_id local main_thread",
        "time": "asctime ctime gmtime localtime mktime monotonic monotonic_ns perf_counter "
        "perf_counter_ns process_time process_time_ns sleep strftime strptime struct_time "
        "time time_ns timezone tzname altzone daylight",
        "tomllib": "TOMLDecodeError load loads",
        "traceback": "extract_tb format_exc format_exception format_exception_only format_list "
        "format_tb print_exc print_exception print_tb walk_tb",
        "types": "MappingProxyType MethodType NoneType SimpleNamespace AsyncGeneratorType "
        "BuiltinFunctionType BuiltinMethodType CoroutineType EllipsisType GeneratorType "
        "GenericAlias NotImplementedType UnionType get_original_bases@3.12",
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
        "get_origin get_type_hints is_typeddict no_type_check overload runtime_checkable "
        "NoDefault@3.13 ParamSpecArgs ParamSpecKwargs ReadOnly@3.13 TypeAliasType@3.12 "
        "TypeIs@3.13 get_protocol_members@3.13 is_protocol@3.13 override@3.12 reveal_type",
        "unicodedata": "bidirectional category combining decimal decomposition digit "
        "east_asian_width is_normalized lookup mirrored name normalize numeric "
        "unidata_version",
        "urllib": "parse",
        "urllib.parse": "DefragResult DefragResultBytes ParseResult ParseResultBytes SplitResult "
        "SplitResultBytes parse_qs parse_qsl quote "
        "quote_from_bytes quote_plus unquote unquote_plus unquote_to_bytes urldefrag "
        "urlencode urljoin urlparse urlsplit urlunparse urlunsplit",
        "uuid": "NAMESPACE_DNS NAMESPACE_OID NAMESPACE_URL NAMESPACE_X500 UUID uuid3 uuid4 uuid5 "
        "MAX@3.14 NIL@3.14 RESERVED_FUTURE RESERVED_MICROSOFT RESERVED_NCS RFC_4122 SafeUUID",
        "warnings": "catch_warnings deprecated@3.13 filterwarnings resetwarnings simplefilter warn",
        "weakref": "ReferenceType WeakKeyDictionary WeakSet WeakValueDictionary ref",
        "xml": "etree",
        "xml.etree": "ElementTree",
        "xml.etree.ElementTree": "Comment Element ElementTree PI ParseError "
        "ProcessingInstruction QName SubElement VERSION XML XMLID XMLParser canonicalize dump "
        "fromstring fromstringlist indent iselement parse register_namespace tostring "
        "tostringlist",
        "zlib": "DEFLATED DEF_BUF_SIZE DEF_MEM_LEVEL MAX_WBITS ZLIB_RUNTIME_VERSION ZLIB_VERSION "
        "Z_BEST_COMPRESSION Z_BEST_SPEED Z_BLOCK Z_DEFAULT_COMPRESSION Z_DEFAULT_STRATEGY "
        "Z_FILTERED Z_FINISH Z_FIXED Z_FULL_FLUSH Z_HUFFMAN_ONLY Z_NO_COMPRESSION Z_NO_FLUSH "
        "Z_PARTIAL_FLUSH Z_RLE Z_SYNC_FLUSH Z_TREES adler32 compress compressobj crc32 "
        "decompress decompressobj error",
        "zoneinfo": "ZoneInfo ZoneInfoNotFoundError available_timezones",
    }
)

#: The names that each module has in scripts of the running Python.
MODULES: Final = {
    module: frozenset(name for name, added in names.items() if added is None)
    for module, names in _SELECTED.items()
}
#: Names as ``module.name`` that a later Python adds, with the version.
NEWER: Final = {
    f"{module}.{name}": added
    for module, names in _SELECTED.items()
    for name, added in names.items()
    if added is not None
}

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
            "tokenize",
            "linecache",
            "filecmp",
            "stat",
            "sqlite3",
            "dbm",
            "shelve",
            "mmap",
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
            "ftplib",
            "smtplib",
            "telnetlib",
            "imaplib",
            "urllib.request",
            "urllib.error",
            "http.client",
            "http.server",
            "http.cookies",
            "http.cookiejar",
            "websockets",
            "bs4",
        ],
        _NETWORK,
    ),
    **dict.fromkeys(
        [
            "multiprocessing",
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
    **dict.fromkeys(["gc", "ctypes", "tracemalloc", "faulthandler", "atexit"], _INSIDE),
    **{name: f'{_TABLES}; the session can offer it: packages=["{name}"]' for name in _PACKAGES},
    "ptc": "`ctx`, `inputs` and ToolError need no import in a script",
    "ptc_tools": "tools are methods of `ctx`: `await ctx.name(...)`",
    "pickle": "use json",
    "yaml": "use json, or parse the text",
    "toml": "use tomllib",
    "typing_extensions": "use typing",
    "pydantic": "use dataclasses",
    "dotenv": "a script has no environment; take values from `inputs`",
    "argparse": "take values from `inputs`",
    "timeit": "use time.perf_counter()",
    "sympy": "use fractions, decimal and math",
    "locale": "use format specifications, for example f'{n:,}'",
    **dict.fromkeys(
        ["xml.dom", "xml.dom.minidom", "xml.sax", "xml.parsers.expat", "lxml", "defusedxml"],
        "use xml.etree.ElementTree",
    ),
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
    "os.getcwd": 'the tools take paths relative to their root; write "." for it',
    **dict.fromkeys(
        ["os.path.exists", "os.path.isfile", "os.path.isdir", "os.path.lexists"],
        "ask a tool: `await ctx.glob(path)` lists the paths that exist",
    ),
    "os.system": _PROCESS,
    "os.popen": _PROCESS,
    "io.open": _FILES,
    "sys.argv": "take values from `inputs`",
    "sys.modules": _INSIDE,
    "sys.stdin": "take values from `inputs`",
    "concurrent.futures.ProcessPoolExecutor": "use ThreadPoolExecutor; a script has one process",
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
    "types.FunctionType": "use callable(x)",
    "typing.ForwardRef": "typing.get_type_hints() resolves annotations that are text",
    "types.ModuleType": "use a class",
    "types.new_class": "use a class statement",
    "inspect.currentframe": "frames are not readable; use traceback.format_exc()",
    "inspect.stack": "frames are not readable; use traceback.format_exc()",
    "uuid.uuid1": "use uuid.uuid4()",
    "functools.partialmethod": "define a method that calls the other",
    "urllib.request": _NETWORK,
    "operator.__getattr__": "use getattr()",
}
