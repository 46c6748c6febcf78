"""A script that may write files gains nothing by the next command's configuration."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from ptc import Session, UsageError
from ptc._config._file import load_file
from ptc._config._settings import load_settings
from ptc._config._trust import trust

pytestmark = pytest.mark.anyio

TOOLS = '''
from ptc import tool

@tool
def own() -> str:
    """Answer."""
    return "own"
'''
EVIL = 'from ptc import tool\n@tool\ndef own() -> str:\n    """Evil."""\n    return "evil"\n'


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def attack(session: Session, path: str) -> dict[str, str | None]:
    """Try to write, and to replace by way of commands; return the error codes."""
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "write": ("write", {"path": path, "content": EVIL}),
        "bash": (
            "bash",
            {"cmd": "sh", "args": ["-c", f"echo x > evil.tmp && mv evil.tmp '{path}'"]},
        ),
    }
    return {
        name: getattr((await session.tool(tool, arguments)).error, "code", None)
        for name, (tool, arguments) in calls.items()
    }


def is_refused(codes: dict[str, str | None]) -> bool:
    return codes["write"] == "protected_path" and codes["bash"] in (
        "command_failed",
        "confinement_unavailable",
    )


async def test_script_cannot_write_a_configuration(root: Path) -> None:
    async with Session(root=root, journal=":memory:") as session:
        (root / "sub").mkdir()
        for path in ("ptc.toml", "sub/ptc.toml", "PTC.toml"):
            assert is_refused(await attack(session, path)), path
            assert not (root / path).exists()


async def test_script_cannot_change_the_named_tools(root: Path) -> None:
    (root / "ours").mkdir()
    for name in ("tools.py", "ours/more.py"):
        (root / name).write_text(TOOLS.replace("own", Path(name).stem))
    (root / "beside.py").write_text(TOOLS)
    (root / "ptc.toml").write_text('tools = ["tools.py", "ours/more.py", "later.py"]\n')
    # Also in a session that was not made from the configuration.
    async with Session(root=root, journal=":memory:") as session:
        for path in ("tools.py", "ours/more.py", "ours", "later.py"):
            if path != "ours":
                assert is_refused(await attack(session, path)), path
        moved = await session.tool("bash", {"cmd": "mv", "args": ["ours", "theirs"]})
        assert moved.error is not None
        assert (root / "ours" / "more.py").read_text() == TOOLS.replace("own", "more")
        assert not (root / "later.py").exists()
        free = await session.tool("write", {"path": "beside.py", "content": "x"})
        assert free.ok


async def test_files_of_the_command_line_are_protected(root: Path) -> None:
    (root / "shop.py").write_text(TOOLS)
    (root / "ours.toml").write_text('tools = ["shop.py"]\n')
    async with Session.from_config(config="ours.toml") as session:
        for path in ("shop.py", "ours.toml"):
            result = await session.tool("write", {"path": path, "content": EVIL})
            assert result.error is not None
            assert result.error.code == "protected_path", path


async def test_target_of_a_linked_configuration_is_protected(root: Path) -> None:
    (root / "real.toml").write_text("")
    (root / "ptc.toml").symlink_to("real.toml")
    async with Session(root=root, journal=":memory:") as session:
        assert is_refused(await attack(session, "real.toml"))


async def test_rest_of_a_trusted_pyproject_may_change(root: Path) -> None:
    file = root / "pyproject.toml"
    file.write_text("[tool.ptc]\ntoolsets = ['builtin']\n")
    trust(file, load_file(file, named=False, check_trust=False).table)
    async with Session.from_config() as session:
        change = {"path": "pyproject.toml", "old": "[tool.ptc]", "new": "[project]\n[tool.ptc]"}
        assert (await session.tool("edit", change)).ok
    assert load_settings().file == file


async def test_owner_can_lift_the_protection(root: Path) -> None:
    (root / "shop.py").write_text(TOOLS)
    (root / "ptc.toml").write_text('tools = ["shop.py"]\nunprotected = ["named", "ptc.toml"]\n')
    async with Session.from_config() as session:
        for path in ("shop.py", "sub/ptc.toml"):
            assert (await session.tool("write", {"path": path, "content": ""})).ok


def test_configuration_of_another_folder_needs_trust(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "evil.py").write_text("open('executed', 'w').close()\n" + TOOLS)
    (root / "ptc.toml").write_text('tools = ["evil.py"]\n')
    (root / "sub").mkdir()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    for folder in (root, root / "sub"):
        with pytest.raises(UsageError, match=r"is not trusted: .* `ptc config trust --root /"):
            Session.from_config(folder)
    assert not Path("executed").exists()
    assert "own" not in Session.from_config(root, config=_empty()).tool_names()
    file = root / "ptc.toml"
    assert "own" in Session.from_config(root, config=file).tool_names()
    trust(file, load_file(file, named=False, check_trust=False).table)
    assert "own" in Session.from_config(root / "sub").tool_names()
    file.write_text('tools = ["evil.py"]\nisolation = "process"\n')
    with pytest.raises(UsageError, match="is not trusted"):
        Session.from_config(root)


def _empty() -> Path:
    Path("empty.toml").write_text("")
    return Path("empty.toml")


def test_table_in_pyproject_counts_only_while_trusted(root: Path) -> None:
    file = root / "pyproject.toml"
    file.write_text('[project]\nname = "x"\n\n[tool.ptc]\nmodel = "a:b"\n')
    with pytest.raises(UsageError, match=r"pyproject\.toml:4: \[tool\.ptc\] is not trusted"):
        load_settings()
    assert load_settings(use_file=False)["model"] is None
    trust(file, load_file(file, named=False, check_trust=False).table)
    assert load_settings()["model"] == "a:b"
    file.write_text(file.read_text().replace('"x"', '"y"'))
    assert load_settings()["model"] == "a:b"
    file.write_text(file.read_text().replace("a:b", "a:c"))
    with pytest.raises(UsageError, match="is not trusted"):
        load_settings()
    with pytest.raises(UsageError, match="is not trusted"):
        load_settings(config=file)


def test_broken_or_hostile_configuration_does_not_break_other_sessions(root: Path) -> None:
    for text in ("tools = 5", "tools = [1]", "[", "tools = ['\\u0000.py']", "x = " + "[" * 5_000):
        (root / "ptc.toml").write_text(text)
        anyio.run(Session(root=root, journal=":memory:").history.close)


async def test_cached_bytecode_beside_a_tools_file_is_ignored(root: Path) -> None:
    file, evil = root / "tools.py", root / "evil.py"
    size = max(len(TOOLS), len(EVIL))
    file.write_text(TOOLS.ljust(size, "#"))
    evil.write_text(EVIL.ljust(size, "#"))
    cached = Path(importlib.util.cache_from_source(str(file)))
    cached.parent.mkdir()
    os.utime(evil, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    py_compile.compile(str(evil), str(cached), dfile=str(file))
    (root / "ptc.toml").write_text('toolsets = []\ntools = ["tools.py"]\n')
    async with Session.from_config() as session:
        assert (await session.tool("own")).value == "own"


def test_module_beside_a_tools_file_is_not_imported(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `ptc extract --schema MODULE:NAME` of another test adds the current folder in this process.
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder])
    (root / "helpers_of_nobody.py").write_text("raise AssertionError('executed')\n")
    (root / "tools.py").write_text("import helpers_of_nobody\n")
    (root / "ptc.toml").write_text('tools = ["tools.py"]\n')
    with pytest.raises(UsageError, match="Modules beside a tools file are not imported"):
        Session.from_config()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_tools_file_of_another_user_is_refused(root: Path) -> None:
    (root / "tools.py").write_text(TOOLS)
    os.chown(root / "tools.py", 54321, 54321)
    (root / "ptc.toml").write_text('tools = ["tools.py"]\n')
    with pytest.raises(UsageError, match=r"ptc\.toml:1: tools: .* belongs to another user"):
        Session.from_config()


async def test_module_that_tools_import_from_the_root_is_protected(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root))
    (root / "shop_of_ours").mkdir()
    (root / "shop_of_ours" / "__init__.py").write_text("")
    (root / "shop_of_ours" / "tools.py").write_text(TOOLS)
    (root / "ptc.toml").write_text('tools = ["shop_of_ours.tools:own"]\n')
    async with Session.from_config() as session:
        for path in ("shop_of_ours/tools.py", "shop_of_ours/new.py"):
            result = await session.tool("write", {"path": path, "content": EVIL})
            assert result.error is not None
            assert result.error.code == "protected_path", path


def test_no_process_is_started_to_read_a_configuration(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    (root / "ptc.toml").write_text('model = "a:b"\n')
    assert load_settings()["model"] == "a:b"
