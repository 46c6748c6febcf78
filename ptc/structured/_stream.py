"""Partial answers from a stream, which later partials only extend.

The stream is parsed strictly, and every character once. Damaged text is repaired by `recover` at
the end of the stream only, and never shown half repaired.

Rule 1: within an attempt keys stay, lists grow, strings extend, other scalars appear complete.
Rule 2: the finished parts of a partial conform; its unfinished parts may still come to conform.
Rule 3: a partial that contradicts an earlier one has `Partial.reset`.
Rule 4: a stream that was cut inside its value is an error, not a value.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from .._dataclass import dataclass
from ..errors import ModelError, TruncatedError
from ._contract import Contract
from ._incremental import Incremental
from ._reading import json_equal
from ._recover import recover, recover_wrapped
from ._violations import pointer

if TYPE_CHECKING:
    from ._reading import Repair

__all__ = ["Partial", "StreamParser", "copy_value", "extends"]

_Path = tuple[str | int, ...]
_ABSENT = object()
STEP_SHARE = 32
"""A new partial waits until the text has grown by 1/32: in total, a long answer is validated and
copied about 33 times its size, however small its chunks."""

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
            step_chars: Minimum number of characters between two partials. 0 emits one per chunk, at
                a cost that grows with the square of the length.

        Raises:
            UsageError: If `schema` is invalid.
        """
        self._contract = schema if isinstance(schema, Contract) else Contract(schema)
        self._wrapper = self._contract.wrapper if wrapped else None
        self._outer = self._contract.outer() if wrapped else self._contract
        self._prefixes = self._contract.prefixes()
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
        self._open_path: _Path = ()
        self._elements: list[Any] = []
        self._final: Any = None
        self._is_refuted = False
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
        least = max(self._step, self._size // STEP_SHARE) if self._step else 0
        if not tree.closed and self._new_chars < least:
            return None
        return self._partial(tree)

    def take_elements(self) -> list[Any]:
        """Return the finished items of the answer, a list, that were not returned before.

        Each conforms to the schema of the items. Rules about the whole list, such as ``minItems``,
        and validators of a type are not considered. An item that does not conform is not returned,
        and neither are those after it. After `finish`, the rest of the final list is returned, if
        it starts with the items so far; otherwise the final partial has `Partial.reset`.
        """
        items, finished = self._list_so_far()
        taken = len(self._elements)
        while not self._is_refuted and len(self._elements) < finished:
            if not self._prefixes.accepts_item(items, len(self._elements)):
                self._is_refuted = True
            else:
                self._elements.append(items[len(self._elements)])
        return [copy_value(item) for item in self._elements[taken:]]

    def finish(self, *, ended: bool = True, lost: bool = False) -> Partial | None:
        """Return the final answer; None if no value conforms and the model must be asked again.

        A text that ended by itself and lacks closing brackets is repaired like any other.

        Args:
            ended: True if the model reported that it had finished. If not, missing closers are
                not added: the rest may have been lost.
            lost: True if `ended` is false because the connection broke.

        Raises:
            TruncatedError: If the answer was cut. Send the same request again with a higher token
                limit: feedback about errors would not help.
            ModelError: If the answer was lost on the connection (`ModelError.lost`). Send the same
                request again.
        """
        text = "".join(self._chunks)
        found = (
            recover(text, self._contract, ended=ended)
            if self._wrapper is None
            else recover_wrapped(text, self._contract, self._outer, ended=ended)
        )
        if not ended and found is None:
            raise self._interruption(text, lost=lost)
        if found is None:
            return None
        before = self._last
        reset = before is not None and not extends(before.value, found.value)
        reset = reset or (before is None and self._attempt > 1)
        self._done = True
        self._tree = None
        self._final = found.value
        self._is_refuted = False
        if self._elements:
            kept = found.value[: len(self._elements)] if isinstance(found.value, list) else None
            self._is_refuted = not json_equal(kept, self._elements)
            reset = reset or self._is_refuted
        return Partial(found.value, self._attempt, reset, True, None, found.repairs)

    def _interruption(self, text: str, *, lost: bool) -> TruncatedError | ModelError:
        path = pointer(self._tree.path()) if self._tree is not None else ""
        where = f"after {len(text)} characters, inside {path or 'its outermost value'}"
        if lost:
            msg = f"the connection broke during the answer, {where}; send the request again"
            return ModelError(msg, retryable=True, lost=True)
        msg = f"the answer was truncated {where}; ask again with a higher token limit"
        return TruncatedError(msg, text=text)

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
            self._done = self._is_shown() or tree.committed
            self._tree = None if not self._done else tree
            return rest
        if tree.closed:
            if self._is_shown() or self._contract.conforms(self._plain(tree)):
                self._done = True
                return ""
            self._tree = None
        return rest

    def _is_shown(self) -> bool:
        return self._last is not None or bool(self._elements)

    # -- partials ----------------------------------------------------------------------------

    def _plain(self, tree: Incremental) -> Any:
        value = tree.value
        if self._wrapper is not None and isinstance(value, dict) and list(value) == [self._wrapper]:
            return value[self._wrapper]
        return value

    def _list_so_far(self) -> tuple[list[Any], int]:
        """Return the answer, if it is a list, and the number of its finished items."""
        tree = self._tree
        value = self._final if tree is None else self._plain(tree)
        if not isinstance(value, list):
            return [], 0
        path = () if tree is None else self._inner_path(tree)
        return value, path[0] if path and isinstance(path[0], int) else len(value)

    def _inner_path(self, tree: Incremental) -> _Path:
        """Return the path to the part that is being written, from the unwrapped answer."""
        return tree.path()[self._wrapper is not None :]

    def _partial(self, tree: Incremental) -> Partial | None:
        self._new_chars = 0
        tree.show_string()
        whole = self._plain(tree)
        if self._wrapper is not None and whole is tree.value:
            return None
        path: _Path = ()
        if not tree.closed:
            path, whole = self._visible(whole, self._inner_path(tree))
        elif not self._contract.conforms(whole):
            return None
        if whole is _ABSENT:
            return None
        value = copy_value(whole)
        before = self._last
        if before is not None and json_equal(before.value, value) and not tree.closed:
            return None
        reset = before is None and self._attempt > 1
        self._open_path = path
        pending = None if tree.closed else pointer(path)
        self._last = Partial(value, self._attempt, reset, False, pending)
        return self._last

    def _visible(self, value: Any, path: _Path) -> tuple[_Path, Any]:
        """Return as much of an unfinished value as may be shown, and the path to its open part.

        What cannot be shown before it is finished, such as a text that may become a value of an
        ``enum``, is left out. What was shown before is never left out.
        """
        shown = 0
        if self._last is not None:
            pairs = zip(path, self._open_path, strict=False)
            shown = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        while not self._prefixes.accepts(value, path):
            if len(path) <= shown:
                return path, _ABSENT
            value = _without(value, path)
            path = path[:-1]
        return path, value


def _without(value: Any, path: _Path) -> Any:
    """Copy the containers along `path`, without the part at its end."""
    copied = value.copy()
    head, rest = path[0], path[1:]
    if rest:
        copied[head] = _without(value[head], rest)
    else:
        del copied[head]
    return copied


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


def copy_value(value: Any) -> Any:
    """Copy plain JSON data."""
    if isinstance(value, dict):
        return {key: copy_value(item) for key, item in value.items()}
    return [copy_value(item) for item in value] if isinstance(value, list) else value
