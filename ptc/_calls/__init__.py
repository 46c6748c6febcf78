"""One tool call: look-up, validation, approval, execution, retries, recording."""
