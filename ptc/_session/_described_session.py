"""Descriptions of a session for models: its tools, and the rules of scripts that call them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._calls._direct import DirectCalls
from .._policy_modules import MODULES
from .._records._limits import Limits
from .._runs._ceiling import LimitPolicy
from .._runs._program_tool import DefinitionStyle, program_definition
from .._tools._allow import Allow, AllowList
from .._tools._catalog import Catalog
from .._tools._instructions import describe_program
from ._tool_session import ToolSession

if TYPE_CHECKING:
    from ..models._open import OpenModels

__all__ = ["DescribedSession"]


class DescribedSession(ToolSession):
    """Describes the scripts that `Session` runs, for the model that writes them."""

    def __init__(
        self,
        catalog: Catalog,
        models: OpenModels | None,
        root: Path,
        direct: DirectCalls,
        *,
        limit_policy: LimitPolicy,
        packages: tuple[str, ...],
    ) -> None:
        """Configure a session; nothing is started.

        Args:
            catalog: The tools.
            models: Models of `generate_object`; None: the caller has to name one.
            root: The folder the tools are confined to, resolved.
            direct: Makes the calls.
            limit_policy: Limits of scripts.
            packages: Packages that scripts may import.
        """
        super().__init__(catalog, models, root, direct)
        self._limit_policy = limit_policy
        self._modules = sorted({*MODULES, *packages})

    def _check_tools(self) -> None:
        self._limit_policy.check_tools()

    @property
    def allowed_tools(self) -> tuple[str | Allow, ...] | None:
        """Allow-list of a script whose caller passes none; None: all tools without side effects."""
        return self._catalog.default

    @property
    def limits(self) -> Limits:
        """Limits of a run that gives none."""
        return self._limit_policy.limits

    @property
    def ceiling(self) -> Limits:
        """Highest limits that a run may request."""
        return self._limit_policy.ceiling

    def describe_tools(
        self,
        allowed_tools: AllowList | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> str:
        """Return the instructions for a model that writes a script: rules, and tools as stubs.

        Args:
            allowed_tools: Allow-list of the script, as for `program`.
            limits: Limits of the script. None: the session's.

        Raises:
            UsageError: If the session lacks a tool of `allowed_tools`.
        """
        table = self._catalog.table(allowed_tools)
        effective, _ = self._limit_policy.apply(limits)
        return describe_program(table, effective, self._modules)

    def program_definition(
        self,
        style: DefinitionStyle,
        allowed_tools: AllowList | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the tool ``program`` as the API of a provider defines tools.

        ::

            definition = session.program_definition("anthropic", allowed_tools=["read", "grep"])
            ...     # send it with the request; the reply has a call of `program`
            result = await session.tool("program", call.input, allowed_tools=["read", "grep"])

        Args:
            style: ``"openai"`` (chat completions), ``"anthropic"`` or ``"mcp"``.
            allowed_tools: Tools that a script may call, as for `program`. Pass the same to `tool`.
            limits: Limits that the definition states. None: the session's.

        Raises:
            UsageError: If an argument is wrong.
        """
        table = self._catalog.table(allowed_tools)
        effective, _ = self._limit_policy.apply(limits)
        return program_definition(table, effective, self._modules, style)
