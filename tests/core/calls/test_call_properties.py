"""Properties of calls in any order: keys, limits, cache, breaker, redaction."""

from __future__ import annotations

import base64
import tempfile
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import anyio
import anyio.lowlevel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptc import Cache, Retry, Session, ToolError, define_tool
from ptc._calls._call import OpenCall
from ptc._calls._occurrences import Occurrences
from ptc._core._redact import Redactor
from ptc._tools._tool import ToolCall

SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "steps": {"type": "integer"}},
    "required": ["n"],
}
bounded = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
CALLS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=14)
"""Number, and how often it gives way before it ends."""


# --- keys -------------------------------------------------------------------------------------

words = st.sampled_from(["a", "b", "c"])
logical = st.lists(st.tuples(st.sampled_from(["send", "pay"]), words, words), max_size=14)


def keys_of(
    made: list[tuple[str, str, str]],
    *,
    asked: list[int],
    tries: int = 1,
    ended: frozenset[int] = frozenset(),
) -> list[Any]:
    """Keys of calls made in this order; `asked` is the order in which they are looked at.

    Calls in `ended` have ended before.
    """
    siblings = Occurrences()
    calls = []
    for seq, (name, first, second) in enumerate(made, 1):
        arguments = {"x": first, "y": second}
        if seq % 2:
            arguments = dict(reversed(arguments.items()))
        call = OpenCall(ToolCall(name, {}, seq, "run"), siblings=siblings, arguments=arguments)
        siblings.add(call)
        calls.append(call)
    found: list[Any] = [None] * len(calls)
    for number in ended:
        occurrence = calls[number].occurrence
        assert occurrence is not None
        occurrence.forget_call()
    for number in asked:
        for attempt in range(tries):
            calls[number].attempt = attempt + 1
            key = calls[number].key()
            assert found[number] in (None, key), "a further try has the key of the first"
            found[number] = key
    return found


