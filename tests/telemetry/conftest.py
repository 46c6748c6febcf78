"""Without the extra ``otel``, its tests are not collected."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("opentelemetry.sdk") is not None else ["test_*.py"]
