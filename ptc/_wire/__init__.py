"""The protocol between host and worker: frames, their order, and JSON bodies.

Pure: no I/O, no knowledge of either side. Both sides import it.
"""
