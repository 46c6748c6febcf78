"""Names of attributes, spans and metrics.

The names without ``ptc.`` are those of the semantic conventions of OpenTelemetry. The tests compare
them with its package, which is not needed otherwise.
    tests/telemetry/test_names.py
"""

from __future__ import annotations

from typing import Final

__all__ = ["Attribute", "Metric", "Operation"]


class Operation:
    """Values of `Attribute.OPERATION`."""

    RUN: Final = "invoke_workflow"
    CALL: Final = "execute_tool"
    GENERATION: Final = "chat"


class Attribute:
    """Attributes of spans, metrics and log records."""

    OPERATION: Final = "gen_ai.operation.name"
    WORKFLOW: Final = "gen_ai.workflow.name"
    TOOL: Final = "gen_ai.tool.name"
    TOOL_TYPE: Final = "gen_ai.tool.type"
    CALL_ID: Final = "gen_ai.tool.call.id"
    ARGUMENTS: Final = "gen_ai.tool.call.arguments"
    PROVIDER: Final = "gen_ai.provider.name"
    MODEL: Final = "gen_ai.request.model"
    FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
    INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
    CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
    CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
    TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105  # not a password
    ERROR: Final = "error.type"
    LINE: Final = "code.line.number"

    RUN_ID: Final = "ptc.run.id"
    RUN_STATUS: Final = "ptc.run.status"
    RUN_RESUMED: Final = "ptc.run.resumed"
    RUN_REVISION: Final = "ptc.run.revision"
    RUN_QUEUED_MS: Final = "ptc.run.queued_ms"
    RUN_CALLS: Final = "ptc.run.calls"
    RUN_SOURCE: Final = "ptc.run.source"
    RUN_INPUTS: Final = "ptc.run.inputs"
    RUN_VALUE: Final = "ptc.run.value"
    CALL: Final = "ptc.call"
    CALL_STATUS: Final = "ptc.call.status"
    CALL_ATTEMPTS: Final = "ptc.call.attempts"
    CALL_CACHED: Final = "ptc.call.cached"
    CALL_RESULT_BYTES: Final = "ptc.call.result_bytes"
    CALL_EXIT_CODE: Final = "ptc.call.exit_code"
    POOL_STATE: Final = "ptc.pool.state"
    APPROVED: Final = "ptc.approval.approved"
    APPROVED_BY: Final = "ptc.approval.by"


class Metric:
    """Names of instruments."""

    RUNS: Final = "ptc.runs"
    RUN_DURATION: Final = "ptc.run.duration"
    RUN_QUEUED: Final = "ptc.run.queue.duration"
    CALLS: Final = "ptc.calls"
    CALL_DURATION: Final = "gen_ai.execute_tool.duration"
    TOKENS: Final = "gen_ai.client.token.usage"
    VIOLATIONS: Final = "ptc.violations"
    ACTIVE: Final = "ptc.runs.active"
    COST: Final = "ptc.cost"
    POOL_SIZE: Final = "ptc.pool.size"
    POOL_WORKERS: Final = "ptc.pool.workers"
    QUEUE_DEPTH: Final = "ptc.queue.depth"
    QUEUE_AGE: Final = "ptc.queue.age"
    LEASE_AGE: Final = "ptc.lease.age"
