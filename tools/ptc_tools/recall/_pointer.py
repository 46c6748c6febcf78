"""JSON pointers (RFC 6901) into a stored value."""

from __future__ import annotations

import re
from collections.abc import Callable

from ptc import ToolError
from ptc._core._arguments import nearest

from ._json_scan import JsonScan, NotJsonError

__all__ = ["Locator", "child", "find", "parse"]

_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_MAX_CHARS = 4_096
_SHOWN_KEYS = 10
_KEPT_KEYS = 1_000
_KEY_CHARS = 60
_MAX_DEPTH = 64
_MAX_POINTER_CHARS = 400


def parse(pointer: str) -> list[str]:
    """Return the keys of a pointer.

    Raises:
        ToolError: ``bad_pointer``.
    """
    if not pointer:
        return []
    if len(pointer) > _MAX_CHARS:
        msg = f"a pointer has at most {_MAX_CHARS:,} characters"
        raise ToolError(msg, code="bad_pointer")
    if not pointer.startswith("/"):
        msg = f'pointer {pointer!r:.80} must start with "/": "/rows/0/name"; "" is the whole value'
        raise ToolError(msg, code="bad_pointer")
    if re.search(r"~(?![01])", pointer):
        msg = f'pointer {pointer!r:.80}: write "~0" for "~" and "~1" for "/" in a key'
        raise ToolError(msg, code="bad_pointer")
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer[1:].split("/")]


def child(pointer: str, key: str | int) -> str:
    """Return the pointer to an item or member of the value at `pointer`."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def find(scan: JsonScan, pointer: str) -> None:
    """Move `scan`, which is at the value, to the part that `pointer` names.

    Raises:
        ToolError: ``bad_pointer``; ``no_such_part`` with the nearest keys.
        NotJsonError: If the value is not JSON.
    """
    at = ""
    for key in parse(pointer):
        opening = scan.next_byte()
        if opening == b"{":
            _find_member(scan, key, at)
        elif opening == b"[":
            _find_item(scan, key, at)
        elif not opening:
            raise NotJsonError(scan.position)
        else:
            msg = f"pointer {pointer!r:.80}: the value at {at!r:.80} has no parts"
            raise ToolError(msg, code="no_such_part")
        at = child(at, key)


def _find_member(scan: JsonScan, key: str, at: str) -> None:
    scan.take(b"{")
    known: list[str] = []
    if scan.next_byte() != b"}":
        while True:
            found = scan.read_key()
            if found == key:
                return
            if len(known) < _KEPT_KEYS:
                known.append(found)
            scan.skip_value()
            if scan.next_byte() != b",":
                break
            scan.take(b",")
    scan.take(b"}")
    shown = ", ".join(name[:_KEY_CHARS] for name in known[:_SHOWN_KEYS]) or "none"
    more = ", ..." if len(known) > _SHOWN_KEYS else ""
    msg = f"the object at {at!r:.80} has no key {key!r:.80}{nearest(key, known)}; keys: {shown}"
    raise ToolError(msg + more, code="no_such_part")


def _find_item(scan: JsonScan, key: str, at: str) -> None:
    if not _INDEX.fullmatch(key):
        msg = f"the value at {at!r:.80} is a list: {key!r:.80} must be an index from 0"
        raise ToolError(msg, code="bad_pointer")
    scan.take(b"[")
    index = int(key)
    skipped = scan.skip_entries(index, members=False)
    if skipped == index and scan.next_byte() not in (b"]", b""):
        return
    count = skipped + (scan.next_byte() not in (b"]", b""))
    msg = f"the list at {at!r:.80} has {count:,} items, so no item {key}"
    raise ToolError(msg, code="no_such_part")


class Locator:
    """Finds the pointers of positions, in ascending order, in one pass over the JSON."""

    def __init__(
        self, read: Callable[[int, int], bytes], start: int, pointer: str, depth: int = 0
    ) -> None:
        """Start at a value.

        Args:
            read: As for `JsonScan`.
            start: Position of the value.
            pointer: Its pointer.
            depth: Its depth; deeper values are not told apart.
        """
        self._read = read
        self._scan = JsonScan(read, start)
        self._pointer = pointer
        self._depth = depth
        self._opening = self._scan.next_byte()
        self._is_container = self._opening in (b"{", b"[") and depth < _MAX_DEPTH
        if self._is_container:
            self._scan.take(self._opening)
        self._index = 0
        self._child: tuple[int, Locator] | None = None

    def find(self, position: int) -> str:
        """Return the pointer to the innermost value at `position`; "" if it is too long."""
        scan, members = self._scan, self._opening == b"{"
        if not self._is_container or position < scan.position:
            return self._pointer
        self._index += scan.skip_entries(1 << 60, members=members, before=position)
        if scan.next_byte() in (b"]", b"}", b"") or position < scan.position:
            return self._pointer
        entry = scan.position
        if self._child is None or self._child[0] != entry:
            key = scan.read_key() if members else self._index
            scan.next_byte()
            pointer = child(self._pointer, key)
            if len(pointer) > _MAX_POINTER_CHARS:
                return ""
            inner = Locator(self._read, scan.position, pointer, self._depth + 1)
            self._child = entry, inner
            scan.seek(entry)
        return self._child[1].find(position)
