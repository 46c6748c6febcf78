"""Allow-list entries as text: rules are calls, and anything else is an error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ptc import Allow, UsageError
from ptc._tools._allow_text import format_allow, parse_allow, split_entries


@pytest.mark.parametrize("text", ["read", "git_*", "fs.read", " read ", "*"])
def test_name_or_pattern_is_returned_as_it_is(text: str) -> None:
    assert parse_allow(text) == text.strip()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('read(path="src/**")', Allow("read", path="src/**")),
        ("read(path='src/**')", Allow("read", path="src/**")),
        ("fs.read(path = 'a')", Allow("fs.read", path="a")),
        ('bash(cmd in ["git", "pytest"])', Allow("bash", cmd=["git", "pytest"])),
        ('bash(cmd=["git", "pytest"])', Allow("bash", cmd=["git", "pytest"])),
        ("pay(amount == 5, dry=true)", Allow("pay", amount=5, dry=True)),
        ("pay(amount=-1.5, note=null)", Allow("pay", amount=-1.5, note=None)),
        ("pay(True in [True])", None),
    ],
)
def test_rule_of_values_equals_the_rule_in_python(text: str, rule: Allow | None) -> None:
    if rule is None:
        with pytest.raises(UsageError):
            parse_allow(text)
        return
    assert parse_allow(text) == rule


NUMBERS: list[Any] = [-1, 0, 1, 50, 99.5, 100, 100.5, 101, Decimal(100), Decimal("100.1")]


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("pay(amount <= 100)", [-1, 0, 1, 50, 99.5, 100, Decimal(100)]),
        ("pay(100 >= amount)", [-1, 0, 1, 50, 99.5, 100, Decimal(100)]),
        ("pay(amount < 100)", [-1, 0, 1, 50, 99.5]),
        ("pay(0 < amount <= 100)", [1, 50, 99.5, 100, Decimal(100)]),
        ("pay(amount > 100)", [100.5, 101, Decimal("100.1")]),
        ("pay(amount >= 100)", [100, 100.5, 101, Decimal(100), Decimal("100.1")]),
    ],
)
def test_bounds_allow_the_numbers_within_them(text: str, allowed: list[Any]) -> None:
    rule = parse_allow(text)
    assert isinstance(rule, Allow)
    assert [n for n in NUMBERS if rule.fits({"amount": n})] == allowed
    others: list[Any] = [True, None, "50", [50], float("nan"), Decimal("nan"), {}]
    for other in others:
        assert not rule.fits({"amount": other}), other
    assert not rule.fits({})


def test_bounds_are_described_to_a_model() -> None:
    assert str(parse_allow("pay(0 < amount <= 100)")) == "amount must be > 0 and <= 100"


@pytest.mark.parametrize(
    "text",
    [
        "pay(", "pay)", "pay()", "()", "pay(amount)", "pay(amount, 5)", "pay(amount <= x)",
        "pay(amount <= 'a')", "pay(amount <= True)", "pay(a <= b <= 5)", "pay(1 <= 2)",
        "pay(amount != 5)", "pay(amount not in [5])", "pay(amount is 5)", "pay(amount in 5)",
        "pay(amount == [5])", "pay(amount in [])", "pay(a=1, a=2)", "pay(a <= 1, a >= 0)",
        "pay(*x)", "pay(**x)", "pay(a=f())", "pay(a=__import__('os'))", "pay(a=b.c)",
        "pay(a=[[1]])",
        "pay(a=b'x')", "pay(a=1j)", "pay(a={'b': 1})", "pay(a <= 1 or True)", "pay(a <= 1) or x()",
        "lambda: pay(a=1)", "pay(a=1); pay", "pay(a=1)(b=2)", "pay[0](a=1)", "'pay'(a=1)",
        "pay(a=1", "pay(a := 1)", "pay(x for x in y)", "p y(a=1)", "pay(a=" + "(" * 300 + ")" * 300,
        "pay(a='" + "x" * 5_000 + "')", "pay(a=\0)", "pay(a=1\nb=2)", "pay(a=1 if x else 2)",
        "pay(a <= 1e400j)", "git_*(a=1)",
    ],
)  # fmt: skip
def test_malformed_rule_is_an_error_that_names_the_form(text: str) -> None:
    with pytest.raises(UsageError, match="is not a rule: ") as caught:
        parse_allow(text)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a, b,,c", ["a", "b", "c"]),
        ("", []),
        ("read, pay(a=1, b in [2, 3]), x", ["read", "pay(a=1, b in [2, 3])", "x"]),
        ("say(a='1,2', b=\"),\"),x", ["say(a='1,2', b=\"),\")", "x"]),
        ("pay(a=1", ["pay(a=1"]),
    ],
)
def test_list_is_split_at_commas_outside_of_rules(text: str, parts: list[str]) -> None:
    assert split_entries(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "read", "git_*", "fs.read", 'read(path="src/**")', "pay(amount <= 100)", "pay(3 < a)",
        "pay(0 <= amount < 100, note=null, dry=True)", "pay(-1.5 <= amount, kind in ['a', 'b(,'])",
        "pay(a=\"it's \\\\ 'x'\")",
    ],
)  # fmt: skip
def test_text_of_a_rule_parses_to_an_equal_rule(text: str) -> None:
    rule = parse_allow(text)
    assert parse_allow(format_allow(rule)) == rule


@pytest.mark.parametrize(
    "entry",
    [
        Allow("pay", amount=lambda a: a <= 1), Allow("pay", amount=float("inf")), "odd(name",
        Allow("pay", kind=["a", str.isupper]), Allow("pay", **{"not-a-word": 1}),
    ],
)  # fmt: skip
def test_rule_without_a_text_is_an_error(entry: str | Allow) -> None:
    with pytest.raises(UsageError, match="cannot be stored as text"):
        format_allow(entry)
