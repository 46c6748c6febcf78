"""Adapters between ptc and other frameworks, one module each. This package imports none of them."""
