"""Stream random documents of random schemas, and check every partial answer.

    python tests/fuzz/streams.py --documents 2000 --seed 7

Each document is streamed character by character, in small chunks and in large ones. A partial has
to be a part of the document that only grows, to conform to the schema without its lower bounds, and
to show choices whole; before the last character everything has to be shown. A failure names the
seed of its document.
"""

from __future__ import annotations

import argparse
import json
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from random import Random
from typing import Any

import jsonschema_rs

from ptc.structured import Contract, Partial, StreamParser

DRAFTS = {
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "7": "http://json-schema.org/draft-07/schema#",
    "4": "http://json-schema.org/draft-04/schema#",
}
STEMS = ("in", "invoice", "inv", "cat", "category", "a", "ab", "1", "10", "ü", "üb", "")
PIECES = (
    *string.ascii_lowercase,
    " ",
    '"',
    "\\",
    "\n",
    "ß",
    "漢",
    "😀",
    "𝄞",
    "\u2028",
    "\x7f",
    "/",
)
NAMES = ("id", "ids", "kind", "kinds", "name", "na/me", "a~b", "größe", "data", "tags", "x y", "%")


class Choice(str):
    """A text that is one of several values, and so is shown only whole."""

    __slots__ = ()


@dataclass(frozen=True)
class Counts:
    """Totals of a run."""

    documents: int
    partials: int


@dataclass(frozen=True)
class Document:
    """A schema and a value that conforms to it."""

    seed: int
    schema: Any
    value: Any
    text: str
    wrapped: bool


