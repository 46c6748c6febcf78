"""Compare random programs in ptc with the same programs in plain Python.

A program calls façades or uses language features, and prints the value or the error of each step.
Its lines must be equal. Programs are joined to one script, since most of the time of a short one is
its start; one that ends the script, hangs or differs is repeated alone, and that outcome counts. A step that ptc refuses with an error which says so is counted, as are
steps that fail on both sides with errors of other texts ("worded") and steps that fail in ptc alone
("stricter"); any other difference is silent, and a finding.

usage: python tests/fuzz/plain.py [--programs 1000] [--seed 1] [--only calls|language]

Exit status 1 if there are findings; each such program is in the folder, with the difference in its
first lines. The same seed writes the same programs.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import types
import warnings
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from ptc._language._compiler import ScriptRejected, compile_script  # noqa: E402  # as below
from tests.fuzz.plain_calls import Calls, imports  # noqa: E402  # the repository is on the path now
from tests.fuzz.plain_documented import without_documented  # noqa: E402  # as above
from tests.fuzz.plain_language import Language  # noqa: E402  # as above
from tests.fuzz.plain_tables import DEFINITIONS  # noqa: E402  # as above

_STEPS = 4
_BATCH = 50
_AHEAD = 2
_MARK: Final = "# program "
_FROM: Final = """
from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from contextlib import (AbstractContextManager, AsyncExitStack, ContextDecorator, ExitStack,
    asynccontextmanager, closing, contextmanager, nullcontext, redirect_stdout, suppress)
from dataclasses import (FrozenInstanceError, InitVar, KW_ONLY, asdict, astuple, dataclass, field,
    fields, is_dataclass, make_dataclass, replace)
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation, localcontext
from enum import (CONTINUOUS, KEEP, NAMED_FLAGS, STRICT, UNIQUE, Enum, Flag, IntEnum, IntFlag, StrEnum, auto,
    member, nonmember, unique, verify)
from fractions import Fraction
from functools import (cached_property, cmp_to_key, lru_cache, partial, reduce, singledispatch,
    singledispatchmethod, total_ordering, wraps)
from itertools import accumulate, chain, groupby, pairwise, zip_longest
from pathlib import Path, PurePath
from pprint import pformat
from string import Template
from types import SimpleNamespace
from typing import (ClassVar, Generic, NamedTuple, NewType, NotRequired, ParamSpec, Protocol, TypedDict, TypeVar,
    runtime_checkable)
from urllib.parse import parse_qs, urlencode, urljoin, urlparse

T = TypeVar("T")

class Mine(Exception):
    def __init__(self, code=0):
        super().__init__("mine", code)
        self.number = code

@runtime_checkable
class Runnable(Protocol):
    def method(self): ...

@runtime_checkable
class Sup(Protocol):
    x: int

async def coroutine():
    return 1
