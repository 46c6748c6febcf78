"""JSON Schema of Python types: derive, publish and validate."""