@given(logical, st.data())
def test_idempotency_keys_do_not_depend_on_the_order_of_evaluation(
    made: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    orders = st.permutations(range(len(made)))
    keys = keys_of(made, asked=data.draw(orders), tries=3)
    assert len(set(keys)) == len(made), "every call has a key of its own"
    assert keys == keys_of(made, asked=data.draw(orders)), "a replay has the same"
    # Calls that differ may be made in another order: each keeps its key.
    order = data.draw(orders)
    moved = keys_of([made[number] for number in order], asked=list(range(len(made))))
    by_call: dict[Any, list[Any]] = {}
    for number, key in zip(order, moved, strict=True):
        by_call.setdefault(made[number], []).append(key)
    for call, found in by_call.items():
        assert found == [key for key, own in zip(keys, made, strict=True) if own == call]


@given(logical, st.data())
def test_calls_that_have_ended_keep_their_keys_and_change_no_other(
    made: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    ended = data.draw(st.frozensets(st.sampled_from(range(len(made)))) if made else st.just([]))
    asked = data.draw(st.permutations(range(len(made))))
    keys = keys_of(made, asked=list(range(len(made))))
    assert keys == keys_of(made, asked=asked, ended=frozenset(ended))


@given(logical, words)
def test_additional_call_does_not_change_other_keys(
    made: list[tuple[str, str, str]], word: str
) -> None:
    keys = keys_of(made, asked=list(range(len(made))))
    longer = keys_of([*made, ("pay", word, word)], asked=list(range(len(made) + 1)))
    assert longer[:-1] == keys
    assert longer[-1] not in keys


# --- limits, cache and breaker under concurrency ------------------------------------------------


def run_concurrently(made: list[tuple[int, int]], work: Any, **options: Any) -> list[Any]:
    """Make calls at once; return for each its value, or the code of its error."""
    found: list[Any] = [None] * len(made)

    async def main() -> None:
        tool = define_tool("work", "W.", SCHEMA, work, **options)
        with tempfile.TemporaryDirectory() as root:
            async with Session(root, tools=[tool], toolsets=(), journal=None) as session:

                async def one(index: int, n: int, steps: int) -> None:
                    result = await session.tool("work", {"n": n, "steps": steps})
                    found[index] = result.error.code if result.error else result.value

                with anyio.fail_after(20):
                    async with anyio.create_task_group() as group:
                        for index, (n, steps) in enumerate(made):
                            group.start_soon(one, index, n, steps)

    anyio.run(main)
    return found


async def yield_to_others(steps: int) -> None:
    for _ in range(steps):
        await anyio.lowlevel.checkpoint()


@bounded
@given(CALLS, st.integers(0, 6))
def test_no_order_of_calls_exceeds_max_executions(made: list[tuple[int, int]], most: int) -> None:
    """Number 0 fails: that is no execution, but it has a place while it is under way."""
    under_way = done = 0

    async def work(arguments: Mapping[str, Any]) -> int:
        nonlocal under_way, done
        under_way += 1
        assert under_way + done <= most
        await yield_to_others(arguments["steps"])
        under_way -= 1
        if arguments["n"] == 0:
            raise ToolError("no")
        done += 1
        return int(arguments["n"])

    found = run_concurrently(made, work, max_executions_per_run=most)
    assert set(found) <= {"failed", "limit_exceeded", 1, 2, 3}
    assert sum(isinstance(value, int) for value in found) == done <= most
    for (n, _), value in zip(made, found, strict=True):
        assert value in ("limit_exceeded", n or "failed")


@bounded
@given(CALLS)
def test_equal_calls_execute_once_in_any_order(
    made: list[tuple[int, int]],
) -> None:
    times: Counter[int] = Counter()
    under_way: Counter[int] = Counter()

    async def work(arguments: Mapping[str, Any]) -> dict[str, int]:
        n = arguments["n"]
        under_way[n] += 1
        assert under_way[n] == 1, "two of the same at once"
        await yield_to_others(arguments["steps"])
        under_way[n] -= 1
        times[n] += 1
        return {"n": n}

    same = Cache(key=lambda arguments: arguments["n"])
    found = run_concurrently(made, work, cache=same)
    assert found == [{"n": n} for n, _ in made]
    assert times == Counter({n for n, _ in made})
    assert len({id(value) for value in found}) == len(found), "each has a copy of its own"


@bounded
@given(CALLS, st.integers(1, 4))
def test_no_order_of_calls_bypasses_an_open_breaker(
    made: list[tuple[int, int]], threshold: int
) -> None:
    failed_in_a_row = 0

    async def work(arguments: Mapping[str, Any]) -> int:
        nonlocal failed_in_a_row
        assert failed_in_a_row < threshold, "the breaker is open"
        await yield_to_others(arguments["steps"])
        if arguments["n"] % 2 == 0:
            failed_in_a_row += 1
            raise ToolError("no")
        failed_in_a_row = 0
        return int(arguments["n"])

    found = run_concurrently(made, work, retry=Retry(breaker_threshold=threshold))
    assert set(found) <= {"failed", "circuit_open", 1, 3}


# --- redaction ----------------------------------------------------------------------------------

secrets = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=8, max_size=20)
plain = st.text(st.sampled_from("xyz 0"), max_size=5)


def shapes(secret: str) -> st.SearchStrategy[Any]:
    forms = [secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode()]
    leaf = st.builds(lambda a, form, b: f"{a}{form}{b}", plain, st.sampled_from(forms), plain)
    return st.recursive(
        leaf | plain | st.none() | st.booleans() | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(leaf, inner, max_size=3),
        max_leaves=8,
    )


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for pair in value.items() for item in pair for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return []


@given(secrets, st.data())
def test_redaction_removes_a_secret_from_data_of_any_shape(
    secret: str, data: st.DataObject
) -> None:
    redactor = Redactor({"KEY": secret})
    clean = redactor.data(data.draw(shapes(secret)))
    forms = (secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode())
    for text in texts(clean):
        assert not any(form in text for form in forms)
    assert redactor.data(clean) == clean, "what is clean stays as it is"


@given(st.lists(secrets, min_size=2, max_size=4, unique=True), st.data())
def test_redaction_removes_several_secrets_in_any_order(
    several: list[str], data: st.DataObject
) -> None:
    text = "|".join(data.draw(st.permutations(several)))
    clean = Redactor({f"K{n}": secret for n, secret in enumerate(several)}).text(text)
    assert not any(secret in clean for secret in several)


def test_idempotency_key_reveals_no_argument() -> None:
    """The key is of the call: no text of a caller can be read from it."""
    call = OpenCall(
        ToolCall("send", {}, 1, "run"), siblings=Occurrences(), arguments={"to": "ann@example.com"}
    )
    assert call.siblings is not None
    call.siblings.add(call)
    key = call.key()
    assert key is not None
    assert len(key) == 64
    assert set(key) <= set("0123456789abcdef")
