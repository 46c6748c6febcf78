"""Exported tools in the forms that OpenAI's models call, for its SDK and its Agents SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ptc
from ptc._runs._program_tool import PROGRAM
from ptc.structured._strict import StrictJsonError, loads

from ._export import ExportedTool, Exports
from ._openai_schema import strict_schema, without_nulls

__all__ = ["Offer", "offers"]

_INPUTS = {
    "type": ["string", "null"],
    "description": 'Data for the script as JSON text, such as {"n": 1}; its parameter `inputs`.',
}


@dataclass(frozen=True, slots=True)
class Offer:
    """One exported tool in the form in which a model calls it."""

    tool: ExportedTool
    description: str
    parameters: Mapping[str, Any] | None
    """JSON Schema of the arguments. None: the model sends the source of a script as plain text."""
    strict: bool = False
    """True: `parameters` is in OpenAI's strict form."""

    def read(self, sent: str) -> dict[str, Any]:
        """Convert arguments as the model sent them to those of `Exports.call`.

        Raises:
            UsageError: If they are not a JSON object.
        """
        if self.parameters is None:
            return {"source": sent}
        # Some models send no text if there are no arguments.
        arguments = self._json(sent, "the arguments") if sent.strip() else {}
        if not isinstance(arguments, dict):
            raise ptc.UsageError(f"{self.tool.name}: send the arguments as one JSON object")
        if not self.strict:
            return arguments
        if self.tool.source_name != PROGRAM:
            made: dict[str, Any] = without_nulls(arguments, self.tool.parameters)
            return made
        inputs = arguments.pop("inputs", None)
        if isinstance(inputs, str) and inputs.strip():
            arguments["inputs"] = self._json(inputs, "`inputs`")
        return arguments

    def _json(self, text: str, what: str) -> Any:
        try:
            return loads(text)
        except StrictJsonError as error:
            msg = f"{self.tool.name}: {what} must be valid JSON: {error}"
            raise ptc.UsageError(msg) from None


def offers(exports: Exports, *, strict: bool, text: bool = False) -> Iterator[Offer]:
    """Convert the exported tools.

    Args:
        exports: The tools.
        strict: True: in the strict form, if there is one. The inputs of a script, which are
            free-form data, become JSON text.
        text: True: a script arrives as plain text, and has no inputs.
    """
    for tool in exports:
        if tool.source_name == PROGRAM:
            yield _offer_program(exports, tool, strict=strict, text=text)
            continue
        parameters = strict_schema(tool.parameters) if strict else None
        if parameters is None:
            yield Offer(tool, tool.description, tool.parameters)
        else:
            yield Offer(tool, tool.description, parameters, strict=True)


def _offer_program(exports: Exports, tool: ExportedTool, *, strict: bool, text: bool) -> Offer:
    source = tool.parameters["properties"]["source"]
    if text:
        # A custom tool has no parameters, so the rules are in the description of the tool.
        notes = "Send the source of the script as it is, without JSON and without Markdown."
        return Offer(tool, f"{tool.description}\n\n{notes}\n\n{source['description']}", None)
    # Azure refuses longer descriptions of functions than 1,024 characters.
    session = exports.session
    definition = session.program_definition("openai", exports.allowed_tools, exports.limits)
    description = definition["function"]["description"]
    if not strict:
        return Offer(tool, description, tool.parameters)
    parameters = {
        "type": "object",
        "properties": {"source": source, "inputs": _INPUTS},
        "required": ["source", "inputs"],
        "additionalProperties": False,
    }
    return Offer(tool, description, parameters, strict=True)
