"""Random messages of a hostile worker: valid, nearly valid and invalid frames."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ptc._wire._protocol import MAX_BODY, Kind

__all__ = ["Play", "Step", "play_of"]


@dataclass(frozen=True)
class Step:
    """One action of a worker."""

    data: bytes = b""
    chunk: int = 0
    """Bytes sent at once; 0 for all."""
    pause_ms: int = 0
    """Delay before the action."""
    read: bool = False
    """Read data from the host before the action."""
    hang_up: bool = False
    """Close the sending side after the action."""
    die: int | None = None
    """Signal to die of after the action."""

    def __str__(self) -> str:
        shown = self.data if len(self.data) <= 2_000 else self.data[:2_000] + b" ..."
        rest = {k: v for k, v in vars(self).items() if k != "data" and v not in (0, False, None)}
        return f"{rest} {len(self.data)} bytes: {shown!r}"


@dataclass(frozen=True)
class Play:
    """The script of one worker."""

    name: str
    source: str
    steps: tuple[Step, ...]
    reads: bool
    """Read data from the host after the last step, instead of not reading at all."""

    def __str__(self) -> str:
        steps = "\n".join(map(str, self.steps))
        return f"{self.name}, source {self.source!r}, reads: {self.reads}\n{steps}"


_SOURCES = ("return 1", "x = 1\nx", "def run(ctx, inputs):\n    return ctx.add(1)\n")
_TO_HOST = [kind for kind in Kind if kind >= Kind.READY]
_STAYING = [
    Kind.CALL, Kind.CANCEL, Kind.PRINT, Kind.EMIT, Kind.TIMER, Kind.WARN, Kind.POLLED, Kind.PIECE,
    Kind.ATTACH, Kind.PROGRESS,
]  # fmt: skip

_ODD = [
    b"null", b"true", b"false", b"0", b"-1", b"1", b"1.5", b"-0.0", b"1e308", b"1e400", b"-1e400",
    b"NaN", b"Infinity", b"-Infinity", b"9007199254740993", b"18446744073709551615",
    b"18446744073709551616", b"-9223372036854775809", b"1" * 400, b"0" * 30, b"01", b"+1", b".5",
    b'""', b'"x"', b'"\\ud800"', b'"\\udfff\\ud800"', b'"\xff\xfe"', b'"\xed\xa0\x80"',
    b'"\\u0000"', b'"\x00"', b'"\\x41"', b'"unclosed', b"'x'", b"[]", b"{}", b"[", b"{", b"]",
    b"[1,]", b'{"a":1,"a":2}', b'{"__proto__":{},"constructor":1}', b'{1:2}', b'{"a"}', b"",
    b" ", b"\xef\xbb\xbf1", b"/*x*/1", b"undefined", b'{"\\ud800":1}', b'"' + b"x" * 5_000 + b'"',
    '"é€😀"'.encode(), b'"\xc3"',
]  # fmt: skip


def _frame(kind: int, body: bytes, length: int | None = None) -> bytes:
    """A frame with any number of errors."""
    return struct.pack(">IB", (len(body) + 1 if length is None else length) % 2**32, kind) + body


class _Author:
    """Generator of plays from one random source."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.calls = 0
        # Some workers break the rules only once, some always.
        self.odd = chance.choice([0.0, 0.01, 0.1, 1.0])

    # --- bodies -----------------------------------------------------------------------------

    def strange(self, often: float) -> bool:
        """True if the next item is to be invalid: at rate `often` for the worst workers."""
        return self.chance.random() < often * self.odd

    def value(self, depth: int = 0) -> bytes:
        """Return JSON, or text that resembles JSON."""
        if self.chance.random() >= self.odd:
            return self.sane()
        pick = self.chance.random()
        if pick < 0.55 or depth > 3:
            return self.chance.choice(_ODD)
        if pick < 0.62:
            deep = self.chance.choice(
                [5, 150, 199, 201, 253, 255, 300, 1_000, 1_023, 1_025, 20_000]
            )
            left, right = self.chance.choice([(b"[", b"]"), (b'{"a":', b"}")])
            return left * deep + b"1" + right * deep
        if pick < 0.68:
            item = self.chance.choice([b"[]", b"{}", b"1", b'""', b'{"a":1}', b"[[]]"])
            return b"[" + b",".join([item] * self.chance.choice([10, 1_000, 30_000])) + b"]"
        items = [self.value(depth + 1) for _ in range(self.chance.randint(0, 4))]
        if pick < 0.84:
            return b"[" + b",".join(items) + b"]"
        keys = [self.chance.choice([b'"a"', b'"b"', b'"message"', b'""', b'"a"']) for _ in items]
        return b"{" + b",".join(k + b":" + v for k, v in zip(keys, items, strict=True)) + b"}"

    def sane(self) -> bytes:
        """Return valid JSON."""
        return self.chance.choice([b"1", b'"x"', b"[1,2]", b'{"a":[]}', b"null", b"2.5", b"true"])

    def number(self) -> bytes:
        pick = self.chance.random()
        if pick < 0.7 or not self.strange(1.0):
            return b"%d" % self.chance.randint(0, 40)
        return self.chance.choice(_ODD)

    def call(self) -> bytes:
        self.calls += 1
        names = [b'"add"', b'"echo"', b'"slow"', b'"refuse"', b'"nothing"', b'""', b'"\\u0000"']
        name = self.chance.choice(names)
        if self.strange(0.1):
            name = self.value()
        arguments = self.chance.choice(
            [b'{"a":1}', b'{"a":1,"b":"x"}', b'{"value":[1,{"b":2}]}', b'{"ms":30}', b"{}"]
        )
        if self.chance.random() < 0.2:
            arguments = b'{"value":%b}' % self.value()
        number = self.number() if self.strange(0.1) else b"%d" % self.calls
        line = self.chance.choice([b"1", b"null", b"99999", b"null"])
        if self.strange(0.05):
            line = self.value()
        return b"[%b,%b,%b,%b]" % (number, name, arguments, line)

    def failure(self) -> bytes:
        texts = [
            self.value() if self.strange(0.15) else b'"x"'
            for _ in ("type", "message", "code", "tool", "hint")
        ]
        if not self.strange(0.15):
            texts[2] = self.chance.choice([b'"exception"', b'"memory"', b'"limit_max_tasks"'])
        count = self.chance.choice([0, 1, 3, 64, 65])
        row = self.chance.choice(
            [b'[1,1,1,2,"run"]', b'[0,0,0,0,""]', b'[99,3,500,2,"x"]', b'[2,1,3,1,"x"]',
             b'[1,1,9007199254740991,0,"x"]', b'[1,2,3]', b'[-1,1,1,1,"x"]', b'[1,1,2000,3000,"x"]']
        )  # fmt: skip
        names = (b"type", b"message", b"code", b"tool", b"hint")
        fields = [b'"%b":%b' % pair for pair in zip(names, texts, strict=True)]
        if self.strange(0.1):
            fields.pop(self.chance.randrange(len(fields)))
        fields.append(b'"frames":[%b]' % b",".join([row] * count))
        return b"{" + b",".join(fields) + b"}"

    def findings(self) -> bytes:
        place = [self.chance.choice([b"0", b"1", b"2", b"70", b"9007199254740991"]) for _ in "lcel"]
        if self.strange(0.1):
            place[self.chance.randrange(4)] = self.value()
        row = (
            b'{"code":"x","message":"y","line":%b,"column":%b,"end_line":%b,"end_column":%b,'
            b'"hint":"","advisory":false}' % tuple(place)
        )
        return b"[" + b",".join([row] * self.chance.choice([0, 1, 2, 100, 1_001])) + b"]"

    def variables(self) -> bytes:
        row = self.chance.choice(
            [b'["run",1,[["a","1"]]]', b'["run",1,[]]', b'["run",-1,[]]', b"[]"]
        )
        return b"[" + b",".join([row] * self.chance.choice([0, 1, 50, 500])) + b"]"

    def body(self, kind: Kind) -> bytes:
        """Return a body that usually fits its kind."""
        if self.strange(0.12):
            return self.value()
        makers: dict[Kind, Callable[[], bytes]] = {
            Kind.CALL: self.call,
            Kind.CANCEL: lambda: b"[%b]" % self.number(),
            Kind.POLLED: lambda: b"[%b,64]" % self.number(),
            Kind.TIMER: lambda: b"[%b]" % self.chance.choice([b"0", b"0.001", b"5", self.number()]),
            Kind.PRINT: lambda: b"[%b,%b]" % (
                self.chance.choice([b'"x\\n"', b'""', self.value()]),
                self.chance.choice([b"3", b"-1"] if self.strange(0.2) else [b"0", b"1", b"2"]),
            ),
            Kind.WARN: lambda: b'["careful",%b,%b,%b]' % (
                self.value() if self.strange(0.2) else b'"careful"',
                self.value() if self.strange(0.2) else self.chance.choice([b'""', b'"result.a"']),
                self.chance.choice([b"-1", b"null"] if self.strange(0.2) else [b"0", b"7"]),
            ),
            Kind.PIECE: lambda: self.chance.randbytes(
                self.chance.choice([0, 65_537] if self.strange(0.2) else [1, 500, 65_536])
            ),
            Kind.ATTACH: lambda: b"[%b,%b]" % (
                self.chance.choice([b'""', b'"a\\n"', self.value()])
                if self.strange(0.2)
                else b'"a.png"',
                self.chance.choice([b'"png"', self.value()])
                if self.strange(0.2)
                else b'"image/png"',
            ),
            Kind.PROGRESS: lambda: b"[%b,%b,%b]" % (
                self.number(),
                self.chance.choice([b"null", self.number()]),
                self.value() if self.strange(0.2) else b'"reading"',
            ),
            Kind.EMIT: lambda: self.chance.choice([self.sane(), self.value()]),
            Kind.DONE: lambda: self.chance.choice([self.sane(), self.value()]),
            Kind.FAILED: self.failure,
            Kind.REJECTED: self.findings,
            Kind.CHECKED: self.findings,
            Kind.FRAMES: self.variables,
            Kind.COMPILED: lambda: self.chance.randbytes(self.chance.choice([0, 1, 500])),
        }  # fmt: skip
        maker = makers.get(kind)
        return maker() if maker is not None else b"[]"

    # --- frames -----------------------------------------------------------------------------

    def frame(self, kinds: list[Kind]) -> bytes:
        kind = self.chance.choice(kinds)
        return _frame(kind, self.body(kind))

    def frames(self, kinds: list[Kind], most: int = 12) -> bytes:
        return b"".join(self.frame(kinds) for _ in range(self.chance.randint(1, most)))

    def damaged(self, data: bytes) -> bytes:
        """Truncate, flip, double, or insert bytes."""
        pick, at = self.chance.randrange(5), self.chance.randint(0, len(data))
        if pick == 0:
            return data[:at]
        if pick == 1 and data:
            spot = self.chance.randrange(len(data))
            return (
                data[:spot] + bytes([data[spot] ^ 1 << self.chance.randrange(8)]) + data[spot + 1 :]
            )
        if pick == 2:
            return data[:at] + self.chance.randbytes(self.chance.randint(1, 40)) + data[at:]
        if pick == 3:
            return data + data
        return data[:at] + data[self.chance.randint(0, len(data)) :]

    def header(self) -> bytes:
        """Return a header alone, usually with a length that is too large."""
        kind = self.chance.choice([*_TO_HOST, 0, 1, 4, 15, 31, 77, 255])
        most = MAX_BODY.get(kind, 100)
        size = self.chance.choice([0, 1, most, most + 1, most + 2, 2**31, 2**32 - 1])
        return _frame(kind, b"", size)

    # --- parts ------------------------------------------------------------------------------

    def begin(self) -> list[Step]:
        """Receive the program and report that it is compiled."""
        return [Step(_frame(Kind.COMPILED, b"code"), read=True)]

    def sound(self) -> list[Step]:
        steps = [Step(self.frames(_STAYING), read=self.chance.random() < 0.7) for _ in "abc"]
        return [*self.begin(), *steps, Step(_frame(Kind.DONE, self.body(Kind.DONE)))]

    def random(self) -> list[Step]:
        return [Step(self.chance.randbytes(self.chance.randint(1, 3_000)), read=True)]

    def unordered(self) -> list[Step]:
        begin = self.begin() if self.chance.random() < 0.5 else []
        return [*begin, Step(self.frames(_TO_HOST, 20))]

    def hurt(self) -> list[Step]:
        data = _frame(Kind.COMPILED, b"code") + self.frames(_STAYING) + _frame(Kind.DONE, b"1")
        for _ in range(self.chance.randint(1, 3)):
            data = self.damaged(data)
        return [Step(data, read=True)]

    def headers(self) -> list[Step]:
        return [*self.begin(), Step(self.header() + b"x" * self.chance.randint(0, 50))]

    def large(self) -> list[Step]:
        """Return a body near the limit of its kind, or of the run."""
        kind = self.chance.choice([Kind.DONE, Kind.EMIT, Kind.CALL, Kind.PRINT])
        size = self.chance.choice([19_990, 20_010, 1_048_500, 1_049_700, 3 << 20, 9 << 20])
        item = self.chance.choice([b"[],", b"{},", b"1,", b'"ab",', b'{"a":1},', b"0.5,"])
        bulk = b"[" + item * (size // len(item)) + b"1]"
        if self.chance.random() < 0.3:
            bulk = b'"' + b"x" * size + b'"'
        wrapped = {
            Kind.CALL: b'[1,"echo",{"value":%b},1]' % bulk,
            Kind.PRINT: b"[%b,0]" % bulk,
        }.get(kind, bulk)
        return [*self.begin(), Step(_frame(kind, wrapped)), Step(_frame(Kind.DONE, b"1"))]

    def parts(self) -> list[Step]:
        """Return values in parts: complete, over a limit, out of order, of no frame."""
        steps = self.begin()
        for _ in range(self.chance.choice([1, 3, 8])):
            kind = self.chance.choice([Kind.DONE, Kind.EMIT, Kind.EMIT, Kind.CALL])
            target = self.number() if self.strange(0.1) else bytes([kind])
            bodies = [b"<" + target, *self.parted(kind)]
            if self.strange(0.5):
                bodies.insert(self.chance.randrange(len(bodies)), self.value())
            if self.strange(0.3):
                bodies.pop(self.chance.randrange(len(bodies)))
            if self.strange(0.3):
                self.chance.shuffle(bodies)
            last = b'[%d,"echo",null,1]' % (self.calls + 1) if kind is Kind.CALL else b"="
            self.calls += kind is Kind.CALL
            data = b"".join(_frame(Kind.PART, body) for body in bodies) + _frame(kind, last)
            steps.append(Step(self.damaged(data) if self.strange(0.1) else data))
        return [*steps, Step(_frame(Kind.DONE, b"1"))]

    def parted(self, kind: Kind) -> list[bytes]:
        """Return the parts of a value."""
        item = self.chance.choice([b"[]", b"1", b'"ab"', b'{"a":[]}', b"null"])
        batch = b"[" + b",".join([item] * self.chance.choice([1, 30, 2_000, 20_000])) + b"]"
        inner = [b"[", *[b"i" + batch] * self.chance.choice([1, 2, 9]), b"]"]
        if self.chance.random() < 0.3:
            inner = [b'+"' + b"x" * 30_000 + b'"'] * self.chance.choice([1, 4]) + [b'""']
            inner[-1] += b'"'
        if kind is not Kind.CALL and self.chance.random() < 0.5:
            return inner
        more = [b'm{"b":1}'] if self.chance.random() < 0.3 else []
        return [b"{", b'""value"', *inner, *more, b"}"]

    def tiny(self) -> list[Step]:
        """Return very many very small frames."""
        one = self.chance.choice(
            [
                _frame(Kind.POLLED, b"[1,64]"), _frame(Kind.TIMER, b"[0]"),
                _frame(Kind.TIMER, b"[9]"), _frame(Kind.EMIT, b"1"),
                _frame(Kind.PRINT, b'["",0]'), _frame(Kind.PRINT, b'["x",1]'),
                _frame(Kind.WARN, b'["x","y","",0]'), _frame(Kind.CANCEL, b"[3]"),
                _frame(Kind.PONG, b"[]"), _frame(Kind.PIECE, b"x"),
                _frame(Kind.ATTACH, b'["a","a/b"]'), _frame(Kind.PROGRESS, b'[1,2,"x"]'),
                _frame(Kind.DONE, b"1"), _frame(Kind.POLLED, b""),
            ]
        )  # fmt: skip
        count = self.chance.choice([2_000, 20_000, 100_000])
        return [*self.begin(), Step(one * count, chunk=self.chance.choice([0, 0, 7, 4_096]) or 0)]

    def calling(self) -> list[Step]:
        """Return calls, cancelled calls, calls with equal numbers, calls without end."""
        steps = []
        for _ in range(self.chance.choice([1, 5, 40])):
            data = b"".join(
                _frame(Kind.CALL, self.call()) for _ in range(self.chance.choice([1, 4, 60]))
            )
            if self.chance.random() < 0.4:
                data += _frame(Kind.CANCEL, b"[%d]" % self.chance.randint(0, self.calls + 1))
            steps.append(Step(data, read=self.chance.random() < 0.5))
        return [
            *self.begin(),
            *steps,
            Step(_frame(Kind.DONE, b"1"), pause_ms=self.chance.choice([0, 5])),
        ]

    def after(self) -> list[Step]:
        """Return a result, followed by more frames."""
        end = self.chance.choice([Kind.DONE, Kind.FAILED, Kind.REJECTED, Kind.CHECKED])
        more = self.frames(_TO_HOST) + _frame(Kind.DONE, b'"FORGED"') * 3
        begin = self.begin() if end in (Kind.DONE, Kind.FAILED) else [Step(read=True)]
        first = _frame(end, self.body(end))
        together = self.chance.random() < 0.5
        return [*begin, *([Step(first + more)] if together else [Step(first), Step(more)])]

    def ending(self) -> list[Step]:
        """Leave, die, or both, at any time."""
        data = self.damaged(self.frames(_STAYING))
        signal = self.chance.choice([0, 6, 9, 11, 24, 31])
        how = self.chance.choice(
            [Step(data, hang_up=True), Step(data, die=signal), Step(die=signal)]
        )
        return [*(self.begin() if self.chance.random() < 0.7 else []), how]

    def silent(self) -> list[Step]:
        return self.chance.choice([[], self.begin(), [Step(b"\x00\x00\x00"), Step(read=True)]])

    def trickling(self) -> list[Step]:
        data = _frame(Kind.COMPILED, b"c") + self.frames(_STAYING, 3)
        size = self.chance.choice([1, 2, 5])
        parts = [data[n : n + size] for n in range(0, min(len(data), 400), size)]
        return [Step(part, pause_ms=self.chance.choice([0, 0, 1, 3])) for part in parts]


_PARTS: dict[str, int] = {
    "sound": 4, "random": 1, "unordered": 4, "hurt": 4, "headers": 2, "large": 2, "tiny": 1,
    "parts": 3, "calling": 3, "after": 3, "ending": 3, "silent": 1, "trickling": 1,
}  # fmt: skip


def play_of(chance: Random) -> Play:
    """Return a random play."""
    author = _Author(chance)
    (name,) = chance.choices(list(_PARTS), list(_PARTS.values()))
    steps: list[Step] = getattr(author, name)()
    # Usually a script that no other worker has compiled, so that this one must compile it.
    source = f"{chance.choice(_SOURCES)}\n# {chance.choice([0, chance.getrandbits(64)])}\n"
    return Play(name, source, tuple(steps), chance.random() < 0.5)
