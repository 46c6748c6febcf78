"""The immortal heap of a zygote: which objects it changes, and that scripts notice nothing."""

from __future__ import annotations

import ctypes
import sys

import pytest

from ptc.worker._immortal import make_heap_immortal

from .own_process import in_process

needs_immortal_objects = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="no immortal objects before CPython 3.12"
)


def test_heap_stays_as_it_is_if_the_reference_count_is_elsewhere() -> None:
    def next_field(address: int) -> ctypes.c_uint32:
        return ctypes.c_uint32.from_address(address + ctypes.sizeof(ctypes.c_ssize_t))

    item = object()
    before = sys.getrefcount(item)
    assert list(make_heap_immortal(next_field)) == []
    assert sys.getrefcount(item) == before


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 has immortal objects")
def test_heap_stays_as_it_is_before_3_12() -> None:
    assert list(make_heap_immortal()) == []


@needs_immortal_objects
def test_references_to_objects_of_the_heap_are_not_counted() -> None:
    code = """
import json, sys
from ptc.worker._immortal import make_heap_immortal
names, text = {"key": [b"in a list"]}, json.dumps({})
def function(argument=3.25): return "constant of a function".upper()
assert sum(make_heap_immortal()) > 1_000
found = [json, json.loads, json.JSONDecoder, names, names["key"][0], function.__code__,
    function.__defaults__, *function.__code__.co_consts]
before = [*map(sys.getrefcount, found)]
copies = [list(found) for _ in range(50)]
print(before == [*map(sys.getrefcount, found)])
"""
    assert in_process(code) == "True"


@needs_immortal_objects
def test_objects_of_a_script_are_freed_as_before() -> None:
    code = """
import gc, sys, weakref
from ptc.worker._immortal import make_heap_immortal
class Known: pass
held, freed = [], []
list(make_heap_immortal())
class Own: pass
for kind in (Known, Own):
    item, cycle = kind(), kind()
    cycle.itself = cycle
    held.append(item)
    weakref.finalize(item, freed.append, "item")
    weakref.finalize(cycle, freed.append, "cycle")
    held.clear()
    del item, cycle
    gc.collect()
print(freed)
"""
    assert in_process(code) == "['item', 'cycle', 'item', 'cycle']"


@needs_immortal_objects
def test_forked_process_copies_fewer_pages_of_an_immortal_heap() -> None:
    code = """
import os, resource, sys
from ptc.worker._immortal import make_heap_immortal
items = [(str(number), [number]) for number in range(50_000)]
def copied():
    pid = os.fork()
    if pid == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for text, numbers in items: text, numbers
        ended = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        os._exit(min((ended - before) // 10, 255))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
before = copied()
list(make_heap_immortal())
print(before > 100, copied() < 10)
"""
    assert in_process(code) == "True True"
