"""Storage of runs: tables, SQLite, and where the file lies. It interprets nothing."""
