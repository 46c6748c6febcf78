"""Public names of importable modules that scripts do not have, with reasons.

Together with `ptc._policy_modules` this lists every public name of every importable module
(test_every_public_name_of_a_module_is_offered_or_refused). A refused import shows the reason, and
the description for models lists the modules that are offered in part.
"""

from __future__ import annotations

import os
import sys
from typing import Final

from ._policy_modules import MODULES, NEWER, select_names

__all__ = ["PARENTS", "PARTIAL", "REFUSED", "find_reason"]

_INTERNAL = "it is part of the module's implementation, not of its interface"
_OBSOLETE = "it is deprecated, and absent from later versions of Python"
_FILES = "it accesses files, which scripts can do only through ctx"
_SYSTEM = "it makes system calls; scripts act only through ctx"
_LOOP_CLASS = "a run has one event loop, whose class is fixed"
_FRAMES = "it leads to frames or source files; use traceback.format_exc()"
_CODE = "it leads to code objects or runs text as code"
_GETATTR = "it reads attributes by name without the checks of a script"
_UNTIMED = "it runs code at an unpredictable time; call a function, or use `with`"
_SEED = "random numbers come from the seed of the run; use random.Random()"
_LOCALE = "a script has no locale"
_TEXT_CODECS = "a script has no streams to encode; use codecs.encode() or codecs.decode()"
_INTERPRETER = "it changes or describes the interpreter of the worker"
_RECORDS = "the classes of log records and loggers are fixed"
_UTC = "local time is UTC"
_CLOCK = "a script has one clock; use time.perf_counter()"

# Scripts lose nothing without the first; the rules of a script state the others. So a module is
# described as whole if it lacks nothing else.
_MINOR: Final = frozenset({_INTERNAL, _OBSOLETE, _RECORDS, _LOOP_CLASS})
_EXPECTED: Final = _MINOR | {
    _FILES, _SYSTEM, _CODE, _SEED, _CLOCK, _LOCALE, _UTC, _TEXT_CODECS, _INTERPRETER,
}  # fmt: skip

