"""Packages that a session offers: numpy in a jailed worker, and what it must not bring along."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession, RunResult, Session, SetupError, UsageError
from ptc._workers._packages import require_packages

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        importlib.util.find_spec("numpy") is None,
        reason="numpy is not installed; it is in the extra `dev`",
    ),
]
REPOSITORY = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: what is tested is on the far side of the wire."""
    return "asyncio"


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, toolsets=(), packages=["numpy"], workers=1) as session:
        yield session


async def run(session: Session, source: str, **options: Any) -> RunResult:
    return await session.program(source=f"import numpy as np\n{source}", **options)


WORKS = {
    "arithmetic": ("a = np.arange(6).reshape(2, 3)\n[a @ a.T, a.mean(axis=0)]",
                   [[[5, 14], [14, 50]], [1.5, 2.5, 3.5]]),
    "linear algebra": ("m = np.array([[2.0, 1], [1, 3]])\n"
                       "np.round(np.linalg.solve(m, np.array([3.0, 5])), 9)", [0.8, 1.4]),
    "large enough for huge pages and buffers": ("a = np.ones((1200, 1200))\n(a @ a).sum()",
                                                1200.0**3),
    "parts": ("from numpy import fft\nfrom numpy.linalg import det\nimport numpy.random as r\n"
              "[abs(fft.fft(np.ones(4))[0]), det(np.eye(3)),"
              " r.default_rng(3).integers(10, size=3)]",
              [4.0, 1.0, [8, 0, 1]]),
    "scalars and types": ("[np.int64(3), np.float32(0.5), np.bool_(True), np.arange(2).dtype.name]",
                          [3, 0.5, True, "int64"]),
    "text": ("print(np.array([[1, 2]]))\nrepr(np.arange(2))", "array([0, 1])"),
    "version": ("np.__version__.count('.') >= 1", True),
    "names of columns": ("r = np.rec.fromrecords([(1, 2)], names='obj,func')\n[r.obj, r.func]",
                         [[1], [2]]),
}  # fmt: skip


@pytest.mark.parametrize("name", list(WORKS))
async def test_numpy_works_in_the_jail(session: Session, name: str) -> None:
    source, value = WORKS[name]
    result = await run(session, source)
    assert (result.error, result.value) == (None, value)


async def test_numpy_is_described_to_models_and_accepted_by_check(session: Session) -> None:
    assert "numpy" in session.describe_tools()
    assert (
        await session.check(source="import numpy as np\nfrom numpy import linalg\nnp.ones(1)") == ()
    )
    (found,) = await session.check(source="import numpy.nothing\nprint(1)")
    assert found.code == "import_refused"
    assert "numpy" in found.hint


DOORS = {
    "a module": ("np.os", "AttributeError"),
    "a private module": ("np._core", "AttributeError"),
    "a private module by text": ("getattr(np, '_core')", "AttributeError"),
    "ctypes": ("np.ctypeslib", "AttributeError"),
    "a file": ("np.load('/etc/passwd')", "FileNotFoundError"),
    "a file to write": ("np.save('x.npy', np.ones(1))", "FileNotFoundError"),
    "a file by its descriptor": ("np.fromfile(0)", "OSError"),
    "the globals of a function": ("getattr(np.mean, '__globals__')", "RefusedError"),
    "a changed module": ("np.array = 1", "AttributeError"),
    "a changed class": ("np.ndarray.sum = 1", "TypeError"),
    "a class of its own": ("class A(np.ndarray): ...\n1", "TypeError"),
    "more memory than there is": ("np.zeros(400_000_000) + 1", "MemoryError"),
}


@pytest.mark.parametrize("name", list(DOORS))
async def test_obvious_numpy_escapes_are_blocked(session: Session, name: str) -> None:
    source, kind = DOORS[name]
    result = await run(session, f"print(1)\n{source}")
    assert result.status in {"failed", "limit_exceeded"}
    assert result.error is not None
    said = result.error.type + result.error.message
    assert kind in said or ("Error" in result.error.type and kind == "OSError"), said


async def test_out_of_bounds_memory_read_is_contained_in_the_worker(session: Session) -> None:
    wild = (
        "a = np.lib.stride_tricks.as_strided(np.ones(1), shape=(2**40,), strides=(2**20,))\n"
        "float(a[2**39])"
    )
    result = await run(session, wild)
    assert result.status in {"crashed", "failed"}
    assert (await run(session, "1 + 1")).value == 2


async def test_error_that_a_library_prints_is_no_violation(session: Session) -> None:
    # LAPACK of many builds prints `On entry to DLASCL parameter number 4 had an illegal value`.
    result = await run(
        session,
        """
failed = 0
for _ in range(2_000):
    try:
        np.polyfit([0, 0], [1, 1], 3)
    except np.linalg.LinAlgError:
        failed += 1
failed
""",
    )
    assert result.status == "completed", result.error
    assert session.violations == ()


async def test_numpy_import_is_rejected_without_the_packages_option(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as session:
        result = await run(session, "print(1)")
    assert result.status == "rejected"
    assert result.error is not None
    assert result.error.code == "import_refused"


async def test_numpy_random_numbers_come_from_the_run_seed(session: Session) -> None:
    source = (
        "[np.random.rand(), np.random.default_rng().random(), np.random.default_rng(7).random()]"
    )
    first, second = (await run(session, source)).value, (await run(session, source)).value
    assert first[:2] != second[:2]
    assert first[2] == second[2]


@pytest.mark.slow
def test_numpy_random_numbers_are_reproducible_in_another_process() -> None:
    program = """
import json, random
from ptc.worker._packages import Packages
rng = random.Random()
packages = Packages(["numpy"], rng)
rows = []
for seed in (1, 2, 1):
    rng.seed(seed)
    packages.seed(seed)
    np = packages.modules["numpy"]
    rows.append([np.random.rand(), np.random.default_rng().random()])
print(json.dumps(rows))
"""
    answers = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True,
                timeout=60, cwd=REPOSITORY,
            ).stdout
        )
        for _ in range(2)
    ]  # fmt: skip
    assert answers[0] == answers[1]
    first, second, again = answers[0]
    assert first == again != second


