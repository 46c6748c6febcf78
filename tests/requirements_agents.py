"""Requirements of agents: delegation, plans, recall, final answers: id -> claim and tests.

``tests/requirements.md`` explains the ids. `NOT_TAKEN` has the requirements that ptc does not
adopt, with the reason.
"""

from __future__ import annotations

__all__ = ["AGENTS", "NOT_TAKEN"]

AGENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "R2-05": (
        "`task` and `tasks` delegate to child agents",
        (
            "core/agents/test_delegate.py::test_child_works_with_tools_and_answers_with_text",
            "core/agents/test_tasks.py::test_failed_task_does_not_lose_the_finished_ones",
        ),
    ),
    "R2-06": (
        "`search_skills` and `Skill` find, read and run skills",
        (
            "tools/skills/test_skills.py::test_search_ranks_by_name_description_and_body",
            "tools/skills/test_skills.py::test_skill_returns_its_instructions_and_lists_its_files",
            "tools/skills/test_scripts.py::test_scripts_have_the_tools_that_skill_and_caller_allow",
        ),
    ),
    "R2-29": (
        "`session.task` returns a child's answer",
        (
            "core/agents/test_delegate.py::test_child_works_with_tools_and_answers_with_text",
            "core/agents/test_delegate.py::test_structured_answer_conforms_to_the_schema",
        ),
    ),
    "R2-30": (
        "`session.tasks` returns one outcome for each task",
        (
            "core/agents/test_tasks.py::test_failed_task_does_not_lose_the_finished_ones",
            "core/agents/test_tasks.py::test_children_are_nested_calls_and_the_text_lists_each",
        ),
    ),
    "R2-31": (
        "kinds of agents are files, the built-in ones and those of a project",
        (
            "core/agents/test_kinds.py::test_builtin_kinds_are_those_of_the_documentation",
            "core/agents/test_kinds.py::test_kind_of_a_project_replaces_a_builtin_one",
        ),
    ),
    "R2-47": (
        "a long result is a preview with a handle, for a model at any door, and scripts page it",
        (
            "bindings/test_previews.py::test_note_and_tool_are_offered_together",
            "tools/test_recall.py::test_stored_value_comes_back_as_it_is",
            "tools/test_recall.py::test_script_pages_a_value_and_an_attachment",
            "tools/recall/test_recall_large.py::test_large_artifact_is_paged_within_bounded_memory",
        ),
    ),
    "R2-48": (
        "`verify_commands` reports checks with evidence",
        (
            "tools/verify/test_verify.py::test_each_outcome_has_its_own_status",
            "tools/verify/test_verify.py::test_long_output_is_bounded_and_its_artifact_is_whole",
            "cli/test_verify.py::test_report_has_evidence_and_the_exit_status_tells_if_it_passed",
        ),
    ),
    "R3-24": (
        "a todo list is written, and outlives the process",
        (
            "tools/test_todo.py::test_write_fills_in_the_fields_and_counts_versions",
            "core/journal/test_documents.py::test_change_counts_versions_and_outlives_the_process",
        ),
    ),
    "R3-25": (
        "items of a todo list are updated by id",
        ("tools/test_todo.py::test_update_changes_the_given_fields_by_id_in_any_order",),
    ),
    "R3-26": (
        "a todo list is read",
        ("tools/test_todo.py::test_read_returns_version_and_list_and_changes_nothing",),
    ),
    "R3-27": (
        "a stale version is refused",
        ("tools/test_todo.py::test_stale_version_changes_nothing",),
    ),
    "R3-28": (
        "`get_tool_response` returns a value whole, in parts, by pointer or by search",
        (
            "tools/test_recall.py::test_value_that_fits_is_whole_and_a_longer_one_is_paged",
            "tools/test_recall.py::test_text_is_read_by_lines",
            "tools/test_recall.py::test_pointer_leads_to_a_part",
            "tools/test_recall.py::test_search_finds_text_with_context_and_pointer",
        ),
    ),
    "R3-29": (
        "`response` finishes an agent whose answer has a schema",
        (
            "core/agents/test_final_answer_of_agents.py::test_agent_ends_with_the_first_call_that_conforms",
            "core/agents/test_final_answer.py::test_call_that_conforms_ends_the_conversation",
        ),
    ),
    "R4-02": (
        "a prompt is a tool",
        (
            "core/generation/test_prompt_tool.py::test_result_conforms_to_the_output_schema",
            "core/agents/test_tool_file.py::test_prompt_of_a_file_is_a_tool",
        ),
    ),
    "R4-03": (
        "an agent is a tool",
        (
            "core/agents/test_agent_tool.py::test_script_hands_over_and_the_calls_of_the_child_are_nested",
            "core/agents/test_tool_file.py::test_agent_of_a_file_is_a_tool",
        ),
    ),
    "R4-16": (
        "untrusted text is marked or stripped before a model reads it",
        (
            "core/tools/test_untrusted.py::test_imitation_of_a_conversation_is_marked_and_removed",
            "core/tools/test_untrusted.py::test_hidden_text_does_not_reach_a_model",
            "bindings/test_untrusted_replies.py::test_text_of_a_direct_call_is_marked_and_its_data_cleaned",
        ),
    ),
    "CG-80": (
        "an application adds the tool, and a script has it only if it is allowed",
        (
            "tools/test_todo.py::test_builtin_has_no_todo_list",
            "tools/test_todo.py::test_script_plans_only_if_it_is_allowed_to",
        ),
    ),
    "CG-81": (
        "the arguments are those of the tool, also in camelCase",
        (
            "tools/test_todo.py::test_write_fills_in_the_fields_and_counts_versions",
            "tools/test_todo.py::test_compat_takes_camel_case",
        ),
    ),
    "CG-82": (
        "write replaces the list, fills in fields and counts versions",
        (
            "tools/test_todo.py::test_write_fills_in_the_fields_and_counts_versions",
            "tools/test_todo.py::test_refused_operation_says_why_and_changes_nothing",
        ),
    ),
    "CG-83": (
        "update changes items by id, or nothing",
        (
            "tools/test_todo.py::test_update_changes_the_given_fields_by_id_in_any_order",
            "tools/test_todo.py::test_refused_operation_says_why_and_changes_nothing",
            "tools/test_todo.py::test_update_before_the_first_write_is_refused",
        ),
    ),
    "CG-84": (
        "read returns the version with the list and changes nothing",
        ("tools/test_todo.py::test_read_returns_version_and_list_and_changes_nothing",),
    ),
    "CG-85": (
        "a stale version is refused on write and update",
        ("tools/test_todo.py::test_stale_version_changes_nothing",),
    ),
    "CG-86": (
        "each refused operation has an error of its own",
        (
            "tools/test_todo.py::test_refused_operation_says_why_and_changes_nothing",
            "tools/test_todo.py::test_update_before_the_first_write_is_refused",
        ),
    ),
    "CG-87": (
        "the share of completed items is returned",
        ("tools/test_todo.py::test_write_fills_in_the_fields_and_counts_versions",),
    ),
    "CG-88": (
        "each operation is an event with the list",
        ("tools/test_todo.py::test_each_operation_is_an_event_with_the_list",),
    ),
    "CG-90": (
        "a result over its limit is truncated; the note stands only beside a truncated text",
        (
            "bindings/test_previews.py::test_text_at_below_and_above_the_limit",
            "core/records/test_preview.py::test_note_stands_only_beside_a_truncated_text",
            "core/records/test_preview.py::test_raw_value_is_stored_whole",
        ),
    ),
    "CG-91": (
        "the note and the tool that it names appear together",
        (
            "bindings/test_previews.py::test_note_and_tool_are_offered_together",
            "core/records/test_preview.py::test_note_names_the_tool_only_for_a_reader_that_has_it",
        ),
    ),
    "CG-93": (
        "a handle opens values of the own session; any other is an error that says so",
        (
            "core/records/test_stored_file.py::test_value_is_opened_by_handle_digest_and_address",
            "tools/test_recall.py::test_unknown_handle_is_an_error_that_says_so",
            "tools/test_recall.py::test_handle_of_another_session_is_unknown",
            "bindings/test_http_isolation.py::test_client_cannot_recall_values_of_another_client",
        ),
    ),
    "CG-94": (
        "falsy values survive",
        (
            "tools/test_recall.py::test_falsy_parts_survive",
            "core/records/test_preview.py::test_falsy_value_is_shown_as_it_is",
        ),
    ),
    "CG-100": (
        "a call that conforms to the schema ends the agent; an invalid one can be corrected",
        (
            "core/agents/test_final_answer.py::test_call_that_conforms_ends_the_conversation",
            "core/agents/test_final_answer.py::test_invalid_call_gets_the_violations_and_a_corrected_one_is_accepted",
            "core/agents/test_final_answer_of_agents.py::test_agent_ends_with_the_first_call_that_conforms",
        ),
    ),
    "CG-101": (
        "the first answer stays, and a second call is an error",
        (
            "core/agents/test_final_answer.py::test_second_call_is_an_error_and_the_first_answer_stays",
        ),
    ),
    "CG-102": (
        "an answer in a text is accepted; reminders and repairs are bounded",
        (
            "core/agents/test_final_answer.py::test_answer_in_a_text_is_accepted",
            "core/agents/test_final_answer.py::test_text_without_an_answer_is_returned_with_a_reminder",
            "core/agents/test_final_answer.py::test_reminders_are_bounded_and_use_up_no_repairs",
            "core/agents/test_final_answer.py::test_repairs_are_bounded_and_the_error_has_every_attempt",
        ),
    ),
    "CG-103": (
        "falsy answers survive",
        ("core/agents/test_final_answer.py::test_falsy_answer_survives",),
    ),
    "CG-105": (
        "no answer is final while a call awaits approval",
        (
            "core/agents/test_final_answer.py::test_answer_is_not_final_while_a_call_awaits_approval",
            "core/agents/test_agent_tool.py::test_child_does_not_finish_while_a_call_of_the_same_turn_awaits_approval",
        ),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "CG-92": (
        "A conversation belongs to the application's framework, which summarises it. ptc "
        "shortens a result once, before a model reads it, and never afterwards."
    ),
    "CG-95": (
        "Arguments that a model wrote are part of its conversation, which belongs to the "
        "framework. Records have large arguments by size and digest (SM-55)."
    ),
    "CG-104": (
        "Child agents always get the tool `response`, which works with every model and "
        "leaves the other tools usable in the same request. `generate_object` uses the "
        "native mode of a provider."
    ),
}
