"""Outline Python files: classes, functions and the first line of each docstring.

    ptc run samples/cookbook/outline_python.py --allow glob,read --input path=samples/programs

Inputs: `path`, a folder. Files with a syntax error are listed apart.
"""

import ast
import asyncio
from typing import Any


def outline(text: str) -> list[str]:
    """Return a line for each class and function, nested ones indented."""
    rows = []

    def visit(node: ast.AST, depth: int) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(child) or "").partition("\n")[0]
                rows.append(f"{'  ' * depth}{child.name} (line {child.lineno}) {first}".rstrip())
                visit(child, depth + 1)

    visit(ast.parse(text), 0)
    return rows


async def run(ctx: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Read the files concurrently and parse them in the sandbox."""
    paths = await ctx.glob("*.py", path=inputs.get("path", "."), limit=90)
    texts = await asyncio.gather(*(ctx.read(path) for path in paths))
    outlines, errors = {}, {}
    for path, text in zip(paths, texts, strict=True):
        try:
            outlines[path] = outline(text)
        except SyntaxError as error:
            errors[path] = f"line {error.lineno}: {error.msg}"
    return {"files": outlines, "errors": errors}
