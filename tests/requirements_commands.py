"""Which test shows what is asked of commands, git and the web: id -> claim and tests.

The ids are those of the behaviours that earlier systems documented for their tools. A test is
named by its file beneath ``tests/`` and its function; ``tests/test_requirements.py``
checks that each is there.
"""

from __future__ import annotations

__all__ = ["COMMANDS"]

_BASH, _OUT, _GIT = "tools/test_bash.py::", "tools/test_command_escapes.py::", "tools/test_git.py::"
_POWER, _BROKER = "tools/test_power_attacks.py::", "tools/test_broker.py::"
_PROTECTED = "tools/test_protected_paths.py::"
_FETCH, _SEARCH = "tools/test_web_fetch.py::", "tools/test_web_search.py::"

COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SM-67": (
        "bash has a side effect and is not idempotent; git reads unless made to write",
        (
            _BASH + "test_its_flags_are_those_of_the_table",
            _GIT + "test_the_flags_are_those_of_what_it_may_do",
        ),
    ),
    "SM-76": (
        "no shell, stdout then stderr, another exit code is an error with cmd, args and output",
        (
            _BASH + "test_no_shell_reads_the_arguments",
            _BASH + "test_the_streams_are_kept_apart_and_joined_in_order",
            _BASH + "test_another_exit_code_is_an_error_that_carries_the_output",
        ),
    ),
    "SM-77": (
        "every input limit, at it and over it",
        (
            _BASH + "test_arguments_over_a_limit_are_refused",
            _BASH + "test_arguments_at_a_limit_are_taken",
            _BASH + "test_an_option_that_means_nothing_is_refused",
        ),
    ),
    "SM-78": ("the constants", (_BASH + "test_the_limits_are_those_of_the_seeds",)),
    "SM-79": (
        "cwd is relative to the root and stays in it",
        (
            _BASH + "test_it_starts_in_the_root_or_in_a_folder_of_it",
            _BASH + "test_a_cwd_outside_the_root_is_refused",
        ),
    ),
    "SM-80": (
        "a time-out kills everything the command started, and says so",
        (
            _BASH + "test_a_time_out_says_so_and_keeps_what_was_written",
            _BASH + "test_a_background_child_does_not_delay_the_return",
            _BASH + "test_a_cancelled_command_leaves_no_process",
            _BASH + "test_a_command_dies_with_its_host",
            _OUT + "test_no_process_of_a_command_survives_it",
        ),
    ),
    "SM-81": (
        "a program that cannot be started has a code of its own",
        (_BASH + "test_a_program_that_cannot_be_started_is_told",),
    ),
    "SM-82": ("a signal is reported", (_BASH + "test_a_signal_is_told_by_number_and_name",)),
    "SM-83": (
        "a budget for each stream, no character cut, a mark, the whole kept",
        (
            _BASH + "test_a_noisy_stream_takes_nothing_from_the_other",
            _BASH + "test_output_over_the_budget_is_marked_and_kept_whole",
            _BASH + "test_a_character_is_never_cut",
            _BASH + "test_more_than_can_be_kept_is_counted_and_said",
        ),
    ),
    "SM-84": (
        "the network switch changes what commands can do, end to end",
        (
            _OUT + "test_with_the_network_on_a_server_is_reached_and_unix_sockets_are_not",
            _OUT + "test_no_known_bypass_reaches_a_server_of_the_host",
            _FETCH + "test_it_is_offered_only_where_the_network_is_allowed",
        ),
    ),
    "SM-85": (
        "early refusals of network programs, URLs and git's remote commands",
        (
            _BASH + "test_a_command_for_the_network_is_refused_early",
            _BASH + "test_a_remote_command_of_git_is_refused_early",
        ),
    ),
    "SM-86": (
        "words are not looked for inside words",
        (
            _BASH + "test_words_that_only_look_alike_are_let_through",
            _BASH + "test_package_managers_run_where_they_may_need_no_network",
        ),
    ),
    "SM-87": (
        "loopback targets pass, positions in `sh -c` are looked at",
        (
            _BASH + "test_words_that_only_look_alike_are_let_through",
            _BASH + "test_a_command_for_the_network_is_refused_early",
            _BASH + "test_a_command_may_talk_to_a_server_it_started_itself",
        ),
    ),
    "SM-88": (
        "a refusal names what lifts it",
        (
            _BASH + "test_a_command_for_the_network_is_refused_early",
            _BASH + "test_a_command_that_fails_without_the_network_gets_a_hint",
            _PROTECTED
            + "test_a_command_that_was_refused_a_change_says_which_rule_and_who_lifts_it",
        ),
    ),
    "SM-89": (
        "where isolation cannot be enforced, nothing runs unless it is said in so many words",
        (
            _OUT + "test_a_kernel_without_landlock_refuses_and_names_the_way_out",
            _BASH + "test_a_missing_layer_refuses_the_command",
        ),
    ),
    "SM-90": (
        "isolation is the kernel's: the known bypasses of a word list reach nothing",
        (
            _OUT + "test_no_known_bypass_reaches_a_server_of_the_host",
            _OUT + "test_the_bypasses_do_reach_the_servers_when_nothing_confines_them",
            _OUT + "test_no_known_bypass_writes_outside_the_root",
            _OUT + "test_processes_of_the_host_are_out_of_reach",
            _OUT + "test_files_outside_the_root_cannot_be_read",
            _POWER + "test_no_known_attack_changes_what_other_programs_act_on",
            _POWER + "test_the_attacks_do_work_where_nothing_is_protected",
            _BROKER + "test_without_the_broker_a_command_changes_nothing_in_the_root",
            _BROKER + "test_files_behave_as_if_the_command_changed_them_itself",
        ),
    ),
    "SM-92": (
        "a tool that is not in the allow-list cannot be called",
        (_BASH + "test_a_script_gets_data_and_an_error_it_can_act_on",),
    ),
    "W7": (
        "a failure is never a value",
        (
            _BASH + "test_another_exit_code_is_an_error_that_carries_the_output",
            _FETCH + "test_an_error_of_the_server_is_an_error",
            _SEARCH + "test_a_failure_is_told_without_the_key",
            _GIT + "test_gits_own_words_are_the_error",
        ),
    ),
    "W8": (
        "nothing is lost unsaid",
        (
            _BASH + "test_output_over_the_budget_is_marked_and_kept_whole",
            _FETCH + "test_a_long_page_comes_in_parts_without_a_gap",
            "tools/test_html_text.py::test_valid_html_is_converted_whole",
            "tools/test_html_text.py::test_nesting_bombs_are_bounded_and_reported",
        ),
    ),
}
