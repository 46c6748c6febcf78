"""SKILL.md: forms of published skills are accepted, and each broken rule names file and key."""

from __future__ import annotations

import pytest

from ptc import UsageError
from ptc_tools.skills._format import Header, parse_skill, split_allowed_tools


def parse(*lines: str, folder: str = "sort-mail") -> tuple[Header, list[str]]:
    text = "\n".join(["---", *lines, "---", "# Title", "", "Text."])
    header, body, warnings = parse_skill(text, folder, "skills/x/SKILL.md")
    assert body == "# Title\n\nText."
    return header, warnings


# --- forms of published skills --------------------------------------------------------------------


def test_minimal_form_has_a_name_and_a_description() -> None:
    header, warnings = parse("name: sort-mail", "description: Sorts mail by sender.")
    assert header == Header("sort-mail", "Sorts mail by sender.")
    assert header.allowed_tools is None
    assert warnings == []


def test_form_with_every_key_of_the_specification() -> None:
    header, warnings = parse(
        "name: sort-mail",
        "description: >-",
        "  Sorts mail by sender.",
        "  Use it for a full inbox.",
        "license: Proprietary. LICENSE.txt has complete terms",
        "compatibility: Requires Python 3.14+ and a mail server",
        "metadata:",
        "  author: example-org",
        "  version: 1.0",
        "allowed-tools: Bash(git:*) Bash(jq:*) Read",
    )
    assert header.description == "Sorts mail by sender. Use it for a full inbox."
    assert header.license == "Proprietary. LICENSE.txt has complete terms"
    assert header.compatibility == "Requires Python 3.14+ and a mail server"
    assert header.metadata == {"author": "example-org", "version": "1.0"}
    assert header.allowed_tools == ("Bash(git:*)", "Bash(jq:*)", "Read")
    assert warnings == []


def test_form_of_clients_with_further_keys_and_a_list_with_commas() -> None:
    header, warnings = parse(
        "name: sort-mail",
        'description: "Sorts mail: by sender, by date"',
        "argument-hint: [folder]",
        "user-invocable: true",
        "model: sonnet",
        "context: fork",
        "hooks:",
        "  PreToolUse:",
        "    - matcher: Bash",
        "allowed-tools: Read, Grep, Bash(git diff *)",
    )
    assert header.allowed_tools == ("Read", "Grep", "Bash(git diff *)")
    assert header.for_models
    assert warnings == []


def test_form_with_a_yaml_list_of_tools() -> None:
    header, warnings = parse(
        "name: sort-mail", "description: D.", "allowed-tools:", "  - Read", "  - Bash(npm test:*)"
    )
    assert header.allowed_tools == ("Read", "Bash(npm test:*)")
    assert warnings == []


def test_unquoted_colon_in_a_value_is_accepted_with_a_warning() -> None:
    header, warnings = parse("name: sort-mail", "description: Use it when: it's full.")
    assert header.description == "Use it when: it's full."
    assert warnings == [
        "skills/x/SKILL.md: the front matter is not valid YAML; put values with a colon in quotes"
    ]


def test_empty_list_of_tools_allows_none() -> None:
    for line in ("allowed-tools:", 'allowed-tools: ""', "allowed-tools: []"):
        header, warnings = parse("name: sort-mail", "description: D.", line)
        assert header.allowed_tools == ()
        assert warnings == []


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("", ()),
        ("read  grep\n glob", ("read", "grep", "glob")),
        ("Read,Write", ("Read", "Write")),
        ("Bash(git add *) Read", ("Bash(git add *)", "Read")),
        ("pay(amount <= 100, to=') ') x", ("pay(amount <= 100, to=') ')", "x")),
        ("Bash(git", ("Bash(git",)),
    ],
)
def test_list_of_tools_is_split_outside_of_parentheses(text: str, entries: tuple[str]) -> None:
    assert split_allowed_tools(text) == entries


# --- broken rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "folder", "warning"),
    [
        (["name: Sort-Mail"], "Sort-Mail", "`name`: 'Sort-Mail' must have lowercase letters"),
        (["name: sort--mail"], "sort--mail", "`name`: 'sort--mail' must have lowercase"),
        (["name: sort-mail"], "other", "`name`: 'sort-mail' must equal the name of the folder"),
        ([f"name: {'a' * 65}"], "a" * 65, "`name`: it has 65 characters; the format allows 64"),
        (["name: a", "compatibility: 3"], "a", "`compatibility`: must be text, not 3"),
        (["name: a", f"compatibility: {'x' * 501}"], "a", "`compatibility`: it has 501"),
        (["name: a", "metadata: [1]"], "a", "`metadata`: must be a mapping, not [1]"),
        (["name: a", "allowed-tools: {a: 1}"], "a", "`allowed-tools`: must be text or a list"),
    ],
)
def test_broken_rule_of_a_usable_skill_is_a_warning(
    lines: list[str], folder: str, warning: str
) -> None:
    header, warnings = parse(*lines, "description: D.", folder=folder)
    assert header.description == "D."
    assert len(warnings) == 1
    assert warnings[0].startswith(f"skills/x/SKILL.md: the key {warning}")


def test_malformed_list_of_tools_allows_none() -> None:
    header, _ = parse("name: a", "description: D.", "allowed-tools: 3", folder="a")
    assert header.allowed_tools == ()


def test_long_description_is_a_warning() -> None:
    header, warnings = parse("name: a", f"description: {'x' * 1025}", folder="a")
    assert len(header.description) == 1025
    assert "`description`: it has 1,025 characters; the format allows 1,024" in warnings[0]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["description: D."], "the key `name` is missing"),
        (["name: sort-mail"], "the key `description` is missing"),
        (["name: a", 'description: " "'], "the key `description` must be text, not ' '"),
        (["name: a", 'description: "\\u200b"'], "the key `description` must be text, not"),
        (["name: [a]", "description: D."], "the key `name` must be text, not ['a']"),
        (["name: ..", "description: D."], "the key `name` is '..'; use"),
        (["name: ../etc", "description: D."], "the key `name` is '../etc'; use"),
        (['name: "a\\nb"', "description: D."], "the key `name` is 'a\\nb'; use"),
        (["name: " + "a" * 300, "description: D."], "the key `name` has 300 characters"),
        (["name: a", f"description: {'x' * 20_000}"], "the key `description` has 20,000"),
        (["name: [", "description: D."], "the front matter is not valid YAML"),
        (["- name"], "the front matter must be a mapping"),
        (["x: &a [1]", "y: *a"], "must not use YAML aliases"),
    ],
)
def test_skill_without_a_meaning_is_an_error(lines: list[str], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(*lines)
    assert str(caught.value).startswith("skills/x/SKILL.md")
    assert problem in str(caught.value)


def test_file_without_front_matter_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"skills/x/SKILL\.md: the file must start with"):
        parse_skill("# Title\n", "a", "skills/x/SKILL.md")
