"""Partial answers from a stream, which later partials only extend.

The stream is parsed strictly, and every character once. Damaged text is repaired by `recover` at
the end of the stream only, and never shown half repaired.

Rule 1: within an attempt keys stay, lists grow, strings extend, other scalars appear complete.
Rule 2: the closed parts of a partial never violate the contract.
Rule 3: a partial that contradicts an earlier one has `Partial.reset`.
Rule 4: a stream that ended inside a value is an error, not a value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import TruncatedError
from ._contract import Contract
from ._incremental import Incremental
from ._reading import json_equal
from ._recover import recover, recover_wrapped, was_cut
from ._violations import pointer

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

    from ._edits import Repair

__all__ = ["Partial", "StreamParser", "extends"]

STEP_SHARE = 32
"""A new partial waits until the text has grown by 1/32: in total, a long answer is validated and
copied about 33 times its size, however small its chunks."""

_UNTIL_CLOSED = frozenset(
    {"required", "minItems", "minProperties", "contains", "dependentRequired", "not", "oneOf"}
)
"""Rules that an incomplete object or list may still come to satisfy."""
_UNTIL_TEXT_CLOSED = frozenset({"minLength", "pattern", "format"})
"""The same for an incomplete string; a string of an `enum` is shown only when complete."""
_TAGS = r"think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis|inner_monologue"
_START = re.compile(
    rf"<\s*(?P<tag>{_TAGS})\b[^<>]{{0,100}}>|(?P<kimi>\u25c1think\u25b7)|(?P<magistral>\[THINK\])"
    r"|(?P<harmony><\|channel\|>\s*analysis)|[{\[]",
    re.IGNORECASE,
)
_ENDS = {
    "kimi": re.compile(r"\u25c1/think\u25b7"),
    "magistral": re.compile(r"\[/THINK\]"),
    "harmony": re.compile(r"<\|channel\|>\s*(?:final|commentary)"),
}
"""End of thinking, for opening marks that are not tags."""
_TAG_CHARS = 128
"""Characters of prose retained, for a tag that is split over two chunks."""


@dataclass(frozen=True, slots=True)
class Partial:
    """The answer so far."""

    value: Any
    """Plain JSON data; a copy that later partials do not change."""
    attempt: int
    """Number of the attempt, from 1; `StreamParser.restart` increments it."""
    reset: bool
    """True if it does not extend the previous partial, which must be discarded."""
    final: bool
    """True for the last partial, which is complete and conforms."""
    pending: str | None
    """JSON Pointer to the part that is being written. It and its containers may grow; all other
    parts are complete. None if nothing is open."""
    repairs: tuple[Repair, ...] = ()
    """Repairs of the final value; empty for other partials."""


class StreamParser:
    """Parses the chunks of a stream into partial answers and the final answer."""

    def __init__(self, schema: Any, *, wrapped: bool = False, step_chars: int = 64) -> None:
        """Parse one answer.

        Args:
            schema: A `Contract`, a JSON Schema, a pydantic model or any type.
            wrapped: True if the model received `Contract.object_schema`; partials are unwrapped.
            step_chars: Minimum number of characters between two partials; 0 emits one per chunk.

        Raises:
            UsageError: If `schema` is invalid.
        """
        self._contract = schema if isinstance(schema, Contract) else Contract(schema)
        self._wrapper = self._contract.wrapper if wrapped else None
        self._outer = self._contract.outer() if wrapped else self._contract
        self._step = step_chars
        self._attempt = 0
        self.restart()

    def restart(self) -> None:
        """Start another attempt, independent of the text so far."""
        self._attempt += 1
        self._chunks: list[str] = []
        self._prose = ""
        self._closing: re.Pattern[str] | None = None
        self._tree: Incremental | None = None
        self._done = False
        self._last: Partial | None = None
        self._new_chars = 0
        self._size = 0

    def feed(self, chunk: str) -> Partial | None:
        """Parse the next characters; return a partial if there is more to show."""
        self._chunks.append(chunk)
        if self._done:
            return None
        self._new_chars += len(chunk)
        self._size += len(chunk)
        rest = chunk
        while rest and not self._done:
            rest = self._skip_prose(rest) if self._tree is None else self._read_value(rest)
        tree = self._tree
        if tree is None or tree.failed:
            return None
        if not tree.closed and self._new_chars < max(self._step, self._size // STEP_SHARE):
            return None
        return self._partial(tree)

    def finish(self, *, ended: bool = True) -> Partial | None:
        """Return the final answer; None if no value conforms and the model must be asked again.

        Args:
            ended: True if the model reported that it had finished. If not, missing closers are
                not added: the rest may have been lost.

        Raises:
            TruncatedError: If the text ended inside its value. Send the same request again with a
                higher token limit: feedback about errors would not help.
        """
        text = "".join(self._chunks)
        found = (
            recover(text, self._contract)
            if self._wrapper is None
            else recover_wrapped(text, self._contract, self._outer)
        )
        added = found is not None and any(r.kind == "missing_closer" for r in found.repairs)
        if (found is None and was_cut(text)) or (not ended and (found is None or added)):
            path = pointer(self._tree.path()) if self._tree is not None else ""
            msg = (
                f"the answer was truncated after {len(text)} characters, inside "
                f"{path or 'its outermost value'}; ask again with a higher token limit"
            )
            raise TruncatedError(msg, text=text)
        if found is None:
            return None
        before = self._last
        reset = before is not None and not extends(before.value, found.value)
        reset = reset or (before is None and self._attempt > 1)
        self._done = True
        return Partial(found.value, self._attempt, reset, True, None, found.repairs)

    # -- the text ----------------------------------------------------------------------------

    def _skip_prose(self, text: str) -> str:
        """Skip prose and thinking; return the rest from an opener on."""
        text = self._prose + text
        self._prose = ""
        while True:
            if self._closing is not None:
                end = self._closing.search(text)
                if end is None:
                    self._prose = text[-_TAG_CHARS:]
                    return ""
                text = text[end.end() :]
                self._closing = None
            mark = _START.search(text)
            if mark is None:
                last = max(text.rfind("<"), text.rfind("\u25c1"))
                self._prose = text[last:] if last >= 0 and len(text) - last <= _TAG_CHARS else ""
                return ""
            kind = mark.lastgroup
            if kind is None:
                if "[think]".startswith(text[mark.start() :].casefold()):
                    # It may become the tag `[THINK]`.
                    self._prose = text[mark.start() :]
                    return ""
                self._tree = Incremental()
                return text[mark.start() :]
            tag = re.compile(rf"<\s*/\s*{mark['tag']}\s*>", re.IGNORECASE)
            self._closing = _ENDS.get(kind, tag)
            text = text[mark.end() :]

    def _read_value(self, text: str) -> str:
        tree = self._tree
        assert tree is not None  # noqa: S101  # only called inside a value
        rest = tree.feed(text)
        if tree.failed:
            # Prose with a bracket in it, or damage. Shown partials stay; `finish` decides.
            self._done = self._last is not None or tree.committed
            self._tree = None if not self._done else tree
            return rest
        if tree.closed:
            if self._contract.conforms(self._plain(tree)) or self._last is not None:
                self._done = True
                return ""
            self._tree = None
        return rest

    # -- partials ----------------------------------------------------------------------------

    def _plain(self, tree: Incremental) -> Any:
        value = tree.value
        if self._wrapper is not None and isinstance(value, dict) and list(value) == [self._wrapper]:
            return value[self._wrapper]
        return value

    def _partial(self, tree: Incremental) -> Partial | None:
        self._new_chars = 0
        path = tree.path()
        open_text = tree.show_string()
        shown = self._is_allowed(tree, path, open_text)
        if not shown and open_text:
            tree.hide_string()
            path = path[:-1]
            shown = self._is_allowed(tree, path, False)
        if not shown:
            return None
        if self._wrapper is not None:
            if not isinstance(tree.value, dict) or self._wrapper not in tree.value:
                return None
            path = path[1:]
        value = _copy(self._plain(tree))
        before = self._last
        if before is not None and json_equal(before.value, value) and not tree.closed:
            return None
        reset = before is None and self._attempt > 1
        pending = None if tree.closed else pointer(path)
        self._last = Partial(value, self._attempt, reset, False, pending)
        return self._last

    def _is_allowed(self, tree: Incremental, path: tuple[str | int, ...], text: bool) -> bool:
        """True if the partial value can still come to conform to the contract."""
        value = self._plain(tree)
        if self._wrapper is not None:
            if not isinstance(tree.value, dict) or list(tree.value) != [self._wrapper]:
                return False
            path = path[1:]
        opened = None if tree.closed else path
        return all(_can_still_be_met(e, opened, text=text) for e in self._contract.errors(value))


def _can_still_be_met(
    error: ValidationError, opened: tuple[str | int, ...] | None, *, text: bool
) -> bool:
    """True if the rest of the value may resolve the error.

    Args:
        error: Error of the partial value.
        opened: Path to the part that is being written; None if all is closed.
        text: True if that part is a string.
    """
    if opened is None:
        return False
    path = tuple(error.instance_path)
    if path != opened[: len(path)]:
        return False
    branches = getattr(error.kind, "context", None)
    if branches:
        # At least one branch must still be satisfiable.
        return any(
            all(_can_still_be_met(e, opened, text=text) for e in branch) for branch in branches
        )
    rules = _UNTIL_TEXT_CLOSED if text and path == opened else _UNTIL_CLOSED
    return error.kind.name in rules


def extends(before: Any, after: Any) -> bool:
    """True if `after` contains all data of `before`, unchanged or extended."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and extends(part, after[key]) for key, part in before.items())
    if isinstance(before, list) and isinstance(after, list):
        pairs = zip(before, after, strict=False)
        return len(before) <= len(after) and all(extends(one, other) for one, other in pairs)
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    return json_equal(before, after)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
