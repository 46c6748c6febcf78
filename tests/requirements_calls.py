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
            "conformance/test_calls.py::test_every_entry_point_validates_and_runs_the_same_tool",
            "core/calls/test_execute.py::test_exception_of_a_tool_function_fails_only_its_call",
        ),
    ),
    "CG-02": (
        "every API validates arguments",
        ("conformance/test_calls.py::test_every_entry_point_validates_and_runs_the_same_tool",),
    ),
    "CG-03": (
        "an option without effect is rejected when the tool is defined",
        ("core/tools/test_tool_options.py::test_meaningless_tool_option_is_refused_at_definition",),
    ),
    "CG-04": (
        "the stages of a call run in order; a cached result is returned even with an open breaker",
        (
            "conformance/test_calls.py::test_call_stages_run_in_order_and_stop_at_the_first_refusal",
            "conformance/test_calls.py::test_cached_result_is_returned_while_the_circuit_breaker_is_open",
            "core/calls/test_dispatch.py::test_zero_max_executions_rejects_before_approval",
            "conformance/test_calls.py::test_call_over_budget_is_rejected_before_lookup",
        ),
    ),
    "CG-05": (
        "an unknown tool is an error that names the nearest tool, and is recorded",
        (
            "conformance/test_calls.py::test_unknown_tool_error_suggests_the_nearest_name_and_is_recorded",
        ),
    ),
    "CG-06": (
        "errors name each argument; numeric text converts to a number; shapes are not repaired",
        (
            "core/tools/test_tool.py::test_invalid_arguments_are_reported_individually",
            "core/tools/test_tool.py::test_valid_arguments_are_parsed_and_get_their_defaults",
            "conformance/test_calls.py::test_argument_of_another_shape_is_rejected_and_not_coerced",
        ),
    ),
    "CG-07": (
        "arguments of another shape are not converted to the tool's shape",
        ("conformance/test_calls.py::test_argument_of_another_shape_is_rejected_and_not_coerced",),
    ),
    "CG-08": (
        "every tool can detect its cancellation",
        (
            "conformance/test_calls.py::test_sync_tool_observes_cancellation_of_its_caller",
            "conformance/test_calls.py::test_async_tool_is_cancelled_at_its_await",
        ),
    ),
    "CG-09": (
        "a value that is not JSON is a defined error with its path; falsy values survive",
        ("conformance/test_calls.py::test_result_without_json_form_is_an_error_naming_its_path",),
    ),
    "CG-10": (
        "an error of a tool ends its call and nothing else",
        ("core/calls/test_execute.py::test_exception_of_a_tool_function_fails_only_its_call",),
    ),
    "CG-40": (
        "a limit of executions is an integer from 0, or None",
        (
            "conformance/test_calls.py::test_invalid_max_executions_per_run_is_rejected",
            "core/calls/test_dispatch.py::test_zero_max_executions_rejects_before_approval",
            "conformance/test_calls.py::test_tool_without_max_executions_per_run_is_unlimited",
            "core/calls/test_dispatch.py::test_parallel_calls_cannot_exceed_max_executions",
        ),
    ),
    "CG-41": (
        "failed calls and cached results do not count as executions",
        ("core/calls/test_dispatch.py::test_failed_and_cached_calls_do_not_count_as_executions",),
    ),
    "CG-42": (
        "parallel calls cannot exceed a limit together",
        (
            "core/calls/test_dispatch.py::test_parallel_calls_cannot_exceed_max_executions",
            "core/calls/test_call_properties.py::test_no_order_of_calls_exceeds_max_executions",
        ),
    ),
    "CG-43": (
        "a limit applies to one run; all direct calls of a session count as one run",
        (
            "core/calls/test_dispatch.py::test_parallel_calls_cannot_exceed_max_executions",
            "conformance/test_calls.py::test_call_stages_run_in_order_and_stop_at_the_first_refusal",
        ),
    ),
    "CG-44": (
        "the call limit of a run is reported, and reserved before each call",
        (
            "core/records/test_limits.py::test_call_over_the_limit_raises_and_the_script_can_return",
            "core/records/test_limits.py::test_parallel_calls_cannot_exceed_max_tool_calls",
        ),
    ),
    "CG-45": (
        "gathered calls run concurrently up to a limit, and return their results in order",
        (
            "conformance/test_calls.py::test_gathered_calls_run_concurrently_and_return_in_order",
            "conformance/test_calls.py::test_concurrent_calls_never_exceed_max_in_flight",
        ),
    ),
    "CG-50": (
        "the same call of a run is executed once, and the record says so",
        (
            "core/calls/test_dispatch.py::test_equal_calls_of_a_run_execute_once_and_are_recorded_as_cached",
        ),
    ),
    "CG-51": (
        "calls are equal by validated arguments including defaults, or by a key function",
        (
            "conformance/test_calls.py::test_defaults_and_key_order_do_not_change_the_cache_key",
            "core/calls/test_dispatch.py::test_cache_key_function_defines_equality_within_one_tool",
            "core/calls/test_dispatch.py::test_equal_calls_of_a_run_execute_once_and_are_recorded_as_cached",
        ),
    ),
    "CG-52": (
        "a result is cached for its time; 0 shares it with waiting calls only; expired ones rerun",
        (
            "core/calls/test_dispatch.py::test_cached_value_expires_and_zero_lifetime_caches_nothing",
        ),
    ),
    "CG-53": (
        "an unknown cache scope is rejected",
        ("core/tools/test_tool_options.py::test_meaningless_cache_or_retry_is_refused",),
    ),
    "CG-54": (
        "a cache belongs to its run or to its session",
        (
            "core/calls/test_dispatch.py::test_equal_calls_of_a_run_execute_once_and_are_recorded_as_cached",
            "core/calls/test_dispatch.py::test_session_cache_is_shared_by_runs_and_direct_calls",
        ),
    ),
    "CG-55": (
        "cached values are copies",
        ("core/calls/test_dispatch.py::test_mutating_a_cached_value_does_not_change_the_cache",),
    ),
    "CG-56": (
        "errors are not cached, None is",
        ("core/calls/test_dispatch.py::test_errors_are_not_cached_but_none_is",),
    ),
    "CG-57": (
        "equal concurrent calls are executed once",
        (
            "core/calls/test_dispatch.py::test_concurrent_equal_calls_execute_once",
            "core/calls/test_call_properties.py::test_equal_calls_execute_once_in_any_order",
        ),
    ),
    "CG-58": (
        "record and event report that a result came from the cache",
        (
            "conformance/test_calls.py::test_event_of_a_cached_call_is_marked_as_cached",
            "core/calls/test_dispatch.py::test_equal_calls_of_a_run_execute_once_and_are_recorded_as_cached",
        ),
    ),
    "CG-59": (
        "a tool with a side effect has no cache",
        ("core/tools/test_tool_options.py::test_meaningless_tool_option_is_refused_at_definition",),
    ),
    "CG-60": (
        "no retry by default; with retries at most 1 + max_retries executions",
        (
            "core/calls/test_dispatch.py::test_exhausted_retries_return_the_last_error",
            "core/calls/test_dispatch.py::test_breaker_opens_after_repeated_failures",
        ),
    ),
    "CG-61": (
        "the delay doubles up to its cap; 0 means no delay",
        ("core/calls/test_dispatch.py::test_backoff_doubles_up_to_its_maximum_and_may_be_zero",),
    ),
    "CG-62": (
        "should_retry is called after every failure; an error or any result but True ends retries",
        (
            "core/calls/test_dispatch.py::test_exhausted_retries_return_the_last_error",
            "core/calls/test_execute.py::test_failing_should_retry_keeps_the_error_of_the_tool",
            "conformance/test_calls.py::test_failure_is_retried_only_while_should_retry_returns_true",
        ),
    ),
    "CG-63": (
        "cancellation ends the delay",
        ("core/calls/test_dispatch.py::test_cancelled_call_does_not_wait_for_its_backoff",),
    ),
    "CG-64": (
        "a call has one record, with the number of attempts",
        (
            "core/calls/test_dispatch.py::test_failed_call_is_retried_and_the_record_counts_the_attempts",
        ),
    ),
    "CG-66": (
        "an open breaker rejects calls with its own code, without calling the tool",
        ("core/calls/test_dispatch.py::test_breaker_opens_after_repeated_failures",),
    ),
    "CG-67": (
        "a breaker lets one call through after its cool-down, and belongs to one session",
        (
            "core/calls/test_dispatch.py::test_open_breaker_admits_one_call_after_its_cool_down",
            "conformance/test_calls.py::test_circuit_breaker_state_is_not_shared_between_sessions",
            "core/calls/test_dispatch.py::test_cancelled_call_does_not_count_as_a_breaker_failure",
        ),
    ),
    "CG-68": (
        "parallel failures cannot exceed the threshold together",
        (
            "core/calls/test_dispatch.py::test_parallel_calls_cannot_exceed_the_breaker_threshold",
            "core/calls/test_call_properties.py::test_no_order_of_calls_bypasses_an_open_breaker",
        ),
    ),
    "CG-70": (
        "objects with invoke, call, run or func, in that order, and callables",
        (
            "core/tools/test_foreign.py::test_first_documented_method_of_a_foreign_tool_is_called",
            "core/tools/test_foreign.py::test_func_is_called_with_keywords_if_its_signature_has_them",
            "core/tools/test_foreign.py::test_foreign_tool_without_a_schema_uses_its_signature",
            "core/tools/test_foreign.py::test_undeclared_foreign_tool_is_not_allowed_by_default",
            "core/tools/test_result_formats.py::test_script_cannot_take_a_returned_failure_for_data",
        ),
    ),
    "CG-71": (
        "a name is found or required; a ptc tool is returned unchanged",
        (
            "core/tools/test_foreign.py::test_object_that_is_not_a_tool_is_refused_with_the_reason",
            "core/tools/test_foreign.py::test_metadata_exists_for_tools_only",
            "core/tools/test_foreign.py::test_foreign_schema_is_found_under_its_usual_names_and_enforced",
        ),
    ),
    "CG-73": (
        "two tools with the same name are rejected",
        ("core/tools/test_tool.py::test_duplicate_tools_are_refused_and_functions_are_accepted",),
    ),
    "W2": (
        "an allow-list holds through every tool that can call tools; a new one cannot be forgotten",
        (
            "conformance/test_transitive_allow_lists.py::test_every_tool_that_can_call_tools_has_a_driver",
            "conformance/test_transitive_allow_lists.py::test_every_module_that_calls_tools_belongs_to_a_tool_with_a_driver",
            "conformance/test_transitive_allow_lists.py::test_search_finds_a_power_behind_a_helper_a_class_and_an_import",
            "conformance/test_transitive_allow_lists.py::test_allow_list_without_write_holds_for_every_tool_that_calls_tools",
            "conformance/test_transitive_allow_lists.py::test_allow_list_holds_through_two_tools_that_call_tools",
            "conformance/test_transitive_allow_lists.py::test_rule_on_arguments_holds_for_every_tool_that_calls_tools",
        ),
    ),
}

NOT_TAKEN: dict[str, str] = {
    "CG-72": (
        "The bindings pass tools to other libraries, one module for each; a function that "
        "returns its input when a library is missing would fail silently."
    ),
}
