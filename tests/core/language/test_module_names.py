"""Every public name of every importable module is offered to scripts, or refused for a reason."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
import warnings
from typing import Any

import pytest

from ptc import _refused_names as refused
from ptc._language._compiler import ScriptRejected, compile_script
from ptc._policy_modules import MODULES, NEWER

# `os` is refused as a whole but for the names of the table; the packages hold only modules.
PACKAGES = {"concurrent", "urllib", "xml", "xml.etree"}

#: From "What's New" and the module pages of the documentation, for the importable modules.
DOCUMENTED = {
    (3, 12): """
        calendar.Day calendar.Month calendar.JANUARY collections.abc.Buffer csv.QUOTE_NOTNULL
        csv.QUOTE_STRINGS inspect.BufferFlags inspect.getasyncgenlocals inspect.getasyncgenstate
        inspect.markcoroutinefunction itertools.batched logging.getHandlerByName
        logging.getHandlerNames math.sumprod os.path.isjunction os.path.splitroot
        random.binomialvariate sys.activate_stack_trampoline sys.deactivate_stack_trampoline
        sys.is_stack_trampoline_active sys.monitoring types.get_original_bases
        typing.TypeAliasType typing.override asyncio.eager_task_factory
        asyncio.create_eager_task_factory
    """,
    (3, 13): """
        asyncio.QueueShutDown base64.z85decode base64.z85encode configparser.UNNAMED_SECTION
        configparser.MultilineContinuationError copy.replace math.fma mimetypes.guess_file_type
        pathlib.UnsupportedOperation queue.ShutDown re.PatternError statistics.kde
        statistics.kde_random types.CapsuleType typing.NoDefault typing.ReadOnly typing.TypeIs
        typing.get_protocol_members typing.is_protocol warnings.deprecated
    """,
    (3, 14): """
        ast.Interpolation ast.TemplateStr ast.compare asyncio.FrameCallGraphEntry
        asyncio.FutureCallGraph asyncio.capture_call_graph asyncio.format_call_graph
        asyncio.future_add_to_awaited_by asyncio.future_discard_from_awaited_by
        asyncio.print_call_graph configparser.InvalidWriteError decimal.IEEEContext
        decimal.IEEE_CONTEXT_MAX_BITS fnmatch.filterfalse functools.Placeholder heapq.heapify_max
        heapq.heappop_max heapq.heappush_max heapq.heappushpop_max heapq.heapreplace_max
        inspect.ispackage io.Reader io.Writer operator.is_none operator.is_not_none
        os.path.ALLOW_MISSING sys.is_remote_debug_enabled sys.remote_exec
        typing.evaluate_forward_ref uuid.MAX uuid.NIL uuid.uuid6 uuid.uuid7 uuid.uuid8
    """,
}

LATER = {"pickle_by_enum_name", "pickle_by_global_name"}
"""Refused names of `enum` that 3.11.2, the release of Debian 12, does not have."""


def public_names(module: str) -> set[str]:
    """Return `__all__`; without one, the names that the module defines itself."""
    real: Any = importlib.import_module(module)
    listed = getattr(real, "__all__", None)
    if listed is not None:
        return {name for name in listed if not name.startswith("_")}
    defined = (type, types.FunctionType, types.BuiltinFunctionType)
    homes = {module, f"_{module}", "builtins", None}
    return {
        name
        for name, value in vars(real).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and not (isinstance(value, defined) and value.__module__ not in homes)
        and type(value).__module__ != "__future__"
    }


@pytest.mark.parametrize("module", sorted(MODULES.keys() - PACKAGES - {"os"}))
def test_every_public_name_of_a_module_is_offered_or_refused(module: str) -> None:
    names, reasons = public_names(module), refused.REFUSED.get(module, {})
    assert sorted(names - MODULES[module] - reasons.keys()) == [], "review them, then list them"
    assert sorted(MODULES[module] & reasons.keys()) == []
    real = importlib.import_module(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated names
        missing = {name for name in {*MODULES[module], *reasons} if not hasattr(real, name)}
    assert missing - (LATER if sys.version_info < (3, 11, 7) else set()) == set()


@pytest.mark.parametrize(("version", "names"), DOCUMENTED.items(), ids=str)
def test_documented_new_name_is_offered_or_refused_from_its_version_on(
    version: tuple[int, int], names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = listed_names(version, monkeypatch)
    before = listed_names((version[0], version[1] - 1), monkeypatch)
    assert [full for full in names.split() if full not in after] == []
    assert [full for full in names.split() if full in before] == []


def listed_names(version: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return all names that the tables list for another version of Python."""
    tables = []
    with monkeypatch.context() as patched:
        patched.setattr(sys, "version_info", (*version, 0, "final", 0))
        for module, table in (("_policy_modules", "MODULES"), ("_refused_names", "REFUSED")):
            spec = importlib.util.find_spec(f"ptc.{module}")
            assert spec is not None
            assert spec.loader is not None
            loaded = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
            tables.append(getattr(loaded, table))
    return {f"{module}.{name}" for table in tables for module in table for name in table[module]}


def test_every_reason_is_a_hint_for_a_model() -> None:
    reasons = {reason for rows in refused.REFUSED.values() for reason in rows.values()}
    assert len(reasons) > 20
    assert all(len(reason) > 10 and reason[0].islower() and reason[-1] != "." for reason in reasons)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("from functools import partialmethod", "define a method that calls the other"),
        ("import gzip\ngzip.open('x')", "it accesses files, which scripts can do only through ctx"),
        ("from heapq import heapify_max", "it is new in Python 3.14, and this is Python"),
        ("import os\nos.kill(1, 9)", "it makes system calls; scripts act only through ctx"),
    ],
)
def test_refused_name_gives_its_reason(source: str, hint: str) -> None:
    if "3.14" in hint and sys.version_info >= (3, 14):
        pytest.skip("this Python has the name")
    with pytest.raises(ScriptRejected) as rejected:
        compile_script(source, require_run=False)
    assert hint in rejected.value.findings[0].hint


def test_name_of_a_later_python_is_accepted_below_a_version_test() -> None:
    full = next(iter(sorted(NEWER)), "")
    if not full:
        pytest.skip("this Python has every listed name")
    module, _, name = full.rpartition(".")
    compile_script(
        f"import sys, {module} as m\nif sys.version_info >= (3, 99):\n    m.{name}\n"
        f"    from {module} import {name}\nelse:\n    {name} = None",
        require_run=False,
    )
    with pytest.raises(ScriptRejected):
        compile_script(f"import {module} as m\nm.{name}", require_run=False)
