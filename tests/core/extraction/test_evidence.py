"""Quotes are verified in the document, whatever the model says."""

from __future__ import annotations

from typing import Any

from ptc._extraction._evidence import SourceText, cite, evidence_schema
from ptc.structured import Contract

TEXT = "Invoice  No. 7\nSeller: “Müller” \u2013 Sons\nThe exam-\nple costs 1,450.00 EUR."


def test_exact_quote_has_its_position() -> None:
    found = SourceText(TEXT).find("/total", "1,450.00 EUR")
    assert (found.match, found.supported) == ("exact", True)
    assert TEXT[found.start : found.end] == "1,450.00 EUR"


def test_quote_in_another_form_is_found_and_replaced_by_the_words_of_the_document() -> None:
    text = SourceText(TEXT)
    for quote in (
        "invoice no. 7",
        'seller: "Mu\u0308ller" - sons',
        "the EXAMPLE costs",
        "Sons The exam",
    ):
        found = text.find("", quote)
        assert found.match == "normalised", quote
        assert found.start is not None
        assert found.quote == TEXT[found.start : found.end]
    assert text.find("", 'seller: "müller" - sons').quote == "Seller: “Müller” \u2013 Sons"


def test_invented_missing_and_blank_quotes_support_nothing() -> None:
    text = SourceText(TEXT)
    assert not text.find("", "1,450.00 USD").supported
    assert text.find("", None).quote is None
    assert not text.find("", " \n").supported
    assert not text.find("", "\u200b").supported


def test_each_scalar_is_cited_by_the_parallel_structure() -> None:
    value = {"a/b": "x", "lines": [{"n": 1}, {"n": 2}], "none": None, "flag": True}
    quotes = {"a/b": "No. 7", "lines": [{"n": "Sons"}], "flag": ["strange"]}
    found = [(e.path, e.quote, e.supported) for e in cite(value, quotes, SourceText(TEXT))]
    assert found == [
        ("/a~1b", "No. 7", True),
        ("/lines/0/n", "Sons", True),
        ("/lines/1/n", None, False),
        ("/flag", None, False),
    ]


def test_schema_of_quotes_is_parallel_and_permits_missing_ones() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "total": {"type": "number"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
            "tree": {"$ref": "#"},
        },
        "required": ["total"],
        "$defs": {"Line": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}},
    }
    contract = Contract(evidence_schema(schema))
    line = {"total": 1, "lines": [{"n": 3}], "tree": {"total": 2}}
    right = {"total": "one", "lines": [{"n": "three"}], "tree": {"total": "anything"}}
    assert contract.conforms({"value": line, "evidence": right})
    assert contract.conforms({"value": line, "evidence": {}})
    assert not contract.conforms({"value": line, "evidence": {"total": 1}})
    assert not contract.conforms({"value": {**line, "total": "1"}, "evidence": right})
    assert not contract.conforms({"value": {**line, "tree": {}}, "evidence": right})


def test_schema_of_a_deep_recursion_stays_small() -> None:
    names = [f"A{n}" for n in range(12)]
    defs = {
        name: {
            "type": "object",
            "properties": {other: {"$ref": f"#/$defs/{other}"} for other in names},
        }
        for name in names
    }
    made = evidence_schema({"$ref": "#/$defs/A0", "$defs": defs})
    assert len(repr(made)) < 200_000


def test_part_of_a_longer_number_or_word_supports_nothing() -> None:
    text = SourceText(
        "Invoice 2025-11: 1,450.00 EUR, Müller-Party, caf\u00e9 5 \U0001f600 合計450円"
    )
    for quote in ("2", "50", "1", "450.00", "voice", "art", "cafe", "Caf", "45"):
        assert not text.find("/a", quote).supported, quote
    for quote in (
        "2025",
        "11",
        "1,450.00",
        "Müller",
        "party",
        "CAF\u00c9",
        "5",
        "\U0001f600",
        "計450",
    ):
        assert text.find("/a", quote).supported, quote
    # Positions count characters, also those beyond the basic plane.
    found = text.find("/a", "5 \U0001f600")
    assert (found.start, found.end) == (50, 53)


def test_quote_that_repeats_in_a_long_text_is_found_at_once() -> None:
    assert not SourceText("1" * 1_000_000).find("/a", "1" * 100).supported
    assert SourceText("1" * 1_000_000 + " 1").find("/a", "1").start == 1_000_001
