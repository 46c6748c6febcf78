"""Make `run.svg`, the picture of a script that is refused, corrected and run, from real commands.

python docs/pictures/run.py
"""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from extract import SVG
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
COLUMNS = 92
SCRIPT = """import asyncio, json

async def run(ctx, inputs):
    paths = await ctx.glob("orders/*.json")
    texts = await asyncio.gather(*map(ctx.reed, paths))
    orders = [json.loads(text) for text in texts]
    return " ".join(order["id"] for order in orders if order["days"] > inputs["days"])
"""


def execute(command: str, folder: str) -> list[Text]:
    """Run a command of ptc in `folder`; return the command and its output as lines."""
    done = subprocess.run(  # noqa: S603  # our own command
        ["/bin/sh", "-c", command.replace("ptc", f"{sys.executable} -m ptc", 1)],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": f"{folder}-state", "COLUMNS": str(COLUMNS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    lines = [Text(f"$ {command}", style="bold green")]
    for line in done.stdout.rstrip().splitlines():
        wrong = line.startswith(("late.py", "hint"))
        lines.append(Text(line, style="yellow" if wrong else ""))
    return [*lines, Text()]


def main() -> None:
    """Write the picture."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "orders").mkdir()
        for n in range(1, 31):
            order = {"id": f"A-{n:02}", "days": 2 + n * 7 % 11}
            Path(folder, "orders", f"{n}.json").write_text(json.dumps(order))
        shown = [Text("$ cat late.py", style="bold green")]
        shown += [Text(line, style="cyan") for line in SCRIPT.splitlines()]
        Path(folder, "late.py").write_text(SCRIPT)
        shown += [Text(), *execute("ptc check late.py --allow glob,read", folder)]
        Path(folder, "late.py").write_text(SCRIPT.replace("reed", "read"))
        shown.append(Text("$ sed -i s/reed/read/ late.py", style="bold green"))
        shown += execute("ptc run late.py --input days=10 --allow glob,read", folder)
    shutil.rmtree(f"{folder}-state", ignore_errors=True)
    for line in shown:
        console.print(line, soft_wrap=True)
    picture = console.export_svg(title="", theme=MONOKAI, code_format=SVG, unique_id="r")
    (HERE / "run.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
