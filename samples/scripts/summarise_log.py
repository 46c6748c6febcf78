"""Summarise a log in thirty lines: levels, errors by the hour, most frequent messages.

    ptc run samples/scripts/summarise_log.py --input path=samples/data/service.log --allow read

Inputs: `path`, the log file; `top`, the number of messages to report (default: 8, at most 50).

The script reads parts of 5,000 lines; a file of more than 500,000 needs more than the default limit
of 100 tool calls. A record starts with a time and a level; other lines (a traceback) belong to the
record before them.
"""

import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

LINES_AT_ONCE = 5_000
ERRORS = ("ERROR", "CRITICAL", "FATAL")

RECORD = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)\S*\s+"
    r"(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b[\s:]*"
    r"(?:\[(?P<part>[^\]]+)\]\s*)?(?P<message>.*)"
)
VARYING = re.compile(
    r"0x[0-9a-f]+"
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{5,}\b"  # an id in hexadecimal
    r"|\d+(?:[.:]\d+)*"  # a number, a version, an address, a time
)


@dataclass
class Message:
    """Records that differ only in their numbers."""

    level: str
    part: str
    text: str
    count: int = 0
    first: str = ""
    last: str = ""


@dataclass
class Summary:
    """Counts over the whole file."""

    records: int = 0
    lines: int = 0
    other_lines: int = 0
    first: str = ""
    last: str = ""
    levels: Counter[str] = field(default_factory=Counter)
    hours: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    messages: dict[tuple[str, str, str], Message] = field(default_factory=dict)

    def add(self, line: str) -> None:
        self.lines += 1
        found = RECORD.match(line)
        if found is None:
            self.other_lines += 1
            return
        time, level, part, message = found.group("time", "level", "part", "message")
        self.records += 1
        self.first = min(self.first or time, time)
        self.last = max(self.last, time)
        self.levels[level] += 1
        hour = time[:13].replace("T", " ")
        self.hours[hour] += 1
        if level in ERRORS:
            self.errors[hour] += 1
        text = VARYING.sub("#", message.rstrip())[:200]
        key = (level, part or "", text)
        same = self.messages.setdefault(key, Message(*key, first=time))
        same.count += 1
        same.last = time

    def by_hour(self) -> list[dict[str, Any]]:
        return [
            {
                "hour": f"{hour}:00",
                "records": records,
                "errors": self.errors[hour],
                "error_rate": round(self.errors[hour] / records, 3),
            }
            for hour, records in sorted(self.hours.items())
        ]

    def most_often(self, levels: Any, top: int) -> list[dict[str, Any]]:
        chosen = [message for message in self.messages.values() if message.level in levels]
        chosen.sort(key=lambda message: (-message.count, message.first))
        return [asdict(message) for message in chosen[:top]]


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read the log part by part and summarise it."""
    path = inputs["path"]
    top = max(1, min(50, inputs.get("top", 8)))
    summary = Summary()
    while lines := (await ctx.read(path, offset=summary.lines, limit=LINES_AT_ONCE)).split("\n"):
        if not lines[-1]:
            lines.pop()
        for line in lines:
            summary.add(line)
        if len(lines) < LINES_AT_ONCE:
            break
    if not summary.records:
        raise ValueError(f"{path} has no line that starts with a time and a level")
    return {
        "path": path,
        "lines": summary.lines,
        "records": summary.records,
        "other_lines": summary.other_lines,
        "first": summary.first,
        "last": summary.last,
        "levels": dict(summary.levels.most_common()),
        "by_hour": summary.by_hour(),
        "errors": summary.most_often(ERRORS, top),
        "other_messages": summary.most_often(set(summary.levels) - set(ERRORS), top),
    }