"""

#: Errors by which ptc says that it refuses something, see docs/limitations.md.
REFUSALS: Final = re.compile(
    r"RefusedError|a script may not|is not available in a script|may not be named|no signature found for"
    r"|is not available|cannot be changed|is hidden from scripts|inside `async def run` write"
    r"|(?:Future|Task) objects are made by asyncio"
)
_TYPES: Final = "|".join(types.__all__)
_NOISE: Final = (
    (re.compile(r"\b0x[0-9a-f]{6,}"), "0x0"),
    # The end of an address: `reprlib` omits the middle of a default repr.
    (re.compile(r"(<[\w.]+(?: [\w.]+)?\.\.\.)(?:0?x)?[0-9a-f]+(?=(?: \[[\w, :]*\])?>)"), r"\1"),
    (re.compile(r"(id[ =])\d{6,}"), r"\1N"),
    (re.compile(r"(<module \\*')posixpath(\\*')[^>]*>"), r"\1os.path\2>"),
    (re.compile(r"(<module \\*'[\w.]+\\*') (?:from [^>]*|\(built-in\)|\(frozen\))>"), r"\1>"),
    (re.compile(r"(<_MainThread\(.*?, started) \d+(?=\)>)"), r"\1"),
    # An address, as a hash.
    (re.compile(r"\b(?:8[67]|1[34]0)\d{10,12}\b|\b65[56]\d\d\b"), "N"),
    # 3.11 names the module that makes the class; a script has one module.
    (re.compile(r"\btypes\.N\b"), "__main__.N"),
    (re.compile(rf"<class (\\*')types\.(?!(?:{_TYPES})\b)"), r"<class \1__main__."),
    (re.compile(r"\babc\.B\b"), "__main__.B"),
    (re.compile(r"'(?:ABCMeta|EnumType|_(?:Any|Protocol|TypedDict)Meta)(\\*')"), r"'type\1"),
    # Documented: pathlib has one class for each of these pairs.
    (re.compile(r"\b(Pure|)PosixPath\b"), r"\1Path"),
    # A type of ptc has its own name: the walk of reachable objects knows dangerous ones by theirs.
    (re.compile(r"\b_thread\._local\b|\b_local\b"), "local"),
    (re.compile(r"\['Lock'"), "['lock'"),
    # Documented: the streams are objects of ptc.
    (re.compile(r"\b(?:Output|Stream)\b"), "Stream"),
    # Documented: the type of what `asyncio.gather` returns.
    (re.compile(r"\['_GatheringFuture', "), "['Future', "),
    # Documented: classes in place of functions.
    (
        re.compile(r"\['builtin_function_or_method', '<built-in function allocate_lock>'\]"),
        "['class', \"<class 'threading.Lock'>\", 'Lock', 'Lock']",
    ),
    (
        re.compile(r"\['function', '<function RLock at 0x0>'\]"),
        "['class', \"<class 'threading.RLock'>\", 'RLock', 'RLock']",
    ),
    # `type(x)` of a class, see docs/limitations.md.
    (
        re.compile(r"<class (\\*')(?:abc\.ABCMeta|enum\.EnumType|typing\._\w+Meta)\\*'>"),
        r"<class \1type\1>",
    ),
)


#: How a program ended (``end``), and what it printed (``out``, ``err``).
Outcome = dict[str, str]


@dataclass(frozen=True, slots=True)
class Batch:
    """Programs that have the same first lines."""

    start: str
    programs: list[str]

    def alone(self, number: int) -> str:
        """Return the source of one program."""
        return self.start + self.programs[number]

    def joined(self, first: int) -> str:
        """Return one source for the programs from `first` on, each after a line that it prints."""
        numbered = enumerate(self.programs[first:], first)
        return self.start + "".join(f"print('{_MARK}{n}')\n{text}" for n, text in numbered)


class Programs:
    """Writes programs; the same `chance` writes the same ones.

    Attributes:
        rejected: Reasons for which the compiler refused steps, which were left out, with numbers.
    """

    def __init__(self, chance: Random, only: str = "") -> None:
        self._chance = chance
        self._only = only
        self._calls = Calls(chance, DEFINITIONS)
        self._language = Language(chance)
        self.rejected: Counter[str] = Counter()
        self.steps = 0

    def batch(self, size: int) -> Batch:
        """Return `size` programs, all of calls or all of language features."""
        kind = self._only or self._chance.choice(["calls", "language"])
        start = imports() + (_FROM if kind == "language" else "") + DEFINITIONS
        return Batch(start, [self._program(kind) for _ in range(size)])

    def _program(self, kind: str) -> str:
        return "".join(self._step(kind, number) for number in range(_STEPS))

    def _step(self, kind: str, number: int) -> str:
        while True:
            if kind == "calls":
                text = f"step({number}, lambda: {self._calls.expression()})\n"
            else:
                text = self._language.statements(number)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    compile(text, "script.py", "exec", dont_inherit=True)
            except SyntaxError:
                continue
            self.steps += 1
            try:
                compile_script(text, require_run=False)
            except ScriptRejected as rejected:
                finding = rejected.findings[0]
                self.rejected[f"rejected {finding.code}: {finding.message}"] += 1
                continue
            return text


class Interpreter:
    """A process that executes programs: plain Python, or the worker's runtime."""

    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-X", "utf8", ROOT / "tests" / "fuzz" / "plain_child.py", kind],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={"PATH": os.defpath, "TZ": "UTC0", "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip

        self._queue = ThreadPoolExecutor(1)

    def start(self, source: str) -> Future[Outcome]:
        """Execute one source."""
        return self._queue.submit(self._run, source)

    def start_all(self, batch: Batch) -> Future[list[Outcome]]:
        """Execute the programs of a batch."""
        return self._queue.submit(self._run_all, batch)

    def _run(self, source: str) -> Outcome:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([0, source]) + "\n")
        process.stdin.flush()
        found: Outcome = json.loads(process.stdout.readline())[1]
        return found

    def _run_all(self, batch: Batch) -> list[Outcome]:
        found: list[Outcome] = []
        while len(found) < len(batch.programs):
            found += _outcomes(self._run(batch.joined(len(found))), len(found), len(batch.programs))
            if len(found) < len(batch.programs):
                found.append(self._run(batch.alone(len(found))))
        return found

    def close(self) -> None:
        """End the process."""
        self._queue.shutdown()
        self._process.communicate()


