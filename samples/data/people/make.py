"""Write 40 short notes about people, and the right object of each. The result is always the same.

python samples/data/people/make.py
"""

import json
import random
from pathlib import Path

FOLDER = Path(__file__).parent
COUNT = 40
FIRST = ["Ada", "Bo", "Carla", "Dmitri", "Emi", "Femi", "Grete", "Hugo"]
LAST = ["Okafor", "Lindgren", "Reyes", "Vance", "Tanaka", "Adeyemi", "Moreau", "Novak"]
JOBS = ["baker", "carpenter", "doctor", "nurse", "pilot", "teacher"]
CITIES = ["Bergen", "Cádiz", "Galway", "Lyon", "Piraeus", "Tallinn"]
NOTES = [
    "{name} is a {age} year old {job} from {city}.",
    "Met {name} in {city} today, where she works as a {job}. She is {age}.",
    "{name}, {age}, {job}, {city}",
    "New member: {name}. Lives in {city}. Profession: {job}. Age: {age}.",
    "At the age of {age}, {name} still works as a {job} in {city}.",
]


def write_note(number: int, dice: random.Random) -> tuple[dict[str, str], dict[str, object]]:
    """Return one note and its object."""
    name = f"note-{number:02}"
    gold = {
        "name": f"{dice.choice(FIRST)} {dice.choice(LAST)}",
        "age": dice.randint(19, 80),
        "job": dice.choice(JOBS),
        "city": dice.choice(CITIES),
    }
    return {"id": name, "text": dice.choice(NOTES).format(**gold)}, {"id": name, "object": gold}


def main() -> None:
    dice = random.Random(18)  # noqa: S311  # the same notes each time
    pairs = [write_note(number, dice) for number in range(1, COUNT + 1)]
    for name, rows in zip(("notes", "gold"), zip(*pairs, strict=True), strict=True):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (FOLDER / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
