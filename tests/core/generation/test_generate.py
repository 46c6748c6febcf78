"""`generate_object` with a scripted model: what is returned conforms, and nothing is hidden."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from ptc import (
    GenerationError,
    ModelError,
    RunEvent,
    Session,
    SessionClosedError,
    ToolError,
    TruncatedError,
    UsageError,
)
from ptc._generation._generate import generate_object
from ptc.models import Mode, ModelReply, ModelRequest, ModelUsage
from ptc.models._open import OpenModels
from ptc.structured import Partial, Violation
from ptc.testing import ScriptedModel, cut, lost

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "total": {"type": "integer"},
        "status": {"enum": ["open", "paid"]},
    },
    "required": ["total"],
    "additionalProperties": False,
}


class Invoice(BaseModel):
    total: int
    lines: list[str] = []


def tool_only(request: ModelRequest) -> ModelReply:
    return ModelReply(arguments=('{"total": 1}',))


# --- what is asked and what is given -----------------------------------------------------------


async def test_object_conforms_to_the_schema_and_has_the_requested_type() -> None:
    model = ScriptedModel('{"total": 12, "lines": ["tea"]}', {"total": 3})
    async with Session(model=model) as session:
        found = await session.generate_object(Invoice, "Read it.")
        plain = await session.generate_object(SCHEMA, "Read it.")
    assert found.object == Invoice(total=12, lines=["tea"])
    assert found.value == {"total": 12, "lines": ["tea"]}
    assert plain.object == {"total": 3}
    assert (found.mode_used, found.fallbacks, found.repairs) == ("tool", (), ())
    assert found.raw_texts == ('{"total": 12, "lines": ["tea"]}',)
    assert model.requests[0].schema["properties"].keys() == {"total", "lines"}


async def test_unambiguous_damage_is_repaired_without_another_request() -> None:
    model = ScriptedModel("```json\n{'total': '12',}\n```")
    async with Session(model=model) as session:
        found = await session.generate_object(SCHEMA, "Read it.")
    assert found.object == {"total": 12}
    assert len(model.requests) == 1
    kinds = {repair.kind for repair in found.repairs}
    assert {"text_to_number", "trailing_comma", "quotes"} <= kinds
    edit = next(repair for repair in found.repairs if repair.kind == "text_to_number")
    assert (edit.path, edit.before, edit.after) == ("/total", '"12"', "12")


async def test_violations_of_an_answer_are_sent_back_to_the_model() -> None:
    model = ScriptedModel({"total": 1, "status": "payed"}, {"total": 1, "status": "paid"})
    async with Session(model=model) as session:
        found = await session.generate_object(SCHEMA, "Read it.")
    assert found.object == {"total": 1, "status": "paid"}
    assert [len(attempt.violations) for attempt in found.attempts] == [1, 0]
    question, answer, error = model.requests[1].turns
    assert (question.role, question.text) == ("user", "Read it.")
    assert answer.reply is not None
    assert answer.reply.arguments == ('{"total":1,"status":"payed"}',)
    assert error.role == "error"
    assert '/status: "payed" is not one of the 2 allowed values' in error.text
    assert 'did you mean "paid"?' in error.text


async def test_the_prompt_does_not_grow_with_the_attempts() -> None:
    wrong: list[Any] = [{"total": "a"}, {"total": 1.5}, {"total": None}]
    model = ScriptedModel(*wrong, {"total": 1})
    async with Session(model=model) as session:
        await session.generate_object(SCHEMA, "Read it.", max_repair_attempts=3)
    assert [len(request.turns) for request in model.requests] == [1, 3, 3, 3]
    assert "null" in model.requests[3].turns[1].text


@pytest.mark.parametrize(("mode", "wrapped"), [("tool", True), ("native", True), ("prompt", False)])
async def test_list_schema_is_wrapped_if_the_provider_requires_an_object(
    mode: Mode, wrapped: bool
) -> None:
    answer = {"elements": [1, 2]} if wrapped else [1, 2]
    async with Session(model=ScriptedModel.of(lambda _: answer)) as session:
        found = await session.generate_object(list[int], "Count.", mode=mode)
        assert found.object == [1, 2]
        # Of what was meant, the wrapping is a detail.
        bare = ScriptedModel("[3]")
        assert (
            await session.generate_object(list[int], "Count.", mode=mode, model=bare)
        ).object == [3]
    assert (bare.requests[0].schema.get("type") == "object") is wrapped


async def test_schema_may_describe_a_scalar() -> None:
    async with Session(model=ScriptedModel({"value": "paid"})) as session:
        found = await session.generate_object({"enum": ["open", "paid"]}, "Which?")
    assert found.object == "paid"


async def test_instructions_description_and_settings_reach_the_model() -> None:
    model = ScriptedModel.of(lambda _: {"total": 1})
    async with Session(model=model) as session:
        for mode in ("tool", "prompt"):
            await session.generate_object(
                SCHEMA,
                "Read it.",
                mode=mode,
                schema_name="bill",
                schema_description="A bill.",
                system="Be exact.",
                settings={"max_tokens": 99},
            )
    by_tool, by_prompt = model.requests
    assert (by_tool.name, by_tool.description, by_tool.system) == ("bill", "A bill.", "Be exact.")
    assert by_prompt.system.startswith("Be exact.\n\nAnswer with the bill (A bill.)")
    assert json.dumps(SCHEMA) in by_prompt.system
    assert by_tool.settings == by_prompt.settings == {"max_tokens": 99}


# --- validators --------------------------------------------------------------------------------


async def test_validator_receives_the_object_and_its_message_reaches_the_model() -> None:
    seen: list[Invoice] = []

    def positive(invoice: Invoice) -> None:
        seen.append(invoice)
        if invoice.total <= 0:
            msg = "total must be above zero"
            raise ValueError(msg)

    async def even(invoice: Invoice) -> list[str]:
        return ["total must be even"] if invoice.total % 2 else []

    model = ScriptedModel({"total": -1}, {"total": 3}, {"total": 4})
    async with Session(model=model) as session:
        found = await session.generate_object(Invoice, "Read it.", validators=[positive, even])
    assert found.object.total == 4
    assert [invoice.total for invoice in seen] == [-1, 3, 4]
    told = model.requests[1].turns[-1].text
    assert "total must be above zero" in told
    assert "total must be even" in told
    assert "above zero" not in model.requests[2].turns[-1].text


async def test_validator_may_return_a_violation_but_no_meaningless_value() -> None:
    place = Violation("/total", "ledger", "is not in the ledger")
    model = ScriptedModel.of(lambda _: {"total": 1})
    async with Session(model=model) as session:
        with pytest.raises(GenerationError, match="/total: is not in the ledger"):
            await session.generate_object(SCHEMA, "Read it.", validators=[lambda _: place])
        with pytest.raises(UsageError, match="returned False"):
            await session.generate_object(SCHEMA, "Read it.", validators=[lambda _: False])
        with pytest.raises(ZeroDivisionError):
            await session.generate_object(SCHEMA, "Read it.", validators=[lambda _: 1 / 0])


# --- forms -------------------------------------------------------------------------------------


async def test_unsupported_mode_falls_back_and_is_reported() -> None:
    model = ScriptedModel.of(lambda _: {"total": 1}, modes=["prompt"])
    async with Session(model=model) as session:
        found = await session.generate_object(SCHEMA, "Read it.")
    assert found.mode_used == "prompt"
    assert [fallback.mode for fallback in found.fallbacks] == ["tool", "native"]
    assert found.fallbacks[0].reason == "scripted does not support mode tool"


async def test_mode_refused_by_the_model_falls_back_without_a_repair_attempt() -> None:
    refusal = ModelError("HTTP 400: tool_choice is not supported", status=400, refused=True)
    model = ScriptedModel(refusal, refusal, {"total": "x"}, {"total": 1})
    async with Session(model=model) as session:
        found = await session.generate_object(SCHEMA, "Read it.", max_repair_attempts=1)
    assert (found.object, found.mode_used) == ({"total": 1}, "prompt")
    assert [f.reason for f in found.fallbacks] == ["HTTP 400: tool_choice is not supported"] * 2
    assert len(found.attempts) == 2


async def test_refused_mode_is_remembered_for_the_session() -> None:
    refusal = ModelError("HTTP 400: no tools", status=400, refused=True)
    model = ScriptedModel(refusal, refusal, *[{"total": 1}] * 3, refusal, {"total": 2})
    async with Session(model=model) as session:
        for _ in range(3):
            found = await session.generate_object(SCHEMA, "Read it.")
            assert [f.reason for f in found.fallbacks] == ["HTTP 400: no tools"] * 2
        assert [request.mode for request in model.requests[2:]] == ["prompt"] * 3
        # Another schema may be the one that it accepts.
        other = await session.generate_object({**SCHEMA, "title": "Other"}, "Read it.")
    assert (other.mode_used, [f.mode for f in other.fallbacks]) == ("native", ["tool"])


async def test_explicit_mode_never_falls_back() -> None:
    refusal = ModelError("HTTP 400: no tools", status=400, refused=True)
    async with Session(model=ScriptedModel(refusal)) as session:
        with pytest.raises(ModelError, match="no tools"):
            await session.generate_object(SCHEMA, "Read it.", mode="tool")
        prompt_only = ScriptedModel(modes=["prompt"])
        with pytest.raises(UsageError, match="'tool' cannot be used: scripted does not support"):
            await session.generate_object(SCHEMA, "Read it.", mode="tool", model=prompt_only)
        with pytest.raises(UsageError, match="supports no mode"):
            await session.generate_object(SCHEMA, "Read it.", model=ScriptedModel(modes=[]))
    assert prompt_only.requests == []


@pytest.mark.parametrize("mode", ["tool", "native", "prompt"])
async def test_text_answer_is_accepted_in_every_mode_and_reasoning_is_ignored(mode: Mode) -> None:
    text = '<think>maybe {"total": 1}</think>The invoice says:\n```json\n{"total": 2}\n```'
    async with Session(model=ScriptedModel(ModelReply(text))) as session:
        found = await session.generate_object(SCHEMA, "Read it.", mode=mode)
    assert found.object == {"total": 2}


async def test_equal_tool_calls_are_one_answer_and_different_ones_are_none() -> None:
    same = ModelReply(arguments=('{"total": 1}', '{"total": 1}'))
    other = ModelReply(arguments=('{"total": 1}', '{"total": 2}'))
    async with Session(model=ScriptedModel(same, other, {"total": 3})) as session:
        found = await session.generate_object(SCHEMA, "Read it.")
        assert (found.object, len(found.attempts)) == ({"total": 1}, 1)
        found = await session.generate_object(SCHEMA, "Read it.")
    assert (found.object, len(found.attempts)) == ({"total": 3}, 2)
    assert "more than one value" in str(found.attempts[0].violations[0])


# --- what goes wrong ---------------------------------------------------------------------------


async def test_every_failure_reports_attempts_and_usage() -> None:
    model = ScriptedModel({"total": "x"}, {"total": 1.5}, {"total": None})
    async with Session(model=model) as session:
        with pytest.raises(GenerationError, match="3 answers of scripted do not conform") as caught:
            await session.generate_object(SCHEMA, "Read it.")
        assert caught.value.reason == "attempts"
        assert [attempt.value for attempt in caught.value.attempts] == [
            {"total": "x"},
            {"total": 1.5},
            {"total": None},
        ]
        assert caught.value.usage is not None
        assert caught.value.usage.requests == 3
        assert caught.value.usage.input_tokens > 0

        down = ScriptedModel({"total": "x"}, ModelError("HTTP 500", status=500, retryable=True))
        with pytest.raises(ModelError) as failed:
            await session.generate_object(SCHEMA, "Read it.", model=down)
        assert [attempt.value for attempt in failed.value.attempts] == [{"total": "x"}]
        assert failed.value.usage is not None
        assert failed.value.usage == ModelUsage(1, failed.value.usage.input_tokens, 3)

        short = ScriptedModel({"total": "x"}, cut('{"total": 12'))
        with pytest.raises(TruncatedError) as truncated:
            await session.generate_object(
                SCHEMA, "Read it.", model=short, settings={"max_tokens": 3}
            )
        assert len(truncated.value.attempts) == 1
        assert truncated.value.usage is not None
        assert truncated.value.usage.requests == 2


async def test_repeated_violation_ends_generation_early() -> None:
    model = ScriptedModel.of(lambda _: {"total": "x"})
    async with Session(model=model) as session:
        with pytest.raises(GenerationError, match="the same violations") as caught:
            await session.generate_object(SCHEMA, "Read it.", max_repair_attempts=5)
    assert (caught.value.reason, len(model.requests)) == ("no_progress", 2)


async def test_cut_answer_is_an_error_if_the_caller_fixed_its_length() -> None:
    model = ScriptedModel(cut('{"total": 1234'), cut('{"total": 1}'))
    fixed = {"max_tokens": 4}
    async with Session(model=model) as session:
        with pytest.raises(TruncatedError) as caught:
            await session.generate_object(SCHEMA, "Read it.", settings=fixed)
        assert (caught.value.text, len(model.requests)) == ('{"total": 1234', 1)
        # The text truncated after the value held nothing of it.
        found = await session.generate_object(SCHEMA, "Read it.", settings=fixed)
        assert found.object == {"total": 1}


async def test_cut_answer_gets_more_room_without_a_repair_attempt() -> None:
    long = ModelReply('{"total": 1', finish="length", usage=ModelUsage(1, 10, 5_000))
    model = ScriptedModel(long, {"total": "x"}, cut('{"total'), {"total": 1})
    async with Session(model=model) as session:
        found = await session.generate_object(SCHEMA, "Read it.", max_repair_attempts=1)
    assert (found.object, len(found.attempts), found.usage.requests) == ({"total": 1}, 2, 4)
    limits = [request.settings.get("max_tokens") for request in model.requests]
    assert limits == [None, 10_000, 10_000, 8_192]
    # Bounded: a model that never ends costs three requests.
    endless = ScriptedModel.of(lambda _: cut('{"total": 1'))
    async with Session(model=endless) as session:
        with pytest.raises(TruncatedError):
            await session.generate_object(SCHEMA, "Read it.")
    assert len(endless.requests) == 3


async def test_cut_answer_is_the_error_if_the_provider_allows_no_more_room() -> None:
    refusal = ModelError("HTTP 400: max_tokens is too large", status=400, refused=True)
    model = ScriptedModel(cut('{"total": 1'), refusal)
    async with Session(model=model) as session:
        with pytest.raises(TruncatedError):
            await session.generate_object(SCHEMA, "Read it.")
    assert [request.mode for request in model.requests] == ["tool", "tool"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_cut_text_is_continued_if_the_caller_fixed_its_length(streamed: bool) -> None:
    parts = '{"note": "a long text of many', " words and digits 12", '34", "total": 5}'
    partials: list[Partial] = []
    options: dict[str, Any] = {"on_partial": partials.append} if streamed else {}
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "note": {"type": "string"}}}
    repeated = "a long text of many words and digits 12"
    for second in (parts[1], repeated):
        model = ScriptedModel(cut(parts[0]), cut(second), parts[2])
        async with Session(model=model) as session:
            found = await session.generate_object(
                schema, "x", mode="prompt", settings={"max_tokens": 9}, **options
            )
        assert found.object == {"note": "a long text of many words and digits 1234", "total": 5}
        roles = [turn.role for turn in model.requests[2].turns]
        assert roles == ["user", "model", "user"]
        assert model.requests[2].turns[1].text == parts[0] + parts[1]
    assert all(partial.final for partial in partials[-1:])


async def test_continuation_that_does_not_fit_is_truncated_and_a_fresh_start_counts() -> None:
    fixed: dict[str, Any] = {"mode": "prompt", "settings": {"max_tokens": 9}}
    misfit = ScriptedModel(cut('{"status": "open", "total": 1'), "So: the total, is 12}")
    afresh = ScriptedModel(cut('{"status": "open", "total": 1'), '{"total": 12}')
    async with Session() as session:
        with pytest.raises(TruncatedError):
            await session.generate_object(SCHEMA, "x", model=misfit, max_repair_attempts=0, **fixed)
        found = await session.generate_object(SCHEMA, "x", model=afresh, **fixed)
    assert found.object == {"total": 12}


async def test_lost_connection_is_retried_without_a_repair_attempt() -> None:
    model = ScriptedModel(lost('{"to'), lost(""), {"total": 1})
    async with Session(model=model) as session:
        found = await session.generate_object(SCHEMA, "Read it.", max_repair_attempts=0)
        assert (found.object, len(found.attempts), found.usage.requests) == ({"total": 1}, 1, 3)
        broken = ScriptedModel(ModelError("reset by peer", lost=True), {"total": 2})
        found = await session.generate_object(SCHEMA, "Read it.", model=broken)
        assert (found.object, found.usage.requests) == ({"total": 2}, 1)
        gone = ScriptedModel.of(lambda _: lost('{"total": 1'))
        with pytest.raises(ModelError, match="the connection broke 3 times") as caught:
            await session.generate_object(SCHEMA, "Read it.", model=gone)
    assert caught.value.lost
    assert len(gone.requests) == 3
    assert all(len(request.turns) == 1 for request in gone.requests)


async def test_refusal_to_answer_is_an_error_without_repair() -> None:
    model = ScriptedModel(ModelReply("I will not.", finish="refused"))
    async with Session(model=model) as session:
        with pytest.raises(ModelError, match=r"refused to answer.*I will not"):
            await session.generate_object(SCHEMA, "Read it.")


async def test_model_over_its_timeout_is_cancelled() -> None:
    cancelled = anyio.Event()

    async def slow(request: ModelRequest) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return ""

    async with Session() as session:
        with pytest.raises(ModelError, match="not finish within timeout_ms=20") as caught:
            await session.generate_object(SCHEMA, "Read it.", model=slow, timeout_ms=20)
    assert caught.value.retryable
    assert cancelled.is_set()


async def test_invalid_generation_arguments_are_refused_before_any_request() -> None:
    model = ScriptedModel()
    impossible = {"type": "object", "properties": {"a": False}, "required": ["a"]}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"schema": impossible}, "no value conforms"),
        ({"schema": {"type": "objekt"}}, "schema"),
        ({"schema_name": "a b"}, "schema_name 'a b'"),
        ({"prompt": " "}, "prompt must be a string"),
        ({"system": 3}, "system must be a string"),
        ({"mode": "json"}, "mode 'json' is unknown; modes: auto, tool, native, prompt"),
        ({"max_repair_attempts": 6}, "from 0 to 5"),
        ({"timeout_ms": 0}, "timeout_ms must be an integer from 1"),
        ({"validators": ["x"]}, "validators must be functions"),
        ({"model": "gpt-5"}, "write provider:name"),
        ({"model": 3}, "model must be"),
        ({"model": ScriptedModel}, "model must be"),
    ]
    async with Session(model=model) as session:
        for options, message in wrong:
            given = {"schema": SCHEMA, "prompt": "Read it.", **options}
            with pytest.raises(UsageError, match=message):
                await session.generate_object(**given)
        with pytest.raises(TypeError, match="max_repairs"):
            await session.generate_object(SCHEMA, "x", max_repairs=1)  # type: ignore[call-overload]  # what is tested
    assert model.requests == []


async def test_session_without_a_model_lacks_the_tool_and_the_method_raises() -> None:
    with pytest.raises(UsageError, match="write provider:name"):
        Session(model="gpt-5")
    session = Session()
    with pytest.raises(SessionClosedError):
        await session.generate_object(SCHEMA, "x")
    async with session:
        assert "generate_object" not in session.tool_names()
        with pytest.raises(UsageError, match="no model is set"):
            await session.generate_object(SCHEMA, "x")


async def test_hundred_requests_run_concurrently() -> None:
    waiting, everybody = 0, anyio.Event()

    async def together(request: ModelRequest) -> str:
        nonlocal waiting
        waiting += 1
        if waiting == 100:
            everybody.set()
        await everybody.wait()
        return json.dumps({"total": int(request.turns[0].text)})

    totals: list[int] = []

    async def one(number: int) -> None:
        totals.append((await session.generate_object(SCHEMA, str(number))).object["total"])

    with anyio.fail_after(30):
        async with Session(model=together) as session, anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, number)
    assert sorted(totals) == list(range(100))


# --- plain functions ---------------------------------------------------------------------------


async def test_async_function_can_be_a_model() -> None:
    async def whole(request: ModelRequest) -> str:
        assert '"total"' in request.system
        return "Sure: {total: 7}"

    async def in_parts(request: ModelRequest) -> AsyncIterator[str]:
        for part in ('{"to', 'tal"', ": 8}"):
            yield part

    partials: list[Partial] = []
    async with Session() as session:
        found = await session.generate_object(SCHEMA, "Read it.", model=whole)
        assert (found.object, found.mode_used) == ({"total": 7}, "prompt")
        streamed = await session.generate_object(
            SCHEMA, "Read it.", model=in_parts, on_partial=partials.append
        )
    assert streamed.object == {"total": 8}
    assert partials[-1].final


async def test_failing_or_non_text_model_function_raises_model_error() -> None:
    async def broken(request: ModelRequest) -> str:
        raise OSError("no route")

    async def odd(request: ModelRequest) -> str:
        return 3  # type: ignore[return-value]  # what is tested

    async with Session() as session:
        with pytest.raises(ModelError, match="broken failed: OSError: no route"):
            await session.generate_object(SCHEMA, "Read it.", model=broken)
        with pytest.raises(ModelError, match="odd returned 3"):
            await session.generate_object(SCHEMA, "Read it.", model=odd)
        with pytest.raises(UsageError, match="a function model answers in text only"):
            await session.generate_object(SCHEMA, "Read it.", model=broken, mode="tool")


# --- streams -----------------------------------------------------------------------------------


async def test_partials_only_grow_and_the_last_is_the_validated_object() -> None:
    answer = {"total": 123456, "lines": ["tea, black", "sugar"]}
    partials: list[Partial] = []
    async with Session(model=ScriptedModel(answer, chunk_chars=1)) as session:
        found = await session.generate_object(Invoice, "Read it.", on_partial=partials.append)
    assert partials[-1].final
    assert partials[-1].value == found.value == answer
    assert len(partials) > 1
    assert not any(partial.reset for partial in partials)
    assert not any(partial.final for partial in partials[:-1])
    assert all(partial.value.get("total", 123456) == 123456 for partial in partials)


async def test_repair_or_validator_objection_resets_the_partials() -> None:
    first = {"lines": ["x" * 100], "total": "no"}
    second = {"lines": ["y" * 100], "total": 1}
    third = {"lines": ["z" * 100], "total": 2}
    partials: list[Partial] = []

    def not_one(invoice: Invoice) -> str | None:
        return "total is not 1" if invoice.total == 1 else None

    async with Session(model=ScriptedModel(first, second, third)) as session:
        found = await session.generate_object(
            Invoice, "Read it.", on_partial=partials.append, validators=[not_one]
        )
    assert found.value == third
    attempts = [partial.attempt for partial in partials]
    assert attempts == sorted(attempts)
    assert set(attempts) == {1, 2, 3}
    firsts = [partials[attempts.index(number)] for number in (1, 2, 3)]
    assert [partial.reset for partial in firsts] == [False, True, True]
    # A value that a validator rejected was never reported as the final one.
    assert [partial.final for partial in partials].count(True) == 1
    assert partials[-1].value == third


def grows(before: Any, after: Any) -> bool:
    """True if nothing of `before` was taken back: keys stay, lists and strings only get longer."""
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and grows(part, after[key]) for key, part in before.items())
    if isinstance(before, list) and isinstance(after, list):
        return len(before) <= len(after) and all(map(grows, before, after))
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    return bool(before == after)


async def test_random_faults_never_retract_a_partial_without_reset() -> None:
    dice = random.Random(8)

    def answer() -> dict[str, Any]:
        lines = [dice.choice("xyz") * dice.randrange(120) for _ in range(dice.randrange(4))]
        fields: list[tuple[str, Any]] = [("total", dice.randrange(10**9)), ("lines", lines)]
        dice.shuffle(fields)
        return dict(fields)

    for _ in range(150):
        good = answer()
        bad: list[Any] = [
            {**answer(), "total": "no"},
            {**answer(), "lines": 3},
            lost(json.dumps(answer())[:-9]),
            f"It is {json.dumps(answer())} or {json.dumps(answer())}",
            f"```json\n{json.dumps(answer())[:-1]},}}\n```",
        ]
        answers = dice.sample(bad, dice.randrange(3))
        model = ScriptedModel(*answers, good, chunk_chars=dice.randrange(1, 40))
        partials: list[Partial] = []
        found = await generate_object(
            OpenModels(model), Invoice, "x", on_partial=partials.append, max_repair_attempts=5
        )
        assert partials[-1].final
        assert partials[-1].value == found.value
        assert [partial.final for partial in partials].count(True) == 1
        for before, after in pairwise(partials):
            assert after.reset or grows(before.value, after.value)
            assert after.reset or after.attempt == before.attempt
            assert "total" not in after.value or isinstance(after.value["total"], int)


async def test_text_before_the_tool_call_is_discarded_with_a_reset() -> None:
    class Chatty(ScriptedModel):
        async def stream(self, request: ModelRequest, tell: Any) -> ModelReply:
            from ptc.models import Delta

            tell(Delta('For example {"total": 99} or so. '))
            tell(Delta('{"total": 5}', in_call=True))
            tell(Delta(" done"))
            return ModelReply("For example", arguments=('{"total": 5}',))

    partials: list[Partial] = []
    async with Session(model=Chatty()) as session:
        found = await session.generate_object(SCHEMA, "x", on_partial=partials.append)
    assert found.object == partials[-1].value == {"total": 5}
    assert partials[0].value == {"total": 99}
    assert partials[1].reset


async def test_truncated_stream_is_an_error_after_the_last_partial() -> None:
    partials: list[Partial] = []
    answer = cut('{"status": "open", "total": 1234')
    async with Session(model=ScriptedModel.of(lambda _: answer)) as session:
        with pytest.raises(TruncatedError):
            await session.generate_object(SCHEMA, "x", mode="prompt", on_partial=partials.append)
    assert not any(partial.final for partial in partials)


# --- the tool ----------------------------------------------------------------------------------


async def events_of(session: Session, **arguments: Any) -> list[RunEvent]:
    async with session.stream("generate_object", {"prompt": "Read it.", **arguments}) as events:
        return [event async for event in events]


async def test_a_script_gathers_objects_over_many_documents() -> None:
    model = ScriptedModel.of(lambda request: {"total": len(request.turns[0].text)})
    source = """
