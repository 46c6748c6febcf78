"""The worker inside a WebAssembly guest: its start, and stand-ins for native modules."""
