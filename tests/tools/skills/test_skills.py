"""`search_skills` and `Skill`: ranking, instructions and files, and the protection of skills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptc import BlockingSession, Session, ToolError, UsageError
from ptc_tools import SkillHit, SkillInstructions, SkillText, skills_toolset
from ptc_tools.skills._library import Library

from .skill_folders import AddSkill, write_skill


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingSession]:
    """A session with three skills."""
    skills = tmp_path_factory.mktemp("skills")
    write_skill(
        skills,
        "count-orders",
        "description: Counts the orders of a shop by month.\nlicense: MIT\nallowed-tools: Read",
        "# Count\n\nRead [the format](references/format.md) first.",
        **{"references/format.md": "one\ntwo\nthree\n", "scripts/count.py": "import sys\n"},
    )
    write_skill(skills, "sort-mail", "description: Sorts mail by sender.", "Orders are not mail.")
    write_skill(skills, "review-code", "description: Reviews a change.", "Look for bugs.")
    root = tmp_path_factory.mktemp("root")
    with BlockingSession(root=root, tools=[skills_toolset(skills)]) as session:
        yield session


def search(session: BlockingSession, query: str, **arguments: int) -> list[SkillHit]:
    hits: list[SkillHit] = session.tool("search_skills", {"query": query, **arguments}).unwrap()
    return hits


def load(session: BlockingSession, skill_name: str, **arguments: Any) -> Any:
    return session.tool("Skill", {"skill_name": skill_name, **arguments}).unwrap()


# --- search ---------------------------------------------------------------------------------------


def test_search_ranks_by_name_description_and_body(calls: BlockingSession) -> None:
    def found(query: str, **arguments: int) -> list[str]:
        hits = search(calls, query, **arguments)
        assert all(isinstance(hit, SkillHit) for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        return [hit.name for hit in hits]

    assert found("how many orders") == ["count-orders", "sort-mail"]
    assert found("mail by sender") == ["sort-mail", "count-orders"]
    assert found("bug") == ["review-code"]
    assert found("weather") == []
    assert found("") == ["count-orders", "review-code", "sort-mail"]
    assert found("", limit=2) == ["count-orders", "review-code"]


def test_long_skill_does_not_win_by_its_length(skills: Path, add_skill: AddSkill) -> None:
    add_skill("short", "description: Invoices.", "Invoice.")
    add_skill("long", "description: Everything.", "invoice " + "other words " * 5_000)
    found = Library([skills]).find("invoice", 10)
    assert [skill.name for skill, _ in found] == ["short", "long"]


def test_model_reads_names_descriptions_and_scripts(calls: BlockingSession) -> None:
    result = calls.tool("search_skills", {"query": "mail"})
    assert result.text == "sort-mail: Sorts mail by sender."
    assert calls.tool("search_skills", {"query": "weather"}).text == "No skills match"


# --- instructions and files -----------------------------------------------------------------------


def test_skill_returns_its_instructions_and_lists_its_files(calls: BlockingSession) -> None:
    assert load(calls, "count-orders") == SkillInstructions(
        name="count-orders",
        description="Counts the orders of a shop by month.",
        instructions="# Count\n\nRead [the format](references/format.md) first.",
        scripts=[],
        files=["references/format.md", "scripts/count.py"],
        path=None,
        allowed_tools=["Read"],
        license="MIT",
        compatibility="",
        metadata={},
        first_line=6,
    )
    text = calls.tool("Skill", {"skill_name": "count-orders"}).text
    assert text.startswith("# Count\n")
    assert "file=...): references/format.md, scripts/count.py" in text


def test_skill_returns_a_file_or_lines_of_it(calls: BlockingSession) -> None:
    file = "references/format.md"
    assert load(calls, "count-orders", file=file) == SkillText(
        "count-orders", file, "one\ntwo\nthree\n", 0
    )
    assert load(calls, "count-orders", file=file, offset=1, limit=1).text == "two\n"
    first = load(calls, "count-orders", file="SKILL.md", limit=2).text
    assert first == "---\nname: count-orders\n"


def test_path_of_a_skill_in_the_root_is_relative_to_it(root: Path, add_skill: AddSkill) -> None:
    folder = add_skill("sort-mail")
    with BlockingSession(root=folder.parent.parent, tools=[skills_toolset(folder)]) as session:
        assert load(session, "sort-mail").path == "skills/sort-mail"


def test_long_instructions_are_truncated_for_a_model_with_the_call_that_continues(
    root: Path, skills: Path, add_skill: AddSkill
) -> None:
    lines = [f"line {number} of the instructions" for number in range(5_000)]
    add_skill("long", body="\n".join(lines))
    with BlockingSession(root=root, tools=[skills_toolset(skills)]) as session:
        result = session.tool("Skill", {"skill_name": "long"})
        value = result.unwrap()
        assert value.instructions == "\n".join(lines)
        shown, _, mark = result.text.partition("[truncated: ")
        last = shown.splitlines()[-1]
        assert mark.startswith(f"{len(value.instructions) - len(shown):,} more characters; ")
        offset = int(mark.partition("offset=")[2].partition(")")[0])
        rest = load(session, "long", file="SKILL.md", offset=offset).text
        assert rest.splitlines()[0] == lines[lines.index(last) + 1]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ({"skill_name": "sort-mal"}, "unknown_skill", "did you mean `sort-mail`"),
        ({"skill_name": "sort-mail", "file": "x.md"}, "not_found", "files: none"),
        ({"skill_name": "sort-mail", "file": "../a"}, "outside_root", "no file '../a' in its"),
        ({"skill_name": "sort-mail", "file": "/etc/passwd"}, "outside_root", "in its folder"),
        ({"skill_name": "../skills"}, "unknown_skill", "there is no skill"),
    ],
)
def test_wrong_call_is_an_error(
    calls: BlockingSession, arguments: dict[str, str], code: str, words: str
) -> None:
    with pytest.raises(ToolError, match=words) as caught:
        calls.tool("Skill", arguments).unwrap()
    assert caught.value.code == code


def test_description_of_the_tool_lists_the_skills_while_they_are_few(
    skills: Path, add_skill: AddSkill
) -> None:
    add_skill("sort-mail", "description: |\n  Sorts\n  mail.")
    (_, skill) = skills_toolset(skills)
    assert "sort-mail: Sorts mail." in skill.description
    for number in range(60):
        add_skill(f"skill-{number}", f"description: {'long ' * 100}")
    (_, skill) = skills_toolset(skills)
    assert "There are 61 skills; find one with search_skills." in skill.description


# --- loading --------------------------------------------------------------------------------------


def test_folder_may_be_one_skill(add_skill: AddSkill) -> None:
    assert list(Library([add_skill("sort-mail")]).skills) == ["sort-mail"]


def test_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing cannot be read: No such file"):
        skills_toolset(tmp_path / "missing")


def test_folder_without_skills_is_a_warning(skills: Path, caplog: pytest.LogCaptureFixture) -> None:
    (skills / "notes").mkdir()
    skills_toolset(skills)
    assert caplog.messages == [f"{skills} has no skill: a folder with a file SKILL.md"]


def test_entry_that_cannot_be_translated_is_a_warning(
    skills: Path, add_skill: AddSkill, caplog: pytest.LogCaptureFixture
) -> None:
    add_skill("vague", "description: D.\nallowed-tools: Read Bash(cat a | sh)")
    skills_toolset(skills)
    (message,) = caplog.messages
    assert message.startswith(f"{skills}/vague/SKILL.md: allowed-tools: 'Bash(cat a | sh)' cannot")


def test_unusable_skill_is_left_out_and_explained(
    root: Path, skills: Path, add_skill: AddSkill, caplog: pytest.LogCaptureFixture
) -> None:
    add_skill("sort-mail")
    add_skill("broken", "license: MIT")
    made = skills_toolset(skills)
    assert caplog.messages == [f"{skills}/broken/SKILL.md: the key `description` is missing"]
    with BlockingSession(root=root, tools=[made]) as session:
        assert [hit.name for hit in search(session, "")] == ["sort-mail"]
        with pytest.raises(ToolError, match="the key `description` is missing") as caught:
            load(session, "broken")
        assert caught.value.code == "invalid_skill"


def test_of_two_skills_with_one_name_the_first_counts(tmp_path: Path, add_skill: AddSkill) -> None:
    own = add_skill("sort-mail", "description: Mine.")
    other = tmp_path / "other" / "sort-mail"
    other.mkdir(parents=True)
    (other / "SKILL.md").write_text("---\nname: sort-mail\ndescription: Other.\n---\n")
    library = Library([own, other.parent])
    assert library.get("sort-mail").header.description == "Mine."
    assert library.warnings == [f"{other}: skill 'sort-mail' is not used; {own} has the same name"]


def test_skill_that_is_not_for_models_is_left_out(skills: Path, add_skill: AddSkill) -> None:
    add_skill("deploy", "description: Deploys.\ndisable-model-invocation: true")
    library = Library([skills])
    assert library.find("", 10) == []
    with pytest.raises(ToolError, match="disable-model-invocation is true"):
        library.get("deploy")


def test_change_of_a_skill_has_no_effect_on_the_session(skills: Path, add_skill: AddSkill) -> None:
    run = "def run(ctx, inputs):\n    return 1\n"
    folder = add_skill("sort-mail", **{"sort.py": run})
    skill = Library([skills]).get("sort-mail")
    (folder / "SKILL.md").write_text("changed")
    (folder / "sort.py").write_text("changed")
    assert (skill.body, skill.script("sort.py")) == ("Do it.", ("sort.py", run))
    assert skill.read("SKILL.md", 1, 1) == "name: sort-mail\n"
    assert skill.read("sort.py", 0, None) == run
    assert skill.read("sort.py", 1, None) == "    return 1\n"


# --- protection -----------------------------------------------------------------------------------


def test_root_that_is_a_skill_is_an_error(add_skill: AddSkill) -> None:
    folder = add_skill("sort-mail")
    with pytest.raises(UsageError, match="the root itself cannot be protected"):
        Session(root=folder, tools=[skills_toolset(folder.parent)])


def test_tools_taken_from_the_toolset_protect_the_skills_too(
    skills: Path, add_skill: AddSkill
) -> None:
    add_skill("sort-mail")
    _, skill = skills_toolset(skills)
    with BlockingSession(root=skills.parent, tools=[skill]) as session:
        result = session.tool("write", {"path": "skills/sort-mail/SKILL.md", "content": ""})
        assert result.error is not None
        assert result.error.code == "protected_path"


# --- configuration --------------------------------------------------------------------------------


def test_key_of_the_configuration_adds_the_tools(
    root: Path, skills: Path, add_skill: AddSkill
) -> None:
    add_skill("sort-mail")
    (root / "ptc.toml").write_text('skills = ["../skills"]\n')
    with BlockingSession.from_config(root, config=root / "ptc.toml") as session:
        assert load(session, "sort-mail").instructions == "Do it."
        assert session.tool("read", {"path": "ptc.toml"}).ok


def test_wrong_key_of_the_configuration_names_its_line(root: Path) -> None:
    (root / "ptc.toml").write_text('\nskills = ["none"]\n')
    with pytest.raises(UsageError, match=r"ptc\.toml:2: skills: .*none cannot be read"):
        Session.from_config(root, config=root / "ptc.toml")
    (root / "ptc.toml").write_text('skills = ["."]\n')
    with pytest.raises(UsageError, match=r"ptc\.toml:1: skills: .* is the root itself"):
        Session.from_config(root, config=root / "ptc.toml")
    (root / "ptc.toml").write_text('toolsets = ["skills"]\n')
    with pytest.raises(UsageError, match=r"ptc\.toml:1: toolsets: .* set the key `skills`"):
        Session.from_config(root, config=root / "ptc.toml")


def test_skills_that_a_configuration_names_are_protected_in_every_session(
    tmp_path: Path, add_skill: AddSkill
) -> None:
    add_skill("sort-mail")
    (tmp_path / "ptc.toml").write_text('skills = ["skills"]\n')
    with BlockingSession(root=tmp_path) as session:
        result = session.tool("write", {"path": "skills/new/SKILL.md", "content": ""})
        assert result.error is not None
        assert result.error.code == "protected_path"
