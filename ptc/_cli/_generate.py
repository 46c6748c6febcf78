"""``ptc generate``: data from a model, by a schema."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ._options import json_option, model_option
from ._status import COMPLETED, EXIT_STATUS_HELP, FAILED

if TYPE_CHECKING:
    from .._generation._generate import Generated
    from ..errors import GenerationError

__all__ = ["command"]

_HELP = """Ask a model for data that conforms to a JSON Schema; what is printed does.

FILE (`-` reads standard input) is given to the model after the prompt. Damaged JSON is mended where
it has one meaning only; what breaks the schema goes back to the model with what is wrong.

\b
Examples:
  ptc generate --schema invoice.json --prompt "Extract the invoice." a.txt --model openai:gpt-5
  export PTC_MODEL=anthropic:claude-opus-5
  pdftotext a.pdf - | ptc generate --schema invoice.json --prompt "Extract the invoice." -
"""

_MOST_BYTES = 8_388_608
"""More than any model reads at once."""


@click.command(
    "generate", short_help="Data from a model, by a schema.", help=_HELP, epilog=EXIT_STATUS_HELP
)
@click.argument("file", metavar="[FILE]", required=False)
@click.option("--schema", required=True, metavar="FILE", help="JSON Schema of what is wanted.")
@click.option("--prompt", required=True, metavar="TEXT", help="The task.")
@click.option("--system", metavar="TEXT", help="Instructions.")
@click.option("--schema-name", default="result", metavar="NAME", help="What the answer is called.")
@click.option("--schema-description", metavar="TEXT", help="What the answer is.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "tool", "native", "prompt"]),
    default="auto",
    help="How the model is brought to answer in the form. [default: auto, what works]",
)
@click.option(
    "--max-repair-attempts",
    type=int,
    default=2,
    metavar="N",
    help="How often it is asked again, 0 to 5. [default: 2]",
)
@click.option("--max-tokens", type=int, metavar="N", help="Room for one answer.")
@click.option(
    "--timeout-ms",
    type=int,
    default=120_000,
    metavar="N",
    help="Time for all of it. [default: 120,000]",
)
@model_option
@json_option("Print attempts, repairs, mode and usage as well, as JSON.")
def command(
    *, file: str | None, schema: str, prompt: str, model: str | None, as_json: bool, **options: Any
) -> int:
    """Run the command; the docstring for users is `_HELP`."""
    import anyio

    from .._generation._generate import generate_object
    from ..errors import GenerationError, UsageError
    from ..models._open import OpenModels
    from ._inputs import read_object, read_text
    from ._options import in_words_of_options
    from ._terminal import standard_error, standard_output

    if model is None:
        msg = "no model is given: --model provider:name, or PTC_MODEL in the environment"
        raise UsageError(msg)
    wanted = read_object(schema, "--schema")
    if file is not None:
        prompt = f"{prompt}\n\n{read_text(file, 'FILE', f'FILE {file!r}', _MOST_BYTES)}"
    room = options.pop("max_tokens")
    settings = {"max_tokens": room} if room is not None else {}

    async def ask() -> Generated[Any]:
        models = OpenModels(model)
        try:
            return await generate_object(models, wanted, prompt, settings=settings, **options)
        finally:
            with anyio.CancelScope(shield=True):
                await models.aclose()

    errors, output = standard_error(), standard_output()
    try:
        found = anyio.run(ask)
    except UsageError as error:
        raise in_words_of_options(error) from None
    except GenerationError as error:
        errors.line(f"Error: {error}", "bold red")
        if as_json:
            output.json(_failure(error))
        return FAILED
    for number, attempt in enumerate(found.attempts, 1):
        for violation in attempt.violations:
            errors.line(f"attempt {number}: {violation}", "dim")
    for repair in found.repairs:
        errors.line(f"mended: {repair.path or '(root)'} {repair.kind}", "dim")
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
