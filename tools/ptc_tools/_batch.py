"""`batch`: several tool calls in one, for a model that calls tools without a script.

Rule 1: It calls only tools that its caller may call, under the caller's limits.
    (test_a_batch_never_widens_the_allow_list)
Rule 2: Calls with a side effect are made one by one, in order, with no other call in parallel.
    (test_side_effects_in_a_batch_run_in_order_and_alone)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import anyio

from ptc import ToolContext, ToolError, tool
from ptc._core._json import JsonError, dumps, loads
from ptc._schema._bounds import Bounds

__all__ = [
    "MAX_CALLS",
    "MAX_CONCURRENCY",
    "MAX_TOTAL_BYTES",
    "BatchCall",
    "BatchProblem",
    "BatchResult",
    "batch",
]

MAX_CALLS = 32
"""Maximum number of calls in one batch."""
MAX_CONCURRENCY = 16
MAX_TOTAL_BYTES = 4_194_304
"""Maximum JSON of all values together (4 MiB): half of the default limit of a tool result."""

_ID = r"^[A-Za-z0-9_-]{1,64}$"


@dataclass(frozen=True, slots=True)
class BatchCall:
    """A call in a batch."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    tool: str
    """Name of the tool."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments. `{"$ref": "id"}` or `{"$ref": "id.0.path"}` anywhere in them is replaced by the
    value, or a part of it, of an earlier call."""
    id: Annotated[str, Bounds(pattern=_ID)] | None = None
    """Name of the call in references and results. Default: its number, "1", "2" ..."""


