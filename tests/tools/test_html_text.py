"""HTML pages as Markdown and as text: valid HTML is read whole, hostile HTML is bounded."""

from __future__ import annotations

import importlib.util
import time
from importlib.machinery import ModuleSpec
from typing import Literal

import pytest

import ptc_tools.web._documents
from ptc import ToolError
from ptc_tools.web._documents import as_document

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Use one backend: a conversion is a process and the same under both."""
    return "asyncio"


async def convert(html: str, form: Literal["markdown", "text"] = "markdown") -> str:
    return (await as_document(html.encode(), "text/html", form)).text


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        pytest.param(
            "<p>before</p><table><tr><th>k<th>v<tr><td>1<td>2</table><p>after</p><pre>code</pre>",
            "before\n\n| k | v |\n| --- | --- |\n| 1 | 2 |\n\nafter\n\n```\ncode\n```\n",
            id="table-without-end-tags",
        ),
        pytest.param(
            "<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table><p>after</p>",
            "| k | v |\n| --- | --- |\n| 1 | 2 |\n\nafter\n",
            id="table-with-end-tags",
        ),
        pytest.param(
            "<dl><dt>a<dd>b<dt>c<dd>d</dl><ul><li>x<li>y</ul><p>one<p>two",
            "a\n\nb\n\nc\n\nd\n\n- x\n- y\n\none\n\ntwo\n",
            id="lists-and-paragraphs-without-end-tags",
        ),
        pytest.param(
            "<p>One <b> bold </b> two</p>", "One **bold** two\n", id="spaces-inside-emphasis"
        ),
        pytest.param("<ol start=3><li>z<li>y</ol>", "3. z\n4. y\n", id="list-with-a-start"),
        pytest.param(
            "<table><tr><td><p>x</p><p>y</p></td></tr></table>",
            "| x y |\n| --- |\n",
            id="paragraphs-in-a-cell",
        ),
        pytest.param(
            "<table><tr><th>a|b<tr><td><code>x|y</code></table>",
            "| a\\|b |\n| --- |\n| `x\\|y` |\n",
            id="pipes-in-cells",
        ),
        pytest.param(
            "<table><caption>Sales</caption><thead><tr><th>h<tfoot><tr><td>f<tbody><tr><td>b"
            "</table>",
            "*Sales*\n\n| h |\n| --- |\n| b |\n| f |\n",
            id="caption-and-sections-of-a-table",
        ),
        pytest.param("<p>a</p><svg><path d=1><p>b</p>", "a\n\nb\n", id="svg-without-end-tag"),
        pytest.param("<p>a<svg><title>t</title></svg>b", "ab\n", id="svg"),
        pytest.param(
            "<p>a<script>var x = '<p>'</script><style>p{}</style><noscript>n</noscript>"
            "<template><p>t</template><p>b",
            "a\n\nb\n",
            id="content-that-no-reader-sees",
        ),
        pytest.param(
            "<select><option>a<option>b</select><p>z", "a b\n\nz\n", id="options-without-end-tags"
        ),
        pytest.param(
            "<nav><a href=/home>Home</a></nav><form><label>Name</label></form><main>x</main>",
            "[Home](/home)\n\nName\n\nx\n",
            id="navigation-and-forms-stay",
        ),
        pytest.param(
            "<pre><code class=language-python>def f():\n    return 1\n</code></pre>",
            "```python\ndef f():\n    return 1\n```\n",
            id="code-with-a-language",
        ),
        pytest.param("<p>10<sup>9</sup>", "10^9^\n", id="superscript"),
        pytest.param("<hr>x", "---\n\nx\n", id="rule-at-the-start"),
        pytest.param("<p>&lt;b&gt; &copy; it's", "<b> © it's\n", id="character-references"),
        pytest.param("a\0b", "a\ufffdb\n", id="nul"),
        pytest.param("\0" * 1_000 + "b", "\ufffd" * 1_000 + "b\n", id="many-nul"),
        pytest.param("", "", id="nothing"),
    ],
)
async def test_valid_html_is_converted_whole(html: str, markdown: str) -> None:
    assert await convert(html) == markdown


@pytest.mark.parametrize(
    "html",
    [
        "<table><tr><td colspan=1000000000>end</table>",
        "<table><tr><td rowspan=1000000000>end</table>",
        "<ol start=99999999999999999999999><li>end</ol>",
    ],
)
async def test_huge_numbers_in_attributes_are_bounded(html: str) -> None:
    text = await convert(html)
    assert "end" in text
    assert len(text) < 20_000


@pytest.mark.parametrize(
    ("html", "text"),
    [
        (
            "<p>before</p><table><tr><th>k<th>v<tr><td>1<td>2</table><p>after",
            "before\n\nk\tv\n1\t2\n\nafter\n",
        ),
        ("<p>One <b>bold</b> <code>x</code> <a href=/x>two</a>", "One bold x two\n"),
        ("<ol start=3><li>z</ol>", "3. z\n"),
    ],
)
async def test_text_has_no_marks_of_markdown(html: str, text: str) -> None:
    assert await convert(html, "text") == text


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ('<a href="javascript:evil()">js</a>', "[js]\n"),
        ('<a href=" JavaScript:evil()">js</a>', "[js]\n"),
        ('<a href="data:text/html,evil">d</a>', "[d]\n"),
        ('<a href="/' + "x" * 3_000 + '">long</a>', "[long]\n"),
        ('<p>a <img alt=pic src="data:image/png;base64,AAAA">', "a ![pic]\n"),
        ('<p>a <img alt=pic src="/' + "x" * 3_000 + '">', "a ![pic]\n"),
        (
            '<p><img alt=pic src="p.png"><a href="/x?a=1&b=2">l</a>',
            "![pic](p.png)[l](/x?a=1&b=2)\n",
        ),
    ],
)
async def test_targets_that_nobody_can_fetch_are_left_out(html: str, markdown: str) -> None:
    assert await convert(html) == markdown


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title> A &amp;\n B </title>", "A & B"),
        ("<meta name=description content=no><title>T</title><title>no</title>", "T"),
        ("<title>" + "x" * 5_000 + "</title>", "x" * 1_000),
        ("<svg><title>no</title></svg>", ""),
        ("", ""),
    ],
)
async def test_the_title_is_apart_from_the_text(head: str, title: str) -> None:
    document = await as_document(f"{head}<p>x".encode(), "text/html", "markdown")
    assert (document.title, document.text) == (title, "x\n")


@pytest.mark.parametrize("form", ["markdown", "text"])
@pytest.mark.parametrize("tag", ["div", "blockquote", "b", "ul><li", "table><tr><td", "font", "a"])
async def test_nesting_bombs_are_bounded_and_reported(
    form: Literal["markdown", "text"], tag: str
) -> None:
    text = await convert("<p>before</p>" + f"<{tag}>" * 20_000 + "deep", form)
    assert text.startswith("before\n")
    assert "deep\n" in text or text.endswith("nested too deeply and were left out]\n")


async def test_ordinary_nesting_is_not_cut() -> None:
    assert await convert("<div>" * 500 + "deep" + "</div>" * 500 + "<p>after") == "deep\n\nafter\n"


@pytest.mark.parametrize(
    "html",
    [
        pytest.param('<p title="' + "x" * 5_000_000 + '">end', id="attribute-of-5-mb"),
        pytest.param("<p " + "a" * 5_000_000 + ">end", id="attribute-name-of-5-mb"),
        pytest.param('<a href="' + "x" * 5_000_000 + '">end</a>', id="target-of-5-mb"),
        pytest.param("<!doctype html>" * 300_000 + "end", id="declarations"),
        pytest.param("<p>" + " " * 5_000_000 + "end", id="white-space"),
        pytest.param("<table>" + "<tr><td>x<td>y" * 50_000 + "</table>end", id="rows"),
    ],
)
async def test_huge_markup_loses_no_text(html: str) -> None:
    assert "end" in (await convert(html))[-20:]


@pytest.mark.parametrize(
    "html",
    [
        pytest.param("<p " + " ".join(f"a{n}=1" for n in range(300_000)) + ">end", id="attributes"),
        pytest.param("<!--" * 1_000_000, id="comments"),
        pytest.param("<" * 5_000_000, id="open-brackets"),
        pytest.param("<a foo=bar<" * 400_000, id="tags-in-tags"),
    ],
)
async def test_html_that_takes_long_is_stopped(html: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptc_tools.web._documents, "_TIMEOUT_MS", 500)
    started = time.monotonic()
    error = None
    try:
        await convert(html)
    except ToolError as caught:
        error = caught
    assert time.monotonic() - started < 20
    assert error is None or (error.code, "500 ms" in error.message) == ("unsupported_content", True)


async def test_a_missing_library_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = importlib.util.find_spec

    def find_other(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "html_to_markdown" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_other)
    with pytest.raises(ToolError) as caught:
        await convert("<p>x")
    assert caught.value.code == "unsupported_content"
    assert 'pip install "ptc-host[web]"' in caught.value.message
    # The source needs no converter.
    assert (await as_document(b"<p>x", "text/html", "html")).text == "<p>x"
