"""Requirements of the file tools: id -> claim and tests.

``tests/requirements.md`` explains the ids. `NOT_TAKEN` has the requirements that ptc does not
adopt, with the reason.
"""

from __future__ import annotations

__all__ = ["FILES", "NOT_TAKEN"]

_PATHS, _ATOMIC, _DIFF = (
    "tools/files/test_paths.py::",
    "tools/files/test_atomic.py::",
    "tools/files/test_diff.py::",
)
_READ, _MANY, _LS = (
    "tools/files/test_read.py::",
    "tools/files/test_read_files.py::",
    "tools/files/test_ls.py::",
)
_GLOB, _GREP, _WRITE = (
    "tools/search/test_glob.py::",
    "tools/search/test_grep.py::",
    "tools/files/test_write.py::",
)
_EDIT, _PATCH, _RECORDS = (
    "tools/files/test_edit.py::",
    "tools/files/test_patch.py::",
    "tools/test_records.py::",
)
_BATCH = "tools/test_batch.py::"
_README, _TYPED = "tools/test_readme.py::", "core/tools/test_typed_calls.py::"

FILES: dict[str, tuple[str, tuple[str, ...]]] = {
    "SM-60": (
        "all paths are confined to the session's root",
        (
            _PATHS + "test_a_root_that_is_gone_is_said_to_be_so",
            _PATHS + "test_a_path_beneath_the_root_is_opened",
        ),
    ),
    "SM-61": (
        "relative and absolute paths below the root are accepted, including `..` within it",
        (
            _PATHS + "test_a_path_beneath_the_root_is_opened",
            _PATHS + "test_a_file_is_written_where_its_path_really_leads",
        ),
    ),
    "SM-62": (
        "a path that leaves the root is rejected with a code",
        (
            _PATHS + "test_a_path_that_leaves_the_root_is_refused",
            _PATHS + "test_nothing_is_written_outside",
        ),
    ),
    "SM-63": (
        "links to the outside are rejected, links inside followed, for new paths too",
        (
            _PATHS + "test_a_link_that_leaves_the_root_is_refused",
            _PATHS + "test_a_link_that_stays_inside_is_followed",
            _PATHS + "test_nothing_is_written_outside",
        ),
    ),
    "SM-64": (
        "dangling links, chains, links in the middle and swaps between check and use",
        (
            _PATHS + "test_a_dangling_link_is_never_written_through",
            _PATHS + "test_nothing_is_written_outside",
            _PATHS + "test_a_swapped_link_never_gives_content_from_outside",
            _PATHS + "test_a_swapped_link_never_gives_a_write_outside",
            _PATHS + "test_a_file_swapped_between_look_and_open_is_refused",
            _PATHS + "test_a_mount_is_part_of_the_root_unless_it_is_the_kernels",
            _PATHS + "test_both_ways_of_opening_agree",
        ),
    ),
    "SM-65": (
        "a value that is not a path is rejected",
        (
            _PATHS + "test_a_path_that_names_nothing_is_invalid",
            _PATHS + "test_what_is_no_place_for_a_file_is_refused",
            _READ + "test_wrong_arguments_are_refused",
        ),
    ),
    "SM-66": (
        "one toolset, which contains the tools of the package",
        (_GREP + "test_the_toolset_has_these_tools_in_this_order",),
    ),
    "SM-67": (
        "reading has no side effect; writing has one and is not idempotent",
        (
            _README + "test_a_row_has_the_flags",
            _EDIT + "test_edit_is_an_effect_that_is_not_repeated",
            _PATCH + "test_patch_is_an_effect_that_is_not_repeated",
            _WRITE + "test_a_model_reads_one_line_without_the_content",
        ),
    ),
    "SM-68": (
        "applications call the tools directly and receive data",
        (_TYPED + "test_call_is_typed_by_its_tool",),
    ),
    "SM-69": (
        "read returns text; the exact limit passes; more, missing, folder and non-UTF-8 fail",
        (
            _READ + "test_a_file_over_the_limit_is_an_error_and_not_a_shorter_text",
            _READ + "test_what_is_not_text_is_an_error_with_the_byte",
            _PATHS + "test_a_missing_file_is_answered_with_the_nearest_names",
            _PATHS + "test_a_folder_is_not_a_file",
            _MANY + "test_one_that_cannot_be_read_does_not_lose_the_others",
        ),
    ),
    "SM-70": (
        "write creates folders and replaces files; the size in bytes is checked before the path",
        (
            _WRITE + "test_a_new_file_is_made_with_its_folders",
            _WRITE + "test_a_file_is_replaced_and_the_old_one_is_told",
            _WRITE + "test_content_is_measured_in_bytes_and_before_the_path_is_looked_at",
            _ATOMIC + "test_a_reader_never_sees_a_part",
        ),
    ),
    "SM-71": (
        "edit: the file must exist; size limits; missing context",
        (
            _EDIT + "test_what_cannot_be_edited_is_refused",
            _EDIT + "test_sizes_are_measured_in_bytes_and_before_the_path",
            _EDIT + "test_a_diff_that_does_not_apply_leaves_the_file_as_it_was",
            _EDIT + "test_a_file_over_the_limit_is_neither_edited_nor_made",
        ),
    ),
    "SM-72": (
        "no fuzz; wrong line numbers accepted; empty, malformed, multi-file diffs share one code",
        (
            _DIFF + "test_a_hunk_with_wrong_line_numbers_is_applied_where_its_lines_are",
            _DIFF + "test_nothing_is_fuzzy",
            _DIFF + "test_any_text_is_applied_or_refused_with_a_code",
            _EDIT + "test_a_diff_that_does_not_apply_leaves_the_file_as_it_was",
        ),
    ),
    "SM-73": (
        "grep: no match is empty; ripgrep's error for a bad pattern; a leading dash works",
        (
            _GREP + "test_no_match_is_an_empty_list",
            _GREP + "test_a_wrong_pattern_is_answered_in_ripgreps_own_words",
            _GREP + "test_a_pattern_may_start_with_a_dash",
            _GREP + "test_a_path_outside_is_refused",
        ),
    ),
    "SM-74": (
        "results always have the path relative to the root, line and text",
        (_GREP + "test_a_model_reads_path_line_and_text",),
    ),
    "SM-75": (
        "without ripgrep there is an error code with installation instructions",
        (_GREP + "test_without_ripgrep_the_error_says_how_to_install_it",),
    ),
    "SM-92": (
        "the allow-list decides",
        (
            _RECORDS + "test_a_call_that_is_not_allowed_is_recorded_without_content_too",
            _BATCH + "test_a_batch_never_widens_the_allow_list",
            _BATCH + "test_functions_of_a_session_keep_the_rules_they_were_made_with",
        ),
    ),
    "SM-55": (
        "records have size and digest of written content, never the content",
        (
            _RECORDS + "test_content_is_in_no_record_and_no_event",
            _RECORDS + "test_content_is_not_in_the_journal_and_a_resumed_run_is_held_to_it",
            _EDIT + "test_an_error_never_quotes_the_text",
        ),
    ),
    "W7": (
        "a failure is never returned as a value, and no match is an empty result",
        (
            _GLOB + "test_nothing_found_is_an_empty_list",
            _GREP + "test_no_match_is_an_empty_list",
            _TYPED + "test_call_is_typed_by_its_tool",
        ),
    ),
    "W8": (
        "nothing is truncated silently",
        (
            _READ + "test_a_file_over_the_limit_is_an_error_and_not_a_shorter_text",
            _READ + "test_a_model_reads_the_text_itself_and_is_told_where_it_was_cut",
            _MANY + "test_what_is_left_out_is_said_with_how_to_go_on",
            _MANY + "test_all_texts_together_have_a_limit_and_no_file_is_left_out_unsaid",
            _GLOB + "test_more_than_the_default_limit_is_an_error_and_not_a_shorter_list",
            _GLOB + "test_pages_follow_one_another_without_a_gap",
            _LS + "test_pages_follow_one_another_without_a_gap",
        ),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "SM-91": (
        "no run-wide options for the tools: limits are constants of each tool or arguments of its "
        "factory (`bash_tool`), so that no option is accepted and ignored"
    ),
}
