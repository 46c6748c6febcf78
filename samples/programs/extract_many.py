"""Extract 240 letters with `ptc extract`, kill it three times, and pay for no letter twice.

    pip install '.[models]'
    python samples/programs/extract_many.py

No key and no internet: the model is a server of this program. It speaks the protocol of OpenAI,
takes six requests at a time, and fails by chance: damaged JSON, wrong values, "429 Too Many
Requests", "500 Internal Server Error" and cut connections. Like some gateways, it recognizes the
key of a request that it has answered before. Real providers do not: there, an answer that is in
flight when the command is killed with SIGKILL is paid for again. Ctrl-C waits for it instead.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

DATA = Path(__file__).parents[1] / "data" / "orders"
GOLD = {
    row["id"]: row["object"]
    for row in map(json.loads, (DATA / "gold.jsonl").read_text(encoding="utf-8").splitlines())
}
KILLED_AFTER = (50, 110, 170)
"""Rows in the output at which the command is killed with SIGKILL."""


class Model(BaseHTTPRequestHandler):
    """Answers as a model does, mostly."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    busy = 0
    stored: ClassVar[dict[str, str]] = {}
    """Answers by Idempotency-Key: a repeated request gets the same one, and is not paid again."""
    requests: ClassVar[Counter[str]] = Counter()
    """Requests for each letter, with those that failed."""
    paid: ClassVar[Counter[str]] = Counter()
    """Right answers for each letter."""
    events: ClassVar[Counter[str]] = Counter()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = json.dumps(body["messages"])
        name = re.findall(r"order-\d{3}", messages)[0]
        with Model.lock:
            Model.requests[name] += 1
            dice = random.Random(f"{name} {Model.requests[name]}")  # noqa: S311  # always the same
            Model.busy += 1
            overloaded = Model.busy > 6
        try:
            time.sleep(0.02)
            kind = "429" if overloaded else choose(dice.random(), "minimum" in messages)
            self.react(body, name, kind)
        finally:
            with Model.lock:
                Model.busy -= 1

    def react(self, body: dict[str, Any], name: str, kind: str) -> None:
        gold = json.dumps(GOLD[name], ensure_ascii=False)
        key = self.headers["idempotency-key"]
        if key in Model.stored:
            kind, gold = "repeated", Model.stored[key]
        with Model.lock:
            Model.events[kind] += 1
            Model.paid[name] += kind in ("right", "damaged", "cut")
        if kind in ("429", "500"):
            self.send(int(kind), '{"error": {"message": "not now"}}', kind)
            return
        if kind == "damaged":
            gold = f"Here it is:\n```json\n{gold[:-1]},}}\n```"
        elif kind == "wrong":
            gold = gold.replace('"quantity": ', '"quantity": -')
        Model.stored[key] = gold
        self.send(200, self.reply(body, gold), kind)

    def reply(self, body: dict[str, Any], text: str) -> str:
        function = {"name": body["tools"][0]["function"]["name"], "arguments": text}
        call = {"id": "call", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        used = {"prompt_tokens": 300, "completion_tokens": 90, "total_tokens": 390}
        return json.dumps(
            {
                "id": "reply",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
                "usage": used,
            }
        )

    def send(self, status: int, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if status == 429:
            self.send_header("retry-after-ms", "100")
        self.end_headers()
        with suppress(OSError):  # the command was killed
            self.write(data, kind)

    def write(self, data: bytes, kind: str) -> None:
        if kind == "cut":
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        else:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def choose(chance: float, corrected: bool) -> str:
    """Choose the reaction to a request; a model that was corrected does not repeat its error."""
    shares = {"429": 0.03, "500": 0.03, "cut": 0.04, "damaged": 0.10, "wrong": 0.08}
    for kind, share in shares.items():
        chance -= share
        if chance < 0 and not (kind == "wrong" and corrected):
            return kind
    return "right"


def extract(port: int, output: Path, *options: str) -> "subprocess.Popen[str]":
    """Start the command."""
    return subprocess.Popen(  # noqa: S603  # this Python
        [
            *(sys.executable, "-m", "ptc", "extract", str(DATA / "letters.jsonl")),
            *("--schema", str(DATA / "schema.json"), "--model", "openai-chat:gpt-4o"),
            *("--output", str(output), "--no-config", *options),
        ],
        env={
            **os.environ,
            "OPENAI_API_KEY": "not-a-key",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1",
        },
        text=True,
    )


def read(output: Path) -> dict[str, Any]:
    """Return the rows that are complete, by id."""
    lines = output.read_bytes().splitlines(keepends=True) if output.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return {row["id"]: row for row in rows}


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    before: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows.jsonl"
        for rows in KILLED_AFTER:
            running = extract(port, output)
            while running.poll() is None and len(read(output)) < rows:
                time.sleep(0.01)
            running.kill()
            running.wait()
            while Model.busy:
                time.sleep(0.01)
            recorded = read(output)
            before = {name: Model.requests[name] for name in recorded}
            in_flight = sum(name not in recorded for name, paid in Model.paid.items() if paid)
            print(f"killed: {len(recorded)} rows recorded, {in_flight} paid answers in flight")
        compared = ("--compare", str(DATA / "gold.jsonl"), "--report", f"{folder}/quality.html")
        status = extract(port, output, *compared).wait()
        found = read(output)
    server.shutdown()
    right = sum(found[name]["object"] == gold for name, gold in GOLD.items())
    again = sum(Model.requests[name] != count for name, count in before.items())
    print(f"the server's reactions: {dict(sorted(Model.events.items()))}")
    print(f"exit status {status}, {right} of {len(GOLD)} rows are right")
    print(f"{again} recorded letters were sent again")
    print(f"{sum(paid > 1 for paid in Model.paid.values())} letters were paid for twice")


if __name__ == "__main__":
    main()