class Generator:
    """Writes a schema and a value for it at the same time."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._definitions: dict[str, Any] = {}
        self.draft = random.choice([*DRAFTS, "2020-12", "2020-12"])
        self._word = "definitions" if self.draft in ("7", "4") else "$defs"

    def document(self) -> tuple[Any, Any]:
        """Return a schema and a value."""
        maker = self._random.choice([self._object, self._object, self._union, self._list])
        schema, value = maker(0)
        schema = {"$schema": DRAFTS[self.draft], **schema}
        return ({**schema, self._word: self._definitions} if self._definitions else schema), value

    def _any(self, depth: int) -> tuple[Any, Any]:
        scalars = [self._text, self._choice, self._choice, self._scalar, self._nullable]
        containers = [self._object, self._list, self._union, self._tree, self._referred]
        maker: Callable[[int], tuple[Any, Any]] = self._random.choice(
            scalars if depth > 2 else [*scalars, *containers]
        )
        return maker(depth + 1)

    # -- scalars -----------------------------------------------------------------------------

    def _text(self, depth: int) -> tuple[Any, Any]:
        text = "".join(self._random.choices(PIECES, k=self._random.randint(0, 12)))
        rules: dict[str, Any] = {"minLength": len(text), "maxLength": len(text) + 2}
        some = {word: rules[word] for word in rules if self._random.random() < 0.4}
        if text.isascii() and text.isalpha() and self._random.random() < 0.5:
            some["pattern"] = f"^[a-z]{{{len(text)}}}$"
        return {"type": "string", **some}, text

    def _choice(self, depth: int) -> tuple[Any, Any]:
        options: list[Any] = self._random.sample(STEMS, self._random.randint(1, 4))
        value = Choice(self._random.choice(options))
        form = self._random.randrange(4)
        if form == 0 and self.draft != "4":
            return {self._random.choice(["anyOf", "oneOf"]): [{"const": o} for o in options]}, value
        if form == 1:
            options += [1, None, True]
        return {"enum": options}, value

    def _scalar(self, depth: int) -> tuple[Any, Any]:
        value = self._random.choice([0, -17, 123456, 0.5, -2.75, 1e20, True, False, None])
        named = {bool: "boolean", int: "integer", float: "number", type(None): "null"}
        if isinstance(value, int) and not isinstance(value, bool) and self._random.random() < 0.3:
            return {"type": "integer", "minimum": value, "maximum": value + 9}, value
        return {"type": named[type(value)]}, value

    def _nullable(self, depth: int) -> tuple[Any, Any]:
        schema, value = self._any(depth)
        value = None if self._random.random() < 0.3 else value
        kind = schema.get("type")
        if isinstance(kind, str) and kind != "null" and self._random.random() < 0.5:
            return {**schema, "type": [kind, "null"]}, value
        return {"anyOf": [schema, {"type": "null"}]}, value

    # -- objects -----------------------------------------------------------------------------

    def _object(self, depth: int) -> tuple[Any, Any]:
        names = self._random.sample(NAMES, self._random.randint(1, 4))
        made = {name: self._any(depth) for name in names}
        present = [name for name in names if self._random.random() < 0.8]
        value = {name: made[name][1] for name in present}
        properties = {name: made[name][0] for name in names}
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if self._random.random() < 0.6:
            schema["required"] = present[: self._random.randint(0, len(present))] or None
        rules: dict[str, Any] = {
            "additionalProperties": False,
            "minProperties": len(present),
            "maxProperties": len(present),
        }
        schema |= {word: rules[word] for word in rules if self._random.random() < 0.3}
        if self._random.random() < 0.3 and "maxProperties" not in schema:
            part, item = self._any(depth)
            schema["patternProperties"] = {"^z[0-9]+$": part}
            value |= {"z1": item}
            schema.pop("minProperties", None)
        if self.draft in ("2019-09", "2020-12") and "additionalProperties" not in schema:
            self._evaluate_later(schema, present)
        if self.draft != "4" and present and self._random.random() < 0.3:
            self._depend(schema, value)
        keys = list(value)
        self._random.shuffle(keys)
        return {w: r for w, r in schema.items() if r is not None}, {key: value[key] for key in keys}

    def _evaluate_later(self, schema: dict[str, Any], present: list[str]) -> None:
        """Declare the properties in other subschemas, and disallow all others."""
        if self._random.random() < 0.4:
            schema["unevaluatedProperties"] = False
            moved = {"properties": schema.pop("properties")}
            word = self._random.choice(["allOf", "anyOf"])
            schema[word] = [moved] if word == "allOf" else [moved, {"required": ["no such key"]}]
        if present and self._random.random() < 0.3:
            schema["dependentRequired"] = {present[0]: present[-1:]}

    def _depend(self, schema: dict[str, Any], value: dict[str, Any]) -> None:
        """Add rules that a part of the object decides."""
        key = self._random.choice(list(value))
        decided = {"properties": {key: {"const": value[key]}}, "required": [key]}
        if self.draft == "7" or self._random.random() < 0.6:
            schema |= {"if": decided, "then": {"required": list(value)}, "else": False}
        else:
            schema["not"] = {"properties": {key: {"const": "another"}}, "required": [key, "z"]}

    def _union(self, depth: int) -> tuple[Any, Any]:
        kinds = self._random.sample(STEMS, self._random.randint(2, 4))
        chosen = self._random.choice(kinds)
        branches, value = [], {}
        for kind in kinds:
            part, item = self._any(depth)
            branches.append(
                {
                    "type": "object",
                    "properties": {"kind": {"enum": [kind]}, "value": part},
                    "required": ["kind", "value"],
                    "additionalProperties": False,
                }
            )
            if kind == chosen:
                value = {"kind": Choice(kind), "value": item}
        if self._random.random() < 0.3:
            # Until its kind is known, a choice may be free text of another branch.
            value = {"value": json.loads(json.dumps(value["value"])), "kind": value["kind"]}
        return {self._random.choice(["anyOf", "oneOf"]): branches}, value

    # -- lists and references ----------------------------------------------------------------

    def _list(self, depth: int) -> tuple[Any, Any]:
        schema, value = self._any(depth)
        copies = self._random.randint(0, 4)
        listed: dict[str, Any] = {"type": "array", "items": schema}
        values = [value] * copies
        if self._random.random() < 0.4:
            listed["minItems"] = copies
        if self._random.random() < 0.4:
            head = [self._any(depth) for _ in range(self._random.randint(1, 3))]
            values = [*(item for _, item in head), *values]
            listed.pop("minItems", None)
            heads = [part for part, _ in head]
            if self.draft == "2020-12":
                word = self._random.choice(["items", "unevaluatedItems"])
                listed = {"type": "array", "prefixItems": heads, word: schema}
            else:
                listed |= {"items": heads, "additionalItems": schema}
        return listed, values

    def _tree(self, depth: int) -> tuple[Any, Any]:
        name = f"tree{len(self._definitions)}"
        reference = {"$ref": f"#/{self._word}/{name}"}
        self._definitions[name] = {}
        part, item = self._any(2)
        self._definitions[name] = {
            "type": "object",
            "properties": {"item": part, "next": {"type": "array", "items": reference}},
            "required": ["next"],
        }
        tree: dict[str, Any] = {"next": []}
        for _ in range(self._random.randint(0, 3)):
            tree = {"item": item, "next": [tree, {"next": []}]}
        return reference, tree

    def _referred(self, depth: int) -> tuple[Any, Any]:
        name = f"part {len(self._definitions)}"
        self._definitions[name] = {}
        self._definitions[name], value = self._any(depth)
        return {"$ref": f"#/{self._word}/{name.replace(' ', '%20')}"}, value


def documents(seed: int) -> Iterator[Document]:
    """Yield documents without end; that of number n has the seed ``seed + n``."""
    for own in count(seed):
        random = Random(own)
        schema, value = Generator(random).document()
        schema, plain = json.loads(json.dumps([schema, value]))
        contract = Contract(schema)
        if not contract.conforms(plain):
            # Rules that exclude each other by chance, such as those of two branches of `oneOf`.
            continue
        key = contract.wrapper if random.random() < 0.3 else None
        said = value if key is None else {key: value}
        text = json.dumps(said, indent=random.choice([None, 1]), ensure_ascii=random.random() < 0.5)
        yield Document(own, schema, value, text, key is not None)


# --- checks ----------------------------------------------------------------------------------


def without_lower_bounds(schema: Any) -> Any:
    """Return the schema without the rules that an unfinished value may yet come to satisfy."""
    if isinstance(schema, list):
        return [without_lower_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    relaxed: dict[str, Any] = {}
    for word, rule in schema.items():
        if word in _LOWER:
            continue
        if word in ("properties", "patternProperties", "$defs", "definitions"):
            relaxed[word] = {name: without_lower_bounds(sub) for name, sub in rule.items()}
        elif word in ("enum", "const", "$schema", "$ref", "type"):
            relaxed[word] = rule
        else:
            relaxed["anyOf" if word == "oneOf" else word] = without_lower_bounds(rule)
    return relaxed


_LOWER = frozenset(
    {"required", "minLength", "minItems", "minProperties", "pattern", "dependentRequired", "not",
     "if", "then", "else", "unevaluatedProperties", "unevaluatedItems"}
)  # fmt: skip


def is_part(before: Any, after: Any) -> bool:
    """True if `after` has all of `before`; texts may be longer, but choices are whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and is_part(item, after[key]) for key, item in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) <= len(after) and all(map(is_part, before, after))
    if isinstance(before, str) and isinstance(after, str) and not isinstance(after, Choice):
        return after.startswith(before)
    same = isinstance(after, Choice) or type(before) is type(after)
    return same and bool(before == after)


