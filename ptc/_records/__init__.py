"""Plain data that every package may use: limits, results, content, artifacts."""
