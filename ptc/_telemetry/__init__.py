"""Spans, metrics and log fields of runs through OpenTelemetry, which is optional."""
