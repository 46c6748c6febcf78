"""Storage of runs: the interface, SQLite, and the location of the file. Interprets nothing."""
