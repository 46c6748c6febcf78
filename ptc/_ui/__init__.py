"""The page of ``ptc ui``: recorded runs, approvals and scripts in a browser."""
