"""Requirements of arguments, results, attachments and environment: id -> claim and tests.

``tests/requirements.md`` explains the ids. `NOT_TAKEN` has the requirements that ptc does not
adopt, with the reason.
"""

from __future__ import annotations

__all__ = ["NOT_TAKEN", "TYPED"]

TYPED: dict[str, tuple[str, tuple[str, ...]]] = {
    "SA-01": (
        "tools are found by name; any other name is an error",
        (
            "conformance/test_calls.py::test_an_unknown_tool_is_named_with_its_nearest_and_recorded",
            "core/tools/test_tool.py::test_duplicates_are_refused_and_functions_are_taken",
        ),
    ),
    "SA-02": (
        "a definition has a description and a callable, and may have arguments",
        (
            "core/tools/test_tool.py::test_hints_and_docstring_become_the_definition",
            "core/tools/test_tool_options.py::test_a_model_of_the_arguments_gives_the_function_an_instance",
            "core/tools/test_tool.py::test_a_blank_description_and_a_name_of_ctx_are_refused",
            "core/tools/test_tool_options.py::test_a_definition_that_could_never_be_called_is_refused",
        ),
    ),
    "SA-03": (
        "a blank description is rejected",
        ("core/tools/test_tool.py::test_a_blank_description_and_a_name_of_ctx_are_refused",),
    ),
    "SA-04": (
        "arguments are an object; a function may accept the context",
        (
            "core/tools/test_tool.py::test_a_schema_that_is_none_is_refused_at_definition",
            "core/tools/test_tool_options.py::test_a_context_is_known_with_none_beside_it_and_with_a_note",
        ),
    ),
    "SA-05": (
        "each supported type has a schema and accepts its values; others are rejected by name",
        (
            "core/tools/test_tool_options.py::test_an_allowed_type_has_a_schema_and_holds_its_values",
            "core/tools/test_tool_options.py::test_a_type_that_json_does_not_have_is_refused_at_definition_and_named",
            "core/tools/test_tool.py::test_what_has_no_schema_is_refused_at_definition",
        ),
    ),
    "SA-06": (
        "one rule for depth; recursive types are rejected",
        (
            "core/tools/test_tool_options.py::test_seven_objects_inside_one_another_are_taken_and_eight_are_not",
            "core/tools/test_tool_options.py::test_a_schema_that_never_ends_or_is_a_bomb_is_refused",
        ),
    ),
    "SA-07": (
        "input is validated before use, and an error names the problem",
        (
            "conformance/test_effects.py::test_a_function_gets_validated_arguments_or_is_not_called",
            "core/tools/test_tool.py::test_wrong_arguments_are_named_one_by_one",
        ),
    ),
    "SA-08": (
        "parsed values and defaults reach the function",
        (
            "core/tools/test_tool_options.py::test_defaults_and_parsed_values_reach_the_function_and_other_keys_are_refused",
            "conformance/test_effects.py::test_a_function_gets_validated_arguments_or_is_not_called",
        ),
    ),
    "SA-09": (
        "published schemas: defaults are optional, records retain their values, no references",
        (
            "core/tools/test_tool_options.py::test_defaults_and_parsed_values_reach_the_function_and_other_keys_are_refused",
            "core/tools/test_tool_options.py::test_an_allowed_type_has_a_schema_and_holds_its_values",
            "core/tools/test_tool_options.py::test_references_are_written_out",
            "core/tools/test_tool_options.py::test_no_reference_is_left_wherever_it_stands",
        ),
    ),
    "SA-10": (
        "a tool without arguments accepts none",
        ("conformance/test_typed.py::test_a_tool_without_arguments_takes_none",),
    ),
    "SA-11": (
        "names are unique; the usual form does not warn",
        (
            "core/tools/test_tool.py::test_duplicates_are_refused_and_functions_are_taken",
            "core/tools/test_tool.py::test_a_name_that_is_not_snake_case_warns",
            "core/tools/test_tool.py::test_an_odd_name_warns_and_works",
        ),
    ),
    "SA-12": (
        "an unusual tool name warns and works; an empty name is rejected",
        (
            "core/tools/test_tool.py::test_an_odd_name_warns_and_works",
            "core/tools/test_tool.py::test_a_name_that_is_not_snake_case_warns",
            "conformance/test_typed.py::test_a_tool_of_an_odd_name_is_called_under_it",
        ),
    ),
    "SA-20": (
        "a result has status, data, text, error, attachments",
        (
            "core/calls/test_attachments.py::test_a_result_has_data_for_a_script_and_words_for_a_model",
            "conformance/test_typed.py::test_what_is_returned_as_an_error_or_raised_reads_the_same",
            "conformance/test_typed.py::test_a_result_of_any_kind_is_data_for_a_script_and_text_for_a_model",
            "conformance/test_calls.py::test_a_value_without_a_json_form_is_a_defined_error_with_its_path",
        ),
    ),
    "SA-21": (
        "a success has data and text",
        (
            "core/calls/test_attachments.py::test_a_result_has_data_for_a_script_and_words_for_a_model",
            "core/tools/test_tool.py::test_a_result_is_a_value_or_an_error_and_has_a_text",
            "conformance/test_typed.py::test_a_result_of_any_kind_is_data_for_a_script_and_text_for_a_model",
        ),
    ),
    "SA-22": (
        "a returned error and a raised error have the same form",
        (
            "conformance/test_typed.py::test_what_is_returned_as_an_error_or_raised_reads_the_same",
            "core/calls/test_attachments.py::test_a_failure_that_is_returned_is_a_failure_like_one_that_is_raised",
        ),
    ),
    "SA-23": (
        "the MCP result format is recognized, other data is data; tracebacks stay in the host",
        (
            "core/calls/test_attachments.py::test_the_shape_of_mcp_results_is_understood",
            "core/calls/test_attachments.py::test_data_that_only_looks_alike_stays_data",
            "conformance/test_typed.py::test_no_traceback_of_the_host_reaches_a_script_or_a_model",
            "conformance/test_typed.py::test_a_result_of_any_kind_is_data_for_a_script_and_text_for_a_model",
        ),
    ),
    "SA-24": (
        "a tool that raises is an error of its call, and the run continues",
        ("core/calls/test_execute.py::test_what_a_function_raises_ends_its_call_and_nothing_else",),
    ),
    "SA-25": (
        "awaited calls run in sequence; gathered calls return their results in order",
        ("conformance/test_calls.py::test_gathered_calls_run_together_and_answer_in_their_order",),
    ),
    "SA-26": (
        "a call outside the allow-list is rejected with the allowed tools, unlike an unknown tool",
        (
            "core/calls/test_dispatch.py::test_a_tool_calls_another_under_its_callers_allow_list",
            "conformance/test_calls.py::test_an_unknown_tool_is_named_with_its_nearest_and_recorded",
            "core/test_session.py::test_a_tool_outside_the_allow_list_is_refused_by_the_host",
        ),
    ),
    "SA-29": (
        "text and images, distinguished by type; others are rejected",
        (
            "conformance/test_typed.py::test_content_is_told_apart_by_its_type",
            "core/calls/test_attachments.py::test_an_unusable_attachment_or_part_is_an_error_of_the_call",
        ),
    ),
    "SA-30": (
        "secrets appear in no output of a tool and in no file",
        (
            "core/tools/test_environment.py::test_a_secret_does_not_leave_a_tool",
            "conformance/test_typed.py::test_a_secret_is_in_no_file_that_a_session_writes",
            "core/tools/test_environment.py::test_a_secret_is_found_in_every_form",
            "core/tools/test_environment.py::test_the_longer_secret_comes_first_and_keys_of_data_are_looked_at",
            "core/tools/test_environment.py::test_what_is_public_or_very_short_is_left_alone",
            "conformance/test_calls.py::test_what_waits_and_what_was_decided_are_told_without_content_and_secrets",
            "core/calls/test_call_properties.py::test_no_shape_of_data_lets_a_secret_through",
        ),
    ),
    "SA-40": (
        "an attachment has name, type, data and size; invalid base64 is an error",
        (
            "core/calls/test_attachments.py::test_an_unusable_attachment_or_part_is_an_error_of_the_call",
            "core/calls/test_attachments.py::test_attachments_are_kept_byte_for_byte_and_named_in_record_and_text",
        ),
    ),
    "SA-41": (
        "attachments go to the session's store, under their digest",
        (
            "core/calls/test_attachments.py::test_attachments_are_kept_byte_for_byte_and_named_in_record_and_text",
            "conformance/test_typed.py::test_files_of_one_name_or_one_moment_are_two_files",
        ),
    ),
    "SA-42": (
        "a name never determines a path",
        ("core/calls/test_attachments.py::test_a_hostile_name_never_leaves_the_folder",),
    ),
    "SA-43": (
        "bytes are stored unchanged",
        (
            "core/calls/test_attachments.py::test_attachments_are_kept_byte_for_byte_and_named_in_record_and_text",
        ),
    ),
    "SA-44": (
        "attachments are named in record and text",
        (
            "core/calls/test_attachments.py::test_attachments_are_kept_byte_for_byte_and_named_in_record_and_text",
        ),
    ),
    "SA-45": (
        "a reference is validated",
        ("core/calls/test_attachments.py::test_a_reference_to_anything_else_is_refused",),
    ),
    "SA-46": (
        "references are passed without a copy, in the order of the result",
        (
            "core/calls/test_attachments.py::test_a_reference_is_passed_on_without_a_second_copy",
            "conformance/test_typed.py::test_kept_and_new_attachments_stay_in_the_order_of_the_result",
        ),
    ),
    "SA-47": (
        "an attachment that cannot be stored is an error",
        (
            "core/calls/test_attachments.py::test_an_unusable_attachment_or_part_is_an_error_of_the_call",
            "conformance/test_typed.py::test_an_attachment_that_cannot_be_kept_is_an_error_and_never_silence",
        ),
    ),
    "SA-48": (
        "files of a nested call belong to the run, and may be passed on",
        (
            "conformance/test_typed.py::test_files_of_a_tool_that_another_tool_called_are_the_runs",
            "conformance/test_typed.py::test_a_tool_passes_on_the_files_of_a_tool_it_called_in_the_order_it_says",
        ),
    ),
    "SA-60": (
        "the context describes the call to the function",
        (
            "conformance/test_effects.py::test_outside_of_a_run_a_context_says_that_there_is_none",
            "conformance/test_effects.py::test_the_number_of_a_call_is_the_same_in_context_record_and_journal",
        ),
    ),
    "SA-61": (
        "a context exists during a call, and not otherwise",
        ("conformance/test_effects.py::test_the_ambient_context_is_of_its_call_alone",),
    ),
    "SA-62": (
        "cancellation before, between and during calls",
        (
            "conformance/test_typed.py::test_a_sequence_of_calls_ends_where_it_is_cancelled",
            "conformance/test_calls.py::test_an_async_function_is_cancelled_where_it_waits",
            "conformance/test_calls.py::test_a_plain_function_sees_that_nobody_waits_any_more",
            "core/runs/test_faults.py::test_after_the_caller_is_cancelled_no_waiting_call_is_begun",
        ),
    ),
    "SA-63": (
        "a tool calls another under its caller's allow-list",
        ("core/calls/test_dispatch.py::test_a_tool_calls_another_under_its_callers_allow_list",),
    ),
    "SA-70": (
        "a tool requests environment values by a schema",
        (
            "core/tools/test_environment.py::test_what_is_missing_is_told_all_at_once_and_by_name",
            "core/tools/test_environment.py::test_a_later_layer_wins_and_none_is_none",
        ),
    ),
    "SA-71": (
        "later layers win; None means no value",
        ("core/tools/test_environment.py::test_a_later_layer_wins_and_none_is_none",),
    ),
    "SA-72": (
        "missing values fail session creation, all names at once",
        ("core/tools/test_environment.py::test_what_is_missing_is_told_all_at_once_and_by_name",),
    ),
    "SA-73": (
        "values are read from the context and are immutable",
        (
            "core/tools/test_environment.py::test_fields_are_given_by_their_names_and_no_tool_changes_them",
        ),
    ),
    "SA-74": (
        "a wrong type fails session creation, without the value",
        ("core/tools/test_environment.py::test_a_wrong_type_is_told_without_the_value",),
    ),
    "SA-75": (
        "the five examples of the standard, rewritten, run",
        ("core/tools/test_tools_page.py::test_the_five_examples_of_the_standard_run",),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "SA-27": (
        "It monitors the turns of a model. Here a script loops, and limits on calls, time and "
        "CPU time stop it; the agent decides about the next turn."
    ),
    "SA-28": (
        "Hooks that replace or drop a result would make the record differ from the values in "
        "the script. Events and `after_side_effect` observe; to change results, wrap the "
        "tools in a toolset."
    ),
}