def is_complete_elsewhere(partial: Any, value: Any, pending: list[str]) -> bool:
    """True if all parts that `pending` does not lead into are final."""
    if not pending:
        return True
    head, rest = pending[0].replace("~1", "/").replace("~0", "~"), pending[1:]
    pairs = partial.items() if isinstance(partial, dict) else enumerate(partial)
    return all(
        is_complete_elsewhere(item, value[key], rest) if str(key) == head else item == value[key]
        for key, item in pairs
    )


def chunks(text: str, random: Random | None, most: int) -> Iterator[str]:
    """Cut `text` into chunks of 1 to `most` characters; of one each without `random`."""
    position = 0
    while position < len(text):
        size = 1 if random is None else random.randint(1, most)
        yield text[position : position + size]
        position += size


def check(document: Document, pieces: Iterator[str]) -> int:
    """Stream a document; return the number of its partials.

    Raises:
        AssertionError: If a partial is wrong.
    """
    where = f"seed {document.seed}"
    parser = StreamParser(document.schema, wrapped=document.wrapped, step_chars=0)
    relaxed = jsonschema_rs.validator_for(without_lower_bounds(document.schema))
    before: Partial | None = None
    shown = 0
    for piece in pieces:
        partial = parser.feed(piece)
        if partial is None:
            continue
        shown += 1
        assert not partial.reset, where
        assert not partial.final, where
        assert before is None or is_part(before.value, partial.value), (where, before, partial)
        assert is_part(partial.value, document.value), (where, partial)
        assert relaxed.is_valid(partial.value), (where, partial)
        pending = (partial.pending or "").split("/")[1:]
        if partial.pending is not None:
            assert is_complete_elsewhere(partial.value, document.value, pending), (where, partial)
        before = partial
    assert before is not None, where
    assert before.value == document.value, (where, before)
    last = parser.finish()
    assert last is not None, where
    assert (last.value, last.final, last.reset) == (document.value, True, False), where
    return shown


def check_progress(document: Document) -> None:
    """Check that all is shown before the last character, unless that is the end of a choice.

    Raises:
        AssertionError: If the stream stalled.
    """
    parser = StreamParser(document.schema, wrapped=document.wrapped, step_chars=0)
    closers = 2 if document.wrapped else 1
    text = document.text
    for _ in range(closers):
        text = text.rstrip()[:-1]
    last = None
    for char in text + " ":
        last = parser.feed(char) or last
    assert last is not None, f"seed {document.seed}"
    assert _rows(last.value) == _rows(document.value), (f"seed {document.seed}", last)


def _rows(value: Any) -> Any:
    """Return a value of a list or an object without its type."""
    return list(value.items()) if isinstance(value, dict) else list(value)


def run(seed: int, number: int) -> Counts:
    """Check `number` documents in three chunkings.

    Raises:
        AssertionError: If a partial is wrong, a final value differs, or a stream stalled.
    """
    partials = 0
    for document in islice(documents(seed), number):
        random = Random(document.seed)
        for pieces in (
            chunks(document.text, None, 1),
            chunks(document.text, random, 8),
            chunks(document.text, random, 60),
        ):
            partials += check(document, pieces)
        check_progress(document)
    return Counts(number, partials)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--seed", type=int, default=Random().randrange(10**6))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")  # noqa: T201  # a report
    counts = run(arguments.seed, arguments.documents)
    print(f"{counts.documents} documents, {counts.partials} partials, all of them right")  # noqa: T201  # a report


if __name__ == "__main__":
    main()
