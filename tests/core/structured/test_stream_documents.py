"""Random documents of random schemas, streamed at every prefix."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.streams import run


def test_documents_stream_without_a_wrong_partial() -> None:
    assert run(1, 6).partials > 100


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_prefix_of_400_documents_is_right(capsys: pytest.CaptureFixture[str]) -> None:
    seed = random.randrange(10**6)
    with capsys.disabled():
        print(f"\n  streams of seed {seed}")  # noqa: T201  # repeats the run
    assert run(1, 200).documents == 200
    assert run(seed, 200).documents == 200
