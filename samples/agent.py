"""Let a small coding agent rename a function in this repository. Runs offline.

    python samples/agent.py
    python samples/agent.py --model openai:gpt-5

The agent works in a copy. It delegates the search to a child agent, edits with a saved program,
lets another child run the tests, and answers by a schema. Then it does the same with single tool
calls and without children, and the table compares the two ways. The scripted model stands for a
real one: it decides by the same messages and tools. Both ways need `pip install 'ptc-host[dev]'`.

The work is recorded: an agent that is killed continues where it was if you start it again with the
same --folder.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from ptc import Limits, RunResult, Session

REPOSITORY = Path(__file__).parent.parent
COPIED = ("ptc", "tools", "bindings", "tests", "pyproject.toml")
OLD, NEW = "list_within", "names_within"
TEST = [
    sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
    "tests/core/tools/test_large_toolsets.py", "-k", "as_many_names_as_fit",
]  # fmt: skip
TASK = f"""Rename the function `{OLD}` to `{NEW}` in all Python files of this folder.
Then run this command and see that it passes: {json.dumps(TEST)}"""

RENAME = '''
"""Rename an identifier in all Python files. Returns the number of changes by file."""

import asyncio
import re

async def run(ctx, inputs):
    name = re.compile(rf"\\b{re.escape(inputs['old'])}\\b")
    hits = await ctx.grep(inputs["old"], glob="*.py", limit=1000)
    paths = sorted({hit.path for hit in hits})
    texts = await asyncio.gather(*(ctx.read(path) for path in paths))
    changed = {}
    for path, text in zip(paths, texts):
        renamed, count = name.subn(inputs["new"], text)
        if count:
            changed[path] = count
            if not inputs["dry_run"]:
                await ctx.write(path, renamed)
    return changed
'''
DELEGATE = """
async def run(ctx, inputs):
    done = await ctx.task(
        agent="coder", prompt=inputs["task"], output_schema=inputs["schema"]
    )
    return {"report": done.object, "usage": done.usage}
"""


class Report(BaseModel):
    """The agent's answer."""

    changed: list[str]
    """Files that were changed."""
    tests_passed: bool
    summary: str


class Meter(WrapperModel):
    """Counts the requests to a model, and the characters that it reads and writes."""

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self.turns = self.read = self.written = 0

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Count a request, and make it."""
        self.turns += 1
        self.read += sum(len(text_of(message)) for message in messages)
        response = await super().request(messages, model_settings, model_request_parameters)
        self.written += len(text_of(response))
        return response


def text_of(message: ModelMessage) -> str:
    texts = [message.instructions or ""] if isinstance(message, ModelRequest) else []
    for part in message.parts:
        content = part.args if isinstance(part, ToolCallPart) else getattr(part, "content", "")
        texts.append(content if isinstance(content, str) else json.dumps(content, default=str))
    return "".join(texts)


# --- the scripted model -------------------------------------------------------------------------


def decide(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Answer as the agent with these instructions and tools would."""
    tools = {tool.name for tool in info.function_tools}
    results = [
        part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)
    ]
    instructions = str(info.instructions)
    if "You explore" in instructions:
        return explore(results)
    if "You verify" in instructions:
        return verify(results)
    return delegate(results) if "rename_symbol" in tools else take_turns(results)


def explore(results: Sequence[ToolReturnPart]) -> ModelResponse:
    if not results:
        return call("grep", pattern=rf"\b{OLD}\b", glob="*.py", output="files")
    return ModelResponse([TextPart(f"`{OLD}` is used in:\n{results[0].model_response_str()}")])


def verify(results: Sequence[ToolReturnPart]) -> ModelResponse:
    if not results:
        check = {"id": "tests", "kind": "test", "description": "The tests", "command": TEST}
        return call("verify_commands", subject=f"{OLD} was renamed", checks=[check])
    text = results[0].model_response_str()
    passed = "passed" in text.splitlines()[0].lower()
    seen = {"check": " ".join(TEST[1:4]), "passed": passed, "evidence": text[-200:]}
    verdict = "confirmed" if passed else "refuted"
    return call("response", verdict=verdict, summary="The tests were run.", checks=[seen])