@dataclass(frozen=True, slots=True)
class BatchProblem:
    """The reason that a call failed or was not made."""

    code: str
    """Code of the tool's error, or ``bad_reference``, ``dependency_failed``, ``not_started``."""
    message: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a call."""

    id: str
    tool: str
    ok: bool
    """False: see `error`."""
    value: Any = None
    error: BatchProblem | None = None
    omitted_bytes: int = 0
    """JSON bytes of a value that was omitted because all values together are too large."""


class _Results(list[BatchResult]):
    """The results, with the text of each for a model."""

    texts: list[str]


def _render(results: list[BatchResult]) -> str:
    texts = results.texts if isinstance(results, _Results) else [_text(r, None) for r in results]
    failed = sum(not result.ok for result in results)
    head = f"{len(results) - failed} of {len(results)} calls succeeded"
    parts = [f"=== {r.id} ({r.tool})\n{t}" for r, t in zip(results, texts, strict=True)]
    return "\n".join([head, *parts])


def _text(result: BatchResult, text: str | None) -> str:
    if result.error is not None:
        return f"Error [{result.error.code}]: {result.error.message}"
    if result.omitted_bytes:
        return f"[value of {result.omitted_bytes:,} bytes omitted; call the tool alone]"
    return text if text is not None else dumps(result.value).decode()


@tool(side_effect=True, idempotent=False, unrecorded=["calls"], render=_render)
async def batch(
    ctx: ToolContext,
    calls: Annotated[list[BatchCall], Bounds(min_length=1, max_length=MAX_CALLS)],
    max_concurrency: Annotated[int, Bounds(ge=1, le=MAX_CONCURRENCY)] = 8,
    stop_on_error: bool = False,
) -> list[BatchResult]:
    """Make several tool calls. Returns a list of {id, tool, ok, value, error} in the same order.

    Calls without a side effect run concurrently; one with a side effect waits for all before it
    and runs alone. If a call fails, only the calls that refer to it are not made.

    Args:
        ctx: The call.
        calls: [{"tool": "glob", "arguments": {"pattern": "*.md"}, "id": "found"}, {"tool": "read",
            "arguments": {"path": {"$ref": "found.0"}}}]: references are to earlier calls.
        max_concurrency: Maximum number of concurrent calls.
        stop_on_error: True: once a call has failed, start no other.
    """
    jobs = _jobs(calls)
    run = _Run(ctx, anyio.Semaphore(max_concurrency), stop_on_error)
    for group in _groups(ctx, jobs):
        async with anyio.create_task_group() as tasks:
            for job in group:
                # In order: a call comes after those it needs, so that it cannot deadlock.
                await run.slots.acquire()
                tasks.start_soon(run.one, job)
    results = _Results(job.result for job in jobs if job.result is not None)
    results.texts = [_text(job.result, job.text) for job in jobs if job.result is not None]
    return results


@dataclass(slots=True)
class _Job:
    """A call and its result."""

    id: str
    call: BatchCall
    needs: list[_Job]
    """Calls to whose values it refers."""
    done: anyio.Event = field(default_factory=anyio.Event)
    result: BatchResult | None = None
    text: str = ""
    value: Any = None
    """JSON value, even if the result omits it."""


def _jobs(calls: Sequence[BatchCall]) -> list[_Job]:
    """Validate all calls before the first one is made."""
    known: dict[str, _Job] = {}
    for number, call in enumerate(calls, 1):
        name = call.id or str(number)
        if name in known:
            raise _wrong(f"two calls have the id {name!r}")
        if call.tool == batch.name:
            raise _wrong(f"call {name!r} is a batch in a batch; add its calls to this one")
        needs = []
        for reference in _references(call.arguments):
            wanted = reference.partition(".")[0]
            if wanted not in known:
                before = ", ".join(known) or "none"
                raise _wrong(f"call {name!r} refers to {wanted!r}; earlier calls: {before}")
            needs.append(known[wanted])
        known[name] = _Job(name, call, needs)
    return list(known.values())


def _wrong(why: str) -> ToolError:
    return ToolError(f"{why}; nothing was called", code="invalid_arguments")


def _groups(ctx: ToolContext, jobs: list[_Job]) -> Iterator[list[_Job]]:
    """Yield groups of calls that may run concurrently, in order."""
    group: list[_Job] = []
    for job in jobs:
        tool = ctx.tools.get(job.call.tool)
        if tool is not None and tool.side_effect:
            yield group
            yield [job]
            group = []
        else:
            group.append(job)
    yield group


@dataclass(slots=True)
class _Run:
    ctx: ToolContext
    slots: anyio.Semaphore
    stop_on_error: bool
    left: int = field(default_factory=lambda: MAX_TOTAL_BYTES)
    failed: str | None = None
    """Id of the first call that failed."""

    async def one(self, job: _Job) -> None:
        """Make a call after those it needs, and release its slot."""
        try:
            for needed in job.needs:
                await needed.done.wait()
            await self._call(job)
        except ToolError as error:
            problem = BatchProblem(error.code, error.message, error.retryable)
            job.result = BatchResult(job.id, job.call.tool, False, error=problem)
            self.failed = self.failed or job.id
        finally:
            job.done.set()
            self.slots.release()

    async def _call(self, job: _Job) -> None:
        if self.stop_on_error and self.failed is not None:
            msg = f"not started, because call {self.failed!r} failed"
            raise ToolError(msg, code="not_started")
        for needed in job.needs:
            if needed.result is None or not needed.result.ok:
                msg = f"not started, because call {needed.id!r}, to which it refers, failed"
                raise ToolError(msg, code="dependency_failed")
        arguments = _resolve(job.call.arguments, {needed.id: needed for needed in job.needs})
        value = await self.ctx.call_tool(job.call.tool, **arguments)
        try:
            data = dumps(value, what=job.call.tool)
        except JsonError as error:
            msg = f"the call was made, but its value is not valid JSON: {error}"
            raise ToolError(msg, code="result_not_json") from None
        job.value = loads(data)
        if len(data) > self.left:
            job.result = BatchResult(job.id, job.call.tool, True, omitted_bytes=len(data))
            return
        self.left -= len(data)
        job.text = self.ctx.tools[job.call.tool].text(value)
        job.result = BatchResult(job.id, job.call.tool, True, job.value)


def _references(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        if set(data) == {"$ref"}:
            if not isinstance(data["$ref"], str):
                raise _wrong('the value of "$ref" must be a string such as "id" or "id.0.path"')
            yield data["$ref"]
            return
        data = list(data.values())
    if isinstance(data, list):
        for item in data:
            yield from _references(item)


def _resolve(data: Any, jobs: dict[str, _Job]) -> Any:
    if isinstance(data, dict):
        if set(data) == {"$ref"}:
            return _look_up(data["$ref"], jobs)
        return {key: _resolve(item, jobs) for key, item in data.items()}
    if isinstance(data, list):
        return [_resolve(item, jobs) for item in data]
    return data


def _look_up(reference: str, jobs: dict[str, _Job]) -> Any:
    name, *path = reference.split(".")
    value = jobs[name].value
    for step in path:
        if isinstance(value, list) and re.fullmatch(r"\d{1,9}", step) and int(step) < len(value):
            value = value[int(step)]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            what = f"a list of {len(value):,}" if isinstance(value, list) else type(value).__name__
            msg = f"reference {reference!r}: {what} has no {step!r}"
            raise ToolError(msg, code="bad_reference")
    return value
