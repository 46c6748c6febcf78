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
            _ROLLBACK + "test_revert_is_accepted_only_for_side_effects",
            _ROLLBACK + "test_effects_are_reverted_newest_first_with_their_recorded_data",
        ),
    ),
    "SM-22": (
        "a start before the call and an end after it, with tool, arguments, side effect and key",
        (_RECORD + "test_call_is_recorded_before_and_after_its_execution",),
    ),
    "SM-23": (
        "a failure to record the start blocks the call; a failure to record the end does not",
        (
            _RESUME + "test_effect_is_blocked_if_its_start_cannot_be_recorded",
            _RECORD + "test_unrecordable_outcome_does_not_fail_the_call",
            _RESUME + "test_run_with_an_incomplete_record_carries_a_warning",
        ),
    ),
    "SM-24": (
        "reads and idempotent effects are repeated automatically, others not; reads do not warn",
        (
            _RESUME + "test_interrupted_run_resumes_at_the_interrupted_call",
            _RESUME + "test_resumed_run_has_the_result_of_an_uninterrupted_one",
            _RESUME + "test_recorded_decision_about_an_interrupted_call_is_used_on_resume",
            _RECORD + "test_warning_lists_at_most_five_completed_effects",
        ),
    ),
    "SM-30": (
        "a retry warns about earlier effects, including idempotent ones, unless reverted",
        (
            _RESUME + "test_retry_warns_of_completed_effects",
            _RECORD + "test_warning_lists_at_most_five_completed_effects",
            _ROLLBACK + "test_rolled_back_run_cannot_be_resumed_or_approved",
        ),
    ),
    "SM-31": (
        "the warning says what happened, advises against blind repetition, and lists the calls",
        (_RESUME + "test_retry_warns_of_completed_effects",),
    ),
    "SM-33": (
        "at most five calls are listed, with a count of the rest; no calls, no warning",
        (_RECORD + "test_warning_lists_at_most_five_completed_effects",),
    ),
    "SM-35": (
        "a call keeps its key when it is repeated on resume",
        (
            _RESUME + "test_resumed_run_has_the_result_of_an_uninterrupted_one",
            _RECORD + "test_tool_using_its_key_is_called_again_automatically_on_resume",
        ),
    ),
    "SM-36": (
        "an unsafe call with unknown outcome waits for a decision and is not repeated",
        (
            _RESUME + "test_recorded_decision_about_an_interrupted_call_is_used_on_resume",
            _RESUME + "test_retried_tool_does_not_repeat_non_repeatable_nested_calls",
        ),
    ),
    "SM-38": (
        "the decision to repeat a call repeats it once",
        (_RESUME + "test_decision_to_repeat_a_call_is_used_once",),
    ),
    "SM-39": (
        "a decision against repeating is final",
        (
            _RESUME + "test_recorded_decision_about_an_interrupted_call_is_used_on_resume",
            _RESUME + "test_first_decision_about_an_approval_is_final",
        ),
    ),
    "SM-40": (
        "a repeated call that is interrupted again needs another decision",
        (_RESUME + "test_decision_to_repeat_a_call_is_used_once",),
    ),
    "SM-41": (
        "idempotent tools and tools that pass their key on are repeated, with the same key",
        (
            _RESUME + "test_resumed_run_has_the_result_of_an_uninterrupted_one",
            _RECORD + "test_tool_using_its_key_is_called_again_automatically_on_resume",
        ),
    ),
    "SM-42": (
        "use of a key is declared, not guessed from the number of parameters",
        (
            _DISPATCH + "test_non_idempotent_tool_can_be_retried_only_with_its_key",
            _RECORD + "test_tool_using_its_key_is_called_again_automatically_on_resume",
        ),
    ),
    "SM-43": (
        "hosts killed at every step: no lost result, no repeated effect, open calls are unknown",
        (
            "core/runs/test_durable.py::test_interrupted_runs_end_like_uninterrupted_ones",
            "core/runs/test_durable.py::test_durability_check_detects_repeated_and_lost_effects",
            "core/calls/test_call_trees.py::"
            "test_interrupted_call_trees_have_each_effect_once_and_equal_values",
            "core/runs/test_resume_nested.py::test_effect_below_a_call_without_effect_happens_once",
        ),
    ),
    "SM-44": (
        "a host that lost its lease writes nothing and does nothing, however late it resumes",
        (
            _JOURNAL + "test_holder_of_a_lost_lease_cannot_write",
            _RESUME + "test_host_that_lost_its_lease_while_stopped_calls_no_tool",
        ),
    ),
    "SM-45": (
        "a sync function that cannot be stopped gets a grace period, then is unknown",
        ("core/runs/test_run.py::test_unstoppable_thread_does_not_delay_the_result",),
    ),
    "SM-50": (
        "the journal has run, position, tool, arguments, outcome, times, status and error of calls",
        (
            _JOURNAL + "test_appended_rows_are_read_back_in_order",
            _RECORD + "test_call_is_recorded_before_and_after_its_execution",
        ),
    ),
    "SM-51": (
        "it has side effect, key and revert progress, also of failed and skipped calls",
        (
            _RECORD + "test_call_is_recorded_before_and_after_its_execution",
            _ROLLBACK + "test_failed_revert_stops_the_reverts_of_older_calls",
            _ROLLBACK + "test_skipped_call_remains_skipped",
        ),
    ),
    "SM-52": (
        "calls are numbered from 1 in the order of their start, including parallel ones",
        (_RECORD + "test_call_is_recorded_before_and_after_its_execution",),
    ),
    "SM-53": (
        "one vocabulary: started, succeeded, failed, unknown, not_started",
        (_RECORD + "test_call_is_recorded_before_and_after_its_execution",),
    ),
    "SM-54": (
        "oversized arguments become size, digest and preview; an oversized result is an error",
        (
            _RESUME + "test_large_arguments_of_a_side_effect_are_recorded_truncated",
            _ROLLBACK + "test_revert_is_notified_that_a_large_result_was_not_recorded",
        ),
    ),
    "SM-55": (
        "file content is recorded as size and SHA-256, never as text",
        (
            _RECORD + "test_content_written_to_files_is_not_in_the_journal",
            _RESUME + "test_pending_approval_shows_no_unrecorded_content",
        ),
    ),
    "SM-56": (
        "one row per call, including rejected calls",
        (
            _RECORD + "test_call_is_recorded_before_and_after_its_execution",
            _RECORD + "test_content_written_to_files_is_not_in_the_journal",
        ),
    ),
    "SM-57": (
        "a failure with any content is recorded: reference cycles, invalid text",
        (_RECORD + "test_failure_with_unserializable_details_is_recorded",),
    ),
    "CG-20": (
        "approval is a bool or a predicate of validated arguments, and required if that fails",
        (
            _DISPATCH + "test_approval_predicate_fails_closed_without_an_approver",
            _DISPATCH + "test_approval_request_contains_the_validated_arguments",
        ),
    ),
    "CG-21": (
        "the prompt may use the arguments, or a default; a failing prompt loses its text only",
        (
            _DISPATCH + "test_approval_request_contains_the_validated_arguments",
            _RECORD + "test_approved_call_that_fails_is_recorded_as_failed",
        ),
    ),
    "CG-22": (
        "a call that requires approval is not made; the run pauses and lists pending calls",
        (
            _RESUME + "test_calls_requiring_approval_pause_the_run_until_decided",
            "conformance/test_calls.py::test_approval_events_contain_no_content_or_secrets",
        ),
    ),
    "CG-23": (
        "pending calls have tool, arguments, prompt; decisions approver, reason, time, details",
        (
            _RECORD + "test_approved_call_that_fails_is_recorded_as_failed",
            _RESUME + "test_decision_of_an_approver_is_replayed_on_resume",
            _JOURNAL + "test_first_decision_is_final_and_durable",
        ),
    ),
    "CG-24": (
        "gathered calls wait for approval together; calls without approval proceed",
        (_RESUME + "test_calls_requiring_approval_pause_the_run_until_decided",),
    ),
    "CG-25": (
        "a decision names its call; one about no call, or several, is rejected with the choices",
        (
            _RESUME + "test_calls_requiring_approval_pause_the_run_until_decided",
            _RESUME + "test_first_decision_about_an_approval_is_final",
        ),
    ),
    "CG-26": (
        "the first decision counts, also across processes, and also if an approver made it",
        (
            _RESUME + "test_first_decision_about_an_approval_is_final",
            _JOURNAL + "test_first_decision_is_final_and_durable",
            _RESUME + "test_decision_of_an_approver_is_replayed_on_resume",
        ),
    ),
    "CG-27": (
        "an approved call runs on resume, and nothing is repeated",
        (
            _RESUME + "test_calls_requiring_approval_pause_the_run_until_decided",
            _RESUME + "test_model_answer_is_replayed_on_resume",
            _CLI + "test_paused_run_is_listed_approved_and_resumed",
            "conformance/test_calls.py::test_approval_events_contain_no_content_or_secrets",
        ),
    ),
    "CG-28": (
        "edited arguments are validated; invalid edits decide nothing",
        (
            _RESUME + "test_calls_requiring_approval_pause_the_run_until_decided",
            _DISPATCH + "test_failing_or_invalid_approver_does_not_approve",
            _CLI + "test_paused_run_is_listed_approved_and_resumed",
        ),
    ),
    "CG-29": (
        "a rejection is an error that the script can catch, with approver and reason",
        (_RESUME + "test_calls_requiring_approval_pause_the_run_until_decided",),
    ),
    "CG-30": (
        "a run resumed without a decision pauses again with the same calls",
        (_RESUME + "test_calls_requiring_approval_pause_the_run_until_decided",),
    ),
    "CG-31": (
        "a paused run resumes from a copy of its journal, elsewhere and in another process",
        (
            _RESUME + "test_a_run_resumes_from_a_copy_of_the_journal_elsewhere",
            _JOURNAL + "test_copy_of_the_file_is_a_usable_journal",
        ),
    ),
    "CG-32": (
        "an approved call that fails is finished, and nothing is pending",
        (_RECORD + "test_approved_call_that_fails_is_recorded_as_failed",),
    ),
    "CG-33": (
        "a decision applies to one call: an equal call needs another decision",
        (
            _RECORD + "test_approved_call_that_fails_is_recorded_as_failed",
            _RESUME + "test_nested_calls_wait_for_approval_and_execute_once",
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