def delegate(results: Sequence[ToolReturnPart]) -> ModelResponse:
    if not results:
        return call("task", agent="explore", prompt=f"Which Python files use `{OLD}`?")
    if len(results) == 1:
        return call("rename_symbol", old=OLD, new=NEW, dry_run=False)
    if len(results) == 2:
        return call("task", agent="verification", prompt=f"`{OLD}` was renamed. {TASK}")
    changed = json.loads(results[1].model_response_str())
    passed = "confirmed" in results[2].model_response_str()
    return report(sorted(changed), passed)


def take_turns(results: Sequence[ToolReturnPart]) -> ModelResponse:
    """Search, then read and write one file after the other, then run the tests."""
    if not results:
        return call("grep", pattern=rf"\b{OLD}\b", glob="*.py", output="files")
    paths = results[0].model_response_str().splitlines()
    made = len(results) - 1
    if made < 2 * len(paths):
        path = paths[made // 2]
        if made % 2 == 0:
            return call("read", path=path)
        text = results[-1].model_response_str()
        return call("write", path=path, content=text.replace(OLD, NEW))
    if made == 2 * len(paths):
        return call("bash", cmd=TEST[0], args=TEST[1:])
    text = results[-1].model_response_str()
    return report(paths, " passed" in text and " failed" not in text)


def report(changed: list[str], passed: bool) -> ModelResponse:
    summary = f"Renamed {OLD} to {NEW} in {len(changed)} files."
    return call("response", changed=changed, tests_passed=passed, summary=summary)


def call(tool: str, **arguments: Any) -> ModelResponse:
    return ModelResponse([ToolCallPart(tool, arguments)])


# --- the application ----------------------------------------------------------------------------


async def work(folder: Path, model: Model, *, programs: bool) -> RunResult:
    """Let the agent work in a copy of the repository below `folder`, or continue its work."""
    root = folder / "root"
    if not root.exists():
        copy_repository(folder / "part")
        (folder / "part").rename(root)
    single = ["grep", "glob", "ls", "read", "write", "bash"]
    async with Session(
        root,
        model=model,
        agents=[REPOSITORY / "samples" / "agents"],
        journal=folder / "journal",
        limits=Limits(timeout_ms=300_000, max_tool_calls=500),
    ) as session:
        allowed = ["task", *single]
        if programs:
            await save_rename(session)
            allowed += ["rename_symbol", "verify_commands"]
        result = await session.program(
            source=DELEGATE,
            inputs={"task": TASK, "schema": Report.model_json_schema()},
            allowed_tools=allowed,
            run_id="coder",
        )
        while result.status == "paused":
            # Killed while the tests ran: nobody knows if they ended. They may run again.
            for pending in await session.pending("coder"):
                await session.history.settle("coder", pending.call, "again", by="sample")
            result = await session.resume("coder")
        return result


async def save_rename(session: Session) -> None:
    """Save the script that renames, after it has worked once without changing anything."""
    if "rename_symbol" in session.tool_names():
        return
    inputs = {"old": OLD, "new": NEW, "dry_run": True}
    tried = await session.program(
        source=RENAME, inputs=inputs, allowed_tools=["grep", "read", "write"]
    )
    tried.unwrap()
    await session.save_program(tried.run_id, name="rename_symbol")


def copy_repository(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "programs", "node_modules")
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="scripted", help="scripted, or provider:name")
    parser.add_argument("--folder", type=Path, help="where to work. Default: a temporary folder")
    options = parser.parse_args()
    print(f"{'':24}{'turns':>8}{'calls':>8}{'read':>12}{'written':>10}")
    with tempfile.TemporaryDirectory() as temporary:
        for name, programs in (("with programs", True), ("one call after another", False)):
            scripted = options.model == "scripted"
            meter = Meter(FunctionModel(decide) if scripted else infer_model(options.model))
            folder = (options.folder or Path(temporary)) / name.replace(" ", "_")
            result = await work(folder, meter, programs=programs)
            done = Report.model_validate(result.unwrap()["report"])
            calls = sum(made.tool not in ("model", "program") for made in result.calls)
            counts = f"{meter.turns:>8}{calls:>8}{meter.read:>12,}{meter.written:>10,}"
            print(f"{name:24}{counts}")
            print(f"  {done.summary} Tests passed: {done.tests_passed}")


if __name__ == "__main__":
    anyio.run(main)
