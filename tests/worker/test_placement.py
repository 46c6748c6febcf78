"""Placement in memory: what moves, what stays, and that nothing behaves differently."""

from __future__ import annotations

import sys

import pytest

from ptc.worker._placement import gather_executed_code

from .own_process import in_process

copies_code = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="code is not copied before CPython 3.12"
)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="code is copied from CPython 3.12 on")
def test_code_is_executed_and_stays_where_it_is_before_3_12() -> None:
    called = []

    def function() -> None:
        called.append(1)

    before = function.__code__
    assert gather_executed_code(function) == 0
    assert function.__code__ is before
    assert called == [1]


@copies_code
def test_code_of_executed_functions_moves_to_fewer_pages() -> None:
    code = """
from ptc.worker._placement import gather_executed_code
functions, other = [], []
for number in range(400):
    names = {"x": [number]}
    exec(f"def function(a={number}):\\n  for item in x:\\n    a = a + item\\n  return a", names)
    (other if number % 8 else functions).append(names["function"])
def pages():
    return len({id(function.__code__) >> 12 for function in functions})
before, codes = pages(), [function.__code__ for function in other]
values = [function() for function in functions]
gather_executed_code(lambda: [function() for function in functions])
print(pages() * 2 < before)
print([function() for function in functions] == values)
print(all(function.__code__ is code for function, code in zip(other, codes)))
"""
    assert in_process(code).split() == ["True"] * 3


@copies_code
def test_functions_that_share_code_share_its_copy_and_raise_on_the_same_line() -> None:
    code = """
import traceback
from ptc.worker._placement import gather_executed_code
def outer(given):
    number = given + 0  # counts its executions
    def inner(text):
        if number > 2:
            raise ValueError(text)
        return [number + item for item in range(2)]
    return inner
first = outer(1)
before = first.__code__, outer.__code__
print(gather_executed_code(lambda: (outer(1)("a"), first("a"))) >= 3)
second = outer(2)
after = first.__code__, outer.__code__
print(all(a is not b and a == b for a, b in zip(before, after)))
print(first.__code__ is second.__code__ is outer(3).__code__)
print(first("a"), second("b"))
try:
    outer(3)("message")
except ValueError as error:
    frames = traceback.extract_tb(error.__traceback__)
    print([(frame.lineno, frame.name) for frame in frames])
"""
    expected = ["True", "True", "True", "[1, 2] [2, 3]", "[(20, '<module>'), (8, 'inner')]"]
    assert in_process(code).splitlines() == expected


def test_new_objects_share_no_pages_with_those_that_were_there() -> None:
    code = """
from ptc.worker._placement import use_up_holes
SIZES = (40, 100, 250, 400)
kept = [[bytes(size) for _ in range(4_000)] for size in SIZES]
for items in kept:
    del items[::2]  # every page has holes now
old = {id(item) >> 12 for items in kept for item in items}
def shared():
    new.append([bytes(size) for size in SIZES for _ in range(100)])
    return len(old & {id(item) >> 12 for item in new[-1]})
new = []
print(shared() > 20, use_up_holes() >= 4 * 1_900, shared() < 4)
"""
    assert in_process(code) == "True True True"


def test_another_allocator_is_left_alone() -> None:
    code = """
import os, resource, sys
if "PYTHONMALLOC" not in os.environ:
    os.environ["PYTHONMALLOC"] = "malloc"
    os.execv(sys.executable, sys.orig_argv)
from ptc.worker._placement import use_up_holes
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(use_up_holes(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8_000)
"""
    assert in_process(code) == "0 True"
