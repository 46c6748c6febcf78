"""Presets and detection: the check of a program, and the folders that its command needs."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from ptc import Session, UsageError
from ptc_tools import CheckResult, Preset, builtin, detect_checks, preset

pytestmark = pytest.mark.anyio


async def results(root: Path, *presets: Preset, **options: Any) -> list[CheckResult]:
    folders = [path for item in presets for path in item.readable]
    async with Session(root, toolsets=(), tools=[builtin(readable=folders)]) as session:
        arguments = {"subject": "s", "checks": [p.check for p in presets], **options}
        report = (await session.tool("verify_commands", arguments)).unwrap()
    found: list[CheckResult] = report.checks
    return found


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, with no toolchain on PATH but that of the system."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", f"{folder}/tools/bin")
    for name in ("CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOMODCACHE", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    return folder


def plant(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


# --- detection ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "ids"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n[tool.ruff]\n"}, ["pytest", "ruff"]),
        ({"pytest.ini": "", "mypy.ini": "[mypy]\n"}, ["pytest", "mypy"]),
        ({"setup.cfg": "[tool:pytest]\n[mypy]\n"}, ["pytest", "mypy"]),
        ({"tests/conftest.py": ""}, ["pytest"]),
        (
            {"package.json": '{"scripts": {"test": "vitest", "lint": "eslint", "start": "x"}}'},
            ["npm", "npm-lint"],
        ),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'}, []),
        ({"Cargo.toml": "", "go.mod": ""}, ["cargo", "go"]),
        ({"pyproject.toml": "[tool", "package.json": "[" * 5000, "setup.cfg": "x"}, []),
        ({"pyproject.toml": "tool = 3", "package.json": '{"scripts": []}'}, []),
        ({}, []),
    ],
)
def test_checks_are_detected_by_the_files_of_a_project(
    tmp_path: Path, files: dict[str, str], ids: list[str]
) -> None:
    for name, text in files.items():
        plant(tmp_path / name, text)
    assert [found.check.id for found in detect_checks(tmp_path)] == ids


def test_mypy_checks_its_configured_files_or_the_root(tmp_path: Path) -> None:
    assert preset("mypy", tmp_path).check.command == ["mypy", "."]
    (tmp_path / "pyproject.toml").write_text('[tool.mypy]\nfiles = ["src"]\n')
    assert preset("mypy", tmp_path).check.command == ["mypy"]


def test_unknown_preset_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no preset 'pytset' \(did you mean `pytest`\?\)"):
        preset("pytset")


# --- folders ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("ruff", "F401"),
        pytest.param("pytest", "assert (1 + 1) == 3", marks=pytest.mark.slow),
        pytest.param("mypy", "Incompatible types in assignment", marks=pytest.mark.slow),
    ],
)
async def test_preset_of_a_python_program_runs_it(root: Path, name: str, output: str) -> None:
    (root / "test_sum.py").write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    (root / "bad.py").write_text("import os\nx: int = 'text'\n")
    (result,) = await results(root, preset(name, root))
    assert (result.status, result.exit_code) == ("failed", 1)
    assert output in result.head


async def test_program_of_the_projects_own_environment_is_used(root: Path, home: Path) -> None:
    base = home / "pythons" / "3.12"
    plant(base / "lib/python3.12/os.py", "")
    plant(base / "bin/python3", "#!/bin/sh\necho the base python\n")
    environment = root / ".venv"
    plant(environment / "pyvenv.cfg", f"home = {base}/bin\n")
    plant(environment / "bin/pytest", f"#!/bin/sh\nexec {base}/bin/python3\n")
    found = preset("pytest", root)
    assert found.check.command == [".venv/bin/pytest", "-q"]
    assert found.readable == (base,)
    (result,) = await results(root, found)
    assert (result.status, result.head) == ("passed", "the base python\n")


def test_preset_never_asks_for_a_home_or_its_credentials(root: Path, home: Path) -> None:
    for name in ("bin/cargo", "registry/x", "credentials.toml", "config.toml"):
        plant(home / ".cargo" / name, "")
    plant(home / ".rustup/toolchains/stable/bin/cargo", "")
    plant(home / "tools/bin/go", "")
    (home / "tools/bin/npm").symlink_to(plant(home / ".local/bin/npm", ""))
    plant(home / "tools/bin/node", "")
    (home / "tools/bin/cargo").symlink_to(home / ".cargo/bin/cargo")
    cargo = preset("cargo", root).readable
    assert {path.relative_to(home).as_posix() for path in cargo} == {
        *(".cargo/bin", ".cargo/registry", ".cargo/config.toml", ".rustup/toolchains", "tools/bin")
    }
    everything = [path for name in ("npm", "go", "cargo") for path in preset(name, root).readable]
    assert everything
    for path in everything:
        assert path not in (home, *home.parents, home / ".local")
        assert not (home / ".cargo/credentials.toml").is_relative_to(path)
    # The file names a folder with secrets as the base of its environment.
    plant(home / ".ssh/id_rsa", "SECRET")
    plant(root / ".venv/bin/pytest", "")
    for folder in (home / ".ssh", home, Path("/"), home / ".ssh/.."):
        plant(root / ".venv/pyvenv.cfg", f"home = {folder}/bin\n")
        assert preset("pytest", root).readable == ()


def test_folder_that_others_use_is_no_installation(root: Path, home: Path) -> None:
    # The program lies beside data of others, as in a folder of projects.
    plant(home / "work/secret.txt", "")
    (home / "tools/bin").mkdir(parents=True)
    (home / "tools/bin/go").symlink_to(plant(home / "work/bin/go", ""))
    assert preset("go", root).readable == (home / "tools/bin", home / "work/bin")


def test_relative_entry_of_path_is_no_folder_to_read(
    root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(home / "private/go", "")
    monkeypatch.chdir(home / "private")
    monkeypatch.setenv("PATH", ".")
    assert preset("go", root).readable == ()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("name", "args"), [("cargo", "test"), ("go", "test ./..."), ("npm", "run test")]
)
async def test_toolchain_in_a_home_runs_through_its_preset(
    root: Path, home: Path, name: str, args: str
) -> None:
    real = plant(
        home / f"sdk/{name}/bin/{name}", f'#!/bin/sh\ncat "{home}/sdk/{name}/lib"; echo "$@"\n'
    )
    plant(home / f"sdk/{name}/lib", "its own files: ")
    link = home / "tools/bin" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(real)
    (result,) = await results(root, preset(name, root))
    assert (result.status, result.head) == ("passed", f"its own files: {args}\n"), result.reason


async def test_missing_program_of_a_preset_is_not_started(root: Path, home: Path) -> None:
    (result,) = await results(root, preset("go", root))
    assert result.status == "not_started"
    assert result.reason.startswith(
        "Failed to spawn go: No such file or directory; is it installed"
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
async def test_real_cargo_runs_through_its_preset(root: Path) -> None:
    plant(root / "Cargo.toml", '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n')
    plant(root / "src/lib.rs", "#[test]\nfn adds() { assert_eq!(1 + 1, 3); }\n")
    (found,) = detect_checks(root)
    (result,) = await results(root, found)
    assert (result.status, result.exit_code) == ("failed", 101)
    assert "assertion `left == right` failed" in result.head


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
async def test_real_npm_runs_through_its_preset(root: Path) -> None:
    plant(root / "package.json", '{"name": "x", "scripts": {"test": "exit 4"}}')
    (found,) = detect_checks(root)
    (result,) = await results(root, found)
    assert (result.status, result.exit_code) == ("failed", 4)


async def test_programs_beside_the_running_python_need_no_folders(root: Path) -> None:
    if Path(shutil.which("ruff") or "").parent != Path(sys.prefix) / "bin":
        pytest.skip("another ruff is first on PATH")
    assert preset("ruff", root).readable == ()


PAGE = Path(__file__).parents[3] / "docs" / "verification.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    "source", re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), flags=re.DOTALL | re.M)
)
async def test_example_of_the_page_runs(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_sum.py").write_text("def test_sum():\n    assert 1 + 1 == 2\n")
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n[tool.ruff]\n")
    monkeypatch.chdir(tmp_path)
    code = compile(source, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"__name__": "page"}
    await eval(code, names)  # noqa: S307  # the code of a page is our own
    assert [check.status for check in names["report"].checks] == ["passed", "passed"]
