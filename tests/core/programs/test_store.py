"""Files of saved programs: written once, read strictly, never through a link."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ptc import Limits, UsageError
from ptc._core import _json
from ptc._programs._pins import PinnedTool
from ptc._programs._saved import SavedProgram
from ptc._programs._store import ProgramStore

GREP = PinnedTool(
    side_effect=False,
    idempotent=True,
    uses_key=False,
    approval="never",
    parameters={"pattern": "00ff"},
    required=["pattern"],
    result=None,
)
DRAFT = SavedProgram(
    name="find",
    version=0,
    description="Find é words.",
    source="def run(ctx, inputs):\r\n    return 'ü'\n",
    input_schema={"type": "object", "properties": {"word": {"type": "string"}}},
    output_schema={"type": "string"},
    allowed_tools=('grep(pattern="a*")',),
    tools={"grep": GREP},
    limits=Limits(timeout_ms=5_000, max_calls_by_tool={"grep": 3}),
    run_id="abc",
    saved_at="2026-01-31T12:00:00+00:00",
    folder=Path(),
)


@pytest.fixture
def store(tmp_path: Path) -> ProgramStore:
    return ProgramStore(tmp_path / "programs")


def test_program_is_read_as_it_was_written(store: ProgramStore) -> None:
    saved = store.save(DRAFT)
    assert saved == replace(DRAFT, version=1, folder=store.folder / "find" / "1")
    assert store.load("find") == saved
    files = sorted(path.name for path in saved.folder.iterdir())
    assert files == ["program.json", "program.py"]
    assert (saved.folder / "program.py").read_bytes().decode() == DRAFT.source
    assert "é" in (saved.folder / "program.json").read_text(encoding="utf-8")


def test_newest_version_is_loaded_and_older_ones_stay(store: ProgramStore) -> None:
    for number in range(11):
        store.save(replace(DRAFT, description=f"version {number + 1}"))
    assert store.load("find").description == "version 11"
    assert store.load("find", 2).description == "version 2"
    assert [program.version for program in store.load_newest()] == [11]
    with pytest.raises(UsageError, match="has no version 12; versions: 1, 2"):
        store.load("find", 12)
    with pytest.raises(UsageError, match=r"no saved program 'fnd' \(did you mean `find`\?\)"):
        store.load("fnd")


def test_deleted_version_is_gone_and_the_one_before_it_is_the_newest(store: ProgramStore) -> None:
    for _ in range(3):
        store.save(DRAFT)
    assert store.delete("find", 3) == [3]
    assert store.load("find").version == 2
    with pytest.raises(UsageError, match="has no version 3"):
        store.delete("find", 3)
    assert store.delete("find") == [1, 2]
    assert store.names() == []
    assert not (store.folder / "find").exists()


def change(field: str, value: Any) -> Any:
    """Return a change of one field that also renews the digest, as somebody who knows it would."""

    def apply(folder: Path) -> None:
        file = folder / "program.json"
        record = json.loads(file.read_text(encoding="utf-8"))
        record.pop("sha256")
        record[field] = value
        file.write_text(json.dumps({**record, "sha256": _json.sha256_of(record)}))

    return apply


def write(name: str, data: bytes) -> Any:
    return lambda folder: (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "file", "problem"),
    [
        (write("program.py", b"def run(ctx, inputs): return ctx.pay()"), "program.py", "changed"),
        (write("program.py", b"\xff"), "program.py", "not UTF-8"),
        (write("program.json", b"{"), "program.json", "not JSON"),
        (write("program.json", b"[]"), "program.json", "an object"),
        (write("program.json", b"{}"), "program.json", "required"),
        (lambda folder: os.truncate(folder / "program.json", 0), "program.json", "not JSON"),
        (lambda folder: (folder / "program.json").unlink(), "program.json", "cannot be read"),
        (lambda folder: (folder / "program.py").unlink(), "program.py", "cannot be read"),
        (change("format", 2), "program.json", "its format is 2"),
        (change("extra", 2), "program.json", "extra"),
        (change("version", 2), "program.json", "in the folder of another"),
        (change("name", "other"), "program.json", "in the folder of another"),
        (change("version", "1"), "program.json", "version"),
    ],
)
def test_changed_file_is_refused_with_its_name_and_the_remedy(
    store: ProgramStore, damage: Any, file: str, problem: str
) -> None:
    folder = store.save(DRAFT).folder
    damage(folder)
    with pytest.raises(UsageError) as caught:
        store.load("find")
    message = str(caught.value)
    assert str(folder / file) in message
    assert problem in message
    assert "`ptc programs delete find --version 1`" in message
    assert store.delete("find") == [1]


def test_record_that_was_edited_is_refused(store: ProgramStore) -> None:
    file = store.save(DRAFT).folder / "program.json"
    file.write_text(file.read_text(encoding="utf-8").replace('grep(pattern=\\"a*\\")', "grep"))
    with pytest.raises(UsageError, match="was changed after it was saved"):
        store.load("find")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("allowed_tools", ["grep", "pay"], "does not list the tools"),
        ("allowed_tools", [], "does not list the tools"),
        ("allowed_tools", ["grep(pattern"], "is not a rule"),
        ("limits", {"timeout_ms": -1}, "timeout_ms"),
        ("output_schema", {"type": "strin"}, "not a valid JSON Schema"),
    ],
)
def test_record_that_does_not_describe_its_tools_is_refused(
    store: ProgramStore, field: str, value: Any, problem: str
) -> None:
    folder = store.save(DRAFT).folder
    change(field, value)(folder)
    with pytest.raises(UsageError, match=problem):
        store.load("find")


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../x", "a/b", "/etc", "A", "ünder", "a-b", "a.b", "1a", "_a", "a" * 65),
        *("class", "call", "search_tools", "program", "a\n", "a\0"),
    ],
)
def test_name_that_is_no_tool_and_folder_is_refused(store: ProgramStore, name: str) -> None:
    for use in (store.versions, store.load, store.delete):
        with pytest.raises(UsageError, match="cannot name a program"):
            use(name)
    with pytest.raises(UsageError, match="cannot name a program"):
        store.save(replace(DRAFT, name=name))
    assert not store.folder.exists()


def test_link_in_the_folder_is_refused(store: ProgramStore, tmp_path: Path) -> None:
    folder = store.save(DRAFT).folder
    outside = tmp_path / "outside"
    folder.rename(outside)
    for link, target in ((folder, outside), (store.folder / "other", outside)):
        link.symlink_to(target)
        with pytest.raises(UsageError, match="is a link"):
            store.load_newest()
        link.unlink()
    outside.rename(folder)
    (folder / "program.py").rename(outside)
    (folder / "program.py").symlink_to(outside)
    with pytest.raises(UsageError, match="is a link"):
        store.load("find")


def test_file_that_every_user_may_write_is_refused(store: ProgramStore) -> None:
    folder = store.save(DRAFT).folder
    (folder / "program.py").chmod(0o666)
    with pytest.raises(UsageError, match=r"may be written by every user \(chmod o-w\)"):
        store.load("find")


def test_other_content_of_the_folder_is_ignored_or_named(store: ProgramStore) -> None:
    store.save(DRAFT)
    (store.folder / "README.md").write_text("words")
    (store.folder / ".git").mkdir()
    (store.folder / "find" / ".draft-0123").mkdir()
    assert store.names() == ["find"]
    (store.folder / "find" / "01").mkdir()
    with pytest.raises(UsageError, match="01 is no version of a program"):
        store.names()
    (store.folder / "find" / "01").rmdir()
    (store.folder / "Find").mkdir()
    with pytest.raises(UsageError, match="Find is no saved program"):
        store.names()


def test_versions_saved_at_once_get_different_numbers(store: ProgramStore) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(store.save(DRAFT).version)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 9))
    assert sorted(path.name for path in (store.folder / "find").iterdir()) == sorted(
        map(str, range(1, 9))
    )
