"""Charts of matplotlib and pandas in a jailed worker become attachments, and touch no file."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ptc import RunResult, Session
from ptc._runs._packages import validate_packages

pytestmark = pytest.mark.anyio
needs_charts = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None or importlib.util.find_spec("pandas") is None,
    reason="matplotlib or pandas is not installed; they are in the extra `data`",
)
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop: what is tested is on the far side of the wire."""
    return "asyncio"


@pytest.fixture(scope="module")
async def session(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Session]:
    root = tmp_path_factory.mktemp("root")
    async with Session(root, toolsets=(), packages=["data"], workers=1) as session:
        yield session


async def draw(session: Session, body: str) -> RunResult:
    start = "import matplotlib.pyplot as plt\nimport numpy as np\nimport pandas as pd\n"
    data = "x = np.linspace(0, 6, 50)\nfig, ax = plt.subplots()\n"
    return await session.program(source=f"{start}{data}{body}\nNone")


CHARTS = {
    "a line with a legend": "ax.plot(x, np.sin(x), 'r--o', label='sin')\nax.legend()",
    "mathematical text": "ax.set_title('$x_1^2 + 3$')",
    "text without a glyph": "ax.set_title('\u65e5\u672c \U0001f600')",
    "another font": "ax.text(0, 0, 'x', family='monospace')\nax.text(0, 1, 'y', family='Arial')",
    "bars with errors": "ax.bar(['a', 'b'], [1, 2], yerr=[0.1, 0.2])\nplt.xticks(rotation=45)",
    "a histogram": "ax.hist(np.random.randn(1000), bins=30)",
    "a pie": "ax.pie([1, 2], labels=['a', 'b'], autopct='%1.1f%%')",
    "a picture with a colour bar": "fig.colorbar(ax.imshow(np.eye(5)))",
    "contours": "ax.contourf(np.outer(x, x))",
    "logarithmic scales": "ax.loglog(x + 1, x + 1)",
    "another scale": "ax.plot(x)\nax.set_yscale('symlog')",
    "dates": "ax.plot(pd.date_range('2024-01-01', periods=50), x)\nfig.autofmt_xdate()",
    "two axes": "ax.twinx().fill_between(x, x)\nax.annotate('p', (1, 1), xytext=(2, 2))",
    "a grid": "plt.close()\nfig, axs = plt.subplots(2, 2, sharex=True)\nfig.tight_layout()",
    "a constrained grid": "plt.close()\nplt.figure(layout='constrained').add_subplot().plot(x)",
    "triangles": "ax.tricontourf([0, 1, 0], [0, 0, 1], [1, 2, 3])",
    "three dimensions": (
        "plt.close()\nax = plt.figure().add_subplot(projection='3d')\n"
        "ax.plot_surface(*np.meshgrid(x, x), np.ones((50, 50)))"
    ),
    "a style": "with plt.style.context('ggplot'):\n    ax.plot(x)",
    "a chosen backend": "import matplotlib\nmatplotlib.use('Agg')\nplt.plot(x)",
    "a frame": "pd.DataFrame({'a': [1, 2], 'b': [2, 1]}).plot(kind='bar', stacked=True, ax=ax)",
    "a series by time": "pd.Series(x, index=pd.date_range('2024', periods=50)).plot(ax=ax)",
    "boxes by group": "pd.DataFrame({'a': x, 'g': ['u', 'v'] * 25}).boxplot(by='g', ax=ax)",
    "a pivot table": (
        "pd.DataFrame({'m': [1, 2], 'r': ['a', 'b'], 'v': [1, 2]})"
        ".pivot_table(index='m', columns='r', values='v', aggfunc='sum').plot(ax=ax)"
    ),
}


@needs_charts
@pytest.mark.slow
@pytest.mark.parametrize("name", list(CHARTS))
async def test_chart_becomes_a_png_attachment(session: Session, name: str) -> None:
    result = await draw(session, f"{CHARTS[name]}\nplt.savefig('charts/a.png')")
    assert result.status == "completed", result.error
    [file] = result.attached
    assert (file.name, file.media_type) == ("a.png", "image/png")
    assert Path(file.path).read_bytes().startswith(PNG)
    assert session.violations == ()


@needs_charts
async def test_points_without_triangles_are_an_ordinary_error(session: Session) -> None:
    result = await draw(session, "ax.tricontourf([0, 1, 2], [0, 1, 2], [1, 2, 3])")
    assert result.error is not None
    assert result.error.type == "RuntimeError"
    assert session.violations == ()


@needs_charts
@pytest.mark.slow
async def test_every_way_to_save_a_figure(session: Session) -> None:
    body = """
import io
from pathlib import Path
ax.plot(x)
fig.savefig(Path("a.svg"))
fig.savefig("b")
fig.savefig("c.jpg", dpi=50, bbox_inches="tight")
fig.savefig("d.data", format="webp")
buffer = io.BytesIO()
fig.savefig(buffer)
ctx.attach("e.png", buffer)
try:
    fig.savefig("f.pdf")
except ValueError as error:
    print(error)
plt.figure()
plt.show()
print(plt.get_fignums())
"""
    first, second = [await draw(session, body) for _ in range(2)]
    assert first.status == "completed", first.error
    names = ["a.svg", "b.png", "c.jpg", "d.data", "e.png", "figure-1.png", "figure-2.png"]
    assert [file.name for file in first.attached] == names
    assert [file.id for file in first.attached] == [file.id for file in second.attached]
    assert first.stdout == (
        "savefig('f.pdf'): a script can save figures as jpeg, jpg, png, svg, webp\n[]\n"
    )
    assert session.violations == ()


@needs_charts
@pytest.mark.slow
async def test_figures_leave_no_file_behind(session: Session) -> None:
    result = await draw(session, "plt.savefig('a.png')\nplt.style.use('missing.mplstyle')")
    assert result.status == "failed"
    assert [path.name for path in session.root.iterdir()] == [".ptc"]
    assert session.violations == ()


def test_one_name_brings_the_packages_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    assert validate_packages(["data"]) == ("numpy", "pandas", "matplotlib")
    assert validate_packages(["matplotlib"]) == ("numpy", "matplotlib")
    assert validate_packages(["pandas", "numpy"]) == ("numpy", "pandas")


@needs_charts
@pytest.mark.parametrize("name", ["font_manager.os", "font_manager.ft2font"])
async def test_module_that_a_worker_replaces_is_not_shown(session: Session, name: str) -> None:
    result = await session.program(source=f"import matplotlib\nmatplotlib.{name}")
    assert result.error is not None
    assert result.error.type == "AttributeError"
    assert "has no attribute" in result.error.message


async def test_refused_import_names_the_option(tmp_path: Path) -> None:
    async with Session(tmp_path, toolsets=(), workers=1) as plain:
        result = await plain.program(source="import pandas as pd\npd.DataFrame()")
    assert result.error is not None
    assert 'packages=["pandas"]' in result.error.hint
