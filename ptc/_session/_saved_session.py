"""Saved programs of a session: scripts that worked become tools."""

from __future__ import annotations

from typing import Any

from .._programs._programs import SavedPrograms
from .._programs._save import SaveRequest
from .._programs._saved import SavedProgram
from .._tools._allow import AllowList
from ._watch_session import WatchSession

__all__ = ["SavedSession"]


class SavedSession(WatchSession):
    """The part of `Session` for saved programs."""

    _saved: SavedPrograms

    async def save_program(
        self,
        run_id: str,
        *,
        name: str,
        description: str | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
        allowed_tools: AllowList | None = None,
    ) -> SavedProgram:
        """Save the script of a completed run as a tool, at once and for later sessions.

        ::

            result = await session.program(source=text, inputs={"query": "TODO"})
            await session.save_program(result.run_id, name="find_todos")
            await session.tool("find_todos", {"query": "FIXME"})

        Its source, tools and limits are pinned: it runs with these tools only, and refuses to run
        once one of them has another schema or other flags. Saving under the same name again makes
        the next version. See docs/programs.md.

        Args:
            run_id: A run that completed.
            name: Name of the tool: 1-64 small letters, digits and _.
            description: Description for models. Default: the docstring of `run` or of the script.
            input_schema: Schema of the inputs: a JSON Schema of an object, a pydantic model or a
                type. Default: names and types of the inputs of the run, all of them required.
            output_schema: Schema of the value. Default: that of the run, or the shape of its value.
            allowed_tools: Tools that the program may call: names, patterns and rules with literal
                values. Default: those that the run called, and those that its source names.

        Returns:
            The saved version.

        Raises:
            UsageError: If the run did not complete, its tools have changed since then, its
                allow-list had rules that are not passed again, or an argument is wrong.
            JournalError: If there is no such run.
        """
        recorded = await self.history.recorded(run_id)
        request = SaveRequest(name, description, input_schema, output_schema, allowed_tools)
        return self._saved.save(recorded, request)

    def saved_programs(self) -> tuple[SavedProgram, ...]:
        """List the newest version of each saved program, by name."""
        return tuple(program for _, program in sorted(self._saved.by_name.items()))

    def delete_program(self, name: str, version: int | None = None) -> list[int]:
        """Delete a saved program, or one version of it.

        Without its newest version, a program is the version before it.

        Args:
            name: Name of the program.
            version: None: all versions.

        Returns:
            The deleted versions.

        Raises:
            UsageError: If there is no such program or version.
        """
        return self._saved.delete(name, version)
