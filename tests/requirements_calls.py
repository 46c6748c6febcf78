"""Requirements of limits, caching, retries and foreign tools: id -> claim and tests.

``tests/requirements.md`` explains the ids. `NOT_TAKEN` has the requirements that ptc does not
adopt, with the reason.
"""

from __future__ import annotations

__all__ = ["CALLS", "NOT_TAKEN"]

CALLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "CG-01": (
        "sync and async functions can be called through every API; errors propagate",
        (
            "conformance/test_calls.py::test_every_way_to_a_tool_is_the_same_way",
            "core/calls/test_execute.py::test_what_a_function_raises_ends_its_call_and_nothing_else",
        ),
    ),
    "CG-02": (
        "every API validates arguments",
        ("conformance/test_calls.py::test_every_way_to_a_tool_is_the_same_way",),
    ),
    "CG-03": (
        "an option without effect is rejected when the tool is defined",
        (
            "core/tools/test_tool_options.py::test_an_option_that_means_nothing_is_refused_where_it_is_written",
        ),
    ),
    "CG-04": (
        "the stages of a call run in order; a cached result is returned even with an open breaker",
        (
            "conformance/test_calls.py::test_the_stages_of_a_call_come_in_their_order",
            "conformance/test_calls.py::test_a_kept_result_is_served_though_the_breaker_is_open",
            "core/calls/test_dispatch.py::test_zero_executions_is_never_and_asks_nobody",
            "conformance/test_calls.py::test_a_call_over_the_runs_budget_asks_nobody_and_is_looked_up_nowhere",
        ),
    ),
    "CG-05": (
        "an unknown tool is an error that names the nearest tool, and is recorded",
        ("conformance/test_calls.py::test_an_unknown_tool_is_named_with_its_nearest_and_recorded",),
    ),
    "CG-06": (
        "errors name each argument; numeric text converts to a number; shapes are not repaired",
        (
            "core/tools/test_tool.py::test_wrong_arguments_are_named_one_by_one",
            "core/tools/test_tool.py::test_valid_arguments_arrive_parsed_with_their_defaults",
            "conformance/test_calls.py::test_no_argument_is_guessed_from_another_shape",
        ),
    ),
    "CG-07": (
        "arguments of another shape are not converted to the tool's shape",
        ("conformance/test_calls.py::test_no_argument_is_guessed_from_another_shape",),
    ),
    "CG-08": (
        "every tool can detect its cancellation",
        (
            "conformance/test_calls.py::test_a_plain_function_sees_that_nobody_waits_any_more",
            "conformance/test_calls.py::test_an_async_function_is_cancelled_where_it_waits",
        ),
    ),
    "CG-09": (
        "a value that is not JSON is a defined error with its path; falsy values survive",
        (
            "conformance/test_calls.py::test_a_value_without_a_json_form_is_a_defined_error_with_its_path",
        ),
    ),
    "CG-10": (
        "an error of a tool ends its call and nothing else",
        ("core/calls/test_execute.py::test_what_a_function_raises_ends_its_call_and_nothing_else",),
    ),
    "CG-40": (
        "a limit of executions is an integer from 0, or None",
        (
            "conformance/test_calls.py::test_a_limit_of_executions_that_is_no_whole_number_is_refused",
            "core/calls/test_dispatch.py::test_zero_executions_is_never_and_asks_nobody",
            "conformance/test_calls.py::test_without_a_limit_of_its_own_a_tool_is_done_as_often_as_asked",
            "core/calls/test_dispatch.py::test_parallel_calls_cannot_pass_a_limit_of_executions_together",
        ),
    ),
    "CG-41": (
        "failed calls and cached results do not count as executions",
        ("core/calls/test_dispatch.py::test_what_failed_or_was_kept_is_no_execution",),
    ),
    "CG-42": (
        "parallel calls cannot exceed a limit together",
        (
            "core/calls/test_dispatch.py::test_parallel_calls_cannot_pass_a_limit_of_executions_together",
            "core/calls/test_call_properties.py::test_no_order_of_calls_passes_a_limit_of_executions",
        ),
    ),
    "CG-43": (
        "a limit applies to one run; all direct calls of a session count as one run",
        (
            "core/calls/test_dispatch.py::test_parallel_calls_cannot_pass_a_limit_of_executions_together",
            "conformance/test_calls.py::test_the_stages_of_a_call_come_in_their_order",
        ),
    ),
    "CG-44": (
        "the call limit of a run is reported, and reserved before each call",
        (
            "core/records/test_limits.py::test_the_call_after_the_last_raises_and_the_script_can_return",
            "core/records/test_limits.py::test_parallel_calls_cannot_pass_the_limit",
        ),
    ),
    "CG-45": (
        "gathered calls run concurrently up to a limit, and return their results in order",
        (
            "conformance/test_calls.py::test_gathered_calls_run_together_and_answer_in_their_order",
            "conformance/test_calls.py::test_no_more_calls_are_under_way_than_a_run_may_have",
        ),
    ),
    "CG-50": (
        "the same call of a run is executed once, and the record says so",
        (
            "core/calls/test_dispatch.py::test_the_same_call_of_a_run_is_made_once_and_the_record_says_so",
        ),
    ),
    "CG-51": (
        "calls are equal by validated arguments including defaults, or by a key function",
        (
            "conformance/test_calls.py::test_defaults_and_the_order_of_keys_do_not_make_another_call",
            "core/calls/test_dispatch.py::test_a_key_function_says_what_is_the_same_and_never_crosses_tools",
            "core/calls/test_dispatch.py::test_the_same_call_of_a_run_is_made_once_and_the_record_says_so",
        ),
    ),
    "CG-52": (
        "a result is cached for its time; 0 shares it with waiting calls only; expired ones rerun",
        (
            "core/calls/test_dispatch.py::test_a_kept_value_ends_with_its_time_and_zero_serves_only_those_who_wait",
        ),
    ),
    "CG-53": (
        "an unknown cache scope is rejected",
        ("core/tools/test_tool_options.py::test_a_cache_or_a_retry_that_means_nothing_is_refused",),
    ),
    "CG-54": (
        "a cache belongs to its run or to its session",
        (
            "core/calls/test_dispatch.py::test_the_same_call_of_a_run_is_made_once_and_the_record_says_so",
            "core/calls/test_dispatch.py::test_a_cache_of_the_session_serves_all_runs_and_direct_calls",
        ),
    ),
    "CG-55": (
        "cached values are copies",
        ("core/calls/test_dispatch.py::test_who_changes_a_kept_value_changes_only_his_own",),
    ),
    "CG-56": (
        "errors are not cached, None is",
        ("core/calls/test_dispatch.py::test_errors_are_not_kept_and_none_is",),
    ),
    "CG-57": (
        "equal concurrent calls are executed once",
        (
            "core/calls/test_dispatch.py::test_equal_calls_at_once_are_made_once",
            "core/calls/test_call_properties.py::test_equal_calls_are_made_once_in_whatever_order_they_come",
        ),
    ),
    "CG-58": (
        "record and event report that a result came from the cache",
        (
            "conformance/test_calls.py::test_the_event_of_a_kept_result_says_that_it_was_kept",
            "core/calls/test_dispatch.py::test_the_same_call_of_a_run_is_made_once_and_the_record_says_so",
        ),
    ),
    "CG-59": (
        "a tool with a side effect has no cache",
        (
            "core/tools/test_tool_options.py::test_an_option_that_means_nothing_is_refused_where_it_is_written",
        ),
    ),
    "CG-60": (
        "no retry by default; with retries at most 1 + max_retries executions",
        (
            "core/calls/test_dispatch.py::test_tries_end_and_the_last_error_is_the_result",
            "core/calls/test_dispatch.py::test_a_tool_that_keeps_failing_is_left_alone",
        ),
    ),
    "CG-61": (
        "the delay doubles up to its cap; 0 means no delay",
        ("core/calls/test_dispatch.py::test_the_wait_doubles_up_to_its_cap_and_zero_is_no_wait",),
    ),
    "CG-62": (
        "should_retry is called after every failure; an error or any result but True ends retries",
        (
            "core/calls/test_dispatch.py::test_tries_end_and_the_last_error_is_the_result",
            "core/calls/test_execute.py::test_a_predicate_of_retries_that_fails_leaves_the_tools_own_error",
            "conformance/test_calls.py::test_a_failure_is_retried_while_should_retry_says_true",
        ),
    ),
    "CG-63": (
        "cancellation ends the delay",
        ("core/calls/test_dispatch.py::test_a_cancelled_call_does_not_wait_for_its_next_try",),
    ),
    "CG-64": (
        "a call has one record, with the number of attempts",
        (
            "core/calls/test_dispatch.py::test_a_failed_call_is_tried_again_and_the_record_says_how_often",
        ),
    ),
    "CG-66": (
        "an open breaker rejects calls with its own code, without calling the tool",
        ("core/calls/test_dispatch.py::test_a_tool_that_keeps_failing_is_left_alone",),
    ),
    "CG-67": (
        "a breaker lets one call through after its cool-down, and belongs to one session",
        (
            "core/calls/test_dispatch.py::test_an_open_breaker_lets_one_call_through_after_its_cool_down",
            "conformance/test_calls.py::test_a_failure_of_the_breaker_is_of_this_session_alone",
            "core/calls/test_dispatch.py::test_a_cancelled_call_is_no_failure_to_the_breaker",
        ),
    ),
    "CG-68": (
        "parallel failures cannot exceed the threshold together",
        (
            "core/calls/test_dispatch.py::test_parallel_calls_cannot_pass_the_breaker_together",
            "core/calls/test_call_properties.py::test_no_order_of_calls_passes_an_open_breaker",
        ),
    ),
    "CG-70": (
        "objects with invoke, call, run or func, in that order, and callables",
        (
            "core/tools/test_foreign.py::test_the_first_of_the_documented_methods_runs_it",
            "core/tools/test_foreign.py::test_func_gets_keywords_if_its_signature_has_them",
            "core/tools/test_foreign.py::test_without_a_schema_the_signature_is_one",
        ),
    ),
    "CG-71": (
        "a name is found or required; a ptc tool is returned unchanged",
        (
            "core/tools/test_foreign.py::test_what_is_no_tool_is_refused_with_the_reason",
            "core/tools/test_foreign.py::test_metadata_is_of_tools_and_none_of_anything_else",
            "core/tools/test_foreign.py::test_a_schema_is_found_under_its_usual_names_and_held_to",
        ),
    ),
    "CG-73": (
        "two tools with the same name are rejected",
        ("core/tools/test_tool.py::test_duplicates_are_refused_and_functions_are_taken",),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "CG-72": (
        "The bindings pass tools to other libraries, one module for each; a function that "
        "returns its input when a library is missing would fail silently."
    ),
}
