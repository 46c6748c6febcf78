"""Repair a value by its schema: for each violation, find the only edit that fixes it.

Edits are made only where the validator reports an error, only of the kinds in `EDITS`, and only if
there is exactly one. A value that needs more than that is not recovered.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from ._candidates import read_whole
from ._edits import Repairs
from ._envelopes import GENERIC
from ._keywords import map_subschemas
from ._names import collect_property_names, normalize
from ._reading import json_equal
from ._tokens import GROUPED
from ._violations import pointer
from ._work import Work

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

    from ._contract import Contract

__all__ = ["Fitter"]

MAX_ROUNDS = 8
"""Rounds of edits inside edited parts: JSON in a string in JSON in a string ..."""
MAX_ERRORS = 10_000
"""Errors that are repaired in one round."""
MAX_TRIALS = 64
"""Validations made to choose between two edits of one part."""
VALIDATION_WORK = 12
"""Work to list the errors of a part."""
MAX_BRANCH_EDITS = 8
"""Fixes of one branch of ``anyOf`` that are compared."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LISTLIKE = re.compile(r"[,;|\n\t]|\band\b|\bor\b| / ", re.IGNORECASE)
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one part."""

    path: Path
    kind: str
    after: Any
    key: str | None = None
    """New name of a renamed key; the old name is the last part of `path`."""
    sources: Any = None
    """Source text of the numbers in `after`."""

    @property
    def identity(self) -> tuple[Path, str | None, str]:
        """Key under which equal edits are merged."""
        return self.path, self.key, _to_json(self.after) if self.key is None else ""


Fix = tuple[Edit, ...]


class Fitter:
    """Repairs values against one contract."""

    def __init__(self, contract: Contract, sources: Any, work: Work) -> None:
        """Repair against `contract`; `sources` are those of a `Reading`."""
        self._contract = contract
        self._sources = _copy_sources(sources)
        self._names = collect_property_names(contract.schema)
        self._trials = 0
        self._work = work
        self._branches = _count_branches(contract.schema)
        self._copied = self._size = 1

    def fit(self, value: Any, repairs: Repairs) -> tuple[Any] | None:
        """Return `value` repaired, in a tuple; None if it cannot be made to conform."""
        root = [self._copy(value)]
        self._size = self._copied
        for _ in range(MAX_ROUNDS):
            errors = self._errors(root)
            if not errors:
                return (root[0],) if self._contract.conforms(root[0]) else None
            if len(errors) > MAX_ERRORS:
                return None
            edits = self._choose_edits(root, errors)
            if edits is None:
                return None
            for edit in edits:
                before = str(edit.path[-1]) if edit.key else _shorten(_get(root, edit.path))
                repairs.add(pointer(edit.path), edit.kind, before, _result_text(edit))
                self._apply(root, edit)
                self._move_sources(edit)
        return None

    def _errors(self, root: list[Any]) -> list[ValidationError]:
        # The validator lists the errors of all parts, for all branches, at once.
        self._work.spend(self._size * self._branches * VALIDATION_WORK)
        return list(islice(self._contract.errors(root[0]), MAX_ERRORS + 1))

    def _choose_edits(self, root: list[Any], errors: list[ValidationError]) -> list[Edit] | None:
        """Choose one edit for every error; None if an error has no fix, or more than one."""
        chosen: dict[tuple[Any, ...], Edit] = {}
        taken: dict[tuple[Path, str | None], tuple[Any, ...]] = {}
        for error in errors:
            fix = self._find_only_fix(root, error)
            if fix is None:
                return None
            for edit in fix:
                chosen[edit.identity] = edit
                location = (edit.path, edit.key)
                if taken.setdefault(location, edit.identity) != edit.identity:
                    return None
        # Keys last and the deepest path first: no edit changes the path of another.
        return sorted(chosen.values(), key=lambda edit: (edit.key is not None, -len(edit.path)))

    def _find_only_fix(self, root: list[Any], error: ValidationError) -> Fix | None:
        fixes = self._find_fixes(root, error, 0)
        if len(fixes) <= 1:
            return fixes[0] if fixes else None
        path = _error_path(root, error)
        working: list[tuple[Fix, Any]] = []
        for fix in fixes:
            result = self._value_after(root, fix, path)
            if result is not None and not any(json_equal(result[0], other) for _, other in working):
                working.append((fix, result[0]))
        return working[0][0] if len(working) == 1 else None

    def _value_after(self, root: list[Any], fix: Fix, path: Path) -> tuple[Any] | None:
        """Return the value at `path` after `fix`, if it no longer violates the contract."""
        self._trials += 1
        if self._trials > MAX_TRIALS:
            return None
        trial = [self._copy(root[0])]
        for edit in fix:
            self._apply(trial, edit)
        errors = self._errors(trial)
        if any(_error_path(trial, error)[: len(path)] == path for error in errors):
            return None
        return (_get(trial, path),)

    # -- fixes for one error -----------------------------------------------------------------

    def _find_fixes(self, root: list[Any], error: ValidationError, depth: int) -> list[Fix]:
        kind: Any = error.kind
        path = _error_path(root, error)
        value = _get(root, path)
        if kind.name == "type":
            found = self._fix_type(path, value, {str(name) for name in kind.types})
        elif kind.name == "enum":
            found = self._fix_choice(path, value, list(kind.options))
        elif kind.name == "const":
            found = self._fix_choice(path, value, [kind.expected_value])
        elif kind.name == "required":
            found = self._fix_missing_key(path, value, str(kind.property))
        elif kind.name in ("additionalProperties", "unevaluatedProperties"):
            return self._fix_unknown_keys(path, value, [str(name) for name in kind.unexpected])
        elif getattr(kind, "context", None) and depth < 4:
            return self._fix_branches(root, kind.context, depth)
        else:
            found = []
        return [(edit,) for edit in found]

    def _fix_branches(self, root: list[Any], context: Any, depth: int) -> list[Fix]:
        """Return the fixes of every branch that can be repaired as a whole."""
        fixes: dict[tuple[Any, ...], Fix] = {}
        for branch in context:
            partial: list[Fix] = [()]
            for error in branch:
                options = self._find_fixes(root, error, depth + 1)
                partial = [done + option for done in partial for option in options]
                if not partial or len(partial) > MAX_BRANCH_EDITS:
                    break
            if len(partial) > MAX_BRANCH_EDITS:
                continue
            for fix in partial:
                merged = {edit.identity: edit for edit in fix}
                if len({(e.path, e.key) for e in merged.values()}) == len(merged):
                    fixes.setdefault(tuple(sorted(map(repr, merged))), tuple(merged.values()))
        return list(fixes.values())

    def _fix_type(self, path: Path, value: Any, types: set[str]) -> list[Edit]:
        edits: list[Edit] = []
        if isinstance(value, str):
            edits += self._parse_text(path, value, types)
        elif isinstance(value, bool):
            source = self._find_sources(path)
            if "string" in types and source is None:
                edits.append(Edit(path, "boolean_to_text", json.dumps(value)))
        elif isinstance(value, int | float) and "string" in types:
            source = self._find_sources(path)
            if source is not None:
                edits.append(Edit(path, "number_to_text", source))
        if isinstance(value, list):
            if len(value) == 1 and "array" not in types:
                edits.append(self._unwrap(path, value))
        elif "array" in types and _is_single_item(value, self._names):
            sources = {0: self._find_sources(path)}
            edits.append(Edit(path, "single_item_wrapped", [value], sources=sources))
        return edits

    def _unwrap(self, path: Path, value: list[Any]) -> Edit:
        sources = self._find_sources((*path, 0))
        return Edit(path, "single_item_unwrapped", value[0], sources=sources)

    def _fix_choice(self, path: Path, value: Any, options: list[Any]) -> list[Edit]:
        """Return edits to allowed values that equal `value` in another spelling or type."""
        if isinstance(value, str):
            text = value.strip()
            exact = [o for o in options if isinstance(o, str) and o.casefold() == text.casefold()]
            if not exact:
                text = text.strip("*`\"'").removesuffix(".")
            styled = [o for o in options if isinstance(o, str) and normalize(o) == normalize(text)]
            for fitting in (exact, styled):
                if fitting:
                    return [Edit(path, "allowed_spelling", o) for o in fitting]
            types = {_type_of(option) for option in options}
            typed = self._parse_text(path, value, types - {"array", "object"})
            return [e for e in typed if any(_schema_equal(e.after, option) for option in options)]
        if isinstance(value, int | float) and not isinstance(value, bool):
            source = self._find_sources(path)
            return [Edit(path, "number_to_text", o) for o in options if o == source]
        if isinstance(value, list) and len(value) == 1 and value not in options:
            return [self._unwrap(path, value)]
        return []

    def _fix_missing_key(self, path: Path, value: Any, name: str) -> list[Edit]:
        """Return the rename of a key that is the missing property `name` in another style."""
        if not isinstance(value, dict) or name in value:
            return []
        keys = [k for k in value if k not in self._names and _plain_name(k) == normalize(name)]
        return [Edit((*path, key), "key_spelling", None, name) for key in keys]

    def _fix_unknown_keys(self, path: Path, value: Any, unexpected: list[str]) -> list[Fix]:
        """Rename each unknown key to the only known name that equals it in another style."""
        edits = []
        for key in unexpected:
            plain = _plain_name(key)
            names = [n for n in self._names if n not in value and normalize(n) == plain]
            if len(names) != 1 or sum(_plain_name(k) == plain for k in value) != 1:
                return []
            edits.append(Edit((*path, key), "key_spelling", None, names[0]))
        return [tuple(edits)]

    def _parse_text(self, path: Path, value: str, types: set[str]) -> list[Edit]:
        """Return edits of a text to a value of one of `types` that it exactly represents."""
        text = value.strip()
        edits = []
        if types & {"number", "integer"} and len(text) <= 400:
            number = _parse_exactly(text, types)
            if number is not None:
                edits.append(Edit(path, "text_to_number", number))
        word = text.casefold()
        if "boolean" in types and word in ("true", "false"):
            edits.append(Edit(path, "text_to_boolean", word == "true"))
        if "null" in types and word in ("null", "none"):
            edits.append(Edit(path, "text_to_null", None))
        if text[:1] in ("{", "["):
            kind = "object" if text[0] == "{" else "array"
            if kind in types and (reading := read_whole(text, self._work)) is not None:
                self._size += text.count(",") + text.count(":") + 1
                edits.append(Edit(path, "json_in_string", reading.value, sources=reading.sources))
        return edits

    # -- the tree ----------------------------------------------------------------------------

    def _find_sources(self, path: Path) -> Any:
        node = self._sources
        for part in path:
            node = node.get(part) if isinstance(node, dict) else None
        return node

    def _move_sources(self, edit: Edit) -> None:
        """Change the sources as `edit` changes the value."""
        if not edit.path:
            self._sources = edit.sources
            return
        *path, last = edit.path
        node = self._sources
        for part in path:
            if not isinstance(node, dict):
                return
            node = node.setdefault(part, {})
        if isinstance(node, dict):
            name: Any = last if edit.key is None else edit.key
            node[name] = edit.sources if edit.key is None else node.pop(last, None)

    def _copy(self, value: Any) -> Any:
        if not isinstance(value, dict | list):
            return value
        self._copied += len(value)
        self._work.spend(len(value))
        if isinstance(value, list):
            return [self._copy(item) for item in value]
        return {key: self._copy(item) for key, item in value.items()}

    def _apply(self, root: list[Any], edit: Edit) -> None:
        holder: Any = _get(root, edit.path[:-1]) if edit.path else root
        key: Any = edit.path[-1] if edit.path else 0
        if edit.key is None:
            holder[key] = edit.after
            return
        items = list(holder.items())
        holder.clear()
        holder.update((edit.key if name == key else name, item) for name, item in items)


def _copy_sources(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    return {key: _copy_sources(part) for key, part in node.items()}


def _plain_name(key: str) -> str:
    """Normalize a key without marks of emphasis, quotation or code around it."""
    return normalize(key.strip("*`\"':"))


def _parse_exactly(text: str, types: set[str]) -> int | float | None:
    """Return the number that `text` is; None if it would be rounded or has two meanings."""
    text = text.strip("*_`")
    if GROUPED.fullmatch(text) and ("number" not in types or text.count(",") > 1):
        # `1,234` may be a decimal fraction, where one is allowed.
        return int(text.replace(",", ""))
    plain = re.sub(r"^([+-]?)\.(?=[0-9])", r"\g<1>0.", text).removesuffix(".").lstrip("+")
    if not _NUMBER.fullmatch(plain):
        return None
    number: int | float = json.loads(plain)
    return number if isinstance(number, int) or _is_exact(plain, number) else None


def _is_exact(text: str, number: float) -> bool:
    """True if the float equals the text exactly, without rounding."""
    return math.isfinite(number) and Decimal(repr(number)) == Decimal(text)


def _is_single_item(value: Any, names: frozenset[str]) -> bool:
    """True if `value` is one item, and not a list in another notation."""
    if value is None:
        return False
    if isinstance(value, str):
        return bool(value.strip()) and value.lstrip()[0] not in "[{" and not _LISTLIKE.search(value)
    if isinstance(value, dict):
        listing = any(
            isinstance(item, list) and key not in names and normalize(key) in GENERIC
            for key, item in value.items()
        )
        return bool(value) and not listing and not all(key.isdigit() for key in value)
    return True


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "number" if isinstance(value, int | float) else "string"


def _schema_equal(left: Any, right: Any) -> bool:
    """True if equal by JSON Schema: 1 is 1.0, and true is not 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _error_path(root: list[Any], error: ValidationError) -> Path:
    """Return the path of an error, which has keys of digits as integers."""
    value: Any = root[0]
    path: list[str | int] = []
    for part in error.instance_path:
        path.append(str(part) if isinstance(value, dict) else part)
        value = value[path[-1]]
    return tuple(path)


def _get(root: list[Any], path: Path) -> Any:
    value: Any = root[0]
    for part in path:
        value = value[part]
    return value


def _count_branches(schema: Any) -> int:
    """Return the largest number of alternatives in `schema`."""
    most = 1

    def look(node: dict[str, Any]) -> dict[str, Any]:
        nonlocal most
        for word in ("anyOf", "oneOf"):
            most = max(most, len(node.get(word) or ()))
        return node

    map_subschemas(schema, look)
    return most


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shorten(value: Any) -> str:
    return "".join(islice(json.JSONEncoder(ensure_ascii=False).iterencode(value), 200))


def _result_text(edit: Edit) -> str:
    return edit.key if edit.key is not None else _shorten(edit.after)
