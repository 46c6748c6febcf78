"""Identity of nested calls: `NestedCalls` by itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ptc._calls._nested import NestedCalls
from ptc._records._result import CallStatus
from ptc.journal._journal import CallEnd, CallRow, PendingRow, RunRecord, RunRow

RUN = RunRow("r", "", "s.py", b"{}", b"{}", 1, 0.0, 1)


def row(
    path: str,
    key: str,
    status: CallStatus | None = "succeeded",
    *,
    effect: bool = False,
    making: str = "",
) -> CallRow:
    start = CallRow(path, "t", b"{}", key, effect, None, 1, 1, making)
    if status is None:
        return start
    return start._replace(end=CallEnd(status, status == "succeeded", b"[true,false,1]", 2, None))


def nested_calls_of(*rows: CallRow, pending: tuple[PendingRow, ...] = ()) -> NestedCalls:
    return NestedCalls(RunRecord(RUN, rows, (), pending, ()))


keys = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)


@given(keys, keys, st.data())
def test_recorded_outcomes_answer_the_same_calls_in_any_order(
    before: list[str], now: list[str], data: st.DataObject
) -> None:
    statuses: dict[str, Any] = {
        key: data.draw(st.sampled_from(["succeeded", "failed", None])) for key in before
    }
    rows = {key: row(f"1.{n}", key, statuses[key]) for n, key in enumerate(before, 1)}
    calls = nested_calls_of(*rows.values())
    for key in now:
        path = calls.assign_path(key, "1")
        assert calls.find(path) == rows.get(key)
        if key in rows:
            assert path == rows[key].path


@given(keys, st.lists(st.sampled_from("abcdefghij"), max_size=30))
def test_paths_belong_to_one_execution_each(before: list[str], now: list[str]) -> None:
    rows = [row(f"1.{n}", key) for n, key in enumerate(before, 1)]
    calls = nested_calls_of(*rows)
    seen = set()
    for key in now:
        path = calls.assign_path(key, "1")
        answer = calls.find(path)
        assert path not in seen
        if answer is None:
            assert path not in {r.path for r in rows}
            calls.note_end(path, CallEnd("succeeded", True, b"", 3, None), repeatable=True)
        else:
            assert answer.key == key
            calls.note_return(path, repeatable=True)
        seen.add(path)


def test_outcome_of_a_non_repeatable_call_is_always_replayed() -> None:
    calls = nested_calls_of(row("1.1", "a", effect=True), row("1.2", "b", "failed", effect=True))
    for _ in range(3):
        assert calls.assign_path("a", "1") == "1.1"
        calls.note_return("1.1", repeatable=False)
        assert calls.find("1.1") is not None
    assert calls.assign_path("b", "1") == "1.2"
    calls.note_return("1.2", repeatable=False)
    assert calls.assign_path("b", "1") == "1.3", "it was not done, and is made anew"


def test_suspended_call_keeps_its_path() -> None:
    waiting = PendingRow("1.4", "approval", "ask", "f", b'{"key":"a"}', 1)
    calls = nested_calls_of(pending=(waiting,))
    assert calls.assign_path("b", "1") == "1.5"
    assert calls.assign_path("a", "1") == "1.4"
    assert calls.find("1.4") is None


def test_call_without_a_key_always_gets_a_new_path() -> None:
    calls = nested_calls_of(row("1.1", ""))
    assert calls.assign_path(None, "1") == "1.2"
    assert calls.assign_path(None, "1") == "1.3"


def test_repeated_execution_is_a_sibling_of_the_recorded_one() -> None:
    calls = nested_calls_of(row("1.1.1", "a", "failed"), row("1.1", "p"), row("2.1", "q", None))
    assert calls.assign_path("a", "2.1") == "1.1.1"
    calls.note_return("1.1.1", repeatable=True)
    assert calls.assign_path("a", "2.1") == "1.1.2"
    assert calls.assign_path("c", "2.1") == "2.1.1"


def test_unfinished_computation_of_a_result_is_continued() -> None:
    calls = nested_calls_of(
        row("1.1", "a", making="d 0"),
        row("2.1", "b", None, making="d 1"),
        row("3", "", making="e 4"),
    )
    assert calls.current_making("d") == "d 1"
    assert calls.current_making("d") == "d 1"
    calls.finish_making("d")
    assert calls.current_making("d") == "d 2"
    assert calls.current_making("e") == "e 5"
    assert calls.current_making("f") == "f 0"
    calls.suspend_making("f")
    assert calls.current_making("f") is None


def test_unclaimed_effects_are_returned_once() -> None:
    calls = nested_calls_of(
        row("1.1", "a", effect=True),
        row("1.2", "b", "failed", effect=True),
        row("1.3", "c"),
        row("1.3.1", "d", effect=True),
        row("1.4", "e", None, effect=True),
        row("2.1", "f", effect=True),
    )
    calls.assign_path("a", "1")
    calls.assign_path("c", "1")
    calls.note_return("1.3", repeatable=True)
    assert [found.path for found in calls.take_unclaimed("1")] == ["1.4"]
    assert calls.take_unclaimed("1") == []