import asyncio

async def run(ctx, inputs):
    found = await asyncio.gather(*(
        ctx.generate_object(inputs["schema"], "x" * number) for number in range(1, 31)
    ))
    return {"totals": [one.object["total"] for one in found], "mode": found[0].mode_used}
"""
    async with Session(model=model) as session:
        result = await session.program(
            source=source, inputs={"schema": SCHEMA}, allowed_tools=["generate_object"]
        )
    assert result.unwrap() == {"totals": list(range(1, 31)), "mode": "tool"}
    assert [call.status for call in result.calls] == ["succeeded"] * 30


async def test_tool_result_contains_object_attempts_repairs_and_usage() -> None:
    model = ScriptedModel({"total": "x"}, "{'total': 2}", {"total": 3})
    async with Session(model=model) as session:
        result = await session.tool(
            "generate_object", {"schema": SCHEMA, "prompt": "x", "include_raw_text": True}
        )
        silent = await session.tool("generate_object", {"schema": SCHEMA, "prompt": "x"})
    value = json.loads(result.text)
    assert value["object"] == {"total": 2}
    assert [attempt["text"] for attempt in value["attempts"]] == ['{"total":"x"}', "{'total': 2}"]
    assert "/total" in value["attempts"][0]["violations"][0]
    assert {repair["kind"] for repair in value["repairs"]} == {"quotes"}
    assert value["usage"]["requests"] == 2
    assert json.loads(silent.text)["attempts"] == [{"violations": [], "text": None}]


async def test_tool_errors_have_codes_that_a_script_can_handle() -> None:
    prompt = {"schema": SCHEMA, "prompt": "x"}
    down = ModelError("HTTP 503", status=503, retryable=True)
    cases: list[tuple[Any, dict[str, Any], str, bool]] = [
        ([{"total": "x"}], {"max_repair_attempts": 0}, "not_conforming", False),
        ([cut('{"total": 1')] * 3, {}, "truncated", False),
        ([down], {}, "model_failed", True),
        ([], {"schema": {"type": "objekt"}}, "invalid_arguments", False),
        ([], {"mode": "strict"}, "invalid_arguments", False),
        ([], {"schema_name": "a b"}, "invalid_arguments", False),
        ([], {"max_repair_attempts": 9}, "invalid_arguments", False),
    ]
    for answers, arguments, code, retryable in cases:
        async with Session(model=ScriptedModel(*answers)) as session:
            result = await session.tool("generate_object", {**prompt, **arguments})
        assert isinstance(result.error, ToolError)
        assert (result.error.code, result.error.retryable) == (code, retryable)
        if code == "not_conforming":
            assert result.error.details["reason"] == "attempts"
            attempts: Any = result.error.details["attempts"]
            assert attempts[0]["text"] == '{"total":"x"}'


async def test_streamed_call_yields_deltas_and_the_validated_object() -> None:
    first = {"status": "open", "total": "no"}
    second = {"total": 41, "status": "paid"}
    async with Session(model=ScriptedModel(first, second, chunk_chars=3)) as session:
        events = await events_of(session, schema=SCHEMA)
    deltas = [event.value for event in events if event.kind == "tool_output_delta"]
    assert events[-1].kind == "finished"
    assert deltas[-1] == {
        "object": second,
        "attempt": 2,
        "reset": False,
        "final": True,
        "pending": None,
    }
    assert events[-1].value.value.object == second
    assert [delta["final"] for delta in deltas].count(True) == 1
    begun = [delta["attempt"] for delta in deltas].index(2)
    assert deltas[begun]["reset"] is (begun > 0)


async def test_truncated_streamed_call_ends_with_an_error_and_no_final_delta() -> None:
    answers = [cut('{"status": "open", "total": 1')] * 3
    async with Session(model=ScriptedModel(*answers)) as session:
        events = await events_of(session, schema=SCHEMA)
    assert not any(e.value["final"] for e in events if e.kind == "tool_output_delta")
    assert events[-1].value.error.code == "truncated"


async def test_model_is_not_streamed_without_a_subscriber() -> None:
    class Whole(ScriptedModel):
        async def stream(self, request: ModelRequest, tell: Any) -> ModelReply:
            raise AssertionError

        async def complete(self, request: ModelRequest) -> ModelReply:
            return tool_only(request)

    async with Session(model=Whole()) as session:
        value = await session.tool("generate_object", {"schema": SCHEMA, "prompt": "x"})
    assert value.unwrap().object == {"total": 1}


@pytest.mark.parametrize(
    ("options", "unwanted"),
    [
        ("model='openai:gpt-5'", ("pydantic_ai", "openai", "anthropic", "httpx", "ptc.testing")),
        ("", ("ptc.models", "ptc.structured", "ptc._generation._generate", "jsonschema_rs")),
    ],
)
def test_session_imports_only_the_requested_model_packages(
    options: str, unwanted: tuple[str, ...]
) -> None:
    script = f"import sys, ptc; ptc.Session({options}); print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not set(done.stdout.split()) & set(unwanted)
