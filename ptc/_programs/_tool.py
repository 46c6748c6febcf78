"""The tool of a saved program.

Rule 1: a call never widens its caller's allow-list: every pinned tool must be on it.
    tests/core/programs/test_calls.py::test_call_is_refused_if_its_caller_may_not_call_a_pinned_tool
Rule 2: a program runs only with the tools that it was saved with: none is missing or has another
    schema or other flags.
    tests/core/programs/test_calls.py::test_changed_tool_refuses_the_call_and_says_what_changed
Rule 3: a call that is started again executes the version that it began with.
    tests/core/programs/test_resume.py::test_restarted_call_continues_the_version_it_began_with
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .._records._result import RunResult
from .._tools._context import ToolContext
from .._tools._options import ToolOptions
from .._tools._tool import Tool, tool_from_schema
from ..errors import ToolError, UsageError
from ._pins import describe_changes, pin
from ._saved import SavedProgram
from ._store import ProgramStore

__all__ = ["define_program_tool", "program_tool"]