_ROWS: Final[dict[str, dict[str, str]]] = {
    "abc": {_INTERNAL: "get_cache_token update_abstractmethods"},
    "ast": {
        _OBSOLETE: "AugLoad AugStore Bytes@<3.14 Ellipsis@<3.14 ExtSlice Index "
        "NameConstant@<3.14 Num@<3.14 Param Str@<3.14 Suite slice",
        _INTERNAL: "compare@3.14 main",
        _CODE: "PyCF_ALLOW_TOP_LEVEL_AWAIT PyCF_ONLY_AST PyCF_OPTIMIZED_AST@3.13 "
        "PyCF_TYPE_COMMENTS",
    },
    "asyncio": {
        _LOOP_CLASS: "AbstractEventLoopPolicy BaseEventLoop "
        "DefaultEventLoopPolicy EventLoop@3.13 Handle SelectorEventLoop TimerHandle "
        "create_eager_task_factory@3.12 eager_task_factory@3.12 get_event_loop_policy "
        "set_event_loop_policy",
        _FRAMES: "FrameCallGraphEntry@3.14 FutureCallGraph@3.14 capture_call_graph@3.14 "
        "format_call_graph@3.14 print_call_graph@3.14",
        _SYSTEM: "AbstractServer BaseProtocol BaseTransport BufferedProtocol DatagramProtocol "
        "DatagramTransport IncompleteReadError LimitOverrunError Protocol ReadTransport "
        "SendfileNotAvailableError Server StreamReader StreamReaderProtocol StreamWriter "
        "SubprocessProtocol SubprocessTransport Transport WriteTransport create_subprocess_exec "
        "create_subprocess_shell open_connection open_unix_connection start_server "
        "start_unix_server",
        _OBSOLETE: "AbstractChildWatcher@<3.14 FastChildWatcher@<3.14 MultiLoopChildWatcher@<3.14 "
        "PidfdChildWatcher@<3.14 SafeChildWatcher@<3.14 ThreadedChildWatcher@<3.14 "
        "get_child_watcher@<3.14 set_child_watcher@<3.14",
        _INTERNAL: "future_add_to_awaited_by@3.14 future_discard_from_awaited_by@3.14",
    },
    "base64": {_FILES: "decode encode"},
    "bz2": {_FILES: "BZ2File open"},
    "calendar": {_LOCALE: "LocaleHTMLCalendar LocaleTextCalendar"},
    "codecs": {
        _FILES: "EncodedFile open",
        _TEXT_CODECS: "Codec CodecInfo IncrementalDecoder IncrementalEncoder StreamReader "
        "StreamReaderWriter StreamRecoder StreamWriter getreader getwriter",
        _INTERNAL: "backslashreplace_errors ignore_errors lookup_error "
        "namereplace_errors register register_error replace_errors strict_errors "
        "xmlcharrefreplace_errors",
    },
    "collections": {"subclass str": "UserString"},
    "concurrent.futures": {
        "use ThreadPoolExecutor; a script has one process": "InterpreterPoolExecutor@3.14 "
        "ProcessPoolExecutor",
    },
    "configparser": {
        _INTERNAL: "ConverterMapping",
        _OBSOLETE: "LegacyInterpolation@<3.13 SafeConfigParser@<3.12",
    },
    "contextlib": {_FILES: "chdir"},
    "contextvars": {
        "its variables have an order that differs in each run; use ContextVar.set() and reset()": (
            "Context copy_context"
        ),
    },
    "dataclasses": {_INTERNAL: "Field"},
    "difflib": {"use unified_diff() or ndiff()": "HtmlDiff"},
    "enum": {
        _INTERNAL: "EnumDict@3.13 global_enum global_enum_repr global_flag_repr global_str "
        "pickle_by_enum_name pickle_by_global_name",
    },
    "functools": {"define a method that calls the other": "partialmethod"},
    "gzip": {_FILES: "GzipFile open"},
    "hashlib": {_FILES: "file_digest"},
    "hmac": {_INTERNAL: "digest_size trans_36 trans_5C"},
    "inspect": {
        _FRAMES: "BlockFinder ClassFoundException EndOfBlock FrameInfo Traceback "
        "currentframe findsource getabsfile getblock getcomments getfile getframeinfo "
        "getinnerframes getlineno getmodule getmodulename getouterframes getsource getsourcefile "
        "getsourcelines indentsize ispackage@3.14 stack trace",
        _CODE: "ArgInfo Arguments CO_ASYNC_GENERATOR CO_COROUTINE CO_GENERATOR "
        "CO_HAS_DOCSTRING@3.14 CO_ITERABLE_COROUTINE CO_METHOD@3.14 CO_NESTED CO_NEWLOCALS "
        "CO_NOFREE CO_OPTIMIZED CO_VARARGS CO_VARKEYWORDS ClosureVars TPFLAGS_IS_ABSTRACT getargs "
        "getargvalues getclosurevars iscode isframe ismodule istraceback",
        "the state of a generator is not readable": "AGEN_CLOSED@3.12 AGEN_CREATED@3.12 "
        "AGEN_RUNNING@3.12 AGEN_SUSPENDED@3.12 CORO_CLOSED CORO_CREATED CORO_RUNNING "
        "CORO_SUSPENDED GEN_CLOSED GEN_CREATED GEN_RUNNING GEN_SUSPENDED getasyncgenlocals@3.12 "
        "getasyncgenstate@3.12 getcoroutinelocals getcoroutinestate getgeneratorlocals "
        "getgeneratorstate",
        "use inspect.signature()": "FullArgSpec formatannotation formatannotationrelativeto "
        "formatargvalues getcallargs getfullargspec",
        "use typing.get_type_hints()": "get_annotations",
        _GETATTR: "Attribute BufferFlags@3.12 classify_class_attrs cleandoc getattr_static "
        "getclasstree getdoc getmembers getmembers_static getmro isdatadescriptor "
        "isgetsetdescriptor ismemberdescriptor ismethoddescriptor ismethodwrapper "
        "markcoroutinefunction@3.12 unwrap walktree",
    },
    "io": {
        _FILES: "BlockingIOError BufferedIOBase BufferedRWPair BufferedRandom BufferedReader "
        "BufferedWriter DEFAULT_BUFFER_SIZE FileIO IOBase IncrementalNewlineDecoder RawIOBase "
        "Reader@3.14 TextIOBase TextIOWrapper Writer@3.14 open open_code text_encoding",
    },
    "logging": {
        _FILES: "FileHandler lastResort",
        _RECORDS: "BufferingFormatter getHandlerByName@3.12 "
        "getHandlerNames@3.12 getLogRecordFactory getLoggerClass makeLogRecord raiseExceptions "
        "setLogRecordFactory setLoggerClass",
        "warnings are printed to standard error": "captureWarnings",
    },
    "lzma": {_FILES: "LZMAFile open"},
    "mimetypes": {
        _FILES: "MimeTypes inited knownfiles read_mime_types",
    },
    "os.path": {
        _FILES: "abspath exists expanduser expandvars getatime getctime getmtime getsize "
        "isdevdrive@3.13 isdir isfile isjunction@3.12 islink ismount lexists realpath samefile "
        "sameopenfile samestat ALLOW_MISSING@3.14",
        _INTERNAL: "defpath devnull supports_unicode_filenames",
    },
    "pathlib": {_INTERNAL: "WindowsPath"},
    "random": {_SEED: "SystemRandom"},
    "re": {_OBSOLETE: "template@<3.13"},
    "reprlib": {_GETATTR: "recursive_repr"},
    "secrets": {_SEED: "SystemRandom"},
    "shlex": {"use shlex.split()": "shlex"},
    "string": {"use str.format() or an f-string": "Formatter"},
    "sys": {
        _INTERPRETER: "abiflags activate_stack_trampoline@3.12 addaudithook api_version audit "
        "base_exec_prefix base_prefix breakpointhook builtin_module_names call_tracing copyright "
        "deactivate_stack_trampoline@3.12 displayhook dont_write_bytecode excepthook exec_prefix "
        "executable flags get_asyncgen_hooks get_coroutine_origin_tracking_depth "
        "getallocatedblocks getdlopenflags getfilesystemencodeerrors getfilesystemencoding "
        "getrefcount getswitchinterval getunicodeinternedsize@3.12 implementation is_finalizing "
        "is_remote_debug_enabled@3.14 is_stack_trampoline_active@3.12 meta_path "
        "monitoring@3.12 orig_argv path_hooks path_importer_cache platlibdir prefix "
        "pycache_prefix remote_exec@3.14 set_asyncgen_hooks set_coroutine_origin_tracking_depth "
        "setdlopenflags setswitchinterval stdlib_module_names thread_info unraisablehook "
        "warnoptions",
        _FRAMES: "getprofile gettrace setprofile settrace",
        "take values from `inputs`": "argv stdin",
        "a script is one file; import by name": "modules path",
    },
    "threading": {
        _FRAMES: "getprofile gettrace setprofile setprofile_all_threads@3.12 settrace "
        "settrace_all_threads@3.12",
        _INTERPRETER: "ExceptHookArgs excepthook stack_size",
    },
    "time": {
        _CLOCK: "CLOCK_BOOTTIME CLOCK_MONOTONIC CLOCK_MONOTONIC_RAW CLOCK_PROCESS_CPUTIME_ID "
        "CLOCK_REALTIME CLOCK_TAI CLOCK_THREAD_CPUTIME_ID clock_getres clock_gettime "
        "clock_gettime_ns clock_settime clock_settime_ns get_clock_info pthread_getcpuclockid "
        "thread_time thread_time_ns",
        _UTC: "tzset",
    },
    "traceback": {
        _FRAMES: "FrameSummary StackSummary TracebackException clear_frames extract_stack "
        "format_stack print_last print_list@3.14 print_stack walk_stack",
    },
    "types": {
        _CODE: "CellType ClassMethodDescriptorType CodeType FrameType FunctionType "
        "GetSetDescriptorType LambdaType MemberDescriptorType MethodDescriptorType "
        "MethodWrapperType ModuleType TracebackType WrapperDescriptorType",
        "use a class statement": "new_class prepare_class resolve_bases",
        _INTERNAL: "CapsuleType@3.13 DynamicClassAttribute coroutine",
    },
    "typing": {
        "typing.get_type_hints() resolves annotations that are text": "ForwardRef "
        "evaluate_forward_ref@3.14",
        _INTERNAL: "clear_overloads get_overloads",
        _OBSOLETE: "no_type_check_decorator@<3.15",
    },
    "unicodedata": {_INTERNAL: "UCD ucd_3_2_0"},
    "uuid": {
        _INTERNAL: "bytes_ int_ main@3.12",
        "use uuid.uuid4()": "getnode uuid1 uuid6@3.14 uuid7@3.14 uuid8@3.14",
    },
    "warnings": {
        "warnings have one form, and are printed to standard error": "formatwarning showwarning "
        "warn_explicit",
    },
    "weakref": {
        _UNTIMED: "finalize",
        "the worker has references of its own": "getweakrefcount getweakrefs",
        "keep a weak reference to the object, and call its method": "WeakMethod",
        "it passes for another object in checks of types; use weakref.ref()": "CallableProxyType "
        "ProxyType ProxyTypes proxy",
    },
    "xml.etree.ElementTree": {
        "parse the text as a whole: use fromstring()": "TreeBuilder XMLPullParser iterparse",
        "use canonicalize()": "C14NWriterTarget",
    },
    "zoneinfo": {_FILES: "InvalidTZPathWarning TZPATH reset_tzpath"},
}

