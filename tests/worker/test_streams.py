"""Standard output and standard error of a script: the bytes that plain CPython writes, apart."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))
from tests.worker.test_modules import ENVIRONMENT, in_worker, run_scripts  # noqa: E402  # a sibling

# Every one is run here and by plain CPython; what each writes to either stream must be the same.
PROGRAMS = {
    "print to both": "import sys\nprint('a')\nprint('b', file=sys.stderr)\nsys.stderr.write('c')",
    "loggers without any set-up": """
import logging
logging.getLogger("app").info("hidden")
logging.getLogger("app").warning("bare %s", "message")
logging.getLogger("app.db").error({"a": 1})
""",
    "the functions of the module set up": """
import logging
logging.info("hidden")
logging.warning("shown %d %s", 1, "x")
logging.getLogger("app").error("as the others now")
logging.log(35, "between")
""",
    "basicConfig": """
import logging
logging.basicConfig(level=logging.DEBUG, format="%(levelname)-8s|%(name)s|%(message)s")
logging.basicConfig(level=logging.CRITICAL)
log = logging.getLogger("job")
log.debug("d")
log.info("%(a)s and %(b)d", {"a": "x", "b": 2})
log.setLevel("ERROR")
log.warning("hidden")
logging.getLogger("other.part").debug("shown")
""",
    "to standard output": """
import logging, sys
logging.basicConfig(stream=sys.stdout, level="INFO", format="{levelname}: {message}", style="{")
logging.info("to stdout")
""",
    "handlers, levels and propagation": """
import logging, sys
log = logging.getLogger("a.b")
log.propagate = False
handler = logging.StreamHandler(sys.stdout)
handler.setLevel(logging.ERROR)
handler.setFormatter(logging.Formatter("%(levelname)s %(funcName)s %(lineno)d %(message)s"))
log.addHandler(handler)
log.addHandler(handler)
def work():
    log.error("once")
    log.warning("not here")
work()
log.propagate = True
logging.getLogger("a").addHandler(logging.StreamHandler())
log.warning("the parent's handler")
print(log.parent.name, log.getEffectiveLevel(), log.hasHandlers(), log.isEnabledFor(10))
print(repr(log), repr(logging.getLogger()), log.handlers == [handler])
""",
    "exceptions": """
import logging
try:
    {}["k"]
except KeyError as error:
    logging.getLogger("x").setLevel("CRITICAL")
    logging.getLogger("x").exception("hidden")
    logging.error("value %s", error)
""",
    "a handler of its own": """
