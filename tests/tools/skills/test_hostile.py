"""Skills written by an attacker: none reads a file outside of its folder, or stops the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ptc import BlockingSession, ToolError
from ptc_tools import skills_toolset
from ptc_tools.skills import _library
from ptc_tools.skills._library import (
    MAX_SCRIPT_BYTES,
    MAX_SKILL_BYTES,
    Library,
    SkillFolder,
)

from .skill_folders import AddSkill

HEAD = "---\nname: evil\ndescription: D.\n---\n"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the skills."""
    path = tmp_path / "secret.md"
    path.write_text("SECRET")
    return path


def problem(skills: Path, add_skill: AddSkill) -> str:
    """The reason why the skill ``evil`` is not used, while another one is."""
    add_skill("good")
    library = Library([skills])
    assert list(library.skills) == ["good"]
    assert len(library.warnings) == 1
    with pytest.raises(ToolError) as caught:
        library.get("evil")
    assert caught.value.code == "invalid_skill"
    return str(caught.value)


def only(skills: Path) -> SkillFolder:
    (skill,) = Library([skills]).skills.values()
    return skill


def test_skill_file_that_is_a_link_out_is_refused(
    skills: Path, add_skill: AddSkill, secret: Path
) -> None:
    secret.write_text(HEAD + "SECRET")
    (skills / "evil").mkdir()
    (skills / "evil" / "SKILL.md").symlink_to(secret)
    text = problem(skills, add_skill)
    assert "SKILL.md" in text
    assert "SECRET" not in text


def test_link_to_a_folder_outside_is_not_a_skill(
    skills: Path, add_skill: AddSkill, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "SKILL.md").write_text(HEAD)
    (skills / "evil").symlink_to(outside)
    assert "is a link that leaves its folder" in problem(skills, add_skill)


@pytest.mark.parametrize("target", ["../../secret.md", "{secret}", "inner"])
def test_link_that_leaves_a_skill_is_refused(
    target: str, skills: Path, add_skill: AddSkill, secret: Path, tmp_path: Path
) -> None:
    folder = add_skill("evil")
    (folder / "inner").symlink_to(tmp_path)
    file = "x.md"
    if target == "inner":
        file = "inner/secret.md"
    else:
        (folder / "x.md").symlink_to(target.format(secret=secret))
    assert only(skills).files == ()
    with BlockingSession(root=tmp_path / "skills", tools=[skills_toolset(folder)]) as session:
        result = session.tool("Skill", {"skill_name": "evil", "file": file})
        assert result.error is not None
        assert result.error.code == "outside_root"
        assert "SECRET" not in result.text


def test_script_that_is_a_link_out_is_not_read(
    skills: Path, add_skill: AddSkill, tmp_path: Path
) -> None:
    (tmp_path / "run.py").write_text("def run(ctx, inputs): ...")
    folder = add_skill("evil")
    (folder / "run.py").symlink_to(tmp_path / "run.py")
    assert only(skills).scripts == {}


def test_fifo_is_refused_without_blocking(skills: Path, add_skill: AddSkill) -> None:
    (skills / "evil").mkdir()
    os.mkfifo(skills / "evil" / "SKILL.md")
    assert "FIFO" in problem(skills, add_skill)


def test_folder_in_place_of_the_file_is_refused(skills: Path, add_skill: AddSkill) -> None:
    (skills / "evil" / "SKILL.md").mkdir(parents=True)
    assert "is a folder" in problem(skills, add_skill)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (HEAD.encode() + b"\xff\xfe", "is not UTF-8"),
        (HEAD.encode() + b"\0", "is NUL"),
        (b"", "must start with front matter"),
        (HEAD.encode() + b"x" * MAX_SKILL_BYTES, f"more than {MAX_SKILL_BYTES:,} bytes"),
        (b"---\nname: [" + b"[" * 5_000 + b"\n---\n", "the front matter"),
        (b"---\na: &a [x, x]\nb: [*a, *a]\n---\n", "must not use YAML aliases"),
        (b"---\nname: !!python/object/apply:os.system [id]\n---\n", "not valid YAML"),
        (b"---\nname: a\n---\n", "`description` is missing"),
        (b"---\nname: ..\ndescription: D.\n---\n", "the key `name` is '..'"),
    ],
    ids=range(9),
)
def test_unreadable_skill_is_left_out(
    data: bytes, words: str, skills: Path, add_skill: AddSkill
) -> None:
    (skills / "evil").mkdir()
    (skills / "evil" / "SKILL.md").write_bytes(data)
    assert words in problem(skills, add_skill)


def test_list_of_files_is_bounded(
    skills: Path, add_skill: AddSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_library, "MAX_FILES", 3)
    add_skill("evil", **{f"{number}.md": "" for number in range(9)})
    # One of them is SKILL.md, which is not listed.
    assert 2 <= len(only(skills).files) <= 3


def test_hidden_and_unprintable_files_are_not_listed(skills: Path, add_skill: AddSkill) -> None:
    folder = add_skill("evil", **{"a.md": "", ".env": "", ".git/config": "", "\x1b[2J.md": ""})
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.md")).touch()
    deep = folder.joinpath(*["d"] * 20)
    deep.mkdir(parents=True)
    (deep / "x.md").touch()
    assert only(skills).files == ("a.md",)


def test_folder_with_an_unprintable_name_is_not_a_skill(skills: Path, add_skill: AddSkill) -> None:
    add_skill("good")
    (skills / "\x1b[2J").mkdir()
    (skills / "\x1b[2J" / "SKILL.md").write_text(HEAD)
    library = Library([skills])
    assert (list(library.skills), library.warnings) == (["good"], [])


def test_texts_of_the_front_matter_have_no_invisible_characters(
    skills: Path, add_skill: AddSkill
) -> None:
    add_skill("evil", 'description: "a\\e[2Jb\\u200bc\\u202ed"\nmetadata: {k: "x\\ay"}')
    assert only(skills).header.description == "a[2Jbcd"
    assert only(skills).header.metadata == {"k": "xy"}


def test_script_that_is_too_large_or_not_text_is_no_script(
    skills: Path, add_skill: AddSkill
) -> None:
    run = "def run(ctx, inputs):\n    return 1\n"
    big = run + "#" * MAX_SCRIPT_BYTES
    folder = add_skill("evil", **{"a.py": run, "big.py": big, "program.py": "import os\n"})
    (folder / "binary.py").write_bytes(run.encode() + b"\0")
    assert list(only(skills).scripts) == ["a.py"]
