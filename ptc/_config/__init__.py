"""Configuration: keys, their sources and precedence, and the tools that it names."""
