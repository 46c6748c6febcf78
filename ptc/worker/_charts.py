"""Matplotlib in a worker: fonts in memory, no files, and figures that become attachments.

A worker has no files, and the kernel layer treats an attempt to open one as an attack. Matplotlib
searches for fonts, reads them while it draws, imports most of its parts on first use, and writes
figures to paths. So all of this happens before the jail, or in memory.
"""

from __future__ import annotations

import copy
import importlib
import io
import logging
import os
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import Any, Final

from ._internals import bound_function, bound_object, keyword_defaults_of
from ._introspection import ModuleView, replace_signatures

__all__ = ["Charts", "importing_charts"]

_SETTINGS: Final = {
    "MPLBACKEND": "Agg",
    "MPL_IGNORE_SYSTEM_FONTS": "1",
}
_FORMATS: Final = frozenset({"jpeg", "jpg", "png", "svg", "webp"})
"""Formats whose writers need no files. A PDF embeds fonts, which its writer opens."""
_PARTS: Final = (
    "matplotlib.pyplot matplotlib.backends.backend_agg "
    "matplotlib.backends.backend_svg matplotlib.dates matplotlib.patches matplotlib.path "
    "matplotlib.patheffects matplotlib.style matplotlib.ticker matplotlib._tri matplotlib._qhull "
    "mpl_toolkits.mplot3d "
    "mpl_toolkits.axes_grid1 contourpy PIL.JpegImagePlugin PIL.PngImagePlugin PIL.WebPImagePlugin"
)


@contextmanager
def importing_charts() -> Iterator[None]:
    """Let matplotlib be imported without a trace on the disk, with its own fonts alone."""
    real_walk, real_output = os.walk, subprocess.check_output

    def walk(top: Any, *args: Any, **options: Any) -> Any:
        return real_walk(top, *args, **options) if "mpl-data" in os.fspath(top) else iter(())

    def no_output(*_: object, **__: object) -> bytes:
        raise OSError("no other program is run")

    with tempfile.TemporaryDirectory(prefix="ptc-") as folder:
        os.environ.update(_SETTINGS, MPLCONFIGDIR=folder)
        os.__dict__["walk"], subprocess.__dict__["check_output"] = walk, no_output
        try:
            yield
        finally:
            os.__dict__["walk"], subprocess.__dict__["check_output"] = real_walk, real_output
            for name in ("MPLCONFIGDIR", *_SETTINGS):
                del os.environ[name]


class Charts:
    """Connects matplotlib with the attachments of a run.

    Attributes:
        attach: ``ctx.attach`` of the run.
    """

    def __init__(self) -> None:
        """Import the parts, load the fonts, and draw once, which loads the rest."""
        self.attach: Callable[[str, bytes], object] = lambda _name, _data: None
        for part in _PARTS.split():
            with suppress(ImportError):
                importlib.import_module(part)
        if "pandas" in sys.modules:
            with suppress(ImportError):
                importlib.import_module("pandas.plotting._matplotlib")
        pyplot: Any = sys.modules["matplotlib.pyplot"]
        _read_fonts_from_memory()
        _replace_introspection()
        replace_signatures({"matplotlib", "mpl_toolkits"})
        self._attach_saved_figures(pyplot)

        # A function, since matplotlib sets attributes of it.
        def show(*_: object, **__: object) -> None:
            self._attach_open_figures(pyplot)

        vars(pyplot)["show"] = show
        pyplot.switch_backend("Agg")
        sys.modules["matplotlib"].rcParams["svg.hashsalt"] = "ptc"
        _draw_everything(pyplot)

    def _attach_saved_figures(self, pyplot: Any) -> None:
        """Let ``savefig`` attach the figure if it is given a path."""
        figure_class: Any = sys.modules["matplotlib.figure"].Figure
        save = figure_class.savefig

        def savefig(figure: Any, fname: Any, *args: Any, **options: Any) -> Any:
            """Save the figure: with a path, it is attached to the result under its last part."""
            if str(options.get("format", fname)).endswith("svg"):
                # Without the date, a figure is the same in every run.
                options["metadata"] = {"Date": None, **(options.get("metadata") or {})}
            if not isinstance(fname, str | PurePath):
                return save(figure, fname, *args, **options)
            name = PurePath(str(fname)).name or "figure.png"
            suffix = PurePath(name).suffix[1:].lower()
            kind = str(options.pop("format", None) or suffix or "png").lower()
            if kind not in _FORMATS:
                known = ", ".join(sorted(_FORMATS))
                msg = f"savefig({name!r}): a script can save figures as {known}"
                raise ValueError(msg)
            buffer = io.BytesIO()
            save(figure, buffer, *args, format=kind, **options)
            self.attach(name if suffix else f"{name}.{kind}", buffer.getvalue())
            return None

        figure_class.savefig = savefig

    def _attach_open_figures(self, pyplot: Any) -> None:
        """Attach each open figure as ``figure-N.png``, and close it."""
        for number in pyplot.get_fignums():
            buffer = io.BytesIO()
            pyplot.figure(number).savefig(buffer, format="png")
            self.attach(f"figure-{number}.png", buffer.getvalue())
            pyplot.close(number)


