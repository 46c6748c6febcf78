"""Confined commands: the launcher behind the tools `bash` and `git`, and its broker."""
