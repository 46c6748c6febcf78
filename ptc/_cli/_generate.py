"""``ptc generate``: have a model generate data that matches a JSON Schema."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ._options import json_option, settings_options
from ._status import COMPLETED, EXIT_STATUS_HELP, FAILED

if TYPE_CHECKING:
    from .._config._settings import Settings
    from .._generation._generate import Generated
    from .._generation._prompt import Part
    from ..errors import GenerationError

__all__ = ["command"]

_HELP = """Have a model generate data that matches a JSON Schema. The output is always valid.

The text of FILE (`-` reads standard input) is appended to the prompt. Damaged JSON is repaired if
it has exactly one meaning; an answer that violates the schema is returned to the model with its
errors.

\b
Examples:
  ptc generate --schema invoice.json --prompt "Extract the invoice." a.txt --model openai:gpt-5
  ptc generate --schema invoice.json --prompt "Extract the invoice." --attach scan.pdf
  export PTC_MODEL=anthropic:claude-opus-5
  pdftotext a.pdf - | ptc generate --schema invoice.json --prompt "Extract the invoice." -
"""

_MAX_BYTES = 8_388_608
"""More than any model's context window."""


@click.command(
    "generate", short_help="Have a model fill in a schema.", help=_HELP, epilog=EXIT_STATUS_HELP
)
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--schema", required=True, metavar="FILE", help="JSON Schema of the data.")
@click.option("--prompt", required=True, metavar="TEXT", help="The task.")
@click.option(
    "--attach",
    multiple=True,
    metavar="FILE",
    help="Image, PDF or Office file to send with the prompt; may be repeated.",
)
@click.option("--system", metavar="TEXT", help="System instructions for the model.")
@click.option(
    "--schema-name",
    default="result",
    metavar="NAME",
    help="Name of the schema, shown to the model. [default: result]",
)
@click.option(
    "--schema-description", metavar="TEXT", help="Description of the data, shown to the model."
)
@click.option(
    "--mode",
    type=click.Choice(["auto", "tool", "native", "prompt"]),
    default="auto",
    help="How to request structured output. [default: auto, by the model's features]",
)
@click.option(
    "--max-repair-attempts",
    type=int,
    default=2,
    metavar="N",
    help="Further attempts after an invalid answer, 0 to 5. [default: 2]",
)
@click.option("--max-tokens", type=int, metavar="N", help="Maximum tokens per answer.")
@click.option(
    "--timeout-ms",
    type=int,
    default=120_000,
    metavar="N",
    help="Wall time of all attempts together. [default: 120,000]",
)
@settings_options("model")
@json_option("Print the value with attempts, repairs, mode and usage, as JSON.")
def command(
    *,
    file: str | None,
    schema: str,
    prompt: str,
    attach: tuple[str, ...],
    settings: Settings,
    as_json: bool,
    **options: Any,
) -> int:
    """Run the command; `_HELP` is its help text."""
    import anyio

    from .._generation._generate import generate_object
    from ..errors import GenerationError, UsageError
    from ..models._open import OpenModels
    from ._inputs import read_object, read_text
    from ._terminal import standard_error, standard_output

    model = settings.model()
    wanted = read_object(schema, "--schema")
    if file is not None:
        prompt = f"{prompt}\n\n{read_text(file, 'FILE', f'FILE {file!r}', _MAX_BYTES)}"
    parts: list[Part] = [prompt, *map(Path, attach)]
    max_tokens = options.pop("max_tokens")
    model_settings = {"max_tokens": max_tokens} if max_tokens is not None else {}

    async def ask() -> Generated[Any]:
        models = OpenModels(model)
        try:
            return await generate_object(
                models, wanted, parts if attach else prompt, settings=model_settings, **options
            )
        finally:
            with anyio.CancelScope(shield=True):
                await models.aclose()

    errors, output = standard_error(), standard_output()
    try:
        found = anyio.run(ask)
    except UsageError as error:
        raise settings.explain(error) from None
    except GenerationError as error:
        errors.line(f"Error: {error}", "bold red")
        if as_json:
            output.json(_failure(error))
        return FAILED
    for number, attempt in enumerate(found.attempts, 1):
        for violation in attempt.violations:
            errors.line(f"attempt {number}: {violation}", "dim")
    for repair in found.repairs:
        errors.line(f"repaired: {repair.path or '(root)'} {repair.kind}", "dim")
    output.json(_whole(found) if as_json else found.value)
    return COMPLETED


def _whole(found: Generated[Any]) -> dict[str, Any]:
    from .._generation._tool import to_row

    return asdict(to_row(found, raw_text=True))


def _failure(error: GenerationError) -> dict[str, Any]:
    return {
        "error": str(error),
        "reason": error.reason,
        "attempts": [
            {"violations": [str(v) for v in attempt.violations], "text": attempt.text}
            for attempt in error.attempts
        ],
        "usage": asdict(error.usage) if error.usage is not None else None,
    }
