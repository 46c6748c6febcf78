"""Requirements of definitions, contexts and effects: id -> claim and tests.

``tests/requirements.md`` explains the ids. `NOT_TAKEN` has the requirements that ptc does not
adopt, with the reason.
"""

from __future__ import annotations

__all__ = ["EFFECTS", "NOT_TAKEN"]

EFFECTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SM-01": (
        "a name may have a dot and is used everywhere; a description is required",
        (
            "conformance/test_effects.py::test_dotted_tool_name_is_used_everywhere",
            "core/tools/test_tool.py::test_blank_description_and_reserved_name_are_refused",
        ),
    ),
    "SM-02": (
        "a description is required, from the docstring or an argument; the name does not count",
        (
            "core/tools/test_tool.py::test_blank_description_and_reserved_name_are_refused",
            "core/tools/test_tool.py::test_hints_and_docstring_become_the_definition",
        ),
    ),
    "SM-03": (
        "arguments are validated before the function: defaults applied, unknown keys rejected",
        (
            "conformance/test_effects.py::test_tool_function_receives_validated_arguments_or_is_not_called",
            "conformance/test_calls.py::test_every_entry_point_validates_and_runs_the_same_tool",
        ),
    ),
    "SM-04": (
        "side_effect enables the hook; without it there is none",
        (
            "core/tools/test_foreign.py::test_after_side_effect_hook_is_awaited_and_cannot_fail_the_call",
        ),
    ),
    "SM-05": (
        "the truth table of side_effect and idempotent",
        (
            "conformance/test_effects.py::test_side_effect_and_idempotent_flags_default_from_each_other",
        ),
    ),
    "SM-06": (
        "a function may be sync or async, and its value is passed on unchanged",
        ("conformance/test_effects.py::test_direct_call_returns_the_identical_object",),
    ),
    "SM-08": (
        "an unrepeatable effect without access to its key warns once per name, by signature",
        (
            "core/tools/test_tool_options.py::test_non_idempotent_tool_without_context_warns_once_by_name",
            "conformance/test_effects.py::test_only_non_idempotent_effect_without_context_warns",
            "core/tools/test_tool_options.py::test_optional_or_annotated_context_is_recognized",
        ),
    ),
    "SM-09": (
        "a tool is a value that carries its metadata",
        ("core/tools/test_foreign.py::test_metadata_exists_for_tools_only",),
    ),
    "SM-10": (
        "metadata of a value that is not a tool is None",
        ("core/tools/test_foreign.py::test_metadata_exists_for_tools_only",),
    ),
    "SM-11": (
        "outside a run every context field says so; a context made by hand has defaults",
        (
            "conformance/test_effects.py::test_context_of_a_direct_call_has_no_run",
            "core/calls/test_dispatch.py::test_context_created_manually_has_defaults_and_makes_no_calls",
        ),
    ),
    "SM-12": (
        "context fields of a call cannot be overridden",
        ("conformance/test_effects.py::test_caller_arguments_cannot_change_the_tool_context",),
    ),
    "SM-13": (
        "the fields of a context",
        (
            "conformance/test_effects.py::test_context_of_a_direct_call_has_no_run",
            "conformance/test_effects.py::test_the_number_of_a_call_is_the_same_in_context_record_and_journal",
        ),
    ),
    "SM-14": (
        "the number of a call is the same in context, record and journal",
        (
            "conformance/test_effects.py::test_the_number_of_a_call_is_the_same_in_context_record_and_journal",
            "core/calls/test_dispatch.py::test_nested_call_is_restricted_by_the_allow_list_of_the_run",
        ),
    ),
    "SM-15": (
        "an explicit key wins and may not be blank; without a run there is none; attempts share it",
        (
            "core/calls/test_dispatch.py::test_direct_call_has_only_the_idempotency_key_of_its_caller",
            "core/calls/test_dispatch.py::test_failed_call_is_retried_and_the_record_counts_the_attempts",
            "core/calls/test_dispatch.py::test_idempotency_key_does_not_depend_on_preceding_calls",
        ),
    ),
    "SM-16": (
        "a key identifies tool, arguments and occurrence, and is equal on replay",
        (
            "core/calls/test_dispatch.py::test_idempotency_key_does_not_depend_on_preceding_calls",
            "conformance/test_effects.py::test_idempotency_key_depends_on_run_tool_arguments_and_occurrence",
            "core/runs/test_resume.py::test_resumed_run_has_the_result_of_an_uninterrupted_one",
            "core/calls/test_call_properties.py::test_idempotency_keys_do_not_depend_on_the_order_of_evaluation",
        ),
    ),
    "SM-17": (
        "the ambient context: nested, concurrent, after errors, gone afterwards",
        ("conformance/test_effects.py::test_current_tool_context_is_scoped_to_its_call",),
    ),
    "SM-18": (
        "the ambient context is the same object; outside a call there is none",
        ("conformance/test_effects.py::test_current_tool_context_is_scoped_to_its_call",),
    ),
    "SM-21": (
        "the hook runs after a success, is awaited, and its failure does not fail the tool",
        (
            "core/tools/test_foreign.py::test_after_side_effect_hook_is_awaited_and_cannot_fail_the_call",
            "conformance/test_effects.py::test_after_side_effect_hook_is_not_called_again_for_replayed_effects",
        ),
    ),
    "SM-58": (
        "events of a call: start, output, end; also for rejected calls",
        (
            "core/calls/test_dispatch.py::test_stream_yields_events_and_ends_with_the_result",
            "conformance/test_effects.py::test_rejected_call_is_recorded_as_not_started_and_emits_both_events",
        ),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "SM-19": (
        "A tool has no counter to advance: the host numbers calls when they start, see SM-14."
    ),
    "SM-20": (
        "There are no options for all tools: the root is in the context, and limits on output, "
        "network and time are options of the tools that need them (see SM-77, SM-84, SM-91)."
    ),
}
