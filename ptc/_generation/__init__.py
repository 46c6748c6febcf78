"""Schema-valid answers from a language model, through a repair loop."""