def _outcomes(joined: Outcome, first: int, end: int) -> list[Outcome]:
    """Return the outcomes of those programs after which the script went on."""
    found: list[Outcome] = []
    rest = joined["out"].removeprefix(f"{_MARK}{first}\n")
    for number in range(first, end):
        text, mark, rest = rest.partition(f"{_MARK}{number + 1}\n")
        if not mark and (number + 1 < end or joined["end"] != "done"):
            break
        found.append({"end": "done", "out": text, "err": ""})
    return found


def normal(text: str) -> str:
    """Remove what differs between any two processes: addresses."""
    for pattern, replacement in _NOISE:
        text = pattern.sub(replacement, text)
    return text


@dataclass
class Verdict:
    """Comparison of one program: lines of steps by kind of difference."""

    #: Another value, other text, an error on one side where the other has a value.
    silent: list[str] = field(default_factory=list)
    #: Both raise exceptions of one type, and their texts differ.
    worded: list[str] = field(default_factory=list)
    #: ptc raises an error of its own that does not say that it refuses something.
    stricter: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def outcome(self) -> str:
        """Return the worst kind."""
        kinds = ("silent", "worded", "stricter", "refused")
        return next((kind for kind in kinds if getattr(self, kind)), "equal")


def compare(plain: Outcome, ours: Outcome) -> Verdict:
    """Compare the outcomes of a program."""
    found = Verdict()
    if ours["end"].startswith("rejected"):
        found.refused.append(ours["end"])
        return found
    if normal(ours["end"]) != normal(plain["end"]):
        found.silent.append(f"plain ends: {plain['end']}\nptc ends:   {ours['end']}")
    expected, actual = _steps(plain["out"]), _steps(ours["out"])
    if expected.keys() != actual.keys():
        found.silent.append(f"steps {list(expected)}, here {list(actual)}")
    for number in expected.keys() & actual.keys():
        before, after = expected[number], actual[number]
        if before == after:
            continue
        _compare_step(found, number, before, after)
    return found


def _compare_step(found: Verdict, number: str, before: str, after: str) -> None:
    """Add the line of a step, which differs, to the verdict."""
    text = f"{number} plain: {before}\n  ptc:   {after}"
    plain, ours = _shape(before), _shape(after)
    raised = [each.startswith("raises") for each in (before, after)]
    if plain is None or ours is None:
        is_refused = bool(REFUSALS.search(after) and not REFUSALS.search(before))
    else:
        if plain == ours and raised[0] == raised[1]:
            return
        rest = without_documented(plain, ours, REFUSALS)
        is_refused = rest != plain and _alike(rest, ours)
    if is_refused:
        found.refused.append(after)
    elif raised == [False, True]:
        found.stricter.append(text)
    elif raised[0] == raised[1] and _is_worded(plain, ours, raised[0]):
        found.worded.append(text)
    else:
        found.silent.append(text)


def _is_worded(plain: Any, ours: Any, raised: bool) -> bool:
    """Return True if two values, or two errors that were raised, differ in texts of errors only."""
    if plain is None or ours is None:
        return False
    return _alike(plain, ours) or (raised and plain[0] == ours[0])


#: Documented: functions of modules may be functions of ptc.
_CALLABLES: Final = frozenset(
    [
        "function",
        "builtin_function_or_method",
        "builtin_method",
        "partial",
        "method",
        "method-wrapper",
        "method_descriptor",
    ]
)


def _shape(line: str) -> Any:
    """Return the value that a step has printed; None if it is no value."""
    try:
        return _without_functions(ast.literal_eval(line.removeprefix("raises ")))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _without_functions(shape: Any) -> Any:
    if not isinstance(shape, list | tuple):
        return shape
    if shape and isinstance(shape[0], str) and shape[0] in _CALLABLES:
        return ["function"]
    return [_without_functions(each) for each in shape]


