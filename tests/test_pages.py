"""Every block of code in the documentation is executed, or says why it is not.

A comment ``<!-- not run: REASON -->`` before a block exempts it, and
``<!-- blocks not run: REASON -->`` all of a page that this module would run. Commands of ptc are
parsed: each command and option exists.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import click
import pytest

from ptc._cli._group import _ptc

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "tools/README.md", "bindings/README.md")),
    *(ROOT / name for name in ("tests/README.md", ".github/CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "docs" / "skills" / "write-ptc-scripts" / "SKILL.md",
]
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
EXEMPT = re.compile(r"<!-- not run: ([^>]+?) -->\s*\Z")
PAGE_EXEMPT = re.compile(r"<!-- blocks not run: ([^>]+?) -->")
RUN_ELSEWHERE = {
    "docs/tutorial.md": "tests/test_tutorial.py",
    "docs/tools.md": "tests/core/tools/test_tools_page.py",
    "docs/delegation.md": "tests/core/agents/test_delegation_page.py",
    "docs/differences.md": "tests/core/test_differences.py",
    "docs/limitations.md": "tests/core/language/test_limitations.py",
    "docs/skills/write-ptc-scripts/SKILL.md": "tests/test_skill.py",
    "docs/programs.md": "tests/core/programs/test_save.py",
}
"""Pages whose Python blocks another test executes."""

COMMON = """
import json
from pathlib import Path
import ptc
from pydantic import BaseModel
from ptc import *
from ptc.testing import ScriptedModel
from ptc.structured import *
Path("README.md").write_text("ToolError TODO")
Path("report.py").write_text("async def run(ctx, inputs):\\n    return await ctx.pay(amount=5)")

class Invoice(BaseModel):
    number: str = ""
    total: float = 0

@tool(side_effect=True, needs_approval=True)
async def pay(amount: int, ctx: ToolContext) -> int:
    "Pay an amount."
    return len(ctx.idempotency_key or "")

invoice = {"number": "7", "total": 3.5}
text = json.dumps(invoice)
model = ScriptedModel(*[invoice] * 9)
session = await stack.enter_async_context(Session(root=".", tools=[pay], model=model))
paused = await session.program(path="report.py", allowed_tools=["pay"])
run_id = paused.run_id
"""
# The model that stands for the one of a page.
SCRIPTED = "Session = lambda *args, **o: ptc.Session(*args, **o | {'model': model} if o else {})\n"
PRELUDES = {
    "README.md": SCRIPTED
    + """
CATALOGUE = {"tea": 3.2}
Path("invoices").mkdir()
Path("invoices/1.txt").write_text("Invoice 7: 3.50")
@tool
async def price(item: str) -> float:
    "Return a price."
    return CATALOGUE[item]
""",
    "bindings/README.md": """
class Cart:
    def add(self, name: str) -> None:
        "Add an item."

def find_item(name: str) -> dict[str, str]:
    "Find an item."
    return {}

def fetch(url: str, key: str) -> str:
    "Fetch a page."
    return ""

cart, secret = Cart(), "k"
""",
    "docs/configuration.md": "Path('order.py').write_text('1 + 1')\n",
    "docs/durability.md": "result = await session.program(source='\"x\" * 100_000')\n",
    "docs/extraction.md": """
Path("invoices").mkdir()
Path("invoices/1.txt").write_text("7: 3.50")
""",
    "docs/observability.md": """
class trace:
    set_tracer_provider = print
provider, text = None, "1 + 1"
""",
    "docs/skills.md": "import os\nos.symlink(ROOT / 'samples', 'samples')\n",
    "docs/testing.md": '''
@tool
async def price(item: str) -> float:
    "Return a price."
    return 3.2
SCRIPT = """
async def run(ctx, inputs):
    return [await ctx.price(item=item) for item in inputs["items"]]
"""
''',
    "docs/verification.md": "Path('pyproject.toml').write_text('[tool.ruff]')\n",
    "docs/structured.md": SCRIPTED
    + """
from pathlib import Path
for name in ("scan.pdf", "stamp.png", "letter.png"):
    Path(name).write_bytes(b"%PDF-1.7" if name[-1] == "f" else b"\\x89PNG\\r\\n\\x1a\\n")

