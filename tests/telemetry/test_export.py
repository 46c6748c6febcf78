"""Export by the command line: what a collector on this machine receives."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SCRIPT = "def run(ctx, inputs):\n    return ctx.glob(pattern='*.py')"


class Collector(ThreadingHTTPServer):
    """A collector: decodes the protobuf of each request, or hangs."""

    daemon_threads = True

    def __init__(self, *, hangs: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hangs = hangs
        self.ended = threading.Event()
        self.traces: list[Any] = []
        self.metrics: list[Any] = []

    @property
    def url(self) -> str:
        """Endpoint for ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    @property
    def collector(self) -> Collector:
        assert isinstance(self.server, Collector)
        return self.server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.collector.hangs:
            self.collector.ended.wait(60)
        traces = self.path == "/v1/traces"
        message = ExportTraceServiceRequest() if traces else ExportMetricsServiceRequest()
        message.ParseFromString(body)
        (self.collector.traces if traces else self.collector.metrics).append(message)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def collector(*, hangs: bool = False) -> Iterator[Collector]:
    """Listen on a free port of this machine."""
    server = Collector(hangs=hangs)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def run(root: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ptc", "run", "-", "--root", str(root), *options],
        input=SCRIPT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_collector_receives_spans_and_metrics_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    with collector() as server:
        done = run(tmp_path, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=server.url)
        assert done.returncode == 0, done.stderr
    spans = {
        span.name: span
        for message in server.traces
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
    call, program = spans["execute_tool glob"], spans["invoke_workflow <stdin>"]
    assert call.parent_span_id == program.span_id
    names = {
        metric.name
        for message in server.metrics
        for resource in message.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert {"ptc.runs", "ptc.run.duration", "ptc.calls"} <= names


@pytest.mark.slow
def test_collector_that_hangs_does_not_delay_the_end(tmp_path: Path) -> None:
    with collector(hangs=True) as server:
        start = time.monotonic()
        done = run(tmp_path, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT=server.url)
        spent = time.monotonic() - start
    assert (done.returncode, done.stdout.strip()) == (0, "[]")
    assert spent < 20


@pytest.mark.slow
def test_unreachable_collector_changes_no_result(tmp_path: Path) -> None:
    done = run(tmp_path, "--otel", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert (done.returncode, done.stdout.strip()) == (0, "[]")


@pytest.mark.slow
def test_missing_extra_is_reported_as_a_missing_requirement(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['opentelemetry'] = None; "
    start = "from ptc._cli._group import run_command_line as run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", hide + start, "run", "-", "--root", str(tmp_path), "--otel"],
        input=SCRIPT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == (
        "Error: telemetry needs opentelemetry, which is not installed; install the extra: "
        "pip install 'ptc-host[otel]'\n"
    )


def test_nothing_is_exported_without_the_option(tmp_path: Path) -> None:
    with collector() as server:
        done = run(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=server.url)
    assert done.returncode == 0
    assert not server.traces + server.metrics


def test_session_without_telemetry_imports_no_opentelemetry(tmp_path: Path) -> None:
    source = (
        "import sys, ptc\n"
        f"with ptc.BlockingSession({str(tmp_path)!r}, toolsets=()) as session:\n"
        "    assert session.program(source='1').ok\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=60)
