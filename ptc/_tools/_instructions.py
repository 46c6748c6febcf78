"""Instructions for a model that writes scripts: the rules, the limits and the tools."""

from __future__ import annotations

from collections.abc import Sequence, Set

from .._records._limits import Limits
from .._refused_names import PARENTS, PARTIAL
from ._stub_text import is_plain_name
from ._stub_types import kinds_of, properties_of, required_of
from ._stubs import call_form, is_method_name
from ._table import ToolTable
from ._tool import Tool

__all__ = ["describe_program"]

_EXAMPLES = 20
"""First tools of which one may be in the example of a script."""


def describe_program(table: ToolTable, limits: Limits, modules: Sequence[str]) -> str:
    """Describe to a model the rules of a script, then the tools that it may call.

    Args:
        table: Tools of the run's allow-list.
        limits: Limits of the run.
        modules: Names of the modules that a script may import.
    """
    chosen = list(table.tools.values())
    rules = "\n".join(f"- {rule}" for rule in _list_rules(chosen, limits, modules))
    text = (
        "A script is Python that defines `async def run(ctx, inputs)`, beside any helpers. "
        "`inputs` is the dict passed with the script; the return value of `run` is the result."
        "\n\n"
        f"```python\n{_write_example(chosen)}\n```\n\n{rules}"
    )
    return f"{text}\n\nTools on ctx:\n\n```python\n{table.description}\n```" if chosen else text


def _list_rules(tools: Sequence[Tool], limits: Limits, modules: Sequence[str]) -> list[str]:
    calls = ["No tool is allowed: a script can only compute."]
    if tools:
        shown = next((tool.name for tool in tools if is_method_name(tool.name)), "name")
        calls = [
            f"Tools are methods of ctx: `await ctx.{shown}(...)`. They return data (text, "
            "numbers, lists, objects), not JSON text: do not use json.loads, except on the text of "
            "a JSON file. Objects in a result: "
            'row.field or row["field"] (row.items is the field "items", row.items() the dict '
            "method); pass an object as a dict.",
            "Independent calls overlap: await asyncio.gather(*calls). At most "
            f"{limits.max_in_flight} run at once; the others wait.",
            "A tool that fails raises ToolError (no import needed), with code, message and "
            "retryable. Catch it if the other results are still useful.",
        ]
        if odd := [tool.name for tool in tools if not is_method_name(tool.name)]:
            calls.insert(
                1,
                "Call a tool whose name is not a Python identifier with ctx.call and one dict of "
                f"arguments: `await {call_form(odd[0])}`.",
            )
    imports = "No module can be imported."
    if modules:
        imports = _list_modules(modules)
        if "matplotlib" in modules:
            imports += ' plt.savefig("chart.png") attaches the chart to the result.'
    return [
        *calls,
        "Return data, and only as much as needed: filter, count and join in the script. Dates, "
        "sets, dataclasses, arrays and tables are converted to JSON; bytes become a file.",
        "print(...) is for notes: the text is reported beside the result. ctx.emit(value) records "
        "a partial value that is reported even if the run fails later. ctx.progress(done, total, "
        "message) reports progress. Files out: ctx.attach(name, bytes or text), such as "
        '`ctx.attach("report.csv", text)`.',
        f"Limits: {_format_limits(limits, {tool.name for tool in tools})}. ctx.budget has the "
        "remaining amounts: .tool_calls, .calls_by_tool, .time_ms, .stdout_bytes, .messages, "
        ".emits, .emit_bytes.",
        imports,
        "No files, network, processes, environment or other packages except through ctx. No "
        "eval, exec, compile, memoryview, `import *`, metaclasses, or interpreter attributes such "
        "as __mro__. No state persists between runs.",
    ]


def _list_modules(modules: Sequence[str]) -> str:
    known = sorted(set(modules) - PARENTS)
    whole = ", ".join(module for module in known if module not in PARTIAL)
    partial = "; ".join(f"{module} ({PARTIAL[module]})" for module in known if module in PARTIAL)
    text = f"Only these standard modules can be imported: {whole}."
    return f"{text} In part: {partial}." if partial else text


def _format_limits(limits: Limits, tools: Set[str]) -> str:
    calls = "1 tool call" if limits.max_tool_calls == 1 else f"{limits.max_tool_calls:,} tool calls"
    by_tool = "".join(
        f"{name} at most {'once' if most == 1 else f'{most:,} times'}; "
        for name, most in limits.max_calls_by_tool.items()
        if name in tools
    )
    shorter = limits.max_cpu_ms < limits.timeout_ms
    cpu = f"{_format_ms(limits.max_cpu_ms)} of CPU time; " if shorter else ""
    return (
        f"{_format_ms(limits.timeout_ms)} for the run, tools included; {cpu}{calls} (the next one "
        f"raises ToolError with code limit_exceeded); {by_tool}"
        f"{_format_bytes(limits.max_output_bytes)} of JSON returned (more is truncated); "
        f"{_format_bytes(limits.max_tool_result_bytes)} for one tool's result; "
        f"{_format_bytes(limits.max_stdout_bytes)} printed; "
        f"{_format_bytes(limits.max_memory_bytes)} of memory"
    )


def _format_ms(ms: int) -> str:
    return f"{ms // 1000:,} s" if ms % 1000 == 0 else f"{ms:,} ms"


def _format_bytes(number: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number % size == 0:
            return f"{number // size:,} {unit}"
    return f"{number:,} bytes"


def _write_example(tools: Sequence[Tool]) -> str:
    """Write a script with the first allowed tool that takes a single text, or with none."""
    for tool in tools[:_EXAMPLES]:
        properties, required = properties_of(tool.parameters), required_of(tool.parameters)
        texts = [n for n in required if kinds_of(properties.get(n)) == ["string"]]
        usable = is_method_name(tool.name) and all(map(is_plain_name, texts))
        if len(required) == 1 and texts and usable:
            call = f"ctx.{tool.name}({texts[0]}=item)"
            return (
                "import asyncio\n\n"
                "async def run(ctx, inputs):\n"
                f'    results = await asyncio.gather(*({call} for item in inputs["items"]))\n'
                '    return {"found": sum(1 for result in results if result)}'
            )
    return 'async def run(ctx, inputs):\n    return {"total": sum(inputs["numbers"])}'
