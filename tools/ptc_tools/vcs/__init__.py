"""The git tool."""
