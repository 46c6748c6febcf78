"""Use `ptc mcp` as an agent does: one tool that runs a script over your files. Runs offline.

Needs the MCP SDK: pip install 'ptc-host[mcp]'. An agent's client starts the same command. To print
its configuration: ptc mcp --root . --allow read,grep --print-config
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters

SCRIPT = """
import asyncio

async def run(ctx, inputs):
    hits = await ctx.grep(inputs["query"], glob="*.py")
    texts = await asyncio.gather(*(ctx.read(path=hit.path) for hit in hits))
    return {hit.path: len(text.splitlines()) for hit, text in zip(hits, texts)}
"""


async def main(root: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "ptc", "mcp", "--root", str(root), "--allow", "read,grep"],
    )
    async with Client(server) as client:
        for tool in (await client.list_tools()).tools:
            print(tool.name, "-", (tool.description or "").partition(".")[0])
        result = await client.call_tool("program", {"source": SCRIPT, "inputs": {"query": "TODO"}})
        print(result.structured_content["value"])
        # An invalid script is rejected with its line and a suggested fix.
        wrong = "async def run(ctx, inputs):\n    return await ctx.cat('a.py')"
        refused = await client.call_tool("program", {"source": wrong})
        print(refused.structured_content["error"]["message"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.py").write_text("# TODO: one\nx = 1\n")
        Path(folder, "b.py").write_text("y = 2\n")
        asyncio.run(main(Path(folder)))
