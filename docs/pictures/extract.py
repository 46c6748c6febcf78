"""Make `extract.svg`, the picture of the progress of `ptc extract`, from a real run.

    python docs/pictures/extract.py

The run is that of `samples/programs/extract_many.py`: 240 letters, and a server on this machine
that fails by chance. The command writes to a pseudo-terminal, whose output becomes the picture.
"""

import io
import os
import pty
import re
import shutil
import sys
import tempfile
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "samples" / "programs"))
import extract_many  # noqa: E402  # found by the line above

COLUMNS = 96
OPTIONS = ("--schema", "schema.json", "--model", "openai-chat:gpt-4o", "--output", "rows.jsonl")
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}">
<style>{styles} text {{ font: {char_height}px ui-monospace, Menlo, Consolas, monospace }}</style>
<rect width="100%" height="100%" rx="8" fill="#0c0c0c"/>
<defs>{lines}</defs>
<g transform="translate(9, 9)">{backgrounds}<g>{matrix}</g></g>
</svg>
"""


def record() -> bytes:
    """Run the command on a pseudo-terminal, and return its output."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), extract_many.Model)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        process, terminal = pty.fork()
        if process == 0:
            os.environ |= {
                "COLUMNS": str(COLUMNS),
                "OPENAI_API_KEY": "not-a-key",
                "OPENAI_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}/v1",
                "TERM": "xterm-256color",
            }
            os.environ.pop("NO_COLOR", None)
            for name in ("letters.jsonl", "schema.json"):
                shutil.copy(extract_many.DATA / name, folder)
            os.chdir(folder)
            os.execv(  # noqa: S606  # this Python
                sys.executable,
                [sys.executable, "-m", "ptc", "extract", "letters.jsonl", *OPTIONS, "--no-config"],
            )
        output = b""
        while True:
            try:
                output += os.read(terminal, 65_536)
            except OSError:  # EIO: the command has ended
                break
        os.waitpid(process, 0)
    server.shutdown()
    return output


def main() -> None:
    """Write the picture."""
    # A redraw of the display erases its line.
    frames = re.split(r"\r?\x1b\[\?25[lh]|\r\x1b\[2K", record().decode())
    bars = [frame.strip() for frame in frames if "in flight" in frame]
    shown = [Text(f"$ ptc extract letters.jsonl {' '.join(OPTIONS)}")]
    shown += [Text.from_ansi(bars[len(bars) * part // 4]) for part in (1, 2, 3)]
    shown += [Text.from_ansi(line) for line in frames[-1].strip().splitlines()]
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in [*shown, Text()]:
        console.print(line, soft_wrap=True)
    picture = console.export_svg(title="", theme=MONOKAI, code_format=SVG, unique_id="e")
    (HERE / "extract.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
