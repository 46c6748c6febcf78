"""The command ``ptc verify``: run checks from the command line.

Rule 1: Ctrl-C kills every command, and the report has the checks that had finished.
    tests/cli/test_verify.py::test_ctrl_c_kills_the_commands_and_reports_finished_checks
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ptc import PtcError, UsageError
from ptc._cli._options import (
    TOOL_KEYS,
    json_option,
    open_session,
    require_tool,
    settings_options,
)
from ptc._cli._signals import stop_signals
from ptc._cli._status import COMPLETED, FAILED, INTERRUPTED, TERMINATED, USAGE

if TYPE_CHECKING:
    import anyio

    from ptc import RunEvent, Session, ToolResult
    from ptc._cli._progress import Progress
    from ptc._cli._terminal import Stream
    from ptc._config._settings import Settings

    from ._checks import CheckResult, VerificationReport
    from ._presets import Preset

__all__ = ["Verification", "command"]

_TOOL = "verify_commands"
_DEFAULT_TIMEOUT_MS = 60_000
"""Time limit of a check that has none, which `bash` applies."""
_SLACK_MS = 60_000
"""Time for starting and recording, beyond the time limits of all checks."""
_MAX_CALL_MS = 86_400_000

_HELP = """Run checks in the sandbox of commands, and report the evidence of each.

Without --check, --optional, --checks and --preset, the checks are those that the files of the root
call for: pytest, ruff and mypy if they are configured, scripts of package.json, cargo and go.

No shell reads a command; for pipes, globs and && write sh -c '...'. A failed check has its exit
code or signal, and the start and end of its output; longer output is stored in files.

\b
Examples:
  ptc verify                                            the checks of this project
  ptc verify --preset pytest --preset ruff --parallel 2
  ptc verify --check unit='pytest -q tests/core' --timeout-ms 300000
  ptc verify --check 'lint=ruff check .' --optional 'types=mypy ptc' --json
  ptc verify --checks checks.json --subject 'release 1.2'
"""

_EXIT_STATUS_HELP = """\b
Exit status:
    0  every required check passed
    1  a required check did not pass
    2  the command line is invalid; nothing ran
    5  this machine lacks a requirement
  130  interrupted with Ctrl-C (143: terminated)
