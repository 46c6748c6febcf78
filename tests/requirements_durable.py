"""Requirements of recording, resuming, approvals and rollback: id -> claim and tests.

``tests/requirements.md`` explains the ids. `NOT_TAKEN` has the requirements that ptc does not
adopt, with the reason.
"""

from __future__ import annotations

__all__ = ["DURABLE", "NOT_TAKEN"]

_RECORD, _RESUME = "core/calls/test_recorder.py::", "core/runs/test_resume.py::"
_JOURNAL, _ROLLBACK = "core/journal/test_journal.py::", "core/runs/test_rollback.py::"
_DISPATCH, _CLI = "core/calls/test_dispatch.py::", "cli/test_history.py::"

DURABLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "SM-07": (
        "revert requires a side effect, and receives the record of the call",
        (
            _ROLLBACK + "test_a_revert_is_for_a_side_effect",
            _ROLLBACK + "test_effects_are_undone_newest_first_with_what_was_recorded",
        ),
    ),
    "SM-22": (
        "a start before the call and an end after it, with tool, arguments, side effect and key",
        (_RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",),
    ),
    "SM-23": (
        "a failure to record the start blocks the call; a failure to record the end does not",
        (
            _RESUME + "test_a_start_that_cannot_be_written_blocks_the_effect",
            _RECORD + "test_an_end_that_cannot_be_written_is_no_failure_of_the_tool",
            _RESUME + "test_a_run_whose_record_is_not_whole_says_so",
        ),
    ),
    "SM-24": (
        "reads and idempotent effects are repeated automatically, others not; reads do not warn",
        (
            _RESUME + "test_a_run_that_was_cut_off_goes_on_where_it_was",
            _RESUME + "test_a_resumed_run_comes_to_what_it_would_have_come_to",
            _RESUME + "test_what_is_done_with_a_call_whose_end_is_not_known",
            _RECORD + "test_a_warning_lists_what_was_done_and_no_more_than_five",
        ),
    ),
    "SM-30": (
        "a retry warns about earlier effects, including idempotent ones, unless reverted",
        (
            _RESUME + "test_a_retry_is_told_what_was_done_already",
            _RECORD + "test_a_warning_lists_what_was_done_and_no_more_than_five",
            _ROLLBACK + "test_a_run_that_is_rolled_back_is_over",
        ),
    ),
    "SM-31": (
        "the warning says what happened, advises against blind repetition, and lists the calls",
        (_RESUME + "test_a_retry_is_told_what_was_done_already",),
    ),
    "SM-33": (
        "at most five calls are listed, with a count of the rest; no calls, no warning",
        (_RECORD + "test_a_warning_lists_what_was_done_and_no_more_than_five",),
    ),
    "SM-35": (
        "a call keeps its key when it is repeated on resume",
        (
            _RESUME + "test_a_resumed_run_comes_to_what_it_would_have_come_to",
            _RECORD + "test_a_tool_that_hands_its_key_on_is_called_again_by_itself",
        ),
    ),
    "SM-36": (
        "an unsafe call with unknown outcome waits for a decision and is not repeated",
        (
            _RESUME + "test_what_is_done_with_a_call_whose_end_is_not_known",
            _RESUME + "test_a_tool_that_is_tried_again_does_not_repeat_what_must_not_be",
        ),
    ),
    "SM-38": (
        "the decision to repeat a call repeats it once",
        (_RESUME + "test_a_decision_to_make_a_call_again_is_used_once",),
    ),
    "SM-39": (
        "a decision against repeating is final",
        (
            _RESUME + "test_what_is_done_with_a_call_whose_end_is_not_known",
            _RESUME + "test_the_first_decision_counts",
        ),
    ),
    "SM-40": (
        "a repeated call that is interrupted again needs another decision",
        (_RESUME + "test_a_decision_to_make_a_call_again_is_used_once",),
    ),
    "SM-41": (
        "idempotent tools and tools that pass their key on are repeated, with the same key",
        (
            _RESUME + "test_a_resumed_run_comes_to_what_it_would_have_come_to",
            _RECORD + "test_a_tool_that_hands_its_key_on_is_called_again_by_itself",
        ),
    ),
    "SM-42": (
        "use of a key is declared, not guessed from the number of parameters",
        (
            _DISPATCH
            + "test_a_tool_that_must_not_be_repeated_cannot_be_retried_unless_it_uses_its_key",
            _RECORD + "test_a_tool_that_hands_its_key_on_is_called_again_by_itself",
        ),
    ),
    "SM-43": (
        "hosts killed at every step: no lost result, no repeated effect, open calls are unknown",
        (
            "core/runs/test_durable.py::test_runs_of_killed_hosts_come_to_what_they_would_have_come_to",
            "core/runs/test_durable.py::test_what_a_server_was_asked_twice_or_never_is_found",
            "core/calls/test_effect_trees.py::"
            "test_interrupted_trees_have_each_effect_once_and_the_values_of_whole_runs",
            "core/runs/test_resume_nested.py::test_effect_below_a_call_without_effect_happens_once",
        ),
    ),
    "SM-44": (
        "a host that lost its lease writes nothing and does nothing, however late it resumes",
        (
            _JOURNAL + "test_who_lost_a_run_can_write_nothing_more",
            _RESUME + "test_a_host_that_was_stopped_and_wakes_up_does_nothing_more",
        ),
    ),
    "SM-45": (
        "a sync function that cannot be stopped gets a grace period, then is unknown",
        (
            "core/runs/test_run.py::test_a_thread_that_cannot_be_stopped_does_not_hold_up_the_result",
        ),
    ),
    "SM-50": (
        "the journal has run, position, tool, arguments, outcome, times, status and error of calls",
        (
            _JOURNAL + "test_what_is_appended_is_read_back_in_order",
            _RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",
        ),
    ),
    "SM-51": (
        "it has side effect, key and revert progress, also of failed and skipped calls",
        (
            _RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",
            _ROLLBACK + "test_a_revert_that_fails_stops_what_is_older",
            _ROLLBACK + "test_a_call_that_is_skipped_stays_skipped",
        ),
    ),
    "SM-52": (
        "calls are numbered from 1 in the order of their start, including parallel ones",
        (_RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",),
    ),
    "SM-53": (
        "one vocabulary: started, succeeded, failed, unknown, not_started",
        (_RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",),
    ),
    "SM-54": (
        "oversized arguments become size, digest and preview; an oversized result is an error",
        (
            _RESUME + "test_what_a_write_is_given_is_recorded_bounded",
            _ROLLBACK + "test_a_result_that_was_too_large_is_told_to_be_lost",
        ),
    ),
    "SM-55": (
        "file content is recorded as size and SHA-256, never as text",
        (
            _RECORD + "test_what_files_are_given_is_nowhere_in_the_journal",
            _RESUME + "test_what_waits_for_an_approval_shows_no_content_and_no_secret",
        ),
    ),
    "SM-56": (
        "one row per call, including rejected calls",
        (
            _RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",
            _RECORD + "test_what_files_are_given_is_nowhere_in_the_journal",
        ),
    ),
    "SM-57": (
        "a failure with any content is recorded: reference cycles, invalid text",
        (_RECORD + "test_a_failure_is_recorded_whatever_is_in_it",),
    ),
    "CG-20": (
        "approval is a bool or a predicate of validated arguments, and required if that fails",
        (
            _DISPATCH
            + "test_a_gate_that_cannot_tell_means_yes_and_without_an_approver_no_call_is_made",
            _DISPATCH + "test_a_gated_call_waits_for_a_decision_about_the_validated_arguments",
        ),
    ),
    "CG-21": (
        "the prompt may use the arguments, or a default; a failing prompt loses its text only",
        (
            _DISPATCH + "test_a_gated_call_waits_for_a_decision_about_the_validated_arguments",
            _RECORD + "test_an_approved_call_that_fails_has_ended_as_any_other",
        ),
    ),
    "CG-22": (
        "a call that requires approval is not made; the run pauses and lists pending calls",
        (
            _RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",
            "conformance/test_calls.py::test_what_waits_and_what_was_decided_are_told_without_content_and_secrets",
        ),
    ),
    "CG-23": (
        "pending calls have tool, arguments, prompt; decisions have approver, reason, time, details",
        (
            _RECORD + "test_an_approved_call_that_fails_has_ended_as_any_other",
            _RESUME + "test_what_an_approver_decided_is_not_asked_again_on_resume",
            _JOURNAL + "test_the_first_decision_counts_and_outlives_the_process",
        ),
    ),
    "CG-24": (
        "gathered calls wait for approval together; calls without approval proceed",
        (_RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",),
    ),
    "CG-25": (
        "a decision names its call; one about no call, or several, is rejected with the choices",
        (
            _RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",
            _RESUME + "test_the_first_decision_counts",
        ),
    ),
    "CG-26": (
        "the first decision counts, also across processes, and also if an approver made it",
        (
            _RESUME + "test_the_first_decision_counts",
            _JOURNAL + "test_the_first_decision_counts_and_outlives_the_process",
            _RESUME + "test_what_an_approver_decided_is_not_asked_again_on_resume",
        ),
    ),
    "CG-27": (
        "an approved call runs on resume, and nothing is repeated",
        (
            _RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",
            _RESUME + "test_a_model_is_not_asked_again_for_what_it_answered_before",
            _CLI + "test_a_paused_run_is_listed_decided_and_resumed",
            "conformance/test_calls.py::test_what_waits_and_what_was_decided_are_told_without_content_and_secrets",
        ),
    ),
    "CG-28": (
        "edited arguments are validated; invalid edits decide nothing",
        (
            _RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",
            _DISPATCH + "test_an_approver_that_fails_or_edits_wrongly_has_not_approved",
            _CLI + "test_a_paused_run_is_listed_decided_and_resumed",
        ),
    ),
    "CG-29": (
        "a rejection is an error that the script can catch, with approver and reason",
        (_RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",),
    ),
    "CG-30": (
        "a run resumed without a decision pauses again with the same calls",
        (_RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",),
    ),
    "CG-31": (
        "a paused run resumes from a copy of its journal, elsewhere and in another process",
        (
            _RESUME + "test_a_run_resumes_from_a_copy_of_the_journal_elsewhere",
            _JOURNAL + "test_a_copy_of_the_file_is_a_journal",
        ),
    ),
    "CG-32": (
        "an approved call that fails is finished, and nothing is pending",
        (_RECORD + "test_an_approved_call_that_fails_has_ended_as_any_other",),
    ),
    "CG-33": (
        "a decision applies to one call: an equal call needs another decision",
        (
            _RECORD + "test_an_approved_call_that_fails_has_ended_as_any_other",
            _RESUME + "test_a_call_of_a_tool_waits_for_its_approval_and_is_made_once",
        ),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "SM-32": (
        "a line about registered reverts: reverted effects are not listed; remaining effects "
        "are listed whether or not a revert exists"
    ),
    "SM-34": (
        "putting the warning into a conversation: a run has none; it is the first warning of the "
        "result, for the agent that talks to the model"
    ),
    "SM-37": (
        "one fingerprint of all unsafe calls of an attempt: each call has its own decision here, "
        "bound to the digest of its tool and arguments"
    ),
}
