"""``ptc generate``, and ``--model`` of the other commands, against a server of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ptc._cli._group import run_command_line

from .fake_server import FakeServer, Step

pytest.importorskip("pydantic_ai", reason="pip install 'ptc-host[models]'")
pytest.importorskip("openai", reason="pip install 'ptc-host[models]'")

SCHEMA = {
    "type": "object",
    "properties": {"total": {"type": "integer"}},
    "required": ["total"],
}
MODEL = "openai-chat:gpt-4o"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer([]) as running:
        yield running


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


def ptc(
    *arguments: str, server: FakeServer | None = None, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "PTC_"))}
    if server is not None:
        clean |= {"OPENAI_API_KEY": "not-a-key", "OPENAI_BASE_URL": f"{server.url}/v1"}
    return subprocess.run(
        [sys.executable, "-m", "ptc", *arguments],
        env=clean | environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process, which saves a second of imports for each command."""

    def run(*arguments: str, server: FakeServer | None = None) -> subprocess.CompletedProcess[str]:
        for name in [name for name in os.environ if name.startswith(("OPENAI_", "PTC_"))]:
            monkeypatch.delenv(name)
        if server is not None:
            monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        status = run_command_line(arguments)
        return subprocess.CompletedProcess(arguments, status, *capfd.readouterr())

    return run


@pytest.mark.slow
def test_generate_prints_only_the_object_on_standard_output(
    server: FakeServer, schema: str, tmp_path: Path
) -> None:
    server.steps[:] = [Step(args='{"total": "x"}'), Step(args="{'total': 3}")]
    document = tmp_path / "a.txt"
    document.write_text("Total: three\n")
    options = ("--schema", schema, "--prompt", "Read it.", "--model", MODEL)
    done = ptc("generate", *options, str(document), server=server)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"total": 3})
    assert 'attempt 1: /total: "x" is not of type "integer"' in done.stderr
    assert "repaired: " in done.stderr
    asked = server.requests[0].body["messages"][0]["content"]
    assert asked == "Read it.\n\nTotal: three\n"


@pytest.mark.slow
def test_generate_json_reports_attempts_and_reads_model_from_environment(
    server: FakeServer, schema: str
) -> None:
    server.steps[:] = [Step(text='{"total": 3}')]
    options = ("--schema", schema, "--prompt", "Read it.", "--mode", "native", "--json", "-")
    done = ptc("generate", *options, server=server, stdin="3!", PTC_MODEL=MODEL)
    value = json.loads(done.stdout)
    assert (value["object"], value["mode_used"]) == ({"total": 3}, "native")
    assert value["attempts"] == [{"violations": [], "text": '{"total": 3}'}]
    assert value["usage"]["requests"] == 1
    assert server.requests[0].body["messages"][0]["content"] == "Read it.\n\n3!"


def test_generate_sends_attached_files(
    server: FakeServer, schema: str, tmp_path: Path, in_process: Command
) -> None:
    scan = tmp_path / "scan"
    scan.write_bytes(b"%PDF-1.7\n")
    options = ("--schema", schema, "--prompt", "Read it.", "--model", MODEL)
    server.steps[:] = [Step(args='{"total": 3}')]
    done = in_process("generate", *options, "--attach", str(scan), server=server)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"total": 3})
    text, file = server.requests[0].body["messages"][0]["content"]
    assert text["text"] == "Read it."
    assert file["file"]["file_data"].startswith("data:application/pdf;base64,JVBERi0x")
    done = in_process("generate", *options, "--attach", str(tmp_path / "no.pdf"), server=server)
    assert done.returncode == 2
    assert "no.pdf: No such file or directory" in done.stderr


