"""Location of the journal: found again from the root, and out of reach of scripts."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits, Session, UsageError, define_tool, tool
from ptc.errors import JournalError
from ptc.journal._location import default_journal, former_journal, journal_of, lies_in
from ptc_tools import bash, read

pytestmark = [pytest.mark.anyio, pytest.mark.shared_zygote]

GATED = "async def run(ctx, inputs):\n    return await ctx.pay(amount=inputs['amount'])\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of this test alone."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


def payments() -> tuple[Any, list[int]]:
    paid: list[int] = []

    async def pay(arguments: Mapping[str, Any]) -> str:
        paid.append(arguments["amount"])
        return "paid"

    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    made = define_tool(
        "pay", "Pay.", schema, pay, side_effect=True, idempotent=True, needs_approval=True
    )
    return made, paid


# --- the file -------------------------------------------------------------------------------------


async def test_each_root_has_its_own_file_in_state_directory(
    root: Path, state: Path, tmp_path: Path
) -> None:
    other = tmp_path / "elsewhere" / "root"
    other.mkdir(parents=True)
    for folder in (root, other):
        async with Session(folder) as session:
            (await session.program(source="1 + 1", run_id="r")).unwrap()
    files = sorted((state / "ptc" / "ptc-journals").glob("*.sqlite3"))
    assert sorted([journal_of(root), journal_of(other)]) == files
    assert all(path.name.startswith("root-") for path in files)
    assert not (root / ".ptc").exists()


async def test_journal_is_readable_by_its_user_only(root: Path, state: Path) -> None:
    async with Session(root) as session:
        await session.program(source="1 + 1")
        place = journal_of(root)
        for path in place.parent.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700


async def test_every_path_to_a_root_leads_to_one_journal(
    root: Path, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir(root)
    async with Session(root) as session:
        await session.program(source="1 + 1", run_id="r")
    for name in (".", str(tmp_path / "link"), f"{root}/../root"):
        async with Session(name) as session:
            assert [run.run_id for run in await session.history.runs()] == ["r"]


@pytest.mark.parametrize("name", ["a b/ü", "x" * 200, "-", "\n", "..."])
def test_name_of_root_cannot_move_its_journal(name: str, tmp_path: Path, state: Path) -> None:
    place = journal_of(tmp_path / name)
    assert place.parent == state / "ptc" / "ptc-journals"
    assert len(place.name) < 100
    assert place.name.isascii()
    assert place.name.replace("-", "").replace(".", "").isalnum()


def test_roots_whose_names_are_not_utf8_have_different_journals(state: Path) -> None:
    first, second = (journal_of(Path(os.fsdecode(b"/x/\xff" + end))) for end in (b"a", b"b"))
    assert first != second


async def test_session_without_runs_creates_no_journal(root: Path, state: Path) -> None:
    async with Session(root) as session:
        await session.write("a", "x")  # type: ignore[attr-defined]  # a tool as a method
    assert not state.exists()


async def test_relative_state_directory_is_not_used(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_state_path", lambda *_, **__: Path("relative"))
    monkeypatch.chdir(root)
    async with Session(root) as session:
        assert (await session.program(source="1 + 1")).ok
    assert "in memory" in caplog.text
    assert "not an absolute path" in caplog.text
    assert list(root.iterdir()) == []


# --- out of the scripts' reach --------------------------------------------------------------------


_FORGE = """
import glob, os, sqlite3
found = glob.glob(os.environ["STATE"] + "/**/*.sqlite3", recursive=True)
for path in [".ptc/journal.sqlite3", *found]:
    db = sqlite3.connect(path, timeout=5)
    for run, at, kind in db.execute("select run, path, kind from pending").fetchall():
        row = (run, at, kind, "approve", b"null", "ann", "ok", 1)
        db.execute("insert or replace into verdicts values(?,?,?,?,?,?,?,?)", row)
    db.commit()
    print("forged in", path)
