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
            "conformance/test_effects.py::test_a_name_with_a_dot_is_the_name_everywhere",
            "core/tools/test_tool.py::test_a_blank_description_and_a_name_of_ctx_are_refused",
        ),
    ),
    "SM-02": (
        "a description is required, from the docstring or an argument; the name does not count",
        (
            "core/tools/test_tool.py::test_a_blank_description_and_a_name_of_ctx_are_refused",
            "core/tools/test_tool.py::test_hints_and_docstring_become_the_definition",
        ),
    ),
    "SM-03": (
        "arguments are validated before the function: defaults applied, unknown keys rejected",
        (
            "conformance/test_effects.py::test_a_function_gets_validated_arguments_or_is_not_called",
            "conformance/test_calls.py::test_every_way_to_a_tool_is_the_same_way",
        ),
    ),
    "SM-04": (
        "side_effect enables the hook; without it there is none",
        (
            "core/tools/test_foreign.py::test_the_hook_is_awaited_after_a_side_effect_and_cannot_fail_it",
        ),
    ),
    "SM-05": (
        "the truth table of side_effect and idempotent",
        (
            "conformance/test_effects.py::test_the_two_flags_are_what_was_said_or_follow_from_the_other",
        ),
    ),
    "SM-06": (
        "a function may be sync or async, and its value is passed on unchanged",
        ("conformance/test_effects.py::test_a_value_is_handed_over_as_the_object_it_is",),
    ),
    "SM-08": (
        "an unrepeatable effect without access to its key warns once per name, by signature",
        (
            "core/tools/test_tool_options.py::test_a_tool_that_must_not_be_repeated_and_takes_no_context_warns_once_by_name",
            "conformance/test_effects.py::test_only_an_effect_that_cannot_be_repeated_warns_without_a_context",
            "core/tools/test_tool_options.py::test_a_context_is_known_with_none_beside_it_and_with_a_note",
        ),
    ),
    "SM-09": (
        "a tool is a value that carries its metadata",
        ("core/tools/test_foreign.py::test_metadata_is_of_tools_and_none_of_anything_else",),
    ),
    "SM-10": (
        "metadata of a value that is not a tool is None",
        ("core/tools/test_foreign.py::test_metadata_is_of_tools_and_none_of_anything_else",),
    ),
    "SM-11": (
        "outside a run every context field says so; a context made by hand has defaults",
        (
            "conformance/test_effects.py::test_outside_of_a_run_a_context_says_that_there_is_none",
            "core/calls/test_dispatch.py::test_a_context_made_by_hand_answers_with_defaults_and_calls_nothing",
        ),
    ),
    "SM-12": (
        "context fields of a call cannot be overridden",
        (
            "conformance/test_effects.py::test_nothing_that_a_caller_sends_changes_what_a_context_says",
        ),
    ),
    "SM-13": (
        "the fields of a context",
        (
            "conformance/test_effects.py::test_outside_of_a_run_a_context_says_that_there_is_none",
            "conformance/test_effects.py::test_the_number_of_a_call_is_the_same_in_context_record_and_journal",
        ),
    ),
    "SM-14": (
        "the number of a call is the same in context, record and journal",
        (
            "conformance/test_effects.py::test_the_number_of_a_call_is_the_same_in_context_record_and_journal",
            "core/calls/test_dispatch.py::test_a_tool_calls_another_under_its_callers_allow_list",
        ),
    ),
    "SM-15": (
        "an explicit key wins and may not be blank; without a run there is none; attempts share it",
        (
            "core/calls/test_dispatch.py::test_a_key_is_given_by_the_caller_of_a_direct_call_or_is_none",
            "core/calls/test_dispatch.py::test_a_failed_call_is_tried_again_and_the_record_says_how_often",
            "core/calls/test_dispatch.py::test_a_key_is_of_the_call_and_not_of_what_was_called_before",
        ),
    ),
    "SM-16": (
        "a key identifies tool, arguments and occurrence, and is equal on replay",
        (
            "core/calls/test_dispatch.py::test_a_key_is_of_the_call_and_not_of_what_was_called_before",
            "conformance/test_effects.py::test_a_key_is_of_tool_canonical_arguments_and_occurrence_and_of_nothing_else",
            "core/runs/test_resume.py::test_a_resumed_run_comes_to_what_it_would_have_come_to",
            "core/calls/test_call_properties.py::test_keys_are_of_the_calls_whoever_looks_first_and_however_often",
        ),
    ),
    "SM-17": (
        "the ambient context: nested, concurrent, after errors, gone afterwards",
        ("conformance/test_effects.py::test_the_ambient_context_is_of_its_call_alone",),
    ),
    "SM-18": (
        "the ambient context is the same object; outside a call there is none",
        ("conformance/test_effects.py::test_the_ambient_context_is_of_its_call_alone",),
    ),
    "SM-21": (
        "the hook runs after a success, is awaited, and its failure does not fail the tool",
        (
            "core/tools/test_foreign.py::test_the_hook_is_awaited_after_a_side_effect_and_cannot_fail_it",
            "conformance/test_effects.py::test_the_hook_is_not_told_of_an_effect_that_a_resumed_run_did_not_have_again",
        ),
    ),
    "SM-58": (
        "events of a call: start, output, end; also for rejected calls",
        (
            "core/calls/test_dispatch.py::test_a_stream_tells_what_happens_and_ends_with_the_result",
            "conformance/test_effects.py::test_a_call_that_was_refused_is_recorded_and_told_as_one_that_was_not_begun",
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
