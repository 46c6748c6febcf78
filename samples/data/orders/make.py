"""Write 240 letters with orders, and the right object of each. The result is always the same.

python samples/data/orders/make.py
"""

import json
import random
from datetime import date, timedelta
from pathlib import Path

FOLDER = Path(__file__).parent
COUNT = 240
PEOPLE = ["Ada Okafor", "Bo Lindgren", "Carla Reyes", "Dmitri Vance", "Emi Tanaka", "Femi Adeyemi"]
GOODS = {"rope": 102_00, "fender": 61_25, "anchor": 240_00, "lamp": 18_90, "chart": 7_50}
CITIES = ["Bergen", "Cádiz", "Galway", "Piraeus", "Tallinn"]
MONTHS = "January February March April May June July August September October November December"


def write_order(number: int, dice: random.Random) -> tuple[dict[str, str], dict[str, object]]:
    """Return one letter and its object."""
    name = f"order-{number:03}"
    day = date(2026, 1, 5) + timedelta(days=dice.randrange(300))
    customer, city = dice.choice(PEOPLE), dice.choice(CITIES)
    lines = [
        {"item": item, "quantity": dice.randint(1, 9), "cents": GOODS[item]}
        for item in dice.sample(sorted(GOODS), dice.randint(1, 3))
    ]
    total = sum(int(str(line["quantity"])) * int(str(line["cents"])) for line in lines)
    written = f"{day.day} {MONTHS.split()[day.month - 1]} {day.year}"
    goods = "\n".join(
        f"  {line['quantity']} x {line['item']:<8} {int(str(line['cents'])) / 100:>9.2f} EUR each"
        for line in lines
    )
    text = dice.choice(
        [
            f"Order {name}\n{written}\n\nDear harbour store,\n\nplease send to {city}:\n\n{goods}\n"
            f"\nThat makes {total / 100:,.2f} EUR.\n\nKind regards\n{customer}\n",
            f"From: {customer}, {city}\nDate: {written}\nSubject: {name}\n\nWe need\n\n{goods}\n\n"
            f"Total: {total / 100:,.2f} EUR\n",
        ]
    )
    gold = {
        "order": name,
        "day": day.isoformat(),
        "customer": customer,
        "city": city,
        "lines": [{"item": line["item"], "quantity": line["quantity"]} for line in lines],
        "total": f"{total / 100:.2f}",
    }
    return {"id": name, "text": text}, {"id": name, "object": gold}


def main() -> None:
    dice = random.Random(18)  # noqa: S311  # the same letters each time
    pairs = [write_order(number, dice) for number in range(1, COUNT + 1)]
    for name, rows in zip(("letters", "gold"), zip(*pairs, strict=True), strict=True):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (FOLDER / f"{name}.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
