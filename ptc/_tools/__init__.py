"""Definition of tools: declaration, options, results, and sets of tools. Calls are in `_calls`."""
