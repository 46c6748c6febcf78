"""Generate schema-valid data with a language model, through a repair loop."""
