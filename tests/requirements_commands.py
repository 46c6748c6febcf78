"""Requirements of commands, git and the web: id -> claim and tests.

``tests/requirements.md`` explains the ids. A test is named by its file below ``tests/`` and its
function.
"""

from __future__ import annotations

__all__ = ["COMMANDS"]

_BASH, _OUT, _GIT = (
    "tools/test_bash.py::",
    "tools/test_command_escapes.py::",
    "tools/vcs/test_git.py::",
)
_PLANTED, _BROKER = "tools/test_planted_files.py::", "tools/test_broker.py::"
_PROTECTED = "tools/test_protected_paths.py::"
_VERIFY = "tools/verify/test_verify.py::"
_FETCH, _SEARCH = "tools/web/test_web_fetch.py::", "tools/web/test_web_search.py::"

COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SM-67": (
        "bash has a side effect and is not idempotent; git only reads unless allowed to write",
        (
            _BASH + "test_bash_is_a_non_idempotent_side_effect",
            _GIT + "test_git_flags_follow_from_the_writes_option",
        ),
    ),
    "SM-76": (
        "no shell; stdout then stderr; a nonzero exit code is an error with cmd, args and output",
        (
            _BASH + "test_arguments_are_not_interpreted_by_a_shell",
            _BASH + "test_streams_are_captured_separately_and_joined_stdout_first",
            _BASH + "test_nonzero_exit_code_is_an_error_with_the_output",
        ),
    ),
    "SM-77": (
        "every input limit, at the limit and above it",
        (
            _BASH + "test_command_arguments_over_a_limit_are_refused",
            _BASH + "test_command_arguments_at_a_limit_are_accepted",
            _BASH + "test_invalid_bash_tool_option_is_refused",
        ),
    ),
    "SM-78": (
        "values of the limits",
        (_BASH + "test_command_limits_have_their_documented_values",),
    ),
    "SM-79": (
        "cwd is relative to the root and stays in it",
        (
            _BASH + "test_command_starts_in_the_root_or_a_folder_of_it",
            _BASH + "test_a_cwd_outside_the_root_is_refused",
        ),
    ),
    "SM-80": (
        "a time-out kills all processes of the command, and the error says so",
        (
            _BASH + "test_timeout_error_contains_the_output_so_far",
            _BASH + "test_a_background_child_does_not_delay_the_return",
            _BASH + "test_a_cancelled_command_leaves_no_process",
            _BASH + "test_a_command_dies_with_its_host",
            _OUT + "test_no_process_of_a_command_survives_it",
        ),
    ),
    "SM-81": (
        "a program that cannot be started has its own error code",
        (_BASH + "test_program_that_cannot_start_is_reported_as_spawn_failed",),
    ),
    "SM-82": ("a signal is reported", (_BASH + "test_signal_is_reported_by_number_and_name",)),
    "SM-83": (
        "each stream has a budget; truncation is marked, keeps characters whole, stores the rest",
        (
            _BASH + "test_noisy_stream_does_not_shorten_the_other",
            _BASH + "test_output_over_budget_is_truncated_and_stored_whole",
            _BASH + "test_truncation_never_splits_a_character",
            _BASH + "test_output_over_the_storage_limit_is_counted_and_reported",
        ),
    ),
    "SM-84": (
        "the network switch changes the abilities of commands, end to end",
        (
            _OUT + "test_enabled_network_reaches_servers_but_not_unix_sockets",
            _OUT + "test_known_network_bypasses_reach_no_host_server",
            _FETCH + "test_web_tools_are_offered_only_with_the_network_enabled",
        ),
    ),
    "SM-85": (
        "network programs, URLs and git's remote commands are rejected early",
        (
            _BASH + "test_network_command_is_refused_early",
            _BASH + "test_remote_git_command_is_refused_early",
        ),
    ),
    "SM-86": (
        "words are not looked for inside words",
        (
            _BASH + "test_command_resembling_a_network_command_is_allowed",
            _BASH + "test_package_managers_run_where_they_may_need_no_network",
        ),
    ),
    "SM-87": (
        "loopback targets are accepted; positions in `sh -c` are checked",
        (
            _BASH + "test_command_resembling_a_network_command_is_allowed",
            _BASH + "test_network_command_is_refused_early",
            _BASH + "test_command_can_connect_to_a_server_it_started_itself",
        ),
    ),
    "SM-88": (
        "a rejection names the option that lifts it",
        (
            _BASH + "test_network_command_is_refused_early",
            _BASH + "test_a_command_that_fails_without_the_network_gets_a_hint",
            _PROTECTED + "test_refused_change_of_a_command_names_the_rule_and_the_option",
        ),
    ),
    "SM-89": (
        "if isolation cannot be enforced, nothing runs without an explicit opt-out",
        (
            _OUT + "test_command_without_landlock_is_refused_with_a_suggested_fix",
            _BASH + "test_command_is_refused_if_a_layer_is_missing",
        ),
    ),
    "SM-90": (
        "the kernel enforces isolation: known bypasses of a word list reach nothing",
        (
            _OUT + "test_known_network_bypasses_reach_no_host_server",
            _OUT + "test_network_bypasses_succeed_without_confinement",
            _OUT + "test_known_bypasses_write_nothing_outside_the_root",
            _OUT + "test_command_cannot_affect_or_inspect_host_processes",
            _OUT + "test_files_outside_the_root_cannot_be_read",
            _PLANTED + "test_known_attacks_do_not_influence_other_programs",
            _PLANTED + "test_attacks_succeed_where_nothing_is_protected",
            _BROKER + "test_without_the_broker_a_command_changes_nothing_in_the_root",
            _BROKER + "test_brokered_file_changes_match_direct_ones",
        ),
    ),
    "SM-92": (
        "a tool outside the allow-list cannot be called",
        (_BASH + "test_script_receives_command_data_and_a_usable_error",),
    ),
    "W7": (
        "a failure is never returned as a value",
        (
            _BASH + "test_nonzero_exit_code_is_an_error_with_the_output",
            _FETCH + "test_http_error_status_is_a_tool_error",
            _SEARCH + "test_search_failure_is_reported_without_the_key",
            _GIT + "test_git_failure_contains_the_message_of_git",
        ),
    ),
    "W8": (
        "nothing is lost silently",
        (
            _BASH + "test_output_over_budget_is_truncated_and_stored_whole",
            _FETCH + "test_long_page_is_returned_in_contiguous_parts",
            "tools/test_html_text.py::test_valid_html_is_converted_whole",
            "tools/test_html_text.py::test_nesting_bombs_are_bounded_and_reported",
        ),
    ),
    "W14": (
        "verification keeps output, exit code, signal and time-out; optional checks may fail",
        (
            _VERIFY + "test_each_outcome_has_its_own_status",
            _VERIFY + "test_long_output_is_bounded_and_its_artifact_is_whole",
            _VERIFY
            + "test_expected_exit_code_passes_and_optional_failure_does_not_fail_the_report",
            _VERIFY + "test_parallel_checks_overlap",
            _VERIFY + "test_allow_rules_on_bash_hold_for_each_check",
        ),
    ),
}
