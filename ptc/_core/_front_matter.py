"""Front matter of Markdown files: a YAML mapping between two lines ``---``, before the text."""

from __future__ import annotations

from typing import Any, Final

from ..errors import UsageError

__all__ = ["read_front_matter"]

_MOST_CHARS: Final = 65_536
"""YAML is slow to parse; a file that needs more is not front matter."""
_MOST_DEPTH: Final = 32


def read_front_matter(text: str, *, where: str) -> tuple[dict[str, Any], str]:
    """Split a file into its front matter and the text after it.

    Args:
        text: Content of the file.
        where: Name of the file, for messages.

    Returns:
        The mapping, and the text without surrounding blank lines.

    Raises:
        UsageError: If there is no front matter, or it is not a mapping with text as keys.
    """
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    fences = [number for number, line in enumerate(lines) if line.rstrip() == "---"]
    if len(fences) < 2 or fences[0] != 0:
        msg = (
            f"{where}: the file must start with front matter: a line '---', a line for each key "
            "such as 'name: ...', and a line '---'"
        )
        raise UsageError(msg)
    head = "".join(lines[1 : fences[1]])
    if len(head) > _MOST_CHARS:
        msg = f"{where}: the front matter has {len(head):,} characters, over {_MOST_CHARS:,}"
        raise UsageError(msg)
    data = _load(head, where)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise UsageError(f"{where}: the front matter must be a mapping with text as keys")
    return data, "".join(lines[fences[1] + 1 :]).strip()


def _load(head: str, where: str) -> Any:
    import yaml

    # The loader in Python takes seconds for some kilobytes of brackets.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    too_deep = UsageError(f"{where}: the front matter is nested over {_MOST_DEPTH} deep")
    depth = 0
    try:
        for event in yaml.parse(head, loader):
            if isinstance(event, yaml.AliasEvent):
                # Nested aliases expand a few lines to gigabytes ("billion laughs").
                raise UsageError(f"{where}: the front matter must not use YAML aliases")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MOST_DEPTH:
                raise too_deep
        return yaml.load(head, loader)  # noqa: S506  # a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 2}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        if "maximum nesting depth" in problem:  # its scanner's own, from PyYAML 6.0.4 on
            raise too_deep from None
        raise UsageError(f"{where}{line}: the front matter is not valid YAML: {problem}") from None
