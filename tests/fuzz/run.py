"""Search for escapes with random scripts: by the language layer alone, and with the kernel layer.

usage: python tests/fuzz/run.py [--minutes 10] [--scripts N] [--seed N] [--workers N] [--out FOLDER]

Exit status 1 if there are findings; each such script is in the folder, with the finding in its
first lines. The same seed writes the same scripts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

import anyio  # noqa: E402  # the repository is on the path only now

from ptc._language._compiler import ScriptRejected, compile_script  # noqa: E402  # as above
from tests.fuzz.grammar import DETECTOR, Grammar, accepted, prelude  # noqa: E402  # as above
from tests.fuzz.judge import Judge  # noqa: E402  # as above
from tests.fuzz.mutants import Mutants  # noqa: E402  # as above

_FOUND_AT_MOST = 200
_KINDS = ("generated", "spliced", "damaged")


def scripts(chance: Random) -> Iterator[tuple[str, str]]:
    """Yield kind and source of scripts endlessly."""
    grammar, mutants = Grammar(chance), Mutants(chance)
    recent = list(mutants.sources)
    while True:
        kind = chance.choices(_KINDS, [4, 4, 2])[0]
        if kind == "generated":
            source = grammar.script()
            recent[chance.randrange(len(recent))] = source
        elif kind == "spliced":
            source = mutants.spliced()
            for _ in range(20):
                if accepted(source):
                    break
                source = mutants.spliced()
            source = _watched(source, chance)
        else:
            source = mutants.damaged(recent)
        yield kind, source


def _watched(source: str, chance: Random) -> str:
    """Embed a known escape as the only probe of a script that reports what it reached."""
    before, _ = prelude(chance)
    text = f"{before}\n{source}\nPROBES = [run] if 'run' in globals() else []\n{DETECTOR}"
    return text if accepted(text) else source


def compiler_finding(source: str, kind: str) -> str:
    """Return an exception of the compiler other than a rejection, or ``""``."""
    if kind == "generated":  # already compiled, piece by piece
        return ""
    try:
        compile_script(source)
    except ScriptRejected as rejected:
        return "" if rejected.findings else "a refusal without a finding"
    except BaseException:  # noqa: BLE001  # this is what is looked for
        return f"the compiler raised {traceback.format_exc()[-1500:]}"
    return ""


async def fuzz(options: argparse.Namespace) -> int:
    """Run until time or scripts are used up; return the number of scripts with a finding."""
    chance = Random(options.seed)
    counts: Counter[str] = Counter()
    found = 0
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge.make(Path(folder))
        async with judge.sessions["language"], judge.sessions["jail"]:
            for number, (kind, source) in enumerate(scripts(chance)):
                used = time.monotonic() - started
                if number >= options.scripts or used > options.minutes * 60:
                    break
                wrong = [finding] if (finding := compiler_finding(source, kind)) else []
                isolation = chance.choice(("language", "jail"))
                try:
                    status, more = await judge.judge(source, isolation)
                except Exception:  # noqa: BLE001  # this is what is looked for
                    status, more = "host exception", [traceback.format_exc()[-1500:]]
                counts[f"{kind} {status}"] += 1
                wrong += more
                if wrong:
                    found += 1
                    _keep(options.out, f"{options.seed}-{number}-{kind}", source, wrong)
                    if found >= _FOUND_AT_MOST:
                        break
        used = time.monotonic() - started
    runs = counts.total()
    _say(f"seed {options.seed}: {runs} runs in {used:.0f} s, {runs / used:.1f} a second")
    for name, count in sorted(counts.items()):
        _say(f"  {name}: {count}")
    _say(f"  scripts with a finding: {found}" + (f", in {options.out}" if found else ""))
    return found


def _keep(folder: Path, name: str, source: str, wrong: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    head = "".join(f"# {line}\n" for text in dict.fromkeys(wrong) for line in text.splitlines())
    (folder / f"{name}.py").write_text(head + source, encoding="utf-8", errors="backslashreplace")
    _say(f"{name}: {wrong[0][:300]}")


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # a command


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--scripts", type=int, default=sys.maxsize, help="stop after so many")
    parser.add_argument("--seed", type=int, default=None, help="default: by the clock")
    parser.add_argument("--workers", type=int, default=1, help="processes that fuzz at once")
    out = Path(tempfile.gettempdir()) / "ptc-fuzz-findings"
    parser.add_argument("--out", type=Path, default=out, help=f"default: {out}")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time())
    if options.workers == 1:
        return 1 if anyio.run(fuzz, options) else 0
    common = ["--minutes", str(options.minutes), "--scripts", str(options.scripts)]
    common += ["--out", str(options.out)]
    children = [
        subprocess.Popen([sys.executable, __file__, *common, "--seed", str(options.seed + number)])
        for number in range(options.workers)
    ]
    return max(child.wait() for child in children)


if __name__ == "__main__":
    sys.exit(main())
