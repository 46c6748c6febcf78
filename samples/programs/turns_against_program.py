"""Compare one turn for each tool call with one program for all of them. Runs offline.

    python samples/programs/turns_against_program.py
    python samples/programs/turns_against_program.py --tasks my_tasks.jsonl --chart turns.svg

A task is a state and the calls that solve it, in the form of the multi-turn tasks of the Berkeley
Function-Calling Leaderboard. The calls are made twice, each time on a state of its own: one by one,
as an agent does that gets each result into its context, and by one program. The table has the
characters that a model reads (all of its context, in each turn) and writes. No model is asked: the
calls are the task's own, so both agents make no mistakes.
"""

import argparse
import ast
import json
from pathlib import Path
from typing import Any

import anyio

from ptc import Session, Toolset, tool

TASKS = Path(__file__).parent.parent / "data" / "tasks.jsonl"


class Files:
    """A tree of folders and texts with a current folder, in memory."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.folders: list[dict[str, Any]] = [unpack({"type": "directory", "contents": root})]
        if len(root) == 1:
            self.folders.append(next(iter(self.folders[0].values())))

    @property
    def here(self) -> dict[str, Any]:
        return self.folders[-1]

    def text(self, name: str) -> str:
        found = self.here.get(name)
        if not isinstance(found, str):
            msg = f"there is no file {name!r} here; files: {list(self.here)}"
            raise FileNotFoundError(msg)
        return found

    def cd(self, folder: str) -> str:
        """Change to a folder; `..` is the one above."""
        if folder == ".." and len(self.folders) > 1:
            self.folders.pop()
        elif isinstance(self.here.get(folder), dict):
            self.folders.append(self.here[folder])
        else:
            msg = f"there is no folder {folder!r} here; entries: {list(self.here)}"
            raise FileNotFoundError(msg)
        return folder

    def ls(self, a: bool = False) -> list[str]:
        """List the current folder; with `a`, hidden names too."""
        return [name for name in self.here if a or not name.startswith(".")]

    def mkdir(self, dir_name: str) -> str:
        """Create a folder."""
        self.here.setdefault(dir_name, {})
        return dir_name

    def touch(self, file_name: str) -> str:
        """Create an empty file."""
        self.here.setdefault(file_name, "")
        return file_name

    def echo(self, content: str, file_name: str) -> str:
        """Write a text to a file."""
        self.here[file_name] = content
        return file_name

    def cat(self, file_name: str) -> str:
        """Return the text of a file."""
        return self.text(file_name)

    def tail(self, file_name: str, lines: int = 10) -> str:
        """Return the last lines of a file."""
        return "\n".join(self.text(file_name).split("\n")[-lines:])

    def grep(self, file_name: str, pattern: str) -> list[str]:
        """Return the lines of a file that contain a text."""
        return [line for line in self.text(file_name).split("\n") if pattern in line]

    def sort(self, file_name: str) -> str:
        """Return the lines of a file in order."""
        return "\n".join(sorted(self.text(file_name).split("\n")))

    def wc(self, file_name: str, mode: str = "l") -> int:
        """Count lines (`l`), words (`w`) or characters (`c`) of a file."""
        text = self.text(file_name)
        return {"l": text.count("\n") + 1, "w": len(text.split()), "c": len(text)}[mode]

    def diff(self, file_name1: str, file_name2: str) -> list[str]:
        """Return the lines that only one of two files has."""
        one, two = (self.text(name).split("\n") for name in (file_name1, file_name2))
        return [f"- {x}" for x in one if x not in two] + [f"+ {x}" for x in two if x not in one]

    def cp(self, source: str, destination: str) -> str:
        """Copy a file, into a folder or to a new name."""
        found = self.here.get(destination)
        place, name = (found, source) if isinstance(found, dict) else (self.here, destination)
        place[name] = self.text(source)
        return destination

    def mv(self, source: str, destination: str) -> str:
        """Move a file, into a folder or to a new name."""
        if source != destination:
            self.cp(source, destination)
            del self.here[source]
        return destination

    def rm(self, file_name: str) -> str:
        """Remove a file or folder."""
        del self.here[file_name]
        return file_name

    def rmdir(self, dir_name: str) -> str:
        """Remove a folder."""
        return self.rm(dir_name)

    def find(self, path: str = ".", name: str = "") -> list[str]:
        """Return the paths below a folder whose name contains a text."""
        return walk(self.here if path == "." else self.here[path], path, name)

    def du(self, human_readable: bool = False) -> str:
        """Return the size of the current folder."""
        size = len(json.dumps(self.here))
        return f"{size / 1024:.1f} KiB" if human_readable else f"{size}"

    def tools(self) -> Toolset:
        """Return the methods as tools."""
        names = [n for n in vars(Files) if n[0] != "_" and n not in ("here", "text", "tools")]
        # The state ends with this process, so that no call can be repeated after a crash.
        make = tool(side_effect=True, idempotent=True)
        return Toolset("files", tuple(make(getattr(self, name)) for name in names))


def unpack(node: dict[str, Any]) -> Any:
    if node["type"] == "file":
        return node["content"]
    return {name: unpack(child) for name, child in node["contents"].items()}


def walk(node: dict[str, Any], path: str, name: str) -> list[str]:
    found = []
    for key, child in node.items():
        found += [f"{path}/{key}"] * (name in key)
        found += walk(child, f"{path}/{key}", name) if isinstance(child, dict) else []
    return found


# --- the two agents -------------------------------------------------------------------------


def parse(call: str, files: Files) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments of a call such as ``cd(folder='a')``."""
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(call)
    known = [item for item in files.tools() if item.name == node.func.id]
    if not known:
        msg = f"no tool {node.func.id!r}"
        raise LookupError(msg)
    values = [ast.literal_eval(value) for value in node.args]
    given = dict(zip(known[0].parameter_names, values, strict=False))
    return known[0].name, given | {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}


