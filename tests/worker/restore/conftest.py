"""Tests of restored workers: on one event loop, since their state does not depend on the host's."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Return the event loop of the tests."""
    return str(request.param)
