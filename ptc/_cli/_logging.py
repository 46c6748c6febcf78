"""Log records of the command line: ``PTC_LOG_LEVEL`` and ``PTC_LOG_FORMAT``.

Without the variables nothing is configured, and Python writes warnings to standard error as text.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping

from ..errors import UsageError

__all__ = ["LEVELS", "JsonFormatter", "configure_logging"]

LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("text", "json")
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes of every record; all others are fields that the caller added."""


class JsonFormatter(logging.Formatter):
    """Format a record as one line of JSON, so that a text in it cannot imitate another record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line: time, level, logger, message, fields, and the exception if any."""
        from .._core import _json

        when = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        row: dict[str, object] = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        row |= {
            name: value if isinstance(value, int | float | str | None) else repr(value)
            for name, value in vars(record).items()
            if name not in _PLAIN
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return _json.dumps(row).decode()


def configure_logging(variables: Mapping[str, str]) -> None:
    """Write the records of the logger ``ptc`` to standard error, as the variables say.

    Raises:
        UsageError: If a variable has another value than those in `LEVELS`, or text and json.
    """
    level = variables.get("PTC_LOG_LEVEL", "").lower() or "warning"
    form = variables.get("PTC_LOG_FORMAT", "").lower() or "text"
    for name, value, known in (
        ("PTC_LOG_LEVEL", level, LEVELS),
        ("PTC_LOG_FORMAT", form, _FORMATS),
    ):
        if value not in known:
            raise UsageError(f"{name} must be one of {', '.join(known)}, not {value!r}")
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if form == "json" else text)
    logger = logging.getLogger("ptc")
    logger.setLevel(level.upper())
    logger.handlers[:] = [handler]
    logger.propagate = False
