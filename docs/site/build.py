"""Build the documentation site: ``python docs/site/build.py FOLDER`` (`pip install '.[docs]'`).

The pages are Markdown that is also read on its own, so their links lead to files of the whole
repository. This copies the pages to FOLDER/pages with links that fit there, and builds FOLDER/html
strictly: a broken link or anchor is an error.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "tools/README.md": "built-in-tools.md",
    "bindings/README.md": "bindings.md",
    "tests/README.md": "tests.md",
    ".github/CONTRIBUTING.md": "contributing.md",
    ".github/SECURITY.md": "reporting.md",
}
"""Pages outside of docs/, and their names on the site."""
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^)\s]+)\)")


def find_pages() -> dict[Path, str]:
    """Return the sources of all pages and their names on the site."""
    pages = {page: page.name for page in sorted((ROOT / "docs").glob("*.md"))}
    return pages | {ROOT / source: name for source, name in ELSEWHERE.items()}


def stage(folder: Path) -> None:
    """Copy the pages, and the files that they link to, to `folder`."""
    pages = find_pages()
    for page, name in pages.items():
        text = page.read_text(encoding="utf-8")
        pieces, start = [], 0
        for fence in FENCE.finditer(text):
            pieces += [adapt_links(text[start : fence.start()], page, pages, folder), fence[0]]
            start = fence.end()
        pieces.append(adapt_links(text[start:], page, pages, folder))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(pieces), encoding="utf-8")


def adapt_links(text: str, page: Path, pages: dict[Path, str], folder: Path) -> str:
    """Return `text` of `page` with links that fit the site."""

    def adapt(link: re.Match[str]) -> str:
        whole, label, target = link[0], link["text"], link["target"]
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return whole
        path, mark, anchor = target.partition("#")
        file = Path(os.path.normpath(page.parent / path))
        if file in pages:
            return f"{label}({pages[file]}{mark}{anchor})"
        if file.is_dir():  # The site has no listings of folders.
            return label[1:-1]
        name = file.relative_to(ROOT).as_posix().removeprefix("docs/").lstrip(".")
        name += ".txt" if file.suffix == ".md" else ""
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, folder / name)
        return f"{label}({name})"

    return LINK.sub(adapt, text)


def main() -> int:
    """Stage and build; return the exit status of the build."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python docs/site/build.py FOLDER\n")
        return 2
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder / "pages", ignore_errors=True)
    stage(folder / "pages")
    shutil.copyfile(Path(__file__).with_name("zensical.toml"), folder / "zensical.toml")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(  # noqa: S603  # our own arguments
        [*command, "--config-file", str(folder / "zensical.toml")], check=False
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
