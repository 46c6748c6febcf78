"""Runs scripts behind the language policy alone: no jail, one fork a script.

It plays a host that holds secrets: a token in a file, in this module, in the environment, in a
closure, in a frame and behind `ctx`. Whatever a script gives back is judged by the test.

usage: script_child.py CASES.json RESULTS.jsonl, with the token as the first line of stdin.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import io
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from ptc._language._compiler import ScriptRejected, compile_script, demangle
from ptc.errors import ToolError
from ptc.worker import _guards
from ptc.worker._clock import Clock
from ptc.worker._modules import build_modules
from ptc.worker._modules._traceback import format_error
from ptc.worker._seal import seal

HOST_SECRET = "unset"
host_token: contextvars.ContextVar[str] = contextvars.ContextVar("host_token")
SECONDS = 20


class Impl:
    """A host object; a script must never hold it."""

    def __init__(self, token: str) -> None:
        self.secret = token
        self.db = {"password": token}


class Ctx:
    """A `ctx` with everything behind it that a script would like to have."""

    __slots__ = ("_Ctx__secret", "_impl", "echo", "logs")

    def __init__(self, impl: Impl) -> None:
        held = impl.secret

        def echo(x: Any) -> Any:
            _ = held
            return x

        for name, value in (
            ("_impl", impl), ("_Ctx__secret", impl.secret), ("echo", echo), ("logs", []),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("ctx cannot be changed")

    def call(self, name: str, args: Any = None) -> Any:
        if name == "echo":
            return (args or {}).get("x")
        if name == "fail":
            local_secret = self._impl.secret
            try:
                raise KeyError("inner " + str(len(local_secret)))
            except KeyError as error:
                raise ToolError("tool failed") from error
        if name == "apply":
            host_frame_secret = self._impl.secret
            return args["fn"](len(host_frame_secret))
        if name == "render":
            return "ok"
        if name == "reveal":  # lets the tests see that their judge works
            return self._impl.secret
        raise ToolError("no such tool")

    def log(self, *parts: Any) -> None:
        self.logs.append(parts)

    def __getattr__(self, name: str) -> Any:
        if name in ("secret", "db"):
            raise ToolError("not exposed")
        return getattr(object.__getattribute__(self, "_impl"), name)


def call_script(namespace: dict[str, Any], ctx: Ctx, inputs: dict[str, Any]) -> Any:
    host_secret_local = HOST_SECRET
    result = namespace["run"](ctx, inputs)
    if inspect.isawaitable(result):

        async def background() -> None:
            bg_secret = HOST_SECRET
            try:
                await asyncio.Event().wait()
            finally:
                del bg_secret

        async def main() -> Any:
            task = asyncio.create_task(background(), name="host-bg")
            await asyncio.sleep(0)
            try:
                return await result
            finally:
                task.cancel()

        return asyncio.run(main())
    del host_secret_local
    return result


def plain(value: Any) -> Any:
    """Text of a result, as far as it goes."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("latin-1")
    try:
        return json.dumps(value, default=repr)
    except Exception:  # noqa: BLE001  # whatever a script's object raises
        try:
            return repr(value)
        except Exception as error:  # noqa: BLE001  # whatever a script's object raises
            return f"unprintable {type(error).__name__}"


def compile_code(source: Any, case: dict[str, Any]) -> Any:
    """Compile under the policy, or as plain Python to see what the objects alone hold."""
    if case.get("plain"):
        return compile(source, "script.py", "exec", dont_inherit=True)
    return compile_script(source, require_run=case.get("require_run", True)).code


def import_facade(modules: Any, name: str) -> Any:
    """Import a façade for code that was not compiled under the policy."""
    if name not in modules:
        raise ImportError(name)
    return modules[name.partition(".")[0]]


def run_case(case: dict[str, Any], token: str, directory: str, tables: Any) -> dict[str, Any]:
    global HOST_SECRET
    HOST_SECRET = token
    host_token.set(token)
    canary = os.path.join(directory, "canary.txt")
    inputs = {
        "canary": canary,
        "canary_ini": os.path.join(directory, "canary.ini"),
        "drop": os.path.join(directory, "drop.txt"),
        "tmpdir": directory,
    }
    os.environ["SBX_ENV_SECRET"] = token
    # Known to the host, as the real `inputs` are; an escape is what the script learns besides.
    builtins, modules = tables
    if case.get("plain"):
        builtins = {**builtins, "__import__": lambda name, *_: import_facade(modules, name)}
    output = io.StringIO()
    answer: dict[str, Any] = {"id": case["id"], "phase": "compile"}
    source: Any = case["script"]
    if case.get("source_bytes"):
        source = source.encode("latin-1")
    clock.sleep = lambda seconds: None
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code: Any = compile_code(source, case)
            namespace = _guards.script_globals(dict(builtins), modules)
            answer["phase"] = "load"
            exec(code, namespace)  # noqa: S102  # what this program is for
            answer["phase"] = "run"
            if case.get("require_run", True):
                value = call_script(namespace, Ctx(Impl(token)), inputs)
                answer["result"] = plain(value)
            else:
                answer["result"] = plain(namespace.get("result"))
            answer["phase"] = "done"
    except ScriptRejected as rejected:
        answer["findings"] = [finding.code for finding in rejected.findings]
        answer["error"] = str(rejected)
    except BaseException as error:  # noqa: BLE001  # what the script raised is the answer
        try:
            answer["error"] = demangle(f"{type(error).__name__}: {error}")[:2000]
        except BaseException:  # noqa: BLE001  # a hostile __str__
            answer["error"] = type(error).__name__
        if case.get("trace"):
            answer["trace"] = format_error(error)
    answer["output"] = output.getvalue()[:20000]
    return answer


def in_fork(case: dict[str, Any], token: str, tables: Any) -> dict[str, Any]:
    answer: dict[str, Any]
    directory = tempfile.mkdtemp(prefix="ptc-script-")
    try:
        for name, text in (
            ("canary.txt", f"canary {token}\n"),
            ("canary.ini", f"[s]\nk = {token}\n"),
        ):
            with open(os.path.join(directory, name), "w") as file:
                file.write(text)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            answer = run_case(case, token, directory, tables)
            with os.fdopen(write, "w") as file:
                file.write(json.dumps(answer))
            os._exit(0)
        os.close(write)
        received = b""
        while select.select([read], [], [], SECONDS)[0]:
            chunk = os.read(read, 1 << 16)
            if not chunk:
                break
            received += chunk
        else:
            os.kill(child, signal.SIGKILL)
        os.close(read)
        _, status = os.waitpid(child, 0)
        answer = (
            json.loads(received) if received else {"id": case["id"], "error": f"status {status}"}
        )
        drop = Path(directory, "drop.txt")
        answer["dropped"] = drop.read_bytes().decode("latin-1") if drop.exists() else ""
        return answer
    finally:
        shutil.rmtree(directory)


clock = Clock()


def main() -> None:
    token = sys.stdin.readline().strip()
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    modules = build_modules(clock, random.Random(7))
    seal()
    builtins = _guards.script_builtins(extra={"ToolError": ToolError})
    with open(sys.argv[2], "w") as file:
        for case in cases:
            file.write(json.dumps(in_fork(case, token, (builtins, modules))) + "\n")


if __name__ == "__main__":
    main()
