"""Git repositories for tests, independent of the user's configuration."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["GIT", "git_in", "repository"]

GIT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_EDITOR": "true",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "protocol.file.allow",
    "GIT_CONFIG_VALUE_1": "always",
}


def git_in(folder: Path, *arguments: str, check: bool = True) -> None:
    """Run git without the configuration of a user."""
    subprocess.run(["git", *arguments], cwd=folder, env=GIT, check=check, capture_output=True)


def repository(folder: Path) -> None:
    """Create a repository with one commit."""
    folder.mkdir(parents=True)
    git_in(folder, "init", "-q")
    (folder / "f").write_text("content\n")
    git_in(folder, "add", "f")
    git_in(folder, "commit", "-qm", "first")
