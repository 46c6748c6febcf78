"""JSON forms of the objects of numpy, pandas and pydantic, if a session offers them.

Nothing is imported here: a script can hold such an object only if its package is loaded.
"""

from __future__ import annotations

import sys
from typing import Any, Final

__all__ = ["UNKNOWN", "convert", "is_foreign"]

UNKNOWN: Final = (object(), "")
"""Returned for objects of other packages."""

_PACKAGES: Final = frozenset({"numpy", "pandas", "pydantic"})


def is_foreign(kind: type) -> bool:
    """Return True if `kind`, or a class that it extends, belongs to one of the packages."""
    if _PACKAGES.isdisjoint(sys.modules):
        return False
    return any(_package_of(base) in _PACKAGES for base in kind.__mro__)


def _package_of(kind: type) -> str:
    module = kind.__module__
    return module.partition(".")[0] if type(module) is str else ""


def convert(value: Any) -> tuple[Any, str]:
    """Convert an object of one of the packages to data whose parts may need a conversion.

    Returns:
        The data, and the shape of a table, as ``DataFrame of 3 rows and 2 columns``; `UNKNOWN` for
        any other object.

    Raises:
        Exception: Any error of the package.
    """
    if not is_foreign(type(value)):
        return UNKNOWN
    for package, convert_with in (("numpy", _numpy), ("pandas", _pandas), ("pydantic", _pydantic)):
        module = sys.modules.get(package)
        if module is not None:
            found = convert_with(module, value)
            if found is not UNKNOWN:
                return found
    return UNKNOWN


def _numpy(numpy: Any, value: Any) -> tuple[Any, str]:
    if isinstance(value, numpy.ma.MaskedArray):
        return value.tolist(), ""
    if not isinstance(value, numpy.ndarray | numpy.generic):
        return UNKNOWN
    if value.dtype.kind == "M":
        # `tolist` returns nanoseconds since 1970 as integers.
        texts = numpy.datetime_as_string(value)
        return _blank(texts.tolist()), ""
    if value.dtype.kind == "m":
        seconds = value / numpy.timedelta64(1, "s")
        return seconds.tolist() if isinstance(seconds, numpy.ndarray) else float(seconds), ""
    plain = value.tolist()
    if type(plain) is type(value):  # longdouble returns another of its kind
        return (float(value), "") if value.dtype.kind == "f" else UNKNOWN
    if isinstance(value, numpy.void) and value.dtype.names:  # a row of a structured array
        return dict(zip(value.dtype.names, plain, strict=True)), ""
    return plain, ""


def _blank(texts: Any) -> Any:
    """Replace the texts of missing dates."""
    if type(texts) is list:
        return [_blank(text) for text in texts]
    return None if texts == "NaT" else texts


def _pandas(pandas: Any, value: Any) -> tuple[Any, str]:
    if value is pandas.NA or value is pandas.NaT:
        return None, ""
    if isinstance(value, pandas.Timestamp):
        return value.isoformat(), ""
    if isinstance(value, pandas.Timedelta):
        return value.total_seconds(), ""
    if isinstance(value, pandas.DataFrame):
        rows, columns = value.shape
        return _records(pandas, value), f"DataFrame of {rows:,} rows and {columns:,} columns"
    if isinstance(value, pandas.Series):
        items = [None if missing else item for item, missing in _items(value)]
        if isinstance(value.index, pandas.RangeIndex):
            return items, ""
        return _by_index(value.index.tolist(), items), ""
    if isinstance(value, pandas.Index) or hasattr(type(value), "__array__"):
        return value.tolist(), ""
    if isinstance(value, pandas.Period | pandas.Interval):
        return str(value), ""
    return UNKNOWN


def _items(series: Any) -> Any:
    return zip(series.tolist(), series.isna().tolist(), strict=True)


def _records(pandas: Any, frame: Any) -> list[dict[Any, Any]]:
    """Return one dict for each row; an index that is not a plain count becomes columns."""
    if not isinstance(frame.index, pandas.RangeIndex):
        frame = frame.reset_index()
    names = frame.columns.tolist()
    columns = [
        [None if missing else item for item, missing in _items(frame.iloc[:, at])]
        for at in range(len(names))
    ]
    if not columns:
        return [{} for _ in range(len(frame))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _by_index(keys: list[Any], items: list[Any]) -> Any:
    """Return a dict of the items of a series, or pairs if its index has duplicates."""
    try:
        members = dict(zip(keys, items, strict=True))
    except TypeError:
        members = {}
    if len(members) == len(keys):
        return members
    return [list(pair) for pair in zip(keys, items, strict=True)]


def _pydantic(pydantic: Any, value: Any) -> tuple[Any, str]:
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(mode="python"), ""
    return UNKNOWN
