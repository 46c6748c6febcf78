"""The language layer of the sandbox: which Python a script may contain.

Only the worker imports it.
"""
