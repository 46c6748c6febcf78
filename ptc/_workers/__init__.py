"""The host's side of processes: start, pool, confine and kill them."""
