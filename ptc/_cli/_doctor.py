"""``ptc doctor``: what this machine gives: the fences, a run through them, toolsets, commands."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._options import isolation_option, json_option
from ._status import COMPLETED, SETUP

if TYPE_CHECKING:
    from .._session import Session
    from ._terminal import Stream

__all__ = ["command"]

_HELP = """Say which fences are on here, and whether scripts can run.

Starts a worker, probes each layer of its jail, runs a script, and lets the language policy refuse
one. Exit status 0 if all that is required is on, 5 if not.

\b
Examples:
  ptc doctor
  ptc doctor --json | jq '.layers[] | select(.on | not)'
"""

_TRIAL = 'def run(ctx, inputs):\n    return sum(inputs["numbers"])\n'
_FORBIDDEN = "import subprocess\n\ndef run(ctx, inputs):\n    return subprocess.run(['true'])\n"


@click.command("doctor", short_help="Which fences are on here.", help=_HELP)
@isolation_option
@json_option("Print the findings as JSON.")
def command(*, isolation: str, as_json: bool) -> int:
    """Run the command; the docstring for users is `_HELP`."""
    import anyio

    from .. import __version__
    from ._terminal import standard_output

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
        "ripgrep": _ripgrep(),
        "toolsets": _toolsets(),
        "commands": _commands(),
    }
    anyio.run(_examine, findings)
    findings["ok"] = not findings["problems"]
    output = standard_output()
    if as_json:
        output.json(findings)
    else:
        _show(output, findings)
    return COMPLETED if findings["ok"] else SETUP


async def _examine(findings: dict[str, Any]) -> None:
    """Start a worker as a session does, and see what it can and cannot do."""
    import dataclasses

    from .._session import Session
    from ..errors import PtcError, SetupError

    problems: list[str] = findings["problems"]
    try:
        async with Session(toolsets=(), isolation=findings["isolation"], workers=1) as session:
            layers = await session.warm_up()
            findings["layers"] = [dataclasses.asdict(layer) for layer in layers]
            # A session with such a layer refuses to start; this says so should it ever not.
            problems.extend(
                f"layer {layer.name} is required and off: {layer.detail}"
                for layer in layers
                if layer.required and not layer.on
            )
            findings["trial"] = await _trial(session, problems)
            findings["policy"] = await _refusal(session, problems)
    except SetupError as error:
        findings["layers"] = [dataclasses.asdict(layer) for layer in error.layers]
        problems.append(str(error))
    except PtcError as error:
        problems.append(str(error))


async def _trial(session: Session, problems: list[str]) -> dict[str, Any]:
    result = await session.program(source=_TRIAL, inputs={"numbers": [1, 2, 3]})
    if not result.ok or result.value != 6:
        reason = result.error.message if result.error else f"it returned {result.value!r}"
        problems.append(f"a script that adds three numbers ended {result.status}: {reason}")
    return {"status": result.status, "duration_ms": result.usage.duration_ms}


async def _refusal(session: Session, problems: list[str]) -> dict[str, Any]:
    result = await session.program(source=_FORBIDDEN)
    if result.status != "rejected":
        problems.append(f"the language policy let `import subprocess` pass: {result.status}")
    return {"import subprocess": result.status}


def _ripgrep() -> str | None:
    """Where `rg` is found: on PATH, or beside this interpreter as the package of PyPI puts it."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("rg", path=os.pathsep.join([os.environ.get("PATH", ""), beside]))


def _toolsets() -> list[dict[str, Any]]:
    from importlib.metadata import entry_points

    from .._toolset import installed_toolset
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
    from ._plugins import load_plugin, plugin_names

    rows: list[dict[str, Any]] = []
    for name in plugin_names():
        try:
            load_plugin(name)
            rows.append({"name": name, "error": None})
        except SetupError as error:
            rows.append({"name": name, "error": str(error)})
    return rows


def _show(output: Stream, findings: dict[str, Any]) -> None:
    from ._table import write_table

    output.line(f"ptc {findings['ptc']}, {findings['python']} ({findings['executable']})")
    output.line(findings["system"])
    if findings["layers"]:
        output.line(f"\nlayers of the jail (isolation {findings['isolation']}):")
        columns = (("layer", ""), ("", ""), ("", ""), ("verified by", "wrap"), ("", "wrap"))
        rows = [
            (
                layer["name"],
                "on" if layer["on"] else "off",
                "required" if layer["required"] else "optional",
                layer["how"],
                layer["detail"],
            )
            for layer in findings["layers"]
        ]
        write_table(output, columns, rows)
    output.line()
    if findings["trial"]:
        took = f"{findings['trial']['duration_ms']:.1f} ms"
        output.line(f"a script of two lines: {findings['trial']['status']} in {took}")
    if findings["policy"]:
        output.line(f"a script that imports subprocess: {findings['policy']['import subprocess']}")
    output.line(f"ripgrep: {findings['ripgrep'] or 'not found; tools that search need it'}")
    for row in findings["toolsets"]:
        output.line(f"toolset {row['name']}: {row['error'] or ', '.join(row['tools'])}")
    for row in findings["commands"]:
        output.line(f"command {row['name']}: {row['error'] or 'ready'}")
    output.line()
    if findings["ok"]:
        if findings["isolation"] == "jail":
            output.line("ok: scripts run here, behind every required fence", "green")
        else:
            output.line("ok: scripts run here; the language policy is their only fence", "yellow")
    for problem in findings["problems"]:
        output.line(f"problem: {problem}", "bold red")
