"""``ptc doctor``: check this machine's kernel layers, a trial run, toolsets and commands."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._options import json_option, settings_options
from ._status import COMPLETED, SETUP

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._session._session import Session
    from ._terminal import Stream

__all__ = ["command"]

_HELP = """Check both engines: the kernel layers of processes, at both levels, and WebAssembly.

Starts a worker at each level, probes each layer, runs a script, and checks that the language layer
rejects a forbidden one; the same in WebAssembly, if it is installed and compiled. Exits with 0 if
every layer that --isolation requires is on, or WebAssembly works, otherwise 5.

\b
Examples:
  ptc doctor
  ptc doctor --isolation process
  ptc doctor --json | jq '.levels.process.layers[] | select(.on | not)'
"""

_TRIAL = 'def run(ctx, inputs):\n    return sum(inputs["numbers"])\n'
_FORBIDDEN = "import subprocess\n\ndef run(ctx, inputs):\n    return subprocess.run(['true'])\n"


@click.command("doctor", short_help="Check the sandbox of this machine.", help=_HELP)
@settings_options("isolation")
@json_option("Print the findings as JSON.")
def command(*, settings: Settings, as_json: bool) -> int:
    """Run the command; `_HELP` is its help text."""
    import anyio

    from .. import __version__
    from .._workers._isolation import ISOLATION_LEVELS
    from ._terminal import standard_output

    isolation = settings["isolation"]
    findings: dict[str, Any] = {
        "ok": False,
        "problems": [],
        "ptc": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "isolation": isolation,
        "layers": [],
        "trial": None,
        "policy": None,
        "levels": {},
        "wasm": {},
        "reuse_workers": {},
        "ripgrep": _ripgrep(),
        "toolsets": _toolsets(),
        "commands": _commands(),
    }
    for level in ISOLATION_LEVELS:
        findings["levels"][level] = anyio.run(_examine, level)
    findings.update(findings["levels"][isolation])
    findings["wasm"] = anyio.run(_examine_wasm)
    findings["reuse_workers"] = anyio.run(_examine_reuse, isolation)
    findings["ok"] = findings["ok"] or findings["wasm"]["ok"]
    output = standard_output()
    if as_json:
        output.json(findings)
    else:
        _show(output, findings)
    return COMPLETED if findings["ok"] else SETUP


async def _examine(level: str) -> dict[str, Any]:
    """Start a worker at `level` as a session does, and test its sandbox."""
    import dataclasses

    from .._session._session import Session
    from ..errors import PtcError, SetupError

    problems: list[str] = []
    found: dict[str, Any] = {"ok": False, "problems": problems, "layers": []}
    found |= {"trial": None, "policy": None}
    try:
        async with Session(toolsets=(), engine="process", isolation=level, workers=1) as session:
            layers = await session.warm_up()
            found["layers"] = [dataclasses.asdict(layer) for layer in layers]
            # Redundant: a session refuses to start without a required layer.
            problems.extend(
                f"layer {layer.name} is required and off: {layer.detail}"
                for layer in layers
                if layer.required and not layer.on
            )
            found["trial"] = await _trial(session, problems)
            found["policy"] = await _refusal(session, problems)
    except SetupError as error:
        found["layers"] = [dataclasses.asdict(layer) for layer in error.layers]
        problems.append(str(error))
    except PtcError as error:
        problems.append(str(error))
    found["ok"] = not problems
    return found


async def _examine_wasm() -> dict[str, Any]:
    """Test the sandbox in WebAssembly, if that takes no compilation."""
    from .._session._session import Session
    from .._workers.wasm._module import INSTALL, engine_name, is_compiled, is_installed
    from ..errors import PtcError

    problems: list[str] = []
    found: dict[str, Any] = {"ok": False, "installed": is_installed(), "problems": problems}
    found |= {"name": engine_name(), "trial": None, "policy": None}
    try:
        if not is_installed():
            problems.append(f"not installed ({INSTALL})")
        elif not is_compiled():
            problems.append("installed, but not compiled yet: `ptc warm-up` takes about a minute")
        else:
            async with Session(toolsets=(), engine="wasm", workers=1) as session:
                await session.warm_up()
                found["trial"] = await _trial(session, problems)
                found["policy"] = await _refusal(session, problems)
    except PtcError as error:
        problems.append(str(error))
    found["ok"] = not problems
    return found


async def _examine_reuse(level: str) -> dict[str, Any]:
    """Check that workers can be reused at `level`: run a script twice in one process."""
    from .._session._session import Session
    from .._workers._pool import Pool
    from ..errors import PtcError

    problems: list[str] = []
    try:
        async with Session(
            toolsets=(), engine="process", isolation=level, workers=1, reuse_workers=True
        ) as session:
            await session.warm_up()
            await _trial(session, problems)
            await _trial(session, problems)
            pool = session._pool  # no public name: it is for diagnostics only
            if isinstance(pool, Pool) and pool.reuse_problem:
                problems.append(pool.reuse_problem)
    except PtcError as error:
        problems.append(str(error))
    return {"available": not problems, "problems": problems}


async def _trial(session: Session, problems: list[str]) -> dict[str, Any]:
    result = await session.program(source=_TRIAL, inputs={"numbers": [1, 2, 3]})
    if not result.ok or result.value != 6:
        reason = result.error.message if result.error else f"it returned {result.value!r}"
        problems.append(f"a script that adds three numbers finished {result.status}: {reason}")
    return {"status": result.status, "duration_ms": result.usage.duration_ms}


async def _refusal(session: Session, problems: list[str]) -> dict[str, Any]:
    result = await session.program(source=_FORBIDDEN)
    if result.status != "rejected":
        problems.append(f"the language layer accepted `import subprocess`: {result.status}")
    return {"import subprocess": result.status}


def _ripgrep() -> str | None:
    """Find `rg` on PATH, or beside this interpreter, where the PyPI package installs it."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("rg", path=os.pathsep.join([os.environ.get("PATH", ""), beside]))


