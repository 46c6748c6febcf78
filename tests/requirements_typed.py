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
            "conformance/test_calls.py::test_unknown_tool_error_suggests_the_nearest_name_and_is_recorded",
            "core/tools/test_tool.py::test_duplicate_tools_are_refused_and_functions_are_accepted",
        ),
    ),
    "SA-02": (
        "a definition has a description and a callable, and may have arguments",
        (
            "core/tools/test_tool.py::test_hints_and_docstring_become_the_definition",
            "core/tools/test_tool_options.py::test_arguments_model_instance_is_passed_to_the_function",
            "core/tools/test_tool.py::test_blank_description_and_reserved_name_are_refused",
            "core/tools/test_tool_options.py::test_uncallable_definition_is_refused",
        ),
    ),
    "SA-03": (
        "a blank description is rejected",
        ("core/tools/test_tool.py::test_blank_description_and_reserved_name_are_refused",),
    ),
    "SA-04": (
        "arguments are an object; a function may accept the context",
        (
            "core/tools/test_tool.py::test_invalid_schema_is_refused_at_definition",
            "core/tools/test_tool_options.py::test_optional_or_annotated_context_is_recognized",
        ),
    ),
    "SA-05": (
        "each supported type has a schema and accepts its values; others are rejected by name",
        (
            "core/tools/test_tool_options.py::test_supported_type_has_a_schema_and_validates_values",
            "core/tools/test_tool_options.py::test_type_without_a_json_form_is_refused_at_definition",
            "core/tools/test_tool.py::test_parameter_without_a_schema_is_refused_at_definition",
        ),
    ),
    "SA-06": (
        "one rule for depth; recursive types are rejected",
        (
            "core/tools/test_tool_options.py::test_nesting_of_more_than_seven_objects_is_refused",
            "core/tools/test_tool_options.py::test_recursive_or_exploding_schema_is_refused",
        ),
    ),
    "SA-07": (
        "input is validated before use, and an error names the problem",
        (
            "conformance/test_effects.py::test_tool_function_receives_validated_arguments_or_is_not_called",
            "core/tools/test_tool.py::test_invalid_arguments_are_reported_individually",
        ),
    ),
    "SA-08": (
        "parsed values and defaults reach the function",
        (
            "core/tools/test_tool_options.py::test_defaults_are_applied_and_unknown_keys_are_refused",
            "conformance/test_effects.py::test_tool_function_receives_validated_arguments_or_is_not_called",
        ),
    ),
    "SA-09": (
        "published schemas: defaults are optional, records retain their values, no references",
        (
            "core/tools/test_tool_options.py::test_defaults_are_applied_and_unknown_keys_are_refused",
            "core/tools/test_tool_options.py::test_supported_type_has_a_schema_and_validates_values",
            "core/tools/test_tool_options.py::test_references_are_inlined",
            "core/tools/test_tool_options.py::test_no_reference_remains_anywhere_in_a_schema",
        ),
    ),
    "SA-10": (
        "a tool without arguments accepts none",
        ("conformance/test_typed.py::test_tool_without_parameters_rejects_arguments",),
    ),
    "SA-11": (
        "names are unique; the usual form does not warn",
        (
            "core/tools/test_tool.py::test_duplicate_tools_are_refused_and_functions_are_accepted",
            "core/tools/test_tool.py::test_a_name_that_is_not_snake_case_warns",
            "core/tools/test_tool.py::test_unusual_tool_name_warns_and_works",
        ),
    ),
    "SA-12": (
        "an unusual tool name warns and works; an empty name is rejected",
        (
            "core/tools/test_tool.py::test_unusual_tool_name_warns_and_works",
            "core/tools/test_tool.py::test_a_name_that_is_not_snake_case_warns",
            "conformance/test_typed.py::test_tool_with_unusual_name_is_callable_by_that_name",
        ),
    ),
    "SA-20": (
        "a result has status, data, text, error, attachments",
        (
            "core/calls/test_attachments.py::test_tool_result_has_data_for_a_script_and_text_for_a_model",
            "conformance/test_typed.py::test_returned_and_raised_errors_have_the_same_text",
            "conformance/test_typed.py::test_a_result_of_any_kind_is_data_for_a_script_and_text_for_a_model",
            "conformance/test_calls.py::test_result_without_json_form_is_an_error_naming_its_path",
        ),
    ),
    "SA-21": (
        "a success has data and text",
        (
            "core/calls/test_attachments.py::test_tool_result_has_data_for_a_script_and_text_for_a_model",
            "core/tools/test_tool.py::test_tool_result_has_a_value_or_an_error_and_text",
            "conformance/test_typed.py::test_a_result_of_any_kind_is_data_for_a_script_and_text_for_a_model",
        ),
    ),
    "SA-22": (
        "a returned error and a raised error have the same form",
        (
            "conformance/test_typed.py::test_returned_and_raised_errors_have_the_same_text",
            "core/calls/test_attachments.py::test_returned_failure_behaves_like_a_raised_error",
        ),
    ),
    "SA-23": (
        "the MCP result format is recognized, other data is data; tracebacks stay in the host",
        (
            "core/calls/test_attachments.py::test_results_in_mcp_form_are_recognized",
            "core/calls/test_attachments.py::test_data_resembling_an_mcp_result_remains_data",
            "conformance/test_typed.py::test_host_traceback_never_reaches_script_or_model",
            "conformance/test_typed.py::test_a_result_of_any_kind_is_data_for_a_script_and_text_for_a_model",
        ),
    ),
    "SA-24": (
        "a tool that raises is an error of its call, and the run continues",
        ("core/calls/test_execute.py::test_exception_of_a_tool_function_fails_only_its_call",),
    ),
    "SA-25": (
        "awaited calls run in sequence; gathered calls return their results in order",
        ("conformance/test_calls.py::test_gathered_calls_run_concurrently_and_return_in_order",),
    ),
    "SA-26": (
        "a call outside the allow-list is rejected with the allowed tools, unlike an unknown tool",
        (
            "core/calls/test_dispatch.py::test_nested_call_is_restricted_by_the_allow_list_of_the_run",
            "conformance/test_calls.py::test_unknown_tool_error_suggests_the_nearest_name_and_is_recorded",
            "core/test_session.py::test_a_tool_outside_the_allow_list_is_refused_by_the_host",
        ),
    ),
    "SA-29": (
        "text and images, distinguished by type; others are rejected",
        (
            "conformance/test_typed.py::test_content_parts_are_parsed_by_their_type",
            "core/calls/test_attachments.py::test_unusable_attachment_or_content_part_is_an_error_of_the_call",
        ),
    ),
    "SA-30": (
        "secrets appear in no output of a tool and in no file",
        (
            "core/tools/test_environment.py::test_secret_never_leaves_a_tool",
            "conformance/test_typed.py::test_secret_is_in_no_file_written_by_a_session",
            "core/tools/test_environment.py::test_secret_is_found_in_every_encoding",
            "core/tools/test_environment.py::test_longest_secret_is_masked_first_and_data_keys_are_searched",
            "core/tools/test_environment.py::test_public_or_very_short_values_are_not_masked",
            "conformance/test_calls.py::test_approval_events_contain_no_content_or_secrets",
            "core/calls/test_call_properties.py::test_redaction_removes_a_secret_from_data_of_any_shape",
        ),
    ),
    "SA-40": (
        "an attachment has name, type, data and size; invalid base64 is an error",
        (
            "core/calls/test_attachments.py::test_unusable_attachment_or_content_part_is_an_error_of_the_call",
            "core/calls/test_attachments.py::test_attachments_are_stored_byte_for_byte_and_named_in_record_and_text",
        ),
    ),
    "SA-41": (
        "attachments go to the session's store, under their digest",
        (
            "core/calls/test_attachments.py::test_attachments_are_stored_byte_for_byte_and_named_in_record_and_text",
            "conformance/test_typed.py::test_attachments_of_equal_name_are_stored_as_separate_files",
        ),
    ),
    "SA-42": (
        "a name never determines a path",
        ("core/calls/test_attachments.py::test_hostile_attachment_name_never_leaves_the_folder",),
    ),
    "SA-43": (
        "bytes are stored unchanged",
        (
            "core/calls/test_attachments.py::test_attachments_are_stored_byte_for_byte_and_named_in_record_and_text",
        ),
    ),
    "SA-44": (
        "attachments are named in record and text",
        (
            "core/calls/test_attachments.py::test_attachments_are_stored_byte_for_byte_and_named_in_record_and_text",
        ),
    ),
    "SA-45": (
        "a reference is validated",
        (
            "core/calls/test_attachments.py::test_reference_to_anything_but_an_attachment_is_refused",
        ),
    ),
    "SA-46": (
        "references are passed without a copy, in the order of the result",
        (
            "core/calls/test_attachments.py::test_attachment_reference_is_forwarded_without_a_second_copy",
            "conformance/test_typed.py::test_attachments_keep_the_order_of_the_result",
        ),
    ),
    "SA-47": (
        "an attachment that cannot be stored is an error",
        (
            "core/calls/test_attachments.py::test_unusable_attachment_or_content_part_is_an_error_of_the_call",
            "conformance/test_typed.py::test_attachment_that_cannot_be_stored_is_an_error",
        ),
    ),
    "SA-48": (
        "files of a nested call belong to the run, and may be passed on",
        (
            "conformance/test_typed.py::test_attachments_of_nested_calls_belong_to_the_run",
            "conformance/test_typed.py::test_tool_forwards_attachments_of_a_nested_call_in_order",
        ),
    ),
    "SA-60": (
        "the context describes the call to the function",
        (
            "conformance/test_effects.py::test_context_of_a_direct_call_has_no_run",
            "conformance/test_effects.py::test_the_number_of_a_call_is_the_same_in_context_record_and_journal",
        ),
    ),
    "SA-61": (
        "a context exists during a call, and not otherwise",
        ("conformance/test_effects.py::test_current_tool_context_is_scoped_to_its_call",),
    ),
    "SA-62": (
        "cancellation before, between and during calls",
        (
            "conformance/test_typed.py::test_cancelled_tool_starts_no_further_nested_calls",
            "conformance/test_calls.py::test_async_tool_is_cancelled_at_its_await",
            "conformance/test_calls.py::test_sync_tool_observes_cancellation_of_its_caller",
            "core/runs/test_faults.py::test_no_queued_call_is_started_after_the_caller_is_cancelled",
        ),
    ),
    "SA-63": (
        "a tool calls another under its caller's allow-list",
        (
            "core/calls/test_dispatch.py::test_nested_call_is_restricted_by_the_allow_list_of_the_run",
        ),
    ),
    "SA-70": (
        "a tool requests environment values by a schema",
        (
            "core/tools/test_environment.py::test_missing_values_are_reported_together_by_name",
            "core/tools/test_environment.py::test_later_layer_overrides_and_none_keeps_the_earlier_value",
        ),
    ),
    "SA-71": (
        "later layers win; None means no value",
        (
            "core/tools/test_environment.py::test_later_layer_overrides_and_none_keeps_the_earlier_value",
        ),
    ),
    "SA-72": (
        "missing values fail session creation, all names at once",
        ("core/tools/test_environment.py::test_missing_values_are_reported_together_by_name",),
    ),
    "SA-73": (
        "values are read from the context and are immutable",
        (
            "core/tools/test_environment.py::test_environment_fields_are_read_only_and_passed_by_name",
        ),
    ),
    "SA-74": (
        "a wrong type fails session creation, without the value",
        ("core/tools/test_environment.py::test_value_of_wrong_type_is_reported_without_the_value",),
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