import logging
class Keep(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self._rows = []
    def emit(self, record):
        self._rows.append((record.levelname, record.getMessage(), record.user, self.format(record)))
class Upper(logging.Formatter):
    def format(self, record):
        return super().format(record).upper()
keep = Keep()
keep.setFormatter(Upper("%(name)s %(message)s %(user)s"))
logging.getLogger().addHandler(keep)
logging.warning("hello %s", "you", extra={"user": "ann"})
logging.info("hidden", extra={"user": "bob"})
print(keep._rows)
""",
    "filters and adapters": """
import logging
class Only(logging.Filter):
    def filter(self, record):
        return "yes" in record.msg
logging.basicConfig(format="%(message)s %(tag)s", level=logging.INFO)
log = logging.LoggerAdapter(logging.getLogger("t"), {"tag": "T"})
log.info("yes")
logging.getLogger("t").addFilter(Only())
log.info("no")
log.warning("yes again")
logging.getLogger("t").filters.clear()
logging.getLogger("t").addFilter(lambda record: record.levelno > 30)
log.warning("no")
log.error("yes, an error")
""",
    "disable and names": """
import logging
logging.addLevelName(25, "NOTE")
logging.log(25, "hidden")
logging.basicConfig(force=True, level=1)
logging.log(25, "note")
logging.log(26, "no name")
logging.disable(logging.ERROR)
logging.error("hidden")
logging.critical("shown")
logging.disable(logging.NOTSET)
logging.error("shown again")
print(logging.getLevelName(25), logging.getLevelName("ERROR"), logging.getLevelName(7))
""",
    "times": """
import logging, re, io
text = io.StringIO()
logging.basicConfig(stream=text, format="%(asctime)s %(message)s")
logging.warning("x")
print(bool(re.fullmatch(r"\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d,\\d{3} x\\n", text.getvalue())))
""",
    "redirected": """
import contextlib, io, logging, sys
out, err = io.StringIO(), io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    print("o")
    sys.stdout.write("p")
    print("e", file=sys.stderr)
    logging.getLogger("q").error("last resort")
    with contextlib.redirect_stdout(sys.stderr):
        print("crossed")
print([out.getvalue(), err.getvalue()])
""",
    "put in place by hand": """
import io, sys
class Tee:
    def __init__(self, stream):
        self.stream, self.parts = stream, []
    def write(self, text):
        self.parts.append(text)
        return self.stream.write(text)
    def flush(self):
        pass
before, sys.stdout = sys.stdout, Tee(sys.stdout)
print("a", 1, sep="-")
tee, sys.stdout = sys.stdout, before
print(tee.parts)
sys.stdout = None
print("nowhere")
sys.stdout = before
print("end")
""",
    "warnings caught": """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for n in range(2):
        warnings.warn("again", DeprecationWarning)
print([(str(w.message), w.category.__name__, w.lineno) for w in caught])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("default")
    for n in range(3):
        warnings.warn("once a place")
print(len(caught))
with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        warnings.warn("raised", RuntimeWarning)
    except RuntimeWarning as error:
        print(repr(error))
with warnings.catch_warnings(record=True) as caught:
    warnings.filterwarnings("ignore", message="un.*", category=UserWarning)
    warnings.warn("unwanted")
    warnings.warn("wanted")
print([str(w.message) for w in caught])
warnings.simplefilter("ignore")
warnings.warn("dropped")
try:
    warnings.warn("x", int)
except TypeError:
    print("not a category")
""",
}


def _plain(source: str, folder: Path) -> tuple[str, str]:
    path = folder / "script.py"
    path.write_text(source)
    done = subprocess.run(
        [sys.executable, path], text=True, capture_output=True, timeout=60, env=ENVIRONMENT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_stdout_and_stderr_match_cpython(name: str, tmp_path: Path) -> None:
    program = """
        import contextlib, io
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            run(script)
        print(json.dumps([out.getvalue(), err.getvalue()]))
    """
    assert in_worker(program, PROGRAMS[name]) == list(_plain(PROGRAMS[name], tmp_path))


def capture_streams(source: str) -> dict[str, Any]:
    """Outputs of a script, and its result."""
    program = """
        from ptc.worker._modules._console import CONSOLE
        said = []
        CONSOLE.write = lambda text, output: said.append([output.name, text])
        result = run(script)
        print(json.dumps({"said": said, "result": result}, default=repr))
    """
    answer: dict[str, Any] = in_worker(program, source)
    return answer


def test_log_output_is_distinguished_from_plain_stderr() -> None:
    source = """
import logging, sys, traceback, warnings
print("out")
print("err", file=sys.stderr)
logging.warning("log")
warnings.warn("careful")
try:
    1 / 0
except ZeroDivisionError:
    traceback.print_exc()
    traceback.print_exc(file=sys.stdout)
"""
    error = (
        'Traceback (most recent call last):\n  File "script.py", line 8, in <module>\n'
        "    1 / 0\n    ~~^~~\n"
        "ZeroDivisionError: division by zero\n"
    )
    assert capture_streams(source)["said"] == [
        ["STDOUT", "out\n"],
        ["STDERR", "err\n"],
        ["LOG", "WARNING:root:log\n"],
        ["STDERR", "script.py:6: UserWarning: careful\n"],
        ["STDERR", error],
        ["STDOUT", error],
    ]


def test_warning_is_shown_once_per_location() -> None:
    source = """
import warnings
for n in range(3):
    warnings.warn("same")
    warnings.warn(f"other {n}")
"""
    assert len(capture_streams(source)["said"]) == 4


def test_an_error_while_logging_does_not_end_the_script() -> None:
    answer = capture_streams("import logging\nlogging.error('%d', 'x')\nresult = 'went on'")
    assert answer["result"] == "went on"
    (row,) = answer["said"]
    assert row[0] == "LOG"
    assert row[1].startswith("--- Logging error ---\nTypeError")
    assert row[1].endswith("Message: '%d'\nArguments: ('x',)\n")


def test_a_logged_exception_shows_the_frames_of_the_script_only() -> None:
    source = (
        "import json, logging\ndef f():\n    json.loads('{')\n"
        "try:\n    f()\nexcept ValueError:\n    logging.exception('bad %s', 'input')\n"
    )
    ((output, text),) = capture_streams(source)["said"]
    assert output == "LOG"
    assert text.startswith(
        "ERROR:root:bad input\nTraceback (most recent call last):\n"
        '  File "script.py", line 5, in <module>\n    f()\n'
    )
    lines = [line for line in text.splitlines() if "~" not in line]  # 3.13 underlines calls
    assert lines[4:6] == ['  File "script.py", line 3, in f', "    json.loads('{')"]
    assert lines[6].startswith("json.decoder.JSONDecodeError: ")


HOSTILE = {
    # A format that walks attributes; a template whose `%` is the script's.
    "walk": "logging.basicConfig(format='{args[0].__globals__}', style='{')\n"
    "    logging.warning('%s', run)",
    "frame": "logging.basicConfig(format='{msg.gi_frame.f_back}', style='{')\n"
    "    logging.warning(x for x in ())",
    "dunder field": "logging.warning('x', extra={'__class__': int})",
    "level": "logging.warning('x', extra={'levelname': 'mine'})",
    "foreign record": "return logging.Formatter('%(call)s').formatMessage(ctx)",
    "class record": "return logging.Formatter('%(call)s').formatMessage(type(ctx))",
    "function record": "return logging.Formatter('%(__wrapped__)s').formatMessage(run)",
    "own template": "f = logging.Formatter()\n    f.template = Take()\n"
    "    f.format(logging.LogRecord('n', 1, 'p', 0, 'm', (), None))\n"
    "    return 'ESCAPED:' + str(seen)",
    "file": "logging.basicConfig(filename='x.log')",
    "not an exception": "logging.warning('x', exc_info=(1, ctx, 3))\n"
    "    return logging.Formatter().formatException((1, ctx, 3)).upper() / 0",
    "stream": "type(sys.stdout)('x', 7)",
    "made stream": "sys.stdout.name = 'x'",
    "other name of sys": "sys.platform = 'x'",
}


def test_log_format_cannot_reach_attributes_that_source_cannot(tmp_path: Path) -> None:
    head = (
        "import logging, sys\nseen = []\nclass Take:\n    def __mod__(self, values):\n"
        "        seen.append(values)\n        return 'x'\ndef run(ctx, inputs):\n    "
    )
    cases = [{"id": name, "script": head + body} for name, body in HOSTILE.items()]
    answers = run_scripts(cases, tmp_path)
    for name, answer in answers.items():
        refused = "error" in answer or "--- Logging error ---" in answer["output"]
        assert refused, (name, answer)
        assert "ESCAPED" not in answer.get("result", ""), (name, answer)
        assert "HOST_SECRET" not in str(answer), (name, answer)


def test_print_accepts_any_object_with_a_write_method() -> None:
    source = (
        "class Parts(list):\n    def write(self, text):\n        self.append(text)\n"
        "parts = Parts()\nprint('a', 1, file=parts)\nresult = list(parts)\n"
    )
    space: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, "script.py", "exec"), space)  # noqa: S102  # three lines above
    assert capture_streams(source)["result"] == space["result"] == ["a", " ", "1", "\n"]