def _toolsets() -> list[dict[str, Any]]:
    from importlib.metadata import entry_points

    from .._tools._toolset import installed_toolset
    from ..errors import SetupError

    rows = []
    for name in sorted({entry.name for entry in entry_points(group="ptc.toolsets")}):
        row: dict[str, Any] = {"name": name, "tools": [], "error": None}
        try:
            row["tools"] = [tool.name for tool in installed_toolset(name)]
        except SetupError as error:
            reason = error.__cause__ or error
            row["error"] = f"{type(reason).__name__}: {reason}"
        rows.append(row)
    return rows


def _commands() -> list[dict[str, Any]]:
    from ..errors import SetupError
    from ._plugins import find_missing_extra, load_plugin, plugin_names

    rows: list[dict[str, Any]] = []
    for name in plugin_names():
        try:
            load_plugin(name)
            rows.append({"name": name, "error": find_missing_extra(name)})
        except SetupError as error:
            rows.append({"name": name, "error": str(error)})
    return rows


def _show(output: Stream, findings: dict[str, Any]) -> None:
    output.line(f"ptc {findings['ptc']}, {findings['python']} ({findings['executable']})")
    output.line(findings["system"])
    levels: dict[str, Any] = findings["levels"]
    if any(found["layers"] for found in levels.values()):
        output.line("\nkernel layers, probed at each isolation level:")
        _show_layers(output, levels, findings["isolation"])
    output.line()
    if findings["trial"]:
        took = f"{findings['trial']['duration_ms']:.1f} ms"
        output.line(f"a two-line script: {findings['trial']['status']} in {took}")
    if findings["policy"]:
        output.line(f"a script that imports subprocess: {findings['policy']['import subprocess']}")
    output.line(f"ripgrep: {findings['ripgrep'] or 'not found; the search tools need it'}")
    for row in findings["toolsets"]:
        output.line(f"toolset {row['name']}: {row['error'] or ', '.join(row['tools'])}")
    for row in findings["commands"]:
        output.line(f"command {row['name']}: {row['error'] or 'ready'}")
    output.line()
    for level, found in levels.items():
        requested = level == findings["isolation"]
        if found["ok"]:
            output.line(f"{level}: {_summary(found)}", "green" if requested else "")
        for problem in found["problems"]:
            output.line(f"{level}: problem: {problem}", "bold red" if requested else "")

    reuse = findings["reuse_workers"]
    words = "available" if reuse["available"] else f"unavailable: {'; '.join(reuse['problems'])}"
    output.line(f"reuse_workers (off by default): {words}")
    wasm = findings["wasm"]
    took = f": a two-line script took {wasm['trial']['duration_ms']:.1f} ms" if wasm["ok"] else ""
    output.line(f"engine {wasm['name']}: {'; '.join(wasm['problems']) or 'ok'}{took}")


def _show_layers(output: Stream, levels: dict[str, Any], requested: str) -> None:
    """Write one row per layer: its state at each level, and its probe at the requested level."""
    from ._table import write_table

    by_level = {
        level: {layer["name"]: layer for layer in found["layers"]}
        for level, found in levels.items()
    }
    shown = by_level[requested] or next(layers for layers in by_level.values() if layers)
    columns = (
        ("layer", ""),
        *((level, "") for level in levels),
        ("verified by", "wrap"),
        ("seen", "wrap"),
    )
    rows = [
        (
            name,
            *(_state(layers.get(name)) for layers in by_level.values()),
            layer["how"],
            layer["detail"],
        )
        for name, layer in shown.items()
    ]
    write_table(output, columns, rows)


def _state(layer: dict[str, Any] | None) -> str:
    if layer is None:
        return "not probed"
    return f"{'on' if layer['on'] else 'off'}, {'required' if layer['required'] else 'optional'}"


def _summary(found: dict[str, Any]) -> str:
    """Summarize the protection of a level that works on this machine."""
    off = {layer["name"] for layer in found["layers"] if not layer["on"]}
    missing = [name for name in ("seccomp", "landlock") if name in off]
    if not missing:
        return "ok, every required kernel layer confines scripts on this machine"
    return (
        f"scripts run here without {' and '.join(missing)}: one bug in the language layer gives a "
        "script your user's rights"
    )
