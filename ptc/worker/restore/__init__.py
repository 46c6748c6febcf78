"""Restoring a worker: after a run, the restorer puts the process back to what it was before it."""
