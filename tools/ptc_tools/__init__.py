"""The built-in tools, one file a tool."""
