"""Requirements of users who come from other systems: id -> claim and tests.

``tests/requirements.md`` explains the ids. A claim that begins with "differs" has a row in
``docs/differences.md``, with the reason and what to write instead.
"""

from __future__ import annotations

__all__ = ["MIGRATION"]

MIGRATION: dict[str, tuple[str, tuple[str, ...]]] = {
    "R0-03": (
        "a tool can be called, and goes into an agent as a function or through a binding",
        (
            "core/tools/test_typed_calls.py::test_calling_a_tool_calls_its_function",
            "bindings/test_functions.py::test_as_functions_preserves_name_signature_and_docstring",
            "bindings/test_export.py::test_program_and_direct_tools_have_definitions",
            "frameworks/test_contract.py::test_binding_keeps_the_contract",
        ),
    ),
    "R0-05": (
        "differs: a description is required",
        ("core/tools/test_tool.py::test_blank_description_and_reserved_name_are_refused",),
    ),
    "R0-09": (
        "the author of a corrected or repeated script is warned of the effects of the failed run",
        (
            "core/runs/test_resume.py::test_failed_run_warns_of_effects_before_its_script_is_corrected",
            "core/runs/test_resume.py::test_retry_warns_of_completed_effects",
        ),
    ),
    "R0-18": (
        "differs: scripts read whole files or get an error; text for a model is truncated visibly",
        (
            "tools/files/test_read.py::test_a_file_is_read_whole_as_a_string",
            "tools/files/test_read.py::test_reading_a_file_over_the_limit_is_an_error",
            "tools/files/test_read.py::test_read_renders_the_text_and_the_offset_after_truncation",
        ),
    ),
    "R0-21": (
        "differs: write creates folders and returns sizes and digests",
        (
            "tools/files/test_write.py::test_new_file_is_created_with_its_folders",
            "tools/files/test_write.py::test_replaced_file_reports_its_previous_size_and_digest",
        ),
    ),
    "R0-23": (
        "differs: content of files is not recorded, but the source of a script is",
        (
            "core/runs/test_resume.py::test_source_and_inputs_of_a_script_are_recorded_as_they_are",
            "tools/test_records.py::test_content_is_in_no_record_and_no_event",
        ),
    ),
    "R0-24": (
        "edit takes a unified diff, under the name `patch`, too",
        (
            "tools/test_compat.py::test_translated_script_runs_with_the_names_of_other_systems",
            "tools/test_compat.py::test_direct_calls_take_the_names_of_other_systems",
        ),
    ),
    "R0-27": (
        "differs: grep returns records to scripts and lines to models; no match is an empty list",
        (
            "tools/search/test_grep.py::test_matches_are_records_sorted_by_path_and_line",
            "tools/search/test_grep.py::test_grep_renders_path_line_and_text",
            "tools/search/test_grep.py::test_no_match_is_an_empty_list",
        ),
    ),
    "R0-31": (
        "the folder of a command is confined to the root, also in `opts`",
        (
            "tools/test_compat.py::test_options_of_bash_have_the_folder",
            "tools/test_bash.py::test_a_cwd_outside_the_root_is_refused",
        ),
    ),
    "R0-35": (
        "the network is switched on with a configuration key, a variable or an option",
        (
            "core/config/test_settings.py::test_key_in_a_file_has_its_effect",
            "core/config/test_settings.py::test_every_key_has_an_option_a_variable_and_tests_of_right_and_wrong_values",
            "tools/test_bash.py::test_enabled_network_disables_early_refusal",
        ),
    ),
    "R0-39": (
        "error codes of other systems are mapped to codes that exist",
        (
            "core/test_differences.py::test_error_codes_of_the_migration_page_exist",
            "tools/test_readme.py::test_readme_row_lists_the_error_codes",
        ),
    ),
    "R1-02": (
        "the function of a tool is called without a session",
        (
            "core/tools/test_typed_calls.py::test_tool_function_called_directly_takes_a_context_of_the_caller",
            "core/tools/test_testing_context.py::test_tool_can_be_called_in_a_test_with_a_context",
        ),
    ),
    "R1-04": (
        "a test can set the ambient context of a tool",
        (
            "core/tools/test_testing_context.py::test_tool_can_be_called_in_a_test_with_a_context",
            "core/tools/test_testing_context.py::test_contexts_nest_and_the_outer_one_returns",
        ),
    ),
    "R1-07": (
        "the limits of commands are public constants",
        ("tools/test_bash.py::test_command_limits_have_their_documented_values",),
    ),
    "R1-10": (
        "differs: every call has a time limit, also a direct one",
        (
            "core/tools/test_direct_calls.py::test_direct_call_is_stopped_after_tool_timeout_ms",
            "core/runs/test_breaches.py::test_call_over_the_tool_timeout_is_cancelled_and_the_script_continues",
            "tools/test_bash.py::test_timeout_error_contains_the_output_so_far",
        ),
    ),
    "R1-11": (
        "direct calls are recorded on request",
        (
            "core/tools/test_recorded_direct_calls.py::test_direct_call_is_a_recorded_run_with_its_nested_calls",
        ),
    ),
    "R1-13": (
        "a record has start and end of every call",
        ("core/runs/test_resume.py::test_record_has_start_and_end_of_calls_without_effects",),
    ),
    "R1-15": (
        "differs: a call has succeeded, failed, not started, or its outcome is unknown",
        (
            "core/calls/test_recorder.py::test_call_is_recorded_before_and_after_its_execution",
            "conformance/test_effects.py::test_rejected_call_is_recorded_as_not_started_and_emits_both_events",
        ),
    ),
    "R1-16": (
        "differs: results are recorded whole, large arguments by size and digest",
        (
            "core/runs/test_resume.py::test_large_arguments_of_a_side_effect_are_recorded_truncated",
            "core/runs/test_resume.py::test_resumed_run_has_the_result_of_an_uninterrupted_one",
        ),
    ),
    "R1-18": (
        "a tool with a namespace is an attribute of the session",
        (
            "core/runs/test_program_tool.py::test_namespace_is_an_attribute_of_a_session_as_in_scripts",
            "core/runs/test_program_tool.py::test_blocking_session_has_namespaces_and_program",
        ),
    ),
    "R1-19": (
        "differs: a key is the same on retry and resume; a script submitted again has new keys",
        (
            "core/calls/test_dispatch.py::test_idempotency_key_does_not_depend_on_preceding_calls",
            "conformance/test_effects.py::test_idempotency_key_depends_on_run_tool_arguments_and_occurrence",
            "core/runs/test_resume.py::test_retried_run_has_the_keys_of_the_first_run_unless_that_was_undone",
            "core/runs/test_resume.py::test_program_with_the_id_of_an_interrupted_run_resumes_it",
            "core/test_differences.py::test_example_of_the_differences_page_runs",
        ),
    ),
    "R1-22": (
        "differs: write and edit have a side effect",
        (
            "tools/test_readme.py::test_readme_row_states_the_flags",
            "core/test_session.py::test_default_allow_list_has_only_tools_without_side_effects",
        ),
    ),
    "R1-30": (
        "tools and `program` go into agents of every SDK, in strict form where it has one",
        (
            "bindings/test_export.py::test_program_and_direct_tools_have_definitions",
            "frameworks/test_openai_schema.py::test_schema_of_a_model_has_a_strict_form",
            "frameworks/test_contract.py::test_binding_keeps_the_contract",
            "frameworks/test_openai_agents.py::test_strict_tools_are_accepted_by_the_sdk_and_take_nulls",
        ),
    ),
    "R1-33": (
        "differs: the network is a property of a tool, and a run selects tools",
        (
            "core/test_differences.py::test_example_of_the_differences_page_runs",
            "tools/test_bash.py::test_enabled_network_disables_early_refusal",
        ),
    ),
    "R1-34": (
        "differs: one option bounds the output of commands, one limit the result of every tool",
        (
            "tools/test_bash.py::test_output_over_budget_is_truncated_and_stored_whole",
            "core/records/test_limits.py::test_a_tool_result_over_its_limit_is_an_error_of_that_call",
            "core/tools/test_direct_calls.py::test_direct_result_over_its_limit_is_an_error_as_in_a_script",
        ),
    ),
    "R2-08": (
        "web_fetch can be switched on for a session and every command",
        (
            "core/config/test_settings.py::test_key_in_a_file_has_its_effect",
            "tools/web/test_web_fetch.py::test_html_is_converted_to_text_or_returned_unchanged",
        ),
    ),
    "R2-09": (
        "web_search can be switched on, with the provider that the environment names",
        (
            "core/config/test_settings.py::test_key_in_a_file_has_its_effect",
            "tools/web/test_web_search.py::test_searxng_is_queried_and_its_results_are_parsed",
        ),
    ),
    "R2-12": (
        "`program` is a tool of a session",
        ("core/runs/test_program_tool.py::test_program_is_called_as_any_tool",),
    ),
    "R2-13": (
        "tools of MCP servers are tools of a session",
        (
            "bindings/test_mcp_tools.py::test_script_calls_tools_in_the_namespace_of_their_server",
            "core/config/test_tool_servers.py::test_commands_have_the_tools_of_servers",
        ),
    ),
    "R2-20": (
        "differs: partial objects are `tool_output_delta` events of any tool",
        (
            "core/generation/test_generate.py::test_streamed_call_yields_deltas_and_the_validated_object",
        ),
    ),
    "R2-21": (
        "events are streamed without an event loop",
        ("core/tools/test_typed_calls.py::test_blocking_session_streams_events_and_types_calls",),
    ),
    "R2-26": (
        "differs: a command line in one text is refused with the remedy; toolchains are named",
        (
            "tools/test_bash.py::test_program_that_cannot_start_is_reported_as_spawn_failed",
            "tools/test_bash.py::test_arguments_are_not_interpreted_by_a_shell",
        ),
    ),
    "R2-27": (
        "`file_path` is accepted by the toolset compat",
        ("tools/test_compat.py::test_direct_calls_take_the_names_of_other_systems",),
    ),
    "R2-28": (
        "tool definitions are those of all tools unless narrowed",
        ("core/runs/test_program_tool.py::test_tool_definitions_have_all_tools_unless_narrowed",),
    ),
    "R2-35": (
        "`ctx.readFile` works with the toolset compat",
        ("tools/test_compat.py::test_translated_script_runs_with_the_names_of_other_systems",),
    ),
    "R2-36": (
        "`ctx.tool(name, arguments)` works with the toolset compat",
        ("tools/test_compat.py::test_translated_script_runs_with_the_names_of_other_systems",),
    ),
    "R2-39": (
        "limits may be plain data, in snake_case or camelCase",
        ("core/runs/test_program_tool.py::test_requested_limits_are_lowered_to_the_ceiling",),
    ),
    "R2-41": (
        "`program` as a tool takes the arguments of the method",
        (
            "core/runs/test_program_tool.py::test_program_is_called_as_any_tool",
            "core/runs/test_program_tool.py::test_arguments_cannot_widen_the_allow_list",
        ),
    ),
    "R2-42": (
        "differs: without an allow-list, scripts have the tools without a side effect",
        ("core/test_session.py::test_default_allow_list_has_only_tools_without_side_effects",),
    ),
    "R2-46": (
        "differs: results and events have other names, and a JSON form",
        (
            "core/tools/test_direct_calls.py::test_results_have_a_json_form",
            "core/test_differences.py::test_names_of_the_differences_page_exist",
        ),
    ),
    "R3-07": (
        "a call of an agent's script is approved in its client, or it learns how to continue",
        (
            "bindings/test_mcp_approvals.py::test_user_of_a_client_with_forms_approves_within_the_request",
            "bindings/test_mcp_approvals.py::test_client_without_forms_learns_what_waits_and_how_to_continue",
            "bindings/test_export.py::test_direct_call_that_requires_approval_pauses_and_resumes",
        ),
    ),
    "R3-08": (
        "differs: a direct call is decided by an approver, or pauses if direct calls are recorded",
        (
            "core/tools/test_recorded_direct_calls.py::test_direct_call_awaiting_approval_pauses_durably_and_is_resumed",
            "core/tools/test_direct_calls.py::test_approver_decides_on_direct_calls_as_on_those_of_scripts",
            "core/test_differences.py::test_example_of_the_differences_page_runs",
        ),
    ),
    "R3-17": (
        "should_retry may take the error alone",
        (
            "core/tools/test_direct_calls.py::test_should_retry_may_take_the_error_alone",
            "core/tools/test_direct_calls.py::test_should_retry_with_other_parameters_is_refused_at_definition",
        ),
    ),
    "R3-19": (
        "differs: a breaker is open for the session, until its cool-down has passed",
        (
            "conformance/test_calls.py::test_circuit_breaker_state_is_not_shared_between_sessions",
            "core/calls/test_dispatch.py::test_open_breaker_admits_one_call_after_its_cool_down",
        ),
    ),
    "R3-22": (
        "a tool of another library without declared effects is assumed to have the worst",
        (
            "core/tools/test_foreign.py::test_undeclared_effects_of_a_foreign_tool_are_assumed_to_be_the_worst",
            "core/tools/test_foreign.py::test_undeclared_foreign_tool_is_not_allowed_by_default",
        ),
    ),
    "R3-33": (
        "differs: metadata of a result reaches applications; a cached call is marked in its record",
        (
            "core/calls/test_attachments.py::test_tool_result_has_data_for_a_script_and_text_for_a_model",
            "conformance/test_calls.py::test_event_of_a_cached_call_is_marked_as_cached",
        ),
    ),
    "R3-34": (
        "differs: events, records and commands show what ran",
        (
            "core/test_session.py::test_events_are_emitted_in_order",
            "core/tools/test_direct_calls.py::test_session_subscriber_receives_events_of_runs_and_calls_without_secrets",
            "cli/test_history.py::test_show_prints_calls_beside_the_lines_of_the_script",
        ),
    ),
    "R4-11": (
        "a result in the form of the specification is understood, failures included",
        (
            "core/tools/test_result_formats.py::test_results_of_the_agents_specification_are_recognized",
            "core/tools/test_result_formats.py::test_script_cannot_take_a_returned_failure_for_data",
        ),
    ),
    "R4-14": (
        "differs: a stack stays in the process, as the cause of the error",
        (
            "conformance/test_typed.py::test_host_traceback_never_reaches_script_or_model",
            "core/test_differences.py::test_example_of_the_differences_page_runs",
        ),
    ),
    "R4-17": (
        "attachments in the form of the specification are understood",
        (
            "core/tools/test_result_formats.py::test_results_of_the_agents_specification_are_recognized",
            "core/tools/test_result_formats.py::test_invalid_attachment_of_the_specification_is_refused",
        ),
    ),
    "R4-18": (
        "differs: attachments are stored under the digest of their content",
        (
            "core/calls/test_attachments.py::test_attachments_are_stored_byte_for_byte_and_named_in_record_and_text",
            "core/calls/test_attachments.py::test_hostile_attachment_name_never_leaves_the_folder",
            "bindings/test_mcp_outcome.py::test_attachment_of_a_script_is_a_link_and_no_path_is_sent",
        ),
    ),
    "R4-22": (
        "differs: a reference has media_type and size_bytes",
        (
            "core/calls/test_attachments.py::test_attachment_reference_is_forwarded_without_a_second_copy",
        ),
    ),
    "R4-25": (
        "differs: images of direct calls reach a model; a script returns handles",
        (
            "bindings/test_mcp.py::test_image_is_sent_inline_and_a_file_by_its_address",
            "core/runs/test_attached.py::test_attached_file_has_a_handle_in_value_and_result",
        ),
    ),
    "R4-26": (
        "differs: the context is found by its type",
        ("core/tools/test_tool_options.py::test_optional_or_annotated_context_is_recognized",),
    ),
    "R5-01": (
        "tools of a Python file and MCP servers are offered by every command",
        (
            "cli/test_config.py::test_tools_option_takes_a_file_in_every_command",
            "bindings/test_mcp_command.py::test_server_offers_the_tools_and_the_rules_of_the_configuration",
        ),
    ),
    "R5-02": (
        "MCP clients connect over HTTP",
        ("bindings/test_http.py::test_client_runs_a_script_over_http",),
    ),
    "R5-03": (
        "a raw provider API gets a definition of `program`",
        ("core/runs/test_program_tool.py::test_definition_has_the_form_of_each_provider",),
    ),
    "R5-04": (
        "objects of agent frameworks are tools",
        (
            "bindings/test_foreign_tools.py::test_object_of_a_framework_is_a_tool",
            "bindings/test_foreign_tools.py::test_object_that_is_not_understood_is_refused_with_what_would_be",
        ),
    ),
    "R5-05": (
        "scripts parse Python text, and modules offered in part are told from whole ones",
        ("core/tools/test_stubs.py::test_rules_tell_whole_modules_from_those_offered_in_part",),
    ),
    "R5-06": (
        "rows of every tool are read as fields and by keys",
        (
            "core/runs/test_rows.py::test_row_reads_naturally_without_a_result_schema",
            "core/runs/test_rows.py::test_field_named_like_a_dict_method_is_read_as_a_field",
        ),
    ),
    "R5-07": (
        "keys of any type arrive, and no finished run is lost to its value",
        (
            "core/runs/test_values.py::test_value_of_another_type_has_one_form",
            "core/runs/test_values.py::test_calls_made_before_an_odd_result_are_not_lost",
        ),
    ),
    "R5-08": (
        "a misspelt tool is found before the first call",
        ("core/runs/test_check.py::test_certain_error_is_reported_before_the_first_call",),
    ),
    "R5-09": (
        "type checkers know the arguments and values of tools",
        (
            "core/tools/test_typed_calls.py::test_call_is_typed_by_its_tool",
            "core/tools/test_typed_calls.py::test_misspelt_method_is_a_type_error_and_dir_lists_the_tools",
        ),
    ),
    "R5-10": (
        "the blocking session has every method, with its types",
        (
            "core/tools/test_typed_calls.py::test_blocking_session_has_every_public_member_with_its_signature",
        ),
    ),
    "R5-11": (
        "a value is an instance of the output schema",
        ("core/tools/test_typed_calls.py::test_result_is_typed_by_output_schema",),
    ),
    "R5-12": (
        "direct calls have limits, approvals and events",
        (
            "core/tools/test_direct_calls.py::test_direct_result_over_its_limit_is_an_error_as_in_a_script",
            "core/tools/test_direct_calls.py::test_approver_decides_on_direct_calls_as_on_those_of_scripts",
        ),
    ),
    "R5-21": (
        "differs: the prompt of generate_object is text",
        (
            "core/generation/test_generate.py::test_invalid_generation_arguments_are_refused_before_any_request",
        ),
    ),
    "R5-22": (
        "differs: a script extracts from many documents in parallel",
        (
            "core/generation/test_generate.py::test_a_script_gathers_objects_over_many_documents",
            "core/test_differences.py::test_example_of_the_differences_page_runs",
        ),
    ),
}
