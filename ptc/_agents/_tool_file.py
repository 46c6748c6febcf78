"""Tools in Markdown files: instructions below a front matter with name, schemas and model.

::

    ---
    kind: prompt
    description: Classify a customer's message. Returns its topic and urgency.
    parameters: {type: object, properties: {text: {type: string}}, required: [text]}
    output_schema: {type: object, properties: {topic: {type: string}}, required: [topic]}
    ---
    Classify the message. Urgent: the customer cannot work.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._core._arguments import nearest, path_of
from .._core._front_matter import read_front_matter
from .._generation._prompt_tool import prompt_tool
from .._tools._tool import Tool
from ..errors import UsageError
from ._agent_tool import agent_tool
from ._kinds import kind_from

__all__ = ["tool_from_file", "tool_from_text"]

_MAX_BYTES = 262_144
_PROMPT_KEYS = (
    "name", "description", "parameters", "output_schema", "model", "settings",
    "max_repair_attempts", "timeout_ms", "examples", "files",
)  # fmt: skip


def tool_from_file(path: str | Path) -> Tool:
    """Make a `Tool` from a Markdown file with the front matter of a prompt or of an agent.

    ``kind: prompt`` or ``kind: agent`` selects `prompt_tool` or `agent_tool`. The other keys are
    the arguments of `prompt_tool`, or those of an agent's file and ``parameters``. Schemas are JSON
    Schemas in YAML. The text below is the instructions. The default name is that of the file.

    Args:
        path: The file. Its instructions are trusted: do not load a file that scripts can write.

    Raises:
        UsageError: If the file cannot be read, or is malformed; the message has its name.
    """
    file = path_of("path", path)
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{file} has more than {_MAX_BYTES:,} bytes")
    return tool_from_text(data, file)


def tool_from_text(data: bytes, file: Path) -> Tool:
    """Make a `Tool` from the content of the file `file`, as `tool_from_file`.

    Raises:
        UsageError: If it is malformed.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{file}: it is not UTF-8") from None
    values, body = read_front_matter(text, where=str(file))
    try:
        return _make(values, body, file.stem)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def _make(values: Mapping[str, Any], body: str, stem: str) -> Tool:
    # A key without a value, as in `model:`, is absent.
    given = {key: value for key, value in values.items() if value is not None}
    kind = given.pop("kind", None)
    if kind not in ("prompt", "agent"):
        msg = f"the front matter needs kind: prompt or kind: agent, not {kind!r:.80}"
        raise UsageError(msg)
    for key in ("parameters", "output_schema"):
        if not isinstance(given.get(key, {}), dict):
            raise UsageError(f"{key} must be a JSON Schema, not {given[key]!r:.80}")
    if kind == "agent":
        parameters = given.pop("parameters", None)
        return agent_tool(kind_from(given, body, stem), parameters=parameters)
    for key in given:
        if key not in _PROMPT_KEYS:
            msg = f"unknown key {key!r:.80}{nearest(key, _PROMPT_KEYS)}; keys: "
            raise UsageError(msg + ", ".join(_PROMPT_KEYS))
    given.setdefault("name", stem)
    given.setdefault("description", "")
    return prompt_tool(instructions=body, **given)
