"""Saved programs: scripts that worked, stored in readable files, each a tool of the session."""
