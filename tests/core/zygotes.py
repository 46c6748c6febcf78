"""Zygotes whose program is another one, which starts the real one with a difference."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from ptc._workers import _spawn

__all__ = ["start_zygotes_through"]


def start_zygotes_through(monkeypatch: pytest.MonkeyPatch, entry: Path, *arguments: str) -> None:
    """Start every zygote as `entry` with `arguments`, followed by the real program and its own."""
    opened = _spawn._open_process

    def planted(*spawned: Any) -> Any:
        real = subprocess.Popen

        def started(command: list[str], **options: Any) -> Any:
            return real([*command[:4], str(entry), *arguments, *command[4:]], **options)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess, "Popen", started)
            return opened(*spawned)

    monkeypatch.setattr(_spawn, "_open_process", planted)