class Letter(Invoice): pass
class Report(Invoice): pass
class Item(Invoice): pass

contract = Contract(Invoice)
messages, tools, stop_reason, show, Failed = [], [], "stop", print, RuntimeError

async def chunks():
    yield text

async def ask(messages, tools=()):
    return text

async def store(item): pass

stream = chunks()
""",
}
"""Names that the blocks of a page assume, besides those of `COMMON`."""


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    source: str
    reason: str
    """The reason for which it is not executed, or an empty text."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def find_blocks(*languages: str) -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(ROOT).as_posix()
        whole = PAGE_EXEMPT.search(text)
        for found in BLOCK.finditer(text):
            if found[2] in languages:
                own = EXEMPT.search(text[: found.start()])
                reason = own[1] if own else whole[1] if whole else ""
                line = text[: found.start()].count("\n") + 1
                yield Block(name, line, found[2], textwrap.dedent(found[3]), reason)


PYTHON = [block for block in find_blocks("python") if block.page not in RUN_ELSEWHERE]
COMMANDS = list(find_blocks("sh", "console"))


def compile_block(block: Block) -> Any:
    source = "\n" * block.line + block.source
    return compile(source, block.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


async def execute(code: Any, names: dict[str, Any]) -> None:
    done = eval(code, names)  # noqa: S307  # the code of a page is our own
    if inspect.isawaitable(done):
        await done


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore:tool 'add' has a side effect")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("block", [b for b in PYTHON if not b.reason], ids=str)
async def test_block_of_a_page_runs(
    anyio_backend: str, block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prelude = COMMON + PRELUDES.get(block.page, "")
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    if "anyio.run(" in block.source:
        Path("README.md").write_text("ToolError")
        await anyio.to_thread.run_sync(exec, compile_block(block), {"__name__": "page"})
        return
    async with AsyncExitStack() as stack:
        names: dict[str, Any] = {"__name__": "page", "stack": stack, "ROOT": ROOT}
        await execute(compile(prelude, "prelude", "exec", flags, dont_inherit=True), names)
        await execute(compile_block(block), names)


@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON}))
def test_blocks_of_a_page_are_valid_python(page: str) -> None:
    for block in PYTHON:
        if block.page == page:
            compile_block(block)


def test_pages_with_tests_of_their_own_have_them() -> None:
    for page, test in RUN_ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8"), test


def test_exempt_blocks_say_why() -> None:
    exempt = [block for block in PYTHON if block.reason]
    assert all(len(block.reason) > 15 for block in exempt)
    executed = [block for block in PYTHON if not block.reason]
    assert len(executed) > 30


def ptc_commands(block: Block) -> Iterator[list[str]]:
    """The commands of ptc in a block, as lists of words; comments and pipes end one."""
    for line in re.sub(r"\\\n", " ", block.source).splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        words = shlex.split(line.removeprefix("$ "), comments=True)
        for number, word in enumerate(words):
            first = all("=" in before for before in words[:number]) or words[number - 1] == "&&"
            if first and (word == "ptc" or word.endswith("/bin/ptc")):
                rest = words[number + 1 :]
                ends = [n for n, word in enumerate(rest) if word in ("|", "&&", ">", ";", "--")]
                yield rest[: min(ends, default=len(rest))]
                break


def test_commands_of_ptc_on_pages_exist_with_their_options() -> None:
    wrong, checked = [], 0
    for block in COMMANDS:
        for words in ptc_commands(block):
            command: click.Command = _ptc
            context = click.Context(_ptc)
            rest = list(words)
            while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
                found = command.get_command(context, rest[0])
                if found is None:
                    wrong.append(f"{block}: no command {rest[0]}")
                    break
                command, rest = found, rest[1:]
            known = {option for p in command.get_params(context) for option in p.opts}
            known |= {option for p in command.params for option in p.secondary_opts}
            for word in rest:
                if word.startswith("-") and len(word) > 1:
                    checked += 1
                    if word.partition("=")[0] not in known:
                        wrong.append(f"{block}: {words[0]} has no option {word}")
    assert wrong == []
    assert checked > 40