WRONG: dict[str, tuple[object, str]] = {
    "not installed": (["nunpy"], r"'nunpy' is not installed.*did you mean `numpy`"),
    "no name": (["numpy; import os"], "is not the name of a module"),
    "a path": (["../numpy"], "is not the name of a module"),
    "text": ("numpy", r"packages=\['numpy'\]"),
    "there already": (["json"], "already has a safe form"),
    "of the standard library": (["subprocess"], "in the standard library"),
    "ptc itself": (["ptc"], "not installed"),
    "no text": ([1], "is not the name of a module"),
}


def test_missing_package_is_not_suggested_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptc._workers._packages.on_host", lambda name: False)
    with pytest.raises(UsageError, match=r"'numpy' is not installed in this Python; install it"):
        require_packages(["numpy"], "process")


@pytest.mark.parametrize("name", list(WRONG))
def test_unsupported_package_is_rejected_when_the_session_is_created(
    tmp_path: Path, name: str
) -> None:
    names, says = WRONG[name]
    with pytest.raises(UsageError, match=says):
        Session(tmp_path, packages=names)  # type: ignore[arg-type]  # what the test is about


async def test_package_that_fails_to_import_is_a_setup_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("raise ValueError('no wheel')")
    monkeypatch.syspath_prepend(str(tmp_path))
    async with Session(tmp_path, toolsets=(), packages=["broken_package"], workers=1) as session:
        with pytest.raises(
            SetupError, match=r"'broken_package' cannot be imported.*no wheel.*leave"
        ):
            await session.warm_up()


async def test_optional_dependency_that_starts_threads_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyarrow.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    (tmp_path / "tables.py").write_text(
        "try:\n    import pyarrow\n    fast = True\nexcept ImportError:\n    fast = False\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    async with Session(tmp_path, toolsets=(), packages=["tables"], workers=1) as session:
        assert (await session.program(source="import tables\ntables.fast")).value is False


async def test_offered_package_hides_foreign_modules_and_private_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shapes"
    folder.mkdir()
    (folder / "__init__.py").write_text("import os\nfrom . import areas\n_secret = 1\nside = 2\n")
    (folder / "areas.py").write_text("import sys\ndef square(x): return x * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    source = (
        "import shapes\nfrom shapes.areas import square\n"
        "[square(shapes.side), shapes.areas.square(3), hasattr(shapes, 'os'),"
        " hasattr(shapes.areas, 'sys'), hasattr(shapes, '_secret')]"
    )
    async with Session(tmp_path, toolsets=(), packages=["shapes"], workers=1) as session:
        assert (await session.program(source=source)).value == [4, 9, False, False, False]


async def test_package_may_find_its_files_by_paths_while_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folders.py").write_text(
        "from pathlib import Path\n"
        "here = Path(__file__).resolve()\n"
        "names = sorted(path.name for path in here.parent.glob('f*.py'))\n"
        "text = here.read_text()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "import folders\n[folders.names, len(folders.text) > 0]"
    async with Session(tmp_path, toolsets=(), packages=["folders"], workers=1) as session:
        assert (await session.program(source=source)).value == [["folders.py"], True]


async def test_path_of_a_package_leads_to_no_module_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folders.py").write_text(
        "from pathlib import Path\n"
        "here = Path(__file__).resolve()\n"
        "def reads():\n"
        "    held = [getattr(kind, name, None) for kind in type(here).__mro__\n"
        "            for name in ('_flavour', 'parser', 'pathmod')]\n"
        "    globber = getattr(type(here), '_globber', None)\n"
        "    return [any(hasattr(each, 'os') for each in held),\n"
        "            hasattr(globber, 'scandir') or hasattr(globber, 'lstat')]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "import folders\nfound = folders.reads()\nfound"
    async with Session(tmp_path, toolsets=(), packages=["folders"], workers=1) as session:
        assert (await session.program(source=source)).value == [False, False]
        reads = "import folders\nfolders.here.read_text()"
        result = await session.program(source=reads)
    assert result.error is not None
    assert result.error.type in {"FileNotFoundError", "AttributeError"}


@pytest.mark.slow
def test_the_command_line_offers_packages(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("import numpy as np\nnp.arange(3)\n")
    run: Callable[..., Any] = lambda *args: subprocess.run(  # noqa: E731  # twice the same
        [sys.executable, "-m", "ptc", *args], capture_output=True, text=True, timeout=60,
        check=False, cwd=tmp_path, env={"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'tools'}"},
    )  # fmt: skip
    done = run("run", "s.py", "--package", "numpy")
    assert (done.returncode, json.loads(done.stdout)) == (0, [0, 1, 2])
    assert run("check", "s.py", "--package", "numpy").returncode == 0
    wrong = run("run", "s.py", "--package", "nunpy")
    assert wrong.returncode == 2
    assert "--package" in wrong.stderr
    assert "did you mean `numpy`" in wrong.stderr


def test_blocking_session_accepts_packages(tmp_path: Path) -> None:
    with BlockingSession(tmp_path, toolsets=(), packages=["numpy"], workers=1) as session:
        assert session.program(source="import numpy\nnumpy.prod([2, 3])").value == 6