class _NamedBytes(io.BytesIO):
    """The content of a font file. Matplotlib reads the name of a font from its file."""

    name = ""


def _read_fonts_from_memory() -> None:
    """Let fonts be read from memory: FreeType reads a file while it draws."""
    manager: Any = importlib.import_module("matplotlib.font_manager")
    real: Any = manager.ft2font
    folder = Path(sys.modules["matplotlib"].get_data_path(), "fonts", "ttf")
    contents = {os.path.realpath(path): path.read_bytes() for path in folder.glob("*.ttf")}

    def open_font(path: Any, *args: Any, **options: Any) -> Any:
        content = contents.get(os.fspath(path))
        if content is None:
            return real.FT2Font(path, *args, **options)
        file = _NamedBytes(content)
        file.name = os.fspath(path)
        return real.FT2Font(file, *args, **options)

    def is_file(path: Any) -> bool:
        return os.path.realpath(path) in contents

    manager.ft2font = ModuleView(real, FT2Font=open_font)
    # A font whose file is missing makes matplotlib search for fonts again, in a thread.
    with_fonts = ModuleView(os, path=ModuleView(os.path, isfile=is_file, exists=is_file))
    manager.os = vars(sys.modules["matplotlib._mathtext"])["os"] = with_fonts
    manager._get_font.cache_clear()


def _replace_introspection() -> None:
    """Replace what matplotlib reads of frames and functions: a worker removes it (`_internals`)."""

    def warn(message: object, category: type[Warning] | None = None) -> None:
        warnings.warn(str(message), category, stacklevel=2)

    def is_deprecated(*_: object, **__: object) -> None:
        return None

    def copy_method(method: Any, memo: dict[int, Any]) -> Any:
        # Only matplotlib copies with the library's function.
        return type(method)(bound_function(method), copy.deepcopy(bound_object(method), memo))

    # Once the interpreter's own attribute is gone, one of the function itself takes its place.
    for engine in vars(sys.modules["matplotlib.layout_engine"]).values():
        function: Any = vars(engine).get("set") if isinstance(engine, type) else None
        if function is not None:
            vars(function)["__kwdefaults__"] = keyword_defaults_of(function)
    ratio: Any = vars(sys.modules["matplotlib.axes._base"])["_AxesBase"].get_data_ratio
    vars(ratio)["__func__"] = ratio
    # A log record reads the frame of its caller.
    logging.getLogger("matplotlib").setLevel(logging.CRITICAL + 1)
    library: Any = copy
    library._deepcopy_dispatch[types.MethodType] = copy_method
    qhull = vars(sys.modules["matplotlib._qhull"])
    triangulate: Any = qhull["delaunay"]
    # Unless it is verbose, it opens /dev/null for the messages of its library.
    qhull["delaunay"] = lambda x, y, _verbose: triangulate(x, y, True)
    api = vars(sys.modules["matplotlib._api"])
    api["warn_external"], api["deprecate_method_override"] = warn, is_deprecated


def _draw_everything(pyplot: Any) -> None:
    """Draw figures of each kind, which imports what matplotlib imports on first use."""
    numbers = [1, 10, 3]
    figure, axes = pyplot.subplots(2, 3, layout="constrained")
    line, bars, picture, pie, log, dates = axes.flat
    line.plot(numbers, label="a $x^2_i$")
    line.legend()
    line.set_title("Title")
    bars.bar(["a", "b", "c"], numbers)
    figure.colorbar(picture.imshow([numbers, numbers]))
    pie.pie(numbers, labels=["a", "b", "c"])
    log.scatter(numbers, numbers)
    log.set_yscale("log")
    log.annotate("note", (1, 1), xytext=(0, 2), arrowprops={"arrowstyle": "->"})
    dates.hist(numbers)
    dates.tick_params(axis="x", rotation=45)
    figure.savefig(io.BytesIO(), format="png", bbox_inches="tight")
    pyplot.close("all")
    for scale in ("asinh", "log", "logit", "symlog"):
        pyplot.yscale(scale)
    pyplot.close("all")
    pyplot.plot(numbers)
    for kind in sorted(_FORMATS):
        with suppress(Exception):  # a format that this installation lacks
            pyplot.savefig(io.BytesIO(), format=kind)
    with suppress(Exception):  # a part that this version lacks
        figure = pyplot.figure()
        figure.tight_layout()
        figure.add_subplot(projection="3d").plot(numbers, numbers, numbers)
        figure.add_subplot(projection="polar").plot(numbers, numbers)
        figure.savefig(io.BytesIO(), format="png")
    if "pandas" in sys.modules:
        pandas: Any = sys.modules["pandas"]
        with suppress(Exception):
            index = pandas.date_range("2020-01-01", periods=3)
            pandas.DataFrame({"a": numbers}, index=index).plot()
            pyplot.savefig(io.BytesIO(), format="png")
    pyplot.close("all")
    pyplot.rcdefaults()
    sys.modules["matplotlib"].rcParams["svg.hashsalt"] = "ptc"
    pyplot.switch_backend("Agg")
