"""Scripts to measure, written so that ptc, plain CPython and Monty can all run them."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CPU", "TRIVIAL", "TWENTY_FIVE_LINES"]

TRIVIAL = """\
def run(ctx, inputs):
    return 1
"""

TWENTY_FIVE_LINES = """\
def price(order, rates):
    total = 0
    for item in order["items"]:
        total += item["cents"] * item["count"]
    return total * rates[order["country"]] // 100

def run(ctx, inputs):
    rates = {"AT": 120, "BE": 121, "CH": 108, "DE": 119}
    countries = list(rates)
    orders = []
    for n in range(40):
        items = [{"cents": n * 7 + k, "count": k} for k in range(1, 4)]
        orders.append({"id": n, "country": countries[n % 4], "items": items})
    sums = {}
    for order in orders:
        country = order["country"]
        sums[country] = sums.get(country, 0) + price(order, rates)
    ranked = sorted(sums.items(), key=lambda pair: -pair[1])
    first, last = ranked[0], ranked[-1]
    lines = [f"{name}: {cents / 100:.2f}" for name, cents in ranked]
    try:
        missing = sums["FR"]
    except KeyError:
        missing = None
    return {"text": "; ".join(lines), "first": first[0], "last": last[0], "missing": missing}
"""

_FIB = """\
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

def run(ctx, inputs):
    return fib(25)
"""

_LOOP = """\
def run(ctx, inputs):
    total = 0
    for n in range(1000000):
        total += n
    return total
"""

_WORDS = """\
def run(ctx, inputs):
    x = 1
    counts = {}
    for n in range(100000):
        x = (x * 1103515245 + 12345) % 2147483648
        word = f"w{x // 65536 % 1000}"
        counts[word] = counts.get(word, 0) + 1
    return [len(counts), max(counts.values())]
"""

_SORT = """\
def run(ctx, inputs):
    x = 1
    numbers = []
    for n in range(100000):
        x = (x * 1103515245 + 12345) % 2147483648
        numbers.append(x)
    ranked = sorted(numbers)
    backwards = sorted(numbers, key=lambda number: -number)
    return [ranked[0], ranked[50000], backwards[0]]
"""

_ATTRIBUTES = """\
class Account:
    def __init__(self, name):
        self.name = name
        self.balance = 0
        self.moves = 0

    def move(self, amount):
        self.balance += amount
        self.moves += 1
        return self.balance

def run(ctx, inputs):
    accounts = [Account(f"a{n}") for n in range(100)]
    high = 0
    for n in range(100000):
        account = accounts[n % 100]
        if account.move(n % 11 - 5) > high:
            high = account.balance
    return [high, sum([account.balance for account in accounts]), accounts[7].moves]
"""

_SUBSCRIPTS = """\
def run(ctx, inputs):
    grid = [[row * column for column in range(100)] for row in range(100)]
    pairs = [(n, n + 1) for n in range(1000)]
    total = 0
    for turn in range(10):
        for row in range(1, 99):
            above, here, below = grid[row - 1], grid[row], grid[row + 1]
            for column in range(1, 99):
                here[column] = (above[column] + below[column] + here[column - 1]) % 1000
        for first, second in pairs:
            first, second = second, first
            total += first - second
    return [total, grid[50][50], sum(grid[98][1:99])]
"""

_REGEX = """\
import re

def run(ctx, inputs):
    line = "2024-03-07 10:42:17 INFO user17@example.com asked for /api/v2/items?id=4711 in 83 ms\\n"
    text = line * (1000000 // len(line))
    addresses = re.findall(r"[a-z0-9]+@[a-z]+\\.com", text)
    slow = re.findall(r"in (\\d+) ms", text)
    return [len(text), len(addresses), len(slow)]
"""

_JSON = """\
import json

def run(ctx, inputs):
    rows = []
    for n in range(14000):
        rows.append({"id": n, "name": f"row {n}", "tags": ["a", "b"], "score": n / 8})
    text = json.dumps(rows)
    back = json.loads(text)
    return [len(text), len(back), back[-1]["name"]]
"""

_FILTER = """\
def run(ctx, inputs):
    rows = [{"id": n, "kind": "abcd"[n % 4], "size": n * 7919 % 10007} for n in range(10000)]
    chosen = [row for row in rows if row["kind"] == "b" and row["size"] > 5000]
    chosen.sort(key=lambda row: (-row["size"], row["id"]))
    return [len(chosen), chosen[0]["id"], sum([row["size"] for row in chosen[:100]])]
"""

CPU: Mapping[str, str] = {
    "fib(25)": _FIB,
    "add 1e6": _LOOP,
    "count words 1e5": _WORDS,
    "sort 1e5": _SORT,
    "attributes": _ATTRIBUTES,
    "subscripts": _SUBSCRIPTS,
    "regex 1 MB": _REGEX,
    "json 1 MB": _JSON,
    "filter 1e4 dicts": _FILTER,
}
"""Scripts by the kind of work. Each returns a value that shows whether the work was done."""
