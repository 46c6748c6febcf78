"""Mutated scripts: parts of known escapes exchanged, and damaged text."""

from __future__ import annotations

import ast
import copy
import json
from pathlib import Path
from random import Random

__all__ = ["Mutants"]

_CASES = Path(__file__).parent.parent / "programs" / "escapes"
# Besides punctuation: NUL, a byte order mark, characters that change direction or break lines,
# and letters and digits that NFKC or int() convert to others.
_TIES = "()[]{}:;,.'\"\\\n\t #@=*&|<>!_~`$\x00\x0c\r0x1e_fFbBrRuU"
_TIES += "\ufeff\u202e\u2028\xaa\ufb01\U0001d51e\xe9\xdf\u0661"
_WORDS = [
    *["lambda", "async ", "await ", "yield ", "match ", "case ", "type ", "global ", "nonlocal "],
    *["__class__", "__debug__", "import ", "from ", "*", "**", ":=", "->", "...", "@", "f'{x!r}'"],
    *["\\N{BULLET}", "\\x00", "0o", "1_0", "class ", "def ", "del ", "with ", "as ", "except* "],
    *["if True:\n", "# -*- coding: utf-7 -*-\n", "_" * 9, "(" * 40, "[" * 40, "-" * 40],
]


class Mutants:
    """Generator of mutations of the escapes in the repository."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.sources: list[str] = []
        for path in [*sorted(_CASES.glob("lang_*.jsonl")), _CASES / "own.jsonl"]:
            rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            self.sources += [row["script"] for row in rows if not row.get("source_bytes")]
        self._trees: list[ast.Module] = []
        for source in self.sources:
            try:
                self._trees.append(ast.parse(source))
            except (SyntaxError, ValueError):  # written to break parsers, or newer than this Python
                continue
        nodes = [node for tree in self._trees for node in ast.walk(tree)]
        self._expressions = [
            node
            for node in nodes
            if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", None), _LOADED)
        ]
        self._names = sorted({node.attr for node in nodes if isinstance(node, ast.Attribute)})

    def spliced(self) -> str:
        """Return a known escape with expressions and names of others."""
        chance = self._chance
        while True:
            tree = _Splice(chance, self._expressions, self._names).visit(
                copy.deepcopy(chance.choice(self._trees))
            )
            if chance.random() < 0.3:
                tree.body += copy.deepcopy(chance.choice(self._trees)).body
            try:
                return ast.unparse(ast.fix_missing_locations(tree))
            except (ValueError, RecursionError):  # a tree without source text
                continue

    def damaged(self, sources: list[str]) -> str:
        """Return a script with characters deleted, doubled, swapped or replaced."""
        chance = self._chance
        text = chance.choice(sources)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(text) + 1)
            end = min(len(text), at + chance.choice([1, 1, 2, 5, 30]))
            piece = chance.choice(
                [
                    "",
                    chance.choice(_TIES),
                    chance.choice(_WORDS),
                    text[at:end] * 2,
                    chr(
                        chance.choice(
                            [chance.randrange(0xD800), chance.randrange(0x1F000, 0x1F9FF)]
                        )
                    ),
                    chance.choice(sources)[at:end],
                ]
            )
            text = text[:at] + piece + text[end:]
        return text


_LOADED = (ast.Load, type(None))


class _Splice(ast.NodeTransformer):
    def __init__(self, chance: Random, expressions: list[ast.expr], names: list[str]) -> None:
        self._chance = chance
        self._expressions = expressions
        self._names = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        chance = self._chance
        if isinstance(node, ast.JoinedStr | ast.FormattedValue | ast.MatchValue):
            return node
        if isinstance(node, ast.Attribute) and chance.random() < 0.08:
            node.attr = chance.choice(self._names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in self._names and chance.random() < 0.2:
                node.value = chance.choice(self._names)
        elif (
            isinstance(node, ast.expr)
            and isinstance(getattr(node, "ctx", None), _LOADED)
            and chance.random() < 0.06
        ):
            return copy.deepcopy(chance.choice(self._expressions))
        return node
