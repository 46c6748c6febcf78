"""Paths of the deployment files, and the command that starts a process as their container does."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

REPOSITORY = Path(__file__).parents[2]
DEPLOYMENT = REPOSITORY / "samples" / "deployment"
USER = 10001
"""The user of the image."""


@pytest.fixture
def in_container() -> list[str]:
    """Start of a command: the user and capabilities of a container, whoever runs the tests."""
    if os.getuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("apt-get install util-linux: a test run by root needs setpriv")
    # A virtual environment of root may be unreadable to others. To read is all that it may do.
    kept = "-all,+dac_read_search"
    return [
        *("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups"),
        *("--no-new-privs", "--bounding-set", kept, "--inh-caps", kept, "--ambient-caps", kept),
    ]


@pytest.fixture
def under_profile(in_container: list[str]) -> list[str]:
    """Start of a command in the container, which takes a profile before the command."""
    pytest.importorskip("pyseccomp", reason="pip install pyseccomp, which needs libseccomp")
    script = Path(__file__).with_name("under_profile.py")
    return [*in_container, sys.executable, str(script)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder of the container's user. That of pytest is unreadable to other users."""
    with TemporaryDirectory(prefix="ptc-container-") as made:
        if os.getuid() == 0:
            os.chown(made, USER, USER)
        yield Path(made)
