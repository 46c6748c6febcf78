"""The dialects of JSON Schema: which part of it a provider accepts in which mode.

Each row follows the provider's documentation of November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .._dataclass import dataclass
from ._model import MODES, Mode

__all__ = [
    "ARRAY",
    "DIALECTS",
    "GRAMMAR_SERVERS",
    "LENGTHS",
    "LIMITS",
    "OBJECT",
    "ROWS",
    "TEXT",
    "Dialect",
]

TEXT = frozenset({"description", "title"})
_SHAPE = frozenset({"$defs", "$ref", "additionalProperties", "items", "properties", "required"})
_COMMON = _SHAPE | TEXT | {"anyOf", "const", "enum", "format", "type"}
LIMITS = frozenset(
    {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf", "pattern"}
)
LENGTHS = frozenset({"maxItems", "minItems"})
OBJECT = frozenset({"additionalProperties", "properties", "required"})
ARRAY = frozenset({"items", "maxItems", "minItems", "prefixItems"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The part of JSON Schema that a provider accepts in one mode."""

    keywords: frozenset[str] | None = None
    """Accepted keywords; None for all."""
    formats: frozenset[str] = frozenset()
    """Accepted values of ``format``."""
    closed: bool = False
    """True if every object must be closed, so that keys which it does not declare are lost."""
    all_required: bool = False
    """True if every declared property must be required."""
    typed: bool = False
    """True if every schema must have a type."""
    type_lists: bool = True
    """True if ``type`` may be a list."""
    recursive: bool = True
    """True if a definition may contain itself."""
    recursive_if_optional: bool = False
    """True if it may do so only inside of an optional property."""
    most_min_items: int | None = None
    """Largest accepted ``minItems``."""
    most_repetitions: int | None = None
    """Largest accepted length of a text or list: a grammar repeats a rule so often."""
    refs_alone: bool = False
    """True if a reference may have no other keywords beside it."""
    anchored_patterns: bool = False
    """True if a ``pattern`` must describe the whole text."""


DIALECTS: Final[Mapping[str, Dialect]] = {
    # Tools of OpenAI, Anthropic and Mistral that are not strict, and servers like them.
    "any": Dialect(),
    # https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    "openai_strict": Dialect(
        keywords=_COMMON | LIMITS | LENGTHS,
        formats=frozenset(
            "date-time time date duration email hostname ipv4 ipv6 uuid".split()  # noqa: SIM905  # a list of words
        ),
        closed=True,
        all_required=True,
        typed=True,
    ),
    # https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    "anthropic_native": Dialect(
        keywords=_COMMON | {"minItems"},
        formats=frozenset(
            "date-time time date duration email hostname uri ipv4 ipv6 uuid".split()  # noqa: SIM905  # as above
        ),
        closed=True,
        typed=True,
        type_lists=False,
        recursive=False,
        most_min_items=1,
        refs_alone=True,
    ),
    # https://ai.google.dev/api/generate-content#FIELDS.response_json_schema
    "gemini": Dialect(
        keywords=(_COMMON - {"const"}) | LENGTHS | {"maximum", "minimum", "prefixItems"},
        formats=frozenset({"date-time", "date", "time"}),
        recursive_if_optional=True,
        refs_alone=True,
    ),
    # https://github.com/ggml-org/llama.cpp/tree/master/grammars; also Ollama, and vLLM's grammars.
    "grammar": Dialect(
        keywords=_COMMON | LENGTHS | {"maxLength", "minLength", "pattern", "maximum", "minimum"},
        formats=frozenset({"date-time", "date", "time", "uuid"}),
        most_repetitions=1_000,
        refs_alone=True,
        anchored_patterns=True,
    ),
}
"""Rows by name."""

GRAMMAR_SERVERS = frozenset({"llamacpp", "ollama", "vllm"})
"""Servers that make a grammar of the schema, so that every answer conforms to it. The schema is
only a mask: the model does not see it."""
ROWS: Final[Mapping[tuple[str, Mode], str]] = {
    ("openai", "native"): "openai_strict",
    ("anthropic", "native"): "anthropic_native",
    **{(f"google{kind}", mode): "gemini" for kind in ("", "-cloud") for mode in MODES},
    **{(server, "native"): "grammar" for server in GRAMMAR_SERVERS},
}
"""Dialects by provider and mode; all others take any schema whose root is an object."""
