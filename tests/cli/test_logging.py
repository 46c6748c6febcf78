"""``PTC_LOG_LEVEL`` and ``PTC_LOG_FORMAT``."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ptc import UsageError
from ptc._cli._logging import JsonFormatter, configure_logging


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("ptc")
    before = (found.handlers[:], found.level, found.propagate)
    yield found
    found.handlers[:], found.level, found.propagate = before


def test_record_is_one_line_of_json_with_its_fields() -> None:
    record = logging.makeLogRecord(
        {"name": "ptc", "levelname": "WARNING", "msg": "two\n%s", "args": ("lines",), "created": 0}
        | {"run_id": "3f2a", "where": ("a", 1)}
    )
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.000+00:00",
        "level": "warning",
        "logger": "ptc",
        "message": "two\nlines",
        "run_id": "3f2a",
        "where": "('a', 1)",
    }


def test_level_selects_records(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging({"PTC_LOG_LEVEL": "info"})
    logger.info("shown")
    logger.debug("hidden")
    assert capsys.readouterr().err.endswith("INFO ptc: shown\n")


def test_unknown_value_is_an_error_that_lists_the_known_ones(logger: logging.Logger) -> None:
    with pytest.raises(UsageError, match="PTC_LOG_FORMAT must be one of text, json, not 'xml'"):
        configure_logging({"PTC_LOG_FORMAT": "xml"})


@pytest.mark.slow
def test_command_logs_json() -> None:
    script = "import logging; logging.getLogger('ptc').warning('seen')"
    code = (
        f"from ptc._cli import _docs, _group; _docs.find_pages = lambda: exec({script!r}) or {{}}"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; _group.run_command_line(['docs'])"],
        env={"PATH": "/usr/bin", "PYTHONPATH": ":".join(sys.path), "PTC_LOG_FORMAT": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stderr.splitlines()[0])["message"] == "seen", done.stderr
