"""Large values from a worker, sent in parts that are each decoded in bounded time.

A worker sends a value over `INLINE_BYTES` as a series of PART frames, and then the frame that the
value belongs to. A part is one byte and its JSON:

    ``<`` and a kind of frame: start the value of such a frame; an unfinished one is dropped
    ``[`` ``{``: open a list, an object; ``]`` ``}``: close it
    ``i`` and a list: the next items of the open list
    ``m`` and an object: the next members of the open object
    ``+`` and a text: a piece of a text; ``"`` and a text: its last piece
    ``v`` and a value: the value of a key

A text directly in an object is a key, and the value of that key follows it.

Rule 1: a value over a limit is still counted but no longer decoded.
    tests/core/wire/test_parts.py::test_a_value_over_its_limit_is_counted_and_not_decoded
Rule 2: parts take a bounded amount of memory, however little JSON is in them.
    tests/core/wire/test_parts.py::test_memory_of_tiny_parts_is_bounded
Rule 3: a series that is not one value raises `ProtocolError`.
    tests/core/wire/test_parts.py::test_parts_that_do_not_form_one_value_are_refused
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ._bodies import MAX_DEPTH, NOTHING, ProtocolError, Tally, decode, tally
from ._protocol import Kind

__all__ = ["LIST", "OBJECT", "TEXT", "VALUE", "Node", "PartReader", "json_of", "target_of"]

LIST, OBJECT, TEXT, VALUE = map(ord, '[{"v')
_BEGIN, _ITEMS, _MEMBERS, _PIECE = map(ord, "<im+")
_CLOSES: Final = {ord("]"): LIST, ord("}"): OBJECT}
_BATCHES: Final = {
    _ITEMS: (LIST, b"[]", list),
    _MEMBERS: (OBJECT, b"{}", dict),
    _PIECE: (TEXT, b'""', str),
    TEXT: (TEXT, b'""', str),
}
_NODE_BYTES: Final = 256
"""Memory of a node without its parts, on CPython 3.11: 225 bytes."""
_PART_BYTES: Final = 64
"""Memory of a stored part in addition to its text, rounded up by the allocator."""
_JOINED_CHARS: Final = 1_024
"""Length up to which the decoded pieces of a text are joined: a piece of one character takes 84
bytes."""
_TARGETS: Final = frozenset({Kind.CALL, Kind.DONE, Kind.EMIT})


class Node:
    """A list, an object or a text received in parts, or a key's value received in one part.

    Attributes:
        kind: `LIST`, `OBJECT`, `TEXT` or `VALUE`.
        children: Bodies of parts, and nodes; in an object a key is a node before its value.
        size: Length of its JSON in bytes, once it is closed.
    """

    __slots__ = ("_levels", "children", "empty", "key", "kind", "size", "start", "value")

    def __init__(self, kind: int, depth: int, start: int, value: Any) -> None:
        """Create an empty node.

        Args:
            kind: `LIST`, `OBJECT`, `TEXT` or `VALUE`.
            depth: Number of lists and objects around it.
            start: Bytes of JSON before it.
            value: Collects the decoded value; None: the node is not decoded.
        """
        self._levels = MAX_DEPTH - depth
        self.kind = kind
        self.children: list[bytes | Node] = []
        self.size = 0
        self.start = start
        self.empty = True
        self.key: str | None = None
        self.value = value

    def read(self, body: bytes | Node) -> Any:
        """Decode the body of a part of it.

        Raises:
            ProtocolError: If it is not JSON, or nested too deeply at this node.
        """
        assert isinstance(body, bytes)  # noqa: S101  # child nodes decode their own parts
        return decode(body, self._levels)

    def add(self, batch: Any) -> None:
        """Add the decoded body of a part to the value."""
        if self.kind == LIST:
            self.value.extend(batch)
        elif self.kind == OBJECT:
            self.value.update(batch)
        elif self.value and len(self.value[-1]) + len(batch) <= _JOINED_CHARS:
            self.value[-1] += batch
        else:
            self.value.append(batch)


class PartReader:
    """Reads the parts of one value.

    Attributes:
        kind: Kind of the frame that the value belongs to.
        size: Bytes of its JSON so far.
        tally: Count of its values so far; stops once it is no longer decoded.
        decoded: False once it is over a limit.
        root: All parts received; None once their JSON, or the memory that they take beside it, is
            over the bytes to keep.
        value: The value, once it is complete, if `decoded`.
    """

    __slots__ = (
        "_complete",
        "_keep_bytes",
        "_most_bytes",
        "_most_containers",
        "_overhead",
        "_stack",
        "decoded",
        "kind",
        "root",
        "size",
        "tally",
        "value",
    )

    def __init__(
        self, kind: Kind, *, most_bytes: int, most_containers: int, keep_bytes: int
    ) -> None:
        """Expect the first part.

        Args:
            kind: Kind of the frame that the value belongs to.
            most_bytes: Largest JSON that is decoded.
            most_containers: Lists and objects in the largest value that is decoded.
            keep_bytes: Largest JSON whose parts are kept. They may take as much memory beside it: a
                script's worker needs 5 % of it, and more only for many large values that are each
                nested 25 levels deep or more.
        """
        self.kind = kind
        self.size = 0
        self.tally = NOTHING
        self.decoded = True
        self.root: Node | None = None
        self.value: Any = None
        self._most_bytes = most_bytes
        self._most_containers = most_containers
        self._keep_bytes = keep_bytes
        self._overhead = 0
        self._stack: list[Node] = []
        self._complete = False

    def feed(self, part: bytes) -> None:
        """Read the next part.

        Raises:
            ProtocolError: If it is not legal here.
        """
        step = part[0] if part else -1
        if self._complete:
            msg = "a part comes after the end of its value"
            raise ProtocolError(msg)
        if step in _BATCHES:
            self._extend(step, part[1:])
        elif step == VALUE:
            self._add_value(part[1:])
        elif step in (LIST, OBJECT) and len(part) == 1:
            self._open(step)
        elif step in _CLOSES and len(part) == 1:
            self._close(_CLOSES[step])
        else:
            msg = f"unknown part: {part[:20]!r}"
            raise ProtocolError(msg)

    def finish(self, kind: Kind) -> None:
        """Check that the value is complete and belongs to a frame of `kind`.

        Raises:
            ProtocolError: If not.
        """
        if kind is not self.kind or not self._complete:
            msg = f"the parts before {kind.name} do not make its value"
            raise ProtocolError(msg)

    def _open(self, kind: int) -> Node:
        top = self._stack[-1] if self._stack else None
        if top is not None and (
            top.kind == TEXT or (top.kind == OBJECT and top.key is None and kind != TEXT)
        ):
            msg = "a value comes inside of a text, or without a key"
            raise ProtocolError(msg)
        if len(self._stack) >= MAX_DEPTH + (kind in (TEXT, VALUE)):
            msg = f"a value in parts is nested deeper than {MAX_DEPTH} levels"
            raise ProtocolError(msg)
        # A colon after a key; a comma before a key or an item that is not the first.
        between = int(top is not None and (top.key is not None or not top.empty))
        value: Any = {} if kind == OBJECT else []
        wanted = self._count(between + (kind != VALUE), Tally(1, kind in (LIST, OBJECT)))
        start = self.size - (kind != VALUE)
        node = Node(kind, len(self._stack), start, value if wanted else None)
        if top is not None:
            top.empty = False
        self._keep(node)
        self._stack.append(node)
        return node

    def _extend(self, step: int, body: bytes) -> None:
        kind, ends, kind_of_value = _BATCHES[step]
        node = self._stack[-1] if self._stack else None
        if kind == TEXT and (node is None or node.kind != TEXT):
            node = self._open(TEXT)
        if (
            node is None
            or node.kind != kind
            or node.key is not None
            or body[:1] + body[-1:] != ends
            or len(body) < 2 + (kind != TEXT)
        ):
            msg = "a part does not fit the open list, object or text"
            raise ProtocolError(msg)
        if step == _PIECE and body == b'""':
            return  # it has no size, so any number of them would be stored
        separator = int(kind != TEXT and not node.empty)
        if self._count(len(body) - 2 + separator, self._tally(body)):
            batch = node.read(body)
            if type(batch) is not kind_of_value or (kind != TEXT and not batch):
                msg = "a part is empty or of the wrong type"
                raise ProtocolError(msg)
            node.add(batch)
        node.empty = False
        self._keep(body)
        if step == TEXT:
            self._close(TEXT)

    def _add_value(self, body: bytes) -> None:
        if not self._stack or self._stack[-1].key is None:
            msg = "a part is the value of a key, but no key precedes it"
            raise ProtocolError(msg)
        node = self._open(VALUE)
        if self._count(len(body), self._tally(body)):
            node.value = node.read(body)
        self._keep(body)
        self._close(VALUE)

    def _close(self, kind: int) -> None:
        node = self._stack[-1] if self._stack else None
        if node is None or node.kind != kind or node.key is not None:
            msg = "a part closes a list, object or text that is not open"
            raise ProtocolError(msg)
        self._count(int(kind != VALUE), NOTHING)
        self._stack.pop()
        node.size = self.size - node.start
        value, node.value = node.value, None
        if kind == TEXT:
            value = "".join(value or ())
        if not self._stack:
            self._complete = True
            self.value = value if self.decoded else None
            return
        top = self._stack[-1]
        if top.kind == LIST:
            if self.decoded:
                top.value.append(value)
        elif top.key is None:
            top.key = value
        else:
            if self.decoded:
                top.value[top.key] = value
            top.key = None

    def _tally(self, body: bytes) -> Tally:
        return tally(body) if self.decoded else NOTHING

    def _count(self, size: int, found: Tally) -> bool:
        """Add to the counts; return True if the value is still to be decoded."""
        self.size += size
        self.tally += found
        over = self.size > self._most_bytes or self.tally.containers > self._most_containers
        if self.decoded and over:
            self.decoded = False
            for node in self._stack:
                node.value = None
        return self.decoded

    def _keep(self, child: bytes | Node) -> None:
        self._overhead += _NODE_BYTES if isinstance(child, Node) else _PART_BYTES
        if max(self.size, self._overhead) > self._keep_bytes:
            self.root = None
            for node in self._stack:
                node.children = []
        elif self._stack:
            self._stack[-1].children.append(child)
        elif isinstance(child, Node):
            self.root = child


def target_of(part: bytes) -> Kind | None:
    """Return the kind of frame whose value starts with `part`; None if none starts.

    Raises:
        ProtocolError: If frames of that kind have no value.
    """
    if not part or part[0] != _BEGIN:
        return None
    if len(part) != 2 or part[1] not in _TARGETS:
        msg = "a value in parts starts for a frame that takes none"
        raise ProtocolError(msg)
    return Kind(part[1])


def json_of(node: Node) -> Iterator[bytes]:
    """Yield the JSON of a node in pieces."""
    begin, end = _ENDS[node.kind]
    yield begin
    before = b""
    for child in node.children:
        yield before
        if isinstance(child, bytes):
            yield child if node.kind == VALUE else child[1:-1]
            before = b"" if node.kind == TEXT else b","
        else:
            yield from json_of(child)
            is_key = node.kind == OBJECT and before != b":"
            before = b":" if is_key else b","
    yield end


_ENDS = {LIST: (b"[", b"]"), OBJECT: (b"{", b"}"), TEXT: (b'"', b'"'), VALUE: (b"", b"")}
