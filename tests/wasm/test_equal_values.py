"""The corpora on both engines: equal values, but for what differs between versions of Python.

Each entry of `DIFFERENT` has the reason. A value that differs and is not in it fails, and so does
an entry whose values are equal.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits, Session
from tests.shared import test_shared_corpus as corpus
from tests.worker import test_modules as modules
from tests.worker import test_plain_python as plain

PROGRAMS = Path(__file__).parent.parent / "programs"
MESSAGE = "the message of an error has other words"
TRACEBACK = "a traceback marks the place of a call in more lines"
LATER = "the library differs from 3.12 or 3.13 on"
TYPE = "the library raises another type of error"
DIFFERENT: dict[str, str] = {
    "classes[12]": MESSAGE,
    "classes[16]": MESSAGE,
    "data[37]": "the repr of an OrderedDict is that of a dict from 3.12 on",
    "data_classes[28]": MESSAGE,
    "data_classes[57]": MESSAGE,
    "data_classes[71]": TYPE,
    "data_classes[77]": "data classes compare field by field from 3.13 on, so NaN is not equal",
    "data_classes[85]": MESSAGE,
    "data_classes[92]": MESSAGE,
    "formats[0]": "3.15 has lazy imports in syntax trees",
    "formats[8]": "the version in hexadecimal, and the limits of decimal with 32 bits",
    "library[18]": "calendar has an enumeration of days from 3.12 on",
    "threads": "threads that need each other in turn: a guest has one stack",
    "plain.wrong_arguments_of_builtins": MESSAGE,
    "plain.vars_of_a_class": "a class has a function for its annotations from 3.14 on",
    "plain.decimal_format": MESSAGE,
    "plain.private_names_in_messages": MESSAGE,
    "plain.traceback_limit_and_chain": TRACEBACK,
    "plain.parameters_are_ordered": "as data[37]",
    "plain.filters_answer_as_in_this_version": "the program asks for 3.11",
    "plain.messages_of_wrong_arguments": MESSAGE,
    "plain.errors_in_source_show_their_place": TRACEBACK,
    "plain.signatures_of_enums": "enumerations have another signature from 3.12 on",
    "plain.wrong_arguments_of_the_library_raise": MESSAGE,
    "plain.original_bases": "`types.get_original_bases` exists from 3.12 on",
    "plain.methods_of_handlers_loggers_and_filters": LATER,
    "plain.arguments_are_checked_in_the_order_of_the_library": TYPE,
    "plain.filters_of_warnings_are_checked": TYPE,
    "plain.stand_ins_are_described_and_referred_to_as_in_the_library": LATER,
    "plain.copies_ask_getattr": MESSAGE,
    "plain.copies_of_frozen_dataclasses_with_slots": MESSAGE,
    "plain.type_hints_forms": "Optional is a union from 3.14 on",
    "plain.format_exc": TRACEBACK,
    "plain.format_exc_chain": TRACEBACK,
    "plain.format_exc_recursion": TRACEBACK,
    "plain.extract_tb": TRACEBACK,
    "plain.logged_exception": TRACEBACK,
    "idiom type_alias_312": "the statement exists from 3.12 on",
}


ANNOTATION = "names in annotations are evaluated when asked for, from 3.14 on"
DIFFERENT_SHARED: dict[str, str] = {
    **dict.fromkeys((f"snippet {n}" for n in (96, 183, 308, 424, 425, 486, 487)), ANNOTATION),
    "snippet 191": "int.is_integer exists from 3.12 on, so the script gets further",
    "snippet 262": "a comprehension has no frame of its own from 3.12 on",
    "snippet 336": "the last digit of a sum: another mathematical library",
    "idiom type_alias_312": "the statement exists from 3.12 on",
}


def cases() -> dict[str, str]:
    found = {path.stem: path.read_text() for path in sorted((PROGRAMS / "allowed").glob("*.py"))}
    found["plain"] = plain.PROGRAMS + plain.RUN
    lines = (PROGRAMS / "idioms.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        found[f"idiom {row['name']}"] = modules._as_run(row)
    return found


async def outcome(session: Session, source: str) -> Any:
    result = await session.program(source=source, limits=Limits(timeout_ms=30_000))
    if result.status == "completed":
        return result.value
    return [result.status, result.error and result.error.message]


def compare(name: str, one: Any, other: Any, found: dict[str, tuple[Any, Any]]) -> int:
    """Add the parts that differ to `found`; return how many are equal."""
    if isinstance(one, dict) and isinstance(other, dict):
        parts = [(f"{name}.{key}", one[key], other.get(key)) for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        parts = [(f"{name}[{at}]", one[at], other[at]) for at in range(len(one))]
    else:
        parts = [(name, one, other)]
    found |= {place: (left, right) for place, left, right in parts if left != right}
    return sum(left == right for _, left, right in parts)


@pytest.mark.anyio
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the list is for 3.11 and 3.15")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_programs_have_equal_values_on_both_engines(tmp_path: Path) -> None:
    found: dict[str, tuple[Any, Any]] = {}
    equal = 0
    async with (
        Session(tmp_path, toolsets=(), engine="process", workers=1) as process,
        Session(tmp_path, toolsets=(), engine="wasm", workers=1) as wasm,
    ):
        for name, source in cases().items():
            one, other = await outcome(process, source), await outcome(wasm, source)
            equal += compare(name, one, other, found)
    unknown = {name: values for name, values in found.items() if name not in DIFFERENT}
    assert not unknown, json.dumps(unknown, indent=1)[:20_000]
    assert found.keys() == DIFFERENT.keys()
    assert equal > 400


def shared_scripts() -> dict[str, str]:
    """Scripts that models wrote, and shared idioms, by their line.

    Each run has random numbers of its own, so scripts that use them get a seed.
    """
    found = {
        f"snippet {number}": corpus.as_programs(row)[1].replace(
            "\nimport random\n", "\nimport random\nrandom.seed(332)\n"
        )
        for number, row in enumerate(corpus.load(corpus.SNIPPETS))
    }
    idioms = corpus.load(corpus.IDIOMS)
    return found | {f"idiom {row['name']}": modules._as_run(row) for row in idioms}


@pytest.mark.timeout(900)
@pytest.mark.anyio
@pytest.mark.skipif(not corpus.SNIPPETS.exists(), reason="no corpus; PTC_SHARED names its folder")
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the list is for 3.11 and 3.15")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_scripts_of_models_have_equal_outcomes_on_both_engines(tmp_path: Path) -> None:
    different: dict[str, tuple[Any, Any]] = {}
    equal = 0
    async with (
        Session(tmp_path, toolsets=(), engine="process", workers=2) as process,
        Session(tmp_path, toolsets=(), engine="wasm", workers=2) as wasm,
    ):
        scripts = shared_scripts()
        for names in batched(scripts, 8):
            pairs = await asyncio.gather(
                *(told(session, scripts[name]) for name in names for session in (process, wasm))
            )
            for name, one, other in zip(names, pairs[::2], pairs[1::2], strict=True):
                equal += one == other
                if one != other:
                    different[name] = one, other
    unknown = {name: pair for name, pair in different.items() if name not in DIFFERENT_SHARED}
    assert not unknown, json.dumps(unknown, indent=1)[:20_000]
    assert different.keys() == DIFFERENT_SHARED.keys()
    assert equal > 1_000


def batched(names: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = list(names)
    for start in range(0, len(rest), size):
        yield rest[start : start + size]


async def told(session: Session, source: str) -> Any:
    result = await session.program(source=source, limits=Limits(timeout_ms=10_000))
    kind = result.error and result.error.type
    return [result.status, kind, result.value, result.stdout]
