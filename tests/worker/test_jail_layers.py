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


def test_the_process_level_offers_limits_and_names_what_it_lacks() -> None:
    zygote = Zygote(Setting("process"))
    assert {"seccomp", "landlock"} <= {
        name for name, layer in zygote.layers.items() if not layer.on
    }
    require_layers(tuple(zygote.layers.values()))
    assert zygote.run(OUT_OF_MEMORY, memory_mb=64) == Outcome(0, [4, 10_000_000])
    assert "BlockingIOError" in zygote.run("import os\ndef run(ctx, inputs):\n    os.fork()").error
    zygote.close()


# --- refusals ---


def test_a_missing_landlock_stops_the_start_and_names_the_way_out() -> None:
    with pytest.raises(Refused) as refused:
        Zygote(Setting(deny=("landlock_create_ruleset",)))
    assert str(refused.value).startswith("JailError: jail layer 'landlock' is missing: ")
    assert "Linux >= 5.13 with CONFIG_SECURITY_LANDLOCK=y" in str(refused.value)
    assert 'name the weaker isolation level "process"' in str(refused.value)


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
    with pytest.raises(ValueError, match=re.escape("one of ['jail', 'process'], not 'none'")):
        enter_zygote_jail("none", 3)


def test_a_control_socket_among_the_standard_descriptors_is_an_error() -> None:
    with pytest.raises(ValueError, match="3 or above, not 1"):
        enter_zygote_jail("jail", 1)
