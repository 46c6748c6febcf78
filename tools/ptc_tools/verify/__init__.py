"""Verification: run checks as confined commands, and report the evidence of each."""
