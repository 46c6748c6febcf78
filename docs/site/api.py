"""Write the page of the Python API from its docstrings: ``python docs/site/api.py > docs/api.md``.

`tests/core/test_site.py` compares the page with the output of this program. It reads signatures as
they are written in the source, so every version of Python gives the same text.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Union, get_args, get_origin

MODULES = ("ptc", "ptc.testing", "ptc.models", "ptc.structured", "ptc.journal", "ptc.artifacts")
START = """# Python API

Every public name of ptc with its signature, arguments, results and errors. The text comes from the
docstrings, so `help(ptc.Session)` shows the same. Most programs need four names:
[Session](#ptcsession), [tool](#ptctool), [Limits](#ptclimits) and [ToolError](#ptctoolerror). The
built-in tools are in [tools/README.md](../tools/README.md), the bindings in
[bindings/README.md](../bindings/README.md).
"""
WHOLE = ("Session", "ToolContext")
"""Classes whose methods are described with their arguments, not in one line."""
SECTION = re.compile(r"(Args|Returns|Raises|Yields|Attributes):")


def describe_module(name: str) -> Iterator[str]:
    """Yield the Markdown of a module: a heading for each public name."""
    module = importlib.import_module(name)
    yield f"## Module {name}\n"
    yield f"{first_line(module)}\n"
    for item in module.__all__:
        value = getattr(module, item)
        yield f"### {name}.{item}\n"
        if inspect.isclass(value):
            yield from describe_class(item, value)
        elif inspect.isroutine(value):
            yield f"```text\n{signature(item, value)}\n```\n"
            yield format_docstring(value)
        else:
            yield f"A constant or a type alias of `{name}`.\n"


def describe_class(name: str, value: type) -> Iterator[str]:
    """Yield a class with its own constructor, methods and properties."""
    if not issubclass(value, BaseException):
        yield f"```text\n{signature(name, value)}\n```\n"
    yield format_docstring(value)
    members = sorted(inspect.getmembers_static(value))
    # Properties first, since a heading ends the list.
    for attribute, member in sorted(members, key=lambda pair: not isinstance(pair[1], property)):
        if attribute.startswith("_") or not is_ours(value, attribute):
            continue
        function = getattr(member, "__func__", member)
        if isinstance(function, property):
            yield f"* `{attribute}`: {first_line(function)}"
        elif inspect.isfunction(function) and name in WHOLE:
            yield f"\n#### {name}.{attribute}\n"
            yield f"```text\n{signature(attribute, function)}\n```\n"
            yield format_docstring(function)
        elif inspect.isfunction(function):
            shown = signature(attribute, function)
            flat = re.sub(r"\(\s+", "(", re.sub(r",?\s+\)", ")", " ".join(shown.split())))
            yield f"* `{flat}`: {first_line(function)}"
    yield ""


def is_ours(value: type, attribute: str) -> bool:
    """Report whether a package of this project defines an attribute of a class."""
    owner = next((kind for kind in value.__mro__ if attribute in vars(kind)), object)
    return owner.__module__.partition(".")[0] == "ptc"


def signature(name: str, value: object) -> str:
    """Return a signature with the annotations as they are in the source, a parameter a line."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]  # a class or a function
    except (TypeError, ValueError):
        return name
    parameters, kind, rows = found.parameters.values(), inspect.Parameter, []
    star = False
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        star = star or parameter.kind is kind.VAR_POSITIONAL
        if parameter.kind is kind.KEYWORD_ONLY and not star:
            rows.append("*")
            star = True
        rows.append(describe_parameter(parameter))
    returns = "" if inspect.isclass(value) else f" -> {annotation(found.return_annotation)}"
    prefix = "async def " if inspect.iscoroutinefunction(value) else ""
    line = f"{prefix}{name}({', '.join(rows)}){returns}"
    if len(line) <= 100:
        return line
    return f"{prefix}{name}(\n    " + ",\n    ".join(rows) + f",\n){returns}"


def describe_parameter(parameter: inspect.Parameter) -> str:
    """Return ``name: type = default``; dots stand for a default without a literal."""
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    shown = stars.get(parameter.kind.name, "") + parameter.name
    if parameter.annotation is not parameter.empty:
        shown += f": {annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text = repr(parameter.default)
        shown += " = " + (text if not re.search(r" at 0x|<", text) else "...")
    return shown


def annotation(value: object) -> str:
    """Return an annotation as text."""
    if value is inspect.Signature.empty:
        return "None"
    if isinstance(value, str):
        return value
    if get_origin(value) in (Union, UnionType):
        # Its own text differs between releases of Python.
        return " | ".join(annotation(each) for each in get_args(value))
    if get_origin(value) is Annotated:
        return annotation(get_args(value)[0])
    if get_origin(value) is not None:
        return str(value).replace("typing.", "")
    return "None" if value is NoneType else str(getattr(value, "__name__", value))


def first_line(value: object) -> str:
    """Return the summary of a docstring."""
    return (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")


def format_docstring(value: object) -> str:
    """Return a docstring as Markdown: its sections become lists."""
    rows: list[str] = []
    inside = ""
    for text in (inspect.getdoc(value) or "").splitlines():
        # A literal block of reStructuredText is an indented block of Markdown.
        line = "" if text == "::" else text.removesuffix(":") if text.endswith("::") else text
        if SECTION.fullmatch(line):
            inside = line[:-1]
            rows += [f"**{line[:-1]}**", ""]
        elif inside and re.match(r"    \S", line):
            name, colon, rest = line.strip().partition(": ")
            prose = inside in ("Returns", "Yields")
            named = colon and not prose and re.fullmatch(r"\*{0,2}[\w, .*]+", name)
            rows.append(f"* `{name}`: {rest}" if named else f"* {line.strip()}")
        elif inside and line.startswith("     "):
            rows.append("  " + line.strip())
        else:
            inside = "" if line else inside
            rows.append(line)
    return "\n".join(rows).replace("<|", "&lt;|") + "\n"


def render_page() -> str:
    """Return the whole page."""
    parts = [START, *(part for module in MODULES for part in describe_module(module))]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(render_page())
