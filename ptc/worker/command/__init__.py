"""Confined commands: the launcher of `bash` and `git`, and its broker."""
