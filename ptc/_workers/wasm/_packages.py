"""Packages that the guest's interpreter comes with, by the name of their module."""

from __future__ import annotations

from typing import Final

__all__ = ["GUEST_PACKAGES"]

GUEST_PACKAGES: Final = frozenset({
    "PIL", "attr", "bs4", "charset_normalizer", "cloudpickle", "contourpy", "cycler", "dateutil",
    "defusedxml", "et_xmlfile", "fontTools", "formulaic", "html5lib", "jinja2", "joblib",
    "kiwisolver", "lxml", "markupsafe", "matplotlib", "more_itertools", "mpl_toolkits", "mpmath",
    "narwhals", "networkx", "numpy", "openpyxl", "packaging", "pandas", "patsy", "pypdf",
    "pyparsing", "regex", "reportlab", "scipy", "seaborn", "six", "sklearn", "soupsieve",
    "statsmodels", "sympy", "tabulate", "threadpoolctl", "toolz", "tqdm", "typing_extensions",
    "tzdata", "webencodings", "wrapt", "xlrd", "xlsxwriter", "xmltodict", "yaml",
})  # fmt: skip
