"""Files that a command writes execute nothing for later users of the workspace.

The attacks are real programs, run as the user of the tests (root or another), as root without
capabilities, as nobody, and in a container that allows no new namespaces. The tests then use the
workspace: its protected files are unchanged, and git starts no program.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ptc._protected import Protection

from .repositories import GIT, git_in, repository
from .test_command_escapes import _run

_PRELUDE, *_SECTIONS = Path(__file__).with_name("planted_files.sh").read_text().split("\n== ")
ATTACKS = {name: _PRELUDE + text for name, _, text in (s.partition("\n") for s in _SECTIONS)}

FEW = list(ATTACKS)[::8]
# All of them copy and remove thousands of files, which a busy disk makes slow.
ALL = pytest.param(list(ATTACKS), marks=[pytest.mark.slow, pytest.mark.timeout(300)])
NUMBER = pytest.mark.parametrize("names", [FEW, ALL], ids=["few", "all"])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create the workspace for an attack."""
    folder = tmp_path_factory.mktemp("template")
    # Small, because it is copied for each attack.
    sample = tmp_path_factory.mktemp("git") / "hooks" / "pre-commit.sample"
    sample.parent.mkdir()
    sample.write_text("#!/bin/sh\n")
    (sample.parents[1] / "branches").mkdir()
    GIT["GIT_TEMPLATE_DIR"] = str(sample.parents[1])
    repository(folder / "repo")
    repository(folder / "source")
    repository(folder / "main")
    git_in(folder / "main", "submodule", "add", "-q", "--name", "lib", "../source", "lib")
    git_in(folder / "main", "commit", "-qm", "with a submodule")
    git_in(folder / "main", "worktree", "add", "-q", "../tree")
    git_in(folder, "init", "-q", "--bare", "bare.git")
    for name, content in ((".ptc/artifacts/value.json", "1"), ("kept/.envrc", "kept")):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(content)
    del GIT["GIT_TEMPLATE_DIR"]
    return folder


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter, with ``root``, and ``fired`` for started programs."""
    folder = Path(tempfile.mkdtemp(prefix="ptc-planted-")).resolve()
    folder.chmod(0o755)
    for name in ("root", "outside", "fired"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    evil = folder / "root" / "evil.sh"
    evil.write_text(f"#!/bin/sh\necho started > {folder}/fired/$$\n")
    evil.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def _attack(mode: str, place: Path, template: Path, names: list[str], *, protected: bool) -> None:
    """Run every attack in its own folder, all in one command for speed."""
    root = place / "root"
    for name in names:
        subprocess.run(["cp", "-a", str(template), str(root / name)], check=True)
    if mode == "nobody" and os.geteuid() == 0:
        subprocess.run(["chown", "-R", "65534:65534", str(root)], check=True)
    environment = {
        **GIT,
        "EVIL": str(root / "evil.sh"),
        "PY": "/usr/bin/python3",
        "HERE": str(root),
    }
    lines = [f"(cd {name}/repo && sh -c {shlex.quote(ATTACKS[name])})" for name in names]
    script = root / "all.sh"
    script.write_text("\n".join([*lines, "echo done"]))
    command = {"argv": ["sh", str(script)], "env": environment, "timeout_ms": 180_000}
    (row,) = _run(mode, root, [{**command, "protected": protected}], {})
    assert row["stdout"].endswith("done\n"), row
    assert bool(row["protected"]) is protected


def _picture(folder: Path) -> dict[str, object]:
    """Return kind, permissions and content of every protected file."""
    table = Protection()
    found: dict[str, object] = {}

    def exists(parts: Sequence[str]) -> bool:
        return os.path.lexists(folder.joinpath(*parts))

    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if table.refusal(parts, exists, by_program=True) is not None:
            content = os.readlink(path) if path.is_symlink() else ""
            if path.is_file() and not path.is_symlink():
                content = path.read_bytes().decode(errors="replace")
            found["/".join(parts)] = (path.lstat().st_mode, content)
    return found


_MINE = """
git status --short; git commit -q; git checkout -q -- .; git checkout -q -b mine
git cherry-pick --continue; git rebase --continue; git commit -q --allow-empty -m mine
"""


def _use(folder: Path, template: Path) -> None:
    """Use the workspace as a user, a shell prompt and an editor do."""
    lines = []
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        inside = path.relative_to(folder)
        if any(part.lower().startswith(".git") for part in inside.parts):
            continue
        lines.append(f"cd {shlex.quote(str(path))}; git status --short")
        if inside.name == "repo" or not (template / inside).exists():
            lines.append(_MINE)
    subprocess.run(
        ["sh"], input="\n".join(lines).encode(), env=GIT, capture_output=True, check=False
    )


@NUMBER
@pytest.mark.parametrize("mode", ["plain", "container", "nobody"])
def test_known_attacks_do_not_influence_other_programs(
    mode: str, names: list[str], place: Path, template: Path
) -> None:
    _attack(mode, place, template, names, protected=True)
    before = _picture(template)
    changed = {name: found for name in names if (found := _differences(place, name, before))}
    assert not changed
    if mode != "plain":
        return
    for name in names:
        _use(place / "root" / name, template)
        assert not os.listdir(place / "fired"), name
        assert "tampered" not in _text(place / "root" / name / "repo" / "f"), name
        # Committed files come with a checkout, which a user sees in advance.
        found = [path for path in _differences(place, name, before) if ".git" in path]
        assert not found, name


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _differences(place: Path, name: str, before: dict[str, object]) -> list[str]:
    after = _picture(place / "root" / name)
    # The attack may have destroyed the bare repository.
    gone = {path for path in before.keys() - after.keys() if not path.startswith("bare.git/")}
    return [*gone, *(path for path in after if before.get(path) != after[path])]


@NUMBER
def test_attacks_succeed_where_nothing_is_protected(
    names: list[str], place: Path, template: Path
) -> None:
    _attack("plain", place, template, names, protected=False)
    before = _picture(template)
    in_vain = []
    for name in names:
        folder = place / "root" / name
        if _picture(folder) == before:
            with contextlib.suppress(FileNotFoundError):
                _use(folder, template)
            tampered = "tampered" in _text(folder / "repo" / "f")
            if not tampered and not os.listdir(place / "fired") and _picture(folder) == before:
                in_vain.append(name)
        shutil.rmtree(place / "fired")
        (place / "fired").mkdir()
        (place / "fired").chmod(0o777)
    # With mount namespaces this link crosses file systems.
    in_vain = [name for name in in_vain if name != "hard-link-elsewhere"]
    version = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True)
    if not version.stdout.startswith("git version 2.39."):
        # Later ones (seen with 2.55) refuse damaged indexes and objects themselves.
        in_vain = [name for name in in_vain if not name.startswith(("index-", "object-"))]
    assert in_vain == []
