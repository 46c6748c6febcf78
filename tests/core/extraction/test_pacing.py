"""Requests share one pace: rates, concurrency, and a backoff that all of them keep."""

from __future__ import annotations

from bisect import bisect_left

import anyio
import pytest

from ptc import ModelError
from ptc._extraction._pacing import Pace, Spacing, StoppedError, Throttle, Ticket
from ptc._extraction._spending import Budget
from ptc._facts import ModelUsage
from ptc.models._prices import Prices

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def refusal(retry_after: float | None = None, status: int = 429) -> ModelError:
    return ModelError("slow down", status=status, retryable=True, retry_after=retry_after)


@pytest.mark.parametrize("limit", [1, 7, 600])
def test_no_minute_exceeds_the_rate(limit: int) -> None:
    spacing, now, admitted = Spacing(limit), 0.0, []
    while now < 300:
        now += spacing.delay(now)
        spacing.take(now, 1)
        admitted.append(now)
    for first, start in enumerate(admitted):
        # A millisecond less: sums of floats end beside the minute.
        assert bisect_left(admitted, start + 59.999) - first <= limit


def test_estimate_of_tokens_is_corrected_afterwards() -> None:
    spacing = Spacing(6_000)
    spacing.take(0.0, 100)
    assert spacing.delay(0.0) == pytest.approx(1.0)
    spacing.correct(300)
    assert spacing.delay(0.0) == pytest.approx(4.0)
    spacing.correct(-400)
    assert spacing.delay(0.0) == 0.0


async def test_all_requests_wait_for_as_long_as_one_was_told() -> None:
    clock = Clock()
    pace = Pace(8, throttle=(throttle := Throttle(clock)))
    async with pace.admit(1, started=False) as ticket:
        assert pace.fail(refusal(30.0), ticket, 1) == 0.0
    assert throttle.delay() == pytest.approx(30.0)
    clock.now += 29.9
    assert throttle.delay() == pytest.approx(0.1)
    clock.now += 0.2
    assert throttle.delay() == 0.0
    assert pace.waited_s == pytest.approx(30.0)


async def test_refusals_of_one_round_reduce_concurrency_once_to_what_was_taken() -> None:
    clock = Clock()
    pace = Pace(100, throttle=(throttle := Throttle(clock)))
    tickets = [Ticket(clock.now, 1) for _ in range(8)]
    throttle.in_flight = 8
    for ticket in tickets[:3]:
        pace.fail(refusal(1.0), ticket, 1)
    assert throttle.limit == 4
    for _ in range(50):
        pace.succeed()
    assert throttle.limit == 5  # of 8 requests, 3 were refused
    clock.now += 60
    for _ in range(6):
        pace.succeed()
    assert throttle.limit == 6  # more is tried after a while


async def test_repeated_refusals_without_retry_after_wait_longer_each_time() -> None:
    clock = Clock()
    pace = Pace(8, throttle=(throttle := Throttle(clock)))
    waits = []
    for _ in range(9):
        pace.fail(refusal(), Ticket(clock.now, 1), 1)
        waits.append(throttle.delay())
        clock.now += waits[-1]
    assert waits == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 60, 60])


async def test_other_failures_delay_their_own_request_only() -> None:
    pace = Pace(8, throttle=(throttle := Throttle(Clock())))
    ticket = Ticket(100.0, 1)
    delays = [pace.fail(refusal(status=500), ticket, attempt) for attempt in (1, 2, 3)]
    for delay, most in zip(delays, (0.5, 1, 2), strict=True):
        assert most / 2 <= delay <= most
    assert throttle.delay() == 0.0


async def test_concurrency_is_never_exceeded_and_everybody_gets_a_turn() -> None:
    pace, most, done = Pace(3), 0, 0

    async def ask() -> None:
        nonlocal most, done
        async with pace.admit(1, started=False):
            for _ in range(10):
                most = max(most, pace.in_flight)
                await anyio.lowlevel.checkpoint()
        done += 1

    async with anyio.create_task_group() as group:
        for _ in range(30):
            group.start_soon(ask)
    assert (most, done) == (3, 30)


async def test_stop_wakes_waiting_requests_and_admits_those_with_an_earlier_answer() -> None:
    pace = Pace(1)
    stopped = 0

    async def ask() -> None:
        nonlocal stopped
        try:
            async with pace.admit(1, started=False):
                pass
        except StoppedError:
            stopped += 1

    with anyio.fail_after(5):
        async with pace.admit(1, started=False), anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            pace.stop()
        async with pace.admit(1, started=True):
            pass
    assert stopped == 5


async def test_extractions_of_one_model_share_waits_rates_and_limits() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    first = Pace(8, rpm=600, throttle=throttle)
    second = Pace(8, rpm=60, throttle=throttle)
    async with first.admit(1, started=False) as ticket:
        # The lower rate holds for both.
        assert throttle.delay() == pytest.approx(1.0)
        first.fail(refusal(30.0), ticket, 1)
    assert throttle.delay() == pytest.approx(30.0)
    assert (throttle.limit, first.waited_s, second.waited_s) == (4, 30.0, 30.0)
    second.close()
    clock.now += 31
    async with first.admit(1, started=False):
        assert throttle.delay() == pytest.approx(0.1)


async def test_stopped_extraction_does_not_delay_another_one() -> None:
    throttle = Throttle()
    first, second = Pace(1, throttle=throttle), Pace(1, throttle=throttle)
    ended = []

    async def ask(pace: Pace, name: str) -> None:
        try:
            async with pace.admit(1, started=False):
                ended.append(name)
        except StoppedError:
            ended.append(f"{name} stopped")

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group, first.admit(1, started=False):
            for _ in range(3):
                group.start_soon(ask, first, "first")
            await anyio.wait_all_tasks_blocked()
            # The slots of the other one are not used up by those that wait.
            await ask(second, "second")
            first.stop()
            await anyio.wait_all_tasks_blocked()
    assert ended == ["second", *["first stopped"] * 3]


def test_budget_reserves_what_is_in_flight() -> None:
    budget = Budget(Prices("p", "m", (1.0, 2.0)), max_cost=0.01)
    first = budget.estimate(1_000)
    assert first.cost == pytest.approx(0.002)
    assert [budget.reserve(first) for _ in range(5)] == [None] * 5
    assert "$0.01" in (budget.reserve(first) or "")
    for _ in range(5):
        usage = ModelUsage(1, 2_000, 10)
        budget.spend(usage)
        budget.release(first, usage)
    assert budget.cost == pytest.approx(5 * 0.00202)
    # Estimates follow the real usage.
    assert budget.estimate(1_000).tokens == pytest.approx(2_010)
    assert budget.reserve(first) is not None


def test_known_models_have_prices() -> None:
    from ptc.models._prices import find_prices

    pytest.importorskip("genai_prices", reason="pip install 'ptc-host[models]'")
    prices = find_prices("openai:gpt-4o", None)
    assert prices is not None
    assert prices.cost(ModelUsage(1, 1_000_000, 0)) > 0
    assert find_prices("scripted", None) is None