def test_failed_generate_prints_attempts_and_has_its_own_exit_status(
    server: FakeServer, schema: str, tmp_path: Path, in_process: Command
) -> None:
    options = ("--schema", schema, "--prompt", "x", "--model", MODEL)
    server.steps[:] = [Step(args='{"total": "x"}')] * 2
    done = in_process("generate", *options, "--json", server=server)
    assert done.returncode == 1
    failure = json.loads(done.stdout)
    assert (failure["reason"], len(failure["attempts"])) == ("no_progress", 2)
    assert "do not conform" in done.stderr
    server.steps[:] = [Step(status=401, error="bad key")]
    done = in_process("generate", *options, server=server)
    assert (done.returncode, done.stdout) == (1, "")
    assert "HTTP 401: bad key" in done.stderr
    # No key: this machine lacks something.
    done = in_process("generate", *options)
    assert (done.returncode, done.stdout) == (5, "")
    assert "OPENAI_API_KEY" in done.stderr


def test_invalid_generate_command_line_is_rejected_before_any_request(
    server: FakeServer, schema: str, tmp_path: Path, in_process: Command
) -> None:
    base = {"--schema": schema, "--prompt": "x", "--model": MODEL}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"--model": "gpt-5"}, "--model 'gpt-5' is not a model name; write provider:name"),
        ({"--model": "nobody:x"}, "there is no model 'nobody:x'; write provider:name"),
        ({"--schema": str(tmp_path / "none.json")}, "cannot be read"),
        ({"--max-repair-attempts": "9"}, "from 0 to 5"),
        ({"--mode": "json"}, "--mode"),
        ({"--schema-name": "a b"}, "schema_name"),
    ]
    for options, message in wrong:
        given = [part for pair in (base | options).items() for part in pair]
        done = in_process("generate", *given, server=server)
        assert (done.returncode, done.stdout) == (2, ""), options
        assert message in done.stderr
    done = in_process("generate", "--schema", schema, "--prompt", "x", server=server)
    assert (done.returncode, "PTC_MODEL" in done.stderr) == (2, True)
    assert server.requests == []


@pytest.mark.slow
def test_script_run_with_the_model_option_can_generate_objects(
    server: FakeServer, tmp_path: Path
) -> None:
    server.steps[:] = [Step(args='{"total": 7}')]
    script = tmp_path / "ask.py"
    script.write_text(
        "async def run(ctx, inputs):\n"
        "    return (await ctx.generate_object(inputs['schema'], 'Read it.')).object\n"
    )
    inputs = tmp_path / "inputs.json"
    inputs.write_text(json.dumps({"schema": SCHEMA}))
    options = ("--inputs", str(inputs), "--root", str(tmp_path), "--model", MODEL)
    done = ptc("run", str(script), *options, server=server)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"total": 7})
    done = ptc("run", str(script), *options[:-2], server=server)
    assert done.returncode == 1
    assert "generate_object" in done.stderr


def test_mcp_print_config_includes_the_model(tmp_path: Path) -> None:
    done = ptc("mcp", "--root", str(tmp_path), "--model", MODEL, "--print-config")
    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    assert entry["args"][-2:] == ["--model", MODEL]


@pytest.mark.slow
def test_sample_uses_the_named_provider(server: FakeServer) -> None:
    invoice = {
        "number": "1",
        "seller": "S",
        "day": "2025-01-31",
        "currency": "EUR",
        "lines": [{"text": "tea", "amount": "1.50"}],
        "total": "1.50",
    }
    server.steps[:] = [Step(args=json.dumps(invoice))] * 3
    keys = {"OPENAI_API_KEY": "not-a-key", "OPENAI_BASE_URL": f"{server.url}/v1"}
    sample = Path(__file__).parents[2] / "samples" / "programs" / "extract_invoices.py"
    done = subprocess.run(
        [sys.executable, str(sample), MODEL],
        env=os.environ | keys,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3 invoices, 3 requests" in done.stdout
    asked = "".join(seen.body["messages"][0]["content"] for seen in server.requests)
    assert all(name in asked for name in ("HARBOUR", "Lindgren", "Okafor"))