#: Reasons by module and name, for the running Python.
REFUSED: Final = {
    module: {
        name: reason
        for reason, words in rows.items()
        for name, added in select_names(words, sys.version_info[:2]).items()
        if added is None
    }
    for module, rows in _ROWS.items()
}


_TEXT_ONLY: Final = frozenset({"os", "os.path"})


def _describe(module: str) -> str:
    """Describe the part of a module that scripts have, in a few words; empty if it is whole."""
    offered, refused = MODULES[module], REFUSED.get(module, {})
    missing = sorted(name for name, reason in refused.items() if reason not in _EXPECTED)
    unexpected = [name for name, reason in refused.items() if reason not in _MINOR]
    rest = module in _TEXT_ONLY or len(unexpected) > len(offered)
    if not (missing or rest):
        return ""
    only = f"only {', '.join(sorted(offered))}"
    return min(only, f"no {', '.join(missing)}", key=len) if missing else only


#: Packages that hold nothing but modules.
PARENTS: Final = {
    module
    for module, names in MODULES.items()
    if all(f"{module}.{name}" in MODULES for name in names)
}
#: Modules that scripts have in part, with a description of that part for a model.
PARTIAL: Final = {module: text for module in MODULES if (text := _describe(module))}


def find_reason(module: str, name: str) -> str:
    """Return the reason why scripts lack a public name of a module, or an empty string.

    Args:
        module: A module that scripts may import.
        name: The missing name.
    """
    added = NEWER.get(f"{module}.{name}")
    if added is not None:
        here = ".".join(map(str, sys.version_info[:2]))
        return f"it is new in Python {added[0]}.{added[1]}, and this is Python {here}"
    if module == "os":
        return _SYSTEM if hasattr(os, name) else ""
    return REFUSED.get(module, {}).get(name, "")
