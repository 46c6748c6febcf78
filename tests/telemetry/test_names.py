"""Names of attributes against the package of the semantic conventions."""

from __future__ import annotations

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import code_attributes, error_attributes

from ptc._telemetry._names import Attribute, Metric, Operation


def constants(*holders: object) -> set[str]:
    found = (getattr(holder, name) for holder in holders for name in vars(holder) if name.isupper())
    return {value for value in found if isinstance(value, str)}


def test_attributes_that_are_not_ours_are_conventions() -> None:
    known = constants(conventions, code_attributes, error_attributes)
    ours = constants(Attribute)
    assert {name for name in ours if not name.startswith("ptc.")} <= known


def test_operations_are_conventions() -> None:
    known = {value.value for value in conventions.GenAiOperationNameValues}
    assert constants(Operation) <= known


def test_metrics_that_are_not_ours_are_conventions() -> None:
    # Its convention is newer than the package.
    newer = {"gen_ai.execute_tool.duration"}
    others = {name for name in constants(Metric) if not name.startswith("ptc.")}
    assert others - newer <= constants(gen_ai_metrics)
