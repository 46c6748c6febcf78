"""Run a script through a real session and report problems with its outcome."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from ptc import Limits, RunResult, Session, ToolError, tool
from ptc._language._policy import KEEPABLE, kind_of
from ptc.testing import NO_KERNEL_LAYER

__all__ = ["LIMITS", "Judge", "findings", "suspicious"]

LIMITS = Limits(timeout_ms=1_500, max_memory_bytes=128 << 20, max_output_bytes=8 << 20)
_STATUSES = {"completed", "failed", "rejected", "timed_out", "limit_exceeded"}

_POWER_TYPES = {
    "frame", "code", "cell", "ModuleSpec", "SourceFileLoader", "BuiltinImporter",
    "FrozenImporter", "_Environ", "TextIOWrapper", "FileIO", "BufferedReader", "BufferedWriter",
    "BufferedRandom", "Runtime", "Wire", "socket", "Calls", "ScriptLoop", "Handle", "TimerHandle",
    "memoryview", "_Run", "_Kit", "Clock", "Attributes", "CDLL", "PyDLL", "LibraryLoader",
    "_Server", "SystemRandom", "Token_", "stdprinter", "EncodedFile",
}  # fmt: skip
_POWER_FUNCTIONS = {
    "open", "eval", "exec", "compile", "__import__", "breakpoint", "input", "system", "popen",
    "getattr", "setattr", "delattr", "vars", "globals", "locals", "exec_module", "load_module",
    "_getframe", "fork", "execv", "execve", "mmap", "dlopen", "get_objects", "__build_class__",
    "__subclasses__", "mro", "__reduce_ex__", "__reduce__", "__getattribute__", "__setattr__",
}  # fmt: skip
_NAMESPACES = {"__builtins__", "__spec__", "__loader__", "__file__", "@getattr", "@import"}
# If the canary is unreadable for another reason, an attempt is recognized by its error.
_REACHED = re.compile(
    r"Errno 24|Too many open files|can't start new thread|Resource temporarily unavailable"
    r"|Errno 13|Permission denied|No such file or directory|Errno 2\b"
)
_FUNCTION = re.compile(r"<(?:built-in (?:function|method)|function|method-wrapper) '?([\w.]+)")
_DESCRIPTORS = {"getset_descriptor", "member_descriptor", "method_descriptor", "wrapper_descriptor"}
_DESCRIBED = re.compile(r"<(?:attribute|member|method|slot wrapper) '(\w+)' of ")
_FACADE = re.compile(r"<module '[\w.]+'>$")


def suspicious(entry: str) -> str:
    """Return the reason why a script must not hold this object, or ``""``."""
    kind, _, text = entry.partition("|")
    if kind == "keys":
        names = set(text.split(","))
        if len(names & _NAMESPACES) >= 3 or names >= {"len", "print", "isinstance"}:
            return f"a namespace with {', '.join(sorted(names & _NAMESPACES))}"
        return ""
    if kind == "module" and not _FACADE.match(text):
        return f"a real module: {text}"
    if kind in _POWER_TYPES:
        return f"{kind}: {text}"
    if kind in _DESCRIPTORS and (match := _DESCRIBED.match(text)):
        guarded = kind_of(match[1]) in {"power", "dunder"} and match[1] not in KEEPABLE
        return f"a descriptor: {text}" if guarded else ""
    if kind in {"builtin_function_or_method", "method-wrapper"}:
        match = _FUNCTION.match(text)
        if match and match[1].rpartition(".")[2] in _POWER_FUNCTIONS:
            return f"a function: {text}"
    return ""


def findings(result: RunResult, token: str, isolation: str) -> list[str]:
    """Return problems with the outcome of a script."""
    wrong = []
    if result.status not in _STATUSES:
        error = result.error
        wrong.append(f"{isolation}: status {result.status}: {error.message if error else ''}")
    everything = repr(result)
    if token in everything:
        wrong.append("the token is in the result")
    value: Any = result.value
    if isinstance(value, dict) and "found" in value:
        wrong += filter(None, map(suspicious, value["found"]))
        wrong += [f"said: {text}" for text in value["said"] if _REACHED.search(text)]
    elif _REACHED.search(everything):
        wrong.append(f"reached the system: {everything[:600]}")
    return wrong


Json: TypeAlias = dict[str, object] | list[object] | str | float | bool | None


@tool
async def echo(x: Json = None) -> Json:
    """Return the argument."""
    return x


@tool
async def fail(x: Json = None) -> None:
    """Fail."""
    raise ToolError("no luck", details={"x": 1})


@tool
async def rows(n: int = 2) -> list[dict[str, object]]:
    """Return rows of data."""
    return [{"f_back": i, "__globals__": i, "name": "row"} for i in range(min(n, 9))]


@tool(name="evaluate")
async def evaluate(x: Json = None) -> object:
    """A tool named like a power name of the language."""
    return x


@dataclass
class Judge:
    """Sessions with each layer alone and with both, and a canary that must never leak."""

    folder: Path
    token: str
    sessions: dict[str, Session]

    @classmethod
    def make(cls, folder: Path) -> Judge:
        """Plant the canary and create the sessions; enter them before use."""
        token = "TKN" + secrets.token_hex(8)
        # Workers of root run as nobody: only the language layer may keep them from the canary.
        folder.chmod(0o755)  # as above
        (folder / "canary.txt").write_text(f"canary {token}\n")
        (folder / "canary.ini").write_text(f"[s]\nk = {token}\n")
        tools = (echo, fail, rows, evaluate)
        levels = {"language": NO_KERNEL_LAYER, "jail": "jail"}
        sessions = {
            name: Session(
                folder, tools=tools, toolsets=(), isolation=level, workers=2, limits=LIMITS
            )
            for name, level in levels.items()
        }
        return cls(folder, token, sessions)

    async def judge(self, source: str, isolation: str) -> tuple[str, list[str]]:
        """Return the status of `source` in one of the sessions, and the problems."""
        inputs = {
            "canary": str(self.folder / "canary.txt"),
            "canary_ini": str(self.folder / "canary.ini"),
            "drop": str(self.folder / "drop.txt"),
            "tmpdir": str(self.folder),
        }
        with anyio.fail_after(60):
            result = await self.sessions[isolation].program(source=source, inputs=inputs)
        wrong = findings(result, self.token, isolation)
        if (self.folder / "drop.txt").exists():
            (self.folder / "drop.txt").unlink()
            wrong.append("the drop file was written")
        json.dumps(result.value, default=str)
        return result.status, wrong
