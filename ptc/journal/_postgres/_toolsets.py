"""Sets of tools, by which workers and submitted runs find each other.

The engine that has started a run is required like a tool, by a name that no tool can have.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from ..._core import _json
from ..._records._engine_names import family_of

__all__ = ["digest_of", "encode_tools", "missing_tools", "read_tools", "with_engine"]


def with_engine(tools: Mapping[str, str], engine: str) -> dict[str, str]:
    """Return a set of tools with an engine."""
    return {**tools, f"engine {family_of(engine)}": ""}


def encode_tools(tools: Mapping[str, str]) -> str:
    """Return a set of tools as JSON."""
    return _json.dumps(dict(tools)).decode()


def digest_of(tools: Mapping[str, str]) -> str:
    """Return the digest of a set of tools."""
    return sha256(_json.dumps(dict(sorted(tools.items())))).hexdigest()[:32]


def read_tools(text: str) -> dict[str, str]:
    """Return a set of tools; of a damaged one, a set that no worker has."""
    try:
        tools = _json.loads(text)
    except ValueError:
        tools = None
    return tools if isinstance(tools, dict) else {"": ""}


def missing_tools(required: Mapping[str, str], tools: Mapping[str, str]) -> list[str]:
    """Return the names of required tools that `tools` lacks, or has with another digest."""
    return sorted(name for name, digest in required.items() if tools.get(name) != digest)
