"""Repair a value by its schema: for each violation, find the only edit that fixes it.

Edits are made only where the validator reports an error, only of the kinds in `EDITS`, and only if
there is exactly one. A value that needs more than that is not recovered.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from .._dataclass import dataclass
from ._candidates import read_whole
from ._envelopes import GENERIC
from ._keywords import map_subschemas
from ._names import collect_property_names, normalize
from ._places import JSON_TYPES
from ._reading import Repairs, Work, json_equal
from ._tokens import GROUPED
from ._violations import pointer

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
Sources = Any
"""Source text of the numbers in a value, as of a `Reading`."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one part."""

    kind: str
    after: Any
    """New value; new name of a renamed key."""
    sources: Sources = None


Fix = dict[tuple[Path, bool], Edit]
"""Edits by the path of the part, and True for its key or False for its value."""


class Fitter:
    """Repairs values against one contract."""

    def __init__(self, contract: Contract, work: Work) -> None:
        self._contract = contract
        self._names = collect_property_names(contract.schema)
        self._trials = 0
        self._work = work
        self._branches = _count_branches(contract.schema)

    def fit(self, value: Any, sources: Sources, repairs: Repairs) -> tuple[Any] | None:
        """Return `value` repaired, in a tuple; None if it cannot be made to conform."""
        for _ in range(MAX_ROUNDS):
            errors = self._errors(value)
            if not errors:
                return (value,) if self._contract.conforms(value) else None
            edits = self._choose_edits(value, sources, errors)
            if edits is None:
                return None
            for (path, is_key), edit in edits.items():
                before = str(path[-1]) if is_key else _shorten(_get(value, path))
                after = edit.after if is_key else _shorten(edit.after)
                repairs.add(pointer(path), edit.kind, before, after)
            value, sources = self._apply(value, sources, list(edits.items()))
        return None

    def _errors(self, value: Any) -> list[ValidationError]:
        # The validator lists the errors of all parts, for all branches, at once.
        size = _count_parts(value)
        self._work.spend(size * (self._branches * VALIDATION_WORK + 1))
        return list(islice(self._contract.errors(value), MAX_ERRORS + 1))

    def _choose_edits(
        self, value: Any, sources: Sources, errors: list[ValidationError]
    ) -> Fix | None:
        """Choose one edit for every error; None if an error has no fix, or more than one."""
        chosen: Fix = {}
        if len(errors) > MAX_ERRORS:
            return None
        for error in errors:
            fix = self._find_only_fix(value, sources, error)
            if fix is None:
                return None
            for location, edit in fix.items():
                if chosen.setdefault(location, edit) != edit:
                    return None
        return chosen

    def _find_only_fix(self, value: Any, sources: Sources, error: ValidationError) -> Fix | None:
        fixes = self._find_fixes(value, sources, error, 0)
        if len(fixes) <= 1:
            return fixes[0] if fixes else None
        path = _error_path(value, error)
        working: list[tuple[Fix, Any]] = []
        for fix in fixes:
            result = self._value_after(value, fix, path)
            if result is not None and not any(json_equal(result[0], other) for _, other in working):
                working.append((fix, result[0]))
        return working[0][0] if len(working) == 1 else None

    def _value_after(self, value: Any, fix: Fix, path: Path) -> tuple[Any] | None:
        """Return the value at `path` after `fix`, if it no longer violates the contract."""
        self._trials += 1
        if self._trials > MAX_TRIALS:
            return None
        trial, _ = self._apply(value, None, list(fix.items()))
        errors = self._errors(trial)
        if any(_error_path(trial, error)[: len(path)] == path for error in errors):
            return None
        return (_get(trial, path),)

    # -- fixes for one error -----------------------------------------------------------------

    def _find_fixes(
        self, root: Any, sources: Sources, error: ValidationError, depth: int
    ) -> list[Fix]:
        kind: Any = error.kind
        path = _error_path(root, error)
        value = _get(root, path)
        edits: list[Edit] = []
        if kind.name == "required":
            return self._fix_missing_key(path, value, str(kind.property))
        if kind.name in ("additionalProperties", "unevaluatedProperties"):
            return self._fix_unknown_keys(path, value, [str(name) for name in kind.unexpected])
        if kind.name == "type":
            types = {str(name) for name in kind.types}
            edits = self._cast(value, _sources_at(sources, path), types)
        elif kind.name in ("enum", "const"):
            options = list(kind.options) if kind.name == "enum" else [kind.expected_value]
            edits = self._choose(value, _sources_at(sources, path), options)
        elif getattr(kind, "context", None) and depth < 4:
            return self._fix_branches(root, sources, kind.context, depth)
        return [{(path, False): edit} for edit in edits]

    def _fix_branches(self, root: Any, sources: Sources, context: Any, depth: int) -> list[Fix]:
        """Return the fixes of every branch that can be repaired as a whole."""
        fixes: list[Fix] = []
        for branch in context:
            partial: list[Fix] = [{}]
            for error in branch:
                options = self._find_fixes(root, sources, error, depth + 1)
                partial = [
                    {**done, **more}
                    for done in partial
                    for more in options
                    if all(done.get(at, edit) == edit for at, edit in more.items())
                ]
                if not partial or len(partial) > MAX_BRANCH_EDITS:
                    break
            if len(partial) <= MAX_BRANCH_EDITS:
                fixes += [fix for fix in partial if fix not in fixes]
            if len(fixes) > MAX_TRIALS:
                return []
        return fixes

    def _fix_missing_key(self, path: Path, value: Any, name: str) -> list[Fix]:
        """Return the rename of a key that is the missing property `name` in another style."""
        if not isinstance(value, dict):
            return []
        keys = [k for k in value if k not in self._names and _plain_name(k) == normalize(name)]
        return [{((*path, key), True): Edit("key_spelling", name)} for key in keys]

    def _fix_unknown_keys(self, path: Path, value: Any, unexpected: list[str]) -> list[Fix]:
        """Rename each unknown key to the only known name that equals it in another style."""
        fix: Fix = {}
        for key in unexpected:
            plain = _plain_name(key)
            names = [n for n in self._names if n not in value and normalize(n) == plain]
            if len(names) != 1 or sum(_plain_name(k) == plain for k in value) != 1:
                return []
            fix[(*path, key), True] = Edit("key_spelling", names[0])
        return [fix]

    def _choose(self, value: Any, source: Sources, options: list[Any]) -> list[Edit]:
        """Return edits to allowed values that equal `value` in another spelling or type."""
        if isinstance(value, str):
            text = value.strip()
            texts = [option for option in options if isinstance(option, str)]
            exact = [o for o in texts if o.casefold() == text.casefold()]
            plain = normalize(text.strip("*`\"'").removesuffix("."))
            spelt = exact or [o for o in texts if normalize(o) == plain]
            if spelt:
                return [Edit("allowed_spelling", option) for option in spelt]
        types = {name for option in options for name in JSON_TYPES[type(option)]}
        return [
            edit
            for edit in self._cast(value, source, types)
            if edit.kind == "single_item_unwrapped"
            or any(_schema_equal(edit.after, option) for option in options)
        ]

    def _cast(self, value: Any, source: Sources, types: set[str]) -> list[Edit]:
        """Return edits to values of one of `types` that `value` exactly represents."""
        edits = []
        if isinstance(value, str):
            edits = self._parse_text(value, types)
        elif "string" in types and isinstance(value, bool):
            if source is None:
                edits.append(Edit("boolean_to_text", json.dumps(value)))
        elif "string" in types and isinstance(value, int | float) and source is not None:
            edits.append(Edit("number_to_text", source))
        if isinstance(value, list):
            if len(value) == 1 and "array" not in types:
                edits.append(Edit("single_item_unwrapped", value[0], _sources_at(source, (0,))))
        elif "array" in types and _is_single_item(value, self._names):
            edits.append(Edit("single_item_wrapped", [value], {0: source}))
        return edits

    def _parse_text(self, value: str, types: set[str]) -> list[Edit]:
        text = value.strip()
        edits = []
        if types & {"number", "integer"} and len(text) <= 400:
            number = _parse_exactly(text, types)
            if number is not None:
                edits.append(Edit("text_to_number", number))
        word = text.casefold()
        if "boolean" in types and word in ("true", "false"):
            edits.append(Edit("text_to_boolean", word == "true"))
        if "null" in types and word in ("null", "none"):
            edits.append(Edit("text_to_null", None))
        kind = {"{": "object", "[": "array"}.get(text[:1])
        if kind in types and (reading := read_whole(text, self._work)) is not None:
            edits.append(Edit("json_in_string", reading.value, reading.sources))
        return edits

    # -- the tree ----------------------------------------------------------------------------

    def _apply(
        self, value: Any, sources: Sources, edits: list[tuple[tuple[Path, bool], Edit]]
    ) -> tuple[Any, Sources]:
        """Return the value and its sources after `edits`; unedited parts are shared."""
        inner: dict[str | int, list[tuple[tuple[Path, bool], Edit]]] = {}
        names: dict[str | int, str] = {}
        for (path, is_key), edit in edits:
            if not path:
                return edit.after, edit.sources
            if is_key and len(path) == 1:
                names[path[0]] = edit.after
            else:
                inner.setdefault(path[0], []).append(((path[1:], is_key), edit))
        self._work.spend(len(value) + len(edits))
        parts: dict[Any, Any] = dict(value if isinstance(value, dict) else enumerate(value))
        known = dict(sources or {})
        for part, deeper in inner.items():
            parts[part], known[part] = self._apply(parts[part], known.get(part), deeper)
        if isinstance(value, list):
            return list(parts.values()), known
        renamed = {names.get(key, key): item for key, item in parts.items()}
        return renamed, {names.get(key, key): source for key, source in known.items()}


def _sources_at(sources: Sources, path: Path) -> Sources:
    for part in path:
        sources = sources.get(part) if isinstance(sources, dict) else None
    return sources


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


def _schema_equal(left: Any, right: Any) -> bool:
    """True if equal by JSON Schema: 1 is 1.0, and true is not 1."""
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _error_path(value: Any, error: ValidationError) -> Path:
    """Return the path of an error, which has keys of digits as integers."""
    path: list[str | int] = []
    for part in error.instance_path:
        path.append(str(part) if isinstance(value, dict) else part)
        value = value[path[-1]]
    return tuple(path)


def _get(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _count_parts(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 1
    return 1 + sum(map(_count_parts, value.values() if isinstance(value, dict) else value))


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


def _shorten(value: Any) -> str:
    return "".join(islice(json.JSONEncoder(ensure_ascii=False).iterencode(value), 200))