async def by_turns(turns: list[list[Any]], files: Files) -> dict[str, Any]:
    """Make each call in a turn of its own: the model reads all that came before, every time."""
    async with Session(tools=[files.tools()], toolsets=()) as session:
        context = len(json.dumps(session.tool_definitions(["files"])))
        read = written = 0
        answers, text = [], ""
        for calls in turns:
            for name, arguments in calls:
                read += context
                request = len(json.dumps({"name": name, "arguments": arguments}))
                result = await session.tool(name, arguments, allowed_tools=["files"])
                text = result.text
                written += request
                context += request + len(text)
            answers.append(text)
        return {"turns": sum(map(len, turns)) + 1, "read": read + context, "written": written,
                "answers": answers, "state": files.folders[0]}  # fmt: skip


async def by_program(turns: list[list[Any]], files: Files) -> dict[str, Any]:
    """Make all calls in one program: the model reads its own script and the answers, once."""
    lines = ["async def run(ctx, inputs):", "    answers = []"]
    for calls in turns:
        rows = [f"await ctx.{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"
                for name, arguments in calls]  # fmt: skip
        lines += [f"    {row}" for row in rows[:-1]] + [f"    answers.append({rows[-1]})"]
    source = "\n".join([*lines, "    return answers"])
    async with Session(tools=[files.tools()], toolsets=()) as session:
        definition = json.dumps(session.program_definition("anthropic", ["files"]))
        result = await session.program(source=source, allowed_tools=["files"])
        request = len(json.dumps({"name": "program", "arguments": {"source": source}}))
        answers = result.unwrap()
        shown = [a if isinstance(a, str) else json.dumps(a, separators=(",", ":")) for a in answers]
        read = 2 * len(definition) + request + len(json.dumps(answers))
        return {"turns": 2, "read": read, "written": request, "answers": shown,
                "state": files.folders[0]}  # fmt: skip


async def compare(task: dict[str, Any]) -> list[Any]:
    """Return the row of a task."""
    roots = [json.loads(json.dumps(config["root"])) for config in task["initial_config"].values()]
    both = [Files(roots[0]), Files(json.loads(json.dumps(roots[0])))]
    turns = [[parse(call, both[0]) for call in calls] for calls in task["calls_per_turn"] if calls]
    one, two = await by_turns(turns, both[0]), await by_program(turns, both[1])
    same = one["state"] == two["state"] and one["answers"] == two["answers"]
    return [task["id"], sum(map(len, turns)), same, one["turns"], two["turns"],
            one["read"], two["read"], one["written"], two["written"]]  # fmt: skip


def chart(rows: list[list[Any]]) -> str:
    """Return an SVG: for each task, the characters read by turns and by program."""
    most = max(max(row[5], row[6]) for row in rows)
    parts = []
    for number, row in enumerate(rows):
        top = 50 + number * 34
        parts.append(f'<text x="150" y="{top + 17}" text-anchor="end">{row[0]}</text>')
        for offset, value, colour in ((0, row[5], "#b5651d"), (13, row[6], "#2e6f95")):
            width = 480 * value / most
            parts.append(f'<rect x="160" y="{top + offset}" width="{width:.1f}" height="11" '
                         f'fill="{colour}"/><text x="{165 + width:.1f}" y="{top + offset + 10}">'
                         f"{value:,}</text>")  # fmt: skip
    height = 60 + 34 * len(rows)
    title = ('<text x="160" y="22">Characters that the model reads</text>'
             '<text x="160" y="40" fill="#b5651d">one turn for each call</text>'
             '<text x="330" y="40" fill="#2e6f95">one program</text>')  # fmt: skip
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{height}" '
            f'font-family="sans-serif" font-size="11"><rect width="720" height="{height}" '
            f'fill="white"/>{title}{"".join(parts)}</svg>\n')  # fmt: skip


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tasks", type=Path, default=TASKS, help="tasks, one JSON object a line")
    parser.add_argument("--chart", type=Path, help="write an SVG here")
    given = parser.parse_args()
    rows, skipped = [], 0
    # Sessions of one event loop share their processes: with this one open, the others start fast.
    async with Session(toolsets=()) as first:
        await first.warm_up()
        for line in given.tasks.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(await compare(json.loads(line)))
            except (LookupError, ValueError):  # calls of other tools, or without literal arguments
                skipped += 1
    form = "{:24} {:>5} {:>6} {:>11} {:>13} {:>15} {:>8}"
    print(form.format("task", "calls", "same", "turns", "read", "written", "read/read"))
    total = ["all", *(sum(row[n] for row in rows) for n in range(1, 9))]
    for row in [*rows, total]:
        same = {True: "yes", False: "NO"}.get(row[2], f"{row[2]}")
        print(form.format(row[0], row[1], same, f"{row[3]}:{row[4]}", f"{row[5]}:{row[6]}",
                          f"{row[7]}:{row[8]}", f"{row[5] / row[6]:.1f}x"))  # fmt: skip
    if skipped:
        print(f"{skipped} tasks need other tools and were skipped")
    if given.chart:
        given.chart.write_text(chart(rows), encoding="utf-8")
        print(f"chart: {given.chart}")


anyio.run(main)
