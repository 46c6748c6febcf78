"""Write the tables and the chart of docs/performance.md from the numbers of two benchmarks.

    python tests/benchmarks/run.py --rounds 9 --json run.json
    python tests/benchmarks/growth.py --json growth.json
    python tests/benchmarks/page.py run.json growth.json --also other.json [OTHER ...]

Files of `--also` are numbers of `run.py` on other releases of Python, or while the cores are busy:
their table has ptc and Monty side by side.

The text of the page stays; only what stands between its markers is replaced.
"""

from __future__ import annotations

import argparse
import math
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
CHART = PAGE.parent / "pictures" / "performance.svg"
_WIDTH, _LABEL, _BAR = 720, 300, 22
_STYLE = """\
text{font:12px system-ui,sans-serif;fill:#1f2328}.less{fill:#1a7f37}.more{fill:#bc4c00}
.axis{stroke:#57606a;stroke-width:1}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.less{fill:#3fb950}.more{fill:#db6d28}
.axis{stroke:#8b949e}}"""


def number(value: float | None) -> str:
    """Format a figure with three digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:.3g}"


def conditions(data: Mapping[str, Any]) -> str:
    """Describe the machine of a benchmark."""
    machine = data["machine"]
    return (
        f"CPython {machine['python']}, {machine['cores']} cores, Linux {platform.release()}, "
        f"load {machine['load_1_min']}"
    )


def run_table(data: Mapping[str, Any]) -> str:
    """Return the table of `run.py` in Markdown."""
    lines = [
        f"{conditions(data)}; {data['rounds']} rounds, each with all systems in turn; "
        f"Monty {data['monty'] or 'not measured'}.",
        "",
        "| measure | unit | ptc | Monty | ptc / Monty | CPython | ptc / CPython |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in data["rows"]:
        unit = row["unit"] + (", more is better" if row["more_is_better"] else "")
        cells = [row[key] for key in ("ptc", "monty", "ptc_to_monty", "cpython", "ptc_to_cpython")]
        lines.append(f"| {row['name']} | {unit} | {' | '.join(map(number, cells))} |")
    return "\n".join(lines)


def growth_table(data: Mapping[str, Any]) -> str:
    """Return the table of `growth.py` in Markdown: a line for each kind of size."""
    lines = [
        f"{conditions(data)}.",
        "",
        "| with more | small | medium | large | growth |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for row in data["rows"]:
        by_kind.setdefault(row["what"], []).append(row)
    for what, rows in by_kind.items():
        cells = [f"{row['size']:,} {row['unit']}: {number(row['ms'])} ms" for row in rows]
        lines.append(f"| {what} | {' | '.join(cells)} | {rows[-1]['growth']:.2f} |")
    return "\n".join(lines)


def other_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return a table with the figures of ptc and Monty under several conditions."""
    heads = [
        f"{run['machine']['python']}, load {run['machine']['load_1_min']}, {run['rounds']} rounds"
        for run in runs
    ]
    lines = [
        f"| measure | unit | {' | '.join(heads)} |",
        f"| --- | --- | {' | '.join('---:' for _ in runs)} |",
    ]
    for rows in zip(*(run["rows"] for run in runs), strict=True):
        if rows[0]["monty"] is not None:
            cells = [f"{number(row['ptc'])} / {number(row['monty'])}" for row in rows]
            lines.append(f"| {rows[0]['name']} | {rows[0]['unit']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def chart(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG with the ratio of ptc to Monty for each measure, on a logarithmic axis."""
    ratios = [
        (row["name"], 1 / row["ptc_to_monty"] if row["more_is_better"] else row["ptc_to_monty"])
        for row in rows
        if row["ptc_to_monty"]
    ]
    height = _BAR * len(ratios) + 46
    most = max((abs(math.log10(ratio)) for _, ratio in ratios), default=1.0)
    middle = _LABEL + (_WIDTH - _LABEL - 60) / 2
    scale = (_WIDTH - _LABEL - 160) / 2 / most
    parts = [*_bars(ratios, middle, scale)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="Cost of ptc divided by that of Monty, by measure"><style>{_STYLE}</style>'
        f'<text x="{middle}" y="16" text-anchor="middle">less than Monty | more than Monty</text>'
        f'<line class="axis" x1="{middle}" y1="24" x2="{middle}" y2="{height - 14}"/>'
        f"{''.join(parts)}</svg>\n"
    )


def _bars(ratios: Iterable[tuple[str, float]], middle: float, scale: float) -> Iterable[str]:
    for at, (name, ratio) in enumerate(ratios):
        top = 30 + at * _BAR
        length = max(abs(math.log10(ratio)) * scale, 1)
        left = middle - length if ratio < 1 else middle
        end, anchor = (left - 6, "end") if ratio < 1 else (left + length + 6, "start")
        kind = "less" if ratio < 1 else "more"
        yield (
            f'<text x="{_LABEL - 12}" y="{top + 13}" text-anchor="end">{name}</text>'
            f'<rect class="{kind}" x="{left:.0f}" y="{top}" width="{length:.0f}" height="16"/>'
            f'<text x="{end:.0f}" y="{top + 13}" text-anchor="{anchor}">{ratio:.2g}</text>'
        )


def replaced(text: str, name: str, block: str) -> str:
    """Return `text` with the block between the markers of this name replaced."""
    pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end of {name} -->)"
    new, count = re.subn(pattern, lambda found: found[1] + block + found[2], text, flags=re.S)
    if count != 1:
        raise SystemExit(f"{PAGE.name} has no markers for {name!r}")
    return new


def main() -> None:
    """Read the numbers, write the page and the chart."""
    parser = argparse.ArgumentParser(
        prog="python tests/benchmarks/page.py", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("run", type=Path, help="numbers of run.py --json")
    parser.add_argument("growth", type=Path, help="numbers of growth.py --json")
    parser.add_argument("--also", type=Path, nargs="+", default=[], help="further such numbers")
    chosen = parser.parse_args()
    run = orjson.loads(chosen.run.read_bytes())
    growth = orjson.loads(chosen.growth.read_bytes())
    text = PAGE.read_text(encoding="utf-8")
    text = replaced(text, "numbers", run_table(run))
    text = replaced(text, "growth", growth_table(growth))
    if chosen.also:
        others = [orjson.loads(path.read_bytes()) for path in chosen.also]
        text = replaced(text, "others", other_table(others))
    PAGE.write_text(text, encoding="utf-8")
    CHART.write_text(chart(run["rows"]), encoding="utf-8")


if __name__ == "__main__":
    main()
