"""Fixtures for tests against the SDKs of agent frameworks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet_frameworks() -> Iterator[None]:
    """Warnings of frameworks about themselves are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
