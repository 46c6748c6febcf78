"""Which test shows what is asked of definitions, contexts and effects: id -> claim and tests.

The ids are those of the behaviours that earlier systems documented; what is not taken over is in
`NOT_TAKEN`, with the reason. ``tests/test_requirements.py`` checks both ways.
"""

from __future__ import annotations

__all__ = ["EFFECTS", "NOT_TAKEN"]

EFFECTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SM-01": (
        "a name may have a dot; it is the name everywhere; a description is required",
        (
            "conformance/test_effects.py::test_a_name_with_a_dot_is_the_name_everywhere",
            "core/tools/test_tool.py::test_a_blank_description_and_a_name_of_ctx_are_refused",
        ),
    ),
    "SM-02": (
        "a description is required, from a docstring or said; a name is no description",
        (
            "core/tools/test_tool.py::test_a_blank_description_and_a_name_of_ctx_are_refused",
            "core/tools/test_tool.py::test_hints_and_docstring_become_the_definition",
        ),
    ),
    "SM-03": (
        "arguments are validated on the way to the function: defaults applied, other keys refused",
        (
            "conformance/test_effects.py::test_a_function_gets_validated_arguments_or_is_not_called",
            "conformance/test_calls.py::test_every_way_to_a_tool_is_the_same_way",
        ),
    ),
    "SM-04": (
        "side_effect asks for the hook, without it there is none",
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
        "a function may be plain or async, and its value is handed on as it is",
        ("conformance/test_effects.py::test_a_value_is_handed_over_as_the_object_it_is",),
    ),
    "SM-08": (
        "an effect that cannot be repeated and sees no key warns once by name, by signature",
        (
            "core/tools/test_tool_options.py::test_a_tool_that_must_not_be_repeated_and_takes_no_context_warns_once_by_name",
            "conformance/test_effects.py::test_only_an_effect_that_cannot_be_repeated_warns_without_a_context",
            "core/tools/test_tool_options.py::test_a_context_is_known_with_none_beside_it_and_with_a_note",
        ),
    ),
    "SM-09": (
        "a tool is a value with its metadata, wherever it is put",
        ("core/tools/test_foreign.py::test_metadata_is_of_tools_and_none_of_anything_else",),
    ),
    "SM-10": (
        "metadata of anything that is no tool is None",
        ("core/tools/test_foreign.py::test_metadata_is_of_tools_and_none_of_anything_else",),
    ),
    "SM-11": (
        "outside a run a context says so, field by field; made by hand it has defaults",
        (
            "conformance/test_effects.py::test_outside_of_a_run_a_context_says_that_there_is_none",
            "core/calls/test_dispatch.py::test_a_context_made_by_hand_answers_with_defaults_and_calls_nothing",
        ),
    ),
    "SM-12": (
        "what a context says of its call cannot be overridden",
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
        "a key given wins and may not be blank; without a run there is none; tries share it",
        (
            "core/calls/test_dispatch.py::test_a_key_is_given_by_the_caller_of_a_direct_call_or_is_none",
            "core/calls/test_dispatch.py::test_a_failed_call_is_tried_again_and_the_record_says_how_often",
            "core/calls/test_dispatch.py::test_a_key_is_of_the_call_and_not_of_what_was_called_before",
        ),
    ),
    "SM-16": (
        "a key tells tool, arguments and occurrence apart and is equal on replay",
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
        "the ambient context is the very object; outside there is none",
        ("conformance/test_effects.py::test_the_ambient_context_is_of_its_call_alone",),
    ),
    "SM-21": (
        "the hook comes after a success, is awaited, and its failure is no failure of the tool",
        (
            "core/tools/test_foreign.py::test_the_hook_is_awaited_after_a_side_effect_and_cannot_fail_it",
            "conformance/test_effects.py::test_the_hook_is_not_told_of_an_effect_that_a_resumed_run_did_not_have_again",
        ),
    ),
    "SM-58": (
        "events of a call: it began, what it told, it ended; of one that was refused, too",
        (
            "core/calls/test_dispatch.py::test_a_stream_tells_what_happens_and_ends_with_the_result",
            "conformance/test_effects.py::test_a_call_that_was_refused_is_recorded_and_told_as_one_that_was_not_begun",
        ),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "SM-19": (
        "A tool has no counter to advance: the host numbers calls when they are made, which "
        "SM-14 shows."
    ),
    "SM-20": (
        "There is no bag of options for all tools: the root is in the context, and output, "
        "network and time limits are options of the tools that have them (see SM-77, SM-84, "
        "SM-91)."
    ),
}
