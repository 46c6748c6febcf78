"""Process that runs one GGUF file through llama.cpp. `_gguf_process` starts it as a script.

It serves the HTTP API of llama.cpp on a Unix socket in a folder that only this user can enter. It
imports nothing of ptc, and ends with the process that started it: that holds its standard input.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["main"]

_PROMPT_BATCH = 128
"""Tokens of a prompt that are read at a time, and so between looks at a lost connection."""
_LOG_ERRORS = 1


def main() -> None:
    """Load the model, create the file ``ready``, and serve until standard input ends."""
    xllamacpp: Any = import_module("xllamacpp")  # a compiled module without types
    options = json.loads(sys.argv[1])
    folder = Path(options["folder"])
    params = xllamacpp.CommonParams()
    params.model.path = options["path"]
    # The context is divided among the slots.
    params.n_parallel = options["parallel"]
    params.n_ctx = options["n_ctx"] * options["parallel"]
    if options["threads"] is not None:
        params.cpuparams.n_threads = options["threads"]
        params.cpuparams_batch.n_threads = options["threads"]
    if options["gpu_layers"] is not None:
        params.n_gpu_layers = options["gpu_layers"]
    params.n_batch = _PROMPT_BATCH
    params.hostnames = [str(folder / "model.sock")]
    params.verbosity = _LOG_ERRORS
    params.warmup = False
    # Prompts of others stay in the slots only, not in up to 8 GiB beside them.
    params.cache_ram_mib = 0
    server = xllamacpp.Server(params)  # noqa: F841  # it serves as long as it exists
    (folder / "ready").touch()
    sys.stdin.buffer.read()
    # The process that would have deleted it was killed.
    shutil.rmtree(folder, ignore_errors=True)
    # At once: the requests in flight have no reader any more.
    os._exit(0)


if __name__ == "__main__":
    main()