def _alike(plain: Any, ours: Any) -> bool:
    """True if two values differ in texts of exceptions only."""
    if plain == ours:
        return True
    if not (isinstance(plain, list) and isinstance(ours, list)) or len(plain) != len(ours):
        return False
    if plain[:1] == ours[:1] and _ERROR.search(str(plain[0])):
        return True
    if len(plain) > 2 and isinstance(plain[1], str):  # the `repr`, and what it consists of
        plain, ours = [plain[0], *plain[2:]], [ours[0], *ours[2:]]
        if plain == ours:
            return False
    return all(map(_alike, plain, ours))


_ERROR: Final = re.compile(r"Error$|Exception$|Warning$")


def _steps(output: str) -> dict[str, str]:
    """Return the printed lines by the number of the step."""
    found: dict[str, str] = {}
    last = ""
    for line in normal(output).splitlines():
        number, _, rest = line.partition(" ")
        if number.isdigit() and rest[:1] in {"[", "r"} and number not in found:
            found[number] = rest
        else:  # printed by the step that comes next
            last = number
            found[f"text {last}"] = line
    return found


class Tally:
    """Counts verdicts, and keeps programs with a finding."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.others: list[str] = []

    def add(self, number: int, source: str, found: Verdict) -> None:
        """Count the verdict of one program."""
        self.counts[found.outcome()] += 1
        self.reasons.update(map(_reason, found.refused))
        if found.silent:
            _keep(self._options.out, f"{self._options.seed}-{number}", source, found.silent)
        self.others += [*found.worded, *found.stricter]
        for kind in ("silent", "worded", "stricter", "refused"):
            self.counts[f"{kind} steps"] += len(getattr(found, kind))


def fuzz(options: argparse.Namespace) -> int:
    """Run the programs; return the number of those with a finding."""
    source = Programs(Random(options.seed), options.only)
    pair = [Interpreter("plain"), Interpreter("ptc")]
    tally = Tally(options)
    started = time.monotonic()
    waiting: deque[tuple[int, Batch, list[Future[list[Outcome]]]]] = deque()
    for first in range(0, options.programs, _BATCH):
        batch = source.batch(min(_BATCH, options.programs - first))
        waiting.append((first, batch, [each.start_all(batch) for each in pair]))
        if len(waiting) > _AHEAD:
            _judge(tally, pair, *waiting.popleft())
    while waiting:
        _judge(tally, pair, *waiting.popleft())
    for each in pair:
        each.close()
    used = time.monotonic() - started
    tally.counts["steps left out"] = source.rejected.total()
    tally.reasons += source.rejected
    _say(f"seed {options.seed}: {options.programs} programs in {used:.0f} s; {dict(tally.counts)}")
    if tally.others and options.verbose:
        _say("\n".join(tally.others))
    for reason, count in tally.reasons.most_common(options.reasons):
        _say(f"  {count:5} {reason}")
    return tally.counts["silent"]


def _judge(
    tally: Tally,
    pair: list[Interpreter],
    first: int,
    batch: Batch,
    outcomes: list[Future[list[Outcome]]],
) -> None:
    plain, ours = (each.result() for each in outcomes)
    for number in range(len(batch.programs)):
        found = compare(plain[number], ours[number])
        if found.silent:  # perhaps since ptc refused an earlier program something
            again = [each.start(batch.alone(number)) for each in pair]
            found = compare(again[0].result(), again[1].result())
        tally.add(first + number, batch.alone(number), found)


def _reason(line: str) -> str:
    match = re.search(
        r"(rejected \w+: .*|a script may not.*?|[^'\"]*is not available[^'\"]*|no signature found.*?)(?=[\"\[\],]|$)",
        line,
    )
    return (match[1] if match else line)[:110]


def _keep(folder: Path, name: str, source: str, wrong: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    head = "".join(f"# {line}\n" for text in wrong for line in text.split("\n"))
    (folder / f"{name}.py").write_text(head + source, encoding="utf-8", errors="backslashreplace")
    _say(f"--- {name}\n" + "\n".join(line[:400] for text in wrong[:4] for line in text.split("\n")))


def _say(text: str) -> None:
    sys.stdout.write(text.encode("ascii", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["calls", "language"], default="")
    parser.add_argument("--reasons", type=int, default=20, help="most frequent refusals to show")
    parser.add_argument("--verbose", action="store_true", help="show other errors, too")
    out = Path(tempfile.gettempdir()) / "ptc-plain-findings"
    parser.add_argument("--out", type=Path, default=out, help=f"default: {out}")
    return 1 if fuzz(parser.parse_args()) else 0


if __name__ == "__main__":
    sys.exit(main())
