"""Which test shows what is asked of recording, resuming, approvals and undoing: id -> claim, tests.

The ids are those of the behaviours that earlier systems documented for theirs; what is not taken
over is in `NOT_TAKEN`, with the reason. ``tests/test_requirements.py`` checks both ways.
"""

from __future__ import annotations

__all__ = ["DURABLE", "NOT_TAKEN"]

_RECORD, _RESUME = "core/calls/test_recorder.py::", "core/runs/test_resume.py::"
_JOURNAL, _ROLLBACK = "core/journal/test_journal.py::", "core/runs/test_rollback.py::"
_DISPATCH, _CLI = "core/calls/test_dispatch.py::", "cli/test_history.py::"

DURABLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "SM-07": (
        "revert is for a side effect, is refused else, and is told what is recorded of the call",
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
        "a start that cannot be written blocks the call; an end that cannot is no failure of it",
        (
            _RESUME + "test_a_start_that_cannot_be_written_blocks_the_effect",
            _RECORD + "test_an_end_that_cannot_be_written_is_no_failure_of_the_tool",
            _RESUME + "test_a_run_whose_record_is_not_whole_says_so",
        ),
    ),
    "SM-24": (
        "reads and idempotent effects are repeated by themselves, others not; no read is warned of",
        (
            _RESUME + "test_a_run_that_was_cut_off_goes_on_where_it_was",
            _RESUME + "test_a_resumed_run_comes_to_what_it_would_have_come_to",
            _RESUME + "test_what_is_done_with_a_call_whose_end_is_not_known",
            _RECORD + "test_a_warning_lists_what_was_done_and_no_more_than_five",
        ),
    ),
    "SM-30": (
        "a retry is warned by rows of earlier effects, idempotent ones too, unless undone",
        (
            _RESUME + "test_a_retry_is_told_what_was_done_already",
            _RECORD + "test_a_warning_lists_what_was_done_and_no_more_than_five",
            _ROLLBACK + "test_a_run_that_is_rolled_back_is_over",
        ),
    ),
    "SM-31": (
        "the warning says what happened, not to do it again blindly, and lists the calls",
        (_RESUME + "test_a_retry_is_told_what_was_done_already",),
    ),
    "SM-33": (
        "at most five calls are listed, then how many more; none is no warning",
        (_RECORD + "test_a_warning_lists_what_was_done_and_no_more_than_five",),
    ),
    "SM-35": (
        "a call has the same key when it is made again on resume",
        (
            _RESUME + "test_a_resumed_run_comes_to_what_it_would_have_come_to",
            _RECORD + "test_a_tool_that_hands_its_key_on_is_called_again_by_itself",
        ),
    ),
    "SM-36": (
        "an unsafe call whose end is not known waits for a decision and is not made",
        (
            _RESUME + "test_what_is_done_with_a_call_whose_end_is_not_known",
            _RESUME + "test_a_tool_that_is_tried_again_does_not_repeat_what_must_not_be",
        ),
    ),
    "SM-38": (
        "the decision to make it again makes it once",
        (_RESUME + "test_a_decision_to_make_a_call_again_is_used_once",),
    ),
    "SM-39": (
        "a decision against it is final: the call is not made, then or later",
        (
            _RESUME + "test_what_is_done_with_a_call_whose_end_is_not_known",
            _RESUME + "test_the_first_decision_counts",
        ),
    ),
    "SM-40": (
        "a call that was made again and cut off again needs another decision",
        (_RESUME + "test_a_decision_to_make_a_call_again_is_used_once",),
    ),
    "SM-41": (
        "idempotent tools and those that hand their key on are repeated, with the same key",
        (
            _RESUME + "test_a_resumed_run_comes_to_what_it_would_have_come_to",
            _RECORD + "test_a_tool_that_hands_its_key_on_is_called_again_by_itself",
        ),
    ),
    "SM-42": (
        "that a key is used is declared, not guessed from the number of parameters",
        (
            _DISPATCH
            + "test_a_tool_that_must_not_be_repeated_cannot_be_retried_unless_it_uses_its_key",
            _RECORD + "test_a_tool_that_hands_its_key_on_is_called_again_by_itself",
        ),
    ),
    "SM-43": (
        "hosts killed at every step: no lost result, no repeated effect, what is open is unknown",
        (
            "core/runs/test_durable.py::test_runs_of_killed_hosts_come_to_what_they_would_have_come_to",
            "core/runs/test_durable.py::test_what_a_server_was_asked_twice_or_never_is_found",
            "core/calls/test_effect_trees.py::"
            "test_interrupted_trees_have_each_effect_once_and_the_values_of_whole_runs",
            "core/runs/test_resume_nested.py::test_effect_below_a_call_without_effect_happens_once",
        ),
    ),
    "SM-44": (
        "who was taken over writes nothing and does nothing more, however late it wakes up",
        (
            _JOURNAL + "test_who_lost_a_run_can_write_nothing_more",
            _RESUME + "test_a_host_that_was_stopped_and_wakes_up_does_nothing_more",
        ),
    ),
    "SM-45": (
        "a plain function that cannot be stopped is waited for a moment and is then unknown",
        (
            "core/runs/test_run.py::test_a_thread_that_cannot_be_stopped_does_not_hold_up_the_result",
        ),
    ),
    "SM-50": (
        "run, place, tool, arguments, outcome, times, status and error of every call are kept",
        (
            _JOURNAL + "test_what_is_appended_is_read_back_in_order",
            _RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",
        ),
    ),
    "SM-51": (
        "side effect, key and how far its undoing is are kept, also of what failed or was skipped",
        (
            _RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",
            _ROLLBACK + "test_a_revert_that_fails_stops_what_is_older",
            _ROLLBACK + "test_a_call_that_is_skipped_stays_skipped",
        ),
    ),
    "SM-52": (
        "calls are numbered from 1 in the order they were made, parallel ones too",
        (_RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",),
    ),
    "SM-53": (
        "one vocabulary: started, succeeded, failed, unknown, not_started",
        (_RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",),
    ),
    "SM-54": (
        "arguments over the limit are size, digest and preview; a result over its limit is refused",
        (
            _RESUME + "test_what_a_write_is_given_is_recorded_bounded",
            _ROLLBACK + "test_a_result_that_was_too_large_is_told_to_be_lost",
        ),
    ),
    "SM-55": (
        "of what is written to a file there is size and SHA-256, nowhere the text",
        (
            _RECORD + "test_what_files_are_given_is_nowhere_in_the_journal",
            _RESUME + "test_what_waits_for_an_approval_shows_no_content_and_no_secret",
        ),
    ),
    "SM-56": (
        "one row a call, of those that were refused, too",
        (
            _RECORD + "test_a_call_is_recorded_before_it_is_made_and_when_it_has_ended",
            _RECORD + "test_what_files_are_given_is_nowhere_in_the_journal",
        ),
    ),
    "SM-57": (
        "a failure is recorded whatever is in it: circles, text that is none",
        (_RECORD + "test_a_failure_is_recorded_whatever_is_in_it",),
    ),
    "CG-20": (
        "a gate is true, false or a function of the validated arguments; one that fails means yes",
        (
            _DISPATCH
            + "test_a_gate_that_cannot_tell_means_yes_and_without_an_approver_no_call_is_made",
            _DISPATCH + "test_a_gated_call_waits_for_a_decision_about_the_validated_arguments",
        ),
    ),
    "CG-21": (
        "a prompt, made from the arguments too, and defaults; a prompt that fails loses its text",
        (
            _DISPATCH + "test_a_gated_call_waits_for_a_decision_about_the_validated_arguments",
            _RECORD + "test_an_approved_call_that_fails_has_ended_as_any_other",
        ),
    ),
    "CG-22": (
        "a gated call is not made, the run pauses without a value, and says what waits",
        (
            _RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",
            "conformance/test_calls.py::test_what_waits_and_what_was_decided_are_told_without_content_and_secrets",
        ),
    ),
    "CG-23": (
        "what waits has call, tool, arguments, prompt; the decision who, why, when and what else",
        (
            _RECORD + "test_an_approved_call_that_fails_has_ended_as_any_other",
            _RESUME + "test_what_an_approver_decided_is_not_asked_again_on_resume",
            _JOURNAL + "test_the_first_decision_counts_and_outlives_the_process",
        ),
    ),
    "CG-24": (
        "gathered gated calls wait together, and calls beside them that are free are made",
        (_RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",),
    ),
    "CG-25": (
        "a decision names its call; one about no such call, or several, is refused and says which",
        (
            _RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",
            _RESUME + "test_the_first_decision_counts",
        ),
    ),
    "CG-26": (
        "the first decision counts, also of another process, also where an approver made it",
        (
            _RESUME + "test_the_first_decision_counts",
            _JOURNAL + "test_the_first_decision_counts_and_outlives_the_process",
            _RESUME + "test_what_an_approver_decided_is_not_asked_again_on_resume",
        ),
    ),
    "CG-27": (
        "an approved call is made on resume, and nothing that was done is done again",
        (
            _RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",
            _RESUME + "test_a_model_is_not_asked_again_for_what_it_answered_before",
            _CLI + "test_a_paused_run_is_listed_decided_and_resumed",
            "conformance/test_calls.py::test_what_waits_and_what_was_decided_are_told_without_content_and_secrets",
        ),
    ),
    "CG-28": (
        "edited arguments are validated; an edit that is not valid decides nothing",
        (
            _RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",
            _DISPATCH + "test_an_approver_that_fails_or_edits_wrongly_has_not_approved",
            _CLI + "test_a_paused_run_is_listed_decided_and_resumed",
        ),
    ),
    "CG-29": (
        "a rejection is an error the script can catch, with who and why, and the run goes on",
        (_RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",),
    ),
    "CG-30": (
        "a run that is resumed undecided pauses again with the same calls",
        (_RESUME + "test_gated_calls_pause_the_run_and_decisions_let_it_go_on",),
    ),
    "CG-31": (
        "a paused run goes on from a copy of its journal, in another place and process",
        (
            _RESUME + "test_a_run_resumes_from_a_copy_of_the_journal_elsewhere",
            _JOURNAL + "test_a_copy_of_the_file_is_a_journal",
        ),
    ),
    "CG-32": (
        "an approved call that fails has ended, and nothing waits any more",
        (_RECORD + "test_an_approved_call_that_fails_has_ended_as_any_other",),
    ),
    "CG-33": (
        "a decision is about one call: the same once more is asked about anew",
        (
            _RECORD + "test_an_approved_call_that_fails_has_ended_as_any_other",
            _RESUME + "test_a_call_of_a_tool_waits_for_its_approval_and_is_made_once",
        ),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "SM-32": (
        "a line about registered reverts: what a revert undid is not listed at all; what stands "
        "is listed whether or not something could undo it"
    ),
    "SM-34": (
        "putting the warning into a conversation: a run has none; the result has it as its first "
        "warning, for whoever speaks to the model"
    ),
    "SM-37": (
        "one fingerprint of all unsafe calls of an attempt: each call has a decision of its own "
        "here, bound to the digest of its tool and arguments"
    ),
}
