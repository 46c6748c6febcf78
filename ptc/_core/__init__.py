"""Small services that any room may use: JSON, argument checks, redaction, event loops."""
