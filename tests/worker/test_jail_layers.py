"""What a jail says of its layers, and the starts that it refuses."""

from __future__ import annotations

import platform
import re
import sys

import pytest

from ptc.worker._jail import enter_zygote_jail
from ptc.worker._probe import require_layers
from ptc.worker.kernel import _seccomp

from .jailed import (
    OUT_OF_MEMORY,
    ROOT,
    Outcome,
    Refused,
    Setting,
    Zygote,
    stopped,
)

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in _seccomp.MACHINES,
    reason="the jail is for Linux on x86-64 and aarch64",
)


# --- the report ---


def test_namespaces_that_were_refused_are_reported_with_the_reason() -> None:
    zygote = Zygote(Setting(deny=("unshare",)))
    namespaces = [zygote.layers[name] for name in zygote.layers if name.startswith("namespace_")]
    assert len(namespaces) == 7
    assert not any(layer.on or layer.required for layer in namespaces)
    assert all("Operation not permitted" in layer.detail for layer in namespaces)
    assert not zygote.layers["empty_root"].on
    zygote.close()


def test_an_environment_that_was_not_empty_is_reported_by_name_only() -> None:
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
def test_process_level_does_without_what_the_kernel_lacks_and_keeps_the_rest(
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


def test_process_level_takes_an_old_landlock_and_says_what_it_leaves_open() -> None:
    zygote = Zygote(Setting("process", landlock_abi=2, deny=("unshare",)))
    layer = zygote.layers["landlock"]
    zygote.close()
    assert (layer.on, layer.required) == (True, False)
    assert "ABI 2, which leaves truncate or TCP open" in layer.detail


def test_level_for_tests_of_the_language_layer_confines_nothing() -> None:
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


def test_a_missing_landlock_stops_the_start_and_names_the_way_out() -> None:
    with pytest.raises(Refused) as refused:
        Zygote(Setting(deny=("landlock_create_ruleset",)))
    assert str(refused.value).startswith("JailError: jail layer 'landlock' is missing: ")
    assert "Linux >= 5.13 with CONFIG_SECURITY_LANDLOCK=y" in str(refused.value)
    assert 'pass the weaker isolation level "process"' in str(refused.value)


def test_an_old_landlock_will_do_only_where_namespaces_close_what_it_leaves_open() -> None:
    zygote = Zygote(Setting(landlock_abi=2))
    if zygote.layers["empty_root"].on and zygote.layers["namespace_net"].on:
        assert zygote.layers["landlock"].detail.startswith("ABI 2; EACCES")
    zygote.close()
    with pytest.raises(Refused, match=re.escape("ABI 2, which leaves truncate or TCP open")):
        Zygote(Setting(landlock_abi=2, deny=("unshare",)))


def test_a_newer_landlock_than_we_know_is_asked_for_every_right_it_has() -> None:
    zygote = Zygote(Setting(landlock_abi=99))
    assert zygote.layers["landlock"].on
    zygote.close()


def test_a_step_the_kernel_refuses_stops_the_start() -> None:
    with pytest.raises(Refused, match=r"JailError: jail layer 'start' is missing: .*capset"):
        Zygote(Setting(deny=("capset",)))


@pytest.mark.skipif(not ROOT, reason="only root has a root to leave")
def test_a_root_that_cannot_leave_root_is_refused_for_its_unbound_processes() -> None:
    zygote = Zygote(Setting(deny=("setuid", "setgid", "unshare")))
    layer = zygote.layers["processes"]
    assert (layer.on, layer.required) == (False, True)
    assert "run as an ordinary user" in layer.detail
    zygote.close()


def test_an_unknown_level_is_an_error_that_lists_the_levels() -> None:
    known = "one of ['jail', 'none', 'process'], not 'weak'"
    with pytest.raises(ValueError, match=re.escape(known)):
        enter_zygote_jail("weak", 3)


def test_a_control_socket_among_the_standard_descriptors_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 or above, not 1"):
        enter_zygote_jail("jail", 1)
