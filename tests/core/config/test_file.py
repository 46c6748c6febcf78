"""The configuration file: where it is found, which one counts, and the lines of its keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ptc import UsageError
from ptc._config._file import ConfigFile, find_file, load_file
from ptc._config._settings import load_settings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    for name in ("PTC_CONFIG", "PTC_NO_CONFIG", "PTC_ROOT"):
        monkeypatch.delenv(name, raising=False)


def test_nearest_file_from_the_root_upwards_is_found(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert find_file(deep) is None
    (tmp_path / "ptc.toml").write_text('model = "x:above"\n')
    assert find_file(deep) == tmp_path / "ptc.toml"
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'ptc'\n[tool.x]\n")
    assert find_file(deep) == tmp_path / "ptc.toml"
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.ptc]\n")
    assert find_file(deep) == tmp_path / "a" / "pyproject.toml"
    (deep / "ptc.toml").write_text("")
    settings = load_settings({"root": str(deep)})
    assert settings.file == deep / "ptc.toml"


def test_root_that_is_a_link_finds_the_file_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "ptc.toml").write_text('model = "x:y"\n')
    (tmp_path / "link").symlink_to("real")
    assert load_settings({"root": str(tmp_path / "link")})["model"] == "x:y"


def test_two_files_in_one_folder_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "ptc.toml").write_text("")
    (tmp_path / "pyproject.toml").write_text("[tool.ptc]\n")
    with pytest.raises(UsageError, match="both configure ptc; delete one of them"):
        find_file(tmp_path)


def test_named_file_replaces_the_found_one_and_no_config_ignores_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ptc.toml").write_text('model = "x:found"\n')
    (tmp_path / "other.toml").write_text('model = "x:named"\n')
    root = {"root": str(tmp_path)}
    assert load_settings(root)["model"] == "x:found"
    assert load_settings(root, config=tmp_path / "other.toml")["model"] == "x:named"
    assert load_settings(root, use_file=False)["model"] is None
    monkeypatch.setenv("PTC_CONFIG", str(tmp_path / "other.toml"))
    assert load_settings(root)["model"] == "x:named"
    assert load_settings(root, use_file=False)["model"] is None
    monkeypatch.setenv("PTC_NO_CONFIG", "1")
    assert load_settings(root)["model"] is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ptc.toml"
    file.write_text('tools = ["tools.py"]\n')
    os.chown(file, 54321, 54321)
    with pytest.raises(UsageError, match=r"belongs to another user; name it with --config"):
        load_settings({"root": str(tmp_path)})
    assert load_settings({"root": str(tmp_path)}, config=file)["tools"] == ["tools.py"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_link_of_another_user_to_an_own_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("")
    (tmp_path / "ptc.toml").symlink_to("own.toml")
    os.chown(tmp_path / "ptc.toml", 54321, 54321, follow_symlinks=False)
    with pytest.raises(UsageError, match="belongs to another user"):
        load_settings({"root": str(tmp_path)})


def test_file_that_every_user_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ptc.toml"
    file.write_text("")
    file.chmod(0o666)
    with pytest.raises(UsageError, match=r"may be written by every user \(chmod o-w\)"):
        load_settings({"root": str(tmp_path)})


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "latin", "large"])
def test_unreadable_file_is_an_error(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    if kind == "folder":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    elif kind == "latin":
        file.write_bytes(b"model = '\xe9'\n")
    elif kind == "large":
        file.write_bytes(b"#" * 1_100_000)
    with pytest.raises(UsageError, match=r"c\.toml"):
        load_file(file, named=True)


LINES = '''# first
root = "."

tools = [  # several
    "a.py",
    "b.py",
]
text = """
[limits]
timeout_ms = 1
"""
"quoted key" = 1
one.two = 3   # dotted
inline = { x = 1, y = { z = 2 } }

[limits]

# of the next
timeout_ms = 5
[limits.max_calls_by_tool]
bash = 3
[[rows]]
a = 1
'''


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("root",), "root ="),
        (("tools",), "tools ="),
        (("text",), "text ="),
        (("quoted key",), '"quoted key"'),
        (("one", "two"), "one.two"),
        (("inline", "y", "z"), "inline ="),
        (("limits",), "[limits]\n\n"),
        (("limits", "timeout_ms"), "timeout_ms = 5"),
        (("limits", "max_calls_by_tool", "bash"), "bash = 3"),
        (("limits", "missing"), "[limits]\n\n"),
        (("missing",), "# first"),
    ],
)
@pytest.mark.parametrize("ending", ["", "\n", "\n\n# end"])
def test_line_of_a_key_is_that_of_its_statement(
    names: tuple[str, ...], text: str, ending: str
) -> None:
    whole = LINES.rstrip("\n") + ending
    expected = whole[: whole.index(text)].count("\n") + 1
    assert ConfigFile(Path("/x/ptc.toml"), whole).line(*names) == expected
