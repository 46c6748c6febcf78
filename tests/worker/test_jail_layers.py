"""Reported layers of a jail, and the starts that it refuses."""

from __future__ import annotations

import platform
import re
import sys

import pytest

from ptc.worker._jail import enter_zygote_jail
from ptc.worker._layers import require_layers
from ptc.worker.kernel import _seccomp

from .jail_harness import (
    OUT_OF_MEMORY,
    ROOT,
    Outcome,
    Setting,
    StartRefusedError,
    Zygote,
    stopped,
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in _seccomp.MACHINES,
    reason="the jail is for Linux on x86-64 and aarch64",
)


# --- the report ---


def test_unavailable_namespaces_are_reported_with_the_reason() -> None:
    zygote = Zygote(Setting(deny=("unshare",)))
    namespaces = [zygote.layers[name] for name in zygote.layers if name.startswith("namespace_")]
    assert len(namespaces) == 7
    assert not any(layer.on or layer.required for layer in namespaces)
    assert all("Operation not permitted" in layer.detail for layer in namespaces)
    assert not zygote.layers["empty_root"].on
    zygote.close()


def test_inherited_environment_is_reported_by_variable_name_only() -> None:
    zygote = Zygote(env={"API_KEY": "s3cret"})
    layer = zygote.layers["environment"]
    assert (layer.on, layer.required) == (False, True)
    assert "API_KEY" in layer.detail
    assert "s3cret" not in layer.detail
    zygote.close()


def test_process_level_has_every_layer_that_the_kernel_offers() -> None:
    jail, process = Zygote(Setting()), Zygote(Setting("process"))
    try:
        assert {name for name, layer in process.layers.items() if layer.on} == {
            name for name, layer in jail.layers.items() if layer.on
        }
        required = {name for name, layer in jail.layers.items() if layer.required}
        still = {name for name, layer in process.layers.items() if layer.required}
        assert required - still == {"seccomp", "landlock"}
        opens = "import os\ndef run(ctx, inputs):\n    os.open('/', os.O_RDONLY)"
        assert process.run(opens) == stopped("openat")
    finally:
        jail.close()
        process.close()


@pytest.mark.parametrize(
    ("deny", "missing"),
    [
        (("landlock_create_ruleset",), {"landlock"}),
        (("seccomp",), {"seccomp", "violation_names"}),
        (("landlock_create_ruleset", "seccomp"), {"landlock", "seccomp", "violation_names"}),
    ],
)
def test_process_level_runs_without_the_layers_the_kernel_lacks(
    deny: tuple[str, ...], missing: set[str]
) -> None:
    jail = Zygote(Setting())
    zygote = Zygote(Setting("process", deny=deny))
    try:
        usual = {name for name, layer in jail.layers.items() if layer.on}
        found = {name for name, layer in zygote.layers.items() if layer.on}
        assert usual - found == missing
        assert all(zygote.layers[name].detail for name in missing)
        require_layers(tuple(zygote.layers.values()))
        assert zygote.run(OUT_OF_MEMORY, memory_mb=64) == Outcome(0, [4, 10_000_000])
        opened = zygote.run("import os\ndef run(ctx, inputs):\n    os.open('/', os.O_RDONLY)")
        if "seccomp" in missing:
            assert "Error" in opened.error, "no descriptor, and no path"
        else:
            assert opened == stopped("openat")
    finally:
        jail.close()
        zygote.close()


def test_process_level_accepts_an_old_landlock_and_reports_its_gaps() -> None:
    zygote = Zygote(Setting("process", landlock_abi=2, deny=("unshare",)))
    layer = zygote.layers["landlock"]
    zygote.close()
    assert (layer.on, layer.required) == (True, False)
    assert "ABI 2, which leaves truncate or TCP open" in layer.detail


def test_none_level_enables_resource_limits_only() -> None:
    zygote = Zygote(Setting("none"))
    try:
        assert {name for name, layer in zygote.layers.items() if layer.on} == {
            *("memory", "cpu", "descriptors", "environment", "session", "goes_first"),
            "parent_death",
        }
        reads = "import os\ndef run(ctx, inputs):\n    return len(os.listdir('/proc/self/fd')) > 0"
        assert zygote.run(reads) == Outcome(0, True)
    finally:
        zygote.close()


# --- refusals ---


def test_missing_landlock_is_an_error_with_a_suggested_fix() -> None:
    with pytest.raises(StartRefusedError) as refused:
        Zygote(Setting(deny=("landlock_create_ruleset",)))
    assert str(refused.value).startswith("JailError: jail layer 'landlock' is missing: ")
    assert "Linux >= 5.13 with CONFIG_SECURITY_LANDLOCK=y" in str(refused.value)
    assert 'pass the weaker isolation level "process"' in str(refused.value)


def test_old_landlock_is_accepted_only_where_namespaces_close_its_gaps() -> None:
    zygote = Zygote(Setting(landlock_abi=2))
    if zygote.layers["empty_root"].on and zygote.layers["namespace_net"].on:
        assert zygote.layers["landlock"].detail.startswith("ABI 2; EACCES")
    zygote.close()
    with pytest.raises(
        StartRefusedError, match=re.escape("ABI 2, which leaves truncate or TCP open")
    ):
        Zygote(Setting(landlock_abi=2, deny=("unshare",)))


def test_landlock_newer_than_supported_is_enabled() -> None:
    zygote = Zygote(Setting(landlock_abi=99))
    assert zygote.layers["landlock"].on
    zygote.close()


def test_setup_step_refused_by_the_kernel_aborts_startup() -> None:
    with pytest.raises(
        StartRefusedError, match=r"JailError: jail layer 'start' is missing: .*capset"
    ):
        Zygote(Setting(deny=("capset",)))


@pytest.mark.skipif(not ROOT, reason="only root has a root to leave")
def test_root_without_setuid_fails_the_process_limit_layer() -> None:
    zygote = Zygote(Setting(deny=("setuid", "setgid", "unshare")))
    layer = zygote.layers["processes"]
    assert (layer.on, layer.required) == (False, True)
    assert "run as an ordinary user" in layer.detail
    zygote.close()


def test_unknown_isolation_level_error_lists_the_levels() -> None:
    known = "one of ['jail', 'none', 'process'], not 'weak'"
    with pytest.raises(ValueError, match=re.escape(known)):
        enter_zygote_jail("weak", 3)


def test_control_socket_among_standard_descriptors_is_rejected() -> None:
    with pytest.raises(ValueError, match="3 or above, not 1"):
        enter_zygote_jail("jail", 1)
