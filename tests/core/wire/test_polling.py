"""When either side of the wire stops polling before it sleeps."""

from __future__ import annotations

from ptc._wire._polling import PollScore


def polls(score: PollScore, waits: int, *, hit: bool) -> int:
    """Return how many of `waits` begin with a poll, each of which hits or misses."""
    count = 0
    for _ in range(waits):
        if score.pays():
            score.note(hit=hit)
            count += 1
    return count


def test_polling_continues_while_it_hits() -> None:
    assert polls(PollScore(), 100, hit=True) == 100


def test_polling_stops_after_three_misses_and_is_tried_from_time_to_time() -> None:
    score = PollScore()
    assert polls(score, 10, hit=False) == 3
    assert polls(score, 1_000, hit=False) <= 1_000 // 32 + 1


def test_polling_stops_if_it_misses_more_often_than_it_hits() -> None:
    score, taken = PollScore(), 0
    for wait in range(300):
        if score.pays():
            score.note(hit=wait % 3 == 0)
            taken += 1
    assert taken < 30


def test_polling_resumes_when_a_trial_hits() -> None:
    score = PollScore()
    polls(score, 10, hit=False)
    assert polls(score, 200, hit=True) > 150
