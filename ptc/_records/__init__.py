"""Plain data that every room may hold: limits, results, content, artifacts."""
