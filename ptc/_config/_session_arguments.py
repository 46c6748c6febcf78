"""Arguments of a session from its settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from .._calls._scope import AfterSideEffect
from .._core._arguments import mapping_of, path_of
from .._records._limits import CEILING, Limits
from .._records._result import RunEvent
from .._runs._announce import OnApproval
from .._telemetry._settings import TelemetryOption
from .._tools._allow_text import parse_allow
from .._tools._approval import Approver
from .._tools._toolset import Toolset, installed_toolset
from ..artifacts._store import ArtifactStore
from ..errors import UsageError
from ._file import PROJECT
from ._settings import Settings, load_settings
from ._tool_files import load_tools, possible_files
from ._tool_servers import load_tool_servers

__all__ = ["ApplicationOptions", "configured_arguments", "read_allow", "session_arguments"]

_BUILTIN = ("builtin", "compat")
"""Toolsets that the table ``builtin`` configures."""
_SKILLS = "skills"
"""Toolset that the key of this name configures and adds."""


class ApplicationOptions(TypedDict, total=False):
    """Arguments of `Session` that an application passes beside its configuration."""

    workers: int
    max_concurrent_runs: int
    artifacts: str | Path | ArtifactStore | None
    approver: Approver | None
    on_approval: OnApproval | None
    after_side_effect: AfterSideEffect | None
    approvals_expire_ms: int | None
    retention_days: int | None
    retention_runs: int | None
    retention_bytes: int | None
    max_attempts: int
    store_source: bool
    on_event: Callable[[RunEvent], None] | None
    record_direct_calls: bool
    programs: str | Path | None
    telemetry: TelemetryOption


def configured_arguments(
    root: str | Path | None, config: str | Path | None, overrides: Mapping[str, Any] | None
) -> tuple[dict[str, Any], Callable[[UsageError], UsageError]]:
    """Return the arguments of `Session` from the configuration of a folder.

    Returns:
        The arguments, and the function that names the source of a value in an error about it.

    Raises:
        UsageError: If a value is wrong.
        SetupError: If an installed toolset cannot be loaded.
    """
    values = mapping_of("settings", overrides, "a dict by name of key")
    if root is not None:
        values["root"] = str(path_of("root", root))
    if config is not None:
        config = path_of("config", config)
    settings = load_settings(values, config=config, origin="arguments")
    return session_arguments(settings), settings.explain


def session_arguments(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the arguments of `Session`. This executes the files of tools that the settings name.

    Raises:
        UsageError: If a value is wrong; the message has its source.
        SetupError: If an installed toolset cannot be loaded.
    """
    tools: list[Any] = _installed(settings)
    own = settings.by_name["tools"]
    protected = settings.paths("protected")
    # A pyproject.toml is not protected: its table counts only while it is trusted.
    if settings.file is not None and settings.file.name != PROJECT:
        protected.append(settings.file)
    for text in own.value:
        folder = own.folder
        loaded = load_tools(
            text, folder, subject=own.subject, named=own.origin in ("command line", "arguments")
        )
        tools += loaded.sources
        protected += [*loaded.files, *possible_files(text, folder)]
    variables = os.environ if environment is None else environment
    tools += load_tool_servers(settings, variables)
    journal = settings.journal()
    limits, ceiling = _limits(settings)
    optional = {
        "artifacts": settings.artifacts(),
        "programs": settings.path("programs"),
        "workers": settings["workers"],
        "max_concurrent_runs": settings["max_concurrent_runs"],
    }
    return {
        **{name: value for name, value in optional.items() if settings.is_set(name)},
        "root": settings.root,
        "tools": tools,
        "toolsets": (),
        "allowed_tools": read_allow(settings),
        "limits": limits,
        "ceiling": ceiling,
        "engine": settings["engine"],
        "isolation": settings["isolation"],
        "packages": settings["packages"],
        "reuse_workers": settings["reuse_workers"],
        "unprotected": settings["unprotected"],
        "protected": protected,
        "env": _values(settings, variables),
        "journal": None if journal is None else str(journal),
        "journal_in_root": settings["journal_in_root"],
        "approvals_expire_ms": settings["approvals_expire_ms"],
        "retention_days": settings["retention_days"],
        "retention_runs": settings["retention_runs"],
        "retention_bytes": settings["retention_bytes"],
        "max_attempts": settings["max_attempts"],
        "store_source": settings["store_source"],
        "webhook": settings["webhook"],
        "model": settings["model"],
        "agents": settings.paths("agents"),
        "untrusted": settings["untrusted"],
        # Unset: the application decides by configuring a provider.
        "telemetry": settings["telemetry"] if settings.is_set("telemetry") else None,
    }


def read_allow(settings: Settings) -> list[Any] | None:
    """Parse the allow-list; None: all tools without a side effect.

    Raises:
        UsageError: If a rule is malformed.
    """
    setting = settings.by_name["allow"]
    if setting.value is None:
        return None
    try:
        return [parse_allow(text) for text in setting.value]
    except UsageError as error:
        raise UsageError(f"{setting.subject}: {error}") from None


def _installed(settings: Settings) -> list[Toolset]:
    setting = settings.by_name["toolsets"]
    options = settings.set_values("builtin")
    if "readable" in options:
        options["readable"] = settings.paths("builtin.readable")
    try:
        found = [
            installed_toolset(name, **(options if name in _BUILTIN else {}))
            for name in setting.value
            if name != _SKILLS
        ]
    except UsageError as error:
        if setting.origin in ("default", "command line"):
            raise
        raise UsageError(f"{setting.subject}: {error}") from None
    return [*found, *_skills(settings)]


def _skills(settings: Settings) -> list[Toolset]:
    if not settings["skills"]:
        setting = settings.by_name["toolsets"]
        if _SKILLS in setting.value:
            msg = f"{setting.subject}: the toolset {_SKILLS!r} has no folder; set the key `skills`"
            raise UsageError(msg)
        return []
    subject, folders = settings.by_name["skills"].subject, settings.paths("skills")
    for folder in folders:
        if folder.resolve() == settings.root.resolve():
            msg = f"{subject}: {folder} is the root itself, and tools must not change skills"
            raise UsageError(f"{msg}; put them into a folder in it")
    try:
        return [installed_toolset(_SKILLS, folders=folders)]
    except UsageError as error:
        raise UsageError(f"{subject}: {error}") from None


def _limits(settings: Settings) -> tuple[Limits, Limits | None]:
    own, highest = settings.set_values("limits"), settings.set_values("ceiling")
    if not highest:
        return Limits(**own), None
    ceiling = replace(CEILING, **highest)
    defaults = Limits()
    # A ceiling alone lowers the defaults; a limit above it is an error.
    lowered = {
        name: min(getattr(defaults, name), value)
        for name, value in highest.items()
        if name != "max_calls_by_tool"
    }
    return Limits(**{**lowered, **own}), ceiling.raise_to(_only(own, highest, ceiling))


def _only(own: Mapping[str, Any], highest: Mapping[str, Any], ceiling: Limits) -> Limits:
    """Return limits that raise the ceiling where it is not set, as for a session without one."""
    free = {name: value for name, value in own.items() if name not in highest}
    return replace(ceiling, **free)


def _values(settings: Settings, environment: Mapping[str, str]) -> dict[str, str] | None:
    """Read the values of tools from the variables that the settings name."""
    variables: Mapping[str, str] = settings["env"]
    return {name: environment[v] for name, v in variables.items() if v in environment} or None