"""


@click.command(
    "verify",
    short_help="Run checks such as tests and linters, and report the evidence.",
    help=_HELP,
    epilog=_EXIT_STATUS_HELP,
)
@click.option("--subject", default="", help="Claim or change to verify. [default: the root's name]")
@click.option(
    "--check", "required", multiple=True, metavar="ID=COMMAND", help="A check; may be repeated."
)
@click.option(
    "--optional",
    multiple=True,
    metavar="ID=COMMAND",
    help="A check whose failure does not fail the report; may be repeated.",
)
@click.option(
    "--checks",
    "file",
    metavar="FILE",
    help="JSON list of checks, as for the tool verify_commands; `-` reads standard input.",
)
@click.option(
    "--preset",
    "presets",
    multiple=True,
    metavar="NAME",
    help="pytest, ruff, mypy, npm, cargo or go, with the folders that it needs to read; may be "
    "repeated.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1, 16),
    default=1,
    metavar="N",
    help="Concurrent checks. [default: 1]",
)
@click.option(
    "--timeout-ms",
    type=click.IntRange(1, 3_600_000),
    metavar="N",
    help="Time limit of each check that has none of its own. [default: 60,000; that of a preset]",
)
@settings_options(*TOOL_KEYS)
@json_option("Print the report as JSON.")
def command(
    *,
    subject: str,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    file: str | None,
    presets: tuple[str, ...],
    parallel: int,
    timeout_ms: int | None,
    settings: Settings,
    as_json: bool,
) -> int:
    """Run the command; `_HELP` is its help text."""
    from ptc._cli._terminal import standard_error, standard_output

    chosen = _presets(presets, settings.root)
    checks = [*_parse(required, True), *_parse(optional, False), *_from_file(file)]
    if not checks and not chosen:
        chosen = _detected(settings.root)
    if timeout_ms is not None:
        checks = [{"timeout_ms": timeout_ms, **check} for check in checks]
        chosen = [replace(p, check=replace(p.check, timeout_ms=timeout_ms)) for p in chosen]
    checks += [_without_defaults(asdict(preset.check)) for preset in chosen]
    readable = list(dict.fromkeys(path for preset in chosen for path in preset.readable))
    session = open_session(_extend(settings, readable, checks))
    if session.knows_all_tools:
        require_tool(_TOOL, session.tool_names())
    errors = standard_error()
    if readable:
        errors.line(f"commands may also read: {', '.join(map(str, readable))}")
    arguments = {
        "subject": subject.strip() or settings.root.resolve().name or "/",
        "checks": checks,
        "parallel": parallel > 1,
        "max_concurrency": parallel,
    }
    verification = Verification(session, errors, arguments, quiet=as_json)
    return _report(verification.run(), verification, standard_output(), errors, as_json=as_json)


# --- checks -------------------------------------------------------------------------------------


def _presets(names: Sequence[str], root: Path) -> list[Preset]:
    from ._presets import preset

    return [preset(name, root) for name in dict.fromkeys(names)]


def _detected(root: Path) -> list[Preset]:
    from ._presets import PRESETS, detect_checks

    found = detect_checks(root)
    if not found:
        msg = (
            f"{root.resolve()} has no file that calls for a check. Pass --check ID=COMMAND, or "
            f"--preset with one of {', '.join(PRESETS)}"
        )
        raise UsageError(msg)
    return found


def _parse(pairs: Sequence[str], required: bool) -> list[dict[str, Any]]:
    found = []
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.strip() or not text.strip():
            option = "--check" if required else "--optional"
            msg = f"{option} {pair!r:.80}: write ID=COMMAND, as in unit='pytest -q'"
            raise UsageError(msg)
        found.append({"id": name.strip(), "command": text, "required": required})
    return found


def _from_file(file: str | None) -> list[dict[str, Any]]:
    if file is None:
        return []
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        checks = json.loads(data)
    except (OSError, ValueError) as error:
        raise UsageError(f"--checks {file}: cannot be read as JSON: {error}") from None
    if not isinstance(checks, list) or not all(isinstance(check, dict) for check in checks):
        msg = f'--checks {file}: must be a list such as [{{"id": "unit", "command": "pytest -q"}}]'
        raise UsageError(msg)
    return checks


def _without_defaults(check: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in check.items() if value is not None}


def _extend(
    settings: Settings, readable: Sequence[Path], checks: Sequence[Mapping[str, Any]]
) -> Settings:
    """Return settings that let commands read `readable`, and a call last as long as its checks."""
    rows = dict(settings.by_name)
    if readable:
        paths = [*settings.paths("builtin.readable"), *readable]
        rows["builtin.readable"] = replace(
            rows["builtin.readable"], value=list(map(str, paths)), origin="command line", file=None
        )
    if not settings.is_set("limits.tool_timeout_ms") and not settings.set_values("ceiling"):
        times = [check.get("timeout_ms", _DEFAULT_TIMEOUT_MS) for check in checks]
        total = sum(ms for ms in times if isinstance(ms, int)) + _SLACK_MS
        rows["limits.tool_timeout_ms"] = replace(
            rows["limits.tool_timeout_ms"],
            value=min(max(total, 600_000), _MAX_CALL_MS),
            origin="arguments",
        )
    return replace(settings, by_name=rows)


# --- the call -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Verification:
    """One call of the tool, which stops cleanly on a signal."""

    session: Session
    stream: Stream
    arguments: dict[str, Any]
    quiet: bool
    signal: signal.Signals | None = None
    """Signal that stopped it."""
    _scope: anyio.CancelScope | None = None
    _started: list[str] = field(default_factory=list)
    _finished: dict[str, CheckResult] = field(default_factory=dict)
    _began: float = field(default_factory=time.perf_counter)

    def run(self) -> ToolResult | None:
        """Call the tool; None if a signal stopped it."""
        import anyio

        return anyio.run(self.execute)

    async def execute(self) -> ToolResult | None:
        """Open the session and call the tool; None if it was stopped."""
        import anyio

        from ptc._cli._progress import Progress

        result: ToolResult | None = None
        # Raised outside the group, which would wrap it.
        failure: PtcError | None = None
        progress = Progress(self.stream, quiet=self.quiet)
        async with self.session:
            require_tool(_TOOL, self.session.tool_names())
            async with anyio.create_task_group() as group:
                self._scope = anyio.CancelScope()
                group.start_soon(self._watch)
                group.start_soon(progress.follow)
                # Let the watcher install its handler first.
                await anyio.lowlevel.checkpoint()
                try:
                    with self._scope:
                        result = await self._call(progress)
                except PtcError as error:
                    failure = error
                finally:
                    progress.close()
                    group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return result

    async def _call(self, progress: Progress) -> ToolResult | None:
        from ptc import RunEvent, ToolResult

        progress.on_event(RunEvent("started", None))
        async with self.session.stream(_TOOL, self.arguments) as events:
            async for event in events:
                if event.kind == "finished":
                    return event.value if isinstance(event.value, ToolResult) else None
                self._on_event(event, progress)
        return None

    def _on_event(self, event: RunEvent, progress: Progress) -> None:
        from ._checks import CheckResult
        from ._report import describe

        if event.call is None:
            return
        if event.call.tool != _TOOL:
            progress.on_event(event)
        elif event.kind == "progress":
            # Shown as that of a script: "1 of 3: unit: passed".
            progress.on_event(replace(event, call=None))
        elif event.kind == "log":
            self._started.append(event.value["data"]["id"])
        elif event.kind == "tool_output_delta":
            result = CheckResult(**event.value)
            self._finished[result.id] = result
            if not self.quiet and not self.stream.is_terminal:
                self.stream.line(describe(result))

    async def _watch(self) -> None:
        """Stop at the first signal. A second one reaches Python's own handler."""
        from ptc._core._signals import receive_signals

        handled = stop_signals()
        if not handled:
            return
        with receive_signals(*handled) as signals:
            async for number in signals:
                self.signal = number
                break
        self.stop()

    def stop(self) -> None:
        """Kill the running command, and start no other."""
        if self._scope is not None:
            self._scope.cancel()

    @property
    def finished_count(self) -> int:
        """Number of finished checks."""
        return len(self._finished)

    def interrupted_report(self) -> VerificationReport:
        """Return the report of what finished before the signal."""
        from ._checks import Check, CheckResult, summarize
        from ._verify import parse_checks

        results = []
        for job in parse_checks([Check(**check) for check in self.arguments["checks"]]):
            check = job.check
            started = check.id in self._started
            unfinished = CheckResult(
                id=check.id,
                kind=check.kind,
                description=check.description,
                command=job.argv,
                required=check.required,
                status="killed" if started else "not_started",
                expect_exit=check.expect_exit,
                reason="it was interrupted" + (" and killed" if started else " before it started"),
            )
            results.append(self._finished.get(check.id, unfinished))
        duration_ms = (time.perf_counter() - self._began) * 1000
        return summarize(self.arguments["subject"], results, duration_ms)


# --- the report ---------------------------------------------------------------------------------

_STYLES = {"passed": "green", "warning": "yellow", "failed": "bold red", "plain": ""}


def _report(
    result: ToolResult | None,
    verification: Verification,
    output: Stream,
    errors: Stream,
    *,
    as_json: bool,
) -> int:
    """Print the report, and return the exit status."""
    from ._checks import VerificationReport
    from ._report import report_lines

    if result is not None and result.error is not None:
        errors.line(result.text, "bold red")
        return USAGE if result.error.code == "invalid_arguments" else FAILED
    report = verification.interrupted_report() if result is None else result.value
    if not isinstance(report, VerificationReport):
        raise UsageError(f"the tool {_TOOL} of this session is not that of ptc_tools")
    if as_json:
        output.json(asdict(report))
    else:
        for text, tone in report_lines(report):
            output.line(text, _STYLES[tone])
    if verification.signal is not None and result is None:
        finished = verification.finished_count
        errors.line(f"interrupted: {finished} of {len(report.checks)} checks had finished")
        return TERMINATED if verification.signal == signal.SIGTERM else INTERRUPTED
    return COMPLETED if report.status == "passed" else FAILED