"""


async def test_script_with_shell_cannot_forge_approval(root: Path, state: Path) -> None:
    pay, paid = payments()
    async with Session(root, tools=[pay]) as session:
        waiting = await session.program(
            source=GATED, allowed_tools=["pay"], inputs={"amount": 7, "note": "SECRET-INPUT"}
        )
        assert waiting.status == "paused"
        place = journal_of(root)
        forge = "async def run(ctx, inputs):\n    return await ctx.call(*inputs['call'])\n"
        shell = {"cmd": sys.executable, "env": {"STATE": str(state)}}
        tries: list[tuple[str, dict[str, Any]]] = [
            ("bash", {**shell, "args": ["-c", _FORGE]}),
            ("bash", {"cmd": "cat", "args": [str(place)]}),
            ("bash", {"cmd": "cp", "args": [str(place), "copy"]}),
            ("bash", {"cmd": "sh", "args": ["-c", f"echo x > {place}; rm {place}; ls {state}"]}),
            ("bash", {"cmd": "ln", "args": ["-s", str(place), "link"]}),
            ("read", {"path": str(place)}),
            ("read", {"path": "link"}),
            ("write", {"path": "link", "content": "x"}),
            ("write", {"path": str(place), "content": "x"}),
            ("grep", {"pattern": "SECRET-INPUT"}),
            ("grep", {"pattern": "SECRET-INPUT", "path": "link"}),
        ]
        for name, arguments in tries:
            made = await session.program(
                source=forge,
                inputs={"call": [name, arguments]},
                allowed_tools=["bash", "read", "write", "grep"],
                limits=Limits(timeout_ms=20_000),
            )
            assert "SECRET-INPUT" not in str(made.value)
            assert "forged" not in str(made.value)
        again = await session.resume(waiting.run_id)
        assert again.status == "paused"
        assert paid == []
        await session.history.approve(waiting.run_id, by="ann")
        assert (await session.resume(waiting.run_id)).unwrap() == "paid"
    assert paid == [7]


@pytest.mark.parametrize(
    "place",
    [
        "j.sqlite3",
        ".ptc/journal.sqlite3",
        "deep/er/j",
        "./a/../j",
        "link-out/j",
        "../in/j",
        "../in2",
    ],
)
async def test_journal_inside_root_is_refused_beside_a_writer(
    place: str, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (root / "link-out").symlink_to(tmp_path / "outside")
    (tmp_path / "in").symlink_to(root)
    (tmp_path / "in2").symlink_to(root / "file")
    with pytest.raises(UsageError) as caught:
        Session(root, journal=root / place)
    text = str(caught.value)
    assert "inside the root, where `write`, `edit`, `patch` and others may change files" in text
    assert "could forge an approval" in text
    assert "journal_in_root=True" in text
    # It is allowed with the option, and in a session without such tools.
    Session(root, journal=root / place, journal_in_root=True)
    async with Session(root, toolsets=(), tools=[read], journal=root / place) as session:
        assert (await session.program(source="1 + 1")).ok


def test_custom_tool_with_side_effect_counts_as_writer(root: Path) -> None:
    @tool(side_effect=True, idempotent=True)
    def act() -> None:
        """Act."""

    with pytest.raises(UsageError, match="where `act` may change files"):
        Session(root, toolsets=(), tools=[act], journal=root / "j")


def test_links_and_bind_mounts_into_root_are_recognized(root: Path, tmp_path: Path) -> None:
    assert lies_in(root, root / "x")
    assert lies_in(root, root)
    assert not lies_in(root, tmp_path / "x")
    assert not lies_in(root, tmp_path / "root2" / "x")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert lies_in(root, loop / "x"), "a path that cannot be followed is not trusted"
    if os.geteuid() == 0:
        alias = tmp_path / "alias"
        alias.mkdir()
        mounted = subprocess.run(["mount", "--bind", str(root), str(alias)], check=False)
        if mounted.returncode == 0:
            try:
                assert lies_in(root, alias / "x")
            finally:
                subprocess.run(["umount", str(alias)], check=True)


async def test_session_with_wider_root_cannot_change_other_journals(
    tmp_path: Path, root: Path, state: Path
) -> None:
    pay, paid = payments()
    async with Session(root, tools=[pay]) as session:
        waiting = await session.program(source=GATED, allowed_tools=["pay"], inputs={"amount": 7})
    place = journal_of(root)
    assert place.is_file()
    whole, inner = place.read_bytes(), place.relative_to(tmp_path)
    # The user's home, which is protected too, may be lifted or elsewhere.
    async with Session(tmp_path, unprotected=["home"], journal=":memory:") as wide:
        for name, arguments in (
            ("write", {"path": str(inner), "content": "x"}),
            ("write", {"path": f"{inner}-wal", "content": "x"}),
        ):
            refused = await wide.tool(name, arguments)
            assert refused.error is not None
            assert refused.error.code == "protected_path"
        forge = {"STATE": str(state)}
        for script in (
            f"import os; os.chdir({str(root)!r})\n{_FORGE}",
            f"open({str(place)!r}, 'r+b').write(b'x')",
            f"import os; os.unlink({str(place)!r})",
            f"import os; os.rename({str(place.parent)!r}, {str(place.parent.with_name('x'))!r})",
        ):
            done = await wide.tool(
                "bash", {"cmd": sys.executable, "args": ["-c", script], "env": forge}
            )
            assert "forged" not in str(done.value)
    assert place.read_bytes() == whole
    async with Session(root, tools=[pay]) as session:
        assert (await session.resume(waiting.run_id)).status == "paused"
    assert paid == []


async def test_default_inside_root_falls_back_to_memory_with_warning(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "state"))
    async with Session(root) as session:
        result = await session.program(source="1 + 1", run_id="r")
    assert result.unwrap() == 2
    assert "recorded in memory" in caplog.text
    assert "lies in the root" in caplog.text
    assert "narrower root" in caplog.text
    assert list(root.iterdir()) == []
    # It is a file with the option, and in a session without such tools.
    async with Session(root, journal_in_root=True) as session:
        assert (await session.program(source="1 + 1", run_id="r")).ok
    async with Session(root, toolsets=(), tools=[read]) as session:
        assert [run.run_id for run in await session.history.runs()] == ["r"]


@pytest.mark.parametrize("value", [1, "yes", None])
def test_journal_in_root_must_be_a_boolean(value: Any, root: Path) -> None:
    with pytest.raises(UsageError, match="journal_in_root"):
        Session(root, journal_in_root=value)


# --- the file of earlier versions -----------------------------------------------------------------


async def test_former_journal_is_reported_once_and_left_unchanged(
    root: Path, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / ".ptc").mkdir()
    former = root / ".ptc" / "journal.sqlite3"
    async with Session(root, journal=former, journal_in_root=True) as session:
        await session.program(source="1 + 1", run_id="old")
    assert caplog.text == ""
    assert former_journal(root) == former
    before = former.read_bytes()
    async with Session(root) as session:
        await session.program(source="1 + 1", run_id="new")
        assert [run.run_id for run in await session.history.runs()] == ["new"]
    [record] = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert f"ptc runs --journal {former}" in record.getMessage()
    assert "--journal-in-root" in record.getMessage()
    assert former.read_bytes() == before
    caplog.clear()
    async with Session(root) as session:
        await session.program(source="1 + 1", run_id="newer")
    assert caplog.text == ""


async def test_run_of_earlier_version_resumes_with_journal_in_root(root: Path, state: Path) -> None:
    pay, paid = payments()
    former = root / ".ptc" / "journal.sqlite3"
    async with Session(root, tools=[pay], journal=former, journal_in_root=True) as session:
        await session.program(
            source=GATED, allowed_tools=["pay"], inputs={"amount": 1}, run_id="old"
        )
    with pytest.raises(UsageError, match="lies inside the root"):
        Session(root, tools=[pay], journal=former)
    async with Session(root, tools=[pay], journal=former, journal_in_root=True) as session:
        await session.history.approve("old", by="ann")
        assert (await session.resume("old")).unwrap() == "paid"
    assert paid == [1]


def test_default_journal_creates_nothing(root: Path, state: Path) -> None:
    assert default_journal(root, ["write"]) == journal_of(root)
    assert not state.exists()


async def test_damaged_journal_is_not_replaced(root: Path, state: Path) -> None:
    place = journal_of(root)
    place.parent.mkdir(parents=True)
    place.write_bytes(b"not a database" * 1_000)
    with pytest.raises(JournalError):
        await Session(root, journal=place).history.open()
    assert place.read_bytes() == b"not a database" * 1_000


async def test_copy_of_a_journal_can_be_opened(root: Path, state: Path, tmp_path: Path) -> None:
    async with Session(root) as session:
        await session.program(source="1 + 1", run_id="r")
    shutil.copy(journal_of(root), tmp_path / "copy")
    async with Session(root, journal=tmp_path / "copy") as session:
        assert [run.run_id for run in await session.history.runs()] == ["r"]
    with sqlite3.connect(tmp_path / "copy") as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    db.close()


async def test_command_cannot_read_state_directory(root: Path, state: Path) -> None:
    async with Session(root, toolsets=(), tools=[bash]) as session:
        await session.program(source="1 + 1")
        script = f"cat {journal_of(root)} || find {state} -type f || echo nothing"
        result = await session.bash("sh", args=["-c", f"({script}) 2> /dev/null"])  # type: ignore[attr-defined]  # a tool as a method
    assert "SQLite" not in result.output
    assert ".sqlite3" not in result.output
