"""Forms of paths: those of Windows are understood on Windows only."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

import pytest

from ptc_tools.files._spelling import beneath, is_absolute

ROOT = PureWindowsPath("C:\\srv\\tree")


@pytest.mark.parametrize(
    ("path", "inner"),
    [
        ("a\\b", "a/b"),
        ("a/b\\", "a/b/"),
        ("..\\a", "../a"),
        ("C:\\srv\\tree", "."),
        ("C:\\srv\\tree\\a\\b", "a/b"),
        ("c:/SRV/tree/a/", "a/"),
        ("C:\\srv\\tree2\\a", None),
        ("C:\\srv", None),
        ("D:\\srv\\tree\\a", None),
        ("C:a", None),
        ("C:", None),
        ("\\srv\\tree\\a", None),
        ("/srv/tree/a", None),
        ("\\\\server\\share\\a", None),
        ("\\\\?\\C:\\srv\\tree\\a", None),
        ("\\\\.\\pipe\\a", None),
        ("//server/share/a", None),
    ],
)
def test_path_of_windows_is_relative_to_the_root_or_refused(path: str, inner: str | None) -> None:
    assert beneath(ROOT, path, windows=True) == inner
    assert is_absolute(path, windows=True) == (path[:1] in "/\\" or path[1:2] == ":")


def test_backslash_is_a_character_of_a_name_elsewhere() -> None:
    assert beneath(PurePosixPath("/srv"), "a\\b", windows=False) == "a\\b"
    assert not is_absolute("C:\\a", windows=False)
