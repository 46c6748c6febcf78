"""Values too large for their place: cut to fit as valid JSON, and kept whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc._records._artifacts import LocalArtifacts, shrink

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=200),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=20), inner, max_size=12)
    ),
    max_leaves=60,
)


def size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


@given(values, st.integers(1, 3_000))
@settings(deadline=None)
def test_shrunk_value_fits_and_fitting_value_is_unchanged(value: Any, most: int) -> None:
    cut = shrink(value, most)
    if size(value) <= most:
        assert cut == value
    else:
        assert size(cut) <= max(most, len("null"))


def test_truncated_list_keeps_its_first_items_and_counts_the_rest() -> None:
    cut = shrink([f"item {n}" for n in range(1000)], 400)
    assert cut[0] == "item 0"
    kept = len(cut) - 1
    assert cut[-1] == {"…cut…": f"{1000 - kept} of 1,000 items left out"}


def test_truncated_object_keeps_its_keys_and_shrinks_the_large_value() -> None:
    cut = shrink({"summary": "fine", "rows": list(range(10_000)), "n": 3}, 1_000)
    assert cut["summary"] == "fine"
    assert cut["n"] == 3
    assert cut["rows"][:3] == [0, 1, 2]
    assert "items left out" in cut["rows"][-1]["…cut…"]


def test_truncated_text_keeps_its_beginning() -> None:
    cut = shrink("é" * 5_000, 500)
    assert cut.startswith("éééé")
    assert cut.endswith("characters left out")


def test_an_artifact_is_written_once_and_whole(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path / "deep" / "store")
    first = store.keep(b"[1,2,3]")
    second = store.keep(b"[1,2,3]")
    assert first == second
    assert store.path(first.sha256).read_bytes() == b"[1,2,3]"
    assert first.bytes == 7
    # Nothing half-written stays, and the folder does not show up in the user's git status.
    names = sorted(str(p.relative_to(store.folder)) for p in store.folder.rglob("*"))
    shard = first.sha256[:2]
    assert names == [".gitignore", shard, f"{shard}/{first.sha256}.json"]


def test_unwritable_artifact_folder_is_an_error(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(OSError, match="file"):
        LocalArtifacts(blocker / "store").keep(b"1")


@pytest.mark.parametrize("link", [".ptc", ".ptc/artifacts"])
def test_link_in_the_root_cannot_redirect_an_artifact_outside(tmp_path: Path, link: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / link).parent.mkdir(parents=True)
    (root / link).symlink_to(outside)
    with pytest.raises(OSError, match=Path(link).name):
        LocalArtifacts(root / ".ptc" / "artifacts", root).keep(b"1")
    assert list(outside.iterdir()) == []


def test_a_link_under_the_name_of_an_artifact_is_replaced(tmp_path: Path) -> None:
    store = LocalArtifacts(tmp_path / "root" / ".ptc", tmp_path / "root")
    (tmp_path / "root").mkdir()
    kept = store.path(store.keep(b"1").sha256)
    kept.unlink()
    kept.symlink_to(tmp_path / "outside")
    store.keep(b"1")
    assert kept.read_bytes() == b"1"
    assert not kept.is_symlink()
    assert not (tmp_path / "outside").exists()
