"""One script: execution, limits, replay, outcome and history."""
