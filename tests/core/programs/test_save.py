"""Completed runs become tools: what is pinned, what is derived, and what is refused."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ptc import Allow, JournalError, Limits, Session, Toolset, UsageError, tool
from ptc._core import _json

from .shop import ORDER, QUOTE, Shop, run, save_order

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote, pytest.mark.slow]


async def test_only_tools_that_the_script_uses_are_pinned(tmp_path: Path) -> None:
    @tool
    async def unused() -> int:
        """Return 1."""
        return 1

    source = """
async def run(ctx, inputs):
    if inputs["buy"]:
        await ctx.pay(amount=1)
    return await ctx.call("price", {"item": "a"})
"""
    async with Shop().session(tmp_path, unused) as session:
        done = await run(session, source, {"buy": False}, ["*"])
        saved = await session.save_program(done.run_id, name="maybe", description="Maybe.")
        assert saved.allowed_tools == ("price", "pay")
        chosen = await session.save_program(
            done.run_id, name="maybe", description="Maybe.", allowed_tools=["pr*"]
        )
        assert (chosen.allowed_tools, chosen.version) == (("price",), 2)
        with pytest.raises(UsageError, match="there is no tool 'prise'"):
            await session.save_program(done.run_id, name="x", allowed_tools=["prise"])
        narrow = await run(session, QUOTE, {"items": []}, ["price"])
        with pytest.raises(UsageError, match="was not allowed to call 'pay'"):
            await session.save_program(narrow.run_id, name="x", allowed_tools=["price", "pay"])


async def test_toolset_of_programs_may_be_allowed_before_there_is_one(tmp_path: Path) -> None:
    async with Shop().session(tmp_path, allowed_tools=["programs", "price"]) as session:
        done = await session.program(source=QUOTE, inputs={"items": ["a"]})
        await session.save_program(done.run_id, name="quote", description="Quote.")
        assert list(session.select_tools()) == ["quote", "price"]
        source = "async def run(ctx, inputs):\n    return await ctx.quote(items=['abc'])"
        assert (await session.program(source=source)).unwrap() == [3]


async def test_runs_that_cannot_be_saved_are_refused(tmp_path: Path) -> None:
    async with Shop().session(tmp_path, record_direct_calls=True) as session:
        failed = await session.program(source="def run(ctx, inputs):\n    return 1 / 0")
        with pytest.raises(UsageError, match="cannot be saved: it is failed"):
            await session.save_program(failed.run_id, name="x", description="x")
        await session.tool("price", {"item": "a"})
        direct = (await session.history.runs(1))[0].run_id
        with pytest.raises(UsageError, match="it is a direct call of a tool"):
            await session.save_program(direct, name="x", description="x")
        with pytest.raises(JournalError):
            await session.save_program("missing", name="x", description="x")
        plain = await run(session, QUOTE, {"items": ["a"]}, ["price"])
        with pytest.raises(UsageError, match="description must be text"):
            await session.save_program(plain.run_id, name="x")
        with pytest.raises(UsageError, match="there is a tool of that name; choose another name"):
            await session.save_program(plain.run_id, name="pay", description="x")
        with pytest.raises(UsageError, match="cannot name a program"):
            await session.save_program(plain.run_id, name="../x", description="x")
        with pytest.raises(UsageError, match="the schemas do not accept run"):
            await session.save_program(
                plain.run_id, name="x", description="x", input_schema={"type": "object",
                "properties": {"items": {"type": "string"}}},
            )  # fmt: skip
        with pytest.raises(UsageError, match='"type": "object"'):
            await session.save_program(
                plain.run_id, name="x", description="x", input_schema={"type": ["object", "null"]}
            )
        assert session.saved_programs() == ()
    assert not (tmp_path / ".ptc" / "programs").exists()


async def test_tool_that_takes_the_name_of_a_program_is_an_error_with_both_remedies(
    tmp_path: Path,
) -> None:
    async with Shop().session(tmp_path) as session:
        await save_order(session)

    @tool
    async def order() -> int:
        """Return 1."""
        return 1

    with pytest.raises(UsageError, match="rename the tool, or run `ptc programs delete order`"):
        Shop().session(tmp_path, order)
    with pytest.raises(UsageError, match=r"a namespace of the tool 'order\.now'"):
        Shop().session(tmp_path, Toolset("mine", (order,)).renamed({"order": "order.now"}))


async def test_changed_file_fails_the_session_and_deleting_it_helps(tmp_path: Path) -> None:
    async with Shop().session(tmp_path) as session:
        saved = await save_order(session)
    (saved.folder / "program.py").write_text("def run(ctx, inputs): pass")
    with pytest.raises(UsageError, match=r"program\.py: it was changed after it was saved"):
        Shop().session(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("input_schema", {"type": "array"}, "parameters must be a JSON Schema"),
        ("input_schema", {"type": "object", "properties": 3}, "not a valid JSON Schema"),
        ("description", " ", "description"),
    ],
)
async def test_record_that_makes_no_tool_fails_the_session_with_its_file(
    tmp_path: Path, field: str, value: Any, problem: str
) -> None:
    async with Shop().session(tmp_path) as session:
        file = (await save_order(session)).folder / "program.json"
    record = {**json.loads(file.read_text()), field: value}
    record.pop("sha256")
    file.write_text(json.dumps({**record, "sha256": _json.sha256_of(record)}))
    with pytest.raises(UsageError, match=rf"program\.json: .*{problem}.*ptc programs delete order"):
        Shop().session(tmp_path)


async def test_rules_are_saved_as_text_or_refused(tmp_path: Path) -> None:
    rule = Allow("pay", amount={6, 12})
    async with Shop().session(tmp_path) as session:
        allowed: list[str | Allow] = ["price", rule]
        done = await run(session, ORDER, {"item": "tea", "count": 2}, allowed)
        with pytest.raises(UsageError, match="rules on arguments, which are not recorded: pass"):
            await session.save_program(done.run_id, name="order")
        with pytest.raises(UsageError, match="cannot be stored as text"):
            await session.save_program(
                done.run_id, name="order", allowed_tools=[Allow("pay", amount=lambda a: a < 9)]
            )
        saved = await session.save_program(done.run_id, name="order", allowed_tools=allowed)
        assert saved.allowed_tools == ("price", "pay(amount=[12, 6])")
        paid = await session.tool("order", {"item": "tea", "count": 4})
        refused = await session.tool("order", {"item": "tea", "count": 1})
    assert paid.ok
    assert refused.error is not None
    assert "these arguments are not allowed in this run" in refused.error.message


async def test_rules_of_the_sessions_own_allow_list_are_saved(tmp_path: Path) -> None:
    default = [Allow("pay", amount=6), "price"]
    async with Shop().session(tmp_path, allowed_tools=default) as session:
        done = await session.program(source=ORDER, inputs={"item": "tea", "count": 2})
        saved = await session.save_program(done.run_id, name="order")
    assert saved.allowed_tools == ("pay(amount=6)", "price")


class Wish(BaseModel):
    """Inputs as a model."""

    item: str
    count: int = 1


async def test_schemas_are_given_or_those_of_the_run_or_derived(tmp_path: Path) -> None:
    async with Shop().session(tmp_path) as session:
        given = await save_order(session, input_schema=Wish, output_schema=dict[str, Any])
        assert given.output_schema == {"additionalProperties": True, "type": "object"}
        assert (await session.tool("order", {"item": "tea"})).unwrap()["paid"] == 3
        wrong = await session.tool("order", {"item": 3})
        assert wrong.error is not None
        assert wrong.error.code == "invalid_arguments"
        schema = {"type": "array", "maxItems": 1}
        done = await run(session, QUOTE, {"items": ["a"]}, ["price"], output_schema=schema)
        quote = await session.save_program(done.run_id, name="quote", description="Quote.")
        assert quote.output_schema == schema
        two = await session.tool("quote", {"items": ["a", "b"]})
        assert two.error is not None
        assert two.error.code == "program_failed"
        typed = await run(session, QUOTE, {"items": ["a"]}, ["price"], output_schema=list[int])
        derived = await session.save_program(typed.run_id, name="quote", description="Quote.")
        assert derived.output_schema == {"type": "array", "items": {"type": ["number", "null"]}}


async def test_limits_of_the_run_are_pinned(tmp_path: Path) -> None:
    limits = Limits(timeout_ms=9_000, max_calls_by_tool={"price": 2, "pay": 7})
    async with Shop().session(tmp_path) as session:
        done = await run(session, QUOTE, {"items": ["a"]}, ["price", "pay"], limits=limits)
        saved = await session.save_program(done.run_id, name="quote", description="Quote.")
        assert (saved.limits.timeout_ms, saved.limits.max_calls_by_tool) == (9_000, {"price": 2})
        more = await session.tool("quote", {"items": ["a", "b", "c"]})
    assert more.error is not None
    assert "price" in more.error.message


async def test_scripts_cannot_write_saved_programs(tmp_path: Path) -> None:
    source = """
async def run(ctx, inputs):
    try:
        await ctx.write(path=inputs["path"], content="x")
    except ToolError as error:
        return error.code
"""
    for folder in (None, tmp_path / "saved"):
        async with Session(tmp_path, programs=folder, journal=":memory:") as session:
            name = ".ptc/programs" if folder is None else "saved"
            for path in (f"{name}/x/1/program.py", name):
                done = await run(session, source, {"path": path}, ["write"])
                assert done.value == "protected_path", path


async def test_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[3] / "docs" / "programs.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    code = compile(source, "programs.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"__name__": "page"}
    await eval(code, names)  # noqa: S307  # the code of a page is our own
    assert names["used"].value == 0
