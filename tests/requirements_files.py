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
            _PATHS + "test_missing_root_is_reported",
            _PATHS + "test_a_path_beneath_the_root_is_opened",
        ),
    ),
    "SM-61": (
        "relative and absolute paths below the root are accepted, including `..` within it",
        (
            _PATHS + "test_a_path_beneath_the_root_is_opened",
            _PATHS + "test_slot_resolves_links_to_the_real_target",
        ),
    ),
    "SM-62": (
        "a path that leaves the root is rejected with a code",
        (
            _PATHS + "test_a_path_that_leaves_the_root_is_refused",
            _PATHS + "test_slot_outside_the_root_is_refused",
        ),
    ),
    "SM-63": (
        "links to the outside are rejected, links inside followed, for new paths too",
        (
            _PATHS + "test_a_link_that_leaves_the_root_is_refused",
            _PATHS + "test_a_link_that_stays_inside_is_followed",
            _PATHS + "test_slot_outside_the_root_is_refused",
        ),
    ),
    "SM-64": (
        "dangling links, chains, links in the middle and swaps between check and use",
        (
            _PATHS + "test_a_dangling_link_is_never_written_through",
            _PATHS + "test_slot_outside_the_root_is_refused",
            _PATHS + "test_swapped_link_never_yields_content_from_outside",
            _PATHS + "test_swapped_link_never_causes_a_write_outside",
            _PATHS + "test_file_swapped_between_check_and_open_is_refused",
            _PATHS + "test_mount_is_part_of_the_root_unless_it_is_a_kernel_file_system",
            _PATHS + "test_both_implementations_of_path_resolution_agree",
        ),
    ),
    "SM-65": (
        "a value that is not a path is rejected",
        (
            _PATHS + "test_malformed_path_is_invalid",
            _PATHS + "test_slot_that_cannot_hold_a_file_is_refused",
            _READ + "test_read_refuses_invalid_arguments",
        ),
    ),
    "SM-66": (
        "one toolset, which contains the tools of the package",
        (_GREP + "test_builtin_toolset_has_its_tools_in_order",),
    ),
    "SM-67": (
        "reading has no side effect; writing has one and is not idempotent",
        (
            _README + "test_readme_row_states_the_flags",
            _EDIT + "test_edit_is_a_non_idempotent_side_effect",
            _PATCH + "test_patch_is_a_non_idempotent_side_effect",
            _WRITE + "test_write_renders_one_line_without_the_content",
        ),
    ),
    "SM-68": (
        "applications call the tools directly and receive data",
        (_TYPED + "test_call_is_typed_by_its_tool",),
    ),
    "SM-69": (
        "read returns text; the exact limit passes; more, missing, folder and non-UTF-8 fail",
        (
            _READ + "test_reading_a_file_over_the_limit_is_an_error",
            _READ + "test_file_that_is_not_text_is_an_error_naming_the_byte",
            _PATHS + "test_missing_file_error_suggests_the_nearest_names",
            _PATHS + "test_a_folder_is_not_a_file",
            _MANY + "test_unreadable_file_does_not_lose_the_others",
        ),
    ),
    "SM-70": (
        "write creates folders and replaces files; the size in bytes is checked before the path",
        (
            _WRITE + "test_new_file_is_created_with_its_folders",
            _WRITE + "test_replaced_file_reports_its_previous_size_and_digest",
            _WRITE + "test_write_size_is_checked_in_bytes_before_the_path",
            _ATOMIC + "test_reader_never_sees_partial_content",
        ),
    ),
    "SM-71": (
        "edit: the file must exist; size limits; missing context",
        (
            _EDIT + "test_uneditable_files_are_refused",
            _EDIT + "test_edit_size_is_checked_in_bytes_before_the_path",
            _EDIT + "test_diff_that_does_not_apply_leaves_the_file_unchanged",
            _EDIT + "test_edit_refuses_files_and_results_over_the_size_limit",
        ),
    ),
    "SM-72": (
        "no fuzz; wrong line numbers accepted; empty, malformed, multi-file diffs share one code",
        (
            _DIFF + "test_hunk_with_wrong_line_numbers_is_applied_at_its_context",
            _DIFF + "test_context_is_matched_exactly",
            _DIFF + "test_any_diff_is_applied_or_refused_with_patch_failed",
            _EDIT + "test_diff_that_does_not_apply_leaves_the_file_unchanged",
        ),
    ),
    "SM-73": (
        "grep: no match is empty; ripgrep's error for a bad pattern; a leading dash works",
        (
            _GREP + "test_no_match_is_an_empty_list",
            _GREP + "test_invalid_regex_error_quotes_ripgrep",
            _GREP + "test_a_pattern_may_start_with_a_dash",
            _GREP + "test_grep_refuses_a_path_outside_the_root",
        ),
    ),
    "SM-74": (
        "results always have the path relative to the root, line and text",
        (_GREP + "test_grep_renders_path_line_and_text",),
    ),
    "SM-75": (
        "without ripgrep there is an error code with installation instructions",
        (_GREP + "test_missing_ripgrep_error_says_how_to_install_it",),
    ),
    "SM-92": (
        "the allow-list decides",
        (
            _RECORDS + "test_disallowed_call_is_recorded_without_content",
            _BATCH + "test_a_batch_never_widens_the_allow_list",
            _BATCH + "test_exported_functions_keep_their_allow_list_rules",
        ),
    ),
    "SM-55": (
        "records have size and digest of written content, never the content",
        (
            "tools/test_compat.py::test_content_is_not_recorded_under_any_name",
            _RECORDS + "test_content_is_in_no_record_and_no_event",
            _RECORDS + "test_run_resumes_without_its_content_in_the_journal",
            _EDIT + "test_edit_errors_never_quote_the_content",
        ),
    ),
    "W7": (
        "a failure is never returned as a value, and no match is an empty result",
        (
            _GLOB + "test_glob_without_a_match_returns_an_empty_list",
            _GREP + "test_no_match_is_an_empty_list",
            _TYPED + "test_call_is_typed_by_its_tool",
        ),
    ),
    "W8": (
        "nothing is truncated silently",
        (
            _READ + "test_reading_a_file_over_the_limit_is_an_error",
            _READ + "test_read_renders_the_text_and_the_offset_after_truncation",
            _MANY + "test_truncated_file_reports_the_next_offset",
            _MANY + "test_total_limit_reports_every_omitted_file",
            _GLOB + "test_glob_over_its_default_limit_is_an_error",
            _GLOB + "test_glob_pages_are_contiguous",
            _LS + "test_ls_pages_are_contiguous",
            "tools/test_recall.py::test_consecutive_parts_are_the_whole_value",
        ),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "SM-91": (
        "no run-wide options for the tools: limits are constants of each tool or arguments of its "
        "factory (`bash_tool`), so that no option is accepted and ignored"
    ),
}
